# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""If one thread uses sessions with CUDA graphs on two devices, the sessions fail.

onnxruntime-gpu 1.31.1. A run of a session with `enable_cuda_graph` does not set the current device of the thread. The
third run fails with error 400, invalid resource handle.

In this backend: a run of a session that captures sets its device first.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
model = onnx.parser.parse_model(text).SerializeToString()
array = np.ones(4, np.float32)
sessions = []
for device in (0, 1):
    options = {"device_id": str(device), "enable_cuda_graph": "1"}
    session = onnxruntime.InferenceSession(model, providers=[("CUDAExecutionProvider", options)])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", device))
    binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", device))
    sessions.append((session, binding))
for device in (0, 1, 0, 1):
    session, binding = sessions[device]
    session.run_with_iobinding(binding)  # the third: CUDA error 400, invalid resource handle
    print(device, binding.copy_outputs_to_cpu()[0])
