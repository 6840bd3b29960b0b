# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO terminates the process when it compiles a Loop that returns a state as it is, and reads outer values.

onnxruntime-openvino 1.24.1, also for a Scan. With onnxruntime-ep-openvino 1.8.1 on 1.32.0, the session is not created.

In this backend: not prevented. The process of the first `prepare` shows it.
"""

import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2] x, float[2] o) => (float[2] y) <int64 n = {2}> {
    y, z = Loop(n, , x, x) <body = b (int64 i, bool c, float[2] s, float[2] p) => (bool d, float[2] t, float[2] p) {
        d = Identity(c) t = Add(s, o) }> }"""
onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"])
