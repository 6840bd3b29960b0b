# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the value of an input to an object that ORT's Python API accepts for the type of the input.

A value that does not fit raises a ``ValueError``, whose message describes the value. Nested lists are checked before
numpy converts them. If numpy changes none of their numbers, it reads them. Otherwise, this module reads each item. It
rounds the numbers to the type, and refuses numbers that the type cannot represent.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from onnxruntime import OrtValue
from onnxruntime.backend.errors import show
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.tensors import describe

_OPTIONAL = "optional("
_SEQUENCE = "seq("
_STRING = np.dtype(object)
_LISTS = (list, tuple)
# Python objects without an element type.
_PLAIN = (int, float, str, bytes, *_LISTS)
# The Python representation of a container is not text that a caller means.
_CONTAINERS = (*_LISTS, Mapping, AbstractSet, ndarray)
# By the element type of a map, a function that converts a number or a text to a builtin type, or raises an error.
_ITEMS: dict[str, Callable] = {
    "string": str.__str__,
    "int64": lambda number: int(np.int64(operator.index(number))),
    "float": lambda number: math.ldexp(number, 0),  # unlike float, not of a text
    "double": lambda number: math.ldexp(number, 0),
}
_TEXTS = (str, bytes)
_NUMBERS = (int, float, np.bool_, np.integer, np.floating)
_FLAT = (str, bytes, bytearray, memoryview)
_RAGGED = "a list of lists of different lengths"
_MOST_DIMENSIONS = 64  # numpy supports no more (32 before 2.0). A list that contains itself is nested deeper


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
        return _as_numbers(value, dtype)
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
    _classes_in(value, fitting)
    return _decoded(_stacked(value, object))


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
    classes = set(map(type, array.flat))
    if classes <= {str, np.str_}:
        return array
    return _each(array, _text)


def _text(item: object) -> str:
    """Return the text of an object. ORT terminates the process if ``str()`` fails."""
    try:
        if isinstance(item, bytes):
            return item.decode()
        is_missing = item is None or isinstance(item, _CONTAINERS)
        if not is_missing and item == item:  # unlike NaN
            return str.__str__(str(item))
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8 text") from None
    except Exception:  # of the caller's class
        pass
    raise ValueError(f"text that contains {describe(item)}")


class _NumberType(NamedTuple):
    """A type of numbers, and how a Python number or nested lists of numbers become an array of this type."""

    dtype: np.dtype
    integers: range | None  # of the type, if it has no other numbers
    dtype_kinds: str  # of arrays in which numpy has not changed the numbers
    fitting: tuple  # the classes of objects that can be numbers
    within: str  # the first words about a number that does not fit


@cache
def _number_type(dtype: np.dtype, in_list: bool) -> _NumberType:
    integers = _integers_of(dtype)
    # numpy rounds large integers of different types, and counts durations among the integers.
    dtype_kinds = "biuf" if integers is None else "biu"
    within = ""
    fitting: tuple[type, ...] = (*_NUMBERS, dtype.type)
    if in_list:
        within = "a list that contains "
        # A text can be a number, as in the stock backend. numpy reads it as the bool True if it is not empty.
        if dtype.kind != "b":
            fitting += _TEXTS
    return _NumberType(dtype, integers, dtype_kinds, fitting, within)


def _integers_of(dtype: np.dtype) -> range | None:
    if dtype.kind == "b":
        return range(2)
    bits = dtype.name.lstrip("uint")
    if not bits.isdecimal():
        return None
    count = 1 << int(bits)
    if dtype.name.startswith("u"):
        return range(count)
    return range(-count // 2, count // 2)


def _as_numbers(value: object, dtype: np.dtype) -> ndarray:
    """Convert a Python number, or nested lists of numbers, to an array of a type that is not text."""
    in_list = isinstance(value, (list, tuple))
    target = _number_type(dtype, in_list)
    classes = _classes_in(value, target.fitting)
    has_text = any(issubclass(one, _TEXTS) for one in classes)

    # numpy would make texts of all numbers, each as long as the longest text.
    numbers = _stacked(value, object if has_text else None)
    if numbers.dtype.kind not in target.dtype_kinds:
        objects = _stacked(value, object)
        numbers = _each(objects, lambda item: _read(item, target))
    return _rounded(numbers, target)


def _read(item: object, target: _NumberType) -> object:
    """Return the Python number that an item of a list represents, or describe the item in a ``ValueError``."""
    if isinstance(item, target.fitting) and not isinstance(item, np.timedelta64):
        number = item
        if isinstance(item, np.generic):
            number = item.item()
        with suppress(ValueError, OverflowError):
            if isinstance(number, _TEXTS):
                number = _parsed(number, target)
            if target.integers is None or number == int(number):
                return number
    raise ValueError(target.within + describe(item))


def _parsed(text: str | bytes, target: _NumberType) -> float:
    if target.integers:
        return int(text)
    number = float(text)
    if math.isinf(number) and re.search(r"\d", str(text)):  # as of '1e400'
        raise OverflowError
    return number


def _rounded(numbers: ndarray, target: _NumberType) -> ndarray:
    """Round numbers to a type, or describe the first number that is out of range in a ``ValueError``."""
    integers = target.integers
    if integers is None:
        with np.errstate(over="ignore", invalid="ignore"):
            array, is_outside = _floats(numbers, target.dtype)
    else:
        array = numbers
        exact = numbers.astype(object)  # numpy before 2.0 rounds large integers to compare them
        is_outside = (exact < integers.start) | (exact >= integers.stop)

    if np.any(is_outside):
        first = numbers[is_outside].tolist()[0]
        raise ValueError(f"{target.within}{show(first)}, which is out of range")
    return array.astype(target.dtype, copy=False)


def _floats(numbers: ndarray, dtype: np.dtype) -> tuple[ndarray, ndarray | bool]:
    """Round numbers to a type without integers. Return for each number whether it is out of range."""
    if numbers.dtype == object:
        try:
            numbers = numbers.astype(np.float64)
        except OverflowError:  # an integer of more than 1024 bits
            return numbers, abs(numbers) >= 1 << 1023
    array = numbers.astype(dtype)
    # As in most runs, which skip the rest. A type of one byte can have no infinity.
    if dtype.itemsize > 1 and np.isfinite(array).all():
        return array, False

    size = np.abs(array.astype(np.float64))
    # A type without infinity represents a number that is too large as NaN, or as the largest number that it has.
    is_near = (size == 0) | (size * 2 >= np.abs(numbers))
    return array, np.isfinite(numbers) & ~(np.isfinite(size) & is_near)


def _classes_in(value: object, fitting: tuple) -> set:
    """Return the classes of the items in nested lists, or raise a ``ValueError`` if numpy must not convert the lists.

    Each step checks one level. Before 1.24, numpy makes an array of lists of different lengths. Version 2.4 of numpy
    crashes on some lists next to a number or a text, such as ``[[1, x], x]`` with a list ``x``.
    """
    classes = set()
    items = [value]
    for _ in range(_MOST_DIMENSIONS):
        of_level = set(map(type, items))  # few, even of a million items
        if ndarray in of_level:
            of_level = set(map(_class_of, items))
        lists = set(filter(_is_list, of_level))
        flat = of_level - lists

        unfit = {one for one in flat if not _fits(one, fitting)}
        if unfit:
            item = next(item for item in items if _class_of(item) in unfit)
            within = "" if item is value else "a list that contains "
            raise ValueError(within + describe(item))

        classes |= flat
        if not lists:
            return classes
        items = _items_of(items, lists, fitting)
    raise ValueError("a list that is nested too deeply")


def _class_of(item: object) -> type:
    """Return the class of an item, or of the items of an array."""
    if type(item) is ndarray:
        return item.dtype.type
    return type(item)


def _is_list(item_class: type) -> bool:
    return issubclass(item_class, Sequence) and not issubclass(item_class, _FLAT)


def _fits(item_class: type, fitting: tuple) -> bool:
    if issubclass(item_class, fitting) or item_class is memoryview:
        return True
    # numpy converts the objects to arrays. Their type is known only afterwards.
    return hasattr(item_class, "__array__") and not issubclass(item_class, np.generic)


def _items_of(items: list, list_classes: set, fitting: tuple) -> list:
    """Return the items of the lists among these items, or raise a ``ValueError`` if numpy must not convert them."""
    # Each list once: otherwise, a list that contains another one several times takes exponential time.
    lists = {}
    for item in items:
        if type(item) in list_classes:
            lists[id(item)] = item
        elif isinstance(item, fitting):
            is_array = isinstance(item, ndarray) and item.ndim > 0
            if not is_array:  # but a number or a text
                raise ValueError(_RAGGED)
    lengths = set(map(len, lists.values()))
    if len(lengths) > 1:
        raise ValueError(_RAGGED)
    return list(chain.from_iterable(lists.values()))


def _stacked(value: object, dtype: type | None = None) -> ndarray:
    """Convert nested lists to an array, or raise a ``ValueError`` if their lengths differ."""
    try:
        return np.asarray(value, dtype)
    except ValueError:
        raise ValueError(_RAGGED) from None


def _each(array: ndarray, convert: Callable) -> ndarray:
    """Convert each object of an array."""
    converted = []
    for item in array.flat:
        if type(item) is ndarray and not item.ndim:
            # For numpy, a list can contain an array without dimensions: convert its item.
            converted.append(convert(item[()]))
        else:
            converted.append(convert(item))
    # numpy would convert objects that are sequences if they were assigned to an array.
    objects = np.fromiter(converted, object, array.size)
    return objects.reshape(array.shape)
