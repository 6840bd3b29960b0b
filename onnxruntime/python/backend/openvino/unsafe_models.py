# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds structures with which the OpenVINO EP returns wrong values, or writes into memory of the caller.

The program ``backend_openvino_graphs.py``, next to the tests, found them. Run it again for another release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto

from onnxruntime.backend.openvino import copies
from onnxruntime.backend.openvino.copies import COPIES, REDUCE, SUBGRAPHS
from onnxruntime.backend.openvino.model_graph import Graph, Parts, attribute_of, names_in

# The examined releases, which are those of parallel_models.py.
BUILT_IN, PLUGIN = "onnxruntime-openvino 1.24.1", "onnxruntime-ep-openvino 1.8.1"
FORMS = {"built-in": BUILT_IN, "plugin": PLUGIN}
BOTH = (BUILT_IN, PLUGIN)

_MAY_BE_SCALAR = SUBGRAPHS.union(("Gather", "Reshape", "Size", "Squeeze", "Expand"), REDUCE)
_KEEP_SCALARS = COPIES.difference(("Unsqueeze", "Concat")).union(("Abs", "Relu"))
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


class Structure(NamedTuple):
    """A structure of a model that is refused."""

    find: Callable[..., str]  # returns what has it, such as "the output 'y'", or ""
    forms: tuple[str, ...]  # the forms of the EP that have the defect, in their examined release
    effect: str
    step: str
    in_memory: bool = True  # whether the defect concerns memory. Then it is refused for other releases, too


def problem(structures: tuple[Structure, ...], form: str, examined: bool, *facts: object) -> str:
    """Return which structure a model has, the defect, and what to do; ``""`` if it has none.

    :param examined: whether the release and the device of the EP are the examined ones.
    :param facts: the graph, and for :data:`OF_PARTS` its parts.
    """
    for structure in structures:
        if form not in structure.forms or not (examined or structure.in_memory):
            continue
        place = structure.find(*facts)
        if place:
            return f"{place} {structure.effect} ({form}). {structure.step}"
    return ""


def _not_read(graph: Graph, parts: Parts) -> str:
    """Find a value that enters a part before another one, and that the EP may remove from it."""
    read = set(graph.outputs)
    for node in reversed(graph.nodes):
        is_needed = not read.isdisjoint(node.output) or any(map(parts.enters, node.output))
        if is_needed:
            read.update(_read_by(graph, node))
        is_loop = node.op_type in SUBGRAPHS and node.op_type != "If"
        if is_loop and node.op_type not in parts.operators:  # on the CPU EP, which reads all inputs
            read.update(names_in(node))
    if parts.is_whole:
        for name in graph.inputs[:-1]:  # the last one has no input after it
            if name not in read:
                return f"the input '{name}'"
        return ""
    for name in graph.readers:
        if name not in read and name not in graph.constants and parts.crosses(name):
            return f"the value '{name}'"
    return ""


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
    for attribute in node.attribute:
        needed = {output.name for output in attribute.g.output}
        for inner in reversed(attribute.g.node):
            operators.add(inner.op_type)
            if not needed.isdisjoint(inner.output):
                needed |= _read_by(graph, inner)
        read |= needed
    # ORT or the EP may compute the condition when it compiles the graph, or see that the branches are equal.
    is_decided = graph.follows_from_shapes(node.input[0]) or operators <= COPIES
    return set() if is_decided else read


def _branch(graph: Graph, parts: Parts) -> str:
    """Find an If with a branch that returns a copy of a value from outside."""
    if not parts.are_dynamic or "If" not in parts.operators:
        return ""
    for node in graph.nodes:
        for attribute in node.attribute:
            if node.op_type == "If" and _returns_captured(graph, attribute.g):
                return _named(node)
    return ""


def _returns_captured(graph: Graph, branch: GraphProto) -> bool:
    computed = graph.constants | {tensor.name for tensor in branch.initializer}
    for node in branch.node:
        if computed.issuperset(copies.sources(graph, node)):
            computed.update(node.output)
    returned = {output.name for output in branch.output}
    return not returned <= computed


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
        if node.op_type == "Concat":
            concat_of[node.output[0]] = node.output[0]
            continue
        for name in node.input:
            if name in concat_of and node.op_type == "Abs":
                of_abs.add(concat_of[name])
            if name in concat_of and node.op_type in COPIES:
                concat_of.update(dict.fromkeys(node.output, concat_of[name]))
    for name, source in concat_of.items():
        if source in of_abs and parts.crosses(name):
            return f"the value '{name}'"
    return ""


def _attention(graph: Graph, parts: Parts) -> str:
    """Find an attention that can have as many heads as tokens."""
    for node in graph.nodes:
        if node.op_type != "Transpose" or parts.are_dynamic:
            continue
        weighted = _before_identities(graph, node)
        if weighted is None or weighted.op_type != "MatMul":
            continue
        weights = _before_identities(graph, weighted)
        if weights is None or weights.op_type != "Softmax":
            continue
        shape = parts.shape_of(weighted.output[0])
        if len(shape) != 4:
            continue
        heads, tokens = shape[1:3]
        is_known = heads > 0 and tokens > 0
        if not is_known or heads == tokens > 1:
            return _named(node)
    return ""


def _before_identities(graph: Graph, node: NodeProto) -> NodeProto | None:
    """Return the node that computes the first input of a node, without nodes that return their input."""
    producer = graph.producer(node)
    while producer is not None and producer.op_type in ("Identity", "Dropout", "Cast"):
        producer = graph.producer(producer)
    return producer


def _of_one_input(graph: Graph) -> str:
    operators = {"Sum", "Max", "Min"}
    if len(graph.nodes) > 1:
        operators.add("Mean")
    for node in graph.all_nodes():
        if node.op_type in operators and len(node.input) == 1:
            return _named(node)
    return ""


def _tile(graph: Graph) -> str:
    for node in graph.all_nodes():
        if node.op_type == "Tile" and graph.ranks.get(node.input[0], 4) >= 4:
            if not graph.follows_from_shapes(node.input[1]):
                return _named(node)
    return ""


def _expanded_scalar(graph: Graph) -> str:
    scalars = {name for name, rank in graph.ranks.items() if rank == 0}
    shapes_of_scalars = set(graph.without_elements)
    for node in graph.nodes:
        used = names_in(node)
        if node.op_type == "Expand" and node.input[0] in scalars and node.input[1] in shapes_of_scalars:
            return _named(node)
        if not used:
            continue
        if node.op_type == "Shape" and scalars.issuperset(used):
            shapes_of_scalars.update(node.output)
        if node.op_type in COPIES and shapes_of_scalars.issuperset(used):
            shapes_of_scalars.update(node.output)
        keeps = node.op_type in _KEEP_SCALARS and scalars.issuperset(used)
        if keeps or node.op_type in _MAY_BE_SCALAR:
            for name in node.output:
                if graph.ranks.get(name, 0) == 0:
                    scalars.add(name)
    return ""


def _shape_of_scalar(graph: Graph) -> str:
    for node in graph.all_nodes():
        if node.op_type == "Shape" and graph.ranks.get(node.input[0]) == 0:
            return _named(node)
    return ""


def _reduced_concat(graph: Graph) -> str:
    """Find a reduction of the axis along which a Concat joins."""
    for node in graph.all_nodes():
        producer = graph.producer(node)
        if node.op_type not in REDUCE or producer is None or producer.op_type != "Concat":
            continue
        joined = attribute_of(producer, "axis")
        reduced = _axes(graph, node)
        rank = graph.ranks.get(producer.output[0], graph.ranks.get(producer.input[0], 0))
        if rank:
            joined %= rank
            reduced = [axis % rank for axis in reduced]
        if not reduced or joined in reduced:
            return _named(node)
    return ""


def _reduced_unsqueeze(graph: Graph) -> str:
    """Find a reduction that keeps its dimensions, before a dimension of size 1 that another node adds."""
    for node in graph.all_nodes():
        producer = graph.producer(node)
        if node.op_type not in REDUCE or producer is None or not attribute_of(node, "keepdims", 1):
            continue
        added = _axes(graph, producer)
        if producer.op_type == "Unsqueeze":
            rank = graph.ranks.get(producer.input[0], 8) + len(added)
        elif producer.op_type == "Reshape":
            rank = len(added)
            added = [axis for axis, size in enumerate(added) if size == 1]
        else:
            continue
        reduced = _axes(graph, node)
        if added and reduced:
            first = min(axis % rank for axis in reduced)
            last = max(axis % rank for axis in added)
            if first < last:
                return _named(node)
    return ""


def _axes(graph: Graph, node: NodeProto) -> list[int]:
    """Return the axes of a node, from its attribute or its second input. For a Reshape, this is the shape."""
    for attribute in node.attribute:
        if attribute.name == "axes":
            return list(attribute.ints)
    if len(node.input) < 2:
        return []
    numbers = graph.numbers.get(node.input[1], np.empty(0))
    return numbers.ravel().astype(int).tolist()


def _clip(graph: Graph) -> str:
    for node in graph.all_nodes():
        if node.op_type == "Clip" and graph.type_of(node.input[0]) == TensorProto.INT64:
            if len(node.input) < 3 or "" in node.input:
                return _named(node)
    return ""


def _named(node: NodeProto) -> str:
    return f"the {node.op_type} node with the output '{node.output[0]}'"


#: The structures that need only the model: some of them terminate the process when the EP compiles it.
OF_MODELS = (
    Structure(
        _of_one_input,
        (BUILT_IN,),
        "has one input. The EP returns memory that was not written",
        "Replace the node by Identity",
    ),
    Structure(
        _tile,
        BOTH,
        "has repeats that are not constant. The EP returns memory that was not written",
        "Make the repeats an initializer",
    ),
    Structure(
        _expanded_scalar,
        BOTH,
        "expands a scalar to a scalar. The EP terminates the process, or returns another shape",
        "Remove the node",
    ),
    Structure(
        _shape_of_scalar,
        (BUILT_IN,),
        "is the shape of a scalar, which has no elements. The EP can terminate the process",
        "Remove the node",
    ),
    Structure(
        _reduced_concat,
        (BUILT_IN,),
        "reduces the axis of a Concat. The EP returns another shape",
        "Reduce the inputs of the Concat before it",
        in_memory=False,
    ),
    Structure(
        _reduced_unsqueeze,
        BOTH,
        "reduces a dimension before one of size 1, which an Unsqueeze or Reshape adds. The EP returns another shape",
        "Reduce before the other node, or with keepdims=0",
        in_memory=False,
    ),
    Structure(
        _clip,
        (BUILT_IN,),
        "clips int64 without a minimum or a maximum. The EP returns zeros",
        "Add both limits",
        in_memory=False,
    ),
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
