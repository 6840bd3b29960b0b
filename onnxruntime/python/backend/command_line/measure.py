# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measures latency and compares outputs for the ``run`` command."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def percentiles(samples: list[float]) -> dict[str, float]:
    """Return the 50th, 90th and 99th percentile of seconds, in milliseconds."""
    found = np.percentile(samples, (50, 90, 99), method="inverted_cdf") * 1000
    return dict(zip(("p50", "p90", "p99"), found.tolist(), strict=True))


def difference(value: object, expected: object, rtol: float, atol: float) -> dict[str, object]:
    """Compare outputs with :func:`numpy.isclose`. The ``note`` is the reason if the differences are not defined."""
    leaves, references = dict(_leaves(value)), dict(_leaves(expected))
    if leaves.keys() != references.keys():
        return _undefined("other items")
    within, absolute, relative = True, [0.0], [0.0]
    for place, ours in leaves.items():
        theirs = references[place]
        if ours.shape != theirs.shape:
            return _undefined(f"the shape of the reference is {list(theirs.shape)}")
        if ours.dtype.kind in "ObUS":
            if not np.array_equal(ours, theirs):
                return _undefined("other values")
            continue
        kind = np.complex128 if ours.dtype.kind == "c" else np.float64
        ours, theirs = ours.astype(kind), theirs.astype(kind)  # noqa: PLW2901
        differ = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
        with np.errstate(all="ignore"):
            within = within and bool(np.isclose(ours, theirs, rtol, atol, equal_nan=True).all())
            apart = np.abs(ours - theirs)[differ]
            quotients = apart / np.abs(theirs)[differ]
            absolute.append(float(np.max(apart, initial=0.0)))
            relative.append(float(np.max(quotients, initial=0.0, where=np.isfinite(quotients))))
    if not np.isfinite(absolute).all():
        return _undefined("one of the values is not finite")
    return {"within": within, "absolute": max(absolute), "relative": max(relative), "note": ""}


def _undefined(note: str) -> dict[str, object]:
    return {"within": False, "absolute": None, "relative": None, "note": note}


def _leaves(value: object, place: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Return the arrays in an output, each with its place."""
    if not isinstance(value, (list, dict)):
        yield place, np.asarray(value)
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(item, f"{place}[{key!r}]")
