# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds structures with which the OpenVINO EP returns wrong values, or writes into memory of the caller.

The program ``backend_openvino_graphs.py``, next to the tests, found most of them. Trials of pairs of operators found
others (:mod:`.fusions`), and their tests run each pair on the EP. Run the program and the tests for another release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from onnx import GraphProto, NodeProto, TensorProto

from onnxruntime.backend.openvino import copies, fusions
from onnxruntime.backend.openvino.copies import COPIES, SUBGRAPHS
from onnxruntime.backend.openvino.model_graph import (
    ONNX,
    Graph,
    Parts,
    named,
    names_in,
    subgraphs,
    types_named,
    with_inner,
)
from onnxruntime.backend.openvino.parallel_models import OPERATORS
from onnxruntime.backend.openvino.structures import BOTH, BUILT_IN, PLUGIN, Structure

_UNKNOWN = (0,) * 8  # a shape
_LOOPS = SUBGRAPHS - {"If"}
# By operator, the inputs whose values it does not need.
_NOT_READ = {
    "Shape": (0,),
    "Size": (0,),
    "EyeLike": (0,),
    "RandomNormalLike": (0,),
    "RandomUniformLike": (0,),
    "CastLike": (1,),
    "Dropout": (1, 2),
    "Resize": (1,),
    "LSTM": (4,),
    "GRU": (4,),
    "RNN": (4,),
}
# Operators that the EP does not convert with each attribute or type. ``backend_parallel_operators.py`` runs the others.
_PARTLY = ("Celu", "Dropout", "Mod", "Pad", "Resize", "Split")
_CONVERTED = OPERATORS.keys() - _PARTLY
# Types of values that the EP converts in each form.
_TYPES = types_named("FLOAT FLOAT16 DOUBLE BOOL INT8 INT32 INT64 UINT8")


def problem(
    structures: tuple[Structure, ...], form: str, examined: bool, graph: Graph, parts: Parts | None = None
) -> str:
    """Return which structure a model has, the defect, and what to do; ``""`` if it has none.

    :param examined: whether the release and the device of the EP are the examined ones.
    :param parts: the parts of the graph that the EP compiles, for :data:`OF_PARTS`.
    """
    for structure in structures:
        if form not in structure.forms or not (examined or structure.in_memory):
            continue
        place = structure.find(graph, parts)
        if place:
            return f"{place} {structure.effect} ({form}). {structure.step}"
    return ""


def _first(
    is_unsafe: Callable[[Graph, NodeProto], bool],
    graph: Graph,
    parts: None,
) -> str:
    """Find a node with a structure, also in subgraphs."""
    for node in with_inner(graph.nodes):
        if is_unsafe(graph, node):
            return named(node)
    return ""


def _not_read(graph: Graph, parts: Parts) -> str:
    """Find a value that enters a part before another one, and that the EP may remove from it."""
    read = set(graph.outputs)
    for node in reversed(graph.nodes):
        is_needed = not read.isdisjoint(node.output) or any(map(parts.enters, node.output))
        if is_needed:
            read.update(_read_by(graph, node))
        if node.op_type in _LOOPS and node.op_type not in parts.operators:  # on the CPU EP, which reads all inputs
            read.update(names_in(node))
            for body in subgraphs(node):
                unread = {value.name for value in body.input} - _read_in(graph, body)
                is_compiled = not parts.operators.isdisjoint(inner.op_type for inner in body.node)
                if unread and is_compiled:
                    return f"the input '{min(unread)}' of the body of a {node.op_type}"
    if parts.is_whole:
        for name in graph.inputs[:-1]:  # the last one has no input after it
            if name not in read:
                return f"the input '{name}'"
        return ""
    for name in graph.readers:
        if name not in read and name not in graph.constants and parts.crosses(name):
            return f"the value '{name}'"
    return ""


def _read_in(graph: Graph, subgraph: GraphProto) -> set[str]:
    """Return the values that the EP needs for the outputs of a subgraph."""
    read = {output.name for output in subgraph.output}
    for node in reversed(subgraph.node):
        if not read.isdisjoint(node.output):
            read |= _read_by(graph, node)
    return read


def _read_by(graph: Graph, node: NodeProto) -> set[str]:
    """Return the values that the EP needs for a node whose outputs it needs."""
    if node.op_type == "If":
        return _read_by_branches(graph, node)
    if node.op_type in SUBGRAPHS:
        return set()
    skipped = _NOT_READ.get(node.op_type, ())
    if node.op_type == "Where" and node.input[0] in graph.constants:
        skipped = (1, 2)
    return {name for number, name in enumerate(node.input) if number not in skipped}


def _read_by_branches(graph: Graph, node: NodeProto) -> set[str]:
    read = set(node.input)
    operators = set()
    for branch in subgraphs(node):
        operators.update(inner.op_type for inner in branch.node)
        read |= _read_in(graph, branch)
    # ORT or the EP may compute the condition when it compiles the graph, or see that the branches are equal.
    is_decided = node.input[0] in graph.from_shapes or operators <= COPIES
    return set() if is_decided else read


def _branch(graph: Graph, parts: Parts) -> str:
    """Find an If with a branch that returns a copy of a value from outside."""
    if not parts.are_dynamic or "If" not in parts.operators:
        return ""
    for node in graph.nodes:
        if node.op_type == "If" and copies.returns_captured(graph, node):
            return named(node)
    return ""


def joined(graph: Graph, parts: Parts) -> str:
    """Return a Concat of copies of values that the EP receives, ``""`` if there is none.

    If the shapes can differ, parallel runs use each other's memory of these values. Other runs are right.
    """
    received = set(graph.inputs)
    for node in graph.nodes if parts.are_dynamic else ():
        is_copy = not received.isdisjoint(node.input) and node.op_type in COPIES
        if is_copy and node.op_type == "Concat":
            return node.output[0]
        for name in node.output:
            if is_copy or parts.enters(name):
                received.add(name)
    return ""


def _abs_of_concat(graph: Graph, parts: Parts) -> str:
    """Find a Concat whose copy leaves a part, and whose copy is the input of an Abs."""
    concat_of: dict[str, str] = {}
    of_abs = set()
    for node in graph.nodes:
        sources = [concat_of[name] for name in node.input if name in concat_of]
        if node.op_type == "Concat":
            concat_of[node.output[0]] = node.output[0]
        elif node.op_type == "Abs":
            of_abs.update(sources)
        elif node.op_type in COPIES and sources:
            concat_of.update(dict.fromkeys(node.output, sources[-1]))
    for name, source in concat_of.items():
        if source in of_abs and parts.crosses(name):
            return f"the value '{name}'"
    return ""


def _attention(graph: Graph, parts: Parts) -> str:
    """Find an attention that can have as many heads as tokens."""
    for node in graph.nodes:
        if node.op_type != "Transpose" or parts.are_dynamic:
            continue
        weighted = _source(graph, node, "MatMul")
        if weighted is None or _source(graph, weighted, "Softmax") is None:
            continue
        shape = graph.shapes.get(weighted.output[0], [])
        if len(shape) == 4:
            heads, tokens = shape[1:3]
            if 0 in (heads, tokens) or heads == tokens > 1:
                return named(node)
    return ""


def _source(graph: Graph, node: NodeProto, operator: str) -> NodeProto | None:
    """Return the node that computes the first input of a node, if it has an operator. Skip nodes that return it."""
    source = graph.producer(node)
    while source is not None and source.op_type in ("Identity", "Dropout", "Cast"):
        source = graph.producer(source)
    if source is not None and source.op_type == operator:
        return source
    return None


def _is_of_one_input(graph: Graph, node: NodeProto) -> bool:
    if node.op_type == "Mean" and len(graph.nodes) == 1:
        return False
    return node.op_type in ("Sum", "Max", "Min", "Mean") and len(node.input) == 1


def _has_repeats(graph: Graph, node: NodeProto) -> bool:
    if node.op_type != "Tile" or node.input[1] in graph.from_shapes:
        return False
    return len(graph.shapes.get(node.input[0], _UNKNOWN)) >= 4


def _tiles_second(graph: Graph, node: NodeProto) -> bool:
    """Return whether a Tile of a dynamic shape repeats a second dimension of size 1, and a later one."""
    if node.op_type != "Tile":
        return False
    shape = graph.shapes.get(node.input[0], _UNKNOWN)
    if len(shape) < 4 or shape[1] != 1 or 0 not in shape:
        return False
    numbers = graph.numbers.get(node.input[1])
    return numbers is None or (numbers[1] > 1 and max(numbers[2:]) > 1)


def _expands_scalar(graph: Graph, node: NodeProto) -> bool:
    if node.op_type != "Expand" or node.output[0] not in graph.producers:
        return False
    return not graph.shapes.get(node.input[0]) and graph.shapes.get(node.input[1], [0]) == [0]


def _is_shape_of_scalar(graph: Graph, node: NodeProto) -> bool:
    return node.op_type == "Shape" and graph.shapes.get(node.input[0]) == []


def _is_of_folded_one(graph: Graph, node: NodeProto) -> bool:
    """Return whether a NonZero is of one element, in four dimensions or more, that does not depend on an input."""
    if node.op_type != "NonZero" or node.input[0] not in graph.from_shapes:
        return False
    shape = graph.shapes.get(node.input[0], _UNKNOWN)
    return len(shape) >= 4 and max(shape) <= 1


def _clips_int64(graph: Graph, node: NodeProto) -> bool:
    return _lacks_limit(node) and graph.types.get(node.input[0], 0) in (TensorProto.INT64, 0)


def _constant_not_read(graph: Graph, parts: None) -> str:
    """Find a constant of uint32 whose values are in a field of numbers."""
    for name, tensor in _constants_in(graph.content):
        has_bytes = tensor.HasField("raw_data") or tensor.data_location == TensorProto.EXTERNAL
        if tensor.data_type == TensorProto.UINT32 and not has_bytes:
            return f"the constant '{name}'"
    return ""


def _constants_in(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Return the constants of a graph and of its subgraphs by name."""
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield node.output[0], attribute.t
        for body in subgraphs(node):
            yield from _constants_in(body)


def clips_unconverted(graph: Graph, parts: None) -> str:
    """Find a Clip without a limit that uses a value of a node that the EP may not convert."""
    unconverted = set()
    for name, kind in graph.types.items():
        if kind not in _TYPES:
            unconverted.add(name)
    for node in graph.nodes:
        # The EP does not convert further outputs of some operators.
        is_known = node.domain in ONNX and node.op_type in _CONVERTED and len(node.output) == 1
        if not is_known or not unconverted.isdisjoint(names_in(node)):
            unconverted.update(node.output)
        for clip in filter(_lacks_limit, with_inner([node])):
            if clip is not node or node.output[0] in unconverted:
                return named(clip)
    return ""


def _lacks_limit(node: NodeProto) -> bool:
    """Return whether a node is a Clip without a minimum or a maximum."""
    if node.op_type != "Clip" or node.attribute:  # before opset 11, the limits are attributes
        return False
    return len(node.input) < 3 or "" in node.input


#: The structures that need only the model: some of them terminate the process when the EP compiles it.
OF_MODELS = (
    Structure(
        partial(_first, _is_of_one_input),
        BOTH,
        "has one input. The EP returns memory that was not written",
        "Replace the node by Identity",
    ),
    Structure(
        partial(_first, _has_repeats),
        BOTH,
        "has repeats that are not constant. The EP returns memory that was not written",
        "Make the repeats an initializer",
    ),
    Structure(
        partial(_first, _tiles_second),
        (PLUGIN,),
        "repeats a second dimension of size 1, and a later one. The EP returns wrong values",
        "Use two Tile nodes, or fix the shape",
        in_memory=False,
    ),
    Structure(
        partial(_first, _expands_scalar),
        BOTH,
        "expands a scalar to a scalar. The EP terminates the process, or returns another shape",
        "Remove the node",
    ),
    Structure(
        partial(_first, _is_shape_of_scalar),
        (BUILT_IN,),
        "is the shape of a scalar, which has no elements. The EP can terminate the process",
        "Remove the node",
    ),
    Structure(
        copies.casts_after_subgraph,
        BOTH,
        "follows an If, a Loop, or a Scan and two casts. The EP can return memory that was not written",
        "Remove a cast",
    ),
    Structure(
        clips_unconverted,
        BOTH,
        "has no minimum or no maximum, and follows a node that the EP may not convert. It can terminate the process",
        "Add both limits",
    ),
    Structure(
        _constant_not_read,
        (BUILT_IN,),
        "is of uint32, and not in raw_data. The EP reads none of its values",
        "Create it with onnx.numpy_helper.from_array",
        in_memory=False,
    ),
    Structure(
        partial(_first, _is_of_folded_one),
        (PLUGIN,),
        "is of one element in four dimensions or more. The EP returns wrong indices",
        "Reshape the input to one dimension",
        in_memory=False,
    ),
    Structure(
        partial(_first, _clips_int64),
        (BUILT_IN,),
        "clips int64 without a minimum or a maximum. The EP returns zeros",
        "Add both limits",
        in_memory=False,
    ),
    *fusions.STRUCTURES,
)
#: The structures that depend on the parts that the EP compiles.
OF_PARTS = (
    Structure(
        copies.cast_copy,
        BOTH,
        "is a copy, with a cast, of a value that the EP receives. A run writes into arrays of earlier runs",
        "Remove the cast or the output",
    ),
    Structure(
        copies.cast_of_copy,
        (BUILT_IN,),
        "is a cast of a copy of a value that the EP receives, and the copy is an output. Its memory is not written",
        "Cast the value itself",
    ),
    Structure(
        _not_read,
        (BUILT_IN,),
        "may not be read. The EP removes such an input, and reads later inputs from wrong arrays",
        "Remove it from the model, or make it the last input",
    ),
    Structure(
        _branch,
        (BUILT_IN,),
        "has a branch that returns a copy of a value from outside. The EP overwrites this value",
        "Compute the output of the branch",
    ),
    Structure(
        _abs_of_concat,
        BOTH,
        "is an output of Concat and the input of Abs. The EP returns the output of Abs in its place",
        "Compute the absolute values of the inputs of Concat",
        in_memory=False,
    ),
    Structure(
        _attention,
        BOTH,
        "is of an attention that can have as many heads as tokens. The EP mixes them up, and equal runs can differ",
        "Use other sizes, or free dimensions",
    ),
)
