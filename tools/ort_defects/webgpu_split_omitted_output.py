# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""WebGPU: Split with an omitted output terminates the process.

onnxruntime-ep-webgpu 0.4.0 on 1.31.1 and 1.32.0.

In this backend: no countermeasure. The application decides which models it runs.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_webgpu

import onnxruntime

onnxruntime.register_execution_provider_library("WebGpuExecutionProvider", onnxruntime_ep_webgpu.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "WebGpuExecutionProvider"]
text = '<ir_version: 10, opset_import: ["": 18]> g (float[4] x) => (float[2] a) { a, "" = Split<num_outputs = 2>(x) }'
model = onnx.parser.parse_model(text)
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {})
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
print(session.run(None, {"x": np.arange(4, dtype=np.float32)}), flush=True)
