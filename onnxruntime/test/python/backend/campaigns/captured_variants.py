# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Variants of captured operators: small models of one operator, with many shapes and attributes.

Of TopK, Einsum, Resize and DFT, those of ONNX (:func:`node_tests`) are enough.

``campaigns/captured_operators.py`` captures them on the WebGPU EP.
"""

import itertools
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from helpers.models import model
from onnx import ModelProto, TensorProto, helper

from onnxruntime.backend.capture.operators import MICROSOFT


class Variant(NamedTuple):
    """A model of one operator, or a few, and its inputs."""

    operator: str
    name: str
    model: ModelProto
    feeds: dict[str, np.ndarray]


class Variants:
    """Models of one operator, with many shapes and attributes."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self.all: list[Variant] = []

    def floats(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self._rng.standard_normal(shape), np.float32)

    def add(
        self, operator: str, shapes: tuple, *constants, outputs: int = 1, kinds=(), domain="", opset=21, **attributes
    ):
        """Add a model of one node.

        :param shapes: shape of each float input, or an array for another type; ``None`` for an omitted input.
        :param constants: an array for each further input.
        :param kinds: element types of the outputs, if not float.
        """
        feeds: dict[str, np.ndarray] = {}
        fixed: dict[str, np.ndarray] = {}
        inputs = []
        shown = []
        for i, given in enumerate(shapes + constants):
            if given is None:
                inputs.append("")
                continue
            name = f"A{i}"
            inputs.append(name)
            array = np.asarray(given)
            if isinstance(given, tuple):
                array = self.floats(given)
            if i < len(shapes):
                feeds[name] = array
                shown.append(str(array.shape))
            else:
                fixed[name] = array
                if array.size < 9:
                    shown.append(str(array.tolist()))
        names = [f"Y{i}" for i in range(outputs)]
        node = helper.make_node(operator, inputs, names, domain=domain, **attributes)
        made = model(
            [node],
            {name: array.shape for name, array in feeds.items()},
            dict.fromkeys(names),
            fixed,
            opset=opset,
            extra_domains=[MICROSOFT],
        )
        for value, array in zip(made.graph.input, feeds.values(), strict=True):
            value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        for value, kind in zip(made.graph.output, kinds, strict=False):
            value.type.tensor_type.elem_type = kind
        shown.append(str(attributes))
        self.all.append(Variant(operator, " ".join(shown), made, feeds))

    def microsoft(self, operator: str, shapes: tuple, *constants, **attributes) -> None:
        """Add a model of one node of Microsoft's domain."""
        self.add(operator, shapes, *constants, domain=MICROSOFT, **attributes)

    def each(self, operator: str, text: str, **attributes) -> None:
        """Add a model for each row of shapes."""
        for shapes in rows(text):
            self.add(operator, shapes, **attributes)

    def with_integers(self, operator: str, text: str, **attributes) -> None:
        """Add a model for each row of a shape and a constant, such as axes or a shape."""
        for shape, integers in rows(text):
            self.add(operator, (shape,), _ints(integers), **attributes)

    def with_weights(self, operator: str, text: str, **attributes) -> None:
        """Add two models for each row of two shapes: the second one is a constant, or an input."""
        for shape, weights in rows(text):
            self.add(operator, (shape,), self.floats(weights), **attributes)
            self.add(operator, (shape, weights), **attributes)


def sizes_of(text: str) -> tuple[int, ...]:
    """Return the shape of a text such as ``3x4``; ``-`` is a scalar."""
    if text == "-":
        return ()
    return tuple(map(int, text.split("x")))


def rows(text: str) -> list[tuple[tuple[int, ...], ...]]:
    """Return rows of shapes: a comma ends a row."""
    return [tuple(map(sizes_of, row.split())) for row in text.split(",")]


_SHAPES = [shape for (shape,) in rows("6, 3x4, 1, -, 1x3x1x4, 2x3x4x4, 0x4, 5x7, 3x700")]
_PAIRS = rows(
    "3x4 3x4, 3x4 4, 4 3x4, 1 3x4, 3x1 1x4, 2x3x4 2x1x4, 2x3x4x4 3x1x1, 3x4 -, 1 1, 0x4 4, 3x500 1x500, 1x1x4 1x4"
)
_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Neg "
    "Reciprocal Relu Sigmoid Sin Sinh Softplus Sqrt Tan Tanh ThresholdedRelu Clip Identity"
)
_I64, _BOOL = TensorProto.INT64, TensorProto.BOOL


def _ints(*values) -> np.ndarray:
    """Return an array of integers, or of those of one sequence."""
    if values and isinstance(values[0], tuple):
        (values,) = values
    return np.array(values, np.int64)


def _elementwise(v: Variants) -> None:
    for operator, shape in itertools.product(_UNARY.split(), _SHAPES):
        v.add(operator, (shape,))
    for shape in _SHAPES:
        v.add("Not", (v.floats(shape) > 0,), kinds=(_BOOL,))
    v.add("Clip", ((3, 4),), np.float32(-1))
    v.add("Clip", ((3, 4),), np.float32(-1), np.float32(1))
    for operator, (a, b) in itertools.product(["Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min"], _PAIRS):
        v.add(operator, (a, b))
        v.add(operator, (a,), np.ones(b, np.float32))
        v.add(operator, (a,), np.zeros(b, np.float32))
    for operator, (a, b) in itertools.product(["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"], _PAIRS):
        v.add(operator, (np.round(v.floats(a)), np.round(v.floats(b))), kinds=(_BOOL,))
    for a, b in _PAIRS:
        v.add("And", (v.floats(a) > 0, v.floats(b) > 0), kinds=(_BOOL,))
        v.add("Where", (v.floats(a) > 0, a, b))
    for operator, count in itertools.product(("Max", "Min"), (1, 3, 5, 9)):
        v.add(operator, ((3, 4),) * count)
        v.add(operator, ((),) * count)
    types = {np.float32: 1, np.int32: 6, np.uint32: 12, np.int64: _I64, np.bool_: _BOOL}
    for source, kind, (shape,) in itertools.product(types, types.values(), rows("3x4, 1, -, 0x4")):
        v.add("Cast", (np.asarray(v.floats(shape) * 3, source),), kinds=(kind,), to=kind)


def _reshaping(v: Variants) -> None:
    for opset in (13, 21):
        v.with_integers("Reshape", "3x4 -1, 3x4 3x4, 3x4 1x3x4, 1 1x1, 0x4 0x2x2, 1 -", opset=opset)
    for axis in (0, 1, 2):
        v.each("Flatten", "2x3, 2x1x4", axis=axis)
    v.with_integers("Squeeze", "1x3x1 0, 1x3x1 0x2, 1x1 0x1")
    v.with_integers("Unsqueeze", "3x4 0x2, - 0, 1 0")
    v.with_integers("Expand", "3x1 3x4, 3x4 3x4, 3x4 1x3x4, 1 1, - 4, 1x8 4x8")
    v.with_integers("Tile", "3x4 2x1, 3x4 1x1, 1 1, 1 5, 1x2x3 2x2x2")
    for perm in ((1, 0), (0, 1)):
        v.each("Transpose", "3x4, 1x4, 4x1, 1x1, 0x4, 64x48", perm=perm)
    for perm in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 2, 3), (3, 2, 1, 0)):
        v.each("Transpose", "2x3x4x5, 2x1x4x5, 2x3x1x1, 1x1x1x1, 130x5x3x3", perm=perm)
    v.add("Transpose", ((5,),), perm=(0,))
    v.add("Transpose", ((5,),))
    for mode in ("DCR", "CRD"):
        v.each("DepthToSpace", "1x4x2x3", blocksize=1, mode=mode)
        v.each("DepthToSpace", "1x4x2x3, 1x8x1x1", blocksize=2, mode=mode)


def _parts(v: Variants) -> None:
    for a, b, (axis,) in rows("3x4 2x4 0, 3x4 3x2 1, 3x4 0x4 0, 0x4 3x4 0, 1x3 1x3 0"):
        v.add("Concat", (a, b), axis=axis)
    for count in (1, 3, 9, 20):
        v.add("Concat", ((2, 4),) * count, axis=-1)
    for count in (1, 2, 5):
        v.add("Split", ((5, 4),), axis=0, outputs=count, num_outputs=count)
        v.add("Split", ((1, 5),), axis=1, outputs=count, num_outputs=count)
    v.add("Split", ((3, 5),), _ints(2, 3), axis=1, outputs=2)
    v.add("Split", ((3, 4),), _ints(0, 4), axis=1, outputs=2)
    starts = "3x4 0 99 1 1, 3x4 1 3 1 1, 4x3 1 3 0 1, 3x4 -1 -99 1 -1, 3x8 0 8 1 2, 3x4 2 2 1 1, 1 0 1 0 1"
    for shape, *places in rows(starts):
        v.add("Slice", (shape,), *map(_ints, places))
    for mode in ("constant", "reflect", "edge"):
        v.with_integers("Pad", "3x4 1x0x0x2, 3x4 0x0x0x0, 1 0x0, 1x2x3x4 0x0x0x0x0x0x0x0", mode=mode)
    v.with_integers("Pad", "0x4 1x0x1x0")


def _indexing(v: Variants) -> None:
    for axis, indices in ((0, [0, 1, 2]), (1, [0, 1, 2, 3]), (0, 1), (0, [2, 0]), (0, [])):
        v.add("Gather", ((3, 4),), np.array(indices, np.int64), axis=axis)
    v.add("Gather", ((5, 4), np.array([[2, 0], [1, 4]])))
    v.add("Gather", ((1,),), _ints(0))
    v.add("GatherElements", ((3, 4), np.array([[3, 2, 1, 0]] * 3)), axis=1)
    v.add("GatherElements", ((3, 4),), np.tile(np.arange(4), (3, 1)), axis=1)
    v.add("GatherElements", ((1,),), _ints(0))
    v.add("GatherND", ((3, 4),), np.array([[0], [1], [2]]))
    v.add("GatherND", ((3, 4), np.array([[0, 1], [2, 3]])))
    v.add("GatherND", ((1,),), np.array([[0]]))
    for upper, shape in itertools.product((0, 1), ((3, 4), (1, 1), (2, 4, 4))):
        v.add("Trilu", (shape,), upper=upper)
        v.add("Trilu", (shape,), np.array(5), upper=upper)
        v.add("Trilu", (shape,), np.array(-5), upper=upper)
    for shape, (axis,) in rows("3x4 0, 3x4 1, 1 0, 3x1 1"):
        v.add("CumSum", (shape,), np.array(axis))
        v.add("CumSum", (shape,), np.array(axis), exclusive=1, reverse=1)
    indices = np.array([[0], [2]])
    v.add("ScatterND", ((3, 4), indices, (2, 4)))
    v.add("ScatterND", ((3, 4),), indices, np.zeros((2, 4), np.float32))
    v.add("ScatterElements", ((3, 4), np.array([[0, 1]]), (1, 2)), axis=1)


def _reducing(v: Variants) -> None:
    reductions = "3x4 1, 3x4 0, 3x4 0x1, 3x1 1, 1x3x1x4 0x2, 1 0, 2x3000 1, 2x3x4 -2, 3x0 1"
    for name in ("Max", "Min", "Mean", "Sum", "Prod", "L1", "L2", "LogSum", "SumSquare", "LogSumExp"):
        operator = f"Reduce{name}"
        for keep in (0, 1):
            v.with_integers(operator, reductions, keepdims=keep)
            v.with_integers(operator, reductions, keepdims=keep, noop_with_empty_axes=1)
        for shape, axes in rows(reductions):
            v.add(operator, (shape,), opset=11, axes=axes)
        for empty in (0, 1):
            v.each(operator, "3x4, -", noop_with_empty_axes=empty)
            v.add(operator, ((3, 4),), _ints(), noop_with_empty_axes=empty)
    for operator, axis in itertools.product(("ArgMax", "ArgMin"), (0, 1)):
        shapes = "3x40, 3x1, 1x1, 2x3x4"
        v.each(operator, shapes, axis=axis, kinds=(_I64,))
        v.each(operator, shapes, axis=axis, kinds=(_I64,), keepdims=0, select_last_index=1)


def _normalizing(v: Variants) -> None:
    for shape, (axis,) in rows("2x3x4 0, 2x3x4 1, 2x3x4 -1, 3x1 1, 1x3 0, 0x4 1, 2x2000 1"):
        v.add("Softmax", (shape,), axis=axis)
        v.add("Softmax", (shape,), axis=axis, opset=11)
        v.add("LpNormalization", (shape,), axis=axis, p=2)
    for (shape,) in rows("2x3x8, 1x1, 3x1, 2x3x5"):
        last = shape[-1:]
        v.add("LayerNormalization", (shape, last, last))
        v.add("LayerNormalization", (shape,), v.floats(last))
        v.add("LayerNormalization", (shape, last, last), outputs=3)
        v.add("RMSNormalization", (shape, last), opset=23)
        v.add("SimplifiedLayerNormalization", (shape, last), opset=17)
    for operator, behind in (("SkipLayerNormalization", 2), ("SkipSimplifiedLayerNormalization", 1)):
        for skip, bias in itertools.product(((2, 3, 8), (1, 3, 8)), (0, 1)):
            vectors = ((8,),) * (behind + bias)
            v.microsoft(operator, ((2, 3, 8), skip, *vectors))
    for (shape,) in rows("2x3x4, 1x3x5x5, 2x3x1x1, 1x1x1x1"):
        channels = shape[1:2]
        v.add("InstanceNormalization", (shape, channels, channels))
        v.add("InstanceNormalization", (shape,), v.floats(channels), v.floats(channels))
        scale, bias, mean, variance = (v.floats(channels) for _ in range(4))
        v.add("BatchNormalization", (shape,), scale, bias, mean, np.abs(variance) + 1)


def _products(v: Variants) -> None:
    matrices = "3x4 4x5, 1x1 1x1, 1x4 4x1, 0x4 4x5, 32x64 64x32, 1x4096 4096x8, 8x8192 8192x8"
    v.with_weights("MatMul", f"{matrices}, 2x3x4 2x4x5, 2x3x4 4x5, 4 4x5, 3x4 4, 2x1x3x4 3x4x8")
    for a, b in rows(matrices):
        v.add("Gemm", (a, b, b[1:]))
        v.add("Gemm", (a,), v.floats(b), v.floats(b[1:]))
        v.add("Gemm", (a[::-1], b[::-1]), transA=1, transB=1, alpha=0.5)
        v.add("Gemm", (a, b, b[1:]), beta=0.0)


def _windows(v: Variants) -> None:
    for text, attributes in (
        ("1x3x8x8 4x3x3x3, 1x3x8x8 4x3x1x1, 1x1x1x1 1x1x1x1, 1x3x8x8 4x3x8x8, 1x3x9 4x3x3", {}),
        ("2x4x6x6 4x1x3x3", {"group": 4}),
        ("2x4x6x6 8x2x3x3", {"group": 2}),
        ("1x3x8x8 4x3x3x3", {"pads": [1, 1, 1, 1], "strides": [2, 2], "dilations": [2, 2]}),
        ("1x512x3x3 16x512x3x3", {"pads": [1, 1, 1, 1]}),
    ):
        for shape, weights in rows(text):
            v.add("Conv", (shape,), v.floats(weights), **attributes)
            v.add("Conv", (shape, weights, weights[:1]), **attributes)
    v.with_weights("ConvTranspose", "1x3x4x4 3x4x3x3, 1x3x4x4 3x4x1x1")
    v.with_weights("ConvTranspose", "1x4x4x4 4x1x2x2", group=4, strides=[2, 2])
    images = "1x3x5x5, 2x4x4x4, 1x1x1x1"
    for operator, kernel in itertools.product(("MaxPool", "AveragePool"), (1, 2, 3)):
        square = {"kernel_shape": [kernel, kernel], "auto_pad": "SAME_UPPER"}
        v.each(operator, images, **square)
        v.each(operator, images, strides=[2, 2], **square)
    for operator in ("GlobalAveragePool", "GlobalMaxPool"):
        v.each(operator, images)


def _attention(v: Variants) -> None:
    for operator, shape in itertools.product(("FastGelu", "Gelu", "QuickGelu"), ((3, 8), (1,), (2, 3, 4))):
        v.microsoft(operator, (shape,))
    for shape in ((2, 3, 8), (1, 1, 1)):
        v.microsoft("BiasGelu", (shape, shape[-1:]))
        v.microsoft("FastGelu", (shape, shape[-1:]))
    for length in (1, 4, 40):
        q, kv = (1, length, 16), (1, 6, 16)
        for outputs in (1, 3):
            v.microsoft("MultiHeadAttention", (q, kv, kv), num_heads=2, outputs=outputs)
        v.microsoft("MultiHeadAttention", (q, kv, kv, (48,)), num_heads=2)
        bias = (1, 2, length, 6)
        v.microsoft("MultiHeadAttention", (q, kv, kv, None, None, bias), num_heads=2)
        v.microsoft("MultiHeadAttention", (q, kv, kv), num_heads=2, outputs=4)
        v.microsoft("Attention", (q, (16, 48), (48,)), num_heads=2)
        v.microsoft("Attention", (q,), v.floats((16, 48)), v.floats((48,)), num_heads=2)
    cos, sin, places = v.floats((16, 4)), v.floats((16, 4)), np.arange(6).reshape(1, 6)
    v.microsoft("RotaryEmbedding", ((1, 6, 16), places), cos, sin, num_heads=2)
    v.microsoft("RotaryEmbedding", ((1, 2, 6, 8), places), cos, sin)
    v.microsoft("RotaryEmbedding", ((1, 2, 6, 8), places), cos, sin, interleaved=1)
    v.microsoft("RotaryEmbedding", ((1, 2, 6, 8), _ints(0)), cos, sin)
    v.add("RotaryEmbedding", ((1, 2, 6, 8),), cos, sin, places, opset=23)
    for operator, gates, outputs in (("LSTM", 4, 3), ("GRU", 3, 2)):
        of_input = v.floats((1, gates * 5, 4))
        of_state = v.floats((1, gates * 5, 5))
        for steps in (2, 4):
            v.add(operator, ((steps, 2, 4),), of_input, of_state, outputs=outputs, hidden_size=5)


def variants() -> list[Variant]:
    v = Variants()
    parts = (_elementwise, _reshaping, _parts, _indexing, _reducing, _normalizing, _products, _windows, _attention)
    for part in parts:
        part(v)
    return v.all


def on_software_cuda() -> list[Variant]:
    """Return the variants of operators that the software CUDA has, and with which the CUDA EP is like the CPU EP."""
    otherwise = (
        "Attention AveragePool Einsum GRU Gelu Gemm InstanceNormalization LSTM MaxPool MultiHeadAttention Resize "
        "RotaryEmbedding TopK"
    )
    found = []
    for variant in variants():
        if variant.operator not in otherwise.split() and not variant.operator.startswith("Reduce"):
            found.append(variant)
    return found


def node_tests() -> Iterator[Variant]:
    """Yield ONNX's node tests that have one node and numeric inputs."""
    from onnx.backend.test import loader  # noqa: PLC0415

    with warnings.catch_warnings(action="ignore"):
        tests = loader.load_model_tests(kind="node")
    for test in tests:
        expanded = test.name.endswith("_expanded")
        if test.model is None or expanded or not test.data_sets or len(test.model.graph.node) != 1:
            continue
        inputs = test.model.graph.input
        values = test.data_sets[0][0]
        if len(values) == len(inputs) and all(map(_is_numeric, values)):
            operator = test.model.graph.node[0].op_type
            feeds = {node.name: value for node, value in zip(inputs, values, strict=True)}
            yield Variant(operator, test.name, test.model, feeds)


def _is_numeric(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
