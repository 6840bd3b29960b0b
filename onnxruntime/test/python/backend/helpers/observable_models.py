# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Small models on which a session or run config key shows, each as the bytes of an ONNX file."""

import os
import tempfile
from functools import cache

import numpy as np
from onnx import TensorProto, helper

import onnxruntime
from helpers.models import parsed


def model(graph: str, functions: str = "", **weights: np.ndarray) -> bytes:
    """Write a model from a graph and local functions in ONNX's text syntax, and initializers by name."""
    return parsed(f"{graph} {functions}", "com.microsoft", "local", **weights).SerializeToString()


def _random() -> np.random.Generator:
    return np.random.default_rng(0)


RELU = model("(float[4] x) => (float[4] y) { y = Relu(x) }")
SQUARE = model("(float[1] x) => (float[1] y) { y = Mul(x, x) }")
GELU = model("(float[4] x) => (float[4] y) { y = com.microsoft.Gelu(x) }")
CASTS = model("(float[4] x) => (float[4] y) { half = Cast<to=10>(x) back = Cast<to=1>(half) y = Relu(back) }")
_GELU = "(float[4] z) { z = com.microsoft.Gelu(x) }"
GELU_IN_BRANCH = model(
    f"(float[4] x, bool c) => (float[4] y) {{ y = If(c) <then_branch=a () => {_GELU}, else_branch=b () => {_GELU}> }}"
)
FOLDABLE = model(
    "(float[4] x) => (float[4] y) { zeros = ConstantOfShape(shape) y = Add(x, zeros) }", shape=np.array([4], np.int64)
)
FUNCTION = model(
    "(float[4] x) => (float[4] y) { y = local.grow(x) }",
    '<domain: "local", opset_import: ["": 21]> grow (a) => (b) { c = Exp(a) b = Add(c, a) }',
)
# The declared output shape contradicts the inferred one.
CONTRADICTORY = model("(float[4] x) => (float[3] y) { y = Relu(x) }")
TWO_QDQ_PAIRS = model(
    """(float[4] x) => (float[4] y) {
        a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)
        c = QuantizeLinear(b, t, z) y = DequantizeLinear(c, t, z)
    }""",
    s=np.float32(0.05),
    t=np.float32(0.07),
    z=np.uint8(128),
)
QDQ_BETWEEN = model(
    """(float[4] x) => (float[4] y) {
        a = Exp(x) b = QuantizeLinear(a, s, z) c = DequantizeLinear(b, s, z) y = Log(c)
    }""",
    s=np.float32(0.05),
    z=np.uint8(128),
)


@cache
def quantized_matmul(dtype: type = np.uint8) -> bytes:
    """A QDQ MatMul of (4, 16), with activations of a type and int8 weights."""
    return model(
        """(float[4, 16] x) => (float[4, 16] y) {
            xq = QuantizeLinear(x, s, z) xd = DequantizeLinear(xq, s, z) wd = DequantizeLinear(w, s, wz)
            m = MatMul(xd, wd) mq = QuantizeLinear(m, s, z) y = DequantizeLinear(mq, s, z)
        }""",
        s=np.float32(0.05),
        z=dtype(128 if dtype is np.uint8 else 0),
        wz=np.int8(0),
        w=_random().integers(-100, 100, (16, 16), np.int8),
    )


@cache
def dequantized_matmul(block: int = 0) -> bytes:
    """A MatMul of (4, 128) whose int4 weights are dequantized, which ORT turns into MatMulNBits.

    :param block: the number of weights that share a scale; 0 for one scale for all.
    """
    random = _random()
    shape = (128 // block, 128) if block else ()
    attributes = f"<axis=0, block_size={block}>" if block else ""
    made = parsed(
        f"(float[4, 128] x) => (float[4, 128] y) {{ wd = DequantizeLinear{attributes}(w, s, z) y = MatMul(x, wd) }}",
        s=np.asarray(random.random(shape) * 0.1, np.float32),
    )
    # numpy and onnx before 1.19 do not have arrays of int4.
    for name, values in (("w", random.integers(-8, 8, (128, 128))), ("z", np.zeros(shape, int))):
        made.graph.initializer.append(helper.make_tensor(name, TensorProto.INT4, values.shape, values.flatten()))
    return made.SerializeToString()


@cache
def matmul_nbits(bits: int) -> bytes:
    """A MatMulNBits of (4, 128) with blocks of 32."""
    random = _random()
    return model(
        f"""(float[4, 128] x) => (float[4, 128] y) {{
            y = com.microsoft.MatMulNBits<K=128, N=128, bits={bits}, block_size=32, accuracy_level=4>(x, w, s)
        }}""",
        w=random.integers(0, 256, (128, 4, 4 * bits), np.uint8),
        s=random.random((128, 4), np.float32),
    )


@cache
def matmul(branches: int = 1) -> bytes:
    """Matmuls of (64, 512) that do not depend on each other, added up."""
    random = _random()
    names = [f"w{index}" for index in range(branches)]
    products = " ".join(f"p{name} = MatMul(x, {name})" for name in names)
    total = ", ".join(f"p{name}" for name in names)
    return model(
        f"(float[64, 512] x) => (float[64, 512] y) {{ {products} y = Sum({total}) }}",
        **{name: random.standard_normal((512, 512), np.float32) for name in names},
    )


@cache
def in_ort_format(onnx_model: bytes) -> bytes:
    """The same model in ORT's own format, written by ORT."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = os.path.join(folder, "model.ort")
        onnxruntime.InferenceSession(onnx_model, options, providers=["CPUExecutionProvider"])
        with open(options.optimized_model_filepath, "rb") as file:
            return file.read()
