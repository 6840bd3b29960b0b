# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Two threads on one prepared model, in a Python without the global interpreter lock (``--free-threaded``)."""

import sys
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import onnx

from benchmarks import concurrency, models
from benchmarks.comparison import Comparison

THREADS = 2


def _sides(
    model: Callable[[], onnx.ModelProto], arrays: list[np.ndarray], runs: int
) -> Mapping[str, Callable[[], float]]:
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        raise SystemExit("this Python has a global interpreter lock, or an imported module has enabled it")
    return concurrency.sides(model, arrays, runs)


_TWO_NODES = partial(_sides, models.two_nodes, concurrency.small_arrays(THREADS), 2000)
_MAGIKA = partial(_sides, models.magika, concurrency.magika_arrays(THREADS), 8)
COMPARISONS = (
    Comparison("free-threaded, 2 threads, two nodes", _TWO_NODES, 1.0, stock=False),
    Comparison("free-threaded, 2 threads, Magika", _MAGIKA, 1.02, stock=False),
)
