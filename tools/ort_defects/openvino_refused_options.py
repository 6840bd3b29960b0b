# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A built-in EP that rejects its options is silently ignored.

onnxruntime-openvino 1.24.1. With `providers=`, a value that the EP rejects causes a line in the log and a session on
the CPU EP only. With `add_provider`, it raises an exception.

In this backend: EPs in `provider_options` are attached with `add_provider`. A session without one of them is an error.
"""

import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
model = onnx.parser.parse_model(text).SerializeToString()
bad = {"precision": "FP8"}
session = onnxruntime.InferenceSession(model, providers=[("OpenVINOExecutionProvider", bad)], enable_fallback=0)
print(session.get_providers())  # ['CPUExecutionProvider']
try:
    onnxruntime.SessionOptions().add_provider("OpenVINOExecutionProvider", bad)
except Exception as error:
    print("add_provider raises:", error)
raise SystemExit(session.get_providers() == ["CPUExecutionProvider"])
