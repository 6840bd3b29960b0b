# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns another shape for a reduction after a Reshape that adds a dimension and changes others.

onnxruntime-openvino 1.24.1.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[4] x) => (float[A,B,C,D] y) <
    int64[4] shape = {1, 1, 2, 2}, int64[1] axes = {2}> { z = Reshape(x, shape) y = ReduceSum(z, axes) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.ones(4, np.float32)})
print(y.shape)  # (1, 1, 1)
raise SystemExit(y.shape != (1, 1, 1, 2))
