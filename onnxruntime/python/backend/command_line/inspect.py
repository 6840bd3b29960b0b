# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show a model's inputs, outputs, nodes on each execution provider, and a run command for it.

To find valid input shapes, the command tries shapes on the CPU EP for at most 20 s.
"""

from __future__ import annotations

import argparse
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

# Sizes to try for free dimensions, and the time for all tries in seconds.
_SIZES, _SECONDS = (1, 2, 16, 32, 64, 128, 224, 256, 512, 640, 1024), 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX or ORT file")
    run.add_extension(parser)


def execute(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    rep = run.prepare(chosen.model, {"provider_options": {CPU: {}}, "extensions": chosen.extension})
    libraries = [*chosen.extension, *of_environment().get("extensions", [])]
    words = [chosen.model, "--repeat", "0", *(word for name in libraries for word in ("--extension", name))]
    kinds = presence.kinds()
    nodes = {CPU: {"nodes": (rep.node_assignment or {}).get(CPU), "error": ""}}
    for name, (result, error) in info.on_each([name for name in kinds if name != CPU], words, chosen.plugin).items():
        counts = result["configurations"][0]["nodes"] if result else None
        nodes[name] = {"nodes": counts and counts.get(name, 0), "error": error}
    return {
        "model": chosen.model,
        **_of_file(Path(chosen.model)),
        "inputs": list(map(inputs.declared, rep.session.get_inputs())),
        "outputs": list(map(inputs.declared, rep.session.get_outputs())),
        "providers": [{"name": name, "kind": kinds[name], **found} for name, found in nodes.items()],
        "run": _proposal(chosen, rep),
    }, 0


def _of_file(path: Path) -> dict[str, object]:
    """Return the facts that the file of an ONNX model contains; of an ORT file, the size alone."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # the classes of protobuf
        model = None
    return {
        "bytes": path.stat().st_size,
        "ir_version": model and model.ir_version,
        "opsets": model and {imported.domain or "ai.onnx": imported.version for imported in model.opset_import},
        "parameters": model and sum(math.prod(tensor.dims) for tensor in model.graph.initializer),
    }


def _proposal(chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep) -> dict[str, str]:
    """Return a run command, and its error if it fails."""
    nodes, until = rep.session.get_inputs(), time.monotonic() + _SECONDS
    tries = [inputs.free_shapes(nodes, size, only_last=last) for size in _SIZES for last in (True, False)]
    shapes, error = tries[0], ""
    for tried in dict.fromkeys(map(tuple, tries)):
        try:
            rep.run(inputs.values(nodes, [], [*tried]), timeout=max(until - time.monotonic(), 0.1))
            shapes, error = tried, ""
            break
        except Exception as failed:  # ORT raises classes without a common base
            error = error or one_line(failed)
            if isinstance(failed, MistakeError) or time.monotonic() > until:
                break
    flags = (("--shape", shapes), ("--extension", chosen.extension), ("--plugin", chosen.plugin))
    words = [word for flag, values in flags for value in values for word in (flag, value)]
    return {"command": f"python -m onnxruntime.backend run {shlex.join([chosen.model, *words])}", "error": error}


def show(result: dict, page: Page) -> None:
    page.add(result["model"], 10, "model")
    # Some exporters write the parameters into Constant nodes.
    parameters = f", {result['parameters']:,} parameters" if result["parameters"] else ""
    page.add(f"{result['bytes']:,} bytes{parameters}", 10, "size")
    if result["opsets"] is not None:
        opsets = ", ".join(f"{domain} {version}" for domain, version in result["opsets"].items())
        page.add(f"{opsets} (IR version {result['ir_version']})", 10, "opsets")
    for title in ("inputs", "outputs"):
        page.rows(title, [inputs.declaration(value) for value in result[title]], 10)
    for one in result["providers"]:
        count = one["nodes"]
        taken = "unknown number of nodes" if count is None else f"{count:,} node{'s' if count != 1 else ''}"
        taken = f"cannot run this model: {one['error']}" if one["error"] else taken
        page.add(f"{one['name']} ({one['kind']}): {taken}", 10, "" if one["name"] != CPU else "EPs")
    page.add()
    error = result["run"]["error"]
    advice = "This command fails. Change the shapes, or specify values with --input:"
    page.add(advice if error else "This command works with random inputs:")
    page.add(result["run"]["command"], 2, wrap=False)  # a shell cannot run a command that is wrapped
    if error:
        page.add(f"Its error: {error}", 2)
