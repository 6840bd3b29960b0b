# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The results of a comparison as data."""

from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT
from onnxruntime.backend.allowlist.tables import LIBRARIES, TRUSTED
from onnxruntime.backend.applied import nodes
from onnxruntime.backend.comparison import inputs, latency, outputs
from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.errors import FROM_ENVIRONMENT, DetailedError
from onnxruntime.backend.provider_names import CPU

APPLIED = ("provider_options", "session_options", "session_config", "run_config", "unconfirmed", "extensions")


def described(side: Side, first: Side, tolerance: tuple[float, float] | None = outputs.TOLERANCE) -> dict:
    """Return the results of a side as data.

    :param tolerance: relative and absolute, for the outputs of the first side, or ``None`` to compare no outputs.
    """
    rep = side.rep
    result: dict = {"configuration": side.label, "error": None, "outputs": [], "latency_ms": None}
    if side.error is not None:
        error = problem(side.error)
        if any(map(side.config.get, (*LIBRARIES, TRUSTED))):  # they are in the environment during the call
            error["message"] = error["message"].removesuffix(FROM_ENVIRONMENT)
        return result | {"error": error}

    recorded = nodes.recorded_nodes(rep.session)
    on_cpu = recorded.pop(CPU, [])
    for name in ("providers", *APPLIED, "warnings"):
        result[name] = getattr(rep, name)
    if RECORD_ASSIGNMENT not in side.config.get("session_config", {}):
        result["session_config"].pop(RECORD_ASSIGNMENT, None)
    result["nodes"] = rep.node_assignment
    result["operators_on_cpu"] = nodes.count_operators(on_cpu) if any(recorded.values()) else {}
    result["runs_alone"] = rep.why_serial
    declared = rep.session.get_outputs()
    result["outputs"] = list(map(inputs.described, declared, side.outputs or declared))
    if tolerance and side is not first:
        for output, ours, expected in zip(result["outputs"], side.outputs, first.outputs, strict=False):
            output["difference"] = outputs.difference(ours, expected, *tolerance)
    result["latency_ms"] = latency.latency(side.blocks, first.blocks)
    return result


def problem(error: object, **fields: object) -> dict:
    """Return an error as data, with the setting or the input that it or its cause concerns."""
    message = " ".join(str(error).split()) or type(error).__name__
    for one in (getattr(error, "__cause__", None), error):
        if isinstance(one, DetailedError):
            fields = vars(one)
    return {"message": message, **dict.fromkeys(("keyword", "provider", "key", "value", "reason"), ""), **fields}
