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
        "the EP reads it, but keeps the default",
        "migraphx_mem_limit",
        "migraphx_arena_extend_strategy",
        evidence=_PARSED,
    ),
    **refused(
        READS_FILES,
        "reads a calibration table from a file. A file of another kind crashes the process",
        "migraphx_int8_calibration_table_name",
        "migraphx_int8_use_native_calibration_table",
        evidence=_PARSED,
    ),
    **refused(
        WRITES_FILES,
        "writes compiled models to files, and loads the files that exist",
        "migraphx_model_cache_dir",
        evidence=_PARSED,
    ),
    **refused(
        WRITES_FILES,
        "writes compiled models to files, and loads the files that exist",
        "migraphx_save_compiled_model",
        "migraphx_save_model_path",
        "migraphx_load_compiled_model",
        "migraphx_load_model_path",
        evidence="source of older releases, strings: not in onnxruntime-migraphx 1.27.1",
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
        "onnxruntime-migraphx 1.27.1 does not have this option. Only the source code of ORT contains it",
        "migraphx_max_dynamic_batch",
        "migraphx_max_compiled_models",
        evidence="source, strings: not in onnxruntime-migraphx 1.27.1",
    ),
}
