# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of Qualcomm's plugin EP. All other options are refused."""

from __future__ import annotations

from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.rules import Rule, switch_on
from onnxruntime.backend.allowlist.value_kinds import Choice, Integer, Kind


def _htp(kind: Kind, default: str, effect: str) -> Rule:
    return Rule(kind, default, f"{effect} No effect on the simulator.")


_HTP_MODES = (
    "default burst sustained_high_performance high_performance balanced low_balanced high_power_saver power_saver "
    "low_power_saver extreme_power_saver"
)
OPTIONS = {
    "device_id": PLUGIN_DEVICE,
    # Not gpu and cpu: the session takes no node and only logs the reason, and the package lacks the cpu library.
    # Not saver, ir and genie: saver and ir write files, and return wrong outputs or none.
    "backend_type": Rule(
        Choice("htp"),
        "chosen by the EP, except on a CPU",
        "Qualcomm's QNN backend that runs the model. On x86, htp is a simulator.",
    ),
    "htp_graph_finalization_optimization_mode": _htp(Integer(0, 3), "0", "Effort of the HTP compiler."),
    "htp_performance_mode": _htp(Choice(*_HTP_MODES.split()), "default", "Clock and power of the HTP."),
    "offload_graph_io_quantization": switch_on("Lets another EP quantize the inputs and dequantize the outputs."),
    # Not the higher priorities of the EP: they would give a caller priority over all other callers.
    "qnn_context_priority": _htp(Choice("low", "normal"), "normal", "Priority of the session on the HTP."),
    "rpc_control_latency": _htp(Integer(0, 1000), "0", "Requested latency of the device in microseconds."),
    "vtcm_mb": _htp(Integer(1, 16), "the device's own", "Mebibytes of on-chip memory for a graph."),
}
