# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the CUDA EP."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    ARENA_OPTIONS,
    LOADS_LIBRARY,
    NEEDS_REFUSED,
    NOT_VERIFIED,
    OUTSIDE_SESSION,
    RAW_POINTER,
    READS_FILES,
    UNBOUNDED,
    Refused,
    refused,
)

_LOADER_OPTIONS = ("external_data_loader_pinned_memory_bytes", "external_data_loader_chunk_bytes")

BUILT_IN: dict[str, Refused] = {
    "user_compute_stream": Refused(RAW_POINTER, "ORT passes the number to the CUDA driver as the address of a stream"),
    "has_user_compute_stream": Refused(NEEDS_REFUSED, "acts only together with user_compute_stream"),
    **refused(
        RAW_POINTER,
        "ORT calls the number as a function",
        "gpu_external_alloc",
        "gpu_external_free",
        "gpu_external_empty_cache",
    ),
    "external_data_loader_use_gds": Refused(
        LOADS_LIBRARY,
        "ORT 1.31 does not know it. Newer source code loads libcufile and reads weights without the file cache",
    ),
    "external_data_loader_use_directstorage": Refused(
        READS_FILES, "ORT 1.31 does not know it. Newer source code reads weights through Windows DirectStorage"
    ),
    **refused(
        UNBOUNDED,
        "sets pinned memory of the loader of external data. The stock wheel of 1.32 has no CUDA EP to run it",
        *_LOADER_OPTIONS,
    ),
}

PLUGIN: dict[str, Refused] = {
    **refused(
        NOT_VERIFIED,
        "only the plugin CUDA EP knows it. That EP was not run. According to its source, it ignores unknown "
        "options, and only logs values that it cannot read",
        "min_num_runs_before_cuda_graph_capture",
        "prefer_nhwc_layout",
        "cudnn_conv_algo",
    ),
    **refused(
        NOT_VERIFIED,
        "ORT passes it to the plugin CUDA EP, which was not run",
        "external_data_loader_reading_threads",
        *_LOADER_OPTIONS,
        "gpu_device_mem_limit",
    ),
    **refused(
        OUTSIDE_SESSION,
        "the plugin CUDA EP has one memory arena per device in a process, which its first session configures",
        "arena.use_cuda_mempool",
        "arena.cuda_mempool_release_threshold",
        "arena.cuda_mempool_bytes_to_keep_on_shrink",
        *ARENA_OPTIONS,
    ),
}
