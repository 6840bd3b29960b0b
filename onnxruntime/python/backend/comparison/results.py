# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The results of a comparison as data."""

from __future__ import annotations

from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.allowlist.tables import LIBRARIES
from onnxruntime.backend.applied import nodes
from onnxruntime.backend.comparison import inputs, latency
from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.errors import FROM_ENVIRONMENT, InputError, NotPermittedError
from onnxruntime.backend.provider_names import CPU, OF_OPENVINO
from onnxruntime.backend.session import presence

APPLIED = ("provider_options", "session_options", "session_config", "run_config", "unconfirmed", "extensions")


def described(side: Side, first: Side) -> dict:
    """Return the results of a side as data."""
    rep = side.rep
    result: dict = {"configuration": side.label, "error": None, "outputs": [], "latency_ms": None}
    if side.error is not None:
        result["error"] = problem(side.error)
        if any(map(side.config.get, LIBRARIES)):  # they are in the environment during the call
            result["error"]["message"] = result["error"]["message"].removesuffix(FROM_ENVIRONMENT)
        return result

    kinds = presence.kinds()
    recorded = nodes.recorded_nodes(rep.session)
    on_cpu = recorded.pop(CPU, [])
    uses_others = bool(rep.provider_options.keys() - {CPU}) or any(recorded.values())
    result["providers"] = [{"name": name, "kind": kinds.get(name, "")} for name in rep.providers]
    for name in (*APPLIED, "warnings"):
        result[name] = getattr(rep, name)
    if RECORD_ASSIGNMENT not in side.config.get("session_config", {}):
        result["session_config"].pop(RECORD_ASSIGNMENT, None)
    result["nodes"] = rep.node_assignment
    result["operators_on_cpu"] = nodes.count_operators(on_cpu) if uses_others else {}
    result["runs_alone"] = None if OF_OPENVINO.isdisjoint(rep.providers) else rep.why_serial
    result["outputs"] = list(map(inputs.described, rep.session.get_outputs(), side.outputs))
    for output, difference in zip(result["outputs"], side.differences, strict=False):
        output["difference"] = difference
    result["latency_ms"] = latency.latency(side.blocks, [] if first.error else first.blocks)
    return result


def problem(error: object, **fields: object) -> dict:
    """Return an error as data, with the setting or the input that it concerns.

    An error that only adds a text has the fields of its cause.
    """
    message = " ".join(str(error).split()) or type(error).__name__
    while isinstance(error, Exception) and not isinstance(error, (InputError, NotPermittedError)) and error.__cause__:
        error = error.__cause__
    if isinstance(error, (InputError, NotPermittedError)):
        fields = vars(error)
    return {"message": message, **dict.fromkeys(("keyword", "provider", "key", "value", "reason"), ""), **fields}
