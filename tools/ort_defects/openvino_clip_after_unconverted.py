# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO terminates the process when it compiles a Clip without a limit after a node that it cannot convert.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. The EP converts each node to one of its own.
The value of a node that it cannot convert has no type. For this type, the conversion of Clip makes the missing limit.
Without the Clip, or with both limits, the session raises an error.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2] x) => (float[2] y) {
    z = Mod(x, x)
    y = Clip(z) }"""
content = onnx.parser.parse_model(text).SerializeToString()
try:
    onnxruntime.InferenceSession(content, providers=["OpenVINOExecutionProvider"])  # SIGSEGV
except Exception as error:  # ORT raises classes without a common base
    print(str(error)[:80])
