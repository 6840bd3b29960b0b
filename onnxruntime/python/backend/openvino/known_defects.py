# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds structures of a model with which the OpenVINO EP terminates the process, or is wrong.

The EP is wrong with each variant of a structure: next to the tests, ``campaigns/openvino_known_defects.py`` runs them
on sessions without the backend, and counts them. A structure that is wrong in some models only is not refused.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx.inliner import inline_local_functions
from onnx.shape_inference import infer_shapes

from onnxruntime import InferenceSession
from onnxruntime.backend.errors import show
from onnxruntime.backend.provider_names import CPU, OF_OPENVINO, OPENVINO
from onnxruntime.backend.session import presence

_FIX = "Set the sizes of all free dimensions with free_dimension_overrides"
_NOT_WRITTEN = f"{OPENVINO} returns memory that was not written"
_TYPES = {number: name for name, number in TensorProto.DataType.items()}
# By type, the type in which the EP computes it.
_COMPUTED_IN = {
    "BOOL": "UINT8",
    "FLOAT16": "FLOAT",
    "INT16": "INT32",
    "INT64": "INT32",
    "UINT16": "INT32",
    "UINT32": "INT32",
}
# Operators that the built-in EP compiles in the body of a Scan. It leaves a Scan with others to the CPU EP.
_IN_SCANS = {"Add", "Identity", "MatMul", "Mul", "Neg", "Relu", "Sigmoid", "Tanh"}


def that_ends_the_process(model: ModelProto) -> str:
    """Return a sentence about a structure with which the EP terminates the process when it compiles a model.

    The result is ``""`` if the model has none. Both functions examine a model without its weights, too.
    """
    if _is_plugin():
        return ""
    graph = _inlined(model).graph
    constants = _names(graph.initializer)
    for node in _with_inner(graph.node):
        if node.op_type == "Constant":
            constants.update(node.output)
        if node.op_type in ("Loop", "Scan"):
            problem = _passes_state_on(node, constants)
            if problem:
                return _sentence(node, problem)
    return ""


def that_is_wrong(model: ModelProto, session: InferenceSession) -> str:
    """Return a sentence about a structure with which the EP is wrong in a session, ``""`` if the model has none."""
    rules = _OF_PLUGIN if _is_plugin() else _OF_BUILT_IN
    model = _inlined(model)
    parts = session.get_provider_graph_assignment_info()
    compiled: set[str] = set()  # operators
    others: set[str] = set()
    for part in parts:
        operators = compiled if part.ep_name in OF_OPENVINO else others
        for node in part.get_nodes():
            operators.add(node.op_type)

    if compiled and len(parts) == 1 and rules is _OF_BUILT_IN:
        unread = _unread(model.graph)
        if unread:
            effect = f"{OPENVINO} reads later inputs from the wrong arrays"
            return f"No node reads the input {show(unread)}. {effect}. Make it the last input, or use {CPU}"
    compiled -= others  # a node of such an operator can be on the CPU EP
    graph = _Graph(model, session)
    for node in _with_inner(graph.nodes, compiled):
        rule = rules.get(node.op_type)
        problem = rule and rule(node, graph)
        if problem:
            return _sentence(node, problem)
    return ""


class _Graph:
    """The nodes of a graph, and what rules need to know of its values."""

    def __init__(self, model: ModelProto, session: InferenceSession) -> None:
        self.inputs = {value.name: value.shape for value in session.get_inputs()}  # with free_dimension_overrides
        fixed = ModelProto()
        fixed.CopyFrom(model)
        self.sizes: dict[str, int] = {}  # of free dimensions of inputs that the session fixes, by name
        for value in fixed.graph.input:
            sizes = self.inputs.get(value.name, ())
            for dimension, size in zip(value.type.tensor_type.shape.dim, sizes, strict=False):
                if type(size) is int:
                    if dimension.dim_param:
                        self.sizes[dimension.dim_param] = size
                    dimension.dim_value = size
        with suppress(Exception):  # such as a model of an opset that onnx does not know
            fixed = infer_shapes(fixed)
        self.nodes = fixed.graph.node
        self.outputs = _names(fixed.graph.output)
        self.from_shapes: set[str] = set()  # values that are computed from constants and shapes only
        self.types: dict[str, str] = {}
        self.fixed: set[str] = set()  # values whose shapes are the same in each run
        self.larger: dict[str, int] = {}  # by value of known rank, the number of sizes that can differ from 1
        self.copies = set(self.inputs)
        self._add(fixed.graph)
        # OpenVINO runs a graph with one free shape otherwise.
        self.is_fixed = self.fixed.issuperset(self.inputs.keys() | self.outputs)

    def _add(self, graph: GraphProto) -> None:
        self.from_shapes |= _names(graph.initializer)
        for values in (graph.input, graph.output, graph.value_info):
            for value in values:
                tensor = value.type.tensor_type
                for dimension in tensor.shape.dim:
                    if dimension.dim_param in self.sizes:
                        dimension.dim_value = self.sizes[dimension.dim_param]
                sizes = _sizes(value)
                if tensor.HasField("shape"):
                    self.larger[value.name] = len(sizes) - sizes.count(1)
                self.types[value.name] = _TYPES.get(value.type.tensor_type.elem_type, "")
                if 0 not in sizes:
                    self.fixed.add(value.name)
        for node in graph.node:
            if node.op_type in ("Shape", "Size") or self.from_shapes.issuperset(_names_in(node)):
                self.from_shapes.update(node.output)
            if node.op_type == "Identity" and node.input[0] in self.copies:
                self.copies.add(node.output[0])
            for body in _subgraphs(node):
                self._add(body)


# Each rule returns the structure, its effect, and what to do, or "".


def _passes_state_on(node: NodeProto, constants: set[str]) -> str:
    for body in _subgraphs(node):
        own = _names(body.input)
        passes_on = own & _names(body.output)
        own |= _names(body.initializer)
        read = set()
        operators = set()
        for inner in body.node:
            operators.add(inner.op_type)
            own.update(inner.output)
            read |= _names_in(inner)
        is_compiled = node.op_type == "Loop" or operators <= _IN_SCANS
        if passes_on and is_compiled and read - own - constants:
            effect = f"{OPENVINO} terminates the process"
            return f"returns a state as it is, and reads outer values. {effect}. Remove the state"
    return ""


def _unread(graph: GraphProto) -> str:
    """Return an input that no node reads, and that is listed before one that a node reads."""
    read = _names(graph.output)
    for node in graph.node:
        read |= _names_in(node)
    constants = _names(graph.initializer)
    unread = ""
    for value in graph.input:
        if value.name in read:
            if unread:
                return unread
        elif value.name not in constants:
            unread = unread or value.name
    return ""


def _copy(node: NodeProto, graph: _Graph) -> str:
    source, output = node.input[0], node.output[0]
    is_copy = len(node.input) == 1 and output in graph.outputs
    if node.op_type == "Cast":
        computed = _COMPUTED_IN.get(graph.types.get(source, ""))
        is_copy = source in graph.outputs and graph.types.get(output, "") == computed
    if not is_copy or source not in graph.copies or not graph.is_fixed:
        return ""
    return f"copies an input. {_NOT_WRITTEN}. Use Identity, or a Cast of the input itself"


def _tile(node: NodeProto, graph: _Graph) -> str:
    repeats = graph.inputs.get(node.input[1])
    if not repeats or repeats[0] in (1, 2, 3) or graph.larger.get(node.input[0], 4) < 4:
        return ""
    return f"has repeats that are an input of the model. {_NOT_WRITTEN}. Make the repeats an initializer"


def _recurrent(node: NodeProto, graph: _Graph) -> str:
    for attribute in node.attribute:
        if attribute.name == "layout" and attribute.i:
            return f"has layout 1. {OPENVINO} returns values for layout 0. Use layout 0"
    lengths = node.input[4] if len(node.input) > 4 else ""
    if lengths and node.input[0] not in graph.fixed and lengths not in graph.from_shapes:
        return f"has sequence_lens. {OPENVINO} ignores them. {_FIX}"
    return ""


def _if(node: NodeProto, graph: _Graph) -> str:
    if node.input[0] in graph.from_shapes:
        return ""
    first, second = _subgraphs(node)
    for one, other in zip(first.output, second.output, strict=False):
        sizes, others = _sizes(one), _sizes(other)
        # The EP is right if fixed sizes differ. A size that the model declares as free can be fixed for the EP.
        differ = any(a and b and a != b for a, b in zip(sizes, others, strict=False))
        if 0 in sizes and 0 in others and not differ:
            return f"has an output of free size. {OPENVINO} returns values of earlier runs. {_FIX}"
    return ""


def _clip(node: NodeProto, graph: _Graph) -> str:
    is_constant = graph.from_shapes.issuperset(node.input[1:2])
    is_direct = node.input[0] in graph.inputs  # after a node, the EP can be right
    has_maximum = any(node.input[2:])
    if has_maximum or not is_constant or not is_direct or graph.types.get(node.input[0]) != "INT64":
        return ""
    return f"is of int64, and has no maximum. {OPENVINO} returns 0 for positive values. Add a maximum"


_OF_PLUGIN = {"GRU": _recurrent, "LSTM": _recurrent, "RNN": _recurrent, "Tile": _tile}
_OF_BUILT_IN = {**_OF_PLUGIN, "Cast": _copy, "Clip": _clip, "If": _if, "Max": _copy, "Min": _copy, "Sum": _copy}


def _sizes(value: ValueInfoProto) -> list[int]:
    """Return the shape of a value. A size is 0 if it is free or not known."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return [0]
    return [size.dim_value for size in tensor.shape.dim]


def _is_plugin() -> bool:
    return any(device.ep_name in OF_OPENVINO for device in presence.plugin_devices())


def _inlined(model: ModelProto) -> ModelProto:
    if model.functions:
        with suppress(Exception):  # ORT reports a function that is not valid
            return inline_local_functions(model)
    return model


def _names(values: Iterable[TensorProto | ValueInfoProto]) -> set[str]:
    return {value.name for value in values}


def _names_in(node: NodeProto) -> set[str]:
    """Return the names of the values that a node reads, also in its subgraphs."""
    found = set(node.input)
    for body in _subgraphs(node):
        found |= _names(body.output)
        for inner in body.node:
            found |= _names_in(inner)
    return found - {""}


def _sentence(node: NodeProto, problem: str) -> str:
    return f"The {node.op_type} node with the output {show(node.output[-1])} {problem}, or use {CPU}"


def _subgraphs(node: NodeProto) -> list[GraphProto]:
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _with_inner(nodes: Iterable[NodeProto], operators: Container[str] | None = None) -> Iterator[NodeProto]:
    """Return nodes of these operators with the nodes of their subgraphs, by default of all operators."""
    for node in nodes:
        is_found = operators is None or node.op_type in operators
        if is_found:
            yield node
        for body in _subgraphs(node):
            yield from _with_inner(body.node, None if is_found else operators)
