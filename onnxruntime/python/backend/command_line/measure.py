# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measures latency and compares outputs for the ``run`` command."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

_TEXTS = "ObUS"  # the kinds of arrays whose values are equal or not


def percentiles(samples: list[float]) -> dict[str, float]:
    """Return the 50th, 90th and 99th percentile of seconds, in milliseconds."""
    found = np.percentile(samples, (50, 90, 99), method="inverted_cdf")
    p50, p90, p99 = map(float, found * 1000)
    return {
        "p50": p50,
        "p90": p90,
        "p99": p99,
    }


def difference(
    value: object,
    expected: object,
    rtol: float,
    atol: float,
) -> dict:
    """Compare outputs with :func:`numpy.isclose`.

    The ``index`` is the place of the largest difference, with both values. The share of the elements beyond the
    tolerance is ``beyond``. The ``note`` is the reason if the differences are not defined.
    """
    outputs = dict(leaves(value))
    references = dict(leaves(expected))
    if outputs.keys() != references.keys():
        return _undefined("other items")

    found = _Difference(rtol, atol)
    for place, ours in outputs.items():
        theirs = references[place]
        if ours.shape != theirs.shape:
            return _undefined(f"the shape of the reference is {list(theirs.shape)}")
        if ours.size:
            found.add(place, ours, theirs)
    return found.described()


class _Difference:
    """The differences of the arrays in an output."""

    def __init__(self, rtol: float, atol: float) -> None:
        self._tolerance = {"rtol": rtol, "atol": atol}
        self._elements = 0
        self._beyond = 0
        self._absolute = 0.0  # infinite if it is not defined
        self._relative = 0.0
        self._note = ""
        self._worst: dict[str, Any] = {
            "index": None,
            "value": None,
            "reference": None,
        }

    def add(
        self,
        place: tuple,
        ours: np.ndarray,
        theirs: np.ndarray,
    ) -> None:
        """Compare two arrays of the same shape."""
        if ours.dtype.kind in _TEXTS:
            beyond = np.asarray(ours != theirs)
            absolute = np.where(beyond, math.inf, 0.0)
            note = "other values"
        else:
            absolute, beyond = self._compare_numbers(ours, theirs)
            note = "one of the values is not finite"

        self._elements += beyond.size
        self._beyond += int(beyond.sum())
        largest = float(absolute.max())
        if largest <= self._absolute:
            return

        self._absolute = largest
        self._note = note if math.isinf(largest) else ""
        flat = absolute.argmax()
        index = np.unravel_index(flat, absolute.shape)
        self._worst = {
            "index": [*place, *map(int, index)],
            "value": _plain(ours[index]),
            "reference": _plain(theirs[index]),
        }

    def _compare_numbers(
        self,
        ours: np.ndarray,
        theirs: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the absolute differences, and whether each element is beyond the tolerance."""
        kind = np.complex128 if ours.dtype.kind == "c" else np.float64
        ours = ours.astype(kind)
        theirs = theirs.astype(kind)
        with np.errstate(all="ignore"):
            equal = np.isclose(ours, theirs, 0, 0, equal_nan=True)
            within = np.isclose(ours, theirs, equal_nan=True, **self._tolerance)
            absolute = np.where(equal, 0.0, np.abs(ours - theirs))
            quotients = absolute / np.abs(theirs)

        absolute[np.isnan(absolute)] = math.inf
        relative = np.max(quotients, initial=0.0, where=np.isfinite(quotients))
        self._relative = max(self._relative, float(relative))
        return absolute, ~np.asarray(within)

    def described(self) -> dict:
        result = {
            "within": self._beyond == 0,
            "absolute": self._absolute,
            "relative": self._relative,
            "note": self._note,
            "beyond": self._beyond / max(self._elements, 1),
        }
        if self._note:
            result["absolute"] = None
            result["relative"] = None
        return result | self._worst


def _plain(value: Any) -> object:
    """Return a value as JSON can contain it: text for a number that is complex or not finite."""
    kind = np.asarray(value).dtype.kind
    if kind in "biu":
        return value.item()
    if kind in "cOSU":
        return str(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _undefined(note: str) -> dict:
    return {
        "within": False,
        "absolute": None,
        "relative": None,
        "note": note,
        "beyond": None,
        "index": None,
        "value": None,
        "reference": None,
    }


def leaves(value: object, place: tuple = ()) -> Iterator[tuple[tuple, np.ndarray]]:
    """Return the arrays in an output, each with its place in sequences and maps."""
    items: Iterable[tuple]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield place, np.asarray(value)
        return

    for key, item in items:
        yield from leaves(item, (*place, key))
