# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused options of the DirectML EP."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import NO_EFFECT, NOT_RUN, NOT_VERIFIED, Refused, refused

_READ = "strings: onnxruntime-directml 1.24.4, source"

BUILT_IN: dict[str, Refused] = {
    **refused(
        NOT_VERIFIED,
        NOT_RUN,
        "device_id",
        "performance_preference",
        "device_filter",
        "disable_metacommands",
        evidence=_READ,
    ),
    **refused(
        NO_EFFECT,
        "the EP reads it from the session config only, where keys that begin with ep. are refused",
        "ep.dml.disable_graph_fusion",
        "ep.dml.enable_graph_serialization",
        "ep.dml.enable_graph_capture",
        "ep.dml.enable_cpu_sync_spinning",
        "ep.dml.disable_memory_arena",
        evidence=_READ,
    ),
}
