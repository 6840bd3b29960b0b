# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Text of non-native byte order terminates the process.

onnxruntime 1.31.1 and 1.32.0. A string array of non-native byte order terminates the process.

In this backend: such arrays are converted first.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (string[N] x) => (string[N] y) { y = Identity(x) }'
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
print(session.run(None, {"x": np.array(["a", "b"]).astype(">U1")}))  # SystemError, or the process ends
