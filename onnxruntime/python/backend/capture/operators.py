# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The operators that WebGPU's graph capture replays, and of which releases that was shown.

A capture on the WebGPU EP records the programs that kernels dispatch. It leaves out copies and clears of buffers, so
that what a kernel copies keeps the value of the run that captured. An operator is permitted when its kernel was shown
to dispatch, and to do nothing else, in all variants that were tried: of several shapes (empty, of one element, of
dimensions of 1), attributes and types, alone and between other nodes, with and without ORT's optimizers, each replayed
on other data and compared bit by bit with ordinary runs. ``backend_captured_operators.py`` beside the tests repeats
that. The EP's sources (``onnxruntime/core/providers/webgpu``, ``onnxruntime/contrib_ops/webgpu``) were read for the
branches that copy, which are what the conditions below exclude.

Not here, because they copy or clear: ScatterND and ScatterElements, LSTM and GRU. Not here, because too little was seen
of them: operators that ran in one variant, and those of decoders and of quantized weights, whose kernels differ from
GPU to GPU. Nor is DequantizeLinear, of which even ordinary runs can leave an output unwritten.
"""

from __future__ import annotations

from typing import NamedTuple

from onnx import TensorProto


class Dispatches(NamedTuple):
    """What a node must be for its kernel to dispatch and not to copy; the defaults ask for nothing."""

    inputs: int = 1
    """The fewest inputs."""
    outputs: int | None = None
    """The most outputs."""
    axes: bool = False
    """It names its axes: an attribute, or an input that is a constant."""
    perm: bool = False
    """It has a ``perm`` of two dimensions or more."""
    inside: bool = False
    """None of its outputs is one of the graph's: only then ORT gives it one buffer for input and output."""


_ALWAYS = Dispatches()
_AXES = Dispatches(axes=True)
_INSIDE = Dispatches(inside=True)

NHWC = "com.ms.internal.nhwc"
MICROSOFT = "com.microsoft"

# ORT's release and the plugin's, whose kernels and optimizers this was shown of.
RELEASES = frozenset({("1.31.1", "0.4.0")})

# The types of inputs, of constants and of what Cast makes. No software GPU computes float16, so that none was seen.
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
    # Of one input they are a copy.
    **_each("Max Min", Dispatches(inputs=2)),
    # They move data by programs, even where a copy would do (Concat of one input, Slice of all, Pad by nothing).
    **_each("Concat CumSum Expand Gather GatherElements GatherND Pad Resize Slice Split Tile TopK Trilu", _ALWAYS),
    # Of one dimension it is a copy.
    **_each("Transpose", Dispatches(perm=True)),
    # They share the buffer of their input, except where the output is one of the graph's: that is a copy.
    **_each("Flatten Identity Reshape Squeeze Unsqueeze", _INSIDE),
    # Without axes they are a copy, or are one for scalars.
    **_each("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd", _AXES),
    **_each("ReduceSum ReduceSumSquare", _AXES),
    **_each("ArgMax ArgMin DFT Einsum Gemm MatMul Softmax", _ALWAYS),
    **_each("InstanceNormalization LayerNormalization LpNormalization RMSNormalization", _ALWAYS),
    **_each("SimplifiedLayerNormalization RotaryEmbedding", _ALWAYS),
    # Convolutions and what surrounds them, in the layout that the EP prefers.
    **_each("AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool", _ALWAYS, NHWC),
    **_each("GlobalMaxPool MaxPool", _ALWAYS, NHWC),
    # What ORT fuses, and what exporters write.
    **_each("BiasGelu FastGelu Gelu QuickGelu RotaryEmbedding", _ALWAYS, MICROSOFT),
    **_each("Attention SkipLayerNormalization SkipSimplifiedLayerNormalization", _ALWAYS, MICROSOFT),
    # Its fourth output is a copy.
    **_each("MultiHeadAttention", Dispatches(outputs=3), MICROSOFT),
    # Computed from shapes, which the graphs of a session are kept by.
    **_each("Shape", _ALWAYS),
}
