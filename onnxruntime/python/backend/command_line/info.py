# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show versions, the execution providers of this process, and whether a small model runs with each of them."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from onnx import parser

import onnxruntime
from onnxruntime.backend import __version__
from onnxruntime.backend.command_line import configurations
from onnxruntime.backend.command_line.output import Page
from onnxruntime.backend.errors import ENVIRONMENT, warn
from onnxruntime.backend.provider_names import AZURE
from onnxruntime.backend.session import presence

_COLUMN = 13  # of values, after their labels
_SECONDS = 120  # enough to load an EP's libraries from a slow disk
_VARIABLES = (
    ENVIRONMENT,
    "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS",
    "ORT_LOAD_CONFIG_FROM_MODEL",
    "ALLOW_RELEASED_ONNX_OPSET_ONLY",
)
# A model that every EP can run.
_TWO_NODES = """<ir_version: 7, opset_import: ["": 13]>
two_nodes (float[1, 4] X) => (float[1, 4] Y) { Z = Neg(X) Y = Abs(Z) }"""


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    kinds = presence.kinds()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.onnx")
        model.write_bytes(parser.parse_model(_TWO_NODES).SerializeToString())
        words = [str(model), "--repeat", "1"]
        words += repeated("--plugin", chosen.plugin)
        tried = on_each(kinds, words, {})
    wheels = _wheels()
    if len(wheels) > 1:
        warn(f"Several bases in one environment overwrite each other: {', '.join(wheels)}. Uninstall all, install one")

    environment = {}
    for name in _VARIABLES:
        if name in os.environ:
            environment[name] = os.environ[name]
    _, problems = configurations.validate(os.environ.get(ENVIRONMENT, ""))
    providers = []
    for name, kind in kinds.items():
        _, reason = tried[name]
        providers.append(_provider(name, kind, reason))
    return {
        "onnxruntime": onnxruntime.__version__,
        "backend": __version__,
        "wheels": wheels,
        "onnx": importlib.metadata.version("onnx"),
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": onnxruntime.get_device(),
        "environment": environment,
        "problems": problems,
        "providers": providers,
    }, 0


def _wheels() -> list[str]:
    """Return the name and version of each distribution that contains ORT."""
    distributions = importlib.metadata.packages_distributions()
    wheels = set()
    for name in distributions.get("onnxruntime", ()):
        wheels.add(f"{name} {importlib.metadata.version(name)}")
    return sorted(wheels)


def _provider(name: str, kind: str, reason: str) -> dict:
    devices = []
    for one in presence.plugin_devices(name):
        device = {"type": one.device.type.name, "vendor": one.device.vendor}
        devices.append(device)
    return {"name": name, "kind": kind, "devices": devices, "works": not reason, "reason": reason}


def on_each(eps: Iterable[str], arguments: list[str], flags: Mapping[str, list[str]]) -> dict[str, tuple[dict, str]]:
    """Return the result of ``run`` on each EP, and the reason if it fails. An EP can have separate flags."""

    def try_ep(ep: str) -> tuple[dict, str]:
        of_ep = flags.get(ep, ["--provider-option", ep])
        return in_child(["run", *arguments, *of_ep])

    with ThreadPoolExecutor(max_workers=4) as workers:
        return dict(zip(eps, workers.map(try_ep, eps), strict=True))


def repeated(flag: str, values: Iterable[str]) -> list[str]:
    """Return an option of a command for each value."""
    words = []
    for value in values:
        words += [flag, value]
    return words


def in_child(arguments: list[str], *, configured: bool = False) -> tuple[dict, str]:
    """Return the result of a command in another process, which an EP may crash, and the reason if it fails.

    :param configured: whether the configuration of the environment applies.
    """
    command = [sys.executable, "-m", "onnxruntime.backend"]
    command += [*arguments, "--json"]
    environment = dict(os.environ)
    if not configured:
        environment.pop(ENVIRONMENT, None)
    try:
        ran = subprocess.run(command, capture_output=True, env=environment, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {}, f"the process did not end within {_SECONDS} s"
    if ran.returncode == 0:
        return json.loads(ran.stdout), ""

    reason = _ended(ran.returncode)
    with contextlib.suppress(ValueError):  # a crash leaves no JSON
        reason = json.loads(ran.stdout)["error"]["message"]
    return {}, reason


def _ended(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    name = str(-status)
    with contextlib.suppress(ValueError):  # some signals have no name
        name = signal.Signals(-status).name
    return f"the process was terminated by signal {name}"


def show(result: dict, page: Page) -> None:
    wheels = ", ".join(result["wheels"]) or "not from a wheel"
    page.add(f"{result['onnxruntime']} ({wheels})", _COLUMN, "onnxruntime")
    page.add(f"{result['python']} on {result['system']}, {result['machine']}", _COLUMN, "Python")
    for name in ("backend", "onnx", "numpy", "device"):
        page.add(result[name], _COLUMN, name)
    variables = []
    for name, value in result["environment"].items():
        variables.append(f"{name}={ascii(value)[1:-1]}")
    page.rows("environment", variables, _COLUMN)
    for problem in result["problems"]:
        page.add(f"invalid: {problem['message']}", _COLUMN)

    page.add()
    page.add("Execution providers of this process")
    kinds = set()
    for provider in result["providers"]:
        kinds.add(provider["kind"])
        _show_provider(provider, page)
    if "plugin" not in kinds:
        page.add("no plugin EP available (use --plugin)", 2)


def _show_provider(provider: dict, page: Page) -> None:
    page.add(f"{provider['name']} ({provider['kind']})", 2)
    if not provider["works"]:
        page.add(f"not available: {provider['reason']}", 6)
    elif provider["name"] == AZURE:
        page.add("available, but takes no node of ordinary models, and then sends no data", 6)
    else:
        page.add("available", 6)
    for index, device in enumerate(provider["devices"]):
        vendor = device["vendor"] or "unnamed vendor"
        page.add(f"device {index}: {device['type']} of {vendor}", 6)
