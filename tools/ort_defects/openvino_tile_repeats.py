# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO's Tile returns memory that was not written if the repeats are not constant.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. The input has four or more dimensions
that are not 1.

In this backend: not prevented. `run --compare` shows such a difference, before a model is used.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2,3,4,5] x, int64[4] r) => (float[A,B,C,D] y) {
    y = Tile(x, r) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
(y,) = session.run(None, {"x": x, "r": np.full(4, 2, np.int64)})
wrong = int((y != np.tile(x, (2, 2, 2, 2))).sum())
print(wrong, "of", y.size)
raise SystemExit(wrong != 0)
