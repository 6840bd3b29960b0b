# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO ignores the value of an overridden initializer.

onnxruntime-openvino 1.24.1. A run may override an initializer that is an input of the graph. The EP accepts the value
and does not use it. onnxruntime-ep-openvino 1.8.1 on 1.31.1 and 1.32.0 cannot load such a model: input names mismatch.

In this backend: on a session with OpenVINO, an initializer is not an input, so a value for it is an error.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x, float[2] w = {1, 1}) => (float[2] y) { y = Add(x, w) }'
model = onnx.parser.parse_model(text).SerializeToString()
zeros = np.zeros(2, np.float32)
for provider in ("CPUExecutionProvider", "OpenVINOExecutionProvider"):
    session = onnxruntime.InferenceSession(model, providers=[provider])
    (y,) = session.run(None, {"x": zeros, "w": zeros})
    print(provider, y)  # CPU: [0, 0]; OpenVINO: [1, 1]
raise SystemExit(bool(y.any()))
