# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A CUDA graph is replayed into memory that arena shrinkage released.

onnxruntime-gpu 1.31.1. The arena releases blocks that a captured graph uses.

In this backend: shrinkage of a device's arena is refused on a session that captures.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 10, opset_import: ["": 21]> g (float[N, 1000] x) => (float[N, 1000] y) {
    a = Sigmoid(x) b = Relu(a) c = Tanh(b) d = Neg(c) y = Add(d, x) }"""
model = onnx.parser.parse_model(text).SerializeToString()
providers = [("CUDAExecutionProvider", {"enable_cuda_graph": "1"})]
session = onnxruntime.InferenceSession(model, providers=providers)
array = np.ones((1000, 1000), np.float32)
binding = session.io_binding()
binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda"))
binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda"))
session.run_with_iobinding(binding)  # captured
options = onnxruntime.RunOptions()
options.add_run_config_entry("gpu_graph_id", "-1")
options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "gpu:0")
session.run(None, {"x": array}, options)
session.run_with_iobinding(binding)  # replayed into memory that was given back
y = binding.copy_outputs_to_cpu()[0][0, 0]
print(y)  # expected: 1 - tanh(sigmoid(1)) = 0.376
raise SystemExit(bool(abs(y - 0.376) > 0.001))
