# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A comparison: the backend beside the same work by hand, the figure that is judged, and its limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median, quantiles
from typing import NamedTuple

# The sides of a comparison. One without BY_HAND only looks at the backend.
BACKEND = "backend"
BY_HAND = "by hand"

# The figures, in seconds or bytes where they have a unit.
RATIO = "ratio"  # backend / by hand, of one round
EXCESS = "excess"  # backend - by hand, of one round
VALUE = "value"  # backend
OF_STOCK = "of stock"  # ratio / the stock backend's ratio


class Comparison(NamedTuple):
    """One comparison, measured in a process of its own.

    :param name: what is measured.
    :param sides: makes everything ready and returns, for each side, what measures it once.
    :param limit: what the judged figure may not exceed; ``None`` to show it only.
    :param judged: the figure that the limit is for.
    :param stock: whether the stock backend can do the same.
    :param unit: ``"s"`` or ``"B"``.
    :param rounds: how many, where the usual number would take long and prove nothing more.
    """

    name: str
    sides: Callable[[], Mapping[str, Callable[[], float]]]
    limit: float | None
    judged: str = RATIO
    stock: bool = True
    unit: str = "s"
    rounds: int | None = None


def figure(which: str, samples: Mapping[str, list[float]]) -> tuple[float, float, float]:
    """The median of RATIO, EXCESS or VALUE over all rounds, and its quartiles.

    :param which: the figure.
    :param samples: for each side one measurement of each round.
    """
    if which == VALUE:
        values = samples[BACKEND]
    else:
        pairs = zip(samples[BACKEND], samples[BY_HAND], strict=True)
        values = [ours - raw if which == EXCESS else ours / raw for ours, raw in pairs]
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return median(values), low, high
