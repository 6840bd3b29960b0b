# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""`run_async` never ends if its session is released before the callback.

onnxruntime-openvino 1.24.1 and onnxruntime-webgpu 1.27.0. On onnxruntime 1.31.1 and 1.32.0, the program ends. The
thread that releases the session holds Python's global interpreter lock, and waits for the threads of the session. One
of these threads waits for the same lock, to call the callback.

In this backend: `rep.run` does not use `run_async`. An application must keep the session until the callback returns.
"""

import threading

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
model = onnx.parser.parse_model(text).SerializeToString()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2  # run_async needs a thread besides the calling thread
x = np.ones(1_000_000, np.float32)
for i in range(20):
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ended = threading.Event()
    print(i, flush=True)  # expected: up to 19
    session.run_async(None, {"x": x}, lambda outputs, user_data, error: user_data.set(), ended)
    del session
    ended.wait()
