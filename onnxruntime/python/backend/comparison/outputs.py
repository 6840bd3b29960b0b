# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares outputs as the tests of ONNX do, with ``numpy.testing``."""

import sys

import numpy as np

TOLERANCE = (1e-3, 1e-5)  # relative and absolute
_EQUAL_OR_NOT = set("ObUSc")  # the kinds of arrays without a tolerance: texts, bools, and complex numbers


def difference(value: object, expected: object, rtol: float, atol: float) -> dict:
    """Return whether an output is within a tolerance, the largest absolute difference, and numpy's description."""
    largest = 0.0
    note = ""
    try:
        arrays, references = _arrays(value), _arrays(expected)
        if len(arrays) != len(references):
            raise ValueError(f"The output has {len(arrays)} arrays, and the reference {len(references)}")
        for ours, theirs in zip(arrays, references, strict=True):
            if ours.shape != theirs.shape:
                raise ValueError(f"The shape is {ours.shape}, and {theirs.shape} in the reference")
            if {ours.dtype.kind, theirs.dtype.kind} & _EQUAL_OR_NOT:
                np.testing.assert_array_equal(ours, theirs)
                continue
            actual, desired = ours.astype(np.float64), theirs.astype(np.float64)
            with np.errstate(all="ignore"):
                largest = float(np.fmax.reduce(np.abs(actual - desired), axis=None, initial=largest))
                np.testing.assert_allclose(actual, desired, rtol, atol)
    except (AssertionError, ValueError) as error:
        note = str(error).partition("\n ACTUAL:")[0].strip()
    return {"within": not note, "absolute": min(largest, sys.float_info.max), "note": note}


def _arrays(value: object) -> list[np.ndarray]:
    """Return the arrays in an output, with the keys of maps as text."""
    if isinstance(value, dict):
        value = [str([*value]), *value.values()]
    if isinstance(value, list):
        return [array for item in value for array in _arrays(item)]
    return [np.asarray(value)]
