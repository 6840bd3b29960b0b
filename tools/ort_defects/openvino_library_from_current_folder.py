# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO loads a library from the current folder.

onnxruntime-openvino 1.24.1. For a model with a free dimension on the CPU, the EP loads
`libopenvino_auto_batch_plugin.so`. The wheel does not contain it, so the EP loads it from the current folder. The
simulator of onnxruntime-qnn looks for `libnative_tls.conf` in the current folder.

In this backend: impossible to prevent in Python; the security model mentions it.
"""

import os
import subprocess
import tempfile

import onnx.parser

import onnxruntime

text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
model = onnx.parser.parse_model(text).SerializeToString()
code = '#include <fcntl.h>\n__attribute__((constructor)) static void loaded(void) { creat("loaded", 0600); }'
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", "libopenvino_auto_batch_plugin.so"]
    subprocess.run(command, input=code, text=True, check=True)
    onnxruntime.InferenceSession(model, providers=["OpenVINOExecutionProvider"])
    loaded = os.path.exists("loaded")
    print("loaded" if loaded else "not loaded")
    raise SystemExit(loaded)
