# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""QNN's Resize returns wrong elements for the nearest modes floor and ceil.

onnxruntime-qnn 2.7.0 on 1.32.0, on the simulator of the HTP. Other modes can also differ.

In this backend: not prevented. `run --compare` shows such a difference.
"""

import numpy as np
import onnx.parser
import onnxruntime_qnn

import onnxruntime

onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "QNNExecutionProvider"]
x = np.arange(35, dtype=np.float32).reshape(1, 1, 5, 7)
wrong = 0
for nearest in ("floor", "ceil"):
    for transformation in ("asymmetric", "align_corners", "half_pixel"):
        text = f"""<ir_version: 8, opset_import: ["": 13]> test (float[1, 1, 5, 7] x) => (float[1, 1, 3, 11] y)
        <int64[4] sizes = {{1, 1, 3, 11}}> {{ y = Resize<mode = "nearest", nearest_mode = "{nearest}",
        coordinate_transformation_mode = "{transformation}">(x, , , sizes) }}"""
        model = onnx.parser.parse_model(text).SerializeToString()
        options = onnxruntime.SessionOptions()
        options.add_provider_for_devices(devices[:1], {"backend_type": "htp"})
        (y,) = onnxruntime.InferenceSession(model, options).run(None, {"x": x})
        on_cpu = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        (expected,) = on_cpu.run(None, {"x": x})
        off = float(np.abs(y - expected).max())
        wrong += off > 0.2  # the EP computes in float16
        print(f"{nearest}, {transformation}: off by {off:.3g}")
raise SystemExit(wrong > 0)
