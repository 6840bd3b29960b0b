# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs of one session on OpenVINO in one and two threads, beside those of a bare session: ``make bench-openvino``."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import onnx

import onnxruntime.backend
from benchmarks import comparing, models
from benchmarks.comparison import Comparison
from benchmarks.sampling import together
from onnxruntime import InferenceSession
from onnxruntime.backend.provider_names import CPU, OPENVINO


def _sides(
    model: Callable[[], onnx.ModelProto], array: np.ndarray, is_free: bool, threads: int, options: Mapping[str, str]
) -> Mapping[str, Callable[[], float]]:
    """Return sides that run a model whose first dimension is free, or that of the input."""
    made = model()
    for values in (made.graph.input, made.graph.output):
        for value in values:
            first = value.type.tensor_type.shape.dim[0]
            if is_free:
                first.dim_param = "n"
            else:
                first.dim_value = len(array)
    content = made.SerializeToString()
    rep = onnxruntime.backend.prepare(content, provider_options={OPENVINO: options})
    if (rep.why_serial == "") == is_free:
        raise RuntimeError(f"with free dimensions, runs follow one another: {rep.why_serial!r}")
    session = InferenceSession(content, providers=[(OPENVINO, dict(options))])
    feeds = {session.get_inputs()[0].name: array}
    backend = partial(rep.run, [array])
    by_hand = partial(session.run, None, feeds)
    return together([backend] * threads, [by_hand] * threads)


def _comparisons() -> Iterator[Comparison]:
    for name, model, array, of_two, of_free in (
        ("two nodes", models.two_nodes, models.small_array(), 1.18, 1.50),
        ("perceptron", models.perceptron, models.perceptron_array(), 1.10, 1.15),
        ("Magika", models.magika, models.magika_array(), 1.10, 1.15),
    ):
        for setting, is_free, threads, streams, limit in (
            ("1 thread", False, 1, None, 1.05),
            ("2 threads", False, 2, None, of_two),
            ("2 threads, num_streams=2", False, 2, "2", of_two),
            ("2 threads, num_streams=3", False, 2, "3", of_two),
            ("2 threads, num_streams=4", False, 2, "4", of_two),
            ("1 thread, free dimensions", True, 1, None, of_free),
            ("2 threads, free dimensions", True, 2, None, None),
        ):
            options = {"num_of_threads": "2"}
            if streams:
                options["num_streams"] = streams
            sides = partial(_sides, model, array, is_free, threads, options)
            yield Comparison(f"{name}, {setting}", sides, limit, stock=False)
    on_cpu, on_openvino = ({"provider_options": {ep: {}}} for ep in (CPU, OPENVINO))
    name = "compare, Magika, beside a session on the CPU EP"
    yield Comparison(name, partial(comparing.beside, on_cpu, on_openvino), 1.05, stock=False, rounds=10)


COMPARISONS = tuple(_comparisons())
