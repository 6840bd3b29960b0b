# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates input values for the ``run`` and ``inspect`` commands."""

from __future__ import annotations

import json

import numpy as np

from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.errors import InputError, show
from onnxruntime.backend.runs import tensors


def values(nodes: list, given: list[str], shapes: list[str]) -> list[object]:
    """Return a value for each input of a session, from texts ``NAME=VALUE`` and ``NAME=1x3x224x224``.

    :raises InputError: if a text is not a value of the input.
    """
    texts = _by_name("--input", "NAME=VALUE", given, nodes)
    sizes = {name: _shape(name, text) for name, text in _by_name("--shape", "NAME=1x3x224x224", shapes, nodes).items()}
    random = [node for node in nodes if texts.get(node.name, "random") == "random"]
    for name in sizes.keys() - {node.name for node in random}:
        raise MistakeError(f"--shape {name}: the input has a value. Expected a shape of a random input only")
    if missing := free_shapes([node for node in random if node.name not in sizes]):
        found = "; ".join(declaration(declared(node)) for node in nodes)
        needed = " ".join(f"--shape {text}" for text in missing)
        raise MistakeError(f"inputs have free dimensions ({found}). Specify their shapes, for example {needed}")
    return [
        _random(node, sizes.get(node.name, node.shape), seed) if node in random else _value(node, texts[node.name])
        for seed, node in enumerate(nodes)
    ]


def declared(node) -> dict[str, object]:
    """Return the name, type and shape of an input or output in the model."""
    return {"name": node.name, "type": tensors.readable(node.type), "shape": list(node.shape or ())}


def declaration(value: dict) -> str:
    """Return the name, type and shape of an input or output as text, such as ``X: float32[batch, 3]``."""
    shape = ", ".join("?" if size is None else str(size) for size in value["shape"] or ())
    # ORT reports an empty shape for a scalar, for any rank, and for a type without a shape.
    return f"{value['name']}: {value['type']}{f'[{shape}]' if shape else ''}"


def free_shapes(nodes: list, size: int = 1, *, only_last: bool = True) -> list[str]:
    """Return a ``--shape`` value for each input with free dimensions; equal names have equal sizes.

    The last free dimension has ``size``, or without ``only_last``, all but the first. The others have the size 1.
    """
    sizes: dict[object, int] = {}
    texts = []
    for node in nodes:
        shape = [*node.shape]
        for axis, name in enumerate(shape):
            if not isinstance(name, int):
                large = axis == len(shape) - 1 if only_last else axis > 0
                shape[axis] = sizes.setdefault(name or (node.name, axis), size if large else 1)
        if shape != node.shape:
            texts.append(f"{node.name}={'x'.join(map(str, shape))}")
    return texts


def _by_name(flag: str, form: str, given: list[str], nodes: list) -> dict[str, str]:
    names = [node.name for node in nodes]
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise MistakeError(f"{flag}: invalid value {text!a}. Expected {form}")
        if name not in names:
            raise MistakeError(f"{flag}: unknown input {name!a}. The model has: {', '.join(names) or 'no input'}")
        found[name] = value
    return found


def _shape(name: str, text: str) -> tuple[int, ...]:
    sizes = text.split("x") if text else []
    if not all(size.isdecimal() and len(size) < 12 for size in sizes):
        raise MistakeError(f"--shape {name}: invalid shape {text!a}. Expected a shape such as 1x3x224x224")
    return tuple(map(int, sizes))


def _random(node, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return random values that are the same in every invocation: floats from 0 to 1, and integers 0 or 1."""
    element = tensors.element_type(node.type)
    if element is None:
        found = declaration(declared(node))
        raise MistakeError(f"no random values for {found}. Specify the value in JSON, with --input {node.name}=VALUE")
    dtype, generator = tensors.dtype_of(element), np.random.default_rng(seed)
    try:
        if dtype.kind == "O":
            return np.full(shape, "text", dtype)
        if dtype.name.startswith(("int", "uint", "bool")):  # valid as most indices, lengths and masks
            return generator.integers(0, 2, shape).astype(dtype)
        return generator.random(shape).astype(dtype)
    except (MemoryError, ValueError) as error:
        raise MistakeError(f"--shape {node.name}: {error}") from None


def _value(node, text: str) -> object:
    element = tensors.element_type(node.type)
    try:
        if text.endswith(".npy"):
            value = np.load(text, allow_pickle=False)
        else:
            value = json.loads(text, object_hook=_with_integers if "map(int64," in node.type else None)
        return value if element is None else tensors.as_array(value, tensors.dtype_of(element))
    except OSError as error:
        raise MistakeError(f"--input {node.name}: cannot read {text}: {error.strerror or error}") from None
    except (ValueError, EOFError, RecursionError) as reason:
        expected = declaration(declared(node))
        message = f"--input {node.name}: invalid value {show(text)} ({reason})"
        message += f". Expected {expected}, as JSON or as a .npy file with one array"
        raise InputError(message, input=node.name, expected=expected, got=str(reason)) from None


def _with_integers(found: dict[str, object]) -> dict[int, object]:
    """Return an object in JSON, which has texts as keys, as a map with integers as keys."""
    return {int(key): item for key, item in found.items()}


def described(value: object) -> dict[str, object]:
    """Return the type and shape of an input or output value."""
    if isinstance(value, np.ndarray):
        return {"type": "string" if value.dtype.kind == "O" else value.dtype.name, "shape": list(value.shape)}
    return {"type": type(value).__name__, "shape": None}
