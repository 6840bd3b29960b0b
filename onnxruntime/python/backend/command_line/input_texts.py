# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads values and shapes of inputs from texts of the command line."""

from __future__ import annotations

import json
import re

import numpy as np

from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.comparison.inputs import declaration, declared
from onnxruntime.backend.errors import InputError, show
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.values import as_array


def read(nodes: list, values: list[str], shapes: list[str]) -> tuple[dict[str, object], dict[str, list[int]]]:
    """Return the values and shapes in texts ``NAME=VALUE`` and ``NAME=1x3x224x224``, by the name of the input."""
    found: dict[str, object] = {}
    for name, text in _by_name("--input", values, nodes).items():
        if text != "random":
            found[name] = _value(next(node for node in nodes if node.name == name), text)
    sizes = {}
    for name, text in _by_name("--shape", shapes, nodes).items():
        if name in found or not re.fullmatch(r"(\d{1,11}(x(?=\d)|$))*", text):
            expected = "Expected a shape such as 1x3x224x224, of an input without a value"
            raise MistakeError(f"--shape {name}: invalid shape {text!a}. {expected}")
        sizes[name] = [int(size) for size in text.split("x") if size]
    return found, sizes


def _by_name(flag: str, texts: list[str], nodes: list) -> dict[str, str]:
    names = [node.name for node in nodes]
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if text.endswith(".npy") and name not in names and len(names) == 1:  # the only input needs no name
            name, equals, value = names[0], "=", text
        if name not in names or not equals:
            expected = f"Expected NAME=VALUE. The model has: {', '.join(names) or 'no input'}"
            raise MistakeError(f"{flag}: invalid value {text!a}. {expected}")
        found[name] = value
    return found


def _value(node, text: str) -> object:
    try:
        value = np.load(text, allow_pickle=False) if text.endswith(".npy") else json.loads(text)
        element = tensors.element_type(node.type)
        return value if element is None else as_array(value, tensors.dtype_of(element))
    except (OSError, ValueError, EOFError, RecursionError) as reason:
        expected = declaration(declared(node))
        message = f"--input {node.name}: invalid value {show(text)} ({reason})"
        raise InputError(
            f"{message}. Expected {expected}, as JSON or as a .npy file with one array",
            input=node.name,
            expected=expected,
            got=str(reason),
        ) from None
