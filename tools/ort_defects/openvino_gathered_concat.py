# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns memory that was not written for a Gather from a Concat of inputs of one element.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[1] x) => (float[1] y) <int64[1] zero = {0}> {
    z = Concat<axis=0>(x, x) y = Gather(z, zero) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
outputs = [session.run(None, {"x": np.array([k], np.float32)})[0].item() for k in range(1, 9)]
print(outputs)
raise SystemExit(outputs != list(range(1, 9)))
