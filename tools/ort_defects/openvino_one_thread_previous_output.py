# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO with one thread returns the output of the previous run.

onnxruntime-openvino 1.24.1; onnxruntime-ep-openvino 1.8.1 on 1.31.1 and 1.32.0. A run that must fail (4 and 3 elements
cannot be added) returns the output of the previous run, which may belong to another caller. With two threads, it
raises. On a machine with one usable CPU, it happens with any number of threads.

In this backend: `num_of_threads` is at least 2, and the EP is refused if the process can use only one CPU.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] a, float[M] b) => (float[K] y) { y = Add(a, b) }'
model = onnx.parser.parse_model(text).SerializeToString()
providers = [("OpenVINOExecutionProvider", {"num_of_threads": "1"})]
session = onnxruntime.InferenceSession(model, providers=providers)
four = np.full(4, 21, np.float32)
print(session.run(None, {"a": four, "b": four}))
try:
    print(session.run(None, {"a": np.zeros(4, np.float32), "b": np.zeros(3, np.float32)}))  # [42, 42, 42, 42]
except Exception as error:
    print("expected:", error)
else:
    raise SystemExit(1)
