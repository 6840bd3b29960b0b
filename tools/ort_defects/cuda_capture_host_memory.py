# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A CUDA graph replays a copy from host memory that was released.

onnxruntime-gpu 1.31.1. ONNX Runtime computes some outputs on the CPU (Shape, Size, a constant). If such an output is
bound to device memory, it is copied inside the capture from a temporary buffer. A replay copies the later contents of
this buffer: in this program, the shape of another graph.

In this backend: such outputs are bound in CPU memory, and each run writes them.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 10, opset_import: ["": 21]> g (float[N, 4] x) => (float[N, 4] y, int64[2] s) {
    y = Relu(x) s = Shape(x) }"""
model = onnx.parser.parse_model(text).SerializeToString()
providers = [("CUDAExecutionProvider", {"enable_cuda_graph": "1"})]
session = onnxruntime.InferenceSession(model, providers=providers)
bindings, wrong = {}, False
for rows in (2, 3, 2, 3):
    if rows not in bindings:
        bindings[rows] = session.io_binding()
        x = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones((rows, 4), np.float32), "cuda")
        y = onnxruntime.OrtValue.ortvalue_from_shape_and_type([rows, 4], np.float32, "cuda")
        s = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2], np.int64, "cuda")
        bindings[rows].bind_ortvalue_input("x", x)
        bindings[rows].bind_ortvalue_output("y", y)
        bindings[rows].bind_ortvalue_output("s", s)
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(rows))
    session.run_with_iobinding(bindings[rows], options)
    shape = bindings[rows].copy_outputs_to_cpu()[1].tolist()
    print(rows, shape)  # a replay answers with the shape of another graph
    wrong |= shape != [rows, 4]
raise SystemExit(wrong)
