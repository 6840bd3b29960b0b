# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the value of an input to an object that ORT's Python API accepts for the type of the input.

A value that does not fit raises a ``ValueError``, whose message describes the value.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

import numpy as np
from numpy import ndarray

from onnxruntime import OrtValue
from onnxruntime.backend.runs import nested_lists, rounding, tensors
from onnxruntime.backend.runs.tensors import describe

_OPTIONAL = "optional("
_SEQUENCE = "seq("
_STRING = np.dtype(object)
_LISTS = (list, tuple)
# Python objects without an element type.
_PLAIN = (
    int,
    float,
    str,
    bytes,
    *_LISTS,
)
# The Python representation of a container is not text that a caller means.
_CONTAINERS = (
    *_LISTS,
    Mapping,
    AbstractSet,
    ndarray,
)
# By the element type of a map, a function that converts a number or a text to a builtin type, or raises an error.
_ITEMS: dict[str, Callable] = {
    "string": str.__str__,
    "int64": lambda number: int(np.int64(operator.index(number))),
    "float": lambda number: math.ldexp(number, 0),  # unlike float, not of a text
    "double": lambda number: math.ldexp(number, 0),
}


def convert(value_type: str, value: object) -> object:
    """Convert a value to an object that ORT's Python API accepts for a type, or describe it in a ``ValueError``."""
    if isinstance(value, OrtValue):
        return value
    if value is None:
        if value_type.startswith(_OPTIONAL):
            return None
        raise ValueError("None")  # ORT crashes on None for a map
    value_type = required(value_type)
    if value_type.startswith("map("):
        return _map(value_type, value)
    if value_type.startswith(_SEQUENCE):
        return _sequence(value_type[len(_SEQUENCE) : -1], value)
    element = tensors.element_type(value_type)
    if element is None:
        return value  # ORT itself reads sparse tensors
    array = as_array(value, tensors.dtype_of(element))
    if tensors.numpy_has(array.dtype):
        return array
    return tensors.to_ort_value(array, element)


def required(value_type: str) -> str:
    """Return the type of the value of a type that may be optional."""
    if value_type.startswith(_OPTIONAL):
        return value_type[len(_OPTIONAL) : -1]
    return value_type


def _map(value_type: str, value: Any) -> dict:
    """Convert a map to builtin types. ORT 1.24 releases a map that it cannot convert once too often, and crashes."""
    with suppress(Exception):  # a caller's class can raise any
        types = re.fullmatch(r"map\((\w+),tensor\((\w+)\)\)", value_type)
        if types and value:  # ORT refuses an empty map
            to_key = _ITEMS[types[1]]
            to_number = _ITEMS[types[2]]
            return {to_key(key): to_number(number) for key, number in value.items()}
    raise ValueError(describe(value))


def _sequence(item_type: str, value: object) -> list:
    if not isinstance(value, _LISTS):
        raise ValueError(describe(value))
    try:
        return [convert(item_type, item) for item in value]
    except ValueError as reason:
        raise ValueError(f"a list that contains {reason}") from None


def as_array(value: object, dtype: np.dtype) -> ndarray:
    """Convert a value to an array of exactly this dtype, or raise a ``ValueError`` that describes the value.

    Values with an element type (arrays, numpy scalars, objects with ``__array__``) must have this one. Python numbers,
    texts and lists have none: they are read as this type if it can represent them.
    """
    is_text = dtype == _STRING
    if isinstance(value, _PLAIN) and not isinstance(value, np.generic):
        if is_text:
            return _texts_of(value)
        return rounding.as_numbers(value, dtype)
    array = np.asarray(value)
    has_type = hasattr(value, "__array__")
    if is_text:
        if not _contains_text(array, has_type):
            raise ValueError(describe(value))
        return _decoded(array)
    # ORT would read bytes in foreign byte order as native ones, and crashes on such text.
    if array.dtype.newbyteorder("=") != dtype:
        raise ValueError(describe(array if has_type else value))
    return array.astype(dtype, copy=False)


def _texts_of(value: object) -> ndarray:
    """Convert a text, or nested lists of texts and other objects, to an array of objects."""
    fitting: tuple[type, ...] = (str, bytes)
    if isinstance(value, _LISTS):
        fitting = (object,)
    nested_lists.kinds_in(value, fitting)
    return _decoded(nested_lists.stacked(value, object))


def _contains_text(array: ndarray, has_type: bool) -> bool:
    """Return whether an array, which numpy made from an object with or without an element type, can contain text."""
    if array.dtype.kind in "STU":
        return True
    if array.dtype.kind == "O":
        return has_type  # otherwise, numpy has wrapped the object
    return array.dtype.type is np.void and not array.dtype.names  # fields are not text


def _decoded(array: ndarray) -> ndarray:
    """Convert the objects of an array to text: ``bytes`` are UTF-8, and all others are converted as ``str()`` does."""
    array = array.astype(object)  # a copy
    kinds = set(map(type, array.flat))
    if kinds <= {str, np.str_}:
        return array
    return nested_lists.each(array, _text)


def _text(item: object) -> str:
    """Return the text of an object. ORT terminates the process if ``str()`` fails."""
    if isinstance(item, _CONTAINERS):
        raise ValueError(f"text that contains {describe(item)}")
    try:
        if isinstance(item, bytes):
            return item.decode()
        is_missing = item is None or bool(item != item)  # as NaN
        text = str.__str__(str(item))
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8 text") from None
    except Exception:  # of the caller's class
        raise ValueError(f"text that contains {describe(item)}, which has no text") from None
    if is_missing:
        raise ValueError(f"text that contains {describe(item)}")
    return text
