# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO terminates the process when it compiles an Expand of a scalar to a scalar.

onnxruntime-openvino 1.24.1. With onnxruntime-ep-openvino 1.8.1 on 1.32.0, the output has the shape [1].

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float x) => (float y, float z) <int64[0] s = {}> {
    y = Expand(x, s) z = Neg(y) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
y, _ = session.run(None, {"x": np.float32(3)})
print(y.shape)
raise SystemExit(y.shape != ())
