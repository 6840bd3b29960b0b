# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the OpenVINO EP."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    ARENA,
    ARENA_OPTIONS,
    NO_EFFECT,
    NOT_VERIFIED,
    OTHER_ARGUMENT,
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

_CAUSAL_LM = "rewrites the model to keep a hidden state between runs, and fails for models of another kind"

BUILT_IN: dict[str, Refused] = {
    "enable_opencl_throttling": Refused(
        NOT_VERIFIED,
        "has no effect on the CPU. On a GPU, ORT passes it to OpenVINO with the name of a device that does not exist",
    ),
    "enable_qdq_optimizer": Refused(
        OUTSIDE_SESSION, "acts on an NPU only, where it sets a property that all sessions of the process share"
    ),
    "disable_dynamic_shapes": Refused(NO_EFFECT, "the EP reads it, then overwrites it with a value for the device"),
    "enable_causallm": Refused(WRONG_RESULTS, _CAUSAL_LM),
    "reshape_input": Refused(
        UNSAFE_MEMORY, "a shape larger than the input makes OpenVINO copy other memory to the output, or crash"
    ),
    "layout": Refused(
        NOT_VERIFIED, "layouts that fit the model have no effect, and other layouts make the session fail"
    ),
    "cache_dir": Refused(WRITES_FILES, "writes compiled models to that folder, and loads any file in it"),
    "load_config": Refused(
        WRITES_FILES,
        "passes any property to OpenVINO. Some properties are performance hints, but CACHE_DIR writes files to a "
        "folder",
    ),
    "context": Refused(RAW_POINTER, "the number is used as the address of an OpenCL context"),
    "device_id": Refused(OTHER_ARGUMENT, "an old name of device_type. Its value overwrites the value of device_type"),
    "device_luid": Refused(NOT_VERIFIED, "selects a GPU or NPU by a Windows identifier"),
}

PLUGIN: dict[str, Refused] = {
    "load_config": Refused(
        READS_FILES,
        "accepts the path of a file, or any property of a device. Some properties are performance hints, but CACHE_DIR "
        "writes files. The backend sends num_of_threads, num_streams and precision in its own load_config",
    ),
    "dump_subgraphs": Refused(WRITES_FILES, "creates a folder of any name, and writes the model to it"),
    "cache_dir": Refused(
        NO_EFFECT,
        "the plugin ignores the option, and logs this. The property CACHE_DIR inside load_config writes files",
    ),
    "reshape_input": Refused(
        NOT_VERIFIED,
        "the plugin EP checks the size, but whether this check is complete was not verified. In the built-in EP, "
        "this option can copy other memory to the output",
    ),
    "enable_causallm": Refused(WRONG_RESULTS, _CAUSAL_LM),
    "hint_enable_gqa": Refused(NOT_VERIFIED, "not documented, and no effect was observed"),
    **refused(
        NO_EFFECT,
        "the plugin only logs that it ignores it",
        "model_priority",
        "enable_opencl_throttling",
        "enable_qdq_optimizer",
    ),
    **refused(
        OTHER_ARGUMENT,
        "the plugin only logs that it ignores it. Use device_id to select a device",
        "device_type",
        "device_luid",
    ),
    **refused(UNBOUNDED, ARENA, *ARENA_OPTIONS),
    "hardware_device_type": Refused(NO_EFFECT, "the plugin silently ignores it as an unknown option"),
    **refused(
        NO_EFFECT, "the plugin silently ignores it as an unknown option", "disable_dynamic_shapes", "context", "layout"
    ),
}
