# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns wrong values for an attention with as many heads as tokens.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. The sizes are static. In a real model, such as
PP-OCRv6_rec_small.onnx with a width of 64, the values also differ between equal runs.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[1,8,8,16] q, float[1,8,8,16] k, float[1,8,8,16] v)
    => (float[1,8,128] y) <float scale = {0.3}, int64[3] shape = {1, 8, 128}> {
    a = Mul(q, scale) b = Transpose<perm=[0,1,3,2]>(k) m = MatMul(a, b) p = Softmax(m) o = MatMul(p, v)
    t = Transpose<perm=[0,2,1,3]>(o) y = Reshape(t, shape) }"""
model = onnx.parser.parse_model(text).SerializeToString()
generator = np.random.default_rng(0)
feeds = {name: generator.standard_normal((1, 8, 8, 16)).astype(np.float32) for name in "qkv"}
outputs = []
for provider in ("CPUExecutionProvider", "OpenVINOExecutionProvider"):
    session = onnxruntime.InferenceSession(model, providers=[provider])
    outputs += session.run(None, feeds)
deviation = float(np.abs(outputs[0] - outputs[1]).max())
print(deviation)
raise SystemExit(deviation > 0.01)
