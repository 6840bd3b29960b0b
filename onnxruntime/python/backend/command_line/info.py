# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show versions, the execution providers of this process, and whether a small model runs with each of them."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from onnx import parser

import onnxruntime
from onnxruntime.backend import __version__
from onnxruntime.backend.command_line import configurations
from onnxruntime.backend.command_line.output import Page
from onnxruntime.backend.errors import warn
from onnxruntime.backend.provider_names import AZURE
from onnxruntime.backend.request import ENVIRONMENT
from onnxruntime.backend.session import failures, presence

_SECONDS = 120  # enough to load an EP's libraries from a slow disk
_VARIABLES = (ENVIRONMENT, "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS", "ORT_LOAD_CONFIG_FROM_MODEL")
_VARIABLES += ("ALLOW_RELEASED_ONNX_OPSET_ONLY", *failures.SESSION_VARIABLES)
# A model that every EP can run.
_TWO_NODES = """<ir_version: 7, opset_import: ["": 13]>
two_nodes (float[1, 4] X) => (float[1, 4] Y) { Z = Neg(X) Y = Abs(Z) }"""


def execute(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    kinds = presence.kinds()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.onnx")
        model.write_bytes(parser.parse_model(_TWO_NODES).SerializeToString())
        tried = on_each(kinds, [str(model), "--repeat", "1"], chosen.plugin)
    names = set(importlib.metadata.packages_distributions().get("onnxruntime", ()))
    wheels = sorted(f"{name} {importlib.metadata.version(name)}" for name in names)
    if len(wheels) > 1:
        warn(f"Several bases in one environment overwrite each other: {', '.join(wheels)}. Uninstall all, install one")
    return {
        "onnxruntime": onnxruntime.__version__,
        "backend": __version__,
        "wheels": wheels,
        **{name: importlib.metadata.version(name) for name in ("onnx", "numpy")},
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": onnxruntime.get_device(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "problems": configurations.validate(os.environ.get(ENVIRONMENT, ""))[1],
        "providers": [
            {
                "name": name,
                "kind": kind,
                "devices": [
                    {"type": one.device.type.name, "vendor": one.device.vendor} for one in presence.plugin_devices(name)
                ],
                "works": not tried[name][1],
                "reason": tried[name][1],
            }
            for name, kind in kinds.items()
        ],
    }, 0


def on_each(eps: Iterable[str], arguments: list[str], plugins: list[str]) -> dict[str, tuple[dict, str]]:
    """Return the result of ``run`` on each EP, and the reason if it fails."""
    with ThreadPoolExecutor(max_workers=4) as workers:
        words = [["run", *arguments, "--provider-option", ep] for ep in eps]
        return dict(zip(eps, workers.map(lambda one: in_child(one, plugins), words), strict=True))


def in_child(arguments: list[str], plugins: list[str]) -> tuple[dict, str]:
    """Return the result of a command in another process, which an EP may crash, and the reason if it fails."""
    command = [sys.executable, "-m", "onnxruntime.backend", *arguments, "--json"]
    command += [word for plugin in plugins for word in ("--plugin", plugin)]
    environment = {key: value for key, value in os.environ.items() if key != ENVIRONMENT}
    try:
        ran = subprocess.run(command, capture_output=True, env=environment, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {}, f"the process did not end within {_SECONDS} s"
    if ran.returncode == 0:
        return json.loads(ran.stdout), ""
    lines = [line for line in ran.stderr.decode(errors="backslashreplace").splitlines() if line.startswith("error: ")]
    return {}, lines[-1].removeprefix("error: ") if lines else f"the process ended with status {ran.returncode}"


def show(result: dict, page: Page) -> None:
    page.add(f"{result['onnxruntime']} ({', '.join(result['wheels']) or 'not from a wheel'})", 13, "onnxruntime")
    page.add(f"{result['python']} on {result['system']}, {result['machine']}", 13, "Python")
    for name in ("backend", "onnx", "numpy", "device"):
        page.add(result[name], 13, name)
    page.rows("environment", [f"{name}={ascii(value)[1:-1]}" for name, value in result["environment"].items()], 13)
    for problem in result["problems"]:
        page.add(f"invalid: {problem['message']}", 13)
    page.add()
    page.add("Execution providers of this process")
    for provider in result["providers"]:
        page.add(f"{provider['name']} ({provider['kind']})", 2)
        note = ", but takes no node of ordinary models, and then sends no data" if provider["name"] == AZURE else ""
        page.add(f"available{note}" if provider["works"] else f"not available: {provider['reason']}", 6)
        for index, device in enumerate(provider["devices"]):
            page.add(f"device {index}: {device['type']} of {device['vendor'] or 'unnamed vendor'}", 6)
    if all(provider["kind"] != "plugin" for provider in result["providers"]):
        page.add("no plugin EP available (use --plugin)", 2)
