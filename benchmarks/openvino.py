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


def _free(made: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose first dimension is free."""
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    return made


def _fixed(made: onnx.ModelProto, array: np.ndarray) -> onnx.ModelProto:
    """Return a model with the first dimension of an input."""
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = len(array)
    return made


def _sides(
    model: Callable[[], onnx.ModelProto], array: np.ndarray, is_free: bool, threads: int, options: Mapping[str, str]
) -> Mapping[str, Callable[[], float]]:
    made = _free(model()) if is_free else _fixed(model(), array)
    content = made.SerializeToString()
    rep = onnxruntime.backend.prepare(content, provider_options={OPENVINO: options})
    if (rep.why_serial == "") == is_free:
        raise RuntimeError(f"with free dimensions, runs follow one another: {rep.why_serial!r}")
    session = InferenceSession(content, providers=[(OPENVINO, dict(options))])
    feeds = {session.get_inputs()[0].name: array}
    return together([partial(rep.run, [array])] * threads, [partial(session.run, None, feeds)] * threads)


def _comparisons() -> Iterator[Comparison]:
    for name, model, array, of_two, of_free in (
        ("two nodes", models.two_nodes, models.small_array(), 1.18, 1.50),
        ("perceptron", models.perceptron, models.perceptron_array(), 1.10, 1.15),
        ("Magika", models.magika, models.magika_array(), 1.10, 1.15),
    ):
        fixed = ((1, None, 1.05), (2, None, of_two), *((2, str(n), of_two) for n in (2, 3, 4)))
        free = ((1, None, of_free), (2, None, None))
        for is_free, rows in ((False, fixed), (True, free)):
            for threads, streams, limit in rows:
                options = {"num_of_threads": "2"} | ({"num_streams": streams} if streams else {})
                setting = f"{threads} thread{'s' * (threads > 1)}{f', num_streams={streams}' if streams else ''}"
                if is_free:
                    setting += ", free dimensions"
                sides = partial(_sides, model, array, is_free, threads, options)
                yield Comparison(f"{name}, {setting}", sides, limit, stock=False)


COMPARISONS = tuple(_comparisons())
