# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO's first run returns memory that was not written for casts of an output of an If.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. The shape is dynamic.

In this backend: prepare refuses such a model on OpenVINO, see openvino/structures.py.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (uint8[N] x, bool b) => (float[A] y) {
    z = If(b) <then_branch = t () => (uint8[N] v) { v = BitwiseNot(x) },
        else_branch = e () => (uint8[N] w) { w = Identity(x) }>
    c = Cast<to=1>(z) d = Cast<to=6>(c) y = Cast<to=1>(d) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
x = np.arange(1, 65, dtype=np.uint8)
(y,) = session.run(None, {"x": x, "b": np.array(False)})
print(y[:4])
raise SystemExit(not np.array_equal(y, x))
