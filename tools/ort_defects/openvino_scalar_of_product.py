# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO terminates the process when it compiles a Reshape to a scalar after a product of matrices.

onnxruntime-ep-openvino 1.8.1 on 1.32.0.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_openvino

import onnxruntime

onnxruntime.register_execution_provider_library("OpenVINOExecutionProvider", onnxruntime_ep_openvino.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "OpenVINOExecutionProvider"]
text = """<ir_version: 9, opset_import: ["": 20]> test (float[1,3] x, float[3,1] z) => (float y) <int64[0] none = {}> {
    p = MatMul(x, z) y = Reshape(p, none) }"""
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices[:1], {})
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)  # SIGSEGV
print(session.run(None, {"x": np.ones((1, 3), np.float32), "z": np.ones((3, 1), np.float32)}))
