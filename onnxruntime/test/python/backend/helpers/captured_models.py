# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models for graph capture: random ones, a convolutional net, a transformer block, and ones that hide stale values."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import prod

import numpy as np
from onnx import ModelProto, TensorProto, helper

from helpers.models import model

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
_UNARY = "Relu Sigmoid Tanh Neg Abs Softplus HardSigmoid Erf Cos Gelu Floor Elu Identity"
_BINARY = ("Add", "Sub", "Mul", "Max", "Min", "PRelu")
_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
_CASTS = (INT32, INT64, TensorProto.FLOAT16, TensorProto.BOOL)
_LARGEST = 64  # of the tensors that nodes read, without the batch
Sizes = tuple[int, ...]


class _Builder:
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
        fitting = []
        for name, sizes in self.values.items():
            if rank in (None, len(sizes)) and prod(sizes) <= _LARGEST:
                fitting.append((name, sizes))
        # Mostly the last values, so that a model is deep.
        back = int(self.random.exponential(2))
        return fitting[max(len(fitting) - 1 - back, 0)]

    def partner(self, sizes: Sizes) -> str:
        """Return a tensor of the same shape."""
        return self.choice([name for name, other in self.values.items() if other == sizes])


# The nodes that a step may add: functions of the builder, a value and its sizes.


def _ending(sizes: Sizes, last: int) -> Sizes:
    """Return sizes with another last one."""
    return (*sizes[:-1], last)


def _binary(b: _Builder, x: str, s: Sizes) -> None:
    operator = b.choice(_BINARY)
    others = [b.partner(s), b.weights(*s), b.weights(s[-1]), b.weights(1)]
    b.add(operator, [x, b.choice(others)], s)


def _matmul(b: _Builder, x: str, s: Sizes) -> None:
    b.add("MatMul", [x, b.weights(s[-1], 6)], _ending(s, 6))


def _concat(b: _Builder, x: str, s: Sizes) -> None:
    fitting = [(name, other) for name, other in b.values.items() if other[:-1] == s[:-1]]
    y, t = b.choice(fitting)
    b.add("Concat", [x, y], _ending(s, s[-1] + t[-1]), axis=-1)


def _split(b: _Builder, x: str, s: Sizes) -> None:
    first = int(b.random.integers(1, max(s[-1], 2)))
    sizes = [first]
    if s[-1] > first:
        sizes.append(s[-1] - first)
    names = []
    for i, size in enumerate(sizes):
        name = f"t{len(b.nodes)}_{i}"
        names.append(name)
        b.values[name] = _ending(s, size)
    b.nodes.append(helper.make_node("Split", [x, b.integers(*sizes)], names, axis=len(s)))


def _slice(b: _Builder, x: str, s: Sizes) -> None:
    first = int(s[-1] > 2)
    inputs = [x, b.integers(first), b.integers(99), b.integers(len(s))]
    b.add("Slice", inputs, _ending(s, s[-1] - first))


def _pad(b: _Builder, x: str, s: Sizes) -> None:
    pads = np.zeros((2, len(s) + 1), np.int64)
    pads[0, -1] = 1  # before the last axis
    b.add("Pad", [x, b.constant(pads.ravel(), np.int64)], _ending(s, s[-1] + 1))


def _tile(b: _Builder, x: str, s: Sizes) -> None:
    repeats = np.ones(len(s) + 1)
    repeats[-1] = 2
    b.add("Tile", [x, b.constant(repeats, np.int64)], _ending(s, 2 * s[-1]))


def _gather(b: _Builder, x: str, s: Sizes) -> None:
    places = b.constant(b.random.integers(-s[-1], s[-1], 3), np.int64)
    b.add("Gather", [x, places], _ending(s, 3), axis=len(s))


def _transpose(b: _Builder, x: str, s: Sizes) -> None:
    x, s = b.pick(2)
    b.add("Transpose", [x], s[::-1], perm=[0, 2, 1])


def _reshape(b: _Builder, x: str, s: Sizes) -> None:
    flat = b.add("Flatten", [x], (prod(s),))
    b.add("Reshape", [flat, b.integers(0, s[-1], -1)], (s[-1], prod(s[:-1])))


def _reduce(b: _Builder, x: str, s: Sizes) -> None:
    axis = int(b.random.integers(1, len(s) + 1))
    sizes = list(s)
    sizes[axis - 1] = 1
    reduced = b.add(b.choice(_REDUCTIONS), [x, b.integers(axis)], tuple(sizes), keepdims=1)
    b.add("Sub", [x, reduced], s)


def _where(b: _Builder, x: str, s: Sizes) -> None:
    b.add("Where", [b.add("Greater", [x, b.constant(0.3)]), x, b.partner(s)], s)


def _unsqueeze(b: _Builder, x: str, s: Sizes) -> None:
    b.add("Squeeze", [b.add("Unsqueeze", [x, b.integers(2)]), b.integers(2)], s)


def _attention(b: _Builder, x: str, s: Sizes) -> None:
    x, s = b.pick(2)
    scores = b.add("MatMul", [x, b.add("Transpose", [x], perm=[0, 2, 1])])
    b.add("MatMul", [b.add("Softmax", [scores], axis=-1), x], s)


def _convolution(b: _Builder, x: str, s: Sizes) -> None:
    x, s = b.pick(1)
    image = b.add("Reshape", [b.add("MatMul", [x, b.weights(s[0], 16)]), b.integers(0, 1, 4, 4)])
    image = b.add("Conv", [image, b.weights(2, 1, 3, 3), b.weights(2)], pads=[1, 1, 1, 1])
    image = b.add("MaxPool", [b.add("Relu", [image])], kernel_shape=[2, 2], strides=[2, 2])
    b.add("Flatten", [image], (8,))


def _cast(b: _Builder, x: str, s: Sizes, to: int = INT32) -> None:
    b.add("Cast", [b.add("Cast", [x], to=to)], s, to=FLOAT)


def _reshape_like(b: _Builder, x: str, s: Sizes) -> None:
    flat = b.add("Reshape", [x, b.integers(-1)])
    b.add("Reshape", [flat, b.add("Shape", [x])], s)


def _expand_like(b: _Builder, x: str, s: Sizes) -> None:
    b.add("Add", [x, b.add("Expand", [b.weights(s[-1]), b.add("Shape", [x])])], s)


def _scatter(b: _Builder, x: str, s: Sizes) -> None:
    ones = [1] * (len(s) + 1)
    b.add("ScatterElements", [x, b.constant(np.zeros(ones), np.int64), b.weights(*ones)], s)


_Step = Callable[[_Builder, str, Sizes], object]


def _any_of(*operators: str, **attributes: int) -> _Step:
    """Return a step that adds one of some operators with one input."""

    def step(b: _Builder, x: str, s: Sizes) -> None:
        operator = operators[0]
        if len(operators) > 1:
            operator = b.choice(operators)
        b.add(operator, [x], s, **attributes)

    return step


_unary = _any_of(*_UNARY.split())
_STEPS: tuple[_Step, ...] = (
    _unary,
    _unary,
    _unary,
    _unary,
    _binary,
    _binary,
    _binary,
    _binary,
    _matmul,
    _matmul,
    lambda b, x, s: b.add("LayerNormalization", [x, b.weights(s[-1]), b.weights(s[-1])], s, axis=-1),
    lambda b, x, s: b.add("CumSum", [x, b.constant(len(s), np.int64)], s),
    lambda b, x, s: b.add("Clip", [x, b.constant(-1), b.constant(1)], s),
    _slice,
    _pad,
    _tile,
    lambda b, x, s: b.add("Expand", [x, b.integers(1, *s)], s),
    lambda b, x, s: b.add("Gather", [b.weights(7, 8), "I"], (8,)),
    _concat,
    _split,
    _gather,
    _transpose,
    _reshape,
    _reduce,
    _where,
    _unsqueeze,
    _attention,
    _convolution,
    _cast,
)
_OF_WEBGPU: tuple[_Step, ...] = (lambda b, x, s: b.add("Softmax", [x], s, axis=int(b.random.integers(1, len(s) + 1))),)
# WebGPU refuses these nodes, because they always copy.
_COPYING: tuple[_Step, ...] = (
    lambda b, x, s: b.add("ScatterND", [x, b.constant([[0]], np.int64), b.weights(1, *s)], s),
    _any_of("Max"),
    _any_of("Min"),
    _any_of("ReduceSum", noop_with_empty_axes=1),
    lambda b, x, s: b.add("ReduceMax", [x, b.integers()], s, noop_with_empty_axes=1),
    _scatter,
)
# These have types that WebGPU refuses, or nodes on the CPU, which compute shapes.
_OF_CUDA: tuple[_Step, ...] = (
    _any_of("Softsign"),
    # The software CUDA does not have the kernel into which ORT fuses an Add and a Softmax of another axis.
    _any_of("Softmax", "LogSoftmax", axis=-1),
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
    builder = _Builder(seed)
    random, add = builder.random, builder.add
    steps, copies = _STEPS + _OF_WEBGPU, 0.0
    if on_cuda:
        steps = _STEPS + _COPYING[:1] + _OF_CUDA
    elif seed % 3 == 0:
        copies = 0.15
    while len(builder.nodes) < 3 + seed * 17 % 58:
        of = steps
        if random.random() < copies:
            of = _COPYING
        step = builder.choice(of)
        x, sizes = builder.pick()
        step(builder, x, sizes)
    kept = _kept(builder)
    types = {"P": INT64, "I": INT64}
    if seed % 2:
        types["I"] = INT32
    shapes = []
    if on_cuda and seed % 3 == 0:
        made = list(builder.values)[3:]
        shapes = [add("Shape", [made[0]]), add("Size", [made[-1]])]
        types.update(dict.fromkeys(shapes, INT64))
    if on_cuda and seed % 5 == 0:
        kept.append(add("Identity", [builder.weights(3)]))
    inputs = {"X": ("N", 8), "Z": ("N", 8), "V": ("N", 3, 4), "I": ("N",), "P": ("N", 2)}
    graph = model(builder.nodes, inputs, dict.fromkeys(kept + shapes), builder.constants)
    for values in (graph.graph.input, graph.graph.output):
        for value in values:
            value.type.tensor_type.elem_type = types.get(value.name, FLOAT)
    return graph


def _kept(builder: _Builder) -> list[str]:
    """Add the last nodes, and return the outputs: values that no node reads, and a few others."""
    add = builder.add
    read = set()
    for node in builder.nodes:
        read.update(node.input)
    made = list(builder.values)[3:]  # without the inputs
    ends = [name for name in made if name not in read]
    ends += [builder.choice(made), builder.choice(made)]
    kept = []
    for name in dict.fromkeys(ends):
        # Most go through a last node: on WebGPU, a view there copies.
        if builder.random.random() >= 0.1:
            name = add("Neg", [name])  # noqa: PLW2901
        kept.append(name)
    kept.append(add("Add", ["X", "Z"]))
    kept.append(add("Neg", ["V"]))
    kept.append(add("Gather", [builder.weights(7, 2), "I"]))
    # An index that is exchanged with the other of its pair is out of range.
    kept.append(add("GatherND", [builder.weights(2, 500), "P"]))
    return kept


def random_inputs(made: ModelProto, seed: int, batch: int) -> dict[str, np.ndarray]:
    """Return inputs for a :func:`random_model`."""
    random = np.random.default_rng(seed)
    indices = helper.tensor_dtype_to_np_dtype(made.graph.input[3].type.tensor_type.elem_type)
    return {
        "X": random.standard_normal((batch, 8)).astype(np.float32),
        "Z": random.standard_normal((batch, 8)).astype(np.float32),
        "V": random.standard_normal((batch, 3, 4)).astype(np.float32),
        "I": random.integers(-7, 7, batch, indices),
        "P": random.integers((0, 400), (2, 500), (batch, 2)),
    }


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Net(_Builder):
    def add(self, operator: str, *inputs: str, **attributes) -> str:
        return super().add(operator, list(inputs), **attributes)


def convolutional_net() -> ModelProto:
    """Return convolutions with related operators, a residual and a classifier. X is (N, 3, 8, 8)."""
    net = _Net(7)
    add, weights, padded = net.add, net.weights, {"pads": [1, 1, 1, 1]}
    first = add("Relu", add("Conv", "X", weights(8, 3, 3, 3), weights(8), **padded))
    second = add("Conv", first, weights(8, 8, 3, 3), weights(8), **padded)
    joined = add("Relu", add("Add", second, first))
    pooled = add("MaxPool", joined, kernel_shape=[2, 2], strides=[2, 2])
    third = add("Conv", pooled, weights(6, 4, 3, 3), group=2, **padded)
    gated = add("Mul", third, add("Sigmoid", third))
    fourth = add("Conv", gated, weights(6, 1, 3, 3), group=6, strides=[2, 2], **padded)
    fourth = add("Sigmoid", fourth)
    variance = net.constant(range(1, 7))
    normalized = add("BatchNormalization", fourth, weights(6), weights(6), weights(6), variance)
    flat = add("Flatten", add("GlobalAveragePool", normalized))
    classes = add("Gemm", flat, weights(6, 5), weights(5))
    net.nodes.append(helper.make_node("Softmax", [classes], ["Y"], axis=1))
    return model(net.nodes, {"X": ("N", 3, 8, 8)}, {"Y": ("N", 5)}, net.constants)


def transformer_block(joined: bool, width: int = 16, heads: int = 2) -> ModelProto:
    """Return a transformer block as exporters write it: reshapes and transposes inside, no fused operator.

    X is (N, tokens, width). If ``joined``, a Split separates queries, keys and values of one product.
    """
    net = _Net(7)
    add, weights, size = net.add, net.weights, width // heads

    def dense(x: str, inside: int, outside: int) -> str:
        return add("Add", add("MatMul", x, weights(inside, outside)), weights(outside))

    def normalized(x: str) -> str:
        return add("LayerNormalization", x, weights(width), weights(width), axis=-1)

    def heads_of(x: str, order: list[int]) -> str:
        return add("Transpose", add("Reshape", x, net.integers(0, 0, heads, size)), perm=order)

    x = normalized("X")
    if joined:
        parts, sizes = ["q", "k", "v"], net.integers(width, width, width)
        net.nodes.append(helper.make_node("Split", [dense(x, width, 3 * width), sizes], parts, axis=-1))
    else:
        parts = [dense(x, width, width) for _ in range(3)]
    query, key, value = map(heads_of, parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = add("Div", add("MatMul", query, key), net.constant(size**0.5))
    attended = add("MatMul", add("Softmax", scores, axis=-1), value)
    attended = add("Transpose", attended, perm=[0, 2, 1, 3])
    attended = dense(add("Reshape", attended, net.integers(0, 0, width)), width, width)
    residual = add("Add", attended, "X")
    wide = add("Gelu", dense(normalized(residual), width, 4 * width))
    net.nodes.append(helper.make_node("Add", [dense(wide, 4 * width, width), residual], ["Y"]))
    shape = ("N", "tokens", width)
    return model(net.nodes, {"X": shape}, {"Y": shape}, net.constants)
