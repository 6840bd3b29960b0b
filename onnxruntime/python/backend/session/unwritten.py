# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds operators of the CPU EP whose outputs contain memory of earlier runs.

Before ORT 1.28, ReverseSequence does not write sequences of length 0: such a model is refused. No release computes some
operators on tensors without elements: :class:`onnxruntime.backend.runs.inputs.ModelInputs` refuses such inputs. The
campaign unwritten_outputs.py searches all operators of a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from onnx import GraphProto, ModelProto, NodeProto, numpy_helper
from onnx.inliner import inline_local_functions

from onnxruntime import InferenceSession
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.errors import show
from onnxruntime.backend.provider_names import CPU, OPENVINO
from onnxruntime.backend.session import model_file
from onnxruntime.backend.session.model_outline import nodes_of, outline
from onnxruntime.backend.session.nodes import recorded_nodes

_OPERATOR = "ReverseSequence"
_MENDED = (1, 28)
_OF_SHAPES = ("Shape", "Size")
_SCAN = "Scan"
_SCAN_OPSET = 8  # the last that accepts a sequence without elements
_CONCAT = b"Concat"
# They return memory of earlier runs for tensors without elements, whatever the other inputs are.
_WITHOUT_ELEMENTS: tuple[str, ...] = ("ConcatFromSequence", _SCAN)
# A search for the names of operators is faster than a loop over nodes, unless the model has many weights.
_SMALL = 2**16  # bytes


def check(model: str | bytes, session: InferenceSession) -> tuple[str, bool]:
    """Raise an error if the CPU EP of a session runs ReverseSequence with lengths that can be 0.

    Return why each input of the model needs elements, or ``""``, and whether the model can have a Concat.
    """
    wanted = _WITHOUT_ELEMENTS
    if RELEASE < _MENDED:
        wanted += (_OPERATOR,)
    operators: set[str] = set()
    has_concat = True
    with suppress(Exception):  # such as a model in ORT format, which ORT itself reads
        if isinstance(model, bytes) and len(model) <= _SMALL:
            content = model
        else:
            content = nodes_of(model)
        has_concat = _CONCAT in content
        if any(name.encode() in content for name in wanted):
            operators = _operators(outline(model))
    operators = _on_cpu(session, operators.intersection(wanted))
    if _OPERATOR in operators:
        _check_lengths(model)
    for operator in _WITHOUT_ELEMENTS:
        if operator in operators:
            return f"without elements, ORT's {operator} returns memory of earlier runs", has_concat
    return "", has_concat


def _operators(model: ModelProto) -> set[str]:
    """Return the operators of all nodes, without those of an opset that rejects tensors without elements."""
    operators: set[str] = set()
    for body in (model.graph, *model.functions):
        for node in _nodes(body.node):
            operators.add(node.op_type)
    for opset in model.opset_import:
        is_onnx = opset.domain in ("", "ai.onnx")
        if is_onnx and opset.version > _SCAN_OPSET:
            operators.discard(_SCAN)
    return operators


def _nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Return these nodes, and those of their subgraphs. ORT runs no attribute of several graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g.node)


def _on_cpu(session: InferenceSession, operators: set[str]) -> set[str]:
    """Return the operators that the CPU EP of a session runs, as far as that is known."""
    if not operators:
        return operators
    nodes = recorded_nodes(session)
    if any(nodes.values()):
        on_cpu = {node.op_type for node in nodes.get(CPU, ())}
        return operators & on_cpu
    if OPENVINO in session.get_providers():  # it runs the operators itself
        return set()
    return operators


def _check_lengths(model: str | bytes) -> None:
    name = ""
    with suppress(Exception):  # such as a function that is not valid
        whole = model_file.read(model)
        if whole.functions:
            whole = inline_local_functions(whole)
        inputs_win = whole.ir_version >= 4
        name = _first(whole.graph, set(), inputs_win)
    if name:
        raise RuntimeError(
            f"The lengths of the {_OPERATOR} {show(name)} can be 0. Before ORT 1.28, the CPU EP does not write such a "
            "sequence, and a run returns memory of earlier runs. Install ORT 1.28 or newer, or make the lengths "
            "constants above 0"
        )


def _first(graph: GraphProto, data: set[str], inputs_win: bool) -> str:
    """Return the name of the first ReverseSequence of a graph whose lengths depend on data, or contain 0.

    :param data: the values outside of the graph that depend on data.
    :param inputs_win: whether a run can replace an initializer.
    """
    constants = {weight.name: weight for weight in graph.initializer}
    for value in graph.input:
        if inputs_win or value.name not in constants:
            data.add(value.name)
    for node in graph.node:
        if node.op_type == _OPERATOR:
            lengths = node.input[1]
            can_be_zero = lengths in data
            if not can_be_zero and lengths in constants:
                values = numpy_helper.to_array(constants[lengths])
                can_be_zero = not values.all()
            if can_be_zero:
                return node.name or node.output[0]
        reads_data = not data.isdisjoint(node.input)
        for attribute in node.attribute:
            if node.op_type == "Constant":
                constants[node.output[0]] = attribute.t
            reads_data |= len(attribute.g.node) > 0
            name = _first(attribute.g, set(data), inputs_win)
            if name:
                return name
        if reads_data and node.op_type not in _OF_SHAPES:
            data.update(node.output)
    return ""
