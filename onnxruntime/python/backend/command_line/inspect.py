# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Show a model's inputs and outputs, and the number of its nodes that each execution provider takes.

Each execution provider has its own process, which it may crash.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

from onnxruntime.backend.allowlist.tables import LIBRARIES, TRUSTED
from onnxruntime.backend.applied.nodes import most_frequent
from onnxruntime.backend.command_line.output import Cell, Table, pairs
from onnxruntime.backend.command_line.run import add_libraries
from onnxruntime.backend.comparison.inputs import declaration
from onnxruntime.backend.environment import variable
from onnxruntime.backend.errors import ENVIRONMENT
from onnxruntime.backend.session import presence

_SECONDS = 120  # enough to load an EP's libraries from a slow disk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX or ORT file")
    add_libraries(parser)


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    providers, result = try_each(chosen.model, 0, chosen)
    if not result:
        raise RuntimeError(providers[-1]["reason"])
    outputs = result["configurations"][0]["outputs"]
    return {"model": chosen.model, "inputs": result["inputs"], "outputs": outputs, "providers": providers}, 0


def try_each(model: str, repeat: int, chosen: argparse.Namespace) -> tuple[list[dict], dict]:
    """Return each EP of this process, with its nodes of the model or the reason if it fails, and one of the results.

    Of the configuration of the environment, only the libraries and the part "trusted" apply. The EPs run one after the
    other, because several copies of a large model may not fit into the memory.
    """
    specified = variable.read()
    config = {part: specified[part] for part in (*LIBRARIES, TRUSTED) if part in specified}
    variables = os.environ | {ENVIRONMENT: json.dumps(config)}
    words = [f"--plugin={name}" for name in chosen.plugin] + [f"--extension={name}" for name in chosen.extension]
    providers = []
    last: dict = {}
    for name, kind in presence.kinds().items():
        result, reason = in_child(
            ["run", f"--ep={name}", f"--repeat={repeat}", *words, "--json", "--", model], variables
        )
        devices = [{"type": one.device.type.name, "vendor": one.device.vendor} for one in presence.plugin_devices(name)]
        found = {"name": name, "kind": kind, "devices": devices, "works": not reason, "reason": reason}
        for ran in result.get("configurations", ()):
            last = result
            found |= {fact: ran[fact] for fact in ("operators_on_cpu", "runs_alone")}
            found["nodes"] = ran["nodes"] and ran["nodes"].get(name, 0)
        providers.append(found)
    return providers, last


def in_child(arguments: list[str], variables: Mapping[str, str]) -> tuple[dict, str]:
    """Return the result of a command in another process, and the reason if it fails."""
    command = [sys.executable, "-m", "onnxruntime.backend", *arguments]
    try:
        ran = subprocess.run(command, capture_output=True, env=variables, timeout=_SECONDS, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        reason = "the process " + str(error).rpartition("' ")[2]  # without the command
        with contextlib.suppress(ValueError, KeyError):  # a crash leaves no JSON, or none of an error
            reason = json.loads(error.stdout or "")["error"]["message"]
        return {}, reason
    return json.loads(ran.stdout), ""


def tables(result: dict) -> Iterator[Table]:
    facts = {name: list(map(declaration, result[name])) for name in ("inputs", "outputs")}
    yield pairs({"model": result["model"], **facts})
    yield table(result["providers"])


def table(providers: list[dict]) -> Table:
    rows = []
    for one in providers:
        notes = [one["reason"]]
        notes += [f"{device['type']} of {device['vendor'] or 'unnamed vendor'}" for device in one["devices"]]
        if one.get("nodes") and one["operators_on_cpu"]:
            notes.append(f"on the CPU EP: {most_frequent(one['operators_on_cpu'])}")
        if one.get("runs_alone"):
            notes.append(f"runs are not parallel: {one['runs_alone']}")
        state = Cell("works", "good") if one["works"] else Cell("fails", "bad")
        nodes = "" if one.get("nodes") is None else str(one["nodes"])
        rows.append((Cell(one["name"], "name"), one["kind"], state, nodes, "; ".join(filter(None, notes))))
    return Table(rows, ("execution provider", "kind", "state", "nodes", "notes"))
