# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creating a session hangs if threads cannot start.

onnxruntime 1.31.1 and 1.32.0, and the other wheels of ONNX Runtime. It waits for threads of its pool that the system
did not start.

In this backend: the number of threads is limited by the number of CPUs that the process can use, which makes it rare.
"""

import multiprocessing
import resource
from pathlib import Path

import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
model = onnx.parser.parse_model(text).SerializeToString()


def prepare() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)  # memory for a dozen threads
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 64
    onnxruntime.InferenceSession(model, options)


process = multiprocessing.get_context("fork").Process(target=prepare)
process.start()
process.join(10)
hangs = process.is_alive()
print("still opening after 10 s" if hangs else f"ended with {process.exitcode}")
process.kill()
raise SystemExit(hangs)
