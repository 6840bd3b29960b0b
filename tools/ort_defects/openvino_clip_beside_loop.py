# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO terminates the process when it compiles a Loop and a Clip without a limit.

onnxruntime-openvino 1.24.1. The EP compiles the body of the Loop, and then the Loop. It does not support this. Without
the Clip, the session raises an error.

In this backend: prepare refuses such a model on OpenVINO, see openvino/unsafe_models.py.
"""

import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2] x) => (float[2] y) <int64 n = {2}, bool b = {1}> {
    z = Loop(n, b, x) <body = loop (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
        d = Identity(c) t = Identity(s) }>
    y = Clip(z) }"""
content = onnx.parser.parse_model(text).SerializeToString()
try:
    onnxruntime.InferenceSession(content, providers=["OpenVINOExecutionProvider"])  # SIGSEGV
except Exception as error:  # ORT raises classes without a common base
    print(str(error)[:80])
