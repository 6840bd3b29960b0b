# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns values of an earlier run if two outputs are copies of one input.

onnxruntime-openvino 1.24.1. No run fails, and one thread is enough. One copy is a Cast to the type of the input.

In this backend: the outputs of such a model are as wrong. To avoid them, remove the Cast from the model.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[N] x) => (float[A] y, float[C] z) {
    y = Cast<to=1>(x) z = Identity(x) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
arrays = [np.full(2, value, np.float32) for value in range(1, 6)]
got = [tuple(float(output[0]) for output in session.run(None, {"x": array})) for array in arrays * 3]
print(got)  # in the second round: (1.0, 1.0), (3.0, 3.0), ...
raise SystemExit(got != [(float(array[0]),) * 2 for array in arrays * 3])
