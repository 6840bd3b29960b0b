# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""ExpandDims with an axis in `raw_data` terminates the process when a session is created.

onnxruntime-openvino 1.24.1 and onnxruntime-webgpu 1.27.0. The releases 1.31.1 and 1.32.0 do not have this defect.

The operator is in the domain com.microsoft. ``onnx.numpy_helper.from_array`` writes ``raw_data``. ORT's shape inference
reads the axis from ``int32_data``, which is then empty. An optimizer of ORT has the same effect: it shares one constant
if several have the same value.

In this backend: no countermeasure. The application decides which models it runs.
"""

import numpy as np
import onnx.parser
from onnx import numpy_helper

import onnxruntime

model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 20, "com.microsoft": 1]>
    test (float[N] x) => (float[1, N] y) { y = com.microsoft.ExpandDims(x, axis) }""")
model.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int32), "axis"))
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])  # SIGSEGV
print(session.run(None, {"x": np.zeros(2, np.float32)}), flush=True)
