# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO adds a constant to a large one before it subtracts the large one, and loses the constant.

onnxruntime-openvino 1.24.1.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (int64[A,3] keep) => (float[A,3] y)
    <float one = {1}, float large = {1e9}, float[3] bias = {0.7, 0.7, 0.7}> {
    k = Cast<to=1>(keep) d = Sub(k, one) m = Mul(d, large) y = Add(bias, m) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"keep": np.ones((2, 3), np.int64)})
print(y[0])
raise SystemExit(not np.allclose(y, 0.7))
