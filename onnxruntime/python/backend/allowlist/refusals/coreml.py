# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the CoreML EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import (
    DISCLOSES,
    NOT_RUN,
    NOT_VERIFIED,
    OTHER_DOOR,
    WRITES_FILES,
    Refused,
    refused,
)

_READ = "strings: onnxruntime 1.31.1 for macOS; source"

BUILT_IN: dict[str, Refused] = {
    **refused(
        NOT_VERIFIED,
        NOT_RUN,
        "MLComputeUnits",
        "ModelFormat",
        "RequireStaticInputShapes",
        "EnableOnSubgraphs",
        "SpecializationStrategy",
        "AllowLowPrecisionAccumulationOnGPU",
        evidence=_READ,
    ),
    "ProfileComputePlan": Refused(DISCLOSES, "how each operator runs goes to the log of the process", _READ),
    "ModelCacheDirectory": Refused(
        WRITES_FILES, "models are written to that folder, and those found there are loaded", _READ
    ),
    "flags": Refused(OTHER_DOOR, "the old way to say the others, which are not looked at beside it", _READ),
}
