# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Many threads on one prepared model."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import onnx

import onnxruntime.backend
from benchmarks import models
from benchmarks.comparison import Comparison
from benchmarks.sampling import together
from onnxruntime import InferenceSession, SessionOptions

THREADS = 8


def sides(
    model: Callable[[], onnx.ModelProto], inputs: list[np.ndarray], runs: int
) -> Mapping[str, Callable[[], float]]:
    """Return sides that run a model in as many threads as there are inputs."""
    options = SessionOptions()
    options.intra_op_num_threads = 1  # the threads are ours
    session = InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    rep = onnxruntime.backend.prepare(session, "CPU")
    name = session.get_inputs()[0].name
    backend = []
    by_hand = []
    for array in inputs:
        backend.append(partial(rep.run, [array]))
        by_hand.append(partial(session.run, None, {name: array}))
    return together(backend, by_hand, runs)


def small_arrays(count: int) -> list[np.ndarray]:
    """Return different inputs of the model with two nodes."""
    return [np.full(4, number, np.float32) for number in range(count)]


def magika_arrays(count: int) -> list[np.ndarray]:
    """Return different inputs of Magika."""
    return [np.full((1, 2048), ord("a") + number, np.int32) for number in range(count)]


_TWO_NODES = partial(sides, models.two_nodes, small_arrays(THREADS), 1000)
_MAGIKA = partial(sides, models.magika, magika_arrays(THREADS), 4)
# Their limit is on the time of as many runs: 0.95 of the throughput.
COMPARISONS = (
    Comparison("8 threads, two nodes", _TWO_NODES, 1 / 0.95),
    Comparison("8 threads, Magika", _MAGIKA, 1 / 0.95),
)
