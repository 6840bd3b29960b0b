# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The conditions of permitted settings and of EPs. If one is not met, a setting has no effect, or does harm."""

import sys
from collections.abc import Callable, Mapping
from functools import partial

from onnxruntime import ExecutionMode, GraphOptimizationLevel
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.facts import SessionFacts
from onnxruntime.backend.allowlist.rules import Need, Texts, Values
from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.provider_names import (
    CAPTURE_SWITCHES,
    CPU,
    CUDA,
    NPU,
    OF_OPENVINO,
    ON_CUDA_DEVICE,
    ON_GPU,
    OPENVINO,
    OPENVINO_AUTO,
    TENSORRT,
    WEBGPU,
)

only_warns = partial(Need, only_warns=True, otherwise="has no effect in this session")


def has(*eps: str) -> Need:
    """Return the need of one of these EPs in the session."""
    what = f"one of the EPs {', '.join(ep.replace('ExecutionProvider', '') for ep in eps)} in the session"
    return Need(what, lambda facts, _: facts.has(*eps))


def beside(key: str, text: str, default: str = "0") -> Need:
    """Return the need that a switch among the other session config entries has this text, or has it by default."""
    return only_warns(f"{key}={text}", lambda facts, _: facts.session_config.get(key, default) == text)


def optimizes(level: GraphOptimizationLevel) -> Need:
    """Return the need of a graph optimization level at which the pass that reads a key runs."""
    least, what = int(level), f"graph_optimization_level={level.name} or more"
    return only_warns(what, lambda facts, _: int(facts.attributes.get("graph_optimization_level", least)) >= least)


# Threads.


def _runs_in_parallel(attributes: Values) -> bool:
    """Return whether operators run in parallel. With one inter-op thread, ORT creates a sequential session."""
    return (
        attributes.get("execution_mode") == ExecutionMode.ORT_PARALLEL and attributes.get("inter_op_num_threads") != 1
    )


def pools_above_cpus(attributes: Values) -> list[str]:
    """Return the thread pools of a session with these attributes that have more threads than this process has CPUs."""
    if not attributes.get("use_per_session_threads", True):
        return []
    pools = ["intra_op"]
    if _runs_in_parallel(attributes):
        pools.append("inter_op")
    return [pool for pool in pools if attributes.get(f"{pool}_num_threads", 0) > len(threads.CPUS)]


def may_spin(pool: str) -> Need:
    """Return the need of a pool whose idle threads do not take the CPUs of other sessions."""
    return Need(
        f"at most as many threads ({pool}_num_threads) as usable CPUs",
        lambda facts, text: text == "0" or pool not in pools_above_cpus(facts.attributes),
        otherwise="idle threads slow down other sessions",
    )


PARALLEL = only_warns("execution_mode=ORT_PARALLEL", lambda facts, _: _runs_in_parallel(facts.attributes))
SEVERAL = only_warns(
    "inter_op_num_threads other than 1 to be ORT_PARALLEL",
    lambda facts, text: "PARALLEL" not in text or _runs_in_parallel(facts.attributes),
)
PATTERN = only_warns(
    "execution_mode=ORT_SEQUENTIAL to be on", lambda facts, text: text == "0" or not _runs_in_parallel(facts.attributes)
)
OWN_POOLS = only_warns(
    "per-session thread pools (use_per_session_threads)",
    lambda facts, _: facts.attributes.get("use_per_session_threads", True),
    warns_always=True,
)
INTRA_THREADS = only_warns(
    "two or more intra-op threads", lambda facts, _: facts.attributes.get("intra_op_num_threads") != 1
)

# The machine.


def _has_bf16() -> bool:
    """Return whether Linux lists bfloat16 among the features of an Arm CPU."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return any("bf16" in line.split() for line in file if line.startswith("Features"))
    except OSError:
        return False


X86_64 = Need("an x86-64 CPU", lambda facts, _: facts.process.machine.lower() in ("x86_64", "amd64"))
ARM64 = Need("a 64-bit Arm CPU", lambda facts, _: facts.process.machine.lower() in ("aarch64", "arm64"))
ARM64_BF16 = Need(
    "Linux on a 64-bit Arm CPU with bfloat16",
    lambda facts, text: facts.process.system == "Linux" and ARM64.holds(facts, text) and _has_bf16(),
)

# Devices and graph capture.


def _each_device(text: str, **has: bool) -> bool:
    """Return whether each device in a text such as 'cpu:0;gpu:0' is one that the session ``has``."""
    return all(has[part[:3]] for part in text.split(";"))


def capturing(options: Mapping[str, Texts]) -> list[str]:
    """Return the EPs that capture graphs, according to the texts of the options of each EP."""
    switches = ((ep, texts.get(CAPTURE_SWITCHES.get(ep, ""))) for ep, texts in options.items())
    return [ep for ep, text in switches if text is not None and is_on(text)]


NO_CPU_EP = Need(
    "provider_options with an execution provider and without CPUExecutionProvider",
    lambda facts, text: text == "0" or (bool(facts.providers) and CPU not in facts.providers),
)
DEVICES = Need(
    # Otherwise, ORT logs an error and continues.
    "a session with an execution provider for every device in the value",
    lambda facts, text: _each_device(text, cpu=True, gpu=facts.has(*ON_GPU), npu=facts.has(*NPU)),
)
CAPTURING = only_warns(
    f"an execution provider that captures graphs ({', '.join(CAPTURE_SWITCHES.values())})",
    lambda facts, text: text == "-1" or bool(capturing(facts.options)),
)
ARENAS = Need(
    "a memory arena for each device in the value (cpu: enable_cpu_mem_arena; gpu: a GPU EP)",
    lambda facts, text: _each_device(
        text, cpu=facts.attributes.get("enable_cpu_mem_arena", True), gpu=facts.has(*ON_CUDA_DEVICE)
    ),
)
NO_GRAPHS = Need(
    "a value of cpu:0 if the session captures graphs",
    lambda facts, text: text == "cpu:0" or not capturing(facts.options),
    otherwise="a replay uses memory that the arena has released",
)

# OpenVINO.


def folds_text(is_folded: Callable[[str], bool], value: str) -> Need:
    """Return the need of a setting that can prevent ORT from folding constant text.

    :param is_folded: whether ORT folds text if the setting has this value.
    :param value: the values that prevent it, for the message.
    """

    def is_met(facts: SessionFacts, text: str) -> bool:
        plugins = [ep for ep in OF_OPENVINO if facts.process.kinds.get(ep) == "plugin"]
        return is_folded(text) or not facts.has(*plugins)

    return Need(
        f"a session without OpenVINO's plugin EP for {value}",
        is_met,
        otherwise="the EP gets operators on constant text, and terminates the process",
    )


def openvino_device(facts: SessionFacts) -> str:
    """Return the OpenVINO device of a session."""
    return facts.option(OPENVINO, "device_type", "CPU")


# Locks.


def has_global_lock() -> bool:
    """Return whether Python's global interpreter lock orders the steps of all threads, on which all locks rely."""
    return not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled()  # from Python 3.13 on


_GLOBAL_LOCK = "Python's global interpreter lock, which free-threaded Python lacks"
_NO_LOCKS = "the locks of its sessions fail"
_LOCKS = Need(_GLOBAL_LOCK, lambda *_: has_global_lock(), otherwise=_NO_LOCKS)
_LOCKS_TO_CAPTURE = Need(
    f"{_GLOBAL_LOCK}, to capture graphs",
    lambda facts, _: has_global_lock() or not capturing(facts.options),
    otherwise=_NO_LOCKS,
)

# The conditions for an EP to be in a session.
PROVIDER_NEEDS = {
    OPENVINO: (_LOCKS,),
    OPENVINO_AUTO: (_LOCKS,),
    WEBGPU: (_LOCKS,),
    CUDA: (_LOCKS_TO_CAPTURE,),
    TENSORRT: (_LOCKS_TO_CAPTURE,),
}
