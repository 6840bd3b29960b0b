# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The builder of the random graphs of ``backend_openvino_random_graphs.py``: values, constants, and nodes."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

T = TensorProto
FLOATS = (T.FLOAT, T.FLOAT16, T.DOUBLE)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32)
INTEGERS = (T.INT32, T.INT64, T.INT8, T.INT16, *UNSIGNED)
NUMPY = {kind: helper.tensor_dtype_to_np_dtype(kind) for kind in (*FLOATS, *INTEGERS, T.BOOL)}
_MOST = {T.INT8: 127, T.UINT8: 255, T.FLOAT16: 2000}  # larger values are not exact, or undefined, in these types


def fits(kind: int, low: float, high: float) -> bool:
    """Return whether a type has all numbers of an interval."""
    return max(-low, high) <= _MOST.get(kind, 10000)


class Value(NamedTuple):
    """A value of a graph. All its elements are in an interval, so that each cast of a graph is defined."""

    name: str
    kind: int
    shape: tuple[int | str, ...]
    low: float
    high: float


class Builder:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.nodes: list[NodeProto] = []
        self.initializers: list = []
        self.known: list = []  # value_info, without which the EP rejects outputs of another domain
        self.values: list[Value] = []
        self.inputs: list[Value] = []

    def name(self, letter: str) -> str:
        return f"{letter}{len(self.nodes)}_{len(self.initializers)}_{len(self.values)}"

    def constant(self, array: np.ndarray) -> str:
        name = self.name("c")
        tensor = numpy_helper.from_array(array, name)
        if self.draw.random() < 0.2:  # the values in a field of their type, not as bytes
            tensor = helper.make_tensor(name, tensor.data_type, array.shape, array.ravel().tolist())
        if self.draw.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def scalar(self, value: Value, number: int, shape: tuple = ()) -> str:
        return self.constant(np.full(shape, number, NUMPY[value.kind]))

    def add(self, operator: str, inputs: list[str], like: Value, outputs: int = 1, domain: str = "", **given) -> Value:
        """Append a node, and the value of its first output, which is like another value except for its name."""
        name = self.name("v")
        names = [name, *(f"{name}_{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **given))
        value = like._replace(name=name)
        self.values.append(value)
        return value

    def like(self, value: Value, same_shape: bool = True) -> Value:
        """Return a random value of the same type and shape, often the same one."""
        found = [
            other
            for other in self.values
            if other.kind == value.kind and (other.shape == value.shape or not same_shape)
        ]
        return self.draw.choice(found)

    def casts_to(self, value: Value) -> list[int]:
        kinds = [
            kind
            for kind in (*FLOATS, *INTEGERS, T.BOOL)
            if fits(kind, value.low, value.high) and (value.low >= 0 or kind not in UNSIGNED)
        ]
        return [*kinds, value.kind, value.kind]


def read_by(nodes: list[NodeProto]) -> set[str]:
    names = set()
    for node in nodes:
        names.update(node.input)
        for attribute in node.attribute:
            names |= read_by(attribute.g.node)
    return names


def sizes_in_model(shape: tuple) -> list[int | str | None]:
    """Return a shape for a model: only the dimensions of inputs have names there."""
    return [size if type(size) is int or size in ("N", "M") else None for size in shape]
