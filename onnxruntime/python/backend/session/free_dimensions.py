# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Free dimension overrides: sizes for the named dimensions that a model's inputs leave open, applied and proven.

ORT ignores a name that the model lacks and cuts a name at a NUL, so the names are held against the model before they
are given to ORT, and the inputs' shapes against the sizes afterwards.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping

import onnx

from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.errors import reject, show

# ORT computes at load time whatever then depends on sizes alone, and holds it: up to 4 bytes for each element with the
# CPU EP and 16 with OpenVINO's, in each node of the model that makes such a tensor.
_MOST_ELEMENTS = 2**25
_KEYWORD = "free_dimension_overrides"


def apply(options: SessionOptions, sizes: Mapping[str, int], source: str | bytes) -> dict[str, dict[int, int]]:
    """Set the sizes on a session's options.

    :param options: the options that the session will be opened with.
    :param sizes: dimension name to size, as permitted.
    :param source: the model's path or bytes.
    :return: input name to the size that each of its overridden axes must have, for :func:`verify`.
    :raises NotPermittedError: for a name that no input of the model has, and for sizes that make an input too large.
    """
    shapes = _input_shapes(source) if sizes else {}
    # ORT cuts a name at a NUL.
    names = {name for shape in shapes.values() for name in shape if type(name) is str and "\0" not in name}
    for name, size in sizes.items():
        if name not in names:
            has = ", ".join(sorted(map(ascii, names))) or "none"
            reject(f"the model's inputs have no dimension of this name. Named dimensions: {has}", _KEYWORD, "", name)
        options.add_free_dimension_override_by_name(name, size)
    expected = {
        node: {axis: sizes[name] for axis, name in enumerate(shape) if name in sizes} for node, shape in shapes.items()
    }
    for node, shape in shapes.items():
        # A dimension that stays open, or has no elements, counts as one.
        elements = math.prod(
            max(expected[node].get(axis, 1 if type(size) is str else size), 1) for axis, size in enumerate(shape)
        )
        if expected[node] and elements > _MOST_ELEMENTS:
            reject(
                f"input {show(node)} would have {elements} elements. The maximum is {_MOST_ELEMENTS}, because ORT "
                "computes size-dependent values when it loads the model",
                _KEYWORD,
            )
    return expected


def verify(session: InferenceSession, expected: Mapping[str, Mapping[int, int]]) -> None:
    """Hold the open session's inputs against the sizes.

    :param expected: what :func:`apply` returned.
    :raises RuntimeError: when one is of another size.
    """
    for node in session.get_inputs() if expected else ():
        for axis, size in expected.get(node.name, {}).items():
            if node.shape[axis] != size:
                raise RuntimeError(
                    f"{_KEYWORD} sets axis {axis} of input {node.name!a} to {size}, but in the session it is "
                    f"{node.shape[axis]!a}"
                )


def _input_shapes(source: str | bytes) -> dict[str, list[str | int]]:
    """Input name to its shape, with the names of named dimensions."""
    try:
        model = onnx.load(source if isinstance(source, str) else io.BytesIO(source), load_external_data=False)
    except Exception as error:
        raise RuntimeError(f"{_KEYWORD} needs a model that onnx reads, to know its dimensions: {error}") from error
    # A dimension without a name or a value is one of no size.
    return {
        node.name: [dimension.dim_param or dimension.dim_value for dimension in node.type.tensor_type.shape.dim]
        for node in model.graph.input
    }
