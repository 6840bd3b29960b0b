# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A forked child process hangs when it releases a session.

onnxruntime 1.31.1 and 1.32.0, Linux. The threads of a session do not exist in the child. If the child releases the
session, for example when it ends with `sys.exit`, it waits for them indefinitely in most tries. A session with one
thread is not affected.

In this backend: the guide for services says to prepare models after the fork.
"""

import os
import signal
import sys
import time

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Abs(x) }'
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), options, providers=["CPUExecutionProvider"]
)
session.run(None, {"x": np.zeros(4, np.float32)})
hung = 0
for _ in range(5):
    child = os.fork()
    if not child:
        sys.exit()
    time.sleep(3)
    if os.waitpid(child, os.WNOHANG) == (0, 0):
        hung += 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
print(f"{hung} of 5 children hang")
raise SystemExit(hung > 0)
