# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend info``: versions, and which EPs of this process open a session, and why not."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from onnx import TensorProto, helper

import onnxruntime
from onnxruntime.backend.command_line.shared import (
    PROGRAM,
    MistakeError,
    Page,
    judge,
    kinds_here,
    permitted_of,
    providers_known,
    read_configuration,
)
from onnxruntime.backend.request import ENVIRONMENT
from onnxruntime.backend.session import presence

_VARIABLES = (
    ENVIRONMENT,
    "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS",
    "ORT_LOAD_CONFIG_FROM_MODEL",
    "ALLOW_RELEASED_ONNX_OPSET_ONLY",
)
# In seconds: enough to load an EP's libraries from a slow disk.
_LONGEST_TRY = 120


def add_to(commands: argparse._SubParsersAction, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser.

    :param commands: the parser's commands.
    :param shared: a parser of the options that all commands have.
    """
    parser = commands.add_parser(
        "info", parents=[shared], help="versions, and the EPs of this process",
        description="Versions, and the EPs of this process: which open a session here, and why the others do not.",
        usage="%(prog)s ...",
    )  # fmt: skip
    parser.set_defaults(command=command, tell=tell, parser=parser)


def version() -> str:
    """ORT's version, and that of the wheel it comes from."""
    return f"onnxruntime {onnxruntime.__version__} ({', '.join(_wheels()) or 'not from a wheel'})"


def _wheels() -> list[str]:
    names = set(importlib.metadata.packages_distributions().get("onnxruntime", ()))
    return sorted(f"{name} {importlib.metadata.version(name)}" for name in names)


def command(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    """Run the command.

    :return: the result and the exit status.
    """
    here = kinds_here()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=4) as workers:
        model = Path(folder, "model.onnx")
        model.write_bytes(_two_nodes())
        tries = {name: workers.submit(_try, name, model, chosen.plugin) for name in here}
    providers = [
        {
            "name": name,
            "kind": kind,
            "permitted": permitted_of(name, kind),
            "devices": [
                {"type": device.device.type.name, "vendor": device.device.vendor}
                for device in presence.plugin_devices(name)
            ],
            **tries[name].result(),
        }
        for name, kind in here.items()
    ]
    result = {
        "onnxruntime": onnxruntime.__version__,
        "wheels": _wheels(),
        **{name: importlib.metadata.version(name) for name in ("onnx", "numpy")},
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": onnxruntime.get_device(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "problems": _problems_of_environment(),
        "providers": providers,
        "plugins_without_a_device": [name for name, found in chosen.registered.items() if not found],
        "not_in_this_process": [name for name in providers_known() if name not in here],
    }
    return result, 0


def _problems_of_environment() -> list[str]:
    try:
        return judge(read_configuration(os.environ.get(ENVIRONMENT) or "{}"))[1]
    except MistakeError as mistake:
        return [str(mistake)]


def _two_nodes() -> bytes:
    """A model that every EP can run: ``Y = abs(-X)`` on float32."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "XY"]
    nodes = [helper.make_node("Neg", ["X"], ["Z"]), helper.make_node("Abs", ["Z"], ["Y"])]
    graph = helper.make_graph(nodes, "tried", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7).SerializeToString()


def _try(name: str, model: Path, plugins: list[str]) -> dict[str, object]:
    """Open a session with an EP, in a process of its own: one that crashes, or never ends, is told as that."""
    asked = ["run", str(model), "--config", json.dumps({"provider_options": {name: {}}}), "--repeat", "1", "--json"]
    asked += [word for plugin in plugins for word in ("--plugin", plugin)]
    environment = {key: value for key, value in os.environ.items() if key != ENVIRONMENT}
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "onnxruntime.backend", *asked],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            env=environment,
            timeout=_LONGEST_TRY,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"opens": False, "reason": f"no end within {_LONGEST_TRY} s"}
    if ran.returncode == 0:
        return {"opens": True, "reason": ""}
    said = [line.removeprefix("error: ") for line in ran.stderr.splitlines() if line.startswith("error: ")]
    return {"opens": False, "reason": said[-1] if said else f"its process ended with {ran.returncode}"}


def tell(result: dict, page: Page) -> None:
    """Write the result for a person."""
    wheels = ", ".join(result["wheels"]) or "not from a wheel"
    page.line(f"onnxruntime  {result['onnxruntime']} ({wheels})")
    for name in ("onnx", "numpy"):
        page.line(f"{name:12} {result[name]}")
    page.line(f"{'Python':12} {result['python']} on {result['system']}, {result['machine']}")
    page.line(f"{'device':12} {result['device']}")
    for name, value in result["environment"].items():
        page.paragraph(f"{name}={ascii(value)[1:-1]}", " " * 13, "environment  ")
    for problem in result["problems"]:
        page.paragraph(f"cannot be used: {problem}", " " * 13)

    page.line()
    page.line("Execution providers of this process")
    for provider in result["providers"]:
        page.line(f"  {provider['name']} ({provider['kind']})")
        page.paragraph("opens a session" if provider["opens"] else f"opens none: {provider['reason']}", " " * 6)
        page.paragraph(f"options that may be set: {provider['permitted'] or 'none'}", " " * 6)
        for index, device in enumerate(provider["devices"]):
            page.paragraph(f"device {index}: {device['type']} of {device['vendor'] or 'unnamed vendor'}", " " * 6)
    for name in result["plugins_without_a_device"]:
        page.paragraph(f"{name} is registered, and found no device here that it supports", "    ", "  ")
    if not any(provider["kind"] == "plugin" for provider in result["providers"]):
        page.line("  no plugin in use, which --plugin would add")
    page.line()
    page.line("Known, but not in this process")
    page.paragraph(", ".join(name.removesuffix("ExecutionProvider") for name in result["not_in_this_process"]), "  ")
    page.line()
    page.line(f"Next: {PROGRAM} options")
