# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""After a run that fails inside the EP, an OpenVINO session returns values of earlier runs, and fails correct runs.

onnxruntime-openvino 1.24.1; onnxruntime-ep-openvino 1.8.1 on 1.31.1 and 1.32.0. The inputs of the first run have 3 and
5 rows, so the run fails. The next run returns values of the failed run. The default options are affected, and so is
each number of threads.

The failure damages the graph of one stream. Later runs on this stream return wrong values or wrong shapes, or raise
errors, if they share shapes with earlier runs. A run beside the failed run can use the damaged graph before its caller
sees the error. The session damages itself if the EP rejects shapes that do not match, and also if a kernel rejects a
value although all shapes are known, as in ReverseSequence and ScatterElements. Range and NonZero do so, too. No damage
was seen after a terminated run, after invalid dimensions of an input, and after a failure of CumSum. A new session has
no damage.

In this backend: a session with such a failure is replaced before the next answer. Its runs are parallel only if the
shapes of the inputs alone decide whether a run fails, and a run with these shapes has succeeded.
"""

import numpy as np
import onnx.parser

import onnxruntime

text = """<ir_version: 10, opset_import: ["": 21]> g (float[N, 2] x, float[M, 2] s) => (float[K, 2] y)
    <float[2, 2] w = {1, 0, 0, 1}> { a = MatMul(x, w)  y = Add(a, s) }"""
session = onnxruntime.InferenceSession(
    onnx.parser.parse_model(text).SerializeToString(), providers=["OpenVINOExecutionProvider"]
)


def answer(rows_of_x: int, rows_of_s: int, value: float) -> object:
    feeds = {"x": np.full((rows_of_x, 2), value, np.float32), "s": np.full((rows_of_s, 2), value, np.float32)}
    try:
        return session.run(None, feeds)[0].tolist()
    except Exception as error:
        return type(error).__name__


wrong = False
for count in (1, 1, 1, 2, 2):
    answer(3, 5, 1000)  # must fail
    found = answer(count, count, 0)
    print(count, found, flush=True)  # expected: zeros
    wrong |= found != [[0, 0]] * count
raise SystemExit(wrong)
