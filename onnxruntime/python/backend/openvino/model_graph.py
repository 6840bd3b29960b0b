# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Describes the graph of a model, and the parts of it that the OpenVINO EP compiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.inliner import inline_local_functions
from onnx.shape_inference import infer_shapes

from onnxruntime import InferenceSession, NodeArg
from onnxruntime.backend.provider_names import OF_OPENVINO


def types_named(names: str) -> frozenset[int]:
    """Return the types of tensors with these names."""
    kinds = set()
    for name in names.split():
        kinds.add(TensorProto.DataType.Value(name))
    return frozenset(kinds)


_NUMERIC = types_named("DOUBLE FLOAT FLOAT16 INT32 INT64")
ONNX = ("", "ai.onnx")  # the names of its domain
_SHAPES = ("Shape", "Size")
UNKNOWN = (0,)  # a shape


class Graph:
    """The graph of a model, with the functions of the model inlined."""

    def __init__(self, model: ModelProto, sizes: Mapping[str, int] | None = None) -> None:
        """Initialize it with a model, and with the sizes of its free dimensions by name."""
        self.has_functions = len(model.functions) > 0
        if self.has_functions:
            model = inline_local_functions(model)
        self.content = model.graph
        self.nodes = list(model.graph.node)
        self.inputs: list[str] = []
        self.outputs = {value.name for value in model.graph.output}
        self.constants: set[str] = set()  # the values that do not depend on an input
        self.from_shapes: set[str] = set()  # the values that are computed from constants and shapes only
        self.numbers: dict[str, np.ndarray] = {}  # of small constants
        self.types: dict[str, int] = {}  # 0 if the model does not show the type, and onnx does not infer it
        self.shapes: dict[str, list[int]] = {}  # a size is 0 if it is not known
        self.producers: dict[str, NodeProto] = {}
        self.readers: dict[str, list[NodeProto]] = {}
        self._add_values(_inferred(model, sizes or {}))
        for node in self.nodes:
            self._add_node(node)

    def _add_values(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            self._add_constant(tensor.name, tensor)

        for value in graph.input:
            if value.name not in self.constants:
                self.inputs.append(value.name)
        self._add_types(graph)
        for node in with_inner(graph.node):
            for body in subgraphs(node):
                self._add_types(body)

    def _add_types(self, graph: GraphProto) -> None:
        """Add the types and shapes of the values of a graph."""
        for values in (graph.input, graph.output, graph.value_info):
            for value in values:
                tensor = value.type.tensor_type
                self.types[value.name] = tensor.elem_type
                if tensor.HasField("shape"):
                    sizes = []
                    for dimension in tensor.shape.dim:
                        sizes.append(dimension.dim_value)
                    self.shapes[value.name] = sizes

    def _add_constant(self, name: str, tensor: TensorProto) -> None:
        self.constants.add(name)
        self.from_shapes.add(name)
        self.types[name] = tensor.data_type
        self.shapes[name] = list(tensor.dims)
        is_external = tensor.data_location == TensorProto.EXTERNAL
        if tensor.data_type in _NUMERIC and not is_external:
            with suppress(ValueError, TypeError):  # a tensor without its weights
                self.numbers[name] = numpy_helper.to_array(tensor)

    def _add_node(self, node: NodeProto) -> None:
        used = names_in(node)
        for name in used:
            self.readers.setdefault(name, []).append(node)
        if self.constants.issuperset(used):
            self.constants.update(node.output)
        if node.op_type in _SHAPES:
            self.from_shapes.update(node.output)
        elif node.op_type != "Dropout" and self.from_shapes.issuperset(used):  # a Dropout can be random
            self.from_shapes.update(node.output)
        for name in node.output:
            self.producers[name] = node
            self.types.setdefault(name, 0)
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    self._add_constant(node.output[0], attribute.t)

    def producer(self, node: NodeProto) -> NodeProto | None:
        """Return the node that computes the first input of a node."""
        if not node.input:
            return None
        return self.producers.get(node.input[0])


def _inferred(model: ModelProto, sizes: Mapping[str, int]) -> GraphProto:
    """Return the graph of a model with the types and shapes of its values, as far as onnx infers them."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            name = dimension.dim_param
            if name in sizes:
                dimension.dim_value = sizes[name]
    with suppress(Exception):  # such as a model of a version that onnx does not know
        fixed = infer_shapes(fixed, data_prop=True)
    return fixed.graph


class Parts:
    """The parts of a graph that the EP compiles, as ORT reports them.

    A value *crosses* if it can leave or enter a part: ORT and the EP share its memory.
    """

    def __init__(self, graph: Graph, session: InferenceSession) -> None:
        self._graph = graph
        self._part_of: dict[tuple[str, str], int | None] = {}  # by node; None if several nodes have the name
        self.operators: set[str] = set()  # of the nodes of all parts
        of_openvino = []
        for number, part in enumerate(session.get_provider_graph_assignment_info()):
            of_openvino.append(part.ep_name in OF_OPENVINO)
            for node in part.get_nodes():
                key = _key(node)
                if node.name == "" or key in self._part_of:
                    self._part_of[key] = None
                else:
                    self._part_of[key] = number
                if of_openvino[-1]:
                    self.operators.add(node.op_type)
        self.are_none = True not in of_openvino
        self.is_whole = of_openvino == [True]  # whether the EP compiles the graph as a whole
        #: Whether the shape of a value that crosses can differ between runs.
        self.are_dynamic = _are_dynamic([*session.get_inputs(), *session.get_outputs()])
        for name in graph.producers:
            shape = graph.shapes.get(name, UNKNOWN)
            if 0 in shape and self.enters(name):
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
        graph = self._graph
        touching = list(graph.readers.get(value, ()))
        if value in graph.producers:
            touching.append(graph.producers[value])

        parts = set()
        for node in touching:
            if not self._is_folded(node):
                # ORT has removed a node without a record, or replaced it by nodes that can be in any part.
                part = self._part_of.get(_key(node))
                parts.add(part)
        return len(parts) > 1 or None in parts

    def _is_folded(self, node: NodeProto) -> bool:
        """Return whether ORT has computed a node when it created the session."""
        if _key(node) in self._part_of:
            return False
        return self._graph.from_shapes.issuperset(node.output)


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
    for graph in subgraphs(node):
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


def named(node: NodeProto) -> str:
    """Return a node as error messages describe it."""
    return f"the {node.op_type} node with the output '{node.output[0]}'"


def _key(node: NodeProto) -> tuple[str, str]:
    return node.name, node.op_type


def subgraphs(node: NodeProto) -> list[GraphProto]:
    found = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        found += attribute.graphs
    return found


def with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Return nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from with_inner(graph.node)
