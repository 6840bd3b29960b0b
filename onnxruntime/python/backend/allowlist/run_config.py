# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run config entries."""

from onnxruntime.backend.allowlist.conditions import ARENAS, CAPTURING, NO_GRAPHS
from onnxruntime.backend.allowlist.rules import OWN_RUN, Rule, Table
from onnxruntime.backend.allowlist.value_kinds import Integer, Text

GRAPH_ID = "gpu_graph_id"  # selects the captured graph of a run
SHRINKAGE = "memory.enable_memory_arena_shrinkage"

RUN_CONFIG = Table(
    {
        GRAPH_ID: Rule(Integer(-1, 1023), "not set", "Captured graph of the run. -1: none.", needs=(CAPTURING,)),
        SHRINKAGE: Rule(
            Text(r"(cpu:0|gpu:[0-9]{1,2})(;(cpu:0|gpu:[0-9]{1,2})){0,7}", "devices such as cpu:0 or cpu:0;gpu:0"),
            "not set",
            "Releases unused arena memory after the run.",
            needs=(ARENAS, NO_GRAPHS),
        ),
    },
    {
        "wrong results": {
            "disable_synchronize_execution_providers": (
                "outputs of a GPU may be read before they are complete. Any text except '0' turns it on"
            )
        },
        "not verified": {
            "qnn.htp_perf_mode qnn.htp_perf_mode_post_run qnn.rpc_control_latency": (
                "acts on a Qualcomm HTP device only, where it was not run"
            )
        },
        "reads files": {"qnn.lora_config": "specifies a file of weights"},
    },
    own=OWN_RUN,
)
