# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""`providers=` silently ignores a plugin EP, and plugin EPs accept any option.

onnxruntime-ep-openvino 1.8.1 and onnxruntime-qnn 2.7.0 on 1.31.1 and 1.32.0, and onnxruntime-ep-webgpu 0.4.0 on 1.31.1.
If `providers=` contains a name that ONNX Runtime knows as a built-in EP, the session uses the CPU EP. On 1.32.0, the
session uses the WebGPU plugin. In the order of `get_available_providers()`, the plugin follows the CPU EP, and gets no
node. On both releases, `add_provider_for_devices` attaches each plugin EP with every option, including unknown ones.
The options appear in `get_provider_options`.

In this backend: a plugin EP is attached through its devices, with options that the allowlist contains. A session
without it is an error. If a caller specifies no EP, the backend does not pass plugin EPs, and warns.
"""

import onnx.parser
import onnxruntime_qnn

import onnxruntime

onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
text = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
model = onnx.parser.parse_model(text).SerializeToString()
session = onnxruntime.InferenceSession(model, providers=[("QNNExecutionProvider", {"backend_type": "htp"})])
print(session.get_providers())  # ['CPUExecutionProvider']
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "QNNExecutionProvider"]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {"backend_type": "htp", "no_such_option": "banana"})
accepted = onnxruntime.InferenceSession(model, options).get_provider_options()
print(accepted)  # ... 'no_such_option': 'banana' ...
raise SystemExit(session.get_providers() == ["CPUExecutionProvider"] or "banana" in str(accepted))
