# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""WebGPU's DequantizeLinear does not write all elements.

onnxruntime-ep-webgpu 0.4.0 on 1.31.1 and 1.32.0. After a session with a DequantizeLinear of one element, the node of
another session writes a quarter of its elements. A run without capture is wrong, too.

In this backend: no countermeasure for runs without capture. The operator may not be captured.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_webgpu

import onnxruntime

onnxruntime.register_execution_provider_library("WebGpuExecutionProvider", onnxruntime_ep_webgpu.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "WebGpuExecutionProvider"]
for size in (1, 12):
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (int8[{size}] x) => (float[{size}] y)
        <float s = {{2}}> {{ y = DequantizeLinear(x, s) }}"""
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices, {})
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
    (y,) = session.run(None, {"x": np.full(size, 3, np.int8)})
    print(y)  # the second: three times 6, then zeros
raise SystemExit(bool((y != 6).any()))
