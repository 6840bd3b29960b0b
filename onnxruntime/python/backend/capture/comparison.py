# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Makes the data for capturing a graph, and compares a replay with a run without capture, as an additional check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxruntime import OrtValue
from onnxruntime.backend.runs import tensors

_Outputs = Sequence[np.ndarray]


def other_data(feeds: Mapping[str, np.ndarray | OrtValue]) -> dict[str, np.ndarray]:
    """Return inputs for capturing a graph. After the capture, a replay of ``feeds`` shows stale values.

    A value may be an index, and an index out of range crashes the process. So integers, of which several may belong
    together, stay the same. Floats, which Cast may make indices, stay between 0 and the caller's value. Only 0 becomes
    another value, less than 0.5.
    """
    rng = np.random.default_rng(0)
    data = {}
    for name, value in feeds.items():
        array = value
        if isinstance(value, OrtValue):
            array = tensors.to_array(value)
        other = array
        if array.dtype.kind == "b":
            other = ~array
        elif array.dtype.kind == "f":
            other = _other_floats(array, rng)
        data[name] = np.asarray(other, array.dtype)
    return data


def _other_floats(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    small = rng.uniform(0.125, 0.5, array.shape)
    factor = rng.uniform(0.5, 0.9, array.shape)
    with np.errstate(invalid="ignore"):
        smaller = array * factor
    return np.where(array == 0, small, smaller)


def differing(got: _Outputs, want: _Outputs, again: Callable[[], _Outputs] | None) -> list[int]:
    """Return the positions of the outputs of a replay that no run without capture returns.

    :param want: the outputs of a run without capture, for which the buffers of the replay were made.
    :param again: makes another run without capture. If this run repeats every bit, a replay must repeat every bit, too.
    """
    repeated: _Outputs | None = None
    wrong = []
    for index, (one, other) in enumerate(zip(got, want, strict=True)):
        if _same(one, other):
            continue
        if repeated is None:
            repeated = got
            if again is not None:
                repeated = again()
        repeats = _same(repeated[index], other)
        if repeats or not agree(one, other):
            wrong.append(index)
    return wrong


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


def agree(got: np.ndarray, want: np.ndarray) -> bool:
    """Return whether two runs of the same kernels on the same data can return these arrays of one shape and type.

    Kernels add terms in any order. So floats agree if half of the digits of their type agree. The digits are relative
    to the value, or to the median of the tensor if terms cancel. A few values of a mask do not move the median. Stale
    data differs in the first digit. NaN agrees with NaN, an infinity with itself, and other values with equal values.
    """
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    precision = np.finfo(got.dtype).eps
    tolerance = float(precision) ** 0.5
    got = got.astype(np.float64)
    want = want.astype(np.float64)
    has_digits = np.isfinite(want) & (want != 0)
    sizes = np.abs(want[has_digits])
    absolute = 0.0
    if sizes.size:
        absolute = tolerance * np.median(sizes)
    return np.allclose(got, want, rtol=tolerance, atol=absolute, equal_nan=True)
