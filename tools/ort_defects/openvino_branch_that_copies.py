# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO overwrites a value that a branch of an If returns.

onnxruntime-openvino 1.24.1. The shapes are dynamic, and the branch returns a value from outside.

In this backend: prepare refuses such a model on OpenVINO, see openvino/structures.py.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[N] u, float[N] x, bool c)
    => (float[A] v, int64[B] y, int64[1] z) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] end = {2147483647}> {
    a = Cast<to=7>(x) v = Slice(u, zero, end, zero)
    b = If(c) <then_branch = t () => (int64[N] s) { s = Identity(a) },
               else_branch = e () => (int64[N] r) { r = Identity(a) }>
    y = Neg(b) z = Slice(a, zero, one, zero) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
generator = np.random.default_rng(0)
wrong = 0
for number in range(200):
    u, x = generator.integers(-50, 50, (2, 64)).astype(np.float32)
    _, y, _ = session.run(None, {"u": u, "x": x, "c": np.array(number % 2 == 0)})
    wrong += not np.array_equal(y, -x)
print(wrong, "of 200")
raise SystemExit(bool(wrong))
