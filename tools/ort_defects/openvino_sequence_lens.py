# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO's recurrent operators ignore the lengths of sequences if a size is free.

onnxruntime-openvino 1.24.1 (GRU and RNN), and onnxruntime-ep-openvino 1.8.1 on 1.32.0 (also LSTM).

In this backend: not prevented. `run --compare` shows such a difference, before a model is used.
"""

import numpy as np
import onnx.parser

import onnxruntime

W = ", ".join(str(number % 7 / 10) for number in range(36))
R = ", ".join(str(number % 5 / 10) for number in range(48))
text = f"""<ir_version: 9, opset_import: ["": 20]> test (float[T,2,3] x, int32[2] n) => (float[A,B,C,D] y)
    <float[1,12,3] w = {{{W}}}, float[1,12,4] r = {{{R}}}> {{ y = GRU<hidden_size=4>(x, w, r, , n) }}"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)
(y,) = session.run(None, {"x": np.ones((5, 2, 3), np.float32), "n": np.array([5, 2], np.int32)})
print(y[:, 0, 1, 0])
raise SystemExit(y[3:, 0, 1].any())  # zeros after the end of the second sequence
