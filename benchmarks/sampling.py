# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measures in interleaved rounds, and reports whether other processes disturbed the measurement."""

from __future__ import annotations

import os
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

# Long enough that the clock and one context switch do not show, short enough for many rounds.
SECONDS_PER_SAMPLE = 0.015
# CPUs that an idle Linux uses, with a margin.
MOST_CPUS_OF_OTHERS = 0.1
# Rounds that every comparison makes, however long they take; a comparison may specify fewer.
LEAST_ROUNDS = 15


def timed(namespace: dict[str, object], **statements: str) -> dict[str, Callable[[], float]]:
    """Return sides that are Python statements: each measures the seconds of one execution, over many of them.

    :param namespace: the global names of the statements.
    :param statements: the name of each side, with ``_`` for a space, and its statement.
    """
    timers = {side.replace("_", " "): timeit.Timer(code, globals=namespace) for side, code in statements.items()}
    for timer in timers.values():
        timer.timeit(3)  # the first executions are slower
    number = max(1, int(SECONDS_PER_SAMPLE / min(timer.timeit(3) / 3 for timer in timers.values())))
    return {side: lambda timer=timer: timer.timeit(number) / number for side, timer in timers.items()}


def together(
    backend: Sequence[Callable[[], object]], by_hand: Sequence[Callable[[], object]], runs: int | None = None
) -> Mapping[str, Callable[[], float]]:
    """Return sides that execute ``runs`` (default: a tenth of a second) of each function, each in its own thread."""
    pool = ThreadPoolExecutor(len(backend))

    expected = [run() for run in by_hand]
    got = list(pool.map(lambda run: [run() for _ in range(runs or 10)], backend))
    for right, outputs in zip(expected, got, strict=True):
        if not all(np.array_equal(output, right) for output in outputs):
            raise RuntimeError("a run among others gave another result than the same run alone")
    if runs is None:
        runs = max(1, int(0.1 / (timeit.timeit(backend[0], number=20) / 20 * len(backend))))

    def execute(functions: Sequence[Callable[[], object]]) -> None:
        for _ in pool.map(repeat, functions):
            pass

    def repeat(run: Callable[[], object]) -> None:
        for _ in range(runs):
            run()

    namespace = {"execute": execute, "backend": backend, "by_hand": by_hand}
    return timed(namespace, backend="execute(backend)", by_hand="execute(by_hand)")


def interleaved(
    sides: Mapping[str, Callable[[], float]], rounds: int, seconds: float
) -> tuple[dict[str, list[float]], str]:
    """Measure all sides in every round, in alternating order.

    :param seconds: the time after which no further round begins.
    :return: the samples of each side, and the disturbance by other processes (``""`` if there was none).
    """
    samples = {side: [] for side in sides}
    before = _Clocks()
    for number in range(rounds):
        if number >= LEAST_ROUNDS and time.monotonic() - before.at > seconds:
            break
        for side in list(sides)[:: -1 if number % 2 else 1]:
            samples[side].append(sides[side]())
    return samples, before.disturbance()


class _Clocks:
    """The CPU time of the whole machine, and of this process with its finished children."""

    def __init__(self) -> None:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
        user, nice, system, _, _, interrupts, soft_interrupts, stolen = (int(field) for field in fields)
        self.machine = (user + nice + system + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")
        self.ours = sum(os.times()[:4])
        self.at = time.monotonic()

    def disturbance(self) -> str:
        """The CPUs that other processes have used since these clocks were read, or ``""`` if they are few."""
        now = _Clocks()
        cpus = (now.machine - self.machine - (now.ours - self.ours)) / (now.at - self.at)
        return f"other processes used {cpus:.1f} CPUs" if cpus > MOST_CPUS_OF_OTHERS else ""
