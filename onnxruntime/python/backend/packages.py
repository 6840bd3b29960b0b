# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The packages that contain an execution provider (EP) that a process does not have."""

from onnxruntime.backend.provider_names import (
    CANN,
    COREML,
    CUDA,
    DML,
    MIGRAPHX,
    NV_TENSORRT_RTX,
    OPENVINO,
    QNN,
    TENSORRT,
    WEBGPU,
)
from onnxruntime.capi import build_and_package_info

REGISTER = (
    'If it is a plugin EP, register its library first, with "plugins" in the environment or '
    "onnxruntime.register_execution_provider_library"
)
_GPU = "an NVIDIA GPU with its driver, and "
# The base of this backend that contains an EP, and what else the EP requires.
_BASES = {
    CUDA: (_GPU, "onnxruntime-gpu"),
    TENSORRT: (_GPU, "onnxruntime-gpu"),
    OPENVINO: ("", "onnxruntime-openvino"),
    WEBGPU: ("", "onnxruntime-webgpu"),
}
# The wheels of ORT that are not a base of this backend, or that are one on another system.
_WHEELS = {
    DML: "onnxruntime-directml",
    COREML: "onnxruntime for macOS",
    MIGRAPHX: "onnxruntime-migraphx",
    CANN: "onnxruntime-cann",
}
# The packages with a library that an application can register.
PLUGINS = {
    OPENVINO: "onnxruntime-ep-openvino",
    WEBGPU: "onnxruntime-ep-webgpu",
    QNN: "onnxruntime-qnn",
    NV_TENSORRT_RTX: "onnxruntime-ep-nv-tensorrt-rtx",
}


def advice(name: str) -> str:
    """Return the next step for an EP that this process does not have."""
    sentences = []
    if name in _BASES:
        device, base = _BASES[name]
        installed = build_and_package_info.package_name
        sentences.append(f"{name} requires {device}the base {base}")
        # The variable and the commands apart, because other shells do not read `VARIABLE=value command`.
        sentences.append(f"To install this base, set the environment variable ORT_BACKEND_BASE to {base}")
        sentences.append(f"Then, in a checkout of this package, run `pip uninstall -y {installed}` and `pip install .`")
    if name in _WHEELS:
        sentences.append(f"{name} is a part of the wheel {_WHEELS[name]}")
    if name in PLUGINS:
        sentences.append(f"The package {PLUGINS[name]} contains a plugin EP of this name")
    if name in PLUGINS or not sentences:
        sentences.append(REGISTER)
    return ". ".join(sentences)
