# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO returns another shape for a reduction of the axis of a Concat.

onnxruntime-openvino 1.24.1.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[3] x) => (float[1] y) <int64[1] axes = {0}> {
    z = Concat<axis=0>(x, x) y = ReduceMax(z, axes) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.arange(3, dtype=np.float32)})
print(y)  # [0, 1, 2]
raise SystemExit(y.tolist() != [2])
