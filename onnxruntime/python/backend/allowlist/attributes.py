# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted attributes of ``SessionOptions`` and ``RunOptions``. All others are refused."""

from __future__ import annotations

from functools import partial

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist.conditions import OWN_POOLS, PARALLEL, PATTERN, SEVERAL, THREADS, folds_text
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.special_kinds import Fixed, Member, OneOf
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Flag, Text

# ORT writes this text into its log lines. It must not look like another field of a log line, or start a new line.
_WORD = "[A-Za-z0-9_.@/+-]+"
_LOG_ID = Text(f"({_WORD}( {_WORD})*)?", "words of ASCII letters, digits and _ . @ / + -, separated by single spaces")
# Not 0 and 1: with them, a session of two nodes writes 136 and 65 lines into the application's log. The application can
# set them with onnxruntime.set_default_logger_severity.
_SEVERITY = OneOf(-1, 2, 3, 4)
_VERBOSITY = Rule(
    OneOf(0),
    "0",
    "Verbosity of log lines. Values other than 0 act only in debug builds at log severity 0, which is refused.",
)
_LEVEL = Member(*GraphOptimizationLevel.__members__.values())
_MODE = Member(*ExecutionMode.__members__.values())
# Not MEMORY_EFFICIENT: with it, builds without training cannot create a session.
_ORDER = Member(ExecutionOrder.DEFAULT, ExecutionOrder.PRIORITY_BASED)

# Programs for ORT's own backend set ORT's defaults, too.
_NO_TRACE = Fixed(
    False,
    "ORT writes a trace of every run to a file. In a program that you trust, create the InferenceSession with this "
    "attribute and pass it to prepare as the model",
)
_NO_END = Fixed(
    False, "the run stops before it returns outputs. To stop a run, pass timeout or cancellation to rep.run"
)

_false = partial(Rule, Flag(), "False")
_true = partial(Rule, Flag(), "True")
_FOLDS_TEXT = folds_text(lambda text: "DISABLE_ALL" not in text, "ORT_DISABLE_ALL")

SESSION_ATTRIBUTES = {
    "enable_cpu_mem_arena": _true("Whether the CPU EP allocates from an arena."),
    "enable_mem_pattern": _true("Whether ORT plans memory ahead from the shapes of the first run.", needs=(PATTERN,)),
    "enable_mem_reuse": _true("Whether a run reuses buffers."),
    "enable_profiling": Rule(_NO_TRACE, "False", "Whether ORT writes a trace of every run."),
    "execution_mode": Rule(_MODE, "ORT_SEQUENTIAL", "Whether operators run in parallel.", needs=(SEVERAL,)),
    "execution_order": Rule(_ORDER, "DEFAULT", "Order in which ready nodes run."),
    "graph_optimization_level": Rule(
        _LEVEL, "ORT_ENABLE_ALL", "How much ORT rewrites the graph.", needs=(_FOLDS_TEXT,)
    ),
    "inter_op_num_threads": Rule(
        Threads(),
        "0",
        "Threads that run operators in parallel. 0: ORT decides.",
        needs=(THREADS, OWN_POOLS, PARALLEL),
        already_so=("0", "1"),
    ),
    "intra_op_num_threads": Rule(Threads(), "0", "Threads per operator. 0: ORT decides.", needs=(THREADS, OWN_POOLS)),
    "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines. -1: the default of the process."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the session's log lines."),
    "use_deterministic_compute": _false("Whether ORT prefers deterministic kernels."),
    "use_per_session_threads": _true("Whether the session has its own thread pools."),
}

RUN_ATTRIBUTES = {
    "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines of the run. -1: the session's."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the run's log lines."),
    "only_execute_path_to_fetches": _false("Whether ORT runs only the nodes that the outputs need."),
    "terminate": Rule(_NO_END, "False", "Whether the run stops before it returns outputs."),
}
