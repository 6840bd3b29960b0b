# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of attributes: what may be set on onnxruntime.SessionOptions and onnxruntime.RunOptions, with the
values that each takes. What is not here is refused.
"""

from __future__ import annotations

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist_rules import Permitted, Table
from onnxruntime.backend.value_kinds import Flag, FreeText, Integer, Member

# --- Attributes of onnxruntime.SessionOptions, as keyword arguments of prepare and run ---

SESSION_ATTRIBUTES = Table(
    "run: the open session's SessionOptions hold them, and onnxruntime's own backend sets them",
    {
        "enable_cpu_mem_arena": Permitted(Flag(), "True", "Whether the CPU EP allocates from an arena."),
        "enable_mem_pattern": Permitted(
            Flag(), "True", "Whether memory is laid out ahead from the first run's shapes."
        ),
        "enable_mem_reuse": Permitted(Flag(), "True", "Whether buffers are used again within a run."),
        "execution_mode": Permitted(
            Member(ExecutionMode, ExecutionMode.__members__), "ORT_SEQUENTIAL", "Whether operators run in parallel."
        ),
        "execution_order": Permitted(
            Member(ExecutionOrder, ExecutionOrder.__members__), "DEFAULT", "The order in which ready nodes run."
        ),
        "graph_optimization_level": Permitted(
            Member(GraphOptimizationLevel, GraphOptimizationLevel.__members__),
            "ORT_ENABLE_ALL",
            "How far the graph is rewritten.",
        ),
        "inter_op_num_threads": Permitted(
            Integer(0, 1024), "0", "Threads that run operators in parallel; 0: ORT decides."
        ),
        "intra_op_num_threads": Permitted(Integer(0, 1024), "0", "Threads within an operator; 0: ORT decides."),
        "log_severity_level": Permitted(
            Integer(-1, 4), "-1", "Least severity that is logged; -1: the process default."
        ),
        "log_verbosity_level": Permitted(Integer(0, 1024), "0", "How much a debug build logs at severity 0."),
        "logid": Permitted(FreeText(max_bytes=256), "", "Prefix of the session's log lines."),
        "use_deterministic_compute": Permitted(Flag(), "False", "Whether deterministic kernels are preferred."),
        "use_per_session_threads": Permitted(Flag(), "True", "Whether the session has thread pools of its own."),
    },
)

# --- Attributes of onnxruntime.RunOptions, as keyword arguments of run ---

RUN_ATTRIBUTES = Table(
    "run: RunOptions hold them, and onnxruntime's own backend sets them",
    {
        "log_severity_level": Permitted(Integer(0, 4), "-1", "Least severity that is logged during the run."),
        "log_verbosity_level": Permitted(Integer(0, 1024), "0", "How much a debug build logs at severity 0."),
        "logid": Permitted(FreeText(max_bytes=256), "", "Prefix of the run's log lines."),
        "only_execute_path_to_fetches": Permitted(Flag(), "False", "Whether only nodes that lead to an output run."),
    },
)
