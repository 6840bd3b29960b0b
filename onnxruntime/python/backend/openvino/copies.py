# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds the values of a graph that are copies of others.

Optimizers of ORT and of OpenVINO remove nodes that only copy. So a *copy* is a value that is computed from another one
by operators that can be such nodes.
"""

from __future__ import annotations

from typing import NamedTuple

from onnx import NodeProto, TensorProto

from onnxruntime.backend.openvino.model_graph import UNKNOWN, Graph, Parts, names_in, types_named

SUBGRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
_CASTS = SUBGRAPHS | {"Cast", "CastLike"}
# The types that the built-in EP converts, and 0, for a type that is not known.
_CONVERTED = types_named("BOOL FLOAT16 INT16 INT64 UINT16 UINT32").union((0,))
_QUANTIZATIONS = ("DequantizeLinear", "QuantizeLinear")
# Operators that return an input if all other inputs are this number.
_NEUTRAL = {
    **dict.fromkeys(("Add", "Sub", "Or", "Xor", "BitShift", "BitwiseOr", "BitwiseXor"), 0),
    **dict.fromkeys(("Mul", "Div", "Pow", "And"), 1),
}
# Operators that return an input if all other inputs are equal to it.
_SELECTIONS = frozenset(("And", "BitwiseAnd", "BitwiseOr", "Max", "Mean", "Min", "Or", "Sum"))
REDUCE = frozenset(["ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"])
# Operators that return their first input if the attributes and the other inputs are certain ones.
_OF_FIRST = """
    AveragePool BitwiseNot Cast CastLike Ceil CenterCropPad Clip Compress DepthToSpace Dropout Expand Flatten Floor
    Gather GatherElements GatherND Identity LpPool MaxPool Mod Neg Not Pad Reciprocal ReduceLogSumExp Reshape Resize
    ReverseSequence Round Slice SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze Upsample
"""
_OF_FIRST = REDUCE.union(_OF_FIRST.split())
_OF_ANY = SUBGRAPHS.union(("Concat", "Scatter", "ScatterElements", "ScatterND"))
COPIES = _OF_FIRST.union(_OF_ANY, _NEUTRAL, _SELECTIONS, ("Where",))
# The types for which the EP computes Tile. For others, it adds a cast before it, and one after it.
_TILED = types_named("FLOAT DOUBLE INT8 INT32 INT64 UINT8")


class _Copy(NamedTuple):
    kinds: frozenset[int]  # the types of the values of which it is a copy
    has_cast: bool  # whether a cast is between them


def cast_copy(graph: Graph, parts: Parts) -> str:
    """Find a value that leaves a part as a copy, with a cast, of a value of the same type that enters the part."""
    if not parts.are_dynamic:
        return ""
    copies = {}
    for name in graph.inputs:
        copies[name] = _Copy(frozenset({_kind_of(graph, name)}), False)

    for node in graph.nodes:
        found = _copied(graph, node, copies)
        for name in node.output:
            if name in graph.constants:
                continue
            kind = _kind_of(graph, name)
            if found is not None:
                is_same = kind == 0 or not found.kinds.isdisjoint((kind, 0))
                if found.has_cast and is_same and parts.crosses(name):
                    what = "value"
                    if name in graph.outputs:
                        what = "output"
                    return f"the {what} '{name}'"
                copies[name] = found
            if parts.enters(name):
                known = found or _Copy(frozenset(), False)
                copies[name] = known._replace(kinds=known.kinds | {kind})
    return ""


def _copied(graph: Graph, node: NodeProto, copies: dict[str, _Copy]) -> _Copy | None:
    """Return of which values the outputs of a node can be copies."""
    if node.op_type == "If":
        found = _copied_by_branches(graph, node, copies)
    else:
        found = []
        for name in sources(graph, node):
            if name in copies:
                found.append(copies[name])
    if not found:
        return None
    kinds: frozenset[int] = frozenset()
    has_cast = node.op_type in _CASTS
    if node.op_type == "Tile":
        has_cast = graph.types.get(node.input[0]) not in _TILED

    for copy in found:
        kinds |= copy.kinds
        has_cast = has_cast or copy.has_cast
    return _Copy(kinds, has_cast)


def _copied_by_branches(graph: Graph, node: NodeProto, copies: dict[str, _Copy]) -> list[_Copy]:
    inner = dict(copies)
    found = []
    for attribute in node.attribute:
        for of_branch in attribute.g.node:
            copy = _copied(graph, of_branch, inner)
            if copy is not None:
                inner.update(dict.fromkeys(of_branch.output, copy))
        for output in attribute.g.output:
            if output.name in inner:
                found.append(inner[output.name])
    return found


def cast_of_copy(graph: Graph, parts: Parts) -> str:
    """Find a cast of an output that is a copy of a value that the EP receives."""
    received = set(graph.inputs)
    left: set[str] = set()  # copies of these values that are outputs, and copies of them
    for node in graph.nodes:
        is_cast = node.op_type in ("Cast", "CastLike")
        if is_cast and node.input[0] in left and graph.types[node.input[0]] in _CONVERTED:
            return f"the value '{node.output[0]}'"
        used = sources(graph, node)
        is_copy = not received.isdisjoint(used)
        for name in node.output:
            if is_copy:
                received.add(name)
                if name in graph.outputs or not left.isdisjoint(used):
                    left.add(name)
            elif parts.enters(name):
                received.add(name)
    return ""


def casts_after_subgraph(graph: Graph, parts: None) -> str:
    """Find a value that two or more casts compute from an output of dynamic shape of an If, a Loop, or a Scan."""
    casts: dict[str, int] = {}
    for node in graph.nodes:
        if node.op_type in SUBGRAPHS:
            for name in node.output:
                if 0 in graph.shapes.get(name, UNKNOWN):
                    casts[name] = 0
            continue
        used = sources(graph, node)
        if node.op_type in _QUANTIZATIONS:  # can be a cast
            used = list(node.input[:1])
        counts = [casts[name] for name in used if name in casts]
        if not counts:
            continue
        number = max(counts)
        if node.op_type in _CASTS or node.op_type in _QUANTIZATIONS:
            number += 1
        if number > 1:
            return f"the value '{node.output[0]}'"
        casts.update(dict.fromkeys(node.output, number))
    return ""


def returns_captured(graph: Graph, node: NodeProto) -> bool:
    """Return whether a branch of an If returns a copy of a value from outside."""
    captured = {*graph.inputs, *graph.producers} - graph.constants
    return _copied(graph, node, dict.fromkeys(captured, _Copy(frozenset(), False))) is not None


def sources(graph: Graph, node: NodeProto) -> list[str]:
    """Return the values of which the outputs of a node can be copies, if it is not an If."""
    operator = node.op_type
    if operator in _OF_FIRST:
        return list(node.input[:1])
    if operator == "Where":
        return list(node.input[1:])
    varying = []
    for name in names_in(node):
        if name not in graph.constants:
            varying.append(name)

    if operator in _NEUTRAL and len(varying) == 1:
        if _has_other_numbers(graph, node):
            return []
        return varying
    if operator in _OF_ANY or operator in _SELECTIONS:
        return varying
    return []


def _has_other_numbers(graph: Graph, node: NodeProto) -> bool:
    """Return whether a constant input of a node is known not to be the neutral number of its operator."""
    for name in node.input:
        numbers = graph.numbers.get(name)
        if numbers is not None and (numbers != _NEUTRAL[node.op_type]).any():
            return True
    return False


def _kind_of(graph: Graph, name: str) -> int:
    kind = graph.types[name]
    return TensorProto.UINT8 if kind == TensorProto.BOOL else kind  # the EP does not distinguish them
