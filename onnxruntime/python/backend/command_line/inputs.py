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
from onnxruntime.backend.runs.values import as_array


def values(nodes: list, given: list[str], shapes: list[str], seed: int = 0) -> list[object]:
    """Return a value for each input of a session, from texts ``NAME=VALUE`` and ``NAME=1x3x224x224``.

    :raises InputError: if a text is not a value of the input.
    """
    texts = _texts(nodes, given)
    sizes = {}
    of_inputs = _by_name("--shape", "NAME=1x3x224x224", shapes, nodes)
    for name, text in of_inputs.items():
        sizes[name] = _shape(name, text)
        if name in texts:
            problem = f"--shape {name}: the input has a value"
            raise MistakeError(f"{problem}. Expected a shape of a random input only")
    _check_shapes(nodes, {*texts, *sizes})

    found = []
    for index, node in enumerate(nodes):
        if node.name in texts:
            value = _value(node, texts[node.name])
        else:
            shape = sizes.get(node.name, node.shape)
            generator = np.random.default_rng([index, seed])
            value = _random(node, shape, generator)
        found.append(value)
    return found


def _texts(nodes: list, given: list[str]) -> dict[str, str]:
    """Return the text of each input that is not random."""
    only = nodes[0].name if len(nodes) == 1 else ""
    named = []
    for text in given:
        if only and text.endswith(".npy") and not text.startswith(f"{only}="):
            text = f"{only}={text}"  # noqa: PLW2901
        named.append(text)

    texts = _by_name("--input", "NAME=VALUE", named, nodes)
    for name, text in list(texts.items()):
        if text == "random":
            del texts[name]
    return texts


def _check_shapes(nodes: list, specified: set[str]) -> None:
    unspecified = [node for node in nodes if node.name not in specified]
    missing = free_shapes(unspecified)
    if not missing:
        return
    found = "; ".join(map(declaration, map(declared, nodes)))
    needed = "--shape " + " --shape ".join(missing)
    problem = f"inputs have free dimensions ({found})"
    raise MistakeError(f"{problem}. Specify their shapes, for example {needed}")


def declared(node) -> dict[str, object]:
    """Return the name, type and shape of an input or output in the model."""
    return {
        "name": node.name,
        "type": tensors.readable(node.type),
        "shape": list(node.shape or ()),
    }


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
            dimension = name or (node.name, axis)
            shape[axis] = sizes.setdefault(dimension, size if large else 1)
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
            known = ", ".join(names) or "no input"
            raise MistakeError(f"{flag}: unknown input {name!a}. The model has: {known}")
        found[name] = value
    return found


def _shape(name: str, text: str) -> tuple[int, ...]:
    sizes = text.split("x") if text else []
    for size in sizes:
        if not size.isdecimal() or len(size) > 11:
            problem = f"--shape {name}: invalid shape {text!a}"
            raise MistakeError(f"{problem}. Expected a shape such as 1x3x224x224")
    return tuple(map(int, sizes))


def _random(node, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Return random values that are the same in every invocation: floats from 0 to 1, and integers 0 or 1."""
    element = tensors.element_type(node.type)
    if element is None:
        problem = f"no random values for {declaration(declared(node))}"
        raise MistakeError(f"{problem}. Specify the value in JSON, with --input {node.name}=VALUE")

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
        return as_array(value, tensors.dtype_of(element))
    except OSError as error:
        reason = error.strerror or error
        raise MistakeError(f"--input {node.name}: cannot read {text}: {reason}") from None
    except (ValueError, EOFError, RecursionError) as reason:
        expected = declaration(declared(node))
        message = f"--input {node.name}: invalid value {show(text)} ({reason})"
        raise InputError(
            f"{message}. Expected {expected}, as JSON or as a .npy file with one array",
            input=node.name,
            expected=expected,
            got=str(reason),
        ) from None


def _with_integers(found: dict[str, object]) -> dict[int, object]:
    """Return an object in JSON, which has texts as keys, as a map with integers as keys."""
    return dict(zip(map(int, found), found.values(), strict=True))


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
