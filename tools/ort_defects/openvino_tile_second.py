# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO's Tile returns wrong values if it repeats a second dimension of size 1, and a later one.

onnxruntime-ep-openvino 1.8.1 on 1.32.0. The shape is dynamic.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_openvino

import onnxruntime

onnxruntime.register_execution_provider_library("OpenVINOExecutionProvider", onnxruntime_ep_openvino.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "OpenVINOExecutionProvider"]
text = """<ir_version: 9, opset_import: ["": 20]> test (float[N,1,1,3] x) => (float[A,B,C,D] y) <
    int64[4] repeats = {1, 2, 1, 2}> { y = Tile(x, repeats) }"""
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices[:1], {})
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
x = np.arange(3, dtype=np.float32).reshape(1, 1, 1, 3)
(y,) = session.run(None, {"x": x})
print(y)
raise SystemExit(not np.array_equal(y, np.tile(x, (1, 2, 1, 2))))
