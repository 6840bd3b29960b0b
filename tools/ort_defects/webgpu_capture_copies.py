# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""WebGPU's graph capture does not record buffer copies.

onnxruntime-ep-webgpu 0.4.0 on 1.31.1 and 1.32.0. A captured graph does not contain operators that the EP implements as
a copy of a buffer: Reshape, Flatten, Squeeze, Unsqueeze, and Identity at an output of the graph, ScatterND and
ScatterElements anywhere, and some more. A replay returns the values of the first run.

In this backend: capture on WebGPU is permitted by the operators of the final graph. A test has shown that each is
replayed.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_webgpu

import onnxruntime

onnxruntime.register_execution_provider_library("WebGpuExecutionProvider", onnxruntime_ep_webgpu.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "WebGpuExecutionProvider"]
wrong = False
for node in ("Reshape(x, s)", "ScatterND(x, i, u)", "Relu(x)"):
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y)
        <int64[1] s = {{4}}, int64[1, 1] i = {{0}}, float[1] u = {{9}}> {{ y = {node} }}"""
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = False
    options.add_provider_for_devices(devices, {"enableGraphCapture": "1"})
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
    x = session.create_ortvalue_from_shape_and_type([4], np.float32, "webgpu")
    y = session.create_ortvalue_from_shape_and_type([4], np.float32, "webgpu")
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    for value in (1, 2, 3):
        x.update_inplace(np.full(4, value, np.float32))
        session.run_with_iobinding(binding)
        last = binding.copy_outputs_to_cpu()[0][3]
        print(node, value, last)  # Reshape and ScatterND stay at the first run's
        wrong |= bool(last != value)
raise SystemExit(wrong)
