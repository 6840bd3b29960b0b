# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Real blocks of models for graph capture: a convolutional net and a transformer block."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, helper

from helpers.models import model


class _Net:
    """A model that grows by one node at a time."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self.nodes: list = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, values: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def integers(self, *numbers: int) -> str:
        return self.constant(numbers, np.int64)

    def weights(self, *shape: int) -> str:
        return self.constant(self._random.uniform(-0.5, 0.5, shape))

    def add(self, operator: str, *inputs: str, **attributes) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{name}", **attributes))
        return name


def convolutional_net() -> ModelProto:
    """Return convolutions with related operators, a residual and a classifier. X is (N, 3, 8, 8)."""
    net = _Net()
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
    net = _Net()
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
