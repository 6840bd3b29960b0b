# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""LpNormalization of a tensor without elements terminates the process.

The CPU EP of onnxruntime-openvino 1.24.1. The release 1.32.0 does not have this defect.

In this backend: no countermeasure. The application decides which models it runs.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 9, opset_import: ["": 20]> test (float[N, M] x) => (float[N, M] y) { y = LpNormalization(x) }'
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
)
print(session.run(None, {"x": np.zeros((2, 0), np.float32)}), flush=True)  # SIGFPE
