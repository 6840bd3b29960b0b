# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""An inverse, one-sided DFT over an axis of size 1 never ends.

A time limit does not end the run, because ORT checks it between two nodes.

In this backend: no countermeasure. The application decides which models and sizes it accepts.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 8, opset_import: ["": 17]> test (float[A, B, C, D] x) => (float[E, F, G, H] y)
{ y = DFT <axis = 1, inverse = 1, onesided = 1> (x) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
)
try:
    print(session.run(None, {"x": np.ones((1, 1, 10, 2), np.float32)})[0].shape)
except Exception as error:  # ORT before 1.27 does not have this operation
    print(error)
