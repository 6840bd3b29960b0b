# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models for graph capture on CUDA and WebGPU: a convolutional net, a transformer block, hidden stale values."""

from __future__ import annotations

import os

from backend_test_models import model, parsed
from backend_test_random_models import Builder
from onnx import ModelProto, helper


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Net(Builder):
    def add(self, operator: str, *inputs: str, **attributes) -> str:
        return super().add(operator, [*inputs], **attributes)


def convolutional_net() -> ModelProto:
    """Return convolutions with related operators, a residual and a classifier. X is (N, 3, 8, 8)."""
    net = _Net(7)
    add, weights, padded = net.add, net.weights, {"pads": [1, 1, 1, 1]}
    first = add("Relu", add("Conv", "X", weights(8, 3, 3, 3), weights(8), **padded))
    second = add("Conv", first, weights(8, 8, 3, 3), weights(8), **padded)
    pooled = add("MaxPool", add("Relu", add("Add", second, first)), kernel_shape=[2, 2], strides=[2, 2])
    third = add("Conv", pooled, weights(6, 4, 3, 3), group=2, **padded)
    gated = add("Mul", third, add("Sigmoid", third))
    fourth = add("Sigmoid", add("Conv", gated, weights(6, 1, 3, 3), group=6, strides=[2, 2], **padded))
    variance = net.constant(range(1, 7))
    normalized = add("BatchNormalization", fourth, *(weights(6) for _ in range(3)), variance)
    classes = add("Gemm", add("Flatten", add("GlobalAveragePool", normalized)), weights(6, 5), weights(5))
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
        parts, sizes = ["q", "k", "v"], net.integers(*[width] * 3)
        net.nodes.append(helper.make_node("Split", [dense(x, width, 3 * width), sizes], parts, axis=-1))
    else:
        parts = [dense(x, width, width) for _ in range(3)]
    query, key, value = map(heads_of, parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = add("Div", add("MatMul", query, key), net.constant(size**0.5))
    attended = add("Transpose", add("MatMul", add("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    attended = dense(add("Reshape", attended, net.integers(0, 0, width)), width, width)
    residual = add("Add", attended, "X")
    wide = add("Gelu", dense(normalized(residual), width, 4 * width))
    net.nodes.append(helper.make_node("Add", [dense(wide, 4 * width, width), residual], ["Y"]))
    shape = ("N", "tokens", width)
    return model(net.nodes, {"X": shape}, {"Y": shape}, net.constants)


# Models whose outputs hide stale values, each with the operator to refuse. Values above 4 are rare spikes.
_ROW = "int64[1,1] i = {0}, float[1,2] u = {0, 0}, float th = {4}"
_SPIKES = "d = Sub (S, th) r = Relu (d) Y = Add (M, r)"
_SPIKY = "(float[4,2] X, float[4,2] M) => (float[4,2] Y)"
_HIDDEN = (
    ("Reshape", "(float[3,2,2] X) => (float[3,4] Y)", "float k = {3000}, int64[2] s = {0, -1}",
     "T = Add (X, k) Y = Reshape (T, s)"),
    ("Flatten", "(float[3,2,2] X) => (float[3,4] Y)", "float k = {3000}", "T = Add (X, k) Y = Flatten (T)"),
    # Boxes + 3000 beside scores.
    ("Squeeze", "(float[1,5,4] B, float[1,5,1] X) => (float[5,5] Y)", "float k = {3000}, int64[1] z = {0}",
     "P = Sigmoid (X) b = Add (B, k) C = Concat <axis = 2> (b, P) Y = Squeeze (C, z)"),
    # A mode that is used later.
    ("ScatterND", "(float[4,2] X, float[4,2] M, int32[4,1] K) => (float[4,2] Y)", f"{_ROW}, int32 one = {{1}}",
     "S = ScatterND (X, i, u) C = Equal (K, one) Y = Where (C, S, M)"),
    ("ScatterND", _SPIKY, _ROW, f"S = ScatterND (X, i, u) {_SPIKES}"),
    ("ScatterElements", _SPIKY, "int64[1,1] e = {0}, float[1,1] v = {0}, float th = {4}",
     f"S = ScatterElements (X, e, v) {_SPIKES}"),
    ("Max", _SPIKY, "float th = {4}", f"S = Max (X) {_SPIKES}"),
    ("Min", _SPIKY, "float th = {4}", f"S = Min (X) {_SPIKES}"),
    ("ReduceSum", _SPIKY, "float th = {4}", f"S = ReduceSum <noop_with_empty_axes = 1> (X) {_SPIKES}"),
    ("ScatterND", "(float[4,2] X) => (float[4,1] Y)", f"{_ROW}, int64[1] a = {{1}}",
     "S = ScatterND (X, i, u) d = Sub (S, th) r = Relu (d) Y = ReduceSum (r, a)"),
    ("Transpose", "(float[16] X) => (float[16] Y)", "", "T = Neg (X) S = Transpose <perm = [0]> (T) Y = Relu (S)"),
)  # fmt: skip


def hidden_copies() -> list[tuple[str, ModelProto]]:
    """Return the operators to refuse, each with the model."""
    return [
        (operator, parsed(f"{values} <{constants}> {{ {nodes} }}")) for operator, values, constants, nodes in _HIDDEN
    ]
