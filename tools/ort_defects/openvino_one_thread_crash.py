# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO with one thread terminates the process.

onnxruntime-openvino 1.24.1; onnxruntime-ep-openvino 1.8.1 on 1.31.1 and 1.32.0. The second or third session terminates
the process.

In this backend: `num_of_threads` is at least 2.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] a, float[M] b) => (float[K] y) { y = Add(a, b) }'
model = onnx.parser.parse_model(text).SerializeToString()
providers = [("OpenVINOExecutionProvider", {"num_of_threads": "1"})]
for _ in range(3):
    session = onnxruntime.InferenceSession(model, providers=providers)
    try:
        session.run(None, {"a": np.zeros(4, np.float32), "b": np.zeros(3, np.float32)})
    except Exception as error:
        print(error)
