# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Applies free dimension overrides, and verifies the input shapes of the session afterwards.

ORT ignores unknown dimension names and cuts names at a NUL character. This module checks the names against the model
before ORT receives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain

import onnx

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.conditions import Circumstances
from onnxruntime.backend.allowlist.rules import Permit
from onnxruntime.backend.allowlist.session_config import FOLDING_CAP, MOST_FOLDED, SESSION_CONFIG
from onnxruntime.backend.errors import reject, show
from onnxruntime.backend.provider_names import COMPILING
from onnxruntime.backend.session import model_file

_KEYWORD = "free_dimension_overrides"
# The operators whose outputs depend on the shape of an input only.
_OF_SHAPES = (
    "EyeLike",
    "RandomNormalLike",
    "RandomUniformLike",
    "Shape",
    "Size",
)
_MOST_INFERRED = 2**16  # onnx uses 80 bytes and more for each element of a vector whose values it infers


def apply(
    options: SessionOptions,
    permit: Permit,
    source: str | bytes,
) -> dict[str, list]:
    """Set the overrides of a permit, and return the shapes of the model's inputs for :func:`verify`."""
    sizes = permit.sizes
    model = _read(source)
    shapes = _input_shapes(model)
    _check_names(sizes, shapes)
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)

    is_capped = _cap_folding(options, permit)
    most = MOST_FOLDED
    if is_capped:  # only the input itself has this size: 128 MiB of float32
        most *= 2
    _check_inputs(sizes, shapes, most)
    if not is_capped and _folded(model, sizes) > MOST_FOLDED:
        problem = f"ORT or an EP can compute more than {MOST_FOLDED} elements from the sizes alone"
        reject(f"{problem} when it loads the model. Use smaller sizes", _KEYWORD)
    return shapes


def _read(source: str | bytes) -> onnx.ModelProto:
    try:
        if isinstance(source, str):
            return onnx.load(source, load_external_data=False)
        return onnx.load_from_string(source)
    except Exception as error:
        problem = model_file.problem(source, unreadable=True) or f"{_KEYWORD} requires a model that onnx can read"
        raise RuntimeError(f"{problem}. onnx error: {error}") from None


def _input_shapes(model: onnx.ModelProto) -> dict[str, list]:
    """Return the name or size of each dimension of each input. A dimension without both has the size 0."""
    shapes = {}
    for node in model.graph.input:
        dimensions = node.type.tensor_type.shape.dim
        shapes[node.name] = [dimension.dim_param or dimension.dim_value for dimension in dimensions]
    return shapes


def _check_names(sizes: Mapping, shapes: Mapping) -> None:
    dimensions = chain(*shapes.values())
    # ORT cuts a name at a NUL.
    names = {name for name in dimensions if type(name) is str and "\0" not in name}
    for name in sizes:
        if name not in names:
            has = ", ".join(sorted(map(ascii, names))) or "none"
            reject(f"the model's inputs have no dimension of this name. Named dimensions: {has}", _KEYWORD, "", name)


def _check_inputs(
    sizes: Mapping,
    shapes: Mapping,
    most: int,
) -> None:
    """Reject sizes that give an input more elements than this maximum."""
    for node, shape in shapes.items():
        if sizes.keys().isdisjoint(shape):
            continue
        count = 1
        for name in shape:
            size = sizes.get(name, name)
            if type(size) is int and size > 0:  # a free dimension, or one without elements, counts as one
                count *= size
        if count > most:
            problem = f"input {show(node)} would have {count} elements. The maximum is {most}"
            reject(f"{problem}, because ORT computes size-dependent values when it loads the model", _KEYWORD)


def _folded(model: onnx.ModelProto, sizes: Mapping) -> int:
    """Return the number of elements that a model computes from sizes alone, or an estimate if that is unknown."""
    largest = max(sizes.values())
    # A mask: the elements of a batch, times the square of the largest size.
    estimate = math.prod(sizes.values()) * largest
    if largest > _MOST_INFERRED:
        return estimate
    for node in model.graph.input:
        for dimension in node.type.tensor_type.shape.dim:
            if dimension.dim_param in sizes:
                dimension.dim_value = sizes[dimension.dim_param]
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return estimate

    elements, is_complete = _count_folded(graph)
    # Functions are not checked.
    if is_complete and not model.functions:
        return elements
    return max(elements, estimate)


def _count_folded(graph: onnx.GraphProto) -> tuple[int, bool]:
    """Count the elements of values that depend on sizes alone; return, too, whether all of their sizes are known."""
    shapes = {}
    for value in chain(graph.value_info, graph.output):
        shapes[value.name] = value.type.tensor_type.shape.dim
    alone = {""}
    for weight in graph.initializer:
        alone.add(weight.name)
    for weight in graph.sparse_initializer:
        alone.add(weight.values.name)

    elements = 0
    is_complete = True
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                is_complete = False  # subgraphs are not checked
        if node.op_type not in _OF_SHAPES and not alone.issuperset(node.input):
            continue
        alone.update(node.output)
        for name in filter(None, node.output):
            is_complete &= name in shapes
            count = 1
            for size in shapes.get(name, ()):
                is_complete &= size.HasField("dim_value")
                count *= size.dim_value or 1
            elements += count
    return elements, is_complete


def _cap_folding(options: SessionOptions, permit: Permit) -> bool:
    """Limit the bytes of a folded value, and return whether this limits all folding in the session."""
    release = Circumstances.expected(()).release
    if SESSION_CONFIG[FOLDING_CAP].since > release:
        return False
    cap = permit.session_config.get(FOLDING_CAP)
    if cap is None:
        options.add_session_config_entry(FOLDING_CAP, str(MOST_FOLDED))
    elif int(cap) > MOST_FOLDED:
        return False
    return set(COMPILING).isdisjoint(permit.providers)


def verify(
    session: InferenceSession,
    shapes: Mapping,
    sizes: Mapping,
) -> None:
    """Compare the inputs of a session with their shapes in the model and the overrides."""
    for node in session.get_inputs():
        shape = shapes.get(node.name, ())
        for name, size in zip(shape, node.shape, strict=False):
            if sizes.get(name, size) != size:
                problem = f"{_KEYWORD} sets {name!a} of input {node.name!a} to {sizes[name]}"
                raise RuntimeError(f"{problem}, but the session has {size!a}")
