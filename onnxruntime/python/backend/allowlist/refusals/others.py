# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The options that are refused for every EP, and the refused options of EPs without a separate module."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import (
    LOADS_LIBRARY,
    NO_EFFECT,
    NOT_RUN,
    NOT_VERIFIED,
    Refused,
    refused,
)

# The options that are refused for every EP.
_RUN = "run: ORT 1.24.4 loads the library, 1.27.1 and 1.31.1 do not"
EVERY_PROVIDER: dict[str, Refused] = {
    "shared_lib_path": Refused(LOADS_LIBRARY, "ORT up to 1.24 loads this shared library for an unknown EP name", _RUN),
    "provider_factory_entry_point": Refused(
        LOADS_LIBRARY, "ORT up to 1.24 calls this function of shared_lib_path for an unknown EP name", _RUN
    ),
}

# EP name to the refused options of the built-in EP.
BUILT_IN: dict[str, dict[str, Refused]] = {
    "XnnpackExecutionProvider": refused(NOT_VERIFIED, NOT_RUN, "intra_op_num_threads", evidence="source"),
    "ACLExecutionProvider": refused(NOT_VERIFIED, NOT_RUN, "enable_fast_math", evidence="source"),
    "DnnlExecutionProvider": refused(NOT_VERIFIED, NOT_RUN, "num_of_threads", evidence="source"),
    "JsExecutionProvider": refused(NO_EFFECT, "Python cannot attach the EP", "preferredLayout", evidence="source"),
    "WebNNExecutionProvider": refused(NO_EFFECT, "Python cannot attach the EP", "deviceType", evidence="source"),
}
