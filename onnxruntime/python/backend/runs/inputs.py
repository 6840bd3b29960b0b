# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Assigns a caller's values to the inputs of the model, and finds values that do not match.

The module ``values.py`` converts each value. The module ``declarations.py`` contains the inputs of the model, and words
the errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from numpy import ndarray

from onnxruntime import InferenceSession, NodeArg, OrtValue
from onnxruntime.backend.errors import warn
from onnxruntime.backend.runs import tensors, values
from onnxruntime.backend.runs.declarations import Declarations
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument


class ModelInputs:
    """The inputs of a session's model."""

    def __init__(self, session: InferenceSession) -> None:
        self._declared = Declarations(session)
        #: The index and name of each input, and the dtype of arrays that ORT accepts without conversion, if any.
        self.slots: list[tuple] = []
        for name, node in self._declared.inputs.items():
            value_type = values.required(node.type)
            dtype = tensors.number_dtype(value_type)
            slot = (len(self.slots), name, dtype)
            self.slots.append(slot)

    def contain(self, output: str) -> bool:
        """Return whether an output is an input. ORT 1.24 returns it as a view of the caller's array."""
        return self._declared.find(output) is not None

    def feeds(self, inputs: object) -> dict:
        """Convert the inputs of a run, or raise an ``InputError`` for an unknown name or a value of another type.

        Missing inputs and wrong shapes are left to ORT and :meth:`check`: a successful run does not check them.
        """
        feeds = {}
        for name, value in self._by_name(inputs):
            feeds[name] = self._convert(name, value)
        return feeds

    def _by_name(self, inputs: object) -> Iterable[tuple]:
        """Return the name and the value of each input."""
        if not isinstance(inputs, (list, tuple)):
            if isinstance(inputs, Mapping) and not self._is_one_map(inputs):
                return inputs.items()
            inputs = (inputs,)
        count = len(inputs)
        if count > len(self.slots):
            warn(self._declared.surplus(count))
        return zip(self._declared.inputs, inputs, strict=False)

    def _is_one_map(self, inputs: Mapping) -> bool:
        """Return whether a mapping is itself the value of the only input, and does not contain that value by name."""
        node = self._declared.only_input
        if node is None or not node.type.startswith("map("):
            return False
        value = inputs.get(node.name)
        return not isinstance(value, Mapping)

    def _convert(self, name: object, value: object) -> object:
        node = self._declared.find(name)
        if node is None:
            raise self._declared.unknown(name, value)
        try:
            return values.convert(node.type, value)
        except ValueError as reason:
            got = str(reason)
        kind = Fail if value is None else InvalidArgument
        raise self._declared.mismatch([(node, got)], kind)

    def check(self, feeds: Mapping, error: Exception) -> None:
        """Raise an ``InputError`` if the feeds do not match the model, after ORT raised ``error``.

        No name of a frame refers to the ``InputError``: such a cycle would keep the session.
        """
        kind = type(error)
        wrong = []
        for name, node in self._declared.inputs.items():
            if name not in feeds and not node.type.startswith("optional("):
                wrong.append((node, "nothing"))

        lacks_dimension = False
        for name, value in feeds.items():
            node = self._declared.find(name)
            got = _misfit(node, value)
            if kind is UnicodeEncodeError and not got and not _is_utf8(value):
                got = "text that UTF-8 cannot represent"
            if node and got:
                wrong.append((node, got))
                rank = len(node.shape)
                if isinstance(value, ndarray) and value.ndim == rank - 1:
                    lacks_dimension = True

        if wrong:
            raise self._declared.mismatch(wrong, kind, lacks_dimension) from error


def _misfit(node: NodeArg, value: object) -> str:
    """Describe a converted value that does not have the declared type or shape; ``""`` for any other value."""
    value_type = values.required(node.type)
    if isinstance(value, OrtValue):
        has_type = value.data_type() == value_type
        shape = value.shape() if value.is_tensor() else ()
    elif isinstance(value, ndarray) and value_type.startswith("tensor("):
        has_type = True
        shape = value.shape
    else:
        return ""
    if has_type and _has_shape(shape, node.shape):
        return ""
    got = tensors.describe(value)
    # A converted array of objects contains text.
    return got.replace("object[", "string[")


def _has_shape(shape: tuple, declared: list) -> bool:
    # ORT reports an empty shape for a scalar and for any rank, and accepts any shape for both.
    if not declared:
        return True
    if len(shape) != len(declared):
        return False
    for size, dimension in zip(shape, declared, strict=True):
        if isinstance(dimension, int) and dimension != size:
            return False
    return True


def _is_utf8(value: object) -> bool:
    """Return whether UTF-8 can represent all text in a converted value: it cannot represent a lone surrogate."""
    if isinstance(value, ndarray) and value.dtype == object:
        value = value.tolist()
    elif isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_utf8, value))
    surrogate = re.search("[\ud800-\udfff]", str(value))
    return surrogate is None
