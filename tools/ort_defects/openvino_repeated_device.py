# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO: if `device_type` contains a device twice, as in `AUTO:CPU,CPU`, a run that should raise an error hangs.

onnxruntime-openvino 1.24.1.

In this backend: the value is refused.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] a, float[M] b) => (float[K] y) { y = Add(a, b) }'
model = onnx.parser.parse_model(text).SerializeToString()
providers = [("OpenVINOExecutionProvider", {"device_type": "AUTO:CPU,CPU"})]
session = onnxruntime.InferenceSession(model, providers=providers)
print("runs", flush=True)
try:
    session.run(None, {"a": np.zeros(4, np.float32), "b": np.zeros(3, np.float32)})  # never returns
except Exception as error:
    print("expected:", error)
