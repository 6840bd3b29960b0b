# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of attributes: what may be set on onnxruntime.SessionOptions and onnxruntime.RunOptions, with the
values that each takes. What is not here is refused.
"""

from __future__ import annotations

from functools import partial

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist.circumstances import Circumstances
from onnxruntime.backend.allowlist.rules import Need, Rule, Table
from onnxruntime.backend.allowlist.value_kinds import Flag, Integer, Member, Text, Threads, threads_start


def _parallel(at: Circumstances) -> bool:
    """Whether operators run in parallel: with one thread for them ORT makes the session sequential."""
    return at.attributes.get("execution_mode") == ExecutionMode.ORT_PARALLEL and (
        at.attributes.get("inter_op_num_threads") != 1
    )


PARALLEL = Need("execution_mode=ORT_PARALLEL", lambda at, _: _parallel(at), idle=True)
_SEVERAL = Need(
    "inter_op_num_threads other than 1 to be ORT_PARALLEL",
    lambda at, text: "PARALLEL" not in text or _parallel(at),
    idle=True,
)
OWN_THREADS = Need(
    "thread pools of its own (use_per_session_threads)",
    lambda at, _: at.attributes.get("use_per_session_threads", True),
    idle=True,
)
_THREADS_START = Need(
    "a number of threads that the system lets this process start",
    lambda _, text: threads_start(int(text)),
    without="ORT waits for them without end",
)
_PATTERN = Need("execution_mode=ORT_SEQUENTIAL to be on", lambda at, text: text == "0" or not _parallel(at), idle=True)
# Text of a caller's that stands inside lines of ORT's log must not look like another field of one.
_LOG_ID = Text("[A-Za-z0-9_.@/+-]*", "ASCII letters, digits and _ . @ / + -")
# Not 0 and 1, with which a session of two nodes writes 136 and 65 lines into the application's log. The application can
# ask for them: onnxruntime.set_default_logger_severity.
_SEVERITY = Integer(among=(-1, 2, 3, 4))
_VERBOSITY = Rule(Integer(among=(0,)), "0", "How much a debug build logs at severity 0; releases do not read it.")
_LEVEL = Member(GraphOptimizationLevel, GraphOptimizationLevel.__members__)
_MODE = Member(ExecutionMode, ExecutionMode.__members__)
# Not MEMORY_EFFICIENT, with which builds without training open no session.
_ORDER = Member(
    ExecutionOrder, {order.name: order for order in (ExecutionOrder.DEFAULT, ExecutionOrder.PRIORITY_BASED)}
)

# What is off by default, and what is on.
_switch = partial(Rule, Flag(), "False")
_switch_on = partial(Rule, Flag(), "True")

# --- Attributes of onnxruntime.SessionOptions, as keyword arguments of prepare and run ---

SESSION_ATTRIBUTES = Table(
    "run: the open session's SessionOptions hold them, and onnxruntime's own backend sets them"
) | {
    "enable_cpu_mem_arena": _switch_on("Whether the CPU EP allocates from an arena."),
    "enable_mem_pattern": _switch_on(
        "Whether memory is laid out ahead from the first run's shapes.", needs=(_PATTERN,)
    ),
    "enable_mem_reuse": _switch_on("Whether buffers are used again within a run."),
    "execution_mode": Rule(_MODE, "ORT_SEQUENTIAL", "Whether operators run in parallel.", needs=(_SEVERAL,)),
    "execution_order": Rule(_ORDER, "DEFAULT", "The order in which ready nodes run."),
    "graph_optimization_level": Rule(_LEVEL, "ORT_ENABLE_ALL", "How far the graph is rewritten."),
    "inter_op_num_threads": Rule(
        Threads(),
        "0",
        "Threads that run operators in parallel; 0: ORT decides.",
        needs=(_THREADS_START, OWN_THREADS, PARALLEL),
    ),
    "intra_op_num_threads": Rule(
        Threads(), "0", "Threads within an operator; 0: ORT decides.", needs=(_THREADS_START, OWN_THREADS)
    ),
    "log_severity_level": Rule(_SEVERITY, "-1", "Least severity that is logged; -1: the process default."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the session's log lines."),
    "use_deterministic_compute": _switch("Whether deterministic kernels are preferred."),
    "use_per_session_threads": _switch_on("Whether the session has thread pools of its own."),
}

# --- Attributes of onnxruntime.RunOptions, as keyword arguments of run ---

RUN_ATTRIBUTES = Table("run: RunOptions hold them, and onnxruntime's own backend sets them") | {
    "log_severity_level": Rule(_SEVERITY, "-1", "Least severity that is logged in the run; -1: the session's."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the run's log lines."),
    "only_execute_path_to_fetches": _switch("Whether only nodes that lead to an output run."),
}
