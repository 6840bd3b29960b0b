# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the VitisAI EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import LOADS_LIBRARY, NOT_VERIFIED, RAW_POINTER, Refused, refused

_READ = "source and AMD's documentation"

BUILT_IN: dict[str, Refused] = {
    "external_ep_library": Refused(LOADS_LIBRARY, "loads the specified library", _READ),
    "session_options": Refused(RAW_POINTER, "the number is used as the address of the session's options", _READ),
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
        evidence=_READ,
    ),
}
