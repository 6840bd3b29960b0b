# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show a model's inputs, outputs, nodes on each execution provider, and a run command for it.

To find valid input shapes, the command tries shapes on the CPU EP for at most 20 s. It then tries the run command. If
--provider-option enables graph capture, the command shows whether the model can be captured.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping
from pathlib import Path

import onnx

from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import info, inputs, run, run_proposal
from onnxruntime.backend.command_line.output import Page
from onnxruntime.backend.command_line.run_proposal import Proposal
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CPU
from onnxruntime.backend.request import of_environment
from onnxruntime.backend.session import presence
from onnxruntime.backend.session.nodes import most_frequent

_COLUMN = 10  # of values, after their labels


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX or ORT file")
    run.add_setting(parser, "provider_options")
    run.add_extension(parser)


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    if chosen.model.startswith("-"):  # `run` would read an option
        chosen.model = os.path.join(os.curdir, chosen.model)
    config = {"provider_options": {CPU: {}}, "extensions": chosen.extension}
    rep = run.prepare(chosen.model, config)
    session = rep.session
    result = {"model": chosen.model}
    result |= _of_file(Path(chosen.model))
    result["inputs"] = list(map(inputs.declared, session.get_inputs()))
    result["outputs"] = list(map(inputs.declared, session.get_outputs()))
    requested = run.add_settings({}, "provider_options", chosen.provider_options)
    proposal = run_proposal.find(chosen, rep)
    result["providers"] = _providers(chosen, rep, requested, proposal)
    result["run"] = proposal.as_data(chosen)
    return result, 0


def _providers(
    chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep, requested: dict[str, dict], proposal: Proposal
) -> list[dict]:
    """Return the nodes of each EP. Each EP except the CPU EP runs in a separate process.

    The requested EPs run with the flags of the proposed command if the command works on these EPs.
    """
    words = [chosen.model, "--repeat", "0"]
    words += info.repeated("--extension", chosen.extension)
    words += info.repeated("--extension", of_environment().get("extensions", []))
    words += info.repeated("--plugin", chosen.plugin)
    kinds = presence.kinds()
    nodes: Mapping[str, int] = rep.node_assignment or {}
    cpu = _provider(CPU, kinds.pop(CPU))
    cpu["nodes"] = nodes.get(CPU)

    providers = [cpu]
    as_requested = not proposal.error and proposal.options == chosen.provider_options
    flags = {}
    if as_requested:
        flags = dict.fromkeys(requested, proposal.flags)
    results = info.on_each(kinds, words, flags)
    for name, (result, error) in results.items():
        provider = _provider(name, kinds[name])
        providers.append(provider)
        switch = requested.get(name, {}).get(CAPTURE_SWITCHES.get(name), "")
        if is_on(str(switch)):
            provider["captures"] = as_requested
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
        "captures": None,
        "error": "",
    }


def _of_file(path: Path) -> dict:
    """Return the facts that the file of an ONNX model contains, or the size of an ORT file."""
    facts: dict[str, object] = {"bytes": path.stat().st_size, "ir_version": None, "opsets": None, "parameters": None}
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
    proposal = result["run"]
    for provider in result["providers"]:
        _show_provider(provider, proposal["free_dimensions"], page)

    page.add()
    error = proposal["error"]
    if error:
        page.add("This command fails. Change the shapes, or specify values with --input:")
    else:
        page.add("This command works with random inputs:")
    page.add_command(proposal["command"])
    if error:
        page.add(f"Its error: {error}", 2)
    shown = [error]
    for provider in result["providers"]:
        shown.append(provider["error"])
    first_error = proposal["first_error"]
    if first_error:
        flags = proposal["first_flags"]
        place = f"With {flags}" if flags else "Without --provider-option"
        text = " with the error above" if first_error in shown else f": {first_error}"
        page.add(f"{place}, the command fails{text}")


def _show_opsets(result: dict, page: Page) -> None:
    if result["opsets"] is None:
        return
    opsets = []
    for domain, version in result["opsets"].items():
        opsets.append(f"{domain} {version}")
    listed = ", ".join(opsets)
    page.add(f"{listed} (IR version {result['ir_version']})", _COLUMN, "opsets")


def _show_provider(provider: dict, sizes: dict[str, int], page: Page) -> None:
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
    if provider["captures"]:
        fixed = ", ".join(f"{name}={size}" for name, size in sizes.items())
        suffix = f" with {fixed}" if fixed else ""
        page.add(f"graphs are captured{suffix}", _COLUMN + 2)
    elif provider["captures"] is not None and not provider["error"]:
        page.add("graphs are not captured", _COLUMN + 2)
