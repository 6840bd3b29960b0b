# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The conditions that several entries of the tables have. Without them, ORT ignores or rejects a permitted setting."""

from __future__ import annotations

import os
from collections.abc import Callable

from onnxruntime import ExecutionMode
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.conditions import Circumstances, only_warns
from onnxruntime.backend.allowlist.rules import NOTHING, Need
from onnxruntime.backend.allowlist.value_kinds import is_on
from onnxruntime.backend.provider_names import (
    CAPTURE_SWITCHES,
    CPU,
    GPU,
    NPU,
    OF_OPENVINO,
    ON_CUDA_DEVICE,
)

# Threads.


def runs_in_parallel(facts: Circumstances) -> bool:
    """Return whether operators run in parallel. With one inter-op thread, ORT creates a sequential session."""
    threads = facts.attributes.get("inter_op_num_threads")
    return facts.attributes.get("execution_mode") == ExecutionMode.ORT_PARALLEL and threads != 1


def _threads(facts: Circumstances) -> int:
    """Return the most threads that ORT starts for the pools of a session. For a number of 0, it counts the cores."""
    pools = ["intra_op"]
    if runs_in_parallel(facts):
        pools.append("inter_op")
    number = 0
    for pool in pools:
        number += facts.attributes.get(f"{pool}_num_threads") or os.cpu_count() or 1
    return number


def pools_above_cpus(facts: Circumstances) -> list[str]:
    """Return the thread pools of the session that have more threads than this process has CPUs."""
    if not facts.attributes.get("use_per_session_threads", True):
        return []
    pools = ["intra_op"]
    if runs_in_parallel(facts):
        pools.append("inter_op")
    return [pool for pool in pools if facts.attributes.get(f"{pool}_num_threads", 0) > len(threads.CPUS)]


def may_spin(pool: str) -> Need:
    """Return the need of a pool whose idle threads do not take the CPUs of other sessions."""
    return Need(
        f"at most as many threads ({pool}_num_threads) as usable CPUs",
        lambda facts, text: text == "0" or pool not in pools_above_cpus(facts),
        without="idle threads slow down other sessions",
    )


PARALLEL = only_warns("execution_mode=ORT_PARALLEL", lambda facts, _: runs_in_parallel(facts))
SEVERAL = only_warns(
    "inter_op_num_threads other than 1 to be ORT_PARALLEL",
    lambda facts, text: "PARALLEL" not in text or runs_in_parallel(facts),
)
PATTERN = only_warns(
    "execution_mode=ORT_SEQUENTIAL to be on", lambda facts, text: text == "0" or not runs_in_parallel(facts)
)
OWN_POOLS = only_warns(
    "per-session thread pools (use_per_session_threads)",
    lambda facts, _: facts.attributes.get("use_per_session_threads", True),
    shared=True,
)
INTRA_THREADS = only_warns(
    "two or more intra-op threads", lambda facts, _: facts.attributes.get("intra_op_num_threads") != 1
)
THREADS = Need(
    "threads that this process can start",
    lambda facts, text: threads.threads_start(max(int(text), _threads(facts))),
    without="ORT waits indefinitely",
)

# The machine.


def _has_bf16() -> bool:
    """Return whether Linux lists bfloat16 among the features of an Arm CPU."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return any("bf16" in line.split() for line in file if line.startswith("Features"))
    except OSError:
        return False


X86_64 = Need("an x86-64 CPU", lambda facts, _: facts.machine.lower() in ("x86_64", "amd64"))
ARM64 = Need("a 64-bit Arm CPU", lambda facts, _: facts.machine.lower() in ("aarch64", "arm64"))
ARM64_BF16 = Need(
    "Linux on a 64-bit Arm CPU with bfloat16",
    lambda facts, text: facts.system == "Linux" and ARM64.met(facts, text) and _has_bf16(),
)

# Devices and graph capture.


def _each_device(text: str, **has: bool) -> bool:
    """Return whether each device in a text such as 'cpu:0;gpu:0' is one that the session ``has``."""
    return all(has[part[:3]] for part in text.split(";"))


def _captures(facts: Circumstances) -> bool:
    """Return whether an EP captures graphs, which ``gpu_graph_id`` distinguishes."""
    options = facts.options
    return any(is_on(options.get(ep, NOTHING).get(name, "")) for ep, name in CAPTURE_SWITCHES.items())


NO_CPU_EP = Need(
    "provider_options with an execution provider and without CPUExecutionProvider",
    lambda facts, text: text == "0" or (bool(facts.providers) and CPU not in facts.providers),
)
DEVICES = Need(
    # Otherwise, ORT logs an error and continues.
    "a session with an execution provider for every device in the value",
    lambda facts, text: _each_device(text, cpu=True, gpu=facts.has(*GPU), npu=facts.has(*NPU)),
)
CAPTURING = only_warns(
    f"an execution provider that captures graphs ({', '.join(CAPTURE_SWITCHES.values())})",
    lambda facts, text: text == "-1" or _captures(facts),
)
ARENAS = Need(
    "a memory arena for each device in the value (cpu: enable_cpu_mem_arena; gpu: a GPU EP)",
    lambda facts, text: _each_device(
        text, cpu=facts.attributes.get("enable_cpu_mem_arena", True), gpu=facts.has(*ON_CUDA_DEVICE)
    ),
)
NO_GRAPHS = Need(
    "a value of cpu:0 if the session captures graphs",
    lambda facts, text: text == "cpu:0" or not _captures(facts),
    without="a replay uses memory that the arena has released",
)

# OpenVINO.


def folds_text(is_folded: Callable[[str], bool], value: str) -> Need:
    """Return the need of a setting with which ORT does not fold constant text if it has a value."""

    def is_met(facts: Circumstances, text: str) -> bool:
        plugins = [ep for ep in OF_OPENVINO if facts.kinds.get(ep) == "plugin"]
        return is_folded(text) or not facts.has(*plugins)

    return Need(
        f"a session without OpenVINO's plugin EP for {value}",
        is_met,
        without="the EP gets operators on constant text, and terminates the process",
    )
