# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs a model on each execution provider (EP), in a process of its own, which an EP may crash."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from onnxruntime.backend.applied.nodes import most_frequent
from onnxruntime.backend.command_line.output import Cell, Table
from onnxruntime.backend.environment import variable
from onnxruntime.backend.errors import ENVIRONMENT
from onnxruntime.backend.session import presence

_SECONDS = 120  # enough to load an EP's libraries from a slow disk


def try_each(model: str, repeat: int, chosen: argparse.Namespace) -> list[dict]:
    """Return each EP of this process, with its devices, its nodes of the model, and the reason if it fails.

    Of the configuration of the environment, only the libraries and the part "trusted" apply.
    """
    config: dict = {"plugins": chosen.plugin, "extensions": chosen.extension}
    with contextlib.suppress(RuntimeError):  # a mistake in the environment
        specified = variable.read()
        config = {keyword: [*names, *specified.get(keyword, ())] for keyword, names in config.items()}
        config["trusted"] = specified.get("trusted", {})
    variables = os.environ | {ENVIRONMENT: json.dumps(config)}

    def try_ep(ep: str) -> tuple[dict, str]:
        return in_child(["run", f"--repeat={repeat}", f"--ep={ep}", "--json", "--", model], variables)

    kinds = presence.kinds()
    with ThreadPoolExecutor(max_workers=4) as workers:
        tried = list(workers.map(try_ep, kinds))
    return [_provider(name, kinds[name], *one) for name, one in zip(kinds, tried, strict=True)]


def in_child(arguments: list[str], variables: Mapping[str, str]) -> tuple[dict, str]:
    """Return the result of a command in another process, and the reason if it fails."""
    command = [sys.executable, "-m", "onnxruntime.backend", *arguments]
    try:
        ran = subprocess.run(command, capture_output=True, env=variables, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {}, f"the process did not end within {_SECONDS} s"
    if ran.returncode == 0:
        return json.loads(ran.stdout), ""
    reason = f"the process ended with status {ran.returncode}"
    with contextlib.suppress(ValueError):  # a positive number, or a signal without a name
        reason = f"the process was terminated by signal {signal.Signals(-ran.returncode).name}"
    with contextlib.suppress(ValueError):  # a crash leaves no JSON
        reason = json.loads(ran.stdout)["error"]["message"]
    return {}, reason


def _provider(name: str, kind: str, result: Mapping, reason: str) -> dict:
    devices = [{"type": one.device.type.name, "vendor": one.device.vendor} for one in presence.plugin_devices(name)]
    found = {"name": name, "kind": kind, "devices": devices, "works": not reason, "reason": reason}
    ran = result.get("configurations", [{}])[0]
    nodes = ran.get("nodes")
    found["nodes"] = nodes and nodes.get(name, 0)
    return found | {"operators_on_cpu": ran.get("operators_on_cpu", {}), "runs_alone": ran.get("runs_alone")}


def table(providers: list[dict]) -> Table:
    rows = []
    for one in providers:
        notes = [one["reason"]] if one["reason"] else []
        for device in one["devices"]:
            notes.append(f"{device['type']} of {device['vendor'] or 'unnamed vendor'}")
        if one["nodes"] and one["operators_on_cpu"]:
            notes.append(f"on the CPU EP: {most_frequent(one['operators_on_cpu'])}")
        if one["runs_alone"]:
            notes.append(f"runs are not parallel: {one['runs_alone']}")
        state = Cell("works", "good") if one["works"] else Cell("fails", "bad")
        nodes = "" if one["nodes"] is None else str(one["nodes"])
        rows.append((Cell(one["name"], "name"), one["kind"], state, nodes, "; ".join(notes)))
    return Table(rows, ("execution provider", "kind", "state", "nodes", "notes"))
