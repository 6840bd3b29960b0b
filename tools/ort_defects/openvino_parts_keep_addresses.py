# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns values of earlier runs if a part of the graph returns its input.

onnxruntime-openvino 1.24.1. The CPU EP has the other parts, and a shape is free. OpenVINO keeps the address of the
input of a part as a buffer of its output (``OutputControlBlock`` in ``infer_request.h``). If the next run is smaller,
and its values have other addresses, OpenVINO writes the input into this buffer, which then belongs to another value.

In this backend: a run is computed twice if a shape may have changed, see docs/execution-providers.md.
"""

import random

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 3]>
test (float[N,3] x) => (float[A,B] p, float[C,D] q, float[E,F] r, float[G,H] t) {
    c = Cast<to=1>(x) s = Shape(c) d = Reshape(c, s) p = CPU(d) q = Cast<to=1>(p) r = CPU(c) t = CPU(d) }"""
text = text.replace("CPU", "ai.onnx.ml.Scaler<offset=[0.0], scale=[1.0]>")
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
draw = random.Random(0)
arrays = []
wrong = []
for number in range(1, 121):
    arrays.append(np.full((draw.choice((1, 3, 64, 300)), 3), number, np.float32))
    values = {float(value) for output in session.run(None, {"x": arrays[-1]}) for value in output.ravel()}
    if values != {number}:
        wrong.append((number, sorted(values)[:3]))
print(wrong)  # such as [(9, [8.0, 9.0]), ...]
raise SystemExit(len(wrong) > 0)
