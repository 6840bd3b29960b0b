# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tables of all settings, by keyword argument and by execution provider (EP). The names in a configuration.

A built-in EP is a part of ORT, a plugin EP a library. ORT repeats all options of a plugin EP, even unknown ones. Its
report proves nothing, so the tables of plugin EPs are ``reported=False``.
"""

from onnxruntime.backend import provider_names as eps
from onnxruntime.backend.allowlist import cuda, nv_tensorrt_rtx, openvino, others, qnn, tensorrt, webgpu
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.rules import Rule, Table
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import MOST_FOLDED, SESSION_CONFIG
from onnxruntime.backend.allowlist.value_kinds import Integer

# The keyword arguments that contain settings. JSON text can contain these, LIBRARIES, PERMIT, and TRUSTED.
KEYWORDS = ("provider_options", "session_config", "run_config", "session_options", "free_dimension_overrides")
MOST_ENTRIES = 256  # of a mapping, and of a call. ORT has fewer keys
# The keyword arguments that limit a run.
LIMITS = ("timeout", "cancellation")
# The sizes of one named dimension. free_dimensions.py bounds their product for each input.
FREE_DIMENSION = Rule(Integer(1, MOST_FOLDED), "open", "The size of a named dimension.")
# Keyword argument to the settings that it contains by name.
BY_KEYWORD = {
    "session_config": SESSION_CONFIG,
    "run_config": RUN_CONFIG,
    "session_options": SESSION_ATTRIBUTES,
    "free_dimension_overrides": Table({}, others=lambda _: FREE_DIMENSION),
}
# The lists of libraries, which are code: only the environment may contain them, each with the form of its entries.
LIBRARIES = {"extensions": "absolute paths", "plugins": "EP=LIBRARY texts"}
# The settings that callers may set, by keyword: True for each permitted value, or a list of values.
PERMIT = "permit"
# The settings of the operator, by keyword, which ORT receives without a look-up.
TRUSTED = "trusted"

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
    "MLXExecutionProvider": {"plugin": ANY_PLUGIN},  # the library of onnxruntime-ep-mlx 0.31.0 reads no options
}
