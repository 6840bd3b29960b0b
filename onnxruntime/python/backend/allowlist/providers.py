# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The options of each execution provider (EP), by its kind: a built-in EP is a part of ORT, a plugin EP a library.

ORT repeats all options of a plugin EP, even unknown ones. Its report proves nothing, so the tables of plugin EPs are
``reported=False``.
"""

from onnxruntime.backend import provider_names as eps
from onnxruntime.backend.allowlist import cuda, nv_tensorrt_rtx, openvino, others, qnn, tensorrt, webgpu
from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.rules import Table

# The options that are refused for every EP.
EVERY_EP = Table(
    {},
    {
        "loads a library": {
            "shared_lib_path": "ORT up to 1.24 loads this shared library for an unknown EP name",
            "provider_factory_entry_point": (
                "ORT up to 1.24 calls this function of shared_lib_path for an unknown EP name"
            ),
        }
    },
)
NO_OPTIONS = Table({})
# A plugin without a table. The application trusts it, because it has registered it.
ANY_PLUGIN = Table({"device_id": PLUGIN_DEVICE}, reported=False)
_WITHOUT_OPTION = ("ArmNN", "Azure", "Nnapi", "Rknpu", "VSINPU")
# EP name to kind to options, for each EP that has been reviewed.
PROVIDERS: dict[str, dict[str, Table]] = {
    eps.CPU: {"built-in": NO_OPTIONS},
    eps.CUDA: {"built-in": cuda.BUILT_IN, "plugin": cuda.PLUGIN},
    eps.TENSORRT: {"built-in": tensorrt.BUILT_IN},
    eps.NV_TENSORRT_RTX: {"plugin": nv_tensorrt_rtx.PLUGIN},
    eps.MIGRAPHX: {"built-in": others.MIGRAPHX},
    eps.CANN: {"built-in": others.CANN},
    eps.OPENVINO: {"built-in": openvino.BUILT_IN, "plugin": openvino.PLUGIN},
    eps.OPENVINO_AUTO: {"plugin": openvino.PLUGIN},
    eps.QNN: {"built-in": qnn.BUILT_IN, "plugin": qnn.PLUGIN},
    eps.WEBGPU: {"built-in": webgpu.BUILT_IN, "plugin": webgpu.PLUGIN},
    eps.DML: {"built-in": others.DML},
    eps.COREML: {"built-in": others.COREML},
    eps.VITISAI: {"built-in": others.VITISAI},
    **{f"{name}ExecutionProvider": {"built-in": table} for name, table in others.FEW_OPTIONS.items()},
    **{f"{name}ExecutionProvider": {"built-in": NO_OPTIONS} for name in _WITHOUT_OPTION},
    "MLXExecutionProvider": {"plugin": ANY_PLUGIN},  # strings: onnxruntime-ep-mlx 0.31.0 reads no options
}
