# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Validate a configuration without a model, for this ORT version and this machine.

The EPs do not have to be available. The command does not import or load packages and libraries that the configuration
contains. It prints the first 20 problems, each on one line. If there are problems, the exit status is 1. To validate
the environment variable, run: check "$ORT_ONNX_BACKEND_CONFIG".
"""

from __future__ import annotations

import argparse
import platform
import sys

import onnxruntime
from onnxruntime.backend import __version__, packages
from onnxruntime.backend.allowlist.tables import KEYWORDS, LIBRARIES
from onnxruntime.backend.command_line import configurations
from onnxruntime.backend.command_line.output import Page
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.errors import Place


def add_arguments(parser: argparse.ArgumentParser) -> None:
    use = """an object such as '{"session_options": {"logid": "a"}}', a file that contains one, or - for stdin"""
    parser.add_argument("configuration", metavar="FILE|JSON|-", help=use)


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    settings, problems = configurations.validate(chosen.configuration)
    result = {
        "permitted": not problems,
        "problems": problems,
        "warnings": [],
        "onnxruntime": onnxruntime.__version__,
        "backend": __version__,
        "machine": platform.machine(),
    }
    result |= settings
    return result, 1 if problems else 0


def show(result: dict, page: Page) -> None:
    """Print problems on stderr, and the settings of a valid configuration."""
    for problem in result["problems"]:
        print(f"error: {problem['message']}", file=sys.stderr)
    if result["problems"]:
        return

    settings = _settings(result)
    content = "ORT would receive:" if settings else "The configuration is empty."
    page.add(f"Valid for ORT {result['onnxruntime']} on {result['machine']}. {content}")
    for title, entries in settings.items():
        page.add(title, 2)
        for key, value in entries.items():
            text = "" if value is None else f" = {value}"
            page.add(f"{key}{text}", 6)
    for one in result["provider_options"]:
        if not one["available"]:
            page.add(f"{one['name']} is absent. {packages.advice(one['name'])}")
    if result["permit"] is not None:
        _show_permit(result["permit"], page)


def _settings(result: dict) -> dict[str, dict]:
    """Return the settings of each EP, and of each other keyword argument. A library has no value."""
    found = {}
    for one in result["provider_options"]:
        kind = one["kind"]
        if not one["available"]:
            kind += ", not available in this process"
        found[f"{one['name']} ({kind})"] = one["options"]
    for keyword in KEYWORDS[1:]:
        if result[keyword]:
            found[keyword] = result[keyword]
    for keyword in LIBRARIES:
        if result[keyword]:
            found[keyword] = dict.fromkeys(result[keyword])
    return found


def _show_permit(permit: dict, page: Page) -> None:
    page.add("Callers may set:" if permit else "Callers may not set anything.")
    for keyword, ep, names in configuration.tables(permit):
        page.add(str(Place(keyword, ep)), 2)
        for name, values in names.items():
            if values is not True:
                name += f" = {' or '.join(map(str, values))}"  # noqa: PLW2901
            page.add(name, 6)
