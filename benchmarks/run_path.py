# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The cost of a run, on one session that both sides use."""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

import onnxruntime.backend
from benchmarks import models
from benchmarks.comparison import Comparison
from benchmarks.sampling import timed
from onnxruntime import InferenceSession, OrtValue, RunOptions

# ORT reads it in every run on every EP; -1 has it capture no graph, which no session here does anyway.
CONFIG = {"gpu_graph_id": "-1"}


def _sides(
    model: Callable[[], onnx.ModelProto], arrays: list[np.ndarray], backend: str, by_hand: str, **kwargs
) -> Mapping[str, Callable[[], float]]:
    session = InferenceSession(model().SerializeToString(), providers=["CPUExecutionProvider"])
    options = RunOptions()
    for key, value in CONFIG.items():
        options.add_run_config_entry(key, value)
    feeds = {node.name: array for node, array in zip(session.get_inputs(), arrays, strict=True)}
    namespace = {
        "rep": onnxruntime.backend.prepare(session, "CPU", **kwargs),
        "session": session,
        "arrays": arrays,
        "lists": [getattr(array, "tolist", list)() for array in arrays],
        "numpy": np,
        "feeds": feeds,
        "options": options,
        "RunOptions": RunOptions,
        "bfloat16_by_hand": _bfloat16_by_hand,
    }
    return timed(namespace, backend=backend, by_hand=by_hand)


def _bfloat16_by_hand(session: InferenceSession, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What session.run does for other types: ORT's Python API gives no array of one that numpy lacks."""
    values = {
        name: OrtValue.ortvalue_from_numpy_with_onnx_type(array, TensorProto.BFLOAT16) for name, array in feeds.items()
    }
    outputs = []
    for value in session.run_with_ort_values(None, values):
        array = np.empty(value.shape(), ml_dtypes.bfloat16)
        ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
        outputs.append(array)
    return outputs


def _comparisons() -> Iterator[Comparison]:
    for name, model, arrays, limit, limit_with_config in (
        ("two nodes", models.two_nodes, [models.small_array()], 0.85, 0.95),
        ("three inputs", models.three_inputs, [models.small_array()] * 3, 0.90, 0.95),
        ("Magika", models.magika, [models.magika_array()], 1.01, 1.01),
    ):
        plain = partial(_sides, model, arrays, "rep.run(arrays)", "session.run(None, feeds)")
        yield Comparison(f"run, {name}", plain, limit)
        kept = partial(_sides, model, arrays, "rep.run(arrays)", "session.run(None, feeds, options)", run_config=CONFIG)
        yield Comparison(f"run, {name}, run config", kept, limit_with_config, stock=False)

    array = models.small_array()
    two_nodes = partial(_sides, models.two_nodes)
    each = partial(
        two_nodes,
        [array],
        "rep.run(arrays, run_config={'gpu_graph_id': '-1'})",
        "new = RunOptions()\nnew.add_run_config_entry('gpu_graph_id', '-1')\nsession.run(None, feeds, new)",
    )
    yield Comparison("run, two nodes, run config for this run", each, 1.0, stock=False)
    each = partial(
        two_nodes,
        [array],
        "rep.run(arrays, log_severity_level=3)",
        "new = RunOptions()\nnew.log_severity_level = 3\nsession.run(None, feeds, new)",
    )
    yield Comparison("run, two nodes, attribute for this run", each, 1.0)
    mapping = partial(two_nodes, [array], "rep.run(feeds)", "session.run(None, feeds)")
    # The stock backend takes no mapping.
    yield Comparison("run, two nodes, inputs in a dict", mapping, 0.95, stock=False)
    value = partial(two_nodes, [OrtValue.ortvalue_from_numpy(array)], "rep.run(arrays)", "session.run(None, feeds)")
    yield Comparison("run, two nodes, OrtValue", value, 0.95)
    lists = partial(
        two_nodes, [array], "rep.run(lists)", "session.run(None, {'x': numpy.array(lists[0], numpy.float32)})"
    )
    yield Comparison("run, two nodes, lists of numbers", lists, 3.20)
    bfloat16 = partial(
        _sides,
        models.bfloat16,
        [array.astype(ml_dtypes.bfloat16)],
        "rep.run(arrays)",
        "bfloat16_by_hand(session, feeds)",
    )
    yield Comparison("run, bfloat16", bfloat16, 1.10, stock=False)


COMPARISONS = tuple(_comparisons())
