# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO and WebGPU: ReduceLogSumExp of large values returns infinity.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-webgpu 0.4.0 on 1.32.0. The EPs sum the exponentials without subtracting
the maximum first. The CPU EP returns the finite value.

In this backend: not prevented. `run --compare` shows such a difference.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 8, opset_import: ["": 13]> test (float[2, 3] x) => (float[2, 1] y)
{ y = ReduceLogSumExp<axes = [1]>(x) }"""
name = "OpenVINOExecutionProvider"
options = onnxruntime.SessionOptions()
if name in onnxruntime.get_available_providers():
    options.add_provider(name, {})
else:
    import onnxruntime_ep_webgpu

    name = "WebGpuExecutionProvider"
    onnxruntime.register_execution_provider_library(name, onnxruntime_ep_webgpu.get_library_path())
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    options.add_provider_for_devices(devices[:1], {})
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
(y,) = session.run(None, {"x": np.array([[100, 200, 300], [89, 0, 0]], np.float32)})
print(f"{name}: {y.ravel()}, expected [300, 89]")
raise SystemExit(not np.allclose(y.ravel(), [300, 89]))
