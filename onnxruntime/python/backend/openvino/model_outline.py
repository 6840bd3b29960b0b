# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads the structure of a serialized model without its weights, so that a large model costs no memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from onnx import GraphProto, ModelProto, TensorProto

_LARGEST = 256  # bytes of an initializer that keeps its values
_GRAPH = ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER = GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_OF_TENSOR = TensorProto.DESCRIPTOR.fields_by_name
_KEPT = frozenset(_OF_TENSOR[name].number for name in ("dims", "data_type", "name"))


def outline(content: bytes | mmap.mmap) -> ModelProto:
    """Return a model whose initializers have names, types and shapes, but no values if they are large."""
    model = ModelProto()
    for number, start, value, end in _fields(content, 0, len(content)):
        if number == _GRAPH:
            _merge_graph(model.graph, content, value, end)
        else:
            model.MergeFromString(content[start:end])
    return model


def _merge_graph(graph: GraphProto, content: bytes | mmap.mmap, begin: int, limit: int) -> None:
    for number, start, value, end in _fields(content, begin, limit):
        if number != _INITIALIZER or end - value <= _LARGEST:
            graph.MergeFromString(content[start:end])
            continue
        tensor = graph.initializer.add()
        for of_tensor, first, _, last in _fields(content, value, end):
            if of_tensor in _KEPT:
                tensor.MergeFromString(content[first:last])


def _fields(content: bytes | mmap.mmap, begin: int, limit: int) -> Iterator[tuple[int, int, int, int]]:
    """Return for each field of a message its number, its begin, the begin of its value, and its end."""
    position = begin
    while position < limit:
        tag, value = _integer(content, position)
        kind = tag & 7
        if kind == 0:
            _, end = _integer(content, value)
        elif kind == 1:
            end = value + 8
        elif kind == 2:
            size, value = _integer(content, value)
            end = value + size
        elif kind == 5:
            end = value + 4
        else:
            raise ValueError("not a serialized message")
        if end > limit:
            raise ValueError("not a serialized message")
        yield tag >> 3, position, value, end
        position = end


def _integer(content: bytes | mmap.mmap, position: int) -> tuple[int, int]:
    """Return an integer of variable length, and the position after it."""
    number = shift = 0
    while True:
        byte = content[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
