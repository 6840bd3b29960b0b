# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs of one session on OpenVINO in one and two threads, beside those of a bare session: ``make bench-openvino``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import onnx

import onnxruntime.backend
from benchmarks import models
from benchmarks.comparison import Comparison
from benchmarks.sampling import together
from onnxruntime import InferenceSession
from onnxruntime.backend.provider_names import OPENVINO


def _sides(
    model: Callable[[], onnx.ModelProto], array: np.ndarray, threads: int, options: Mapping[str, str]
) -> Mapping[str, Callable[[], float]]:
    content = model().SerializeToString()
    rep = onnxruntime.backend.prepare(content, provider_options={OPENVINO: options})
    session = InferenceSession(content, providers=[(OPENVINO, dict(options))])
    feeds = {session.get_inputs()[0].name: array}
    return together([partial(rep.run, [array])] * threads, [partial(session.run, None, feeds)] * threads)


def _comparisons() -> Iterator[Comparison]:
    for name, model, array, of_two in (
        ("two nodes", models.two_nodes, models.small_array(), 1.18),
        ("perceptron", models.perceptron, models.perceptron_array(), 1.10),
        ("Magika", models.magika, models.magika_array(), 1.10),
    ):
        for threads, streams, limit in ((1, None, 1.05), (2, None, of_two), *((2, str(n), of_two) for n in (2, 3, 4))):
            options = {"num_of_threads": "2"} | ({"num_streams": streams} if streams else {})
            setting = f"{threads} thread{'s' * (threads > 1)}{f', num_streams={streams}' if streams else ''}"
            sides = partial(_sides, model, array, threads, options)
            yield Comparison(f"{name}, {setting}", sides, limit, stock=False)


COMPARISONS = tuple(_comparisons())
