# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO does not move a dimension of size 1 after a reduction.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. A Transpose before the
reduction has the same effect.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[1,2,3] x) => (float[A,B] y) <int64[1] axes = {1}> {
    z = ReduceMean<keepdims=0>(x, axes) y = Transpose(z) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.ones((1, 2, 3), np.float32)})
print(y.shape)  # (1, 3)
raise SystemExit(y.shape != (3, 1))
