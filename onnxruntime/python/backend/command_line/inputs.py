# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Creates input values for the ``run`` and ``inspect`` commands."""

from __future__ import annotations

import json
import math
import os

import numpy as np

from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.errors import show
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.errors import InputError
from onnxruntime.backend.runs.values import as_array


def values(nodes: list, given: list[str], shapes: list[str], seed: int = 0) -> list:
    """Return a value for each input of a session, from texts ``NAME=VALUE`` and ``NAME=1x3x224x224``.

    :raises InputError: if a text is not a value of the input.
    """
    by_name, sizes = specified(nodes, given, shapes)
    _check_shapes(nodes, by_name.keys() | sizes.keys())

    found = []
    for index, node in enumerate(nodes):
        if node.name in by_name:
            value = by_name[node.name]
        else:
            shape = sizes.get(node.name, node.shape)
            generator = np.random.default_rng([index, seed])
            value = _random(node, shape, generator)
        found.append(value)
    return found


def specified(nodes: list, given: list[str], shapes: list[str]) -> tuple[dict[str, object], dict[str, tuple[int, ...]]]:
    """Return the values, and the shapes of random values, by the name of the input."""
    texts = _texts(nodes, given)
    sizes = {}
    of_inputs = _by_name("--shape", "NAME=1x3x224x224", shapes, nodes)
    for name, text in of_inputs.items():
        sizes[name] = _shape(name, text)
        if name in texts:
            problem = f"--shape {name}: the input has a value"
            raise MistakeError(f"{problem}. Expected a shape of a random input only")

    found = {}
    for node in nodes:
        if node.name in texts:
            found[node.name] = _value(node, texts[node.name])
    return found, sizes


def _texts(nodes: list, given: list[str]) -> dict[str, str]:
    """Return the text of each input that is not random."""
    named = []
    for text in given:
        if len(nodes) == 1 and text.endswith(".npy"):
            only = f"{nodes[0].name}="
            if not text.startswith(only):
                text = only + text  # noqa: PLW2901
        named.append(text)

    texts = _by_name("--input", "NAME=VALUE", named, nodes)
    for name, text in list(texts.items()):
        if text == "random":
            del texts[name]
    return texts


def _check_shapes(nodes: list, known: set[str]) -> None:
    unspecified = []
    declarations = []
    for node in nodes:
        declarations.append(declaration(declared(node)))
        if node.name not in known:
            unspecified.append(node)
    missing = free_shapes(unspecified)
    if not missing:
        return
    problem = f"inputs have free dimensions ({'; '.join(declarations)})"
    needed = "--shape " + " --shape ".join(missing)
    raise MistakeError(f"{problem}. Specify their shapes, for example {needed}")


def declared(node) -> dict:
    """Return the name, type and shape of an input or output in the model."""
    return {"name": node.name, "type": tensors.readable(node.type), "shape": list(node.shape or ())}


def declaration(value: dict) -> str:
    """Return the name, type and shape of an input or output as text, such as ``X: float32[batch, 3]``."""
    text = f"{value['name']}: {value['type']}"
    sizes = []
    for size in value["shape"] or ():
        sizes.append("?" if size is None else str(size))
    if sizes:  # ORT reports an empty shape for a scalar, for any rank, and for a type without a shape
        text += f"[{', '.join(sizes)}]"
    return text


def free_shapes(nodes: list, size: int = 1, *, only_last: bool = True) -> list[str]:
    """Return a ``--shape`` value for each input with free dimensions. Equal names have equal sizes.

    The last free dimension has ``size``, or without ``only_last``, all but the first. The others have the size 1.
    """
    sizes: dict[object, int] = {}
    texts = []
    for node in nodes:
        shape = []
        last = len(node.shape) - 1
        for axis, name in enumerate(node.shape):
            if isinstance(name, int):
                shape.append(name)
                continue
            is_large = axis > 0
            if only_last:
                is_large = axis == last
            dimension = tensors.dimension_name(name) or (node.name, axis)
            free_size = size if is_large else 1
            shape.append(sizes.setdefault(dimension, free_size))
        if shape != node.shape:
            text = "x".join(map(str, shape))
            texts.append(f"{node.name}={text}")
    return texts


def _by_name(flag: str, form: str, given: list[str], nodes: list) -> dict[str, str]:
    names = [node.name for node in nodes]
    by_name = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise MistakeError(f"{flag}: invalid value {text!a}. Expected {form}")
        if name not in names:
            known = ", ".join(names) or "no input"
            raise MistakeError(f"{flag}: unknown input {name!a}. The model has: {known}")
        by_name[name] = value
    return by_name


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
    size = math.prod(shape) * dtype.itemsize
    try:
        if size > _memory():
            raise MemoryError  # Linux would allocate it, and then kill the process
        if dtype.kind == "O":
            return np.full(shape, "text", dtype)
        if dtype.name.startswith(("int", "uint", "bool")):  # valid as most indices, lengths and masks
            return generator.integers(0, 2, shape, np.int8).astype(dtype)
        drawn = np.float64 if dtype == np.float64 else np.float32
        return generator.random(shape, drawn).astype(dtype, copy=False)
    except MemoryError:
        problem = f"random values with {size:,} bytes do not fit into memory"
        raise MistakeError(f"--shape {node.name}: {problem}") from None
    except ValueError as error:
        raise MistakeError(f"--shape {node.name}: {error}") from None


def _memory() -> float:
    """Return the bytes of physical memory, or infinity if the system does not report them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


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
        dtype = tensors.dtype_of(element)
        return as_array(value, dtype)
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


def _with_integers(found: dict) -> dict[int, object]:
    """Return an object in JSON, which has texts as keys, as a map with integers as keys."""
    return {int(key): value for key, value in found.items()}


def described(node, value: object) -> dict:
    """Return the name, type and shape of an input or output with a value."""
    shape = None
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        shape = list(value.shape)
        name = value.dtype.name
        if name == "object":
            name = "string"
    return {"name": node.name, "type": name, "shape": shape}


def writable(array: np.ndarray) -> np.ndarray:
    """Return an array that a NumPy file can contain: texts of a fixed length, and float32 for types of ml_dtypes."""
    if array.dtype.kind == "O":
        return array.astype(str)
    if array.dtype.kind == "V":
        return array.astype(np.float32)
    return array
