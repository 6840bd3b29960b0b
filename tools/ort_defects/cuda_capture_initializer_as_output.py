# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A failed CUDA graph capture breaks all CUDA sessions of the process.

onnxruntime-gpu 1.31.1. An initializer is an output of the graph and an input of a CUDA node. ONNX Runtime copies the
initializer while it captures; the copy fails, and the capture is never ended.

In this backend: such a model is refused when it is prepared.
"""

import numpy as np
import onnx.parser

import onnxruntime


def session_of(text: str, captured: str) -> onnxruntime.InferenceSession:
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> g ' + text).SerializeToString()
    providers = [("CUDAExecutionProvider", {"enable_cuda_graph": captured})]
    return onnxruntime.InferenceSession(model, providers=providers)


x = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32), "cuda", 0)
plain = session_of("(float[3] x) => (float[3] y) { y = Add(x, x) }", "0")
print(plain.run(None, {"x": np.ones(3, np.float32)}), flush=True)
captured = session_of("(float[3] x) => (float[3] y, float[3] w) <float[3] w = {1, 1, 1}> { y = Add(x, w) }", "1")
binding = captured.io_binding()
binding.bind_ortvalue_input("x", x)
for name in ("y", "w"):
    binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32), "cuda", 0))
try:
    captured.run_with_iobinding(binding)
except Exception as error:
    print(type(error).__name__, str(error)[:200], flush=True)
print(plain.run(None, {"x": np.ones(3, np.float32)}), flush=True)  # fails
