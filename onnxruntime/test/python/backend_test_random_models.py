# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Random models for graph capture on CUDA and WebGPU: many operators, inputs of any batch size."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from backend_test_models import model
from onnx import ModelProto, TensorProto, helper

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
_UNARY = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Neg",
    "Abs",
    "Softplus",
    "HardSigmoid",
    "Erf",
    "Cos",
    "Gelu",
    "Floor",
    "Elu",
    "Identity",
)
_BINARY = ("Add", "Sub", "Mul", "Max", "Min", "PRelu")
_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
_CASTS = (INT32, INT64, TensorProto.FLOAT16, TensorProto.BOOL)
_LARGEST = 64  # of the tensors that nodes read, without the batch
Sizes = tuple[int, ...]


class Builder:
    """A model that grows by one node or a few at a time, each of which reads earlier values."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list = []
        self.constants: dict[str, np.ndarray] = {}
        # The tensors of floats whose first axis is the batch, and their other sizes.
        self.values: dict[str, Sizes] = {"X": (8,), "Z": (8,), "V": (3, 4)}

    def constant(self, values: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def integers(self, *numbers: int) -> str:
        return self.constant(numbers, np.int64)

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.uniform(-0.5, 0.5, shape))

    def add(self, operator: str, inputs: list[str], sizes: Sizes | None = None, **attributes) -> str:
        """Append a node with one output, which later nodes may read if its sizes are given; return the name."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{name}", **attributes))
        if sizes is not None:
            self.values[name] = sizes
        return name

    def choice(self, choices):
        return choices[self.random.integers(len(choices))]

    def pick(self, rank: int | None = None) -> tuple[str, Sizes]:
        fitting = [
            one for one in self.values.items() if len(one[1]) == (rank or len(one[1])) and prod(one[1]) <= _LARGEST
        ]
        # Mostly the last values, so that a model is deep.
        return fitting[-1 - min(int(self.random.exponential(2)), len(fitting) - 1)]

    def partner(self, sizes: Sizes) -> str:
        """Return a tensor of the same shape."""
        return self.choice([name for name, other in self.values.items() if other == sizes])


# The nodes that a step may add: functions of the builder, a value and its sizes.


def _binary(b: Builder, x: str, s: Sizes) -> None:
    b.add(b.choice(_BINARY), [x, b.choice([b.partner(s), b.weights(*s), b.weights(s[-1]), b.weights(1)])], s)


def _concat(b: Builder, x: str, s: Sizes) -> None:
    y, t = b.choice([(name, other) for name, other in b.values.items() if other[:-1] == s[:-1]])
    b.add("Concat", [x, y], (*s[:-1], s[-1] + t[-1]), axis=-1)


def _split(b: Builder, x: str, s: Sizes) -> None:
    first = int(b.random.integers(1, max(s[-1], 2)))
    sizes = [size for size in (first, s[-1] - first) if size]
    names = [f"t{len(b.nodes)}_{i}" for i in range(len(sizes))]
    b.nodes.append(helper.make_node("Split", [x, b.integers(*sizes)], names, axis=len(s)))
    b.values |= {name: (*s[:-1], size) for name, size in zip(names, sizes, strict=True)}


def _gather(b: Builder, x: str, s: Sizes) -> None:
    places = b.integers(*b.random.integers(-s[-1], s[-1], 3))
    b.add("Gather", [x, places], (*s[:-1], 3), axis=len(s))


def _transpose(b: Builder, x: str, s: Sizes) -> None:
    x, s = b.pick(2)
    b.add("Transpose", [x], s[::-1], perm=[0, 2, 1])


def _reshape(b: Builder, x: str, s: Sizes) -> None:
    flat = b.add("Flatten", [x], (prod(s),))
    b.add("Reshape", [flat, b.integers(0, s[-1], -1)], (s[-1], prod(s[:-1])))


def _reduce(b: Builder, x: str, s: Sizes) -> None:
    axis = int(b.random.integers(1, len(s) + 1))
    reduced = b.add(b.choice(_REDUCTIONS), [x, b.integers(axis)], (*s[: axis - 1], 1, *s[axis:]), keepdims=1)
    b.add("Sub", [x, reduced], s)


def _where(b: Builder, x: str, s: Sizes) -> None:
    b.add("Where", [b.add("Greater", [x, b.constant(0.3)]), x, b.partner(s)], s)


def _unsqueeze(b: Builder, x: str, s: Sizes) -> None:
    b.add("Squeeze", [b.add("Unsqueeze", [x, b.integers(2)]), b.integers(2)], s)


def _attention(b: Builder, x: str, s: Sizes) -> None:
    x, s = b.pick(2)
    scores = b.add("MatMul", [x, b.add("Transpose", [x], perm=[0, 2, 1])])
    b.add("MatMul", [b.add("Softmax", [scores], axis=-1), x], s)


def _convolution(b: Builder, x: str, s: Sizes) -> None:
    x, s = b.pick(1)
    image = b.add("Reshape", [b.add("MatMul", [x, b.weights(s[0], 16)]), b.integers(0, 1, 4, 4)])
    image = b.add("Conv", [image, b.weights(2, 1, 3, 3), b.weights(2)], pads=[1, 1, 1, 1])
    image = b.add("MaxPool", [b.add("Relu", [image])], kernel_shape=[2, 2], strides=[2, 2])
    b.add("Flatten", [image], (8,))


def _cast(b: Builder, x: str, s: Sizes, to: int = INT32) -> None:
    b.add("Cast", [b.add("Cast", [x], to=to)], s, to=FLOAT)


def _reshape_like(b: Builder, x: str, s: Sizes) -> None:
    flat = b.add("Reshape", [x, b.integers(-1)])
    b.add("Reshape", [flat, b.add("Shape", [x])], s)


def _expand_like(b: Builder, x: str, s: Sizes) -> None:
    b.add("Add", [x, b.add("Expand", [b.weights(s[-1]), b.add("Shape", [x])])], s)


_Step = Callable[[Builder, str, Sizes], object]
_STEPS: tuple[_Step, ...] = (
    *(lambda b, x, s: b.add(b.choice(_UNARY), [x], s),) * 4,
    *(_binary,) * 4,
    *(lambda b, x, s: b.add("MatMul", [x, b.weights(s[-1], 6)], (*s[:-1], 6)),) * 2,
    lambda b, x, s: b.add("LayerNormalization", [x, b.weights(s[-1]), b.weights(s[-1])], s, axis=-1),
    lambda b, x, s: b.add("CumSum", [x, b.constant(len(s), np.int64)], s),
    lambda b, x, s: b.add("Clip", [x, b.constant(-1), b.constant(1)], s),
    lambda b, x, s: b.add(
        "Slice", [x, b.integers(s[-1] > 2), b.integers(99), b.integers(len(s))], (*s[:-1], s[-1] - (s[-1] > 2))
    ),
    lambda b, x, s: b.add("Pad", [x, b.integers(*[0] * len(s), 1, *[0] * (len(s) + 1))], (*s[:-1], s[-1] + 1)),
    lambda b, x, s: b.add("Tile", [x, b.integers(*[1] * len(s), 2)], (*s[:-1], 2 * s[-1])),
    lambda b, x, s: b.add("Expand", [x, b.integers(1, *s)], s),
    lambda b, x, s: b.add("Gather", [b.weights(7, 8), "I"], (8,)),
    *(_concat, _split, _gather, _transpose, _reshape, _reduce, _where, _unsqueeze, _attention, _convolution, _cast),
)
_OF_WEBGPU: tuple[_Step, ...] = (lambda b, x, s: b.add("Softmax", [x], s, axis=int(b.random.integers(1, len(s) + 1))),)
# WebGPU refuses these nodes, because they always copy.
_COPYING: tuple[_Step, ...] = (
    lambda b, x, s: b.add("ScatterND", [x, b.constant([[0]], np.int64), b.weights(1, *s)], s),
    lambda b, x, s: b.add("Max", [x], s),
    lambda b, x, s: b.add("Min", [x], s),
    lambda b, x, s: b.add("ReduceSum", [x], s, noop_with_empty_axes=1),
    lambda b, x, s: b.add("ReduceMax", [x, b.integers()], s, noop_with_empty_axes=1),
    lambda b, x, s: b.add(
        "ScatterElements", [x, b.constant(np.zeros([1] * (len(s) + 1)), np.int64), b.weights(*[1] * (len(s) + 1))], s
    ),
)
# These have types that WebGPU refuses, or nodes on the CPU, which compute shapes.
_OF_CUDA: tuple[_Step, ...] = (
    lambda b, x, s: b.add("Softsign", [x], s),
    # The software CUDA does not have the kernel into which ORT fuses an Add and a Softmax of another axis.
    lambda b, x, s: b.add(b.choice(("Softmax", "LogSoftmax")), [x], s, axis=-1),
    lambda b, x, s: _cast(b, x, s, b.choice(_CASTS)),
    _reshape_like,
    _expand_like,
)


def random_model(seed: int, *, on_cuda: bool) -> ModelProto:
    """Return a model of 3 to about 60 nodes.

    Inputs: X and Z float (N, 8), V float (N, 3, 4), I indices (N,), P int64 (N, 2), whose rows are pairs of indices.
    Outputs: values that no node reads, and a few others. For some seeds on CUDA, a shape, a size, and a constant, which
    ORT keeps on the CPU. For WebGPU, every third model has nodes that always copy.
    """
    builder = Builder(seed)
    random, add = builder.random, builder.add
    steps, copies = (
        (_STEPS + _COPYING[:1] + _OF_CUDA, 0.0) if on_cuda else (_STEPS + _OF_WEBGPU, 0.15 * (seed % 3 == 0))
    )
    while len(builder.nodes) < 3 + seed * 17 % 58:
        builder.choice(_COPYING if random.random() < copies else steps)(builder, *builder.pick())
    read = {name for made in builder.nodes for name in made.input}
    made = [name for name in builder.values if name not in "XZV"]
    ends = dict.fromkeys([*(name for name in made if name not in read), *(builder.choice(made) for _ in range(2))])
    # Most go through a last node: on WebGPU, a view there copies.
    kept = [name if random.random() < 0.1 else add("Neg", [name]) for name in ends]
    kept += [add("Add", ["X", "Z"]), add("Neg", ["V"]), add("Gather", [builder.weights(7, 2), "I"])]
    # An index that is exchanged with the other of its pair is out of range.
    kept.append(add("GatherND", [builder.weights(2, 500), "P"]))
    sizes = [add("Shape", [made[0]]), add("Size", [made[-1]])] if on_cuda and seed % 3 == 0 else []
    kept += [add("Identity", [builder.weights(3)])] if on_cuda and seed % 5 == 0 else []
    inputs = {"X": ("N", 8), "Z": ("N", 8), "V": ("N", 3, 4), "I": ("N",), "P": ("N", 2)}
    graph = model(builder.nodes, inputs, dict.fromkeys([*kept, *sizes]), builder.constants)
    types = {"I": INT32 if seed % 2 else INT64, "P": INT64, **dict.fromkeys(sizes, INT64)}
    for value in (*graph.graph.input, *graph.graph.output):
        value.type.tensor_type.elem_type = types.get(value.name, FLOAT)
    return graph


def random_inputs(made: ModelProto, seed: int, batch: int) -> dict[str, np.ndarray]:
    """Return inputs for a :func:`random_model`."""
    random = np.random.default_rng(seed)
    shapes = {"X": (batch, 8), "Z": (batch, 8), "V": (batch, 3, 4)}
    feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    indices = helper.tensor_dtype_to_np_dtype(made.graph.input[3].type.tensor_type.elem_type)
    return {**feeds, "I": random.integers(-7, 7, batch, indices), "P": random.integers((0, 400), (2, 500), (batch, 2))}
