# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns the output of Abs in place of the output of Concat.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. The Concat has one dimension, and it is an
output.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2] a, float[2] b) => (float[4] y, float[4] z) {
    y = Concat<axis=0>(a, b) z = Abs(y) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
y, _ = session.run(None, {"a": np.full(2, -1, np.float32), "b": np.full(2, -2, np.float32)})
print(y)  # [1, 1, 2, 2]
raise SystemExit(y.tolist() != [-1, -1, -2, -2])
