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


def values(nodes: list, given: list[str], shapes: list[str], seed: int = 0) -> list[object]:
    """Return a value for each input of a session, from texts ``NAME=VALUE`` and ``NAME=1x3x224x224``.

    :raises InputError: if a text is not a value of the input.
    """
    texts = _texts(nodes, given)
    sizes = {}
    for name, text in _by_name("--shape", "NAME=1x3x224x224", shapes, nodes).items():
        sizes[name] = _shape(name, text)
        if name in texts:
            raise MistakeError(f"--shape {name}: the input has a value. Expected a shape of a random input only")
    _check_shapes(nodes, {*texts, *sizes})

    found = []
    for index, node in enumerate(nodes):
        if node.name in texts:
            value = _value(node, texts[node.name])
        else:
            shape = sizes.get(node.name, node.shape)
            value = _random(node, shape, np.random.default_rng([index, seed]))
        found.append(value)
    return found


def _texts(nodes: list, given: list[str]) -> dict[str, str]:
    """Return the text of each input that is not random."""
    named = []
    for text in given:
        if len(nodes) == 1 and text.endswith(".npy") and not text.startswith(f"{nodes[0].name}="):
            text = f"{nodes[0].name}={text}"  # noqa: PLW2901
        named.append(text)
    texts = _by_name("--input", "NAME=VALUE", named, nodes)
    return {name: text for name, text in texts.items() if text != "random"}


def _check_shapes(nodes: list, specified: set[str]) -> None:
    missing = free_shapes([node for node in nodes if node.name not in specified])
    if not missing:
        return
    found = "; ".join(declaration(declared(node)) for node in nodes)
    needed = " ".join(f"--shape {text}" for text in missing)
    raise MistakeError(f"inputs have free dimensions ({found}). Specify their shapes, for example {needed}")


def declared(node) -> dict[str, object]:
    """Return the name, type and shape of an input or output in the model."""
    return {"name": node.name, "type": tensors.readable(node.type), "shape": list(node.shape or ())}


def declaration(value: dict) -> str:
    """Return the name, type and shape of an input or output as text, such as ``X: float32[batch, 3]``."""
    sizes = []
    for size in value["shape"] or ():
        sizes.append("?" if size is None else str(size))
    # ORT reports an empty shape for a scalar, for any rank, and for a type without a shape.
    shape = f"[{', '.join(sizes)}]" if sizes else ""
    return f"{value['name']}: {value['type']}{shape}"


def free_shapes(nodes: list, size: int = 1, *, only_last: bool = True) -> list[str]:
    """Return a ``--shape`` value for each input with free dimensions; equal names have equal sizes.

    The last free dimension has ``size``, or without ``only_last``, all but the first. The others have the size 1.
    """
    sizes: dict[object, int] = {}
    texts = []
    for node in nodes:
        shape = list(node.shape)
        last = len(shape) - 1
        for axis, name in enumerate(shape):
            if isinstance(name, int):
                continue
            large = axis == last if only_last else axis > 0
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
    for size in sizes:
        if not size.isdecimal() or len(size) > 11:
            raise MistakeError(f"--shape {name}: invalid shape {text!a}. Expected a shape such as 1x3x224x224")
    return tuple(map(int, sizes))


def _random(node, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Return random values that are the same in every invocation: floats from 0 to 1, and integers 0 or 1."""
    element = tensors.element_type(node.type)
    if element is None:
        found = declaration(declared(node))
        raise MistakeError(f"no random values for {found}. Specify the value in JSON, with --input {node.name}=VALUE")

    dtype = tensors.dtype_of(element)
    try:
        if dtype.kind == "O":
            return np.full(shape, "text", dtype)
        if dtype.name.startswith(("int", "uint", "bool")):  # valid as most indices, lengths and masks
            return generator.integers(0, 2, shape).astype(dtype)
        return generator.random(shape).astype(dtype)
    except (MemoryError, ValueError) as error:
        raise MistakeError(f"--shape {node.name}: {error}") from None


def _value(node, text: str) -> object:
    try:
        if text.endswith(".npy"):
            value = np.load(text, allow_pickle=False)
        elif "map(int64," in node.type:
            value = json.loads(text, object_hook=_with_integers)
        else:
            value = json.loads(text)

        element = tensors.element_type(node.type)
        if element is None:
            return value
        return tensors.as_array(value, tensors.dtype_of(element))
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
    if not isinstance(value, np.ndarray):
        return {"type": type(value).__name__, "shape": None}
    name = "string" if value.dtype.kind == "O" else value.dtype.name
    return {"type": name, "shape": list(value.shape)}


def writable(array: np.ndarray) -> np.ndarray:
    """Return an array that a NumPy file can contain: texts of a fixed length, and float32 for types of ml_dtypes."""
    if array.dtype.kind == "O":
        return array.astype(str)
    if array.dtype.kind == "V":
        return array.astype(np.float32)
    return array
