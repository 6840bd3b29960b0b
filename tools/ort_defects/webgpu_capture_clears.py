# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""WebGPU's graph capture does not record buffer clears.

onnxruntime-ep-webgpu 0.4.0 on 1.31.1 and 1.32.0. LSTM and GRU without initial states start from the contents of the
buffer of the states. With capture, the values are wrong from the first run on, and differ in each run.

In this backend: LSTM and GRU are not among the operators that may be captured.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_webgpu

import onnxruntime

onnxruntime.register_execution_provider_library("WebGpuExecutionProvider", onnxruntime_ep_webgpu.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "WebGpuExecutionProvider"]
text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2, 1, 2] x, float[1, 8, 2] w, float[1, 8, 2] r) => (float[2, 1, 1, 2] y) {
    y = LSTM <hidden_size = 2> (x, w, r) }"""
model = onnx.parser.parse_model(text).SerializeToString()
feeds = {name: np.ones(shape, np.float32) for name, shape in (("x", (2, 1, 2)), ("w", (1, 8, 2)), ("r", (1, 8, 2)))}
outputs = []
for captured in "01":
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = False
    options.add_provider_for_devices(devices, {"enableGraphCapture": captured})
    session = onnxruntime.InferenceSession(model, options)
    binding = session.io_binding()
    for name, array in feeds.items():
        value = session.create_ortvalue_from_shape_and_type(list(array.shape), np.float32, "webgpu")
        value.update_inplace(array)
        binding.bind_ortvalue_input(name, value)
    binding.bind_ortvalue_output("y", session.create_ortvalue_from_shape_and_type([2, 1, 1, 2], np.float32, "webgpu"))
    for _ in range(3):
        session.run_with_iobinding(binding)
        outputs.append(binding.copy_outputs_to_cpu()[0].ravel())
        print(captured, outputs[-1])  # with capture other values
raise SystemExit(not np.allclose(outputs, outputs[0]))
