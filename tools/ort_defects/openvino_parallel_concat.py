# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO: parallel runs of a Concat of inputs return wrong values.

onnxruntime-openvino 1.24.1, in about one of 100 of the first parallel runs of a session. The shapes are dynamic. With
onnxruntime-ep-openvino 1.8.1 on 1.32.0, the process can terminate.

In this backend: the runs of a session with free dimensions follow one another.
"""

import threading

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 9, opset_import: ["": 20]> test (float[2,N] a, float[2,N] b) => (float[4,N] y) {
    y = Concat<axis=0>(a, b) }"""
model = onnx.parser.parse_model(text).SerializeToString()
wrong = []


def client(session: onnxruntime.InferenceSession, number: int) -> None:
    for size in (64, 3, 1000, 64, 3, 1000):
        a = np.full((2, size), number, np.float32)
        (y,) = session.run(None, {"a": a, "b": -a})
        if not np.array_equal(y, np.concatenate([a, -a])):
            wrong.append(np.unique(y))


for _ in range(60):
    session = onnxruntime.InferenceSession(model, providers=["OpenVINOExecutionProvider"])
    client(session, 9)
    threads = [threading.Thread(target=client, args=(session, number)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(wrong), "of 1440", wrong[:2])
raise SystemExit(bool(wrong))
