# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO's If returns values of earlier runs if its branches run in turn, and the size of its output is free.

onnxruntime-openvino 1.24.1. If a branch returns the size that the other branch returned before, OpenVINO copies as many
elements as the branch returned in its own last run.

In this backend: prepare refuses such a model on OpenVINO, see openvino/structures.py.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[N] x, bool b) => (float[A] y) {
    y = If(b) <then_branch = t () => (float[N] v) { v = Neg(x) },
        else_branch = e () => (float[N] w) { w = Exp(x) }> }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
for size, condition in ((1, True), (64, False), (64, True)):
    (y,) = session.run(None, {"x": np.full(size, 2, np.float32), "b": np.array(condition)})
print(y)
raise SystemExit(not np.array_equal(y, np.full(64, -2)))
