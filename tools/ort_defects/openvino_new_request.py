# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO: parallel runs with different shapes terminate the process.

onnxruntime-openvino 1.24.1, and onnxruntime-ep-openvino 1.8.1 on 1.32.0, within a minute: "pure virtual method called".
If all infer requests are in use, a run creates another one (InferRequestPool in basic_backend.h). OpenVINO then reads
the descriptions of the outputs without a lock (SyncInferRequest::init_tensor in infer_request.cpp). At the same time, a
parallel run with other shapes can replace them.

In this backend: if shapes can differ, runs follow one another, see openvino/run_order.py.
"""

import threading
import time

import numpy as np
import onnx.parser

import onnxruntime

OUTPUTS, THREADS, SECONDS = 50, 48, 60
outputs = ", ".join(f"float[N,4] y{k}" for k in range(OUTPUTS))
nodes = " ".join(f"y{k} = Add(x, c{k})" for k in range(OUTPUTS))
constants = ", ".join(f"float c{k} = {{{k}}}" for k in range(OUTPUTS))
text = f'<ir_version: 9, opset_import: ["": 20]> test (float[N,4] x) => ({outputs}) <{constants}> {{ {nodes} }}'
model = onnx.parser.parse_model(text).SerializeToString()


def client(session: onnxruntime.InferenceSession, number: int, together: threading.Barrier) -> None:
    array = np.ones((1 + number % 7, 4), np.float32)
    together.wait()
    for _ in range(2):
        session.run(None, {"x": array})


until = time.monotonic() + SECONDS
while time.monotonic() < until:
    session = onnxruntime.InferenceSession(model, providers=["OpenVINOExecutionProvider"])
    session.run(None, {"x": np.ones((8, 4), np.float32)})
    together = threading.Barrier(THREADS)
    threads = [threading.Thread(target=client, args=(session, number, together)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("the process was not terminated")
