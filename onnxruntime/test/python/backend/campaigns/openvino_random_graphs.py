# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Random small graphs of nodes that copy, alias, or fold, for ``campaigns/openvino_graphs.py``."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import NamedTuple

import numpy as np
from helpers.models import parsed
from onnx import ModelProto, TensorProto, helper

FLOATS = ["float", "double", "float16"]
NUMBERS = [*FLOATS, "int32", "int64"]
TYPES = [*NUMBERS, "bool", "int8", "uint8", "int16", "uint16", "uint32"]
_LARGEST = {"bool": 1, "float16": 50, "int8": 50, "uint8": 50}  # of random values, 1000 by default

# Nodes in the syntax of onnx's parser. X and Z are values of the type T and the shape S, and so is Y, the new one. K is
# the number of another type, N that of T, and @ a new number. Names of constants and further inputs are below.
_ANY = """
Y = Identity(X) | Y = Cast<to=N>(X) | Y = CastLike(X, Z) | c@ = CastLike(X, x1) Y = CastLike(c@, Z)
c@ = Cast<to=K>(X) Y = Cast<to=N>(c@) | c@ = Cast<to=N>(X) d@ = Identity(c@) Y = Cast<to=N>(d@)
Y = Reshape(X, zeros) | s@ = Shape(X) Y = Reshape(X, s@) | Y = Reshape(X, given_zeros)
f@ = Reshape(X, minus) s@ = Shape(X) Y = Reshape(f@, s@) | u@ = Unsqueeze(X, zero) Y = Squeeze(u@, zero)
Y = Slice(X, zero, most, zero) | Y = Slice(X, zero, given_most, zero) | Y = Concat<axis=0>(X)
Y = Expand(X, ones) | Y = Expand(X, given_ones) | s@ = Shape(X) Y = Expand(X, s@) | Y = Tile(X, ones)
Y = Transpose(X) | Y = Transpose(X) t@ = Transpose(Y) | t@ = Transpose(X) Y = Transpose(t@)
Y = Where(yes, X, Z) | Y = Where(given_b, X, Z) | c@ = Concat<axis=0>(X, Z) Y = Slice(c@, zero, one, zero)
n@ = Size(X) Y = Identity(X) | n@ = NonZero(X) Y = Identity(X)
Y = If(given_b) <then_branch = t@ () => (T[S] a@) { a@ = COPY(X) }, else_branch = e@ () => (T[S] b@) { b@ = COPY(Z) }>
Y = If(yes) <then_branch = t@ () => (T[S] a@) { a@ = COPY(X) }, else_branch = e@ () => (T[S] b@) { b@ = COPY(Z) }>
Y = Loop(two, , X) <body = l@ (int64 i@, bool c@, T[S] h@) => (bool d@, T[S] k@) { d@ = COPY(c@) k@ = COPY(h@) }>
""".replace("COPY", "Identity")
_NUMBERS = """
Y = Add(X, nought) | Y = Sub(X, nought) | Y = Mul(X, unit) | Y = Div(X, unit) | Y = Max(X) | Y = Min(X) | Y = Max(X, Z)
Y = Neg(X) | n@ = Neg(X) Y = Neg(n@) | Y = Abs(X) | a@ = Abs(X) Y = Identity(X) | Y = Clip(X) | Y = Clip(X, low, high)
Y = Add(X, Z) | g@ = Greater(X, Z) Y = Where(g@, X, Z) | r@ = ReduceMax<keepdims=1>(X, zero) Y = Max(X, r@)
r@ = ReduceMin<keepdims=0>(X, zero) Y = Min(X, r@) | t@ = Tile(X, given_repeats) Y = Abs(X) | Y = Pad(X, pads)
"""
_FLOATS = """
Y = Sum(X) | Y = Mean(X) | Y = Sum(X, Z) | Y = Relu(X) | Y = Dropout(X) | Y, m@ = Dropout(X) | Y = Celu(X)
Y = ReduceSum<noop_with_empty_axes=1>(X) | Y = ai.onnx.ml.Scaler<offset=[0.0], scale=[1.0]>(X) | Y = Floor(X)
Y = ai.onnx.ml.Scaler<offset=[0.0], scale=[1.0]>(X) | r@ = ReduceMean<keepdims=1>(X, zero) Y = Max(X, r@)
"""
_CONSTANTS = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1}, int64[1] most = {2147483647}"
_CONSTANTS += ", int64 two = {2}, bool yes = {1}"
_SHAPES = "N N,4 2,N N,M 3 2,3 2,3,1 1,1 1000 2,3,4,5 N,3,4,5"
# The further inputs, each with its type and value.
GIVEN = {
    "given_zeros": ("int64[R]", 0),
    "given_ones": ("int64[R]", 1),
    "given_repeats": ("int64[R]", 2),
    "given_most": ("int64[1]", 2000),
    "given_b": ("bool", None),
}


class Graph(NamedTuple):
    """A model, its configuration, and the sizes of its free dimensions in each run."""

    model: ModelProto
    level: str
    overrides: dict[str, int]
    options: dict[str, str]
    sizes: list[dict[str, int]]

    def arrays(self, draw: random.Random) -> dict[str, np.ndarray]:
        """Return random values for each input, in the sizes of one run."""
        generator = np.random.default_rng(draw.randrange(2**32))
        sizes, found = draw.choice(self.sizes), {}
        for value in self.model.graph.input:
            kind = value.type.tensor_type
            name = TensorProto.DataType.Name(kind.elem_type).lower()
            shape = [size.dim_value or sizes[size.dim_param] for size in kind.shape.dim]
            largest = _LARGEST.get(name, 1000)
            number = GIVEN.get(value.name, ("", None))[1]
            if number is None:
                number = generator.integers(0 if name[0] in "ub" else -largest, largest, shape, endpoint=True)
            found[value.name] = np.full(shape, number, helper.tensor_dtype_to_np_dtype(kind.elem_type))
        return found


def random_graph(seed: int) -> Graph:
    """Return the graph of a seed: always the same one."""
    draw = random.Random(seed)
    kind, shape = draw.choice(TYPES + FLOATS[:1] * 10), draw.choice(_SHAPES.split())
    rank = shape.count(",") + 1
    templates = _ANY + _NUMBERS * 2 * (kind in NUMBERS) + _FLOATS * 2 * (kind in FLOATS)
    choices = [choice for choice in re.split(r"[|\n]", templates) if choice.strip()]
    values, nodes = draw.choice((["x0"], ["x0", "x2"])), ""
    for number in range(draw.randint(1, 7)):
        source = draw.choice(values[-3:] if draw.random() < 0.5 else values)
        names = {
            "X": source,
            "Y": f"y{number}",
            "Z": draw.choice(values),
            "T": kind,
            "S": shape,
            "N": _number(kind),
            "K": _number(draw.choice(TYPES)),
        }
        text = re.sub(r"\b[XYZTSNK]\b", lambda found, names=names: names[found[0]], draw.choice(choices))
        nodes += text.replace("@", str(number))
        values.append(names["Y"])

    read = Counter(re.findall(r"\w+", nodes))
    inputs = {"x0": f"{kind}[{shape}]", "x1": f"{draw.choice(TYPES)}[{draw.choice('N3')}]", "x2": f"{kind}[{shape}]"}
    inputs |= {name: given.replace("R", str(rank)) for name, (given, _) in GIVEN.items()}
    given = [f"{inputs[name]} {name}" for name in inputs if read[name] or (name in values and draw.random() < 0.1)]
    if draw.random() < 0.2:
        draw.shuffle(given)
    dtype = helper.tensor_dtype_to_np_dtype(int(_number(kind)))
    model = parsed(
        f"({', '.join(given)}) => () <{_CONSTANTS}> {{{nodes} }}",
        "ai.onnx.ml",
        zeros=np.zeros(rank, int),
        ones=np.ones(rank, int),
        pads=np.zeros(2 * rank, int),
        nought=np.zeros((), dtype),
        unit=np.ones((), dtype),
        low=np.zeros((), dtype),
        high=np.array(40, dtype),
    )
    model.opset_import[0].version = draw.choice((18, 20, 21))
    computed = [name for node in model.graph.node for name in node.output]
    unread = [name for name in computed if read[name] == 1]
    outputs = {*unread, *draw.sample(computed, min(len(computed), draw.choice((0, 1, 2))))}
    model.graph.output.extend(map(helper.make_empty_tensor_value_info, sorted(outputs)))
    free = {size.dim_param for value in model.graph.input for size in value.type.tensor_type.shape.dim} - {""}
    overrides = {name: 3 for name in sorted(free) if draw.random() < 0.1}
    sizes = [{name: overrides.get(name, draw.choice((1, 2, 3, 8, 64))) for name in "NM"} for _ in range(9)]
    level = draw.choice(("ORT_ENABLE_ALL", "ORT_ENABLE_ALL", "ORT_ENABLE_BASIC", "ORT_DISABLE_ALL"))
    options = {"precision": "FP32"} | ({"num_of_threads": "4"} if seed % 2 else {})
    return Graph(model, level, overrides, options, sizes)


def _number(kind: str) -> str:
    return str(TensorProto.DataType.Value(kind.upper()))
