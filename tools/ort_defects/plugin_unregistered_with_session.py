# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Unregistering a plugin EP's library terminates a process that has a session.

onnxruntime-ep-webgpu 0.4.0 and onnxruntime-qnn 2.7.0 on 1.31.1 and 1.32.0.

In this backend: no countermeasure; the guides mention it.
"""

import onnx.parser
import onnxruntime_ep_webgpu

import onnxruntime

onnxruntime.register_execution_provider_library("WebGpuExecutionProvider", onnxruntime_ep_webgpu.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "WebGpuExecutionProvider"]
text = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {})
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
onnxruntime.unregister_execution_provider_library("WebGpuExecutionProvider")
del session  # the process ends here
