# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Products of matrices return memory of earlier runs if the inner dimension is 0.

MatMulInteger, QLinearMatMul, and ORT's MatMulIntegerToFloat, DynamicQuantizeMatMul, and QGemm do not write the output,
which must be 0. Before ORT 1.32, MatMul with a vector writes the first element only. The program prints the operators.

In this backend: not prevented. A service that lets its clients choose shapes must refuse inputs without elements.
"""

import sys

import numpy as np
import onnx.parser

import onnxruntime

SIZE = 64
RUNS = 20
# The types of the first input and of the output, and the node.
CASES = {
    "MatMul with a vector": (np.float32, np.float32, "MatMul(x, y)"),
    "MatMulInteger": (np.uint8, np.int32, "MatMulInteger(x, y)"),
    "QLinearMatMul": (np.uint8, np.uint8, "QLinearMatMul(x, scale, zero, y, scale, zero, scale, zero)"),
    "MatMulIntegerToFloat": (np.uint8, np.float32, "com.microsoft.MatMulIntegerToFloat(x, y, scale, scale)"),
    "DynamicQuantizeMatMul": (np.float32, np.float32, "com.microsoft.DynamicQuantizeMatMul(x, y, scale)"),
    "QGemm": (np.uint8, np.uint8, "com.microsoft.QGemm(x, scale, zero, y, scale, zero, , scale, zero)"),
}
NAMES = {np.uint8: "uint8", np.int32: "int32", np.float32: "float"}


def wrong_values(of_input: type, of_output: type, node: str) -> int:
    """Return how many values of runs without elements are not 0."""
    is_vector = node.startswith("MatMul(")
    second = "float[K] y" if is_vector else "uint8[K, N] y"
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    test ({NAMES[of_input]}[M, K] x, {second}) => ({NAMES[of_output]}[M, N] z)
    <float scale = {{1.0}}, uint8 zero = {{0}}> {{ z = {node} }}"""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    parsed = onnx.parser.parse_model(text)
    parsed.graph.output[0].type.tensor_type.ClearField("shape")
    model = parsed.SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wrong = 0
    for _ in range(RUNS):
        for inner in (SIZE, 0):
            z = None  # before the run, so that ORT can use the memory again
            x = np.ones((SIZE, inner), of_input)
            y = np.ones(inner, np.float32) if is_vector else np.ones((inner, SIZE), np.uint8)
            (z,) = session.run(None, {"x": x, "y": y})
        wrong += int((z != 0).sum())
    return wrong


if __name__ == "__main__":
    found = {name: wrong_values(*case) for name, case in CASES.items()}
    for name, wrong in found.items():
        print(f"{name}: {wrong} wrong values in {RUNS} runs")
    sys.exit(int(any(found.values())))
