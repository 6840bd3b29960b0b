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
_UNDEFINED = {
    "within": False,
    "absolute": None,
    "relative": None,
    "note": "",
    "beyond": None,
    "index": None,
    "value": None,
    "reference": None,
}


def percentiles(samples: list[float]) -> dict[str, float]:
    """Return the 50th, 90th and 99th percentile of seconds, in milliseconds."""
    found = np.percentile(samples, (50, 90, 99), method="inverted_cdf")
    p50, p90, p99 = map(float, found * 1000)
    return {"p50": p50, "p90": p90, "p99": p99}


def difference(value: object, expected: object, rtol: float, atol: float) -> dict:
    """Compare outputs with :func:`numpy.isclose`.

    The ``index`` is the place of the largest difference, with both values. The share of the elements beyond the
    tolerance is ``beyond``. The ``note`` is the reason if the differences are not defined.
    """
    outputs = dict(leaves(value))
    references = dict(leaves(expected))
    if outputs.keys() != references.keys():
        return _UNDEFINED | {"note": "other items"}

    found: dict[str, Any] = _UNDEFINED | {"absolute": 0.0, "relative": 0.0}
    elements = 0
    beyond = 0
    for place, ours in outputs.items():
        theirs = references[place]
        if ours.shape != theirs.shape:
            return _UNDEFINED | {"note": f"the shape of the reference is {list(theirs.shape)}"}
        if not ours.size:
            continue
        absolute, relative, is_beyond = _differences(ours, theirs, rtol, atol)
        elements += is_beyond.size
        beyond += int(is_beyond.sum())
        found["relative"] = max(found["relative"], relative)
        largest = float(absolute.max())
        if largest > found["absolute"]:
            index = np.unravel_index(absolute.argmax(), absolute.shape)
            found["absolute"] = largest
            found["index"] = [*place, *map(int, index)]
            found["value"] = _plain(ours[index])
            found["reference"] = _plain(theirs[index])
            if math.isinf(largest):
                found["note"] = "other values" if ours.dtype.kind in _TEXTS else "one of the values is not finite"

    if found["note"]:
        found["absolute"] = None
        found["relative"] = None
    found["within"] = beyond == 0
    found["beyond"] = beyond / max(elements, 1)
    return found


def _differences(
    ours: np.ndarray, theirs: np.ndarray, rtol: float, atol: float
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the absolute differences, the largest relative one, and whether each element is beyond the tolerance.

    An absolute difference that is not defined is infinite.
    """
    if ours.dtype.kind in _TEXTS:
        beyond = np.asarray(ours != theirs)
        return np.where(beyond, math.inf, 0.0), 0.0, beyond

    kind = np.complex128 if ours.dtype.kind == "c" else np.float64
    ours = ours.astype(kind)
    theirs = theirs.astype(kind)
    with np.errstate(all="ignore"):
        equal = np.isclose(ours, theirs, 0, 0, equal_nan=True)
        within = np.isclose(ours, theirs, rtol, atol, equal_nan=True)
        absolute = np.where(equal, 0.0, np.abs(ours - theirs))
        quotients = absolute / np.abs(theirs)

    absolute[np.isnan(absolute)] = math.inf
    relative = np.max(quotients, initial=0.0, where=np.isfinite(quotients))
    return absolute, float(relative), ~np.asarray(within)


def _plain(value: Any) -> object:
    """Return a value as JSON can contain it: text for a number that is complex or not finite."""
    kind = np.asarray(value).dtype.kind
    if kind in "biu":
        return value.item()
    if kind in "cOSU":
        return str(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


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
