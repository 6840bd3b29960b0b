# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The inputs and outputs of ``python -m onnxruntime.backend run``: values for a model's inputs, outputs in files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from onnxruntime.backend.command_line.shared import MistakeError
from onnxruntime.backend.runs import tensors


def values(nodes: list, given: list[str], shapes: list[str]) -> list[object]:
    """A value for every input, in the model's order.

    :param nodes: the session's inputs.
    :param given: texts ``NAME=VALUE``.
    :param shapes: texts ``NAME=1x3x224x224``.
    """
    texts = _by_name("--input", "NAME=VALUE", given, nodes)
    dimensions = {
        name: _shape(name, text) for name, text in _by_name("--shape", "NAME=1x3x224x224", shapes, nodes).items()
    }
    random = [node for node in nodes if texts.get(node.name, "random") == "random"]
    for name in dimensions:
        if name not in [node.name for node in random]:
            raise MistakeError(f"--shape {name}: only a random input takes a shape, and a value is given for this one")
    needed = [
        f"--shape {node.name}={'x'.join(str(size) if isinstance(size, int) else '1' for size in node.shape)}"
        for node in random
        if node.name not in dimensions and not all(isinstance(size, int) for size in node.shape)
    ]
    if needed:
        takes = "; ".join(
            f"{node.name}: {node.type}{[size if isinstance(size, int) else '?' for size in node.shape]}"
            for node in nodes
        ).replace("'", "")
        raise MistakeError(f"the model leaves shapes open ({takes}); give them, such as {' '.join(needed)}")
    return [
        _random(node, dimensions.get(node.name, node.shape), seed) if node in random else _value(node, texts[node.name])
        for seed, node in enumerate(nodes)
    ]


def _by_name(flag: str, form: str, given: list[str], nodes: list) -> dict[str, str]:
    names = [node.name for node in nodes]
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise MistakeError(f"{flag} takes {form}, not {text!a}")
        if name not in names:
            raise MistakeError(f"{flag}: the model has no input {name!a}; it takes {', '.join(names)}")
        found[name] = value
    return found


def _shape(name: str, text: str) -> tuple[int, ...]:
    sizes = text.split("x") if text else []
    if not all(size.isdecimal() and len(size) < 12 for size in sizes):
        raise MistakeError(f"--shape {name}: {text!a} is no shape; write it as 1x3x224x224")
    return tuple(map(int, sizes))


def _random(node, shape: tuple[int, ...], seed: int) -> np.ndarray:
    element = tensors.element_type(node.type)
    if element is None:
        raise MistakeError(f"input {node.name} is a {node.type}, which this command cannot make")
    dtype = tensors.dtype_of(element)
    try:
        if dtype.kind == "O":
            return np.full(shape, "text", dtype)
        generator = np.random.default_rng(seed)
        if dtype.name.startswith(("int", "uint", "bool")):
            # The values that are most likely to mean something: indices, lengths, masks.
            return generator.integers(0, 2, shape).astype(dtype)
        return generator.random(shape).astype(dtype)
    except (MemoryError, ValueError) as error:
        raise MistakeError(f"--shape {node.name}: {error}") from None


def _value(node, text: str) -> object:
    if text.endswith(".npy"):
        try:
            value = np.load(text, allow_pickle=False)
        except OSError as error:
            raise MistakeError(f"--input {node.name}: cannot read {text}: {error.strerror or error}") from None
        except (ValueError, EOFError) as error:
            raise MistakeError(f"--input {node.name}: {text} is no array in a .npy file: {error}") from None
        if not isinstance(value, np.ndarray):
            raise MistakeError(f"--input {node.name}: {text} holds several arrays, or none")
        return value
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    element = tensors.element_type(node.type)
    if not isinstance(value, (int, float, list)) or element is None:
        raise MistakeError(
            f"--input {node.name}: {text!a} is neither a .npy file, random, nor a number or a list of them"
        )
    try:
        return tensors.as_array(value, tensors.dtype_of(element))
    except ValueError:
        raise MistakeError(f"--input {node.name}: {text!a} does not fit {node.type}") from None


def described(value: object) -> dict[str, object]:
    """The type and shape of an input or output, for the result."""
    if isinstance(value, np.ndarray):
        return {"type": "string" if value.dtype.kind == "O" else value.dtype.name, "shape": list(value.shape)}
    return {"type": type(value).__name__, "shape": None}


def save(folder: Path, names: list[str], outputs: list[object]) -> list[str]:
    """Write outputs as .npy files, which are named after them.

    Element types that numpy lacks are written as float32 or int8, which hold all their values. A sequence becomes a
    file for each of its arrays.

    :return: the paths.
    """
    paths: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for index, (name, output) in enumerate(zip(names, outputs, strict=True)):
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100]
            # A name that had to be changed, or that a file system reads in its own way, could meet another one.
            stem = name if plain == name and name[0] not in ".-" and not name.isdecimal() else f"{index}_{plain}"
            items = {f".{place}": item for place, item in enumerate(output)} if type(output) is list else {"": output}
            for ending, item in items.items():
                if not isinstance(item, np.ndarray):
                    raise MistakeError(
                        f"--save: output {name} is a {type(item).__name__}, which .npy files cannot hold"
                    )
                path = folder / f"{stem}{ending}.npy"
                np.save(path, _of_numpy(item), allow_pickle=False)
                paths.append(str(path))
    except OSError as error:
        raise MistakeError(f"--save: cannot write {error.filename or folder}: {error.strerror or error}") from None
    return paths


def _of_numpy(array: np.ndarray) -> np.ndarray:
    """The same values in an element type that .npy files know."""
    if array.dtype.kind == "O":
        return array.astype(str)
    if tensors.numpy_has(array.dtype):
        return array
    return array.astype(np.int8 if "int" in array.dtype.name else np.float32)
