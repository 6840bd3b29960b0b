# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Whether a captured graph computes what the model does: data to capture it with, and results compared.

What may be captured is decided by structure: :mod:`onnxruntime.backend.graph_capture`. This is the second line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np


def other_data(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs that a model takes as well as these, to capture with: what a replay of these then returns is not stale."""
    rng = np.random.default_rng(0)
    return {name: _vary(array, rng) for name, array in feeds.items()}


def _vary(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind == "f":
        scale, offset = rng.uniform(0.5, 1.0, (2, *array.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            other = array * scale + offset
    elif array.dtype.kind == "b":
        other = ~array
    else:  # integers may be indices: they only change places
        other = rng.choice(array.ravel(), array.shape) if array.size else array
    return np.asarray(other, array.dtype)


def differing(
    got: Sequence[np.ndarray], want: Sequence[np.ndarray], again: Callable[[], Sequence[np.ndarray]] | None
) -> list[int]:
    """Find the outputs of a replay that no ordinary run would have returned.

    :param got: the outputs of the replay.
    :param want: those of an ordinary run of the same inputs.
    :param again: makes another such run. Where that repeats every bit, a replay has to as well.
    :return: their positions.
    """
    wrong = [i for i, (one, other) in enumerate(zip(got, want, strict=True)) if not _same(one, other)]
    if wrong:
        repeated = want if again is None else again()
        wrong = [i for i in wrong if (again and _same(repeated[i], want[i])) or not agree(got[i], want[i])]
    return wrong


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def agree(got: np.ndarray, want: np.ndarray) -> bool:
    """Tell whether two runs of the same kernels on the same data, in which sums may be added up in any order, can have
    returned these.

    Floats agree when they do in half of their type's digits: relative to the value, or to a typical one of the tensor
    (the median, which a few values of a mask do not move) where terms cancel. Stale data differs in the first digit.
    NaN agrees with NaN, an infinity with itself, and all else exactly.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    tolerance = float(np.finfo(got.dtype).eps) ** 0.5
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if same.all():
        return True
    size = np.abs(want[np.isfinite(want) & (want != 0)])
    typical = np.median(size) if size.size else 0.0
    with np.errstate(invalid="ignore"):
        near = np.isfinite(want) & (np.abs(got - want) <= tolerance * (np.abs(want) + typical))
    return bool(np.all(same | near))
