# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of everything that is not an EP option: SessionOptions and RunOptions attributes, session config keys and
run config keys, each permitted with its values or refused with its hazard.
"""

from __future__ import annotations

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist_rules import (
    OTHER_DOOR,
    WRITES_FILES,
    WRONG_RESULTS,
    Circumstances,
    Family,
    Need,
    Permitted,
    Refused,
    Rule,
)
from onnxruntime.backend.value_kinds import Flag, FreeText, Integer, Member, Text


def _has(*names: str) -> Need:
    """One of these EPs in the session."""
    return Need(
        f"one of the execution providers {', '.join(names)} in the session",
        lambda at, _: bool({*names} & {*at.providers}),
    )


def _arena_exists(at: Circumstances, text: str) -> bool:
    """Every device named in 'cpu:0;gpu:0' has an arena: ORT accepts 'gpu' without a GPU and does nothing."""
    cpu = at.cpu_arena
    gpu = any(name.startswith(("CUDA", "Tensorrt", "ROCM", "MIGraphX")) for name in at.providers)
    return all(cpu if device.startswith("cpu") else gpu for device in text.split(";"))


_PARALLEL = Need("execution_mode=ORT_PARALLEL", lambda at, _: at.parallel)
_ARM64 = Need("a 64-bit Arm CPU", lambda at, _: at.machine.lower() in ("aarch64", "arm64"))
_ARENA = Need("a memory arena of every device it names (enable_cpu_mem_arena for cpu, a GPU EP for gpu)", _arena_exists)

# --- Attributes of onnxruntime.SessionOptions, as keyword arguments of prepare and run ---

SESSION_ATTRIBUTES: dict[str, Rule] = {
    "enable_cpu_mem_arena": Permitted(Flag(), "True", "Whether the CPU EP allocates from an arena."),
    "enable_mem_pattern": Permitted(Flag(), "True", "Whether memory is laid out ahead from the first run's shapes."),
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
    "inter_op_num_threads": Permitted(Integer(0, 1024), "0", "Threads that run operators in parallel; 0: ORT decides."),
    "intra_op_num_threads": Permitted(Integer(0, 1024), "0", "Threads within an operator; 0: ORT decides."),
    "log_severity_level": Permitted(Integer(-1, 4), "-1", "Least severity that is logged; -1: the process default."),
    "log_verbosity_level": Permitted(Integer(0, 1024), "0", "How much is logged at severity 0."),
    "logid": Permitted(FreeText(max_bytes=256), "", "Prefix of the session's log lines."),
    "use_deterministic_compute": Permitted(Flag(), "False", "Whether deterministic kernels are preferred."),
    "use_per_session_threads": Permitted(Flag(), "True", "Whether the session has thread pools of its own."),
    "optimized_model_filepath": Refused(WRITES_FILES, "saves the optimized model under any name"),
    # ... every other public name of SessionOptions
}

RUN_ATTRIBUTES: dict[str, Rule] = {
    "log_severity_level": Permitted(Integer(0, 4), "2", "Least severity that is logged during the run."),
    "log_verbosity_level": Permitted(Integer(0, 1024), "0", "How much is logged at severity 0."),
    "logid": Permitted(FreeText(max_bytes=256), "", "Prefix of the run's log lines."),
    "only_execute_path_to_fetches": Permitted(Flag(), "False", "Whether only nodes that lead to an output run."),
    "training_mode": Refused(WRONG_RESULTS, "switches operators such as Dropout to training where the build has it"),
    # ... every other public name of RunOptions, terminate, training_mode
}

# --- Session config entries ---

SESSION_CONFIG: dict[str, Rule] = {
    "session.disable_prepacking": Permitted(Flag(), "0", "Skips the repacking of constant weights at load time."),
    "session.intra_op.allow_spinning": Permitted(Flag(), "1", "Lets idle intra-op threads spin before they block."),
    "session.inter_op.allow_spinning": Permitted(
        Flag(), "1", "Lets idle inter-op threads spin before they block.", needs=(_PARALLEL,)
    ),
    "session.collect_node_memory_stats_to_file": Refused(WRITES_FILES, "rewrites a file of any name after each run"),
    "mlas.disable_kleidiai": Permitted(Flag(), "0", "Switches off KleidiAI kernels.", since=(1, 31), needs=(_ARM64,)),
    "session.disable_model_compile": Permitted(
        Flag(), "0", "Fails when an EP would have to compile.", needs=(_has("OpenVINOExecutionProvider"),)
    ),
}

SESSION_FAMILIES: tuple[Family, ...] = (
    Family("session.intra_op.", "[a-z_]{1,40}", Integer(0, 64, flags=True), 16),
    Family("session.inter_op.", "[a-z_]{1,40}", Integer(0, 64, flags=True), 16),
)

# Refused by their beginning; an exact rule above wins.
REFUSED_SESSION_FAMILIES: dict[str, Refused] = {
    "ep.": Refused(OTHER_DOOR, "options of an execution provider are named in provider_options"),
}

# --- Run config entries ---

RUN_CONFIG: dict[str, Rule] = {
    "gpu_graph_id": Permitted(Integer(-1, 1023), "not set", "Which captured graph a run uses; -1: none, for this run."),
    "memory.enable_memory_arena_shrinkage": Permitted(
        Text(r"(cpu|gpu):[0-9]{1,3}(;(cpu|gpu):[0-9]{1,3}){0,7}", "devices such as cpu:0 or cpu:0;gpu:0"),
        "not set",
        "Gives unused arena memory back after the run.",
        needs=(_ARENA,),
    ),
}
