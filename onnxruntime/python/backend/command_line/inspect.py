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
from onnxruntime.backend.provider_names import AZURE, CPU
from onnxruntime.backend.request import of_environment
from onnxruntime.backend.runs import tensors
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
        "inputs": [_declared(node) for node in rep.session.get_inputs()],
        "outputs": [_declared(node) for node in rep.session.get_outputs()],
        "providers": [{"name": name, "kind": kinds[name], **found} for name, found in nodes.items()],
        "run": _proposal(chosen, rep),
    }, 0


def _declared(node) -> dict[str, object]:
    return {"name": node.name, "type": tensors.readable(node.type), "shape": list(node.shape or ())}


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


def _proposal(chosen: argparse.Namespace, rep: OnnxRuntimeBackendRep) -> dict[str, object]:
    """Return a run command, the error if it fails, and the inputs that can be the reason."""
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
    shaped = [f"shape of {inputs.declaration(node)}" for node in nodes if inputs.free_shapes([node])]
    # The command has random values for tensors only. Random integers and texts can be invalid.
    needed = [node for node in nodes if tensors.element_type(node.type) is None]
    needed = needed or [node for node in nodes if "float" not in node.type]
    valued = [f"value of {inputs.declaration(node)}" for node in needed]
    unknown = [*shaped, *valued] if error else []
    flags = (("--shape", shapes), ("--extension", chosen.extension), ("--plugin", chosen.plugin))
    pairs = [shlex.join((flag, value)) for flag, values in flags for value in values]
    # A shell cannot run a command that is wrapped without a backslash, so show does not wrap these parts.
    parts = ["python -m onnxruntime.backend run", shlex.quote(chosen.model), *pairs]
    return {"command": " ".join(parts), "parts": parts, "error": error, "unknown": unknown}


def show(result: dict, page: Page) -> None:
    page.add(result["model"], 10, "model")
    # Some exporters write the parameters into Constant nodes.
    parameters = f", {result['parameters']:,} parameters" if result["parameters"] else ""
    page.add(f"{result['bytes']:,} bytes{parameters}", 10, "size")
    if result["opsets"] is not None:
        opsets = ", ".join(f"{domain} {version}" for domain, version in result["opsets"].items())
        page.add(f"{opsets} (IR version {result['ir_version']})", 10, "opsets")
    for title in ("inputs", "outputs"):
        page.rows(title, [inputs.declaration(argparse.Namespace(**value)) for value in result[title]], 10)
    for one in result["providers"]:
        count = one["nodes"]
        taken = "unknown number of nodes" if count is None else f"{count:,} node{'s' if count != 1 else ''}"
        taken = f"cannot run this model: {one['error']}" if one["error"] else taken
        note = ", sends no data" if one["name"] == AZURE else ""
        page.add(f"{one['name']} ({one['kind']}): {taken}{note}", 10, "" if one["name"] != CPU else "EPs")
    page.add()
    found = result["run"]
    page.add("The command cannot determine the inputs:" if found["error"] else "This command works with random inputs:")
    page.rows("", found["unknown"], 2)
    page.rows("", [f"{part} \\" for part in found["parts"][:-1]] + found["parts"][-1:], 2, wrap=False)
    if found["error"]:
        page.add(f"Its error: {found['error']}", 2)
