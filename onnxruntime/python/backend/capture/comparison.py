# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Makes the data for capturing a graph, and compares a replay with a run without capture."""

from typing import Any

import numpy as np

from onnxruntime import OrtValue
from onnxruntime.backend.runs import tensors


def other_data(value: np.ndarray | OrtValue, keeps_integers: bool) -> np.ndarray:
    """Return other values for the capture, so that a replay shows stale values.

    Floats are closer to 0, because Cast may make indices of them: an index out of range crashes CUDA. Integers stay the
    same for this reason, or they are 0, which is in range where all integers are 0.
    """
    array: Any = tensors.to_array(value) if isinstance(value, OrtValue) else value
    other = array
    if array.dtype.kind == "b":
        other = ~array
    elif array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            other = np.where(array == 0, 0.25, array * 0.75)
    elif not keeps_integers:
        other = np.zeros_like(array)
    return np.asarray(other, array.dtype)  # an array also if it has no dimension


def agree(got: np.ndarray, want: np.ndarray) -> bool:
    """Return whether two runs of the same kernels on the same data can return these arrays of one shape and type.

    Kernels add terms in any order. So half of the digits of floats agree, relative to the value or to the median of the
    tensor, which a few values of a mask do not move. Stale data differs in the first digit.
    """
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    tolerance = float(np.finfo(got.dtype).eps) ** 0.5
    got, want = got.astype(np.float64), want.astype(np.float64)
    sizes = np.abs(want[np.isfinite(want) & (want != 0)])
    absolute = tolerance * np.median(sizes) if sizes.size else 0
    return np.allclose(got, want, rtol=tolerance, atol=absolute, equal_nan=True)
