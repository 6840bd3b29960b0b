# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Random small graphs of nodes that copy, alias, or fold, for ``backend_openvino_graphs.py``."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
from backend_openvino_graph_builder import FLOATS, INTEGERS, NUMPY, UNSIGNED, Builder, T, Value, read_by, sizes_in_model
from backend_openvino_graph_nodes import MAKE, identity, on_the_cpu
from onnx import ModelProto, helper

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions


class Graph(NamedTuple):
    """A model, its configuration, and the sizes of its free dimensions in each run."""

    seed: int
    model: ModelProto
    inputs: list[Value]
    level: str
    overrides: dict[str, int]
    options: dict[str, str]
    sizes: list[dict[str, int]]

    @property
    def output_names(self) -> list[str]:
        return [output.name for output in self.model.graph.output]

    def session_of_the_oracle(self) -> InferenceSession:
        options = SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return InferenceSession(self.model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def arrays(self, sizes: dict[str, int], draw: random.Random) -> list[np.ndarray]:
        """Return random values for each input."""
        generator = np.random.default_rng(draw.randrange(2**32))
        arrays = []
        for value in self.inputs:
            shape = [sizes.get(size, size) for size in value.shape]
            numbers = generator.integers(int(value.low), int(value.high), shape, endpoint=True)
            arrays.append(np.asarray(numbers, NUMPY[value.kind]))
        return arrays


def random_graph(seed: int) -> Graph:
    """Return the graph of a seed: always the same one."""
    draw = random.Random(seed)
    b = Builder(draw)
    kinds = [T.FLOAT] * 6 + [*FLOATS, *INTEGERS, T.BOOL]
    kind = draw.choice(kinds)
    shape = draw.choice(
        (("N",), ("N", 4), (2, "N"), ("N", "M"), (3,), (2, 3), (1, 2, 3), (2, 3, 1), (1, 1), (1000,), (2, 3, 4, 5), ())
    )
    for number in range(draw.choice((1, 1, 2, 2, 3))):
        if number and draw.random() < 0.4:
            kind = draw.choice(kinds)
        if number and draw.random() < 0.3:
            shape = draw.choice((("N",), ("M",), (3,), ("N", 4)))
        low, high = (0, 1) if kind == T.BOOL else (0, 50) if kind in UNSIGNED else (-50, 50)
        if draw.random() < 0.3:
            low = 0
        b.values.append(Value(f"x{number}", kind, shape, low, high))
    b.inputs += b.values
    mixed = draw.random() < 0.25
    for _ in range(draw.randint(1, 7)):
        recent = b.values[-3:] if draw.random() < 0.5 else b.values
        draw.choice(MAKE)(b, draw.choice(recent))
        if mixed and draw.random() < 0.5:
            on_the_cpu(b, draw.choice(b.values))
    computed = [value for value in b.values if not value.name.startswith("x")]
    if not computed:
        identity(b, b.values[0])
        computed = b.values[-1:]
    outputs = {value.name: value for value in draw.sample(computed, min(len(computed), draw.choice((1, 1, 2, 3))))}
    outputs[computed[-1].name] = computed[-1]
    if draw.random() < 0.15:  # computed and not used: ORT removes some of these nodes
        identity(b, draw.choice(b.values))
    if draw.random() < 0.8:  # most models read all their inputs
        read = read_by(b.nodes)
        b.inputs = [value for value in b.inputs if value.name in read] or b.inputs
    if draw.random() < 0.15:
        draw.shuffle(b.inputs)
    if draw.random() < 0.8:
        for number, node in enumerate(b.nodes):
            node.name = f"{node.op_type}_{number}"
    graph = helper.make_graph(
        b.nodes,
        f"seed_{seed}",
        [helper.make_tensor_value_info(value.name, value.kind, value.shape) for value in b.inputs],
        [
            helper.make_tensor_value_info(value.name, value.kind, sizes_in_model(value.shape))
            for value in outputs.values()
        ],
        b.initializers,
        value_info=b.known,
    )
    imports = [helper.make_opsetid("", draw.choice((18, 20, 21)))]
    imports += [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    free = sorted({size for value in b.inputs for size in value.shape if type(size) is str})
    overrides = {name: 3 for name in free if draw.random() < 0.1}
    runs = []
    for _ in range(3):
        sizes_of_run = {name: overrides.get(name) or draw.choice((1, 2, 3, 8, 64, 1000)) for name in free}
        if len(free) > 1:
            sizes_of_run = {name: min(size, 64) for name, size in sizes_of_run.items()}
        runs.append(sizes_of_run)
    level = draw.choice(("ORT_ENABLE_ALL",) * 3 + ("ORT_ENABLE_BASIC", "ORT_DISABLE_ALL"))
    options = {"precision": "FP32"} if draw.random() < 0.7 else {}
    return Graph(seed, model, b.inputs, level, overrides, options, runs)
