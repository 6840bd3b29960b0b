# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""QNN's Einsum returns wrong values if an index is repeated in one input.

onnxruntime-qnn 2.7.0 on 1.32.0, on the simulator of the HTP. The equation is `ii,ij->ij`.

In this backend: not prevented. `run --compare` shows such a difference.
"""

import numpy as np
import onnx.parser
import onnxruntime_qnn

import onnxruntime

onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "QNNExecutionProvider"]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices[:1], {"backend_type": "htp"})
text = """<ir_version: 8, opset_import: ["": 13]> test (float[3, 3] x, float[3, 3] y) => (float[3, 3] z)
{ z = Einsum<equation = "ii,ij->ij">(x, y) }"""
session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)
x = np.arange(9, dtype=np.float32).reshape(3, 3)
(z,) = session.run(None, {"x": x, "y": x + 1})
expected = np.einsum("ii,ij->ij", x, x + 1)
print(z.tolist(), "expected", expected.tolist())
raise SystemExit(not np.allclose(z, expected, atol=0.2))
