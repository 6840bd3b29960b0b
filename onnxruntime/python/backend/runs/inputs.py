# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the inputs that a caller passes to feeds for the session, or raises an error that describes the mistake."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace

import numpy as np

from onnxruntime import InferenceSession, NodeArg, OrtValue
from onnxruntime.backend.errors import InputError, nearest, reworded, show, warn
from onnxruntime.backend.provider_names import OF_OPENVINO
from onnxruntime.backend.runs import tensors
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

_MOST_LISTED = 16  # inputs in one message
# By the element type of a map, a function that converts a number or a text to a builtin type, or raises an error.
_ITEMS = {"string": str.__str__, "int64": lambda number: int(np.int64(operator.index(number)))}
_ITEMS |= dict.fromkeys(("float", "double"), lambda number: math.ldexp(number, 0))  # unlike float, not of a text
_LIST_AS_INPUT = "To pass a list as the only input, put it in a list: [value]"


class ModelInputs:
    """The inputs of a session's model."""

    def __init__(self, session: InferenceSession) -> None:
        self._nodes = {node.name: _with_type(node) for node in session.get_inputs()}
        #: The index and name of each input, and the dtype of arrays that ORT accepts without conversion, if any.
        self.slots = [
            (index, name, tensors.number_dtype(_required(node.type)))
            for index, (name, node) in enumerate(self._nodes.items())
        ]
        nodes = getattr(session, "get_overridable_initializers", list)()
        if nodes and not OF_OPENVINO.isdisjoint(session.get_providers()):
            nodes = ()  # OpenVINO ignores feeds for initializers
        self._overridable: dict[str, NodeArg] = {node.name: node for node in nodes}

    def returned_as(self, outputs: Sequence[str]) -> frozenset[int]:
        """Return the indices of outputs that are inputs, which ORT 1.24 returns as views of the caller's arrays."""
        return frozenset(i for i, name in enumerate(outputs) if name in self._nodes or name in self._overridable)

    def feeds(self, inputs: object) -> dict[str, object]:
        """Convert the inputs of a run, or raise an ``InputError`` for an unknown name or a value of another type.

        Missing inputs and wrong shapes are left to ORT and :meth:`problem`: a successful run does not check them.
        """
        if not isinstance(inputs, (list, tuple)):
            if isinstance(inputs, Mapping) and not self._is_one_map(inputs):
                return {name: self._convert(name, value) for name, value in inputs.items()}
            inputs = (inputs,)
        if len(inputs) > len(self.slots):
            # Old models list initializers among the inputs of the graph. ORT does not report their positions, so a
            # position in the caller's list does not identify an initializer.
            hint = ". To override an initializer, pass a mapping by name" if self._overridable else ""
            hint += f". {_LIST_AS_INPUT}" if len(self.slots) == 1 else ""
            warn(f"Got {len(inputs)} inputs. {self._inventory()}. The surplus inputs are ignored{hint}")
        return {name: self._convert(name, value) for name, value in zip(self._nodes, inputs, strict=False)}

    def _is_one_map(self, inputs: Mapping) -> bool:
        """Return whether a mapping is itself the value of the only input, and does not contain that value by name."""
        if len(self._nodes) != 1:
            return False
        ((name, node),) = self._nodes.items()
        return node.type.startswith("map(") and not isinstance(inputs.get(name), Mapping)

    def _convert(self, name: object, value: object) -> object:
        node = self._nodes.get(name) or self._overridable.get(name)
        if node is None:
            known = name if type(name) is str else None
            near = nearest(known, self._nodes) if known else ""
            message = f"Unknown input {show(name)}.{f' Did you mean {near!a}?' if near else ''} {self._inventory()}"
            # With one input, the stock backend passes the mapping to ORT, which reads a mapping of numbers as a map.
            kind = InvalidArgument if len(self._nodes) == 1 and isinstance(value, (int, float)) else Fail
            raise reworded(kind, message, InputError, input=known, expected=self._signature(), got=show(name)) from None
        try:
            return _value(node.type, value)
        except ValueError as reason:
            raise self._error([(node, str(reason))], Fail if value is None else InvalidArgument) from None

    def problem(self, feeds: Mapping[str, object], kind: type[Exception]) -> InputError | None:
        """Return the error for feeds that do not match the model, after ORT raised ``kind``; ``None`` if they match."""
        required = (node for node in self._nodes.values() if not node.type.startswith("optional("))
        wrong, hint = [(node, "nothing") for node in required if node.name not in feeds], ""
        for name, value in feeds.items():
            node = self._nodes.get(name) or self._overridable[name]
            got = _misfit(node, value)
            if not got and kind is UnicodeEncodeError and not _is_utf8(value):
                got = "text that UTF-8 cannot represent"
            if got:
                wrong.append((node, got))
                if len(self._nodes) == 1 and isinstance(value, np.ndarray) and value.ndim == len(node.shape) - 1:
                    hint = f"The value lacks one dimension, such as the batch. {_LIST_AS_INPUT}"
        return self._error(wrong, kind, hint) if wrong else None

    def _error(self, wrong: list[tuple[NodeArg, str]], kind: type[Exception], hint: str = "") -> InputError:
        """Return the error for inputs with values that do not fit, each with a description of its value."""
        listed, node = wrong[:_MOST_LISTED], wrong[0][0]
        sentences = [f"Input {_printable(node.name)!r} expects {_type(node)}, got {got}" for node, got in listed]
        sentences += [self._inventory()] if len(self._nodes) + len(self._overridable) > 1 else []
        sentences += [hint] if hint else []
        name, expected = (node.name, _type(node)) if len(wrong) == 1 else (None, _listed(node for node, _ in wrong))
        got = ", ".join(got for _, got in listed)
        return reworded(kind, ". ".join(sentences), InputError, input=name, expected=expected, got=got)

    def _inventory(self) -> str:
        return f"Model inputs: {self._signature() or 'none'}"

    def _signature(self) -> str:
        overrides = f". Overridable: {_listed(self._overridable.values())}" if self._overridable else ""
        return _listed(self._nodes.values()) + overrides


def _with_type(node: object) -> object:
    """Return the declaration of an input. A mock can lack a type: its input accepts any value."""
    if isinstance(getattr(node, "type", None), str) and hasattr(node, "shape"):
        return node
    return SimpleNamespace(name=node.name, type="optional()", shape=())


def _required(value_type: str) -> str:
    """Return the type of the value of a type that may be optional."""
    return value_type[len("optional(") : -1] if value_type.startswith("optional(") else value_type


def _value(value_type: str, value: object) -> object:
    """Convert a value to an object that ORT's Python API accepts for a type, or describe it in a ``ValueError``."""
    if isinstance(value, OrtValue) or (value is None and value_type.startswith("optional(")):
        return value
    if value is None:  # ORT crashes on None for a map
        raise ValueError("None")
    value_type = _required(value_type)
    if value_type.startswith("map("):
        return _map(value_type, value)
    if value_type.startswith("seq("):
        if not isinstance(value, (list, tuple)):
            raise ValueError(tensors.describe(value))
        try:
            return [_value(value_type[len("seq(") : -1], item) for item in value]
        except ValueError as reason:
            raise ValueError(f"a list that contains {reason}") from None
    element = tensors.element_type(value_type)
    if element is None:
        return value  # ORT itself reads sparse tensors
    array = tensors.as_array(value, tensors.dtype_of(element))
    return array if tensors.numpy_has(array.dtype) else tensors.to_ort_value(array, element)


def _map(value_type: str, value: object) -> dict:
    """Convert a map to builtin types. ORT 1.24 releases a map that it cannot convert once too often, and crashes."""
    key, item = map(_ITEMS.get, re.fullmatch(r"map\((\w+),tensor\((\w+)\)\)", value_type).groups())
    with suppress(Exception):  # a caller's class can raise any
        if value:  # ORT refuses an empty map
            return {key(name): item(each) for name, each in value.items()}
    raise ValueError(tensors.describe(value))


def _misfit(node: NodeArg, value: object) -> str:
    """Describe a converted value that does not have the declared type or shape; ``""`` for any other value."""
    value_type = _required(node.type)
    fits, shape = True, ()
    if isinstance(value, OrtValue):
        fits, shape = value.data_type() == value_type, value.shape() if value.is_tensor() else ()
    elif isinstance(value, np.ndarray) and value_type.startswith("tensor("):
        shape = value.shape
    else:
        return ""
    # ORT reports an empty shape for a scalar and for any rank, and accepts any shape for both.
    if node.shape:
        fits = fits and len(shape) == len(node.shape)
        fits = fits and all(not isinstance(d, int) or d == got for d, got in zip(node.shape, shape, strict=True))
    # A converted array of objects contains text.
    return "" if fits else tensors.describe(value).replace("object[", "string[")


def _is_utf8(value: object) -> bool:
    """Return whether UTF-8 can represent all text in a converted value: it cannot represent a lone surrogate."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist() if value.dtype == object else ()
    if isinstance(value, (list, tuple)):
        return all(map(_is_utf8, value))
    return re.search("[\ud800-\udfff]", str(value)) is None


def _listed(nodes: Iterable[NodeArg]) -> str:
    nodes = list(nodes)
    more = f", and {len(nodes) - _MOST_LISTED} more" if len(nodes) > _MOST_LISTED else ""
    return ", ".join(f"{_printable(node.name)}: {_type(node)}" for node in nodes[:_MOST_LISTED]) + more


def _type(node: NodeArg) -> str:
    """Return the declared type and shape of an input, with the names of its free dimensions."""
    shape = ", ".join("?" if dimension is None else _printable(dimension) for dimension in node.shape)
    return _printable(tensors.readable(node.type)) + (f"[{shape}]" if node.shape else "")


def _printable(name: object) -> str:
    """Return a name without control characters, which act on a terminal."""
    return ascii(str(name))[1:-1]
