# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Lists the operators that WebGPU's graph capture replays, the checked releases, and the random operators of all EPs.

A capture on the WebGPU EP records the programs that kernels dispatch. It omits copies and clears of buffers, so that a
copied value stays the value of the run that captured. An operator is permitted if its kernel only dispatches programs.
Next to the tests, ``campaigns/captured_operators.py`` runs its variants of shapes, attributes, types, and neighbors.
The conditions below exclude the branches of the EP's sources that copy (``onnxruntime/core/providers/webgpu``,
``onnxruntime/contrib_ops/webgpu``).

Not permitted, because their kernels copy or clear: ScatterND, ScatterElements, LSTM, GRU. Operators of decoders and of
quantized weights are not permitted, because their kernels differ from GPU to GPU. Nor is DequantizeLinear: even runs
without capture can leave its output unwritten. On tensors without elements, runs without capture fail, too
(``tools/ort_defects/README.md``).
"""

from enum import Enum

from onnx import TensorProto

from onnxruntime.backend.applied.nodes import NHWC

MICROSOFT = "com.microsoft"

# The releases of ORT and of the plugin whose kernels and optimizers the table describes.
RELEASES = frozenset({("1.31.1", "0.4.0"), ("1.32.0", "0.4.0")})

# The types of inputs, of constants and of Cast's outputs. Not float16, which no software GPU computes.
TYPES = frozenset({TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64, TensorProto.BOOL})


class Condition(Enum):
    """A condition for a kernel to dispatch and not to copy: the message about a node that does not meet it."""

    ALWAYS = ""
    TWO_INPUTS = "copies its input, because it has no other"
    THREE_OUTPUTS = "has more than 3 outputs, and the fourth is a copy"
    AXES = "specifies no axes by an attribute or a constant, which may be a copy"
    TWO_DIMENSIONS = "may be of one dimension, because it has no perm of two or more, which is a copy"
    # Only then, the input and the output share a buffer.
    INSIDE = "makes an output of the model, which is a copy"


ALWAYS, TWO_INPUTS, THREE_OUTPUTS, AXES, TWO_DIMENSIONS, INSIDE = Condition

_TABLE = (
    # One program for each output element.
    (
        ALWAYS,
        "",
        """
        Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid
        HardSwish LeakyRelu Log Neg Not Reciprocal Relu Sigmoid Sin Sinh Softplus Sqrt Tan Tanh
        ThresholdedRelu Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Mul PRelu Pow Sub Where
        """,
    ),
    (TWO_INPUTS, "", "Max Min"),
    # They move data by programs, even if a copy is enough (Concat of one input, Slice of all, Pad by nothing).
    (ALWAYS, "", "Concat CumSum Expand Gather GatherElements GatherND Pad Resize Slice Split Tile TopK Trilu"),
    (TWO_DIMENSIONS, "", "Transpose"),
    (INSIDE, "", "Flatten Identity Reshape Squeeze Unsqueeze"),
    # Without axes, or for scalars, they are a copy.
    (
        AXES,
        "",
        """
        ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
        ReduceSumSquare
        """,
    ),
    (
        ALWAYS,
        "",
        """
        ArgMax ArgMin DFT Einsum Gemm InstanceNormalization LayerNormalization LpNormalization MatMul
        RMSNormalization RotaryEmbedding SimplifiedLayerNormalization Softmax
        """,
    ),
    # Its output follows from the shapes, and each graph has one set of shapes.
    (ALWAYS, "", "Shape"),
    # Convolutions and related operators, in the layout that the EP prefers.
    (
        ALWAYS,
        NHWC,
        """
        AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool
        MaxPool
        """,
    ),
    # Operators that ORT's fusions and exporters write.
    (
        ALWAYS,
        MICROSOFT,
        """
        Attention BiasGelu FastGelu Gelu QuickGelu RotaryEmbedding SkipLayerNormalization
        SkipSimplifiedLayerNormalization
        """,
    ),
    (THREE_OUTPUTS, MICROSOFT, "MultiHeadAttention"),
)
OPERATORS = {(domain, name): condition for condition, domain, names in _TABLE for name in names.split()}

# The operators that draw random numbers on every EP. A replay repeats the numbers of the run that captured.
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Sampling"}
)
