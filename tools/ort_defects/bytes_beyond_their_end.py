# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""`InferenceSession.run` reads text beyond the end of `bytes` in an array.

onnxruntime 1.24.4, 1.31.1, and 1.32.0. numpy writes no NUL after an item that has the full length. ORT reads up to the
next NUL: into the next item, or into memory that does not belong to the array.

In this backend: such arrays are decoded first.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (string[N] x) => (string[N] y) { y = Identity(x) }'
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
(y,) = session.run(None, {"x": np.array([b"abc", b"def", b""])})
print(y)  # ['abcdef', 'def', '']
raise SystemExit(y.tolist() != ["abc", "def", ""])
