# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the CANN EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import NOT_VERIFIED, WRITES_FILES, Refused, refused

_PARSED = "parser run: onnxruntime-cann 1.24.4 on stub ACL libraries"

BUILT_IN: dict[str, Refused] = {
    "dump_graphs": Refused(WRITES_FILES, "writes parts of the model to the current folder", _PARSED),
    **refused(
        NOT_VERIFIED,
        "any text is accepted when the session is created, and its effect was not verified on an NPU",
        "precision_mode",
        "op_select_impl_mode",
        "optypelist_for_implmode",
        evidence=_PARSED,
    ),
    **refused(
        NOT_VERIFIED,
        "onnxruntime-cann 1.24.4 does not have this option. Only the source code of ORT contains it",
        "precision_mode_v2",
        "input_format",
        "dynamic_batch_size",
        "dynamic_image_size",
        "dynamic_dims",
        evidence="source, strings: not in onnxruntime-cann 1.24.4",
    ),
}
