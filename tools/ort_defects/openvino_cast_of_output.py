# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO does not write the memory of a cast of an output that is a copy of an input.

onnxruntime-openvino 1.24.1, also for int64 to int32, bool to uint8, int16 to int32, and uint32 to int32. The shapes are
static.

In this backend: not prevented. `run --compare` shows such a difference, before a model is used.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float16[3] x) => (float16[3] y, float[3] z) {
    y = Identity(x) z = Cast<to=1>(y) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
outputs = [session.run(None, {"x": np.full(3, k, np.float16)})[1].tolist() for k in range(1, 9)]
print(outputs)
raise SystemExit(outputs != [[k] * 3 for k in range(1, 9)])
