# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options of OpenVINO's EPs.

They were run with onnxruntime-openvino 1.24.1 and onnxruntime-ep-openvino 1.8.1 on a CPU. ``model_priority`` has no
effect on a CPU: according to the source code, the EP sends it to other devices only.
"""

from onnxruntime.backend.allowlist.common_options import ARENA, ARENA_OPTIONS, PLUGIN_DEVICE
from onnxruntime.backend.allowlist.conditions import openvino_device
from onnxruntime.backend.allowlist.rules import Need, Rule, Table
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, Text, text_of

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


class _Devices(Text):
    """Devices. For a form of earlier releases of the EP, the error contains what replaces it."""

    def parse(self, value: object) -> str:
        replacement = _earlier_form(text_of(value))
        if replacement:
            raise ValueError(replacement)
        return super().parse(value)


_HARDWARE = r"(?:CPU|GPU(?:\.[0-9])?|NPU)"

_CAUSAL_LM = "rewrites the model to keep a hidden state between runs, and fails for models of another kind"
BUILT_IN = Table(
    {
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
    },
    {
        "not verified": {
            "enable_opencl_throttling": (
                "has no effect on the CPU. On a GPU, ORT passes it to OpenVINO with the name of a device that does "
                "not exist"
            ),
            "layout": "layouts that fit the model have no effect, and other layouts make the session fail",
            "device_luid": "selects a GPU or NPU by a Windows identifier",
        },
        "acts outside the caller's session": {
            "enable_qdq_optimizer": (
                "acts on an NPU only, where it sets a property that all sessions of the process share"
            )
        },
        "no effect": {"disable_dynamic_shapes": "the EP reads it, then overwrites it with a value for the device"},
        "wrong results": {"enable_causallm": _CAUSAL_LM},
        "unsafe memory access": {
            "reshape_input": "a shape larger than the input makes OpenVINO copy other memory to the output, or crash"
        },
        "writes files": {
            "cache_dir": "writes compiled models to that folder, and loads any file in it",
            "load_config": (
                "passes any property to OpenVINO. Some properties are performance hints, but CACHE_DIR writes files "
                "to a folder"
            ),
        },
        "raw pointer": {"context": "the number is used as the address of an OpenCL context"},
        "set by another argument": {
            "device_id": "an old name of device_type. Its value overwrites the value of device_type"
        },
    },
    reported=False,
)


PLUGIN = Table(
    {
        "device_id": PLUGIN_DEVICE,
        "num_of_threads": Rule(_TWO_THREADS, "OpenVINO decides", "CPU threads of the session."),
        "num_streams": Rule(Threads(1), "OpenVINO decides", _STREAMS),
        "precision": Rule(
            # Not FP16: on a CPU without FP16, OpenVINO silently computes in bfloat16 or float32.
            Choice("FP32", "ACCURACY", texts={"FP32": "f32", "ACCURACY": "dynamic"}),
            "bfloat16 on a CPU that has it, else FP32",
            "Precision of a CPU. ACCURACY: the model's precision.",
        ),
    },
    {
        "reads files": {
            "load_config": (
                "accepts the path of a file, or any property of a device. Some properties are performance hints, but "
                "CACHE_DIR writes files. The backend sends num_of_threads, num_streams and precision in its own "
                "load_config"
            )
        },
        "writes files": {"dump_subgraphs": "creates a folder of any name, and writes the model to it"},
        "no effect": {
            "cache_dir": (
                "the plugin ignores the option, and logs this. The property CACHE_DIR inside load_config writes files"
            ),
            "model_priority enable_opencl_throttling enable_qdq_optimizer": "the plugin only logs that it ignores it",
            "hardware_device_type disable_dynamic_shapes context layout": (
                "the plugin silently ignores it as an unknown option"
            ),
        },
        "not verified": {
            "reshape_input": (
                "the plugin EP checks the size, but whether this check is complete was not verified. In the built-in "
                "EP, this option can copy other memory to the output"
            ),
            "hint_enable_gqa": "not documented, and no effect was observed",
        },
        "wrong results": {"enable_causallm": _CAUSAL_LM},
        "set by another argument": {
            "device_type device_luid": "the plugin only logs that it ignores it. Use device_id to select a device"
        },
        "unbounded use of resources": {ARENA_OPTIONS: ARENA},
    },
    reported=False,
)
