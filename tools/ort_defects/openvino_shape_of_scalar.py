# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO terminates the process when it runs nodes on the shape of a scalar.

onnxruntime-openvino 1.24.1, without the optimizations of ONNX Runtime. With onnxruntime-ep-openvino 1.8.1 on 1.32.0,
the run fails.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (int8 x) => (int64[0] y, int64[1] z, int64[1] v) <
    int64[1] end = {2147483647}, int64[1] axes = {0}, int64[1] zero = {0}> {
    y = Shape(x) z = Shape(y) a = Expand(y, z) b = CastLike(a, a) v = Slice(z, zero, end, axes) }"""
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), options, providers=["OpenVINOExecutionProvider"]
)
print(session.run(None, {"x": np.int8(3)}), flush=True)  # SIGFPE
