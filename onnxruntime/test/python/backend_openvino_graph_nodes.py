# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Nodes that copy, alias, or fold, for the random graphs of ``backend_openvino_random_graphs.py``."""

from __future__ import annotations

import math

import numpy as np
from backend_openvino_graph_builder import FLOATS, NUMPY, Builder, T, Value, fits, sizes_in_model
from onnx import helper


def _cast_value(value: Value, kind: int) -> Value:
    if kind == T.BOOL:
        return value._replace(kind=kind, low=0, high=1)
    return value._replace(kind=kind)


def _numeric(value: Value) -> bool:
    return value.kind != T.BOOL


# Each function appends nodes that use a value, or does nothing if the value does not fit.


def identity(b: Builder, v: Value) -> None:
    b.add("Identity", [v.name], v)


def cast(b: Builder, v: Value) -> None:
    kind = b.draw.choice(b.casts_to(v))
    b.add("Cast", [v.name], _cast_value(v, kind), to=kind)


def cast_and_back(b: Builder, v: Value) -> None:
    kind = b.draw.choice([kind for kind in b.casts_to(v) if kind != T.BOOL or v.kind == kind])
    middle = b.add("Cast", [v.name], _cast_value(v, kind), to=kind)
    b.add("Cast", [middle.name], v, to=v.kind)


def cast_like(b: Builder, v: Value) -> None:
    kinds = b.casts_to(v)
    others = [other for other in b.values if other.kind in kinds]
    other = b.draw.choice(others)
    b.add("CastLike", [v.name, other.name], _cast_value(v, other.kind))


def reshape(b: Builder, v: Value) -> None:
    choice = b.draw.randrange(4)
    if choice == 0:
        b.add("Reshape", [v.name, b.integers(*[0] * len(v.shape))], v) if v.shape else None
    elif choice == 1 and all(type(size) is int for size in v.shape):
        b.add("Reshape", [v.name, b.integers(*v.shape)], v)
    elif choice == 2:
        shape = b.add("Shape", [v.name], Value("", T.INT64, (len(v.shape),), 0, 12))
        b.add("Reshape", [v.name, shape.name], v)
    else:
        b.add("Reshape", [v.name, b.integers(-1)], v._replace(shape=(f"flat_{v.shape}",)))


def reshape_with_ones(b: Builder, v: Value) -> None:
    """A Reshape to other sizes, with dimensions of size 1."""
    if not v.shape or 0 in v.shape or any(type(size) is str for size in v.shape):
        return
    elements = math.prod(v.shape)
    factor = b.draw.choice([size for size in range(1, elements + 1) if elements % size == 0])
    shape = [factor, elements // factor]
    for _ in range(b.draw.randrange(3)):
        shape.insert(b.draw.randint(0, len(shape)), 1)
    if elements == 1 and b.draw.random() < 0.3:
        shape = []
    b.add("Reshape", [v.name, b.integers(*shape)], v._replace(shape=tuple(shape)))


def unsqueeze_squeeze(b: Builder, v: Value) -> None:
    axis = b.draw.randint(0, len(v.shape))
    wide = v._replace(shape=(*v.shape[:axis], 1, *v.shape[axis:]))
    value = b.add("Unsqueeze", [v.name, b.integers(axis)], wide)
    if b.draw.random() < 0.6:
        b.add("Squeeze", [value.name, b.integers(axis)], v)


def flatten(b: Builder, v: Value) -> None:
    if len(v.shape) == 2:
        b.add("Flatten", [v.name], v, axis=1)


def transpose(b: Builder, v: Value) -> None:
    order = list(range(len(v.shape)))
    choice = b.draw.random()
    if choice < 0.3:
        order.reverse()
    elif choice < 0.6:
        b.draw.shuffle(order)
    b.add("Transpose", [v.name], v._replace(shape=tuple(v.shape[i] for i in order)), perm=order) if order else None


def dropout(b: Builder, v: Value) -> None:
    if v.kind in FLOATS:
        b.add("Dropout", [v.name], v, outputs=b.draw.choice((1, 1, 2)))


def variadic(b: Builder, v: Value) -> None:
    operator = b.draw.choice(("Sum", "Max", "Min", "Mean"))
    if v.kind not in FLOATS and (operator in ("Sum", "Mean") or not _numeric(v)):
        return
    if b.draw.random() < 0.6:
        b.add(operator, [v.name], v)
        return
    other = b.like(v)
    low, high = min(v.low, other.low), max(v.high, other.high)
    if operator == "Sum":
        low, high = v.low + other.low, v.high + other.high
    if fits(v.kind, low, high):
        b.add(operator, [v.name, other.name], v._replace(low=low, high=high))


def concat(b: Builder, v: Value) -> None:
    if not v.shape:
        return
    if b.draw.random() < 0.6:
        b.add("Concat", [v.name], v, axis=b.draw.randrange(len(v.shape)))
    else:
        other = b.like(v)
        shape = (f"twice_{v.shape[0]}", *v.shape[1:])
        both = v._replace(shape=shape, low=min(v.low, other.low), high=max(v.high, other.high))
        b.add("Concat", [v.name, other.name], both, axis=0)


def slices(b: Builder, v: Value) -> None:
    if not v.shape:
        return
    axis = b.draw.randrange(len(v.shape))
    whole = b.draw.random() < 0.7
    end = 2**31 - 1 if whole else 1
    shape = v.shape if whole else (*v.shape[:axis], 1, *v.shape[axis + 1 :])
    b.add("Slice", [v.name, b.integers(0), b.integers(end), b.integers(axis)], v._replace(shape=shape))


def split(b: Builder, v: Value) -> None:
    if v.shape and type(v.shape[0]) is int:
        b.add("Split", [v.name, b.integers(v.shape[0])], v, axis=0)


def where(b: Builder, v: Value) -> None:
    conditions = [other.name for other in b.values if other.kind == T.BOOL and other.shape == v.shape]
    other = b.like(v)
    condition = b.draw.choice([*conditions, b.constant(np.array(b.draw.random() < 0.5))])
    both = v._replace(low=min(v.low, other.low), high=max(v.high, other.high))
    b.add("Where", [condition, v.name, other.name], both)


def expand(b: Builder, v: Value) -> None:
    if b.draw.random() < 0.3:
        target = b.add("Shape", [v.name], Value("", T.INT64, (len(v.shape),), 0, 12)).name
    elif all(type(size) is int for size in v.shape) and b.draw.random() < 0.3:
        target = b.integers(*v.shape)
    else:
        target = b.integers(*[1] * len(v.shape))
    b.add("Expand", [v.name, target], v)


def tile(b: Builder, v: Value) -> None:
    if v.shape and b.draw.random() < 0.7:
        b.add("Tile", [v.name, b.integers(*[1] * len(v.shape))], v)
    elif v.shape:
        if b.draw.random() < 0.3:
            ones = b.integers(*[1] * len(v.shape))
            repeats = b.add("Identity", [ones], Value("", T.INT64, (len(v.shape),), 1, 1)).name
        else:
            repeats = f"repeats{len(b.nodes)}"
            b.inputs.append(Value(repeats, T.INT64, (len(v.shape),), 2, 2))
        b.add("Tile", [v.name, repeats], v._replace(shape=tuple(f"tiled_{size}" for size in v.shape)))


def neutral(b: Builder, v: Value) -> None:
    if v.kind not in (*FLOATS, T.INT32, T.INT64, T.UINT32):
        return
    operator, number = b.draw.choice((("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1)))
    ones = (1,) * len(v.shape) if b.draw.random() < 0.3 else ()
    b.add(operator, [v.name, b.scalar(v, number, ones)], v)


def logic(b: Builder, v: Value) -> None:
    if v.kind == T.BOOL:
        operator, number = b.draw.choice((("And", True), ("Or", False), ("Xor", False)))
        b.add(operator, [v.name, b.scalar(v, number)], v)


def pad(b: Builder, v: Value) -> None:
    if v.shape and v.kind in (*FLOATS, T.INT32, T.INT64):
        amount = b.draw.choice((0, 0, 1))
        mode = b.draw.choice(("constant", "constant", "wrap"))  # the EP does not convert wrap
        shape = v.shape if not amount else tuple(f"padded_{size}" for size in v.shape)
        value = v._replace(shape=shape, low=min(v.low, 0))
        b.add("Pad", [v.name, b.integers(*[amount] * 2 * len(v.shape))], value, mode=mode)


def celu(b: Builder, v: Value) -> None:
    """The EP does not convert it for float16."""
    if v.kind in FLOATS:
        b.add("Celu", [v.name], v._replace(low=max(v.low, -1)))


def clip(b: Builder, v: Value) -> None:
    if _numeric(v):
        b.add("Clip", [v.name], v)


def activation(b: Builder, v: Value) -> None:
    if v.kind not in (*FLOATS, T.INT32, T.INT64):
        return
    operator = b.draw.choice(("Relu", "Neg", "Abs"))
    if operator == "Relu" and v.kind not in FLOATS:
        operator = "Abs"
    low, high = {
        "Relu": (max(v.low, 0), max(v.high, 0)),
        "Neg": (-v.high, -v.low),
        "Abs": (0, max(-v.low, v.high)),
    }[operator]
    b.add(operator, [v.name], v._replace(low=low, high=high))


def binary(b: Builder, v: Value) -> None:
    other = b.like(v)
    low, high = v.low + other.low, v.high + other.high
    if v.kind in (*FLOATS, T.INT32, T.INT64) and fits(v.kind, low, high):
        b.add("Add", [v.name, other.name], v._replace(low=low, high=high))
    elif v.kind == T.BOOL:
        b.add("Or", [v.name, other.name], v)


def comparison(b: Builder, v: Value) -> None:
    other = b.like(v)
    if v.kind in (T.FLOAT, T.INT32, T.INT64):
        b.add("Greater", [v.name, other.name], Value("", T.BOOL, v.shape, 0, 1))


def reduction(b: Builder, v: Value) -> None:
    if v.kind not in FLOATS or not v.shape:
        return
    rank = len(v.shape)
    reduced = b.draw.sample(range(rank), b.draw.randint(1, rank))
    keeps = b.draw.randrange(2)
    shape = [1 if axis in reduced else size for axis, size in enumerate(v.shape) if keeps or axis not in reduced]
    axes = [axis - b.draw.choice((0, rank)) for axis in reduced]
    operator = b.draw.choice(("ReduceMax", "ReduceMin", "ReduceMean"))
    b.add(operator, [v.name, b.integers(*axes)], v._replace(shape=tuple(shape)), keepdims=keeps)


def product(b: Builder, v: Value) -> None:
    """A MatMul with a matrix of zeros and one one, so that its values are those of its input."""
    if v.kind != T.FLOAT or len(v.shape) < 2 or type(v.shape[-1]) is str:
        return
    matrix = np.zeros((v.shape[-1], b.draw.choice((1, 2))), np.float32)
    matrix[0] = 1
    b.add("MatMul", [v.name, b.constant(matrix)], v._replace(shape=(*v.shape[:-1], matrix.shape[1])))


def reduction_of_nothing(b: Builder, v: Value) -> None:
    if v.kind in FLOATS:
        b.add("ReduceSum", [v.name], v, noop_with_empty_axes=1)


def sizes(b: Builder, v: Value) -> None:
    if b.draw.random() < 0.6:
        b.add("Shape", [v.name], Value("", T.INT64, (len(v.shape),), 0, 12))
    else:
        b.add("Size", [v.name], Value("", T.INT64, (), 0, 2000))


def gather_added(b: Builder, v: Value) -> None:
    """A Gather from a dimension that an Unsqueeze adds."""
    wide = b.add("Unsqueeze", [v.name, b.integers(0)], v._replace(shape=(1, *v.shape)))
    if b.draw.random() < 0.5:
        b.add("Gather", [wide.name, b.integers(0)], wide, axis=0)
    else:
        b.add("Gather", [wide.name, b.constant(np.array(0, np.int64))], v, axis=0)


def gather(b: Builder, v: Value) -> None:
    if v.shape and type(v.shape[0]) is int:
        b.add("Gather", [v.name, b.integers(*range(v.shape[0]))], v, axis=0)


def with_given(b: Builder, v: Value) -> None:
    """An operator with an input that decides the shape, and that is an input of the graph."""
    if not v.shape:
        return
    operator = b.draw.choice(("Reshape", "Expand", "Slice", "Unsqueeze", "Pad"))
    rank = len(v.shape)
    given = f"given{len(b.nodes)}"
    unknown = v._replace(shape=tuple(f"g_{size}" for size in v.shape))
    if operator == "Reshape":
        b.inputs.append(Value(given, T.INT64, (rank,), 0, 0))
        b.add("Reshape", [v.name, given], unknown)
    elif operator == "Expand":
        b.inputs.append(Value(given, T.INT64, (rank,), 1, 1))
        b.add("Expand", [v.name, given], unknown)
    elif operator == "Slice":
        b.inputs.append(Value(given, T.INT64, (1,), 0, 0))
        b.inputs.append(Value(given + "e", T.INT64, (1,), 100, 2000))
        b.add("Slice", [v.name, given, given + "e"], unknown)
    elif operator == "Unsqueeze":
        b.inputs.append(Value(given, T.INT64, (1,), 0, 0))
        b.add("Unsqueeze", [v.name, given], v._replace(shape=(f"u_{v.shape}", *unknown.shape)))
    elif v.kind in (*FLOATS, T.INT32, T.INT64):
        b.inputs.append(Value(given, T.INT64, (2 * rank,), 0, 1))
        b.add("Pad", [v.name, given], unknown._replace(low=min(v.low, 0)))


def non_zero(b: Builder, v: Value) -> None:
    if v.shape:
        b.add("NonZero", [v.name], Value("", T.INT64, (len(v.shape), f"n_{v.name}"), 0, 1000))


def negation(b: Builder, v: Value) -> None:
    if v.kind == T.BOOL:
        middle = b.add("Not", [v.name], v)
        b.add("Not", [middle.name], v)
    elif v.kind in (*FLOATS, T.INT32, T.INT64):
        middle = b.add("Neg", [v.name], v._replace(low=-v.high, high=-v.low))
        b.add("Neg", [middle.name], v)


def on_the_cpu(b: Builder, v: Value) -> None:
    """A node that the EP does not support."""
    if v.kind == T.FLOAT and v.shape:
        value = b.add("Scaler", [v.name], v, domain="ai.onnx.ml", offset=[0.0], scale=[1.0])
        b.known.append(helper.make_tensor_value_info(value.name, value.kind, sizes_in_model(value.shape)))


def of_microsoft(b: Builder, v: Value) -> None:
    """A node of the domain com.microsoft. onnx does not infer its type, nor those of the nodes after it."""
    if v.kind in (T.INT8, T.UINT8):
        _from_integers(b, v)
    elif v.kind == T.FLOAT:
        fitting = [kind for kind in (T.INT8, T.UINT8) if kind in b.casts_to(v)]
        if fitting:
            value = v._replace(kind=b.draw.choice(fitting))
            one, zero = b.scalar(v, 1), b.scalar(value, 0)
            b.add("QuantizeLinear", [v.name, one, zero], value, domain="com.microsoft")


def _from_integers(b: Builder, v: Value) -> None:
    value, size = v._replace(kind=T.FLOAT), v.shape[-1:]
    one = b.scalar(value, 1)
    if len(v.shape) > 1 and type(size[0]) is int and b.draw.random() < 0.7:
        matrix = b.constant(np.eye(*size, dtype=NUMPY[v.kind]))
        b.add("MatMulIntegerToFloat", [v.name, matrix, one, one], value, domain="com.microsoft")
    else:
        b.add("DequantizeLinear", [v.name, one, b.scalar(v, 0)], value, domain="com.microsoft")


def branch(b: Builder, v: Value) -> None:
    """An If with a constant condition or one that is an input."""
    if b.draw.random() < 0.5:
        condition = b.constant(np.array(b.draw.random() < 0.5))
    else:
        condition = f"condition{len(b.nodes)}"
        b.inputs.append(Value(condition, T.BOOL, (), 0, 1))
    name = f"in_{len(b.nodes)}"
    other = b.like(v)
    branches = []
    for number, source in enumerate((v, other)):
        output = helper.make_tensor_value_info(f"{name}_{number}", v.kind, sizes_in_model(v.shape))
        node = helper.make_node("Identity", [source.name], [output.name])
        branches.append(helper.make_graph([node], f"{name}_{number}", [], [output]))
    both = v._replace(low=min(v.low, other.low), high=max(v.high, other.high))
    b.add("If", [condition], both, then_branch=branches[0], else_branch=branches[1])


def loop(b: Builder, v: Value) -> None:
    """A Loop, whose body returns its state, a copy of it, or a value from outside."""
    name = f"loop_{len(b.nodes)}"
    other = b.like(v)
    if b.draw.random() < 0.7:
        trips = b.constant(np.array(b.draw.choice((1, 2)), np.int64))
    else:
        trips = f"trips{len(b.nodes)}"
        b.inputs.append(Value(trips, T.INT64, (), 1, 2))
    condition = b.constant(np.array(True))
    inputs = [
        helper.make_tensor_value_info(f"{name}_i", T.INT64, []),
        helper.make_tensor_value_info(f"{name}_c", T.BOOL, []),
        helper.make_tensor_value_info(f"{name}_s", v.kind, sizes_in_model(v.shape)),
    ]
    nodes = [helper.make_node("Identity", [f"{name}_c"], [f"{name}_d"])]
    nodes.append(helper.make_node("Identity", [b.draw.choice((f"{name}_s", other.name))], [f"{name}_t"]))
    outputs = [
        helper.make_tensor_value_info(f"{name}_d", T.BOOL, []),
        helper.make_tensor_value_info(f"{name}_t", v.kind, sizes_in_model(v.shape)),
    ]
    collects = b.draw.random() < 0.3
    if collects:
        nodes.append(helper.make_node("Identity", [b.draw.choice((f"{name}_s", other.name))], [f"{name}_u"]))
        outputs.append(helper.make_tensor_value_info(f"{name}_u", v.kind, sizes_in_model(v.shape)))
    body = helper.make_graph(nodes, name, inputs, outputs)
    both = v._replace(low=min(v.low, other.low), high=max(v.high, other.high))
    b.add("Loop", [trips, condition, v.name], both, outputs=2 if collects else 1, body=body)


def scan(b: Builder, v: Value) -> None:
    """A Scan over the first axis, whose body adds, copies, or reads a value from outside."""
    if not v.shape or not _numeric(v):
        return
    name = f"scan_{len(b.nodes)}"
    inner = sizes_in_model(v.shape[1:])
    element = helper.make_tensor_value_info(f"{name}_e", v.kind, inner)
    output = helper.make_tensor_value_info(f"{name}_f", v.kind, inner)
    rows = [other for other in b.values if other.kind == v.kind and other.shape == v.shape[1:]]
    source = b.draw.choice((f"{name}_e", *(other.name for other in rows)))
    nodes = [helper.make_node("Identity", [source], [f"{name}_f"])]
    low, high = v.low, v.high
    for other in rows:
        low, high = min(low, other.low), max(high, other.high)
    body = helper.make_graph(nodes, name, [element], [output])
    b.add("Scan", [v.name], v._replace(low=low, high=high), body=body, num_scan_inputs=1)


MAKE = (
    *(identity, cast, cast, cast_and_back, cast_like, cast_like, reshape, unsqueeze_squeeze, flatten, transpose),
    *(dropout, variadic, variadic, concat, slices, split, where, expand, tile, neutral, logic, pad, clip),
    *(activation, activation, binary, comparison, reduction, reduction_of_nothing, sizes, gather, on_the_cpu, branch),
    *(
        reshape_with_ones,
        reshape_with_ones,
        reduction,
        product,
        gather_added,
        with_given,
        non_zero,
        negation,
        loop,
        scan,
        of_microsoft,
        of_microsoft,
        celu,
    ),
)
