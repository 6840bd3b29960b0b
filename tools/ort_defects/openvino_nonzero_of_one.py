# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO's NonZero returns wrong indices for one constant element in four dimensions.

onnxruntime-ep-openvino 1.8.1 on 1.32.0.

In this backend: as without it. Run each model once with ``run --ep OpenVINO --compare``.
"""

import numpy as np
import onnx.parser
import onnxruntime_ep_openvino

import onnxruntime

onnxruntime.register_execution_provider_library("OpenVINOExecutionProvider", onnxruntime_ep_openvino.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "OpenVINOExecutionProvider"]
text = """<ir_version: 9, opset_import: ["": 20]> test (float[1] x) => (int64[4,A] y, float[1] z) <
    int64[1,1,1,1] one = {1}> { y = NonZero(one) z = Neg(x) }"""
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices[:1], {})
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
(y, _) = session.run(None, {"x": np.ones(1, np.float32)})
print(y.ravel())
raise SystemExit(y.any())
