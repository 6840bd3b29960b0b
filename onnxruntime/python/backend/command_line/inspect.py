# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show a model's inputs, outputs, nodes on each execution provider, and a run command for it.

To find valid input shapes, the command tries shapes on the CPU EP for at most 20 s.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shlex
import time
from pathlib import Path

import onnx

from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import info, inputs, run
from onnxruntime.backend.command_line.output import MistakeError, Page, one_line
from onnxruntime.backend.command_line.run_page import most_frequent
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.request import of_environment
from onnxruntime.backend.session import presence

# Sizes to try for free dimensions, and the time for all tries in seconds.
_SIZES = (1, 2, 16, 32, 64, 128, 224, 256, 512, 640, 1024)
_SECONDS = 20.0
_COLUMN = 10  # of values, after their labels


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX or ORT file")
    run.add_extension(parser)


def execute(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    config = {"provider_options": {CPU: {}}, "extensions": chosen.extension}
    rep = run.prepare(chosen.model, config)
    session = rep.session
    result = {"model": chosen.model}
    result |= _of_file(Path(chosen.model))
    result["inputs"] = list(map(inputs.declared, session.get_inputs()))
    result["outputs"] = list(map(inputs.declared, session.get_outputs()))
    result["providers"] = _providers(chosen, rep)
    result["run"] = _proposal(chosen, rep)
    return result, 0


def _providers(chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep) -> list[dict[str, object]]:
    """Return the nodes of each EP. Each EP except the CPU EP runs in a separate process."""
    words = [chosen.model, "--repeat", "0"]
    for name in itertools.chain(chosen.extension, of_environment().settings.get("extensions", [])):
        words += ["--extension", name]
    kinds = presence.kinds()
    others = [name for name in kinds if name != CPU]

    nodes = (rep.node_assignment or {}).get(CPU)
    found = [_provider(CPU, kinds[CPU], nodes)]
    for name, (result, error) in info.on_each(others, words, chosen.plugin).items():
        if error:
            found.append(_provider(name, kinds[name], error=error))
            continue
        (of_ep,) = result["configurations"]
        counts = of_ep["nodes"]
        one = _provider(name, kinds[name], counts and counts.get(name, 0))
        one["operators_on_cpu"] = of_ep["operators_on_cpu"]
        one["runs_alone"] = of_ep["runs_alone"]
        found.append(one)
    return found


def _provider(name: str, kind: str, nodes: int | None = None, error: str = "") -> dict[str, object]:
    return {
        "name": name,
        "kind": kind,
        "nodes": nodes,
        "operators_on_cpu": {},
        "runs_alone": None,
        "error": error,
    }


def _of_file(path: Path) -> dict[str, object]:
    """Return the facts that the file of an ONNX model contains; of an ORT file, the size alone."""
    found = {"bytes": path.stat().st_size}
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # the classes of protobuf
        return found | dict.fromkeys(("ir_version", "opsets", "parameters"))

    opsets = {}
    for imported in model.opset_import:
        opsets[imported.domain or "ai.onnx"] = imported.version
    parameters = 0
    for tensor in model.graph.initializer:
        parameters += math.prod(tensor.dims)
    return found | {"ir_version": model.ir_version, "opsets": opsets, "parameters": parameters}


def _proposal(chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep) -> dict[str, str]:
    """Return a run command, and its error if it fails."""
    shapes, error = _working_shapes(rep)
    words = [chosen.model]
    for flag, values in (
        ("--shape", shapes),
        ("--extension", chosen.extension),
        ("--plugin", chosen.plugin),
    ):
        for value in values:
            words += [flag, value]
    command = f"python -m onnxruntime.backend run {shlex.join(words)}"
    return {"command": command, "error": error}


def _working_shapes(rep: OnnxRuntimeBackendRep) -> tuple[tuple[str, ...], str]:
    """Return the first shapes that work. If none work, return the first shapes, and the error of their run."""
    nodes = rep.session.get_inputs()
    until = time.monotonic() + _SECONDS
    tries = {}  # an ordered set
    for size, only_last in itertools.product(_SIZES, (True, False)):
        shapes = inputs.free_shapes(nodes, size, only_last=only_last)
        tries[tuple(shapes)] = None

    error = ""
    for shapes in tries:
        try:
            values = inputs.values(nodes, [], list(shapes))
            rep.run(values, timeout=max(until - time.monotonic(), 0.1))
            return shapes, ""
        except Exception as failed:  # ORT raises classes without a common base
            error = error or one_line(failed)
            if isinstance(failed, MistakeError) or time.monotonic() > until:
                break
    return next(iter(tries)), error


def show(result: dict, page: Page) -> None:
    page.add(result["model"], _COLUMN, "model")
    size = f"{result['bytes']:,} bytes"
    if result["parameters"]:  # some exporters write the parameters into Constant nodes
        size += f", {result['parameters']:,} parameters"
    page.add(size, _COLUMN, "size")
    if result["opsets"] is not None:
        opsets = [f"{domain} {version}" for domain, version in result["opsets"].items()]
        page.add(f"{', '.join(opsets)} (IR version {result['ir_version']})", _COLUMN, "opsets")
    for title in ("inputs", "outputs"):
        page.rows(title, list(map(inputs.declaration, result[title])), _COLUMN)
    for one in result["providers"]:
        _show_provider(one, page)

    page.add()
    error = result["run"]["error"]
    if error:
        page.add("This command fails. Change the shapes, or specify values with --input:")
    else:
        page.add("This command works with random inputs:")
    page.add(result["run"]["command"], 2, wrap=False)  # a shell cannot run a command that is wrapped
    if error:
        page.add(f"Its error: {error}", 2)


def _show_provider(one: dict, page: Page) -> None:
    nodes = one["nodes"]
    if one["error"]:
        taken = f"cannot run this model: {one['error']}"
    elif nodes is None:
        taken = "unknown number of nodes"
    else:
        taken = f"{nodes:,} node{'s' if nodes != 1 else ''}"
    if nodes and one["operators_on_cpu"]:
        taken += f"; on the CPU EP: {most_frequent(one['operators_on_cpu'])}"
    label = "EPs" if one["name"] == CPU else ""
    page.add(f"{one['name']} ({one['kind']}): {taken}", _COLUMN, label)
    if one["runs_alone"] is None:
        return
    if one["runs_alone"]:
        page.add(f"runs are not parallel: {one['runs_alone']}", _COLUMN + 2)
    else:
        page.add("runs of several threads are parallel", _COLUMN + 2)
