# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Many threads on one prepared model."""

from __future__ import annotations

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
    backend = [partial(rep.run, [array]) for array in inputs]
    return together(backend, [partial(session.run, None, {name: array}) for array in inputs], runs)


_SMALL = [np.full(4, number, np.float32) for number in range(THREADS)]
_MAGIKA = [np.full((1, 2048), ord("a") + number, np.int32) for number in range(THREADS)]
# Their limit is on the time of as many runs: 0.95 of the throughput.
COMPARISONS = (
    Comparison("8 threads, two nodes", partial(sides, models.two_nodes, _SMALL, 1000), 1 / 0.95),
    Comparison("8 threads, Magika", partial(sides, models.magika, _MAGIKA, 4), 1 / 0.95),
)
