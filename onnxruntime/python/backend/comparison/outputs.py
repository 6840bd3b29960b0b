# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares outputs as the tests of ONNX do, with ``numpy.testing``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

_TEXTS = "ObUS"  # the kinds of arrays whose values are equal or not


def difference(value: object, expected: object, rtol: float, atol: float) -> dict:
    """Return whether an output is within a tolerance, the largest absolute difference, and numpy's description."""
    largest = 0.0
    note = ""
    try:
        for (place, ours), (other, theirs) in zip(_arrays(value), _arrays(expected), strict=True):
            if (place, ours.shape) != (other, theirs.shape):
                raise ValueError(f"{place} has the shape {ours.shape}, and the reference{other} {theirs.shape}")
            if ours.dtype.kind in _TEXTS or theirs.dtype.kind in _TEXTS:
                np.testing.assert_array_equal(ours, theirs)
                continue
            kind = np.complex128 if "c" in (ours.dtype.kind, theirs.dtype.kind) else np.float64
            actual, desired = ours.astype(kind), theirs.astype(kind)
            with np.errstate(all="ignore"):
                largest = float(np.fmax.reduce(np.abs(actual - desired), axis=None, initial=largest))
                np.testing.assert_allclose(actual, desired, rtol, atol)
    except (AssertionError, ValueError) as error:
        note = " ".join(str(error).partition("\n ACTUAL:")[0].split())
    return {"within": not note, "absolute": largest if math.isfinite(largest) else None, "note": note}


def _arrays(value: object, place: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Return the arrays in an output, each with its place in sequences and maps, such as ``[0]['a']``."""
    items: Iterable[tuple] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield place, np.asarray(value)
    for key, item in items:
        yield from _arrays(item, f"{place}[{key!r}]")
