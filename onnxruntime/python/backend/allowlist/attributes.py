# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted attributes of ``SessionOptions`` and ``RunOptions``, with the values that each accepts.

All other attributes are refused.
"""

from __future__ import annotations

from functools import partial

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist.rules import Circumstances, Common, Need, Rule
from onnxruntime.backend.allowlist.value_kinds import Flag, Integer, Member, Text, Threads, threads_start


def _parallel(at: Circumstances) -> bool:
    """Return whether operators run in parallel. With one inter-op thread, ORT creates a sequential session."""
    return at.attributes.get("execution_mode") == ExecutionMode.ORT_PARALLEL and (
        at.attributes.get("inter_op_num_threads") != 1
    )


# A condition without which an attribute has no effect.
_idle = partial(Need, idle=True)
PARALLEL = _idle("execution_mode=ORT_PARALLEL", lambda at, _: _parallel(at))
_SEVERAL = _idle(
    "inter_op_num_threads other than 1 to be ORT_PARALLEL", lambda at, text: "PARALLEL" not in text or _parallel(at)
)
OWN_THREADS = _idle(
    "per-session thread pools (use_per_session_threads)",
    lambda at, _: at.attributes.get("use_per_session_threads", True),
    shared=True,
)
_THREADS_START = Need(
    "a system that lets this process start this number of threads",
    lambda _, text: threads_start(int(text)),
    without="ORT waits for them indefinitely",
)
_PATTERN = _idle("execution_mode=ORT_SEQUENTIAL to be on", lambda at, text: text == "0" or not _parallel(at))
# ORT writes this text into its log lines. It must not look like another field of a log line, or start a new line.
_WORD = "[A-Za-z0-9_.@/+-]+"
_LOG_ID = Text(f"({_WORD}( {_WORD})*)?", "words of ASCII letters, digits and _ . @ / + -, separated by single spaces")
# Not 0 and 1: with them, a session of two nodes writes 136 and 65 lines into the application's log. The application can
# set them with onnxruntime.set_default_logger_severity.
_SEVERITY = Integer(among=(-1, 2, 3, 4))
_VERBOSITY = Rule(
    Integer(among=(0,)),
    "0",
    "Verbosity of the log lines. Other values act only in a debug build at log severity 0, which is refused.",
)
_LEVEL = Member(*GraphOptimizationLevel.__members__.values())
_MODE = Member(*ExecutionMode.__members__.values())
# Not MEMORY_EFFICIENT: with it, builds without training cannot create a session.
_ORDER = Member(ExecutionOrder.DEFAULT, ExecutionOrder.PRIORITY_BASED)

# Switches that are off and on by default.
_switch = partial(Rule, Flag(), "False")
_switch_on = partial(Rule, Flag(), "True")

SESSION_ATTRIBUTES = Common("stored: a member of SessionOptions") | {
    "enable_cpu_mem_arena": _switch_on("Whether the CPU EP allocates from an arena."),
    "enable_mem_pattern": _switch_on(
        "Whether ORT plans memory ahead from the shapes of the first run.", needs=(_PATTERN,)
    ),
    "enable_mem_reuse": _switch_on("Whether a run reuses buffers."),
    "execution_mode": Rule(_MODE, "ORT_SEQUENTIAL", "Whether operators run in parallel.", needs=(_SEVERAL,)),
    "execution_order": Rule(_ORDER, "DEFAULT", "Order in which ready nodes run."),
    "graph_optimization_level": Rule(_LEVEL, "ORT_ENABLE_ALL", "How much ORT rewrites the graph."),
    "inter_op_num_threads": Rule(
        Threads(),
        "0",
        "Threads that run operators in parallel. 0: ORT decides.",
        needs=(_THREADS_START, OWN_THREADS, PARALLEL),
        anyway=("0", "1"),
    ),
    "intra_op_num_threads": Rule(
        Threads(), "0", "Threads within an operator. 0: ORT decides.", needs=(_THREADS_START, OWN_THREADS)
    ),
    "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines. -1: the default of the process."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the session's log lines."),
    "use_deterministic_compute": _switch("Whether ORT prefers deterministic kernels."),
    "use_per_session_threads": _switch_on("Whether the session has its own thread pools."),
}

RUN_ATTRIBUTES = Common("stored: a member of RunOptions") | {
    "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines of the run. -1: the session's."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the run's log lines."),
    "only_execute_path_to_fetches": _switch("Whether ORT runs only the nodes that the outputs need."),
}
