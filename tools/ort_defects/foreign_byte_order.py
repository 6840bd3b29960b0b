# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""`InferenceSession.run` reads big-endian arrays as little-endian.

onnxruntime 1.31.1 and 1.32.0. The bytes of a big-endian array are read as little-endian numbers, without an error.

In this backend: such arrays are converted first.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Identity(x) }'
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
(y,) = session.run(None, {"x": np.array([1, 2], ">f4")})
print(y)  # [4.6e-41, 9.0e-44], and the run succeeds
raise SystemExit(y.tolist() != [1, 2])
