# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Lists the operators that WebGPU's graph capture replays, the checked releases, and the random operators of all EPs.

A capture on the WebGPU EP records the programs that kernels dispatch. It omits copies and clears of buffers, so that a
copied value stays the value of the run that captured. An operator is permitted if its kernel only dispatches programs,
in all variants that ``backend_captured_operators.py``, next to the tests, runs. The variants are of several shapes (one
element, dimensions of 1, for some operators no elements), attributes and types. Each variant runs alone and between
other nodes, with and without ORT's optimizers. The program replays it on other data and compares bits with runs without
capture. The conditions below exclude the branches of the EP's sources that copy
(``onnxruntime/core/providers/webgpu``, ``onnxruntime/contrib_ops/webgpu``).

On a tensor without elements, runs without capture differ, too: Softmax over an empty axis terminates the process with
SIGFPE (``docs/ort-defects.md``).

Not permitted, because their kernels copy or clear: ScatterND, ScatterElements, LSTM, GRU. Not permitted, because too
few variants are known: operators of decoders and of quantized weights, whose kernels differ from GPU to GPU. Nor is
DequantizeLinear: even runs without capture can leave its output unwritten.
"""

from __future__ import annotations

from typing import NamedTuple

from onnx import TensorProto


class Dispatches(NamedTuple):
    """Conditions for a kernel to dispatch and not to copy; the defaults are none."""

    inputs: int = 1
    """The fewest inputs."""
    outputs: int | None = None
    """The most outputs."""
    axes: bool = False
    """It specifies its axes: an attribute, or an input that is a constant."""
    perm: bool = False
    """It has a ``perm`` of two dimensions or more."""
    inside: bool = False
    """None of its outputs is an output of the graph: only then its input and output share a buffer."""


_ALWAYS = Dispatches()
_AXES = Dispatches(axes=True)
_INSIDE = Dispatches(inside=True)

NHWC = "com.ms.internal.nhwc"
MICROSOFT = "com.microsoft"

# The releases of ORT and of the plugin whose kernels and optimizers the table describes.
RELEASES = frozenset({("1.31.1", "0.4.0")})

# The types of inputs, of constants and of Cast's outputs. Not float16, which no software GPU computes.
TYPES = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.INT32,
        TensorProto.UINT32,
        TensorProto.INT64,
        TensorProto.BOOL,
    }
)


def _each(names: str, rule: Dispatches, domain: str = "") -> dict[tuple[str, str], Dispatches]:
    return {(domain, name): rule for name in names.split()}


OPERATORS: dict[tuple[str, str], Dispatches] = {
    # One program for each output element.
    **_each("Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid", _ALWAYS),
    **_each("HardSwish LeakyRelu Log Neg Not Reciprocal Relu Sigmoid Sin Sinh Softplus Sqrt Tan Tanh", _ALWAYS),
    **_each("ThresholdedRelu", _ALWAYS),
    **_each("Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Mul PRelu Pow Sub Where", _ALWAYS),
    # With one input they are a copy.
    **_each("Max Min", Dispatches(inputs=2)),
    # They move data by programs, even if a copy is enough (Concat of one input, Slice of all, Pad by nothing).
    **_each("Concat CumSum Expand Gather GatherElements GatherND Pad Resize Slice Split Tile TopK Trilu", _ALWAYS),
    # With one dimension it is a copy.
    **_each("Transpose", Dispatches(perm=True)),
    # They share the buffer of their input, except if the output is an output of the graph, which is a copy.
    **_each("Flatten Identity Reshape Squeeze Unsqueeze", _INSIDE),
    # Without axes, or for scalars, they are a copy.
    **_each("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd", _AXES),
    **_each("ReduceSum ReduceSumSquare", _AXES),
    **_each("ArgMax ArgMin DFT Einsum Gemm MatMul Softmax", _ALWAYS),
    **_each("InstanceNormalization LayerNormalization LpNormalization RMSNormalization", _ALWAYS),
    **_each("SimplifiedLayerNormalization RotaryEmbedding", _ALWAYS),
    # Convolutions and related operators, in the layout that the EP prefers.
    **_each("AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool", _ALWAYS, NHWC),
    **_each("GlobalMaxPool MaxPool", _ALWAYS, NHWC),
    # Operators that ORT's fusions and exporters write.
    **_each("BiasGelu FastGelu Gelu QuickGelu RotaryEmbedding", _ALWAYS, MICROSOFT),
    **_each("Attention SkipLayerNormalization SkipSimplifiedLayerNormalization", _ALWAYS, MICROSOFT),
    # Its fourth output is a copy.
    **_each("MultiHeadAttention", Dispatches(outputs=3), MICROSOFT),
    # Its output follows from the shapes, and each graph has one set of shapes.
    **_each("Shape", _ALWAYS),
}

# The operators that draw random numbers. A replay repeats the numbers of the run that captured.
RANDOM = frozenset(
    {
        *(("", name) for name in ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")),
        *(("", name) for name in ("Bernoulli", "Multinomial")),
        (MICROSOFT, "Sampling"),
    }
)
# Operators that draw random numbers in training mode only, and the position of the input that switches it on.
DROPOUTS = {("", "Dropout"): 2, (MICROSOFT, "BitmaskDropout"): 2} | {
    (MICROSOFT, name): 4 for name in ("BiasDropout", "BitmaskBiasDropout")
}
