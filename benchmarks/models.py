# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The models that are measured, and inputs for them."""

import importlib.resources

import numpy as np
import onnx
from onnx import numpy_helper, parser

MAGIKA_PATH = str(importlib.resources.files("magika") / "models" / "standard_v3_3" / "model.onnx")

_HEADER = '<ir_version: 8, opset_import: ["": 17]>'


def two_nodes() -> onnx.ModelProto:
    """One small input, two nodes: next to nothing is computed."""
    return parser.parse_model(f"{_HEADER} two_nodes (float[4] x) => (float[4] y) {{ sum = Add(x, x) y = Mul(sum, x) }}")


def three_inputs() -> onnx.ModelProto:
    """Three small inputs, two nodes."""
    return parser.parse_model(
        f"{_HEADER} three_inputs (float[4] a, float[4] b, float[4] c) => (float[4] y) "
        "{ sum = Add(a, b) y = Mul(sum, c) }"
    )


def bfloat16() -> onnx.ModelProto:
    """One small input and an output of a type that numpy lacks, three nodes."""
    return parser.parse_model(
        f"{_HEADER} bfloat16 (bfloat16[4] x) => (bfloat16[4] y) "
        "{ wide = Cast<to = 1>(x) sum = Add(wide, wide) y = Cast<to = 16>(sum) }"
    )


def small_array() -> np.ndarray:
    """An input of the small models."""
    return np.ones(4, np.float32)


def magika() -> onnx.ModelProto:
    """Google's classifier of file types: 95 nodes, 3 MB."""
    return onnx.load(MAGIKA_PATH)


def magika_array() -> np.ndarray:
    """An input of Magika: a file of one letter."""
    return np.full((1, 2048), ord("a"), np.int32)


def perceptron() -> onnx.ModelProto:
    """Six layers of 512, for any number of rows."""
    rng = np.random.default_rng(0)
    nodes = " ".join(f"m{i} = MatMul (r{i}, w{i}) r{i + 1} = Relu (m{i})" for i in range(6))
    model = parser.parse_model(f"{_HEADER} perceptron (float[n, 512] r0) => (float[n, 512] r6) {{ {nodes} }}")
    weights = ((rng.standard_normal((512, 512)) / 16).astype(np.float32) for _ in range(6))
    model.graph.initializer.extend(numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(weights))
    return model


def perceptron_array() -> np.ndarray:
    """An input of eight rows."""
    return np.random.default_rng(1).standard_normal((8, 512)).astype(np.float32)


def large(megabytes: int) -> onnx.ModelProto:
    """One weight of this size, whose rows are looked up."""
    model = parser.parse_model(f"{_HEADER} large (int64[1] x) => (float[1, 250] y) {{ y = Gather(weight, x) }}")
    weight = model.graph.initializer.add(name="weight", data_type=onnx.TensorProto.FLOAT)
    weight.dims.extend((megabytes * 1000, 250))
    weight.raw_data = bytes(megabytes * 1_000_000)
    return model
