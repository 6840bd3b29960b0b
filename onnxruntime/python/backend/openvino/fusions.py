# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Finds pairs of nodes that the OpenVINO EP fuses or exchanges, with another shape or wrong values as the result.

Optimizers remove nodes that only copy. So such nodes can be between the two nodes of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from onnx import NodeProto

from onnxruntime.backend.openvino import copies
from onnxruntime.backend.openvino.copies import COPIES, REDUCE
from onnxruntime.backend.openvino.model_graph import Graph, attribute_of, named, with_inner
from onnxruntime.backend.openvino.structures import BOTH, BUILT_IN, PLUGIN, Structure

# Nodes between a pair. Without a limit, the time would be quadratic in the length of a chain of copies.
_MOST = 100
_PRODUCTS = ("Einsum", "Gemm", "MatMul")


def _find(
    is_fused: Callable[[Graph, NodeProto, NodeProto], bool],
    graph: Graph,
    parts: None,
) -> str:
    """Find a node that is the second one of a pair, also in subgraphs."""
    producers = _producers(graph)
    for node in with_inner(graph.nodes):
        for first in _before(graph, producers, node):
            if is_fused(graph, first, node):
                return named(node)
    return ""


def _producers(graph: Graph) -> dict[str, NodeProto]:
    """Return the node that computes each value, also in subgraphs."""
    producers = {}
    for node in with_inner(graph.nodes):
        for name in node.output:
            producers[name] = node
    return producers


def _before(graph: Graph, producers: dict[str, NodeProto], node: NodeProto) -> Iterator[NodeProto]:
    """Return the nodes that can compute the first input of a node if optimizers remove others."""
    waiting = list(node.input[:1])
    for _ in range(_MOST):
        if not waiting:
            return
        first = producers.get(waiting.pop())
        if first is None:
            continue
        yield first
        if first.op_type in COPIES and not _joins(first):
            waiting += copies.sources(graph, first)


def _joins(node: NodeProto) -> bool:
    return node.op_type == "Concat" and len(node.input) > 1


def _reduces_concat(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a node reduces only the axis along which a Concat joins."""
    if node.op_type not in ("ReduceMax", "ReduceMin"):
        return False
    if not _joins(first):
        return False
    axes = _axes(graph, node)
    shape = graph.shapes.get(first.output[0])
    is_next = first.output[0] == node.input[0]
    if not is_next or not axes or not shape:
        return True
    joined = attribute_of(first, "axis")
    return _normal([joined], shape) == _normal(axes, shape)


def _reduces_added(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a node reduces a tensor to which an Unsqueeze or a Reshape adds a dimension of size 1."""
    if node.op_type not in REDUCE:
        return False
    if first.op_type not in ("Unsqueeze", "Reshape"):
        return False
    axes = _axes(graph, node)
    shape = graph.shapes.get(node.input[0])
    if axes is None or not shape:
        return True
    if not axes:
        return False

    last = -1
    for axis, size in enumerate(shape):
        if size == 1:
            last = axis
    if min(_normal(axes, shape)) > last:
        return False
    return _keeps(node) or min(axes) < 0


def _reduces_reshaped(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a Reshape before a reduction adds a dimension of size 1, and also changes other dimensions."""
    if node.op_type not in REDUCE or first.op_type != "Reshape":
        return False
    before = _fixed(graph, first.input[0])
    after = _fixed(graph, first.output[0])
    if not before or not after:
        return False
    is_added = after.count(1) > before.count(1)
    return is_added and _others(before) != _others(after)


def _reduces_again(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a node with a negative axis repeats a reduction, and both remove the dimensions."""
    if node.op_type not in REDUCE or first.op_type != node.op_type:
        return False
    if _keeps(first) or _keeps(node):
        return False
    axes = _axes(graph, node)
    return axes is None or min(axes, default=0) < 0


def _moves_one(graph: Graph, parts: None) -> str:
    """Find a node that moves a dimension of size 1 after a reduction that removes others, or such a reduction."""
    moved = _find(_moves_after, graph, parts)
    if moved:
        return moved
    producers = _producers(graph)
    for node in with_inner(graph.nodes):
        if _removes(node) and _is_moved(graph, producers, node):
            return named(node)
    return ""


def _moves_after(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a node reshapes a reduced tensor to sizes of 1, except for one, at the axes that were reduced."""
    if node.op_type not in ("Flatten", "Reshape", "Transpose"):
        return False
    if not _removes(first):
        return False
    source = graph.shapes.get(first.input[0], [])
    before = graph.shapes.get(node.input[0], [])
    after = graph.shapes.get(node.output[0], [])
    if len(before) != len(after) or len(after) < 2:
        return False
    if before == after and 0 not in after:
        return False

    axes = _axes(graph, first)
    if axes is None or not source:
        return 1 in after
    reduced = _normal(axes, source)
    others = []
    for axis, size in enumerate(after):
        if size != 1 or axis not in reduced:
            others.append(axis)
    return len(others) < 2


def _is_moved(graph: Graph, producers: dict[str, NodeProto], node: NodeProto) -> bool:
    """Return whether Transpose nodes move only dimensions of size 1 among those that a reduction does not remove.

    The EP exchanges a Transpose and the nodes after it. So other nodes of the same rank can be between the two.
    """
    shape = graph.shapes.get(node.input[0], [])
    rank = len(shape)
    order = list(range(rank))
    waiting = [(node.input[0], order)]
    for _ in range(_MOST):
        if not waiting:
            return False
        name, order = waiting.pop()
        first = producers.get(name)
        if first is None:
            continue
        if first.op_type == "Transpose":
            permutation = list(reversed(range(rank)))
            for attribute in first.attribute:
                permutation = list(attribute.ints)

            order = [permutation[axis] for axis in order]
            reduced = _axes(graph, node)
            if _moves_kept(reduced, shape, order):
                return True

        for source in first.input:
            known = graph.shapes.get(source, [])
            if len(known) == rank:
                waiting.append((source, order))
    return False


def _moves_kept(axes: list[int] | None, shape: list[int], order: list[int]) -> bool:
    """Return whether an order of axes may move only sizes of 1 among those that are not reduced."""
    if axes is None:
        return True
    reduced = _normal(axes, shape)
    kept = []
    others = []
    for axis, before in enumerate(order):
        if axis in reduced:
            continue
        kept.append(before)
        if shape[axis] > 1:  # not 0, since onnx does not infer all sizes that the EP infers
            others.append(before)
    return kept != sorted(kept) and others == sorted(others)


def _gathers_added(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a node gathers from a dimension that an Unsqueeze adds to a tensor of dynamic shape."""
    if node.op_type != "Gather" or first.op_type != "Unsqueeze":
        return False
    indices = graph.shapes.get(node.input[1])
    if indices == []:
        return False
    added = _axes(graph, first)
    shape = graph.shapes.get(node.input[0])
    if not added or not shape:
        return True
    if 0 not in shape:
        return False
    gathered = attribute_of(node, "axis")
    return _normal([gathered], shape) <= _normal(added, shape)


def _gathers_joined(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a node gathers from a Concat with an input of one element."""
    if node.op_type != "Gather" or first.op_type != "Concat":
        return False
    if node.output[0] in graph.from_shapes:
        return False
    for name in first.input:
        shape = graph.shapes.get(name, [])
        if shape and max(shape) == min(shape) == 1:
            return True
    return False


def _reshapes_to_scalar(graph: Graph, first: NodeProto, node: NodeProto) -> bool:
    """Return whether a node reshapes a value to a scalar in a graph with a product of matrices."""
    shape = graph.shapes.get(node.output[0])
    if shape != [] or node.output[0] in graph.from_shapes:
        return False
    squeezes = node.op_type == "Squeeze" and first.op_type == "Reshape"
    if node.op_type != "Reshape" and not squeezes:
        return False
    return any(other.op_type in _PRODUCTS for other in with_inner(graph.nodes))


def _removes(node: NodeProto) -> bool:
    """Return whether a node reduces dimensions, and removes them."""
    if not node.op_type.startswith("Reduce"):
        return False
    return not _keeps(node)


def _keeps(node: NodeProto) -> bool:
    return bool(attribute_of(node, "keepdims", 1))


def _fixed(graph: Graph, name: str) -> list[int]:
    """Return the shape of a value, ``[]`` if it is not known or can differ between runs."""
    shape = graph.shapes.get(name, [])
    if 0 in shape:
        return []
    return shape


def _others(shape: list[int]) -> list[int]:
    """Return the sizes that are not 1."""
    return [size for size in shape if size != 1]


def _normal(axes: list[int], shape: list[int]) -> set[int]:
    """Return axes that are not negative."""
    return {axis % len(shape) for axis in axes}


def _axes(graph: Graph, node: NodeProto) -> list[int] | None:
    """Return the axes of a node, from its attribute or its second input; ``None`` if they are not known."""
    for attribute in node.attribute:
        if attribute.name == "axes":
            return list(attribute.ints)
    if len(node.input) < 2 or not node.input[1]:
        return []
    numbers = graph.numbers.get(node.input[1])
    if numbers is None:
        return None
    return numbers.ravel().astype(int).tolist()


STRUCTURES = (
    Structure(
        partial(_find, _reduces_concat),
        (BUILT_IN,),
        "reduces the axis of a Concat. The EP returns another shape",
        "Reduce the inputs of the Concat before it",
        in_memory=False,
    ),
    Structure(
        partial(_find, _reduces_added),
        BOTH,
        "reduces after an Unsqueeze or Reshape that adds a dimension of size 1. The EP returns another shape",
        "Reduce before the other node",
        in_memory=False,
    ),
    Structure(
        partial(_find, _reduces_reshaped),
        (BUILT_IN,),
        "reduces after a Reshape that adds a dimension of size 1, and changes others. The EP returns another shape",
        "Use two Reshape nodes, and reduce between them",
        in_memory=False,
    ),
    Structure(
        partial(_find, _reduces_again),
        (BUILT_IN,),
        "repeats a reduction with a negative axis. The EP returns another shape",
        "Use one node with all axes",
        in_memory=False,
    ),
    Structure(
        _moves_one,
        BOTH,
        "is next to a node that removes dimensions or moves one of size 1. The EP returns another shape",
        "Use keepdims=1 in the reduction",
        in_memory=False,
    ),
    Structure(
        partial(_find, _gathers_added),
        BOTH,
        "gathers from a dimension that an Unsqueeze adds. The EP returns another shape",
        "Replace the node by Expand",
        in_memory=False,
    ),
    Structure(
        partial(_find, _gathers_joined),
        BOTH,
        "gathers from a Concat with an input of one element. The EP returns memory that was not written",
        "Use Slice in place of Gather",
    ),
    Structure(
        partial(_find, _reshapes_to_scalar),
        (PLUGIN,),
        "reshapes a value to a scalar, and the model has a product of matrices. The EP terminates the process",
        "Use Squeeze in place of Reshape",
    ),
)
