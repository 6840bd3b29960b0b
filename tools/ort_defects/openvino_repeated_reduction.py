# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns another shape for a reduction that is repeated with a negative axis.

onnxruntime-openvino 1.24.1. ``x.mean(-1).mean(-1)`` of PyTorch is such a model.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2,3,4] x) => (float[A] y) <int64[1] last = {-1}> {
    z = ReduceMean<keepdims=0>(x, last) y = ReduceMean<keepdims=0>(z, last) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.ones((2, 3, 4), np.float32)})
print(y.shape)  # (2, 3)
raise SystemExit(y.shape != (2,))
