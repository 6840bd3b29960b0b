# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the MIGraphX EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import (
    NO_EFFECT,
    NOT_VERIFIED,
    RAW_POINTER,
    READS_FILES,
    WRITES_FILES,
    Refused,
    refused,
)

_PARSED = "parser run: onnxruntime-migraphx 1.27.1 on stub HIP and MIGraphX libraries"

BUILT_IN: dict[str, Refused] = {
    **refused(
        NO_EFFECT,
        "it is read, and the value in use stays the default",
        "migraphx_mem_limit",
        "migraphx_arena_extend_strategy",
        evidence=_PARSED,
    ),
    **refused(
        READS_FILES,
        "a calibration table is read from a file; a file of another kind crashes the process",
        "migraphx_int8_calibration_table_name",
        "migraphx_int8_use_native_calibration_table",
        evidence=_PARSED,
    ),
    **refused(
        WRITES_FILES,
        "compiled models are written to files, and those found there are loaded",
        "migraphx_model_cache_dir",
        evidence=_PARSED,
    ),
    **refused(
        WRITES_FILES,
        "compiled models are written to files, and those found there are loaded",
        "migraphx_save_compiled_model",
        "migraphx_save_model_path",
        "migraphx_load_compiled_model",
        "migraphx_load_model_path",
        evidence="source of older releases; strings: not in onnxruntime-migraphx 1.27.1",
    ),
    **refused(
        RAW_POINTER,
        "ORT calls the number as a function",
        "migraphx_external_alloc",
        "migraphx_external_free",
        "migraphx_external_empty_cache",
        evidence=_PARSED,
    ),
    **refused(
        NOT_VERIFIED,
        "1.27.1 does not know it; only the source of a later ORT does",
        "migraphx_max_dynamic_batch",
        "migraphx_max_compiled_models",
        evidence="source; strings: not in onnxruntime-migraphx 1.27.1",
    ),
}
