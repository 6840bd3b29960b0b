# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show a model's inputs, outputs, nodes on each execution provider, and a run command for it.

To find valid input shapes, the command tries shapes on the CPU EP for at most 20 s. It then tries the run command.
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
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.request import of_environment
from onnxruntime.backend.session import presence
from onnxruntime.backend.session.verification import most_frequent

# Sizes to try for free dimensions, and the time for all tries in seconds.
_SIZES = (1, 2, 16, 32, 64, 128, 224, 256, 512, 640, 1024)
_SECONDS = 20.0
_COLUMN = 10  # of values, after their labels


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX or ORT file")
    run.add_extension(parser)


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
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


def _providers(chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep) -> list[dict]:
    """Return the nodes of each EP. Each EP except the CPU EP runs in a separate process."""
    words = [chosen.model, "--repeat", "0"]
    for name in itertools.chain(chosen.extension, of_environment().settings.get("extensions", [])):
        words += ["--extension", name]
    kinds = presence.kinds()
    nodes = rep.node_assignment or {}
    cpu = _provider(CPU, kinds.pop(CPU))
    cpu["nodes"] = nodes.get(CPU)

    providers = [cpu]
    results = info.on_each(kinds, words, chosen.plugin)
    for name, (result, error) in results.items():
        provider = _provider(name, kinds[name])
        providers.append(provider)
        if error:
            provider["error"] = error
            continue
        (ran,) = result["configurations"]
        if ran["nodes"] is not None:
            provider["nodes"] = ran["nodes"].get(name, 0)
        for fact in ("operators_on_cpu", "runs_alone"):
            provider[fact] = ran[fact]
    return providers


def _provider(name: str, kind: str) -> dict:
    return {
        "name": name,
        "kind": kind,
        "nodes": None,
        "operators_on_cpu": {},
        "runs_alone": None,
        "error": "",
    }


def _of_file(path: Path) -> dict:
    """Return the facts that the file of an ONNX model contains; of an ORT file, the size alone."""
    facts = {
        "bytes": path.stat().st_size,
        "ir_version": None,
        "opsets": None,
        "parameters": None,
    }
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # the classes of protobuf
        return facts

    opsets = {}
    for imported in model.opset_import:
        domain = imported.domain or "ai.onnx"
        opsets[domain] = imported.version
    parameters = 0
    for tensor in model.graph.initializer:
        parameters += math.prod(tensor.dims)
    facts["ir_version"] = model.ir_version
    facts["opsets"] = opsets
    facts["parameters"] = parameters
    return facts


def _proposal(chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep) -> dict[str, str]:
    """Return a run command, its error if it fails, and the error of the same command on the default EPs.

    The command runs in a separate process, on the EPs that it uses. If it fails, the CPU EP is proposed.
    """
    shapes, error = _working_shapes(rep)
    words = [chosen.model]
    for flag, values in (("--shape", shapes), ("--extension", chosen.extension)):
        for value in values:
            words += [flag, value]

    by_default = ""
    if not error:
        by_default = _error_of(chosen, words)
    if by_default:
        words += ["--provider-option", CPU]
        error = _error_of(chosen, words)
    for value in chosen.plugin:
        words += ["--plugin", value]
    return {
        "command": f"python -m onnxruntime.backend run {shlex.join(words)}",
        "error": error,
        "error_on_default_eps": by_default,
    }


def _error_of(chosen: argparse.Namespace, words: list[str]) -> str:
    arguments = ["run", *words, "--repeat", "1"]
    _, error = info.in_child(arguments, chosen.plugin, configured=True)
    return error


def _working_shapes(rep: OnnxRuntimeBackendRep) -> tuple[list[str], str]:
    """Return the first shapes that work. If none work, return the first shapes, and the error of their run."""
    nodes = rep.session.get_inputs()
    until = time.monotonic() + _SECONDS
    tries = []
    for size, only_last in itertools.product(_SIZES, (True, False)):
        shapes = inputs.free_shapes(nodes, size, only_last=only_last)
        if shapes not in tries:
            tries.append(shapes)

    error = ""
    for shapes in tries:
        try:
            values = inputs.values(nodes, [], shapes)
            left = until - time.monotonic()
            rep.run(values, timeout=max(left, 0.1))
            return shapes, ""
        except Exception as failed:  # ORT raises classes without a common base
            error = error or one_line(failed) or type(failed).__name__
            if isinstance(failed, MistakeError) or time.monotonic() > until:
                break
    return tries[0], error


def show(result: dict, page: Page) -> None:
    page.add(result["model"], _COLUMN, "model")
    size = f"{result['bytes']:,} bytes"
    if result["parameters"]:  # some exporters write the parameters into Constant nodes
        size += f", {result['parameters']:,} parameters"
    page.add(size, _COLUMN, "size")
    _show_opsets(result, page)
    for title in ("inputs", "outputs"):
        declarations = map(inputs.declaration, result[title])
        page.rows(title, declarations, _COLUMN)
    for provider in result["providers"]:
        _show_provider(provider, page)

    page.add()
    proposal = result["run"]
    error = proposal["error"]
    if error:
        page.add("This command fails. Change the shapes, or specify values with --input:")
    else:
        page.add("This command works with random inputs:")
    page.add(proposal["command"], 2, wrap=False)  # a shell cannot run a command that is wrapped
    if error:
        page.add(f"Its error: {error}", 2)
    by_default = proposal["error_on_default_eps"]
    if by_default:
        page.add(f"Without --provider-option, the command fails: {by_default}")


def _show_opsets(result: dict, page: Page) -> None:
    if result["opsets"] is None:
        return
    opsets = []
    for domain, version in result["opsets"].items():
        opsets.append(f"{domain} {version}")
    listed = ", ".join(opsets)
    page.add(f"{listed} (IR version {result['ir_version']})", _COLUMN, "opsets")


def _show_provider(provider: dict, page: Page) -> None:
    nodes = provider["nodes"]
    on_cpu = provider["operators_on_cpu"]
    if provider["error"]:
        taken = f"cannot run this model: {provider['error']}"
    elif nodes is None:
        taken = "unknown number of nodes"
    elif nodes == 1:
        taken = "1 node"
    else:
        taken = f"{nodes:,} nodes"
    if nodes and on_cpu:
        taken += f"; on the CPU EP: {most_frequent(on_cpu)}"

    name = provider["name"]
    label = "EPs" if name == CPU else ""
    page.add(f"{name} ({provider['kind']}): {taken}", _COLUMN, label)
    runs_alone = provider["runs_alone"]
    if runs_alone:
        page.add(f"runs are not parallel: {runs_alone}", _COLUMN + 2)
    elif runs_alone is not None:
        page.add("runs of several threads are parallel", _COLUMN + 2)
