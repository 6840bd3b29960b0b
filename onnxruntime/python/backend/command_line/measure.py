# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What ``python -m onnxruntime.backend run`` measures: how long runs take, and how far outputs are from others."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np

# Where no number of runs is given: as many as fit into this time, within these bounds.
_SECONDS, _FEWEST, _MOST = 2.0, 10, 1000


def rounds(asked: int | None, configurations: int) -> Iterator[int]:
    """Count rounds, in each of which every configuration runs once: taking turns, they meet the same machine.

    :param asked: how many; ``None`` for as many as fit into two seconds a configuration, 10 to 1000.
    """
    started = time.perf_counter()
    for index in range(_MOST if asked is None else asked):
        if asked is None and index >= _FEWEST and time.perf_counter() - started > _SECONDS * configurations:
            return
        yield index


def seconds(call: Callable[[], object]) -> float:
    """The time that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def percentiles(samples: list[float]) -> dict[str, float]:
    """The 50th, 90th and 99th percentile in milliseconds: the least sample that so many per cent do not exceed."""
    ordered = sorted(samples)
    return {f"p{share}": ordered[math.ceil(len(ordered) * share / 100) - 1] * 1000 for share in (50, 90, 99)}


def difference(value: object, expected: object, rtol: float, atol: float) -> dict[str, object]:
    """Compare an output with another one.

    :param value: an array, or a list or mapping of what is compared one by one.
    :param expected: what it should be like.
    :param rtol: the relative tolerance, and
    :param atol: the absolute one, of ``|value - expected| <= atol + rtol * |expected|``. Infinities and NaN must agree.
    :return: ``within``, whether it holds everywhere; ``absolute`` and ``relative``, the largest differences (that to an
        expected 0 has no relative one); and ``note``, where those are not numbers.
    """
    if isinstance(value, dict) and isinstance(expected, dict):
        if value.keys() != expected.keys():
            return _beyond("other keys")
        return _worst([difference(value[key], expected[key], rtol, atol) for key in value])
    if isinstance(value, list) and isinstance(expected, list):
        if len(value) != len(expected):
            return _beyond(f"{len(expected)} items there")
        return _worst([difference(*pair, rtol, atol) for pair in zip(value, expected, strict=True)])
    ours, theirs = np.asarray(value), np.asarray(expected)
    if ours.shape != theirs.shape:
        return _beyond(f"shape {list(theirs.shape)} there")
    if ours.dtype.kind in "ObUS":
        return _worst([]) if np.array_equal(ours, theirs) else _beyond("other values")
    kind = np.complex128 if ours.dtype.kind == "c" else np.float64
    ours, theirs = ours.astype(kind), theirs.astype(kind)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))  # infinities less themselves are no numbers
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"), warnings.catch_warnings():
        apart = np.abs(ours - theirs)
        size = np.abs(theirs)
        within = same | (apart <= atol + rtol * size) & np.isfinite(apart) & np.isfinite(size)
        absolute = float(np.max(apart, where=~same, initial=0.0))
        relative = float(np.max(apart / size, where=~same & (size > 0), initial=0.0))
    if not math.isfinite(absolute):
        return _beyond("not finite in one of them")
    return {
        "within": bool(within.all()),
        "absolute": absolute,
        "relative": relative if math.isfinite(relative) else None,
        "note": "",
    }


def _beyond(note: str) -> dict[str, object]:
    return {"within": False, "absolute": None, "relative": None, "note": note}


def _worst(found: list[dict[str, object]]) -> dict[str, object]:
    """Several comparisons in one."""
    for one in found:
        if one["note"]:
            return one
    return {
        "within": all(one["within"] for one in found),
        "absolute": max((one["absolute"] for one in found), default=0.0),
        "relative": max((one["relative"] for one in found if one["relative"] is not None), default=0.0),
        "note": "",
    }
