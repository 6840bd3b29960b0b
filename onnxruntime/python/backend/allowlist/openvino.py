# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of OpenVINO's EPs. All other options are refused."""

from __future__ import annotations

from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.conditions import openvino_device
from onnxruntime.backend.allowlist.rules import Need, Rule
from onnxruntime.backend.allowlist.special_kinds import Parts, Spelled
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, text_of

_FP16_ON_GPU = Need(
    "device_type='GPU' for the value FP16", lambda facts, text: text != "FP16" or openvino_device(facts) == "GPU"
)
_WITH_CPU = Need("a device_type that contains CPU", lambda facts, _: "CPU" in openvino_device(facts))
_WITHOUT_CPU = Need("a device_type that does not contain CPU", lambda facts, _: "CPU" not in openvino_device(facts))
_CPU_OR_GPU = Need(
    "a device_type that begins with CPU or GPU", lambda facts, _: openvino_device(facts).startswith(("CPU", "GPU"))
)
_STREAMS = "Streams, which share the CPU threads. Each of the parallel runs of a session uses one stream."
_TWO_THREADS = Threads(
    2, "a run that fails can return the output of the previous run, or terminate the process (a defect of OpenVINO)"
)


def _earlier_form(device: str) -> str:
    """Return what replaces a device of earlier releases of the EP, or ``""``."""
    if device in ("AUTO", "HETERO", "MULTI"):
        return f"specify the devices, as in {device}:GPU,CPU"
    precision = device.rpartition("_")[2]
    if precision in ("FP32", "FP16"):
        return f"a form of earlier releases: specify the device alone, and '{precision}' in the option precision"
    return ""


class _Devices(Parts):
    """Devices. For a form of earlier releases of the EP, the error contains what replaces it."""

    def parse(self, value: object) -> str:
        replacement = _earlier_form(text_of(value))
        if replacement:
            raise ValueError(replacement)
        return super().parse(value)


_HARDWARE = r"(?:CPU|GPU(?:\.[0-9])?|NPU)"

BUILT_IN = {
    "device_type": Rule(
        _Devices(
            rf"{_HARDWARE}|(?:AUTO|HETERO|MULTI):{_HARDWARE}(?:,{_HARDWARE})*",
            "a device (CPU, GPU, GPU.0 to GPU.9, NPU), or AUTO:, HETERO: or MULTI: and a list of different devices",
            64,
            # With AUTO:CPU,CPU, a run that should raise an error hangs. GPU and GPU.0 are the same device.
            r"(?<=[:,])(?:CPU|GPU(?:\.[1-9])?|NPU)",
        ),
        "CPU",
        # With AUTO:, HETERO: and MULTI:, OpenVINO's own default is bfloat16.
        "OpenVINO device. With AUTO:, HETERO: and MULTI:, a CPU that supports bfloat16 computes in bfloat16 if "
        "precision is not set.",
    ),
    "precision": Rule(
        Choice("FP32", "FP16", "ACCURACY"),
        "FP32 on CPU, FP16 on GPU and NPU",
        "Precision of the device. ACCURACY: the model's precision. To use FP16 on an NPU, do not set the option.",
        needs=(_FP16_ON_GPU,),
    ),
    "num_of_threads": Rule(_TWO_THREADS, "0, OpenVINO decides", "CPU threads of the session.", needs=(_WITH_CPU,)),
    "num_streams": Rule(Threads(1), "1", _STREAMS, needs=(_CPU_OR_GPU,)),
    "model_priority": Rule(
        Choice("LOW", "MEDIUM", "HIGH", "DEFAULT"),
        "DEFAULT",
        "Priority of the session on a busy GPU or NPU.",
        needs=(_WITHOUT_CPU,),
    ),
}


PLUGIN = {
    "device_id": PLUGIN_DEVICE,
    "num_of_threads": Rule(_TWO_THREADS, "OpenVINO decides", "CPU threads of the session."),
    "num_streams": Rule(Threads(1), "OpenVINO decides", _STREAMS),
    "precision": Rule(
        # Not FP16: on a CPU without FP16, OpenVINO silently computes in bfloat16 or float32.
        Spelled(FP32="f32", ACCURACY="dynamic"),
        "bfloat16 on a CPU that has it, else FP32",
        "Precision of a CPU. ACCURACY: the model's precision.",
    ),
}
