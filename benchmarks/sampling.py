# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measures in interleaved rounds, and reports whether other processes disturbed the measurement."""

import math
import os
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
    timers = {}
    shortest = math.inf
    for side, code in statements.items():
        timer = timeit.Timer(code, globals=namespace)
        timer.timeit(3)  # the first executions are slower
        shortest = min(shortest, timer.timeit(3) / 3)
        timers[side.replace("_", " ")] = timer
    number = max(1, int(SECONDS_PER_SAMPLE / shortest))

    def measure(timer: timeit.Timer) -> float:
        return timer.timeit(number) / number

    return {side: partial(measure, timer) for side, timer in timers.items()}


def together(
    backend: Sequence[Callable[[], object]], by_hand: Sequence[Callable[[], object]], runs: int | None = None
) -> Mapping[str, Callable[[], float]]:
    """Return sides that execute ``runs`` (default: a tenth of a second) of each function, each in its own thread."""
    pool = ThreadPoolExecutor(len(backend))

    def check(run: Callable[[], object], expected: object) -> None:
        for _ in range(runs or 10):
            if not np.array_equal(run(), expected):
                raise RuntimeError("a run among others gave another result than the same run alone")

    expected = [run() for run in by_hand]
    list(pool.map(check, backend, expected))  # raises the error of a thread
    if runs is None:
        seconds_of_one = timeit.timeit(backend[0], number=20) / 20
        runs = max(1, int(0.1 / (seconds_of_one * len(backend))))

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
    samples: dict[str, list[float]] = {}
    order = list(sides)
    before = _Clocks()
    for number in range(rounds):
        if number >= LEAST_ROUNDS and time.monotonic() - before.at > seconds:
            break
        for side in order:
            samples.setdefault(side, []).append(sides[side]())
        order.reverse()
    return samples, before.disturbance()


class _Clocks:
    """The CPU time of the whole machine, and of this process with its finished children."""

    def __init__(self) -> None:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
        user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, fields)
        ticks = user + nice + system + interrupts + soft_interrupts + stolen
        self.machine = ticks / os.sysconf("SC_CLK_TCK")
        self.ours = sum(os.times()[:4])
        self.at = time.monotonic()

    def disturbance(self) -> str:
        """The CPUs that other processes have used since these clocks were read, or ``""`` if they are few."""
        now = _Clocks()
        seconds_of_all = now.machine - self.machine
        seconds_of_ours = now.ours - self.ours
        cpus = (seconds_of_all - seconds_of_ours) / (now.at - self.at)
        if cpus > MOST_CPUS_OF_OTHERS:
            return f"other processes used {cpus:.1f} CPUs"
        return ""
