# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads values and shapes of inputs from texts of the command line."""

import json
import re
from collections.abc import Iterator

import numpy as np

from onnxruntime.backend.comparison.inputs import declaration, described
from onnxruntime.backend.errors import show
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.values import as_array


def read(nodes: list, values: list[str], shapes: list[str]) -> tuple[dict[str, object], dict[str, list[int]]]:
    """Return the values and shapes in texts ``NAME=VALUE`` and ``NAME=1x3x224x224``, by the name of the input."""
    by_name = {node.name: node for node in nodes}
    found = {name: _value(by_name[name], text) for name, text in _split("--input", values, by_name)}
    sizes = {}
    for name, text in _split("--shape", shapes, by_name):
        if name in found or not re.fullmatch(r"(\d{1,11}(x(?=\d)|$))*", text):
            expected = "Expected a shape such as 1x3x224x224, of an input without a value"
            raise RuntimeError(f"--shape {name}: invalid shape {text!a}. {expected}")
        sizes[name] = [int(size) for size in text.split("x") if size]
    return found, sizes


def _split(flag: str, texts: list[str], names: dict) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in names or not equals:
            expected = f"Expected NAME=VALUE. The model has: {', '.join(names) or 'no input'}"
            raise RuntimeError(f"{flag}: invalid value {text!a}. {expected}")
        yield name, value


def _value(node, text: str) -> object:
    try:
        value = np.load(text, allow_pickle=False) if text.endswith(".npy") else json.loads(text)
        element = tensors.element_type(node.type)
        return value if element is None else as_array(value, tensors.dtype_of(element))
    except (OSError, ValueError, EOFError, RecursionError) as reason:
        expected = declaration(described(node))
        message = f"--input {node.name}: invalid value {show(text)} ({reason})"
        raise RuntimeError(f"{message}. Expected {expected}, as JSON or as a .npy file with one array") from None
