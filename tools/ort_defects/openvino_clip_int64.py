# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO's Clip returns 0 for positive values of int64 if it has no maximum.

onnxruntime-openvino 1.24.1. If the input of Clip is not that of the model, some models are right.

In this backend: not prevented. `run --compare` shows such a difference, before a model is used.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 9, opset_import: ["": 20]> test (int64[3] x) => (int64[3] y) { y = Clip(x) }'
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.array([1, 2, 3])})
print(y)  # [0, 0, 0]
raise SystemExit(y.tolist() != [1, 2, 3])
