# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measuring in interleaved rounds, and telling whether the machine was quiet meanwhile."""

from __future__ import annotations

import os
import time
import timeit
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import quantiles

# Long enough that the clock and one context switch do not show, short enough for many rounds.
SECONDS_PER_SAMPLE = 0.015
# What an idle Linux uses, with margin. Two spinning neighbours use two.
MOST_CPUS_OF_OTHERS = 0.1
# Between the quartiles of a loop that does the same each time, relative to their middle.
MOST_SPREAD = 0.15


def timed(namespace: dict[str, object], **statements: str) -> dict[str, Callable[[], float]]:
    """Sides that are Python statements: each measures the seconds of one execution, over enough of them.

    :param namespace: the statements' global names.
    :param statements: side, with ``_`` for a space, to statement.
    """
    timers = {side.replace("_", " "): timeit.Timer(code, globals=namespace) for side, code in statements.items()}
    for timer in timers.values():
        timer.timeit(3)  # what is only slow at first
    number = max(1, int(SECONDS_PER_SAMPLE / min(timer.timeit(3) / 3 for timer in timers.values())))
    return {side: lambda timer=timer: timer.timeit(number) / number for side, timer in timers.items()}


def interleaved(sides: Mapping[str, Callable[[], float]], rounds: int) -> tuple[dict[str, list[float]], str]:
    """Measure all sides in every round, in alternating order.

    :return: the samples of each side, and why times among them prove nothing (empty where the machine was quiet).
    """
    samples = {side: [] for side in sides}
    calibration = timeit.Timer("for _ in range(20_000): pass")
    loops = []
    before = _Clocks()
    for number in range(rounds):
        loops.append(calibration.timeit(5))
        for side in list(sides)[:: -1 if number % 2 else 1]:
            samples[side].append(sides[side]())
    return samples, before.disturbance() or _unsteady(loops)


def _unsteady(loops: list[float]) -> str:
    if len(loops) < 4:
        return ""
    low, middle, high = quantiles(loops, n=4)
    spread = (high - low) / middle
    return f"a loop that always does the same took times {spread:.0%} apart" if spread > MOST_SPREAD else ""


class _Clocks:
    """The processor time of the whole machine, and of this process with the children that it waited for."""

    def __init__(self) -> None:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
        user, nice, system, _, _, interrupts, soft_interrupts, stolen = (int(field) for field in fields)
        self.machine = (user + nice + system + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")
        self.ours = sum(os.times()[:4])
        self.at = time.monotonic()

    def disturbance(self) -> str:
        """What others did since these clocks were read, where it was too much."""
        now = _Clocks()
        cpus = (now.machine - self.machine - (now.ours - self.ours)) / (now.at - self.at)
        return f"other processes used {cpus:.2f} CPUs" if cpus > MOST_CPUS_OF_OTHERS else ""


def disturbance_while_idle(seconds: float = 1.0) -> str:
    """What others do while this process does nothing; empty when that is next to nothing."""
    before = _Clocks()
    time.sleep(seconds)
    return before.disturbance()
