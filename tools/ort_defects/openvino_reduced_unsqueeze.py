# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns another shape for a reduction before a dimension that Unsqueeze adds.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. A Reshape that adds the dimension has the
same effect.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2,3] x) => (float[A,B,C] y) <
    int64[1] last = {2}, int64[1] axes = {0}> { z = Unsqueeze(x, last) y = ReduceMax(z, axes) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.ones((2, 3), np.float32)})
print(y.shape)  # (1, 1, 3)
raise SystemExit(y.shape != (1, 3, 1))
