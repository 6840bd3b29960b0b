# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Random models for graph capture: many operators, inputs of any batch size, outputs on the device and on the CPU.

For CUDA, :func:`random_model` makes models. The function :func:`refused_variant` changes a model so that it may not
capture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


class Value(NamedTuple):
    """A tensor of floats whose first axis is the batch: its name and its other sizes."""

    name: str
    sizes: tuple[int, ...]


class Builder:
    """A model that grows by one node or a few at a time, each of which reads earlier values."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list = []
        self.constants: dict[str, np.ndarray] = {}
        # X and Z may be joined. I selects rows of a table.
        self.values = [Value("X", (8,)), Value("Z", (8,)), Value("V", (3, 4))]

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.uniform(-0.5, 0.5, shape).astype(np.float32))

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def add(self, operator: str, inputs: list[str], **attributes) -> str:
        """Append a node with one output; returns its name."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{name}", **attributes))
        return name

    def pick(self, rank: int | None = None) -> Value:
        fitting = [value for value in self.values if rank is None or len(value.sizes) == rank]
        # Mostly the last values, so that a model is deep.
        return fitting[-1 - min(int(self.random.exponential(2)), len(fitting) - 1)]

    def keep(self, name: str, *sizes: int) -> None:
        self.values.append(Value(name, sizes))

    def partner(self, value: Value) -> str:
        """A tensor of the same shape: another one, or one made from it."""
        same = [other for other in self.values if other.sizes == value.sizes]
        return same[self.random.integers(len(same))].name

    # ---- the nodes that a step may add ----

    def unary(self) -> None:
        x = self.pick()
        operators = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softsign", "Erf", "Gelu", "Floor", "Elu", "Identity")
        self.keep(self.add(str(self.random.choice(operators)), [x.name]), *x.sizes)

    def binary(self) -> None:
        x = self.pick()
        others = [self.partner(x), self.weights(*x.sizes), self.weights(x.sizes[-1]), self.weights(1)]
        operator = str(self.random.choice(("Add", "Sub", "Mul", "Max", "Min")))
        self.keep(self.add(operator, [x.name, others[self.random.integers(4)]]), *x.sizes)

    def matmul(self) -> None:
        x, width = self.pick(), int(self.random.integers(2, 9))
        self.keep(self.add("MatMul", [x.name, self.weights(x.sizes[-1], width)]), *x.sizes[:-1], width)

    def concat(self) -> None:
        x = self.pick()
        y = next(value for value in self.values if value.sizes[:-1] == x.sizes[:-1])
        if x.sizes[-1] + y.sizes[-1] <= 32:
            joined = self.add("Concat", [x.name, y.name], axis=-1)
            self.keep(joined, *x.sizes[:-1], x.sizes[-1] + y.sizes[-1])

    def split(self) -> None:
        x = self.pick()
        if x.sizes[-1] < 2:
            return
        first = int(self.random.integers(1, x.sizes[-1]))
        sizes = (first, x.sizes[-1] - first)
        names = [f"t{len(self.nodes)}_{i}" for i in range(2)]
        axis = len(x.sizes)
        self.nodes.append(helper.make_node("Split", [x.name, self.integers(*sizes)], names, axis=axis))
        for name, size in zip(names, sizes, strict=True):
            self.keep(name, *x.sizes[:-1], size)

    def gather(self) -> None:
        x, count = self.pick(), int(self.random.integers(1, 9))
        places = self.integers(*self.random.integers(-x.sizes[-1], x.sizes[-1], count))
        self.keep(self.add("Gather", [x.name, places], axis=len(x.sizes)), *x.sizes[:-1], count)

    def look_up(self) -> None:
        self.keep(self.add("Gather", [self.weights(7, 8), "I"]), 8)

    def scatter(self) -> None:
        x = self.pick(1)
        updates = self.weights(1, *x.sizes)
        self.keep(self.add("ScatterND", [x.name, self.constant(np.array([[0]], np.int64)), updates]), *x.sizes)

    def transpose(self) -> None:
        x = self.pick(2)
        self.keep(self.add("Transpose", [x.name], perm=[0, 2, 1]), x.sizes[1], x.sizes[0])

    def reshape(self) -> None:
        x = self.pick()
        if len(x.sizes) == 2:
            self.keep(self.add("Flatten", [x.name]), x.sizes[0] * x.sizes[1])
        elif x.sizes[0] % 2 == 0:
            self.keep(self.add("Reshape", [x.name, self.integers(0, 2, -1)]), 2, x.sizes[0] // 2)

    def reshape_like(self) -> None:
        """Through the shape of another tensor, which nodes on the CPU compute."""
        x = self.pick()
        flat = self.add("Reshape", [x.name, self.integers(-1)])
        self.keep(self.add("Reshape", [flat, self.add("Shape", [x.name])]), *x.sizes)

    def expand_like(self) -> None:
        x = self.pick()
        filled = self.add("Expand", [self.weights(x.sizes[-1]), self.add("Shape", [x.name])])
        self.keep(self.add("Add", [x.name, filled]), *x.sizes)

    def softmax(self) -> None:
        x = self.pick()
        self.keep(self.add(str(self.random.choice(("Softmax", "LogSoftmax"))), [x.name], axis=-1), *x.sizes)

    def layer_norm(self) -> None:
        x = self.pick()
        inputs = [x.name, self.weights(x.sizes[-1]), self.weights(x.sizes[-1])]
        self.keep(self.add("LayerNormalization", inputs, axis=-1), *x.sizes)

    def reduce(self) -> None:
        x = self.pick()
        operator = str(self.random.choice(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")))
        reduced = self.add(operator, [x.name, self.integers(-1)], keepdims=1)
        self.keep(self.add("Sub", [x.name, reduced]), *x.sizes)

    def cast(self) -> None:
        x = self.pick()
        to = int(self.random.choice((TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT16, TensorProto.BOOL)))
        self.keep(self.add("Cast", [self.add("Cast", [x.name], to=to)], to=FLOAT), *x.sizes)

    def where(self) -> None:
        x = self.pick()
        above = self.add("Greater", [x.name, self.constant(np.zeros((), np.float32))])
        self.keep(self.add("Where", [above, x.name, self.partner(x)]), *x.sizes)

    def slice(self) -> None:
        x = self.pick()
        if x.sizes[-1] > 2:
            bounds = [self.integers(1), self.integers(x.sizes[-1]), self.integers(len(x.sizes))]
            self.keep(self.add("Slice", [x.name, *bounds]), *x.sizes[:-1], x.sizes[-1] - 1)

    def clip(self) -> None:
        x = self.pick()
        ends = [self.constant(np.array(end, np.float32)) for end in (-1, 1)]
        self.keep(self.add("Clip", [x.name, *ends]), *x.sizes)

    def attention(self) -> None:
        x = self.pick(2)
        scores = self.add("MatMul", [x.name, self.add("Transpose", [x.name], perm=[0, 2, 1])])
        self.keep(self.add("MatMul", [self.add("Softmax", [scores], axis=-1), x.name]), *x.sizes)

    def convolution(self) -> None:
        x = self.pick(1)
        widened = self.add("MatMul", [x.name, self.weights(x.sizes[0], 16)])
        image = self.add("Reshape", [widened, self.integers(0, 1, 4, 4)])
        image = self.add("Conv", [image, self.weights(2, 1, 3, 3), self.weights(2)], pads=[1, 1, 1, 1])
        image = self.add("MaxPool", [self.add("Relu", [image])], kernel_shape=[2, 2], strides=[2, 2])
        self.keep(self.add("Flatten", [image]), 8)

    STEPS: tuple[Callable[[Builder], None], ...] = (
        *(unary,) * 4,
        *(binary,) * 4,
        *(matmul,) * 2,
        *(concat, split, gather, look_up, scatter, transpose, reshape, reshape_like, expand_like, softmax),
        *(layer_norm, reduce, cast, where, slice, clip, attention, convolution),
    )


def random_model(seed: int, nodes: int) -> ModelProto:
    """
    Make a model of at least ``nodes`` nodes, and few more.

    Inputs: X and Z float (N, 8), V float (N, 3, 4), I int64 (N,), P int64 (N, 2), whose rows are pairs of indices.
    Outputs: the last value, up to two others, and for some seeds a shape, a size, and a constant, which ORT keeps on
    the CPU.

    :param seed: determines the model
    :param nodes: the least number of nodes
    """
    builder = Builder(seed)
    while len(builder.nodes) < nodes:
        Builder.STEPS[builder.random.integers(len(Builder.STEPS))](builder)
    made = [value.name for value in builder.values[3:]] or [builder.add("Neg", ["X"])]
    outputs = dict.fromkeys([made[-1], *(str(builder.random.choice(made)) for _ in range(2))])
    kept = dict.fromkeys(outputs, FLOAT)
    if seed % 3 == 0:
        kept[builder.add("Shape", [made[0]])] = kept[builder.add("Size", [made[-1]])] = TensorProto.INT64
    if seed % 5 == 0:
        kept[builder.add("Identity", [builder.weights(3)])] = FLOAT
    # Every input is read.
    kept[builder.add("Add", ["X", "Z"])] = kept[builder.add("Neg", ["V"])] = FLOAT
    kept[builder.add("Gather", [builder.weights(7, 2), "I"])] = FLOAT
    # An index that is exchanged with the other of its pair is out of range.
    kept[builder.add("GatherND", [builder.weights(2, 500), "P"])] = FLOAT
    inputs = [
        helper.make_tensor_value_info("X", FLOAT, ("N", 8)),
        helper.make_tensor_value_info("Z", FLOAT, ("N", 8)),
        helper.make_tensor_value_info("V", FLOAT, ("N", 3, 4)),
        helper.make_tensor_value_info("I", TensorProto.INT64, ("N",)),
        helper.make_tensor_value_info("P", TensorProto.INT64, ("N", 2)),
    ]
    graph = helper.make_graph(
        builder.nodes,
        f"random_{seed}",
        inputs,
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kept.items()],
        [numpy_helper.from_array(array, name) for name, array in builder.constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def random_inputs(seed: int, batch: int) -> dict[str, np.ndarray]:
    """Inputs for :func:`random_model`."""
    random = np.random.default_rng(seed)
    return {
        "X": random.standard_normal((batch, 8)).astype(np.float32),
        "Z": random.standard_normal((batch, 8)).astype(np.float32),
        "V": random.standard_normal((batch, 3, 4)).astype(np.float32),
        "I": random.integers(-7, 7, batch),
        "P": random.integers((0, 400), (2, 500), (batch, 2)),
    }


def refused_variant(made: ModelProto, seed: int) -> tuple[str, ModelProto]:
    """Change a model with a float input X so that graph capture must be refused; return the reason, and the model."""
    changed = ModelProto()
    changed.CopyFrom(made)
    graph, reason = changed.graph, ("random", "function", "dropout", "twice", "initializer")[seed % 5]
    value = helper.make_tensor_value_info("refused", FLOAT, None)
    flags = {"refused_ratio": np.array(0.5, np.float32), "refused_training": np.array(True)}
    if reason == "twice":
        graph.output.append(graph.output[0])
        return reason, changed
    if reason == "initializer":
        graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "refused_constant"))
        graph.output.append(helper.make_tensor_value_info("refused_constant", FLOAT, [1]))
        graph.node.append(helper.make_node("Add", ["X", "refused_constant"], ["refused"]))
    elif reason == "dropout":
        graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in flags.items())
        graph.node.append(helper.make_node("Dropout", ["X", *flags], ["refused"]))
    else:
        nodes = [helper.make_node("RandomNormalLike", ["X"], ["noise"]), helper.make_node("Mul", ["X", "noise"], ["M"])]
        if reason == "function":
            changed.opset_import.append(helper.make_opsetid("own", 1))
            changed.functions.append(helper.make_function("own", "Noisy", ["X"], ["M"], nodes, changed.opset_import))
            nodes = [helper.make_node("Noisy", ["X"], ["M"], domain="own")]
        graph.node.extend([*nodes, helper.make_node("Neg", ["M"], ["refused"])])
    graph.output.append(value)
    return reason, changed
