# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Some operators of the CPU EP terminate the process if a tensor has no elements.

The program prints the operators, and runs each one in a new process. GRU and LSTM do this for a batch of size 0.

In this backend: not prevented. The application decides which models and sizes it accepts.
"""

import contextlib
import multiprocessing
import sys

import numpy as np
import onnx.parser

import onnxruntime

W = "w = ConstantOfShape(s)"
# The shape of the input x, and the nodes.
CASES = {
    "Attention": ((2, 0, 4, 8), "y = Attention(x, x, x)"),
    "ConvTranspose": ((1, 1, 0), f"s = Constant<value_ints = [1, 2, 3]>() {W} y = ConvTranspose(x, w)"),
    "ConvTranspose 3D": ((1, 1, 0, 4, 5), f"s = Constant<value_ints = [1, 2, 3, 3, 3]>() {W} y = ConvTranspose(x, w)"),
    "DFT": ((1, 0, 10, 1), "y = DFT<axis = 1>(x)"),
    "GRU": ((1, 0, 3), f"s = Constant<value_ints = [1, 9, 3]>() {W} y = GRU<hidden_size = 3>(x, w, w)"),
    "GridSample": ((1, 1, 0, 2), f"s = Constant<value_ints = [1, 2, 4, 2]>() {W} y = GridSample(x, w)"),
    "LSTM": ((1, 0, 3), f"s = Constant<value_ints = [1, 12, 3]>() {W} y = LSTM<hidden_size = 3>(x, w, w)"),
    "LpNormalization": ((2, 0), "y = LpNormalization(x)"),
    "STFT": ((1, 128, 1), f"s = Constant<value_ints = [0]>() {W} n = Constant<value_int = 8>() y = STFT(x, n, w)"),
    "TopK": ((0, 4), "k = Constant<value_ints = [1]>() y, i = TopK<axis = 1>(x, k)"),
    "Unique": ((3, 0), "y = Unique<axis = 0>(x)"),
}


def run(name: str) -> None:
    """Run the model of a case."""
    shape, nodes = CASES[name]
    opset = 23 if name == "Attention" else 17
    sizes = ", ".join("ABCDE"[: len(shape)])
    head = f'<ir_version: 8, opset_import: ["": {opset}]> test (float[{sizes}] x) => (float[K] y)'
    model = onnx.parser.parse_model(f"{head} {{ {nodes} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with contextlib.suppress(Exception):  # an error is right
        session.run(None, {"x": np.zeros(shape, np.float32)})


if __name__ == "__main__":
    terminated = []
    for name in CASES:
        child = multiprocessing.get_context("spawn").Process(target=run, args=[name])
        child.start()
        child.join()
        if child.exitcode < 0:
            terminated.append(name)
    print(f"terminate the process: {', '.join(terminated) or 'none'}")
    sys.exit(int(terminated != []))
