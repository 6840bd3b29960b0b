# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Attributes of ``SessionOptions`` and ``RunOptions``."""

from functools import partial

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist.conditions import OWN_POOLS, PARALLEL, PATTERN, SEVERAL, folds_text
from onnxruntime.backend.allowlist.rules import OWN_RUN, Rule, Table
from onnxruntime.backend.allowlist.threads import Threads
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, Member, Text

# ORT writes this text into its log lines. It must not look like another field of a log line, or start a new line.
_WORD = "[A-Za-z0-9_.@/+-]+"
_LOG_ID = Text(f"({_WORD}( {_WORD})*)?", "words of ASCII letters, digits and _ . @ / + -, separated by single spaces")
# Not 0 and 1: with them, a session of two nodes writes 136 and 65 lines into the application's log. The application can
# set them with onnxruntime.set_default_logger_severity.
_SEVERITY = Choice(-1, 2, 3, 4)
_VERBOSITY = Rule(
    Choice(0),
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

SESSION_ATTRIBUTES = Table(
    {
        "enable_cpu_mem_arena": _true("Whether the CPU EP allocates from an arena."),
        "enable_mem_pattern": _true(
            "Whether ORT plans memory ahead from the shapes of the first run.", needs=(PATTERN,)
        ),
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
            needs=(OWN_POOLS, PARALLEL),
            already_so=("0", "1"),
        ),
        "intra_op_num_threads": Rule(Threads(), "0", "Threads per operator. 0: ORT decides.", needs=(OWN_POOLS,)),
        "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines. -1: the default of the process."),
        "log_verbosity_level": _VERBOSITY,
        "logid": Rule(_LOG_ID, "", "Prefix of the session's log lines."),
        "use_deterministic_compute": _false("Whether ORT prefers deterministic kernels."),
        "use_per_session_threads": _true("Whether the session has its own thread pools."),
    },
    {
        "unsafe memory access": {
            "add_external_initializers": "the session keeps using the memory of the arrays",
            "add_external_initializers_from_files_in_memory": (
                "the session reads weights from the caller's buffers at offsets that the model specifies"
            ),
            "add_initializer": "the session keeps using the memory of the value",
        },
        "no effect": {
            "add_free_dimension_override_by_denotation": (
                "ORT ignores a denotation that the model does not have. Use free_dimension_overrides, which takes names"
            ),
            "get_session_config_entry": "a method that only reads. See session_config of the prepared model",
            "has_providers": "a method that only reads. See providers of the prepared model",
        },
        "set by another argument": {
            "add_free_dimension_override_by_name": "pass the sizes in free_dimension_overrides",
            "add_provider add_provider_for_devices": "pass execution providers in provider_options",
            "add_session_config_entry": "pass session config entries in session_config",
            "set_provider_selection_policy": (
                "lets ORT choose devices that the caller does not specify. Pass execution providers in provider_options"
            ),
            "set_provider_selection_policy_delegate": (
                "lets a callback choose devices. Pass execution providers in provider_options"
            ),
        },
        "requires another refused option": {
            "clear_ep_context_data_read_func": "removes the function that set_ep_context_data_read_func sets"
        },
        "writes files": {
            "optimized_model_filepath": "saves the optimized model to a file of any name",
            "profile_file_prefix": "specifies the file that enable_profiling writes",
        },
        "loads a library": {
            "register_custom_ops_library": (
                "loads a shared library and runs its code. The environment variable ORT_ONNX_BACKEND_CONFIG can "
                'specify it, as {"extensions": [...]}'
            )
        },
        "extends the trust in the model": {
            "set_ep_context_data_read_func": "lets a callback supply compiled code for the model's EP nodes"
        },
        "no useful effect": {"set_load_cancellation_flag": "lets another thread stop the creation of this session"},
    },
)

RUN_ATTRIBUTES = Table(
    {
        "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines of the run. -1: the session's."),
        "log_verbosity_level": _VERBOSITY,
        "logid": Rule(_LOG_ID, "", "Prefix of the run's log lines."),
        "only_execute_path_to_fetches": _false("Whether ORT runs only the nodes that the outputs need."),
        "terminate": Rule(_NO_END, "False", "Whether the run stops before it returns outputs."),
    },
    {
        "extends the trust in the model": {"add_active_adapter": "computes with other weights, from an adapter"},
        "set by another argument": {"add_run_config_entry": "pass run config entries in run_config"},
        "no effect": {"get_run_config_entry": "a method that only reads. See run_config of the prepared model"},
        "wrong results": {"training_mode": "switches operators such as Dropout to training, in builds that support it"},
    },
    own=OWN_RUN,
)
