# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Concat and ConcatFromSequence return memory of earlier runs if one tensor has no elements, and another shape.

They skip a tensor without elements before they compare the shapes, and write nothing in its place. In
onnxruntime-openvino 1.24.1, a sequence of tensors of different ranks can also terminate the process.

In this backend: not prevented. A service that lets its clients choose shapes must refuse inputs without elements.
"""

import sys

import numpy as np
import onnx.parser

import onnxruntime

HEAD = '<ir_version: 8, opset_import: ["": 17]> test (float[N, A] x, float[N, B] y) => (float[N, C] z) '
BODIES = ("{ z = Concat <axis = 1> (x, y) }", "{ s = SequenceConstruct (x, y) z = ConcatFromSequence <axis = 1> (s) }")
wrong = 0
for body in BODIES:
    model = onnx.parser.parse_model(HEAD + body).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    secret = np.full((64, 64), 1234.5, np.float32)
    for _ in range(20):
        session.run(None, {"x": secret, "y": secret})
        (z,) = session.run(None, {"x": np.ones((64, 64), np.float32), "y": np.ones((0, 64), np.float32)})
        wrong += int((z != 1).sum())
print(f"{wrong} wrong values of {2 * 20 * 64 * 128}")
sys.exit(int(wrong > 0))
