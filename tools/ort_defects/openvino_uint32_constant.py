# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO does not read the values of a constant of uint32 that are not in `raw_data`.

onnxruntime-openvino 1.24.1. ONNX permits the field ``uint64_data``, in which ``onnx.helper.make_tensor`` writes them.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (uint32[N] x) => (bool[N] y) <uint32[3] k = {3, 7, 9}> {
    y = Equal(x, k) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.array([3, 7, 9], np.uint32)})
print(y)
raise SystemExit(not y.all())
