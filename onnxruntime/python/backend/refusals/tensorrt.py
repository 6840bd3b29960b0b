# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the TensorRT EP."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    DISCLOSES,
    LOADS_LIBRARY,
    NEEDS_REFUSED,
    NO_EFFECT,
    NOT_VERIFIED,
    RAW_POINTER,
    READS_FILES,
    WRITES_FILES,
    Refused,
    refused,
)

BUILT_IN: dict[str, Refused] = {
    "trt_build_heuristics_enable": Refused(
        NO_EFFECT,
        "ORT ignores it with TensorRT 8.6 and newer. For its former effect, set trt_builder_optimization_level=2",
    ),
    **refused(
        NOT_VERIFIED,
        "if ORT cannot parse the value, it logs this and ignores the value. The effect was not verified, because no "
        "engine could be built",
        "trt_profile_min_shapes",
        "trt_profile_max_shapes",
        "trt_profile_opt_shapes",
    ),
    **refused(LOADS_LIBRARY, "the libraries are loaded before the session is created", "trt_extra_plugin_lib_paths"),
    **refused(
        LOADS_LIBRARY,
        "a library that decrypts engines is loaded when the session is created",
        "trt_engine_decryption_enable",
        "trt_engine_decryption_lib_path",
    ),
    "trt_preview_features": Refused(NEEDS_REFUSED, "it acts only on plugin libraries"),
    **refused(
        WRITES_FILES,
        "creates a folder, writes engines and timings to it, and loads engines from it",
        "trt_engine_cache_enable",
        "trt_engine_cache_path",
        "trt_engine_cache_prefix",
        "trt_timing_cache_enable",
        "trt_timing_cache_path",
    ),
    "trt_force_timing_cache": Refused(NEEDS_REFUSED, "it acts only on a timing cache read from a file"),
    **refused(
        WRITES_FILES,
        "writes the compiled model to a file",
        "trt_dump_ep_context_model",
        "trt_ep_context_file_path",
        "trt_ep_context_embed_mode",
    ),
    "trt_dump_subgraphs": Refused(WRITES_FILES, "writes parts of the model to the current folder"),
    **refused(
        READS_FILES,
        "reads a calibration table from a file",
        "trt_int8_calibration_table_name",
        "trt_int8_use_native_calibration_table",
    ),
    **refused(
        READS_FILES,
        "reads the weights from a model file in a folder",
        "trt_weight_stripped_engine_enable",
        "trt_onnx_model_folder_path",
    ),
    "trt_detailed_build_log": Refused(DISCLOSES, "logs every step of building an engine"),
    "user_compute_stream": Refused(RAW_POINTER, "ORT passes the number to the CUDA driver as the address of a stream"),
    "has_user_compute_stream": Refused(NEEDS_REFUSED, "acts only together with user_compute_stream"),
    "trt_onnx_bytestream": Refused(RAW_POINTER, "ORT reads the number as an address of the model's bytes"),
    "trt_onnx_bytestream_size": Refused(NEEDS_REFUSED, "acts only together with trt_onnx_bytestream"),
    "trt_external_data_bytestream": Refused(RAW_POINTER, "ORT reads the number as an address of the model's weights"),
    "trt_external_data_bytestream_size": Refused(NEEDS_REFUSED, "acts only together with trt_external_data_bytestream"),
    "trt_load_user_initializer": Refused(
        NOT_VERIFIED,
        "selects how weights reach TensorRT. Its effect was not verified, because no engine could be built",
    ),
}
