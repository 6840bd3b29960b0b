# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""WebGPU's Slice returns wrong elements for negative steps on two axes.

onnxruntime-ep-webgpu 0.4.0 on 1.32.0. With a negative step on one axis, the elements are right.

In this backend: not prevented. `run --compare` shows such a difference.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_webgpu

import onnxruntime

onnxruntime.register_execution_provider_library("WebGpuExecutionProvider", onnxruntime_ep_webgpu.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "WebGpuExecutionProvider"]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices[:1], {})
text = """<ir_version: 8, opset_import: ["": 13]> test (float[4, 5] x) => (float[P, Q] y)
<int64[2] starts = {-1, 3}, int64[2] ends = {-100, 0}, int64[2] axes = {0, 1}, int64[2] steps = {-1, -2}>
{ y = Slice(x, starts, ends, axes, steps) }"""
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
x = np.arange(20, dtype=np.float32).reshape(4, 5)
(y,) = session.run(None, {"x": x})
expected = x[::-1, 3:0:-2]
print(y.tolist(), "expected", expected.tolist())
raise SystemExit(not np.array_equal(y, expected))
