# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO writes into the array of an earlier input if an output is a copy of the input.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0. The output has a dynamic shape, and a cast
to the type of the input is between them. A run writes its values into the input of an earlier run, also if the caller
has released this array. Two threads return values of each other. With the plugin EP, the process can terminate. On
1.24.1, a Tile of bool or float16 next to an Identity has the same effect.

In this backend: inputs are copied into memory of the session, see openvino/run_order.py.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[N] x) => (float[A] y, float[C] z) {
    y = Cast<to=1>(x) z = Identity(x) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
arrays = [np.full(2, value, np.float32) for value in range(1, 6)]
for array in arrays:
    session.run(None, {"x": array})
values = [float(array[0]) for array in arrays]
print(values)  # [2.0, 2.0, 4.0, 4.0, 5.0]
raise SystemExit(values != [1, 2, 3, 4, 5])
