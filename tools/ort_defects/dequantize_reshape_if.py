# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A DequantizeLinear and a Reshape before an If terminate the process when a session is created.

onnxruntime 1.31.1 and 1.32.0, and onnxruntime-webgpu 1.27.0. An optimizer moves the DequantizeLinear behind the
Reshape, whose output only the branches of the If read. onnxruntime-openvino 1.24.1 raises an error.

In this backend: no countermeasure. The application decides which models it runs.
"""

import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 18]> test (uint8[4] x, bool b) => (float[2,2] y) <
    float scale = {1}, uint8 zero = {0}, int64[2] shape = {2, 2}> {
    d = DequantizeLinear(x, scale, zero) r = Reshape(d, shape)
    y = If(b) <then_branch = t () => (float[2,2] v) { v = Identity(r) },
        else_branch = e () => (float[2,2] w) { w = Neg(r) }> }"""
model = onnx.parser.parse_model(text).SerializeToString()
onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])  # SIGABRT
print("created")
