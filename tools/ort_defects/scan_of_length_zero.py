# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The CPU EP's Scan of opset 8 does not write its final state if the sequence has no elements.

The output contains memory of an earlier run. From opset 9 on, Scan raises an error for such a sequence.

In this backend: not prevented. A service that lets its clients choose shapes must refuse inputs without elements.
"""

import sys

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 3, opset_import: ["": 8]>
test (float[1, 2] init, float[1, N, 2] x) => (float[1, 2] y, float[1, N, 2] z)
{ y, z = Scan <num_scan_inputs = 1, body = sum (float[2] s, float[2] v) => (float[2] t, float[2] w)
  { t = Add(s, v) w = Identity(t) }> (, init, x) }"""
model = onnx.parser.parse_model(text)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
wrong = 0
for _ in range(20):
    session.run(None, {"init": np.full((1, 2), 1234.5, np.float32), "x": np.full((1, 5, 2), 1234.5, np.float32)})
    y, _ = session.run(None, {"init": np.ones((1, 2), np.float32), "x": np.zeros((1, 0, 2), np.float32)})
    wrong += int((y != 1).sum())
print(f"{wrong} wrong values of 40")
sys.exit(int(wrong > 0))
