# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The CPU EP's ReverseSequence does not write sequences of length 0, and returns memory of earlier runs.

In this backend: not prevented. On these releases, a service must refuse lengths of 0 if they come from its clients.
"""

import sys

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 8, opset_import: ["": 17]> test (float[N, M] x, int64[M] lengths) => (float[N, M] y)
{ y = ReverseSequence <time_axis = 0, batch_axis = 1> (x, lengths) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
)
wrong = 0
for _ in range(20):
    session.run(None, {"x": np.full((64, 64), 1234.5, np.float32), "lengths": np.full(64, 64)})
    (y,) = session.run(None, {"x": np.ones((64, 64), np.float32), "lengths": np.zeros(64, np.int64)})
    wrong += int((y != 1).sum())
print(f"{wrong} wrong values of {20 * 64 * 64}")
sys.exit(int(wrong > 0))
