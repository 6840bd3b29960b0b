# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Real blocks of models for graph capture, as exporters write them: a convolutional net and a transformer block."""

import re

import numpy as np
from onnx import ModelProto

from helpers.models import parsed


def _with_weights(text: str) -> ModelProto:
    """Return the model of a text, in which a name such as ``W1_3x4`` is an initializer of this shape."""
    random = np.random.default_rng(7)
    names = sorted(set(re.findall(r"W\d+_[\dx]+", text)))
    shapes = {name: tuple(map(int, name.split("_")[1].split("x"))) for name in names}
    return parsed(text, **{name: random.uniform(0.1, 0.5, shape).astype(np.float32) for name, shape in shapes.items()})


def convolutional_net() -> ModelProto:
    """Return convolutions with related operators, a residual and a classifier. X is (N, 3, 8, 8)."""
    return _with_weights("""(float[N,3,8,8] X) => (float[N,5] Y) {
        a = Conv <pads = [1, 1, 1, 1]> (X, W1_8x3x3x3, W2_8) b = Relu (a)
        c = Conv <pads = [1, 1, 1, 1]> (b, W3_8x8x3x3, W4_8) d = Add (c, b) e = Relu (d)
        f = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e)
        g = Conv <group = 2, pads = [1, 1, 1, 1]> (f, W5_6x4x3x3) h = Sigmoid (g) i = Mul (g, h)
        j = Conv <group = 6, strides = [2, 2], pads = [1, 1, 1, 1]> (i, W6_6x1x3x3) k = Sigmoid (j)
        l = BatchNormalization (k, W7_6, W8_6, W9_6, W10_6)
        m = GlobalAveragePool (l) n = Flatten (m) o = Gemm (n, W11_6x5, W12_5) Y = Softmax <axis = 1> (o)
    }""")


def transformer_block(joined: bool) -> ModelProto:
    """Return a transformer block, X is (N, tokens, 16). If ``joined``, a Split separates queries, keys and values."""
    apart = """q0 = MatMul (x, W1_16x16) q1 = Add (q0, W2_16) k0 = MatMul (x, W3_16x16) k1 = Add (k0, W4_16)
        v0 = MatMul (x, W5_16x16) v1 = Add (v0, W6_16)"""
    if joined:
        apart = "p0 = MatMul (x, W1_16x48) p1 = Add (p0, W2_48) q1, k1, v1 = Split <axis = -1> (p1, thirds)"
    return _with_weights(f"""(float[N,tokens,16] X) => (float[N,tokens,16] Y)
        <int64[3] thirds = {{16, 16, 16}}, int64[4] heads = {{0, 0, 2, 8}}, int64[3] width = {{0, 0, 16}},
        float root = {{2.83}}> {{
        x = LayerNormalization <axis = -1> (X, W20_16, W21_16) {apart}
        q2 = Reshape (q1, heads) q = Transpose <perm = [0, 2, 1, 3]> (q2)
        k2 = Reshape (k1, heads) k = Transpose <perm = [0, 2, 3, 1]> (k2)
        v2 = Reshape (v1, heads) v = Transpose <perm = [0, 2, 1, 3]> (v2)
        s0 = MatMul (q, k) s1 = Div (s0, root) s2 = Softmax <axis = -1> (s1) a0 = MatMul (s2, v)
        a1 = Transpose <perm = [0, 2, 1, 3]> (a0) a2 = Reshape (a1, width)
        a3 = MatMul (a2, W7_16x16) a4 = Add (a3, W8_16) r = Add (a4, X)
        n = LayerNormalization <axis = -1> (r, W22_16, W23_16)
        w0 = MatMul (n, W9_16x64) w1 = Add (w0, W10_64) w2 = Gelu (w1)
        w3 = MatMul (w2, W11_64x16) w4 = Add (w3, W12_16) Y = Add (w4, r)
    }}""")
