# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Applies free dimension overrides, and verifies the input shapes of the session afterwards.

ORT ignores unknown dimension names and cuts names at a NUL character. This module checks the names against the model
before ORT receives them. From the sizes, ORT can compute values when it loads the model, as a run with such an input
does: ORT 1.27 and newer limits the bytes of each such value.
"""

import math
from collections.abc import Mapping

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.session_config import FOLDING_CAP, MOST_FOLDED, SESSION_CONFIG
from onnxruntime.backend.errors import Place, reject, show
from onnxruntime.backend.explanations import model_file
from onnxruntime.backend.session import model_outline

_KEYWORD = "free_dimension_overrides"
_MOST = 2**28  # elements of an input, such as a batch of 1,024 color images of 256 x 256


def apply(options: SessionOptions, permit: Permit, source: str | bytes) -> dict[str, list]:
    """Set the overrides of a permit, and return the shapes of the model's inputs for :func:`verify`."""
    sizes = permit.sizes
    shapes = _input_shapes(source)
    _check(sizes, shapes)
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    if SESSION_CONFIG[FOLDING_CAP].since <= RELEASE and FOLDING_CAP not in permit.session_config:
        options.add_session_config_entry(FOLDING_CAP, str(MOST_FOLDED))
    return shapes


def _input_shapes(source: str | bytes) -> dict[str, list]:
    """Return the name or size of each dimension of each input. A dimension without both has the size 0."""
    try:
        model = model_outline.outline(source, "input")
    except Exception as error:
        problem = model_file.problem(source, unreadable=True) or f"{_KEYWORD} requires a model that onnx can read"
        raise RuntimeError(f"{problem}. onnx error: {error}") from None
    shapes = {}
    for node in model.graph.input:
        dimensions = node.type.tensor_type.shape.dim
        shapes[node.name] = [dimension.dim_param or dimension.dim_value for dimension in dimensions]
    return shapes


def _check(sizes: Mapping[str, int], shapes: Mapping[str, list]) -> None:
    """Reject names that no input has, and sizes that make an input too large."""
    names: set[str] = set()
    for node, shape in shapes.items():
        names.update(name for name in shape if type(name) is str and "\0" not in name)
        if sizes.keys().isdisjoint(shape):
            continue
        # A free dimension, or one without elements, counts as one.
        known = (sizes.get(name, name) for name in shape)
        count = math.prod(size for size in known if type(size) is int and size > 0)
        if count > _MOST:
            reject(Place(_KEYWORD), f"input {show(node)} would have {count} elements. The maximum is {_MOST}")
    for name in sizes:
        if name not in names:
            has = ", ".join(sorted(map(ascii, names))) or "none"
            place = Place(_KEYWORD, key=name)
            reject(place, f"the model's inputs have no dimension of this name. Named dimensions: {has}")


def verify(session: InferenceSession, shapes: Mapping, sizes: Mapping) -> None:
    """Compare the inputs of a session with their shapes in the model and the overrides."""
    for node in session.get_inputs():
        shape = shapes.get(node.name, ())
        for name, size in zip(shape, node.shape, strict=False):
            if sizes.get(name, size) != size:
                problem = f"{_KEYWORD} sets {name!a} of input {node.name!a} to {sizes[name]}"
                raise RuntimeError(f"{problem}, but the session has {size!a}")


def dimension_name(size: object) -> str:
    """Return the name of a free dimension, ``""`` if it has none. Exporters write ``?`` for different unknown sizes."""
    if type(size) is not str or size == "?":
        return ""
    return size


def advice(session: InferenceSession) -> str:
    """Return how to fix the free dimensions of the inputs, ``""`` if there are none."""
    sizes = dict.fromkeys(size for node in session.get_inputs() for size in node.shape if type(size) is not int)
    names = list(map(dimension_name, sizes))
    if "" in names:
        return "Give the model fixed shapes. Some of its free dimensions have no name"
    if names:
        listed = ", ".join(f"{name!a}: ..." for name in names)
        return f"Set free_dimension_overrides={{{listed}}}"
    return ""
