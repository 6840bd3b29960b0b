# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Applies free dimension overrides, and verifies the input shapes of the session afterwards.

ORT ignores unknown dimension names and cuts names at a NUL character. This module checks the names against the model
before ORT receives them.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping

import onnx

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.ort_options import FOLDING_CAP, MOST_FOLDED, SESSION_CONFIG
from onnxruntime.backend.allowlist.rules import Circumstances, Permit
from onnxruntime.backend.errors import reject, show
from onnxruntime.backend.provider_names import COMPILING

_KEYWORD = "free_dimension_overrides"
# The operators whose outputs depend on the shape of an input only.
_OF_SHAPES = ("Shape", "Size", "EyeLike", "RandomNormalLike", "RandomUniformLike")
_MOST_INFERRED = 2**16  # onnx uses 80 bytes and more for each element of a vector whose values it infers


def apply(options: SessionOptions, permit: Permit, source: str | bytes) -> dict[str, list[str | int]]:
    """Set the overrides of a permit, and return the shapes of the model's inputs for :func:`verify`."""
    sizes = permit.sizes
    if not sizes:
        return {}
    try:
        model = onnx.load(source if isinstance(source, str) else io.BytesIO(source), load_external_data=False)
    except Exception as error:
        raise RuntimeError(f"{_KEYWORD} requires a model that onnx can read. onnx error: {error}") from None
    # A dimension without a name or a value has the size 0.
    shapes = {
        node.name: [dimension.dim_param or dimension.dim_value for dimension in node.type.tensor_type.shape.dim]
        for node in model.graph.input
    }
    # ORT cuts a name at a NUL.
    names = {name for shape in shapes.values() for name in shape if type(name) is str and "\0" not in name}
    capped = _cap_folding(options, permit)
    # With the cap, only the input itself has this size: 128 MiB of float32.
    most = 2 * MOST_FOLDED if capped else MOST_FOLDED
    for name, size in sizes.items():
        if name not in names:
            has = ", ".join(sorted(map(ascii, names))) or "none"
            reject(f"the model's inputs have no dimension of this name. Named dimensions: {has}", _KEYWORD, "", name)
        options.add_free_dimension_override_by_name(name, size)
    for node, shape in shapes.items():
        # A free dimension, or one without elements, counts as one.
        known = [size for size in (sizes.get(name, name) for name in shape) if type(size) is int and size > 0]
        if math.prod(known) > most and not sizes.keys().isdisjoint(shape):
            problem = f"input {show(node)} would have {math.prod(known)} elements. The maximum is {most}, because ORT"
            reject(f"{problem} computes size-dependent values when it loads the model", _KEYWORD)
    if not capped and _folded(model, sizes) > most:
        problem = f"ORT or an EP can compute more than {most} elements from the sizes alone when it loads the model"
        reject(f"{problem}. Use smaller sizes", _KEYWORD)
    return shapes


def _folded(model: onnx.ModelProto, sizes: Mapping[str, int]) -> int:
    """Return the number of elements that a model computes from sizes alone, or an estimate if that is unknown."""
    # A mask: the elements of a batch, times the square of the largest size.
    estimate = math.prod(sizes.values()) * max(sizes.values())
    if max(sizes.values()) > _MOST_INFERRED:
        return estimate
    for node in model.graph.input:
        for dimension in node.type.tensor_type.shape.dim:
            if dimension.dim_param in sizes:
                dimension.dim_value = sizes[dimension.dim_param]
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:
        return estimate
    shapes = {value.name: value.type.tensor_type.shape.dim for value in (*graph.value_info, *graph.output)}
    alone = {"", *(weight.name for weight in (*graph.initializer, *(w.values for w in graph.sparse_initializer)))}
    # Subgraphs and functions are not checked.
    known, elements = not model.functions, 0
    for node in graph.node:
        known = known and not any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if node.op_type in _OF_SHAPES or alone.issuperset(node.input):
            alone.update(node.output)
            for name in filter(None, node.output):
                known = known and name in shapes and all(size.HasField("dim_value") for size in shapes[name])
                elements += math.prod(size.dim_value or 1 for size in shapes.get(name, ()))
    return elements if known else max(elements, estimate)


def _cap_folding(options: SessionOptions, permit: Permit) -> bool:
    """Limit the bytes of a folded value, and return whether this limits all folding in the session."""
    if SESSION_CONFIG[FOLDING_CAP].since > Circumstances.expected(()).release:
        return False
    cap = permit.session_config.get(FOLDING_CAP)
    if cap is None:
        options.add_session_config_entry(FOLDING_CAP, str(MOST_FOLDED))
    return int(cap or 0) <= MOST_FOLDED and {*COMPILING}.isdisjoint(permit.providers)


def verify(session: InferenceSession, shapes: Mapping[str, list[str | int]], sizes: Mapping[str, int]) -> None:
    """Compare the inputs of a session with their shapes in the model and the overrides."""
    for node in session.get_inputs() if sizes else ():
        for name, size in zip(shapes.get(node.name, ()), node.shape, strict=False):
            if sizes.get(name, size) != size:
                raise RuntimeError(
                    f"{_KEYWORD} sets {name!a} of input {node.name!a} to {sizes[name]}, but the session has {size!a}"
                )
