# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates the inputs of a comparison, and describes inputs and outputs."""

from collections.abc import Mapping

import numpy as np

from onnxruntime.backend.comparison.side import Side
from onnxruntime.backend.errors import warn
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.inputs import Input
from onnxruntime.backend.session.free_dimensions import dimension_name

_FREE_SIZES = (1, 32, 224, 1)  # to try for free dimensions


def feeds(side: Side, given: Mapping[str, object], shapes: Mapping[str, list[int]]) -> list:
    """Return a value for each input of a side: a given value, or random values of a given shape or of the model's.

    The size of a free dimension is the first that works. If none works, the size is 1.
    """
    nodes = side.rep.session.get_inputs()
    for size in _FREE_SIZES:
        chosen = _with_size([node for node in nodes if node.name not in {**given, **shapes}], size)
        found = []
        for index, node in enumerate(nodes):
            shape = {**shapes, **chosen}.get(node.name, node.shape)
            found.append(given[node.name] if node.name in given else _random(node, shape, index))
        if not chosen or side.run(found):
            break
        side.error = None
    if chosen:
        texts = [f"--shape {name}={'x'.join(map(str, shape))}" for name, shape in chosen.items()]
        warn(f"Inputs have free dimensions. Their sizes in this comparison are {' '.join(texts)}")
    return found


def _with_size(nodes: list, free: int) -> dict[str, list[int]]:
    """Return the shapes of inputs with free dimensions: 1 for a batch, and one size for each name."""
    sizes: dict[object, int] = {}
    found = {}
    for node in nodes:
        shape = []
        for axis, size in enumerate(node.shape):
            name = dimension_name(size) or (node.name, axis)
            shape.append(size if type(size) is int else sizes.setdefault(name, free if axis else 1))
        if shape != node.shape:
            found[node.name] = shape
    return found


def _random(node, shape: list[int], seed: int) -> np.ndarray:
    """Return random values that are the same in every process: floats from 0 to 1, and integers 0 or 1."""
    element = tensors.element_type(node.type)
    try:
        if element is None:
            raise ValueError("it is not a tensor")
        dtype = tensors.dtype_of(element)
        generator = np.random.default_rng(seed)
        if dtype.kind == "O":
            return np.full(shape, "text", dtype)
        if dtype.name.startswith(("int", "uint", "bool")):  # valid as most indices, lengths and masks
            return generator.integers(0, 2, shape, np.int8).astype(dtype)
        return generator.random(shape, np.float32).astype(dtype)
    except (ValueError, MemoryError) as error:
        expected = declaration(described(node))
        message = f"Input {expected} cannot be random: {error}. Specify a value, on the command line with --input"
        raise RuntimeError(message) from None


def described(node, value: object = None) -> dict:
    """Return the name, type and shape of an array, or of another input or output as the model declares it."""
    found = Input(node.name, tensors.readable(node.type), list(node.shape or ()))
    if isinstance(value, np.ndarray):
        found = found._replace(type=value.dtype.name.replace("object", "string"), shape=list(value.shape))
    return found._asdict()


def declaration(value: Mapping) -> str:
    """Return the name, type and shape of an input or output as text, such as ``X: float32[batch, 3]``."""
    return f"{value['name']}: {Input(**value)}"
