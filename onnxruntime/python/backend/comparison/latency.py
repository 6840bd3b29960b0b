# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measures the latency of sessions, so that neither other sessions nor the load of the machine decide which is faster.

The sessions run in turns. A turn is a block of runs of one session. Before the block, the idle threads of the previous
session stop to spin during a pause, and some runs are not measured. Therefore, a session is as fast as it is alone. All
blocks of a round meet the same load. Therefore, the medians of the blocks of a round are compared with each other.
"""

import math
import time
from collections.abc import Iterable

import numpy as np

from onnxruntime.backend.comparison.side import Blocks, Side

_SECONDS = 2.0  # of the measured runs of a session
_FEWEST_ROUNDS = 10
_MOST_ROUNDS = 20
_PAUSE = 0.05  # seconds. ORT's threads spin for less
_SETTLING = 0.01  # seconds of a block that are not measured
_WARM_UP = 3  # runs before the first measured one
_SIGNIFICANCE = 0.05
# Sessions with the same configuration can differ by less, and always in the same direction.
_EQUAL = 0.03


def measure(sides: Iterable[Side], feeds: list, repeat: int | None) -> None:
    """Add blocks to each side until it has an error.

    :param repeat: the number of measured runs, by default as many as fit into two seconds.
    """
    rounds = min(repeat or _MOST_ROUNDS, _MOST_ROUNDS)
    order = list(sides)
    until = math.inf if repeat else time.perf_counter() + 2 * _SECONDS * len(order)
    for number in range(rounds):
        if number >= _FEWEST_ROUNDS and time.perf_counter() > until:
            break
        runs = repeat and repeat * (number + 1) // rounds - repeat * number // rounds
        for side in order:
            if len(order) > 1 or number == 0:
                time.sleep(_PAUSE)
                _run(side, feeds, 1 if number else _WARM_UP, _SETTLING)
            block = _run(side, feeds, runs or 1, 0 if runs else _SECONDS / rounds)
            if side.error is None:
                side.blocks.append(block)
        order.reverse()


def _run(side: Side, feeds: list, runs: int, seconds: float) -> list[float]:
    """Run a side until both limits are reached, and return the seconds of each run."""
    block: list[float] = []
    begun = ended = time.perf_counter()
    while side.error is None and (len(block) < runs or ended - begun < seconds):
        started = time.perf_counter()
        side.run(feeds)
        ended = time.perf_counter()
        block.append(ended - started)
    return block


def latency(blocks: Blocks, of_first: Blocks) -> dict[str, object] | None:
    """Return the percentiles of all runs in milliseconds, and the ratio to the first side with its interval."""
    if not blocks:
        return None
    samples = np.concatenate(blocks) * 1000
    p50, p90, p99 = map(float, np.percentile(samples, (50, 90, 99), method="inverted_cdf"))
    ratios = [float(np.median(ours) / np.median(theirs)) for ours, theirs in zip(blocks, of_first, strict=False)]
    interval = _interval(ratios)
    return {
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "runs": samples.size,
        "ratio_to_first": float(np.median(ratios)) if ratios else None,
        "ratio_interval": interval,
        "verdict": _verdict(*interval) if interval else None,
    }


def _interval(ratios: list[float]) -> list[float] | None:
    """Return a 95 % confidence interval of the median, or ``None`` if there are fewer than six ratios.

    It is the interval of the sign test, between two of the sorted ratios. The ratios of a loaded machine have outliers
    of any size. One outlier would make the interval of a t test ten times as wide, and does not change this interval.
    """
    outside = 0.0
    found = None
    for index, ratio in enumerate(sorted(ratios)):
        outside += 2 * math.comb(len(ratios), index) / 2 ** len(ratios)
        if outside > _SIGNIFICANCE:
            break
        found = [ratio, sorted(ratios)[-1 - index]]
    return found


def _verdict(low: float, high: float) -> str:
    """Return the word for a ratio in an interval, or ``""`` if the measurement is not precise enough for one."""
    if high < 1 - _EQUAL:
        return "faster"
    if low > 1 + _EQUAL:
        return "slower"
    return "equal" if low > 1 - _EQUAL and high < 1 + _EQUAL else ""
