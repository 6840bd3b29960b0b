# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The options that are refused for every EP, and the refused options of EPs without a separate module."""

from __future__ import annotations

from onnxruntime.backend.provider_names import CANN, COREML, DML, MIGRAPHX, VITISAI
from onnxruntime.backend.refusals.verdicts import (
    DISCLOSES,
    LOADS_LIBRARY,
    NO_EFFECT,
    NOT_RUN,
    NOT_VERIFIED,
    OTHER_ARGUMENT,
    RAW_POINTER,
    READS_FILES,
    WRITES_FILES,
    Refused,
    refused,
)

# The options that are refused for every EP.
EVERY_PROVIDER: dict[str, Refused] = {
    "shared_lib_path": Refused(LOADS_LIBRARY, "ORT up to 1.24 loads this shared library for an unknown EP name"),
    "provider_factory_entry_point": Refused(
        LOADS_LIBRARY, "ORT up to 1.24 calls this function of shared_lib_path for an unknown EP name"
    ),
}

# EP name to the refused options of the built-in EP.
BUILT_IN: dict[str, dict[str, Refused]] = {
    MIGRAPHX: {
        **refused(
            NO_EFFECT, "the EP reads it, but keeps the default", "migraphx_mem_limit", "migraphx_arena_extend_strategy"
        ),
        **refused(
            READS_FILES,
            "reads a calibration table from a file. A file of another kind crashes the process",
            "migraphx_int8_calibration_table_name",
            "migraphx_int8_use_native_calibration_table",
        ),
        **refused(
            WRITES_FILES,
            "writes compiled models to files, and loads the files that exist",
            "migraphx_model_cache_dir",
            "migraphx_save_compiled_model",
            "migraphx_save_model_path",
            "migraphx_load_compiled_model",
            "migraphx_load_model_path",
        ),
        **refused(
            RAW_POINTER,
            "ORT calls the number as a function",
            "migraphx_external_alloc",
            "migraphx_external_free",
            "migraphx_external_empty_cache",
        ),
        **refused(
            NOT_VERIFIED,
            "onnxruntime-migraphx 1.27.1 does not have this option. Only the source code of ORT contains it",
            "migraphx_max_dynamic_batch",
            "migraphx_max_compiled_models",
        ),
    },
    CANN: {
        "dump_graphs": Refused(WRITES_FILES, "writes parts of the model to the current folder"),
        **refused(
            NOT_VERIFIED,
            "any text is accepted when the session is created, and its effect was not verified on an NPU",
            "precision_mode",
            "op_select_impl_mode",
            "optypelist_for_implmode",
        ),
        **refused(
            NOT_VERIFIED,
            "onnxruntime-cann 1.24.4 does not have this option. Only the source code of ORT contains it",
            "precision_mode_v2",
            "input_format",
            "dynamic_batch_size",
            "dynamic_image_size",
            "dynamic_dims",
        ),
    },
    DML: {
        **refused(
            NOT_VERIFIED, NOT_RUN, "device_id", "performance_preference", "device_filter", "disable_metacommands"
        ),
        **refused(
            NO_EFFECT,
            "the EP reads it from the session config only, where keys that begin with ep. are refused",
            "ep.dml.disable_graph_fusion",
            "ep.dml.enable_graph_serialization",
            "ep.dml.enable_graph_capture",
            "ep.dml.enable_cpu_sync_spinning",
            "ep.dml.disable_memory_arena",
        ),
    },
    COREML: {
        **refused(
            NOT_VERIFIED,
            NOT_RUN,
            "MLComputeUnits",
            "ModelFormat",
            "RequireStaticInputShapes",
            "EnableOnSubgraphs",
            "SpecializationStrategy",
            "AllowLowPrecisionAccumulationOnGPU",
        ),
        "ProfileComputePlan": Refused(DISCLOSES, "logs how each operator runs"),
        "ModelCacheDirectory": Refused(WRITES_FILES, "writes models to that folder, and loads the models in it"),
        "flags": Refused(
            OTHER_ARGUMENT, "an old form of the other options. If flags is set, the EP ignores the other options"
        ),
    },
    VITISAI: {
        "external_ep_library": Refused(LOADS_LIBRARY, "loads the specified library"),
        "session_options": Refused(RAW_POINTER, "the number is used as the address of the session's options"),
        **refused(
            NOT_VERIFIED,
            "the EP passes every option unchecked to a closed library, which reads and writes files for some of them",
            "config_file",
            "cache_dir",
            "cache_key",
            "cacheDir",
            "cacheKey",
            "xclbin",
            "target",
            "enable_cache_file_io_in_mem",
            "log_level",
            "encryptionKey",
            "ai_analyzer_visualization",
            "ai_analyzer_profiling",
            "opt_level",
            "ep_context_enable",
            "ep_context_embed_mode",
            "ep_context_file_path",
            "ort_session_config.*",
        ),
    },
    "XnnpackExecutionProvider": refused(NOT_VERIFIED, NOT_RUN, "intra_op_num_threads"),
    "ACLExecutionProvider": refused(NOT_VERIFIED, NOT_RUN, "enable_fast_math"),
    "DnnlExecutionProvider": refused(NOT_VERIFIED, NOT_RUN, "num_of_threads"),
    "JsExecutionProvider": refused(NO_EFFECT, "Python cannot attach the EP", "preferredLayout"),
    "WebNNExecutionProvider": refused(NO_EFFECT, "Python cannot attach the EP", "deviceType"),
}
