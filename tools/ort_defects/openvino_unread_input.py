# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO reads the wrong input if an input before it is not used.

onnxruntime-openvino 1.24.1. All nodes are on the EP. The EP removes the input, and each later input then reads the
array of the input before it, also beyond its end. The same applies to the body of a Loop that runs on the CPU EP.

In this backend: prepare refuses such a model on OpenVINO, see openvino/structures.py.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 9, opset_import: ["": 20]> test (float[2] a, float[2] b) => (float[2] y) { y = Neg(b) }'
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"a": np.full(2, 1, np.float32), "b": np.full(2, 2, np.float32)})
print(y)  # [-1, -1]
raise SystemExit(y.tolist() != [-2, -2])
