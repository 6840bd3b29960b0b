# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the NvTensorRTRTX EP."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    ARENA,
    ARENA_OPTIONS,
    DISCLOSES,
    NEEDS_REFUSED,
    NO_EFFECT,
    NOT_VERIFIED,
    OTHER_ARGUMENT,
    RAW_POINTER,
    READS_FILES,
    UNBOUNDED,
    WRITES_FILES,
    Refused,
    refused,
)

PLUGIN: dict[str, Refused] = {
    **refused(
        NOT_VERIFIED,
        "its syntax differs between versions, and any text was accepted",
        "nv_profile_min_shapes",
        "nv_profile_max_shapes",
        "nv_profile_opt_shapes",
    ),
    "nv_multi_profile_enable": Refused(NEEDS_REFUSED, "it acts only on the nv_profile options"),
    "nv_use_external_data_initializer": Refused(
        NOT_VERIFIED, "selects how weights reach the compiler. The default, on, suits all models"
    ),
    **refused(
        NOT_VERIFIED,
        "a tensor of the model can contain two tables of rotary embeddings. "
        "The option specifies where the second table begins. A wrong number gives wrong results",
        "nv_multi_rotary_cache_concat_offset",
        "multi_rotary_cache_concat_offset",
    ),
    "nv_target_sm": Refused(NEEDS_REFUSED, "it acts only when the compiled model is written to a file"),
    "nv_runtime_cache_path": Refused(WRITES_FILES, "creates the folder, writes to it, and loads the files in it"),
    "nv_dump_subgraphs": Refused(WRITES_FILES, "writes parts of the model to the current folder"),
    **refused(
        WRITES_FILES,
        "writes the compiled model to a file",
        "ep.context_enable",
        "ep.context_file_path",
        "ep.context_embed_mode",
    ),
    **refused(UNBOUNDED, ARENA, *ARENA_OPTIONS),
    **refused(WRITES_FILES, "writes a trace to a file", "nv_enable_profiling", "nv_profiling_output_file"),
    "nv_weight_stripped_engine_enable_experimental": Refused(READS_FILES, "reads weights from a model file"),
    "nv_detailed_build_log": Refused(DISCLOSES, "logs every step of building an engine"),
    **refused(
        RAW_POINTER,
        "ORT passes the number to a driver as an address",
        "user_compute_stream",
        "user_aux_stream_array",
        "VkExternalComputeQueueDataParamsNV_data",
    ),
    "has_user_compute_stream": Refused(NEEDS_REFUSED, "acts only together with user_compute_stream"),
    "nv_length_aux_stream_array": Refused(NEEDS_REFUSED, "acts only together with user_aux_stream_array"),
    **refused(
        NO_EFFECT,
        "an option of the built-in EP of older ORT. The plugin does not know it",
        "nv_ep_context_file_path",
        "nv_ep_context_embed_mode",
        "nv_dump_ep_context_model",
        "nv_onnx_bytestream",
        "nv_onnx_bytestream_size",
        "nv_external_data_bytestream",
        "nv_external_data_bytestream_size",
        "nv_extra_plugin_lib_paths",
    ),
    "nv_cuda_graph_enable": Refused(OTHER_ARGUMENT, "this EP does not know this old name of enable_cuda_graph"),
}
