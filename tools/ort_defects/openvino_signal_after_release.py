# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO: a signal terminates the process after another thread released the last session.

onnxruntime-openvino 1.24.1, Linux. OpenVINO's CPU plugin gives an alternate signal stack to the thread that creates the
first session. The last session releases the plugin. If another thread does this, OpenVINO unmaps the stack, but the
first thread still uses it. Python's signal handlers run on this stack.

In this backend: openvino/sessions.py keeps OpenVINO's plugin until the process ends. Keep one session, or an object of
``SessionOptions`` with the EP, in programs that do not use the backend.
"""

import signal
import threading

import onnx.parser

import onnxruntime

text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] X) => (float[2] Y) { Y = Relu(X) }'
content = onnx.parser.parse_model(text).SerializeToString()
received = []
signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
sessions = [onnxruntime.InferenceSession(content, providers=["OpenVINOExecutionProvider"])]
thread = threading.Thread(target=sessions.clear)
thread.start()
thread.join()
print("A signal follows", flush=True)
signal.raise_signal(signal.SIGUSR1)
print(received)
