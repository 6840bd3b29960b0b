# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO removes the dimension from which Gather gathers, if Unsqueeze adds it.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[N,M] x) => (float[A,B,C] y) <int64[1] zero = {0}> {
    z = Unsqueeze(x, zero) y = Gather(z, zero) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.ones((2, 3), np.float32)})
print(y.shape)  # (2, 3)
raise SystemExit(y.shape != (1, 2, 3))
