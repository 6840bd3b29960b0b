# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""`session.set_denormal_as_zero` permanently changes the arithmetic of the thread that creates the session.

onnxruntime 1.31.1 and 1.32.0, x86-64. From then on, the calling thread flushes denormal numbers to zero, also outside
of ONNX Runtime, and after the session was released.

In this backend: refused.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
small = np.float32(1e-20)
print(small * small)  # 1e-40
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.set_denormal_as_zero", "1")
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
del session
print(small * small)  # 0.0, permanently in this thread
raise SystemExit(not small * small)
