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
    OTHER_ARGUMENT,
    WRITES_FILES,
    Refused,
    refused,
)

_READ = "strings: onnxruntime 1.31.1 for macOS, source"

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
    "ProfileComputePlan": Refused(DISCLOSES, "logs how each operator runs", _READ),
    "ModelCacheDirectory": Refused(WRITES_FILES, "writes models to that folder, and loads the models in it", _READ),
    "flags": Refused(
        OTHER_ARGUMENT, "an old form of the other options. If flags is set, the EP ignores the other options", _READ
    ),
}
