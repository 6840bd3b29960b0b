# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Validate a configuration without a model, for this ORT version and this machine.

The EPs do not have to be available. The command does not import or load packages and libraries that the configuration
contains. It prints the first 20 problems, each on one line. If there are problems, the exit status is 1. To validate
the environment variable, run: check "$ORT_ONNX_BACKEND_CONFIG".
"""

import argparse
import platform
import sys
from collections.abc import Iterator

import onnxruntime
from onnxruntime.backend import __version__, packages
from onnxruntime.backend.allowlist.tables import KEYWORDS, LIBRARIES, PERMIT, TRUSTED
from onnxruntime.backend.command_line import configurations
from onnxruntime.backend.command_line.output import Table, entries, pairs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    use = """an object such as '{"session_options": {"logid": "a"}}', or a file that contains one"""
    parser.add_argument("configuration", metavar="FILE|JSON", help=use)


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
    return result | settings, 1 if problems else 0


def tables(result: dict) -> Iterator[Table]:
    """Print problems on stderr, and yield the settings of a valid configuration."""
    for problem in result["problems"]:
        print(f"error: {problem['message']}", file=sys.stderr)
    if result["problems"]:
        return

    sent: dict = {}
    for one in result["provider_options"]:
        kind = one["kind"] if one["available"] else f"absent. {packages.advice(one['name'])}"
        sent[one["name"]] = [kind, *entries(one["options"])]
    for keyword in (*KEYWORDS[1:], *LIBRARIES):
        sent[keyword] = result[keyword]
    if result[PERMIT] is not None:
        sent["callers may set"] = list(entries(result[PERMIT])) or ["nothing"]
    sent["trusted, unchecked"] = result[TRUSTED]
    yield pairs(sent, f"Valid for ORT {result['onnxruntime']} on {result['machine']}")
