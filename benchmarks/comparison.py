# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Defines a comparison: the backend and the same work by hand, the judged figure, and its limit."""

from collections.abc import Callable, Mapping
from statistics import quantiles
from typing import NamedTuple

# The sides of a comparison. A comparison without BY_HAND measures the backend only.
BACKEND = "backend"
BY_HAND = "by hand"

# The figures. Values are in seconds or bytes.
RATIO = "ratio"  # backend / by hand, of one round
VALUE = "value"  # backend
OF_STOCK = "of stock"  # the ratio or value / that of the stock backend

# A figure is steady if its quartiles differ by at most this part of its median.
MOST_SPREAD = 0.10


class Comparison(NamedTuple):
    """One comparison, measured in its own process.

    :param name: the measured work.
    :param sides: prepares both sides and returns, for each side, a function that measures it once.
    :param limit: the highest accepted value of the judged figure; ``None`` to show the figure only.
    :param judged: the figure that has the limit.
    :param stock: whether the stock backend can do the same work.
    :param unit: ``"s"`` or ``"B"``.
    :param rounds: the number of rounds, if it is not the usual number.
    :param seconds: the time after which no further round begins.
    """

    name: str
    sides: Callable[[], Mapping[str, Callable[[], float]]]
    limit: float | None
    judged: str = RATIO
    stock: bool = True
    unit: str = "s"
    rounds: int | None = None
    seconds: float = 4


class Figure(NamedTuple):
    """The median of a figure over all rounds, and its quartiles."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        if not self.median:
            return 0.0
        return (self.high - self.low) / self.median


def figure(which: str, samples: Mapping[str, list[float]]) -> Figure:
    """Return the RATIO or VALUE of the samples of each side, one sample for each round."""
    values = samples[BACKEND]
    if which == RATIO:
        values = [ours / raw for ours, raw in zip(values, samples[BY_HAND], strict=True)]
    if len(values) == 1:
        return Figure(values[0], values[0], values[0])
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return Figure(middle, low, high)


class Row(NamedTuple):
    """The result of a comparison.

    :param value: seconds or bytes of the backend.
    :param ratio: of the time by hand, if the comparison measures that.
    :param stock: the same figure of the stock backend, if it was measured.
    :param busy: the disturbance by other processes, or ``""``.
    """

    comparison: Comparison
    value: Figure
    ratio: Figure | None
    stock: Figure | None
    busy: str = ""

    @property
    def judged(self) -> float | None:
        """The judged figure, with the digits that the table shows."""
        if self.comparison.judged == OF_STOCK:
            if not (self.stock and self.stock.median):
                return None
            return round((self.ratio or self.value).median / self.stock.median, 3)
        if self.comparison.judged == VALUE:
            return self.value.median
        return self.ratio and round(self.ratio.median, 3)

    @property
    def unsteady(self) -> str:
        """The reason why the row cannot be judged, or ``""``. Other processes change times only, not memory."""
        if self.comparison.unit != "s":
            return ""
        if self.busy:
            return self.busy
        spread = (self.ratio or self.value).spread
        if self.stock and self.comparison.judged == OF_STOCK:
            spread = max(spread, self.stock.spread)
        if spread > MOST_SPREAD:
            return f"the quartiles differ by {spread:.0%}"
        return ""

    @property
    def met(self) -> bool | None:
        """Whether the judged figure keeps its limit, or ``None`` if the row is not judged."""
        if self.comparison.limit is None or self.judged is None or self.unsteady:
            return None
        return self.judged <= self.comparison.limit
