# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted run config entries. All others are refused."""

from __future__ import annotations

from onnxruntime.backend.allowlist.conditions import ARENAS, CAPTURING, NO_GRAPHS
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.value_kinds import Integer, Text

RUN_CONFIG: dict[str, Rule] = {
    "gpu_graph_id": Rule(Integer(-1, 1023), "not set", "Captured graph of the run. -1: none.", needs=(CAPTURING,)),
    "memory.enable_memory_arena_shrinkage": Rule(
        Text(r"(cpu:0|gpu:[0-9]{1,2})(;(cpu:0|gpu:[0-9]{1,2})){0,7}", "devices such as cpu:0 or cpu:0;gpu:0"),
        "not set",
        "Releases unused arena memory after the run.",
        needs=(ARENAS, NO_GRAPHS),
    ),
}
