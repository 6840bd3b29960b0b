# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Describes the graph of a model, and the parts of it that the OpenVINO EP compiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.inliner import inline_local_functions
from onnx.shape_inference import infer_shapes

from onnxruntime import InferenceSession, NodeArg
from onnxruntime.backend.provider_names import OF_OPENVINO

_NUMERIC = {
    TensorProto.DOUBLE,
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
}
# Operators whose output has a shape that depends on the values of their inputs, or of those after the first.
_SIZES_FROM_VALUES = {"Compress", "ConstantOfShape", "If", "Loop", "NonMaxSuppression", "NonZero", "Range", "Unique"}
_SIZES_FROM_INPUTS = {"CenterCropPad", "Expand", "OneHot", "Pad", "Reshape", "Resize", "Slice", "Tile", "TopK"}
_RETURN_INT64 = {"ArgMax", "ArgMin", "NonZero", "Shape", "Size"}


class Graph:
    """The graph of a model, with the functions of the model inlined."""

    def __init__(self, model: ModelProto) -> None:
        if model.functions:
            model = inline_local_functions(model)
        self.model = model
        self.nodes = list(model.graph.node)
        self.inputs: list[str] = []
        self.outputs = {value.name for value in model.graph.output}
        self.constants: set[str] = set()  # the values that do not depend on an input
        self.numbers: dict[str, np.ndarray] = {}  # of small constants
        self.without_elements: set[str] = set()  # constants
        self.types: dict[str, int] = {}
        self.ranks: dict[str, int] = {}
        self.producers: dict[str, NodeProto] = {}
        self.readers: dict[str, list[NodeProto]] = {}
        self.has_sizes_from_values = False
        self._add_values(model.graph)
        for node in self.nodes:
            self._add_node(node)

    def _add_values(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            self._add_constant(tensor.name, tensor)

        for value in graph.input:
            if value.name not in self.constants:
                self.inputs.append(value.name)
        for values in (graph.input, graph.output, graph.value_info):
            for value in values:
                kind = value.type.tensor_type
                self.types[value.name] = kind.elem_type
                if kind.HasField("shape"):
                    self.ranks[value.name] = len(kind.shape.dim)

    def _add_constant(self, name: str, tensor: TensorProto) -> None:
        self.constants.add(name)
        self.types[name] = tensor.data_type
        self.ranks[name] = len(tensor.dims)
        if 0 in tensor.dims:
            self.without_elements.add(name)
        is_external = tensor.data_location == TensorProto.EXTERNAL
        if tensor.data_type in _NUMERIC and not is_external:
            with suppress(ValueError, TypeError):  # a tensor without its weights
                self.numbers[name] = numpy_helper.to_array(tensor)

    def _add_node(self, node: NodeProto) -> None:
        used = names_in(node)
        for name in used:
            self.readers.setdefault(name, []).append(node)
        for name in node.output:
            self.producers[name] = node
        if self.constants.issuperset(used):
            self.constants.update(node.output)
        if node.op_type in _SIZES_FROM_VALUES:
            self.has_sizes_from_values = True
        if node.op_type in _SIZES_FROM_INPUTS and not self.constants.issuperset(node.input[1:]):
            self.has_sizes_from_values = True
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    self._add_constant(node.output[0], attribute.t)

    def all_nodes(self) -> Iterator[NodeProto]:
        """Return the nodes of the graph and of its subgraphs."""
        for node in self.nodes:
            yield from _with_inner(node)

    def producer(self, node: NodeProto) -> NodeProto | None:
        """Return the node that computes the first input of a node."""
        if not node.input:
            return None
        return self.producers.get(node.input[0])

    def type_of(self, name: str) -> int:
        """Return the type of a value, 0 if the model does not show it."""
        while name not in self.types:
            node = self.producers.get(name)
            if node is None or not node.input:
                return 0
            if node.op_type in _RETURN_INT64:
                return TensorProto.INT64
            if node.op_type == "Cast":
                return attribute_of(node, "to")
            if node.op_type == "If":
                place = list(node.output).index(name)
                return node.attribute[0].g.output[place].type.tensor_type.elem_type
            place = 0
            if node.op_type in ("CastLike", "Where"):
                place = 1
            name = node.input[place]
        return self.types[name]

    def follows_from_shapes(self, name: str) -> bool:
        """Return whether a value is computed from constants and shapes only."""
        if name in self.constants:
            return True
        node = self.producers.get(name)
        if node is None:
            return False
        if node.op_type in ("Shape", "Size"):
            return True
        return all(map(self.follows_from_shapes, names_in(node)))


class Parts:
    """The parts of a graph that the EP compiles, as ORT reports them.

    A value *crosses* if it can leave or enter a part: ORT and the EP share its memory.
    """

    def __init__(self, graph: Graph, session: InferenceSession) -> None:
        self._graph = graph
        self._inputs = session.get_inputs()
        self._shapes: dict[str, list[int]] | None = None
        self._part_of: dict[tuple[str, str], int | None] = {}  # by node; None if several nodes have the name
        self.operators: set[str] = set()  # of the nodes of all parts
        of_openvino = []
        for number, part in enumerate(session.get_provider_graph_assignment_info()):
            of_openvino.append(part.ep_name in OF_OPENVINO)
            for node in part.get_nodes():
                key = _key(node)
                is_unique = node.name != "" and key not in self._part_of
                self._part_of[key] = None
                if of_openvino[-1]:
                    self.operators.add(node.op_type)
                if is_unique:
                    self._part_of[key] = number
        self.are_none = True not in of_openvino
        self.is_whole = of_openvino == [True]  # whether the EP compiles the graph as a whole
        #: Whether the shape of a value that crosses can differ between runs.
        self.are_dynamic = _are_dynamic(self._inputs)
        if _are_dynamic(session.get_outputs()):
            self.are_dynamic = True
        if graph.has_sizes_from_values and not self.is_whole:
            self.are_dynamic = True

    def crosses(self, value: str) -> bool:
        """Return whether a value can leave or enter a part."""
        graph = self._graph
        if value in graph.outputs or value in graph.inputs:
            return True
        return self.enters(value)

    def enters(self, value: str) -> bool:
        """Return whether a value that a node computes can enter a part."""
        if self.is_whole:
            return False
        touching = list(self._graph.readers.get(value, ()))
        if value in self._graph.producers:
            touching.append(self._graph.producers[value])
        parts = set()
        for node in touching:
            if not self._is_folded(node):
                # ORT has removed a node without a record, or replaced it by nodes that can be in any part.
                parts.add(self._part_of.get(_key(node)))
        return len(parts) > 1 or None in parts

    def shape_of(self, value: str) -> list[int]:
        """Return the shape of a value in a session without free dimensions, an empty one if it is not known."""
        if self._shapes is None:
            self._shapes = self._infer_shapes()
        return self._shapes.get(value, [])

    def _infer_shapes(self) -> dict[str, list[int]]:
        model = ModelProto()
        model.CopyFrom(self._graph.model)
        del model.graph.value_info[:]
        sizes_of = {}
        for node in self._inputs:
            sizes_of[node.name] = node.shape
        for value in model.graph.input:
            sizes = sizes_of.get(value.name, ())
            dimensions = value.type.tensor_type.shape.dim
            for dimension, size in zip(dimensions, sizes, strict=False):
                dimension.dim_value = size

        inferred = infer_shapes(model, data_prop=True)
        found = {}
        for value in inferred.graph.value_info:
            sizes = []
            for dimension in value.type.tensor_type.shape.dim:
                sizes.append(dimension.dim_value)
            found[value.name] = sizes
        return found

    def _is_folded(self, node: NodeProto) -> bool:
        """Return whether ORT has computed a node when it created the session."""
        if _key(node) in self._part_of:
            return False
        return all(map(self._graph.follows_from_shapes, node.output))


def _are_dynamic(values: list[NodeArg]) -> bool:
    """Return whether an input or output of a session has a free dimension."""
    for value in values:
        for size in value.shape:
            if type(size) is not int:
                return True
    return False


def names_in(node: NodeProto) -> list[str]:
    """Return the names of the values that a node uses, also in its subgraphs."""
    found = dict.fromkeys(node.input)
    for graph in _subgraphs(node):
        for inner in graph.node:
            found.update(dict.fromkeys(names_in(inner)))
        for value in graph.output:
            found[value.name] = None
    found.pop("", None)
    return list(found)


def attribute_of(node: NodeProto, name: str, default: int = 0) -> int:
    """Return an attribute that is an integer."""
    for attribute in node.attribute:
        if attribute.name == name:
            return attribute.i
    return default


def _key(node: NodeProto) -> tuple[str, str]:
    return node.name, node.op_type


def _subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _with_inner(node: NodeProto) -> Iterator[NodeProto]:
    yield node
    for graph in _subgraphs(node):
        for inner in graph.node:
            yield from _with_inner(inner)
