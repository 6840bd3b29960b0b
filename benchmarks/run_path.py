# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The cost of a run, on one session that both sides share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import onnx

import onnxruntime.backend
from benchmarks import models
from benchmarks.comparison import Comparison
from benchmarks.sampling import timed
from onnxruntime import InferenceSession, RunOptions

# ORT reads it in every run on every EP, and without a captured graph does nothing about it.
CONFIG = {"gpu_graph_id": "7"}


def _sides(
    model: Callable[[], onnx.ModelProto], arrays: list[np.ndarray], backend: str, by_hand: str, **kwargs
) -> Mapping[str, Callable[[], float]]:
    session = InferenceSession(model().SerializeToString(), providers=["CPUExecutionProvider"])
    options = RunOptions()
    for key, value in CONFIG.items():
        options.add_run_config_entry(key, value)
    namespace = {
        "rep": onnxruntime.backend.prepare(session, "CPU", **kwargs),
        "session": session,
        "arrays": arrays,
        "feeds": {node.name: array for node, array in zip(session.get_inputs(), arrays, strict=True)},
        "options": options,
        "RunOptions": RunOptions,
    }
    return timed(namespace, backend=backend, by_hand=by_hand)


def _comparisons() -> Iterator[Comparison]:
    for name, model, arrays, limit in (
        ("two nodes", models.two_nodes, [models.small_array()], 0.90),
        ("three inputs", models.three_inputs, [models.small_array()] * 3, 0.95),
        ("Magika", models.magika, [models.magika_array()], 1.01),
    ):
        plain = partial(_sides, model, arrays, "rep.run(arrays)", "session.run(None, feeds)")
        yield Comparison(f"run, {name}", plain, limit)
        kept = partial(_sides, model, arrays, "rep.run(arrays)", "session.run(None, feeds, options)", run_config=CONFIG)
        yield Comparison(f"run, {name}, run config", kept, limit, stock=False)
    each = partial(
        _sides,
        models.two_nodes,
        [models.small_array()],
        "rep.run(arrays, run_config={'gpu_graph_id': '7'})",
        "new = RunOptions()\nnew.add_run_config_entry('gpu_graph_id', '7')\nsession.run(None, feeds, new)",
    )
    yield Comparison("run, two nodes, run config for this run", each, 1.0, stock=False)


COMPARISONS = tuple(_comparisons())
