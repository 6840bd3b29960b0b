# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the OpenVINO EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import (
    ARENA,
    ARENA_OPTIONS,
    NO_EFFECT,
    NOT_VERIFIED,
    OTHER_DOOR,
    OUTSIDE_SESSION,
    RAW_POINTER,
    READS_FILES,
    UNBOUNDED,
    UNSAFE_MEMORY,
    WRITES_FILES,
    WRONG_RESULTS,
    Refused,
    refused,
)

_RUN_BUILT_IN = "run: onnxruntime-openvino 1.24.1 on a CPU"
_RUN_PLUGIN = "run: onnxruntime-ep-openvino 1.8.1 on a CPU"
_CAUSAL_LM = "rewrites the model to keep a hidden state from run to run, and fails for models it does not fit"

BUILT_IN: dict[str, Refused] = {
    "enable_opencl_throttling": Refused(
        NOT_VERIFIED,
        "acts on a GPU only, where it is handed to OpenVINO under the name of a device that does not exist",
        "source; run: no effect on CPU",
    ),
    "enable_qdq_optimizer": Refused(
        OUTSIDE_SESSION,
        "acts on an NPU only, where it sets a property that all sessions of the process share",
        "source; run: no effect on CPU",
    ),
    "disable_dynamic_shapes": Refused(
        NO_EFFECT, "it is read and then overwritten with what suits the device", _RUN_BUILT_IN
    ),
    "enable_causallm": Refused(WRONG_RESULTS, _CAUSAL_LM, _RUN_BUILT_IN),
    "reshape_input": Refused(
        UNSAFE_MEMORY,
        "a shape larger than the input makes OpenVINO read foreign memory into the output, or crash",
        _RUN_BUILT_IN,
    ),
    "layout": Refused(
        NOT_VERIFIED, "no layout that fits the model made a difference, others make the session fail", _RUN_BUILT_IN
    ),
    "cache_dir": Refused(
        WRITES_FILES, "compiled models are written to that folder, and whatever lies there is loaded", _RUN_BUILT_IN
    ),
    "load_config": Refused(
        WRITES_FILES,
        "hands any property to OpenVINO, CACHE_DIR among them, which writes files to a folder",
        _RUN_BUILT_IN,
    ),
    "context": Refused(RAW_POINTER, "the number is used as the address of an OpenCL context", _RUN_BUILT_IN),
    "device_id": Refused(OTHER_DOOR, "an old name of device_type, which it overwrites", _RUN_BUILT_IN),
    "device_luid": Refused(NOT_VERIFIED, "chooses a GPU or NPU by a Windows identifier", _RUN_BUILT_IN),
}

PLUGIN: dict[str, Refused] = {
    "load_config": Refused(
        READS_FILES,
        "the plugin also takes the path of a file, and any property of a device, CACHE_DIR among them, which "
        "writes files; num_of_threads, num_streams and precision travel in one that the backend writes",
        _RUN_PLUGIN,
    ),
    "dump_subgraphs": Refused(
        WRITES_FILES, "any text is a folder that is made and that the model is written to", _RUN_PLUGIN
    ),
    "cache_dir": Refused(
        NO_EFFECT, "the plugin only logs that it ignores it, and inside load_config it writes files", _RUN_PLUGIN
    ),
    "reshape_input": Refused(
        NOT_VERIFIED, "the bundled EP of this name reads foreign memory for it; this one checks the size", _RUN_PLUGIN
    ),
    "enable_causallm": Refused(WRONG_RESULTS, _CAUSAL_LM, _RUN_PLUGIN),
    "hint_enable_gqa": Refused(NOT_VERIFIED, "documented nowhere, and no effect was seen", _RUN_PLUGIN),
    **refused(
        NO_EFFECT,
        "the plugin only logs that it ignores it",
        "model_priority",
        "enable_opencl_throttling",
        "enable_qdq_optimizer",
        evidence=_RUN_PLUGIN,
    ),
    **refused(
        OTHER_DOOR,
        "the plugin only logs that it ignores it: device_id says which of its devices computes",
        "device_type",
        "device_luid",
        evidence=_RUN_PLUGIN,
    ),
    **refused(UNBOUNDED, ARENA, *ARENA_OPTIONS, evidence=_RUN_PLUGIN),
    "hardware_device_type": Refused(NO_EFFECT, "the plugin does not know it and does not say so", _RUN_PLUGIN),
    **refused(
        NO_EFFECT,
        "the plugin does not know it and does not say so",
        "disable_dynamic_shapes",
        "context",
        "layout",
        evidence="strings: not in onnxruntime-ep-openvino 1.8.1",
    ),
}
