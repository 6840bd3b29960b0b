# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the value of an input to an object that ORT's Python API accepts for the type of the input.

A value that does not fit raises a ``ValueError``, whose message describes the value. Values with an element type
(arrays, numpy scalars, objects with ``__array__``) must have the type of the input. Python numbers, texts and lists
have none: they are read as this type if it can represent them.
"""

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any

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
_TEXTS = (str, bytes)
_NUMBERS = (int, float, np.bool_, np.integer, np.floating)
# Python objects without an element type.
_UNTYPED = (int, float, *_TEXTS, *_LISTS)
# The Python representation of a container is not text that a caller means.
_CONTAINERS = (*_LISTS, Mapping, AbstractSet, ndarray)
# By the element type of a map, a function that converts a number or a text to a builtin type, or raises an error.
_ITEMS: dict[str, Callable] = {
    "string": str.__str__,
    "int64": lambda number: int(np.int64(operator.index(number))),
    "float": lambda number: math.ldexp(number, 0),  # unlike float, not of a text
    "double": lambda number: math.ldexp(number, 0),
}
_MOST_DIMENSIONS = 64  # numpy supports no more (32 before 2.0). A list that contains itself is nested deeper
_MOST_ITEMS = 2**31  # if a list contains another one several times, each level multiplies their number


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
    """Convert a value to an array of exactly this dtype, or raise a ``ValueError`` that describes the value."""
    is_text = dtype == _STRING
    if isinstance(value, _UNTYPED) and not isinstance(value, np.generic):
        if is_text:
            return _texts(value)
        return _numbers(value, dtype)
    array = np.asarray(value)
    has_type = hasattr(value, "__array__")
    if is_text:
        if not _contains_text(array, has_type):
            raise ValueError(describe(value))
        texts = map(_text, array.astype(object).flat)
        return np.fromiter(texts, object, array.size).reshape(array.shape)
    # ORT would read bytes in foreign byte order as native ones, and crashes on such text.
    if array.dtype.newbyteorder("=") != dtype:
        raise ValueError(describe(array if has_type else value))
    return array.astype(dtype, copy=False)


def _flattened(value: Any) -> tuple[list[int], Collection, set[type]]:
    """Return the shape of nested lists and arrays, their items in order, and the classes of the items.

    Raise a ``ValueError`` if lengths differ: numpy 2.4 crashes on some of these lists.
    """
    _check_depth(value)
    shape: list[int] = []
    items: list[Any] = [value]
    while True:
        types = set(map(type, items))  # few, even of a million items
        if types == {ndarray} and len({(item.dtype, item.shape) for item in items}) == 1:
            array = np.stack(items)
            if array.dtype.kind in "biuf":
                return [*shape, *array.shape[1:]], array.ravel(), {array.dtype.type}
        if any(map(_is_array, types)):
            items = [_opened(item) for item in items]
            types = set(map(type, items))
        lists = set(filter(_is_list, types))
        if not lists:
            return shape, items, types
        lengths = set(map(len, items)) if lists == types else set()
        if len(lengths) != 1:
            raise ValueError("a list of lists of different lengths")
        shape += lengths
        items = list(chain.from_iterable(items))


def _check_depth(value: Any) -> None:
    """Raise a ``ValueError`` if a list, the first list in it, and so on, are nested too deeply for an array."""
    depth, count = 0, 1
    while isinstance(value, _LISTS) and value:
        depth += 1
        count *= len(value)
        if depth > _MOST_DIMENSIONS or count > _MOST_ITEMS:
            raise ValueError("a list that is nested too deeply")
        value = value[0]


@cache
def _is_list(item_type: type) -> bool:
    return issubclass(item_type, Sequence) and not issubclass(item_type, (*_TEXTS, bytearray, memoryview))


def _is_array(item_type: type) -> bool:
    return item_type is memoryview or (hasattr(item_type, "__array__") and not issubclass(item_type, np.generic))


def _opened(item: Any) -> Any:
    """Return the items of an array, or the item of an array without dimensions. Return other objects as they are."""
    if not _is_array(type(item)):
        return item
    array = np.asarray(item)
    return list(array) if array.ndim else array[()]


def _texts(value: object) -> ndarray:
    """Convert a text, or nested lists of texts and other objects, to an array of objects."""
    if not isinstance(value, (*_LISTS, *_TEXTS)):
        raise ValueError(describe(value))
    shape, items, types = _flattened(value)
    if types != {str}:
        items = list(map(_text, items))
    return np.fromiter(items, object, len(items)).reshape(shape)


def _contains_text(array: ndarray, has_type: bool) -> bool:
    """Return whether an array, which numpy made from an object with or without an element type, can contain text."""
    if array.dtype.kind in "STU":
        return True
    if array.dtype.kind == "O":
        return has_type  # otherwise, numpy has wrapped the object
    return array.dtype.type is np.void and not array.dtype.names  # fields are not text


def _text(item: object) -> str:
    """Return the text of an object: ``bytes`` are UTF-8. ORT terminates the process if ``str()`` fails."""
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


def _numbers(value: Any, dtype: np.dtype) -> ndarray:
    """Convert a Python number, or nested lists of numbers, to an array of a type that is not text."""
    shape, items, types = _flattened(value)
    in_list = isinstance(value, _LISTS)
    fitting: tuple[type, ...] = (*_NUMBERS, dtype.type)
    # In a list, a text can be a number, as in the stock backend. numpy reads it as the bool True if it is not empty.
    if in_list and dtype.kind != "b":
        fitting += _TEXTS
    try:
        for item_type in types:
            if not issubclass(item_type, fitting) or issubclass(item_type, np.timedelta64):  # for numpy, an integer
                raise ValueError(describe(next(item for item in items if type(item) is item_type)))
        has_text = any(issubclass(item_type, _TEXTS) for item_type in types)
        # numpy would make texts of all numbers, each as long as the longest text.
        numbers = np.asarray(items, object if has_text else None)
        integers = _integers_of(dtype)
        if integers is None:
            if numbers.dtype.kind not in "biuf":
                numbers = np.array([_float(item) for item in items])
            array = _rounded(numbers, dtype)
        else:
            if numbers.dtype.kind not in "biu":  # numpy has rounded large integers to combine them with others
                numbers = np.array([_integer(item) for item in items], object)
            array = _exact(numbers, dtype, integers)
    except ValueError as reason:
        within = "a list that contains " if in_list else ""
        raise ValueError(f"{within}{reason}") from None
    return array.reshape(shape)


def _exact(numbers: ndarray, dtype: np.dtype, integers: range) -> ndarray:
    """Convert integers to a type, or describe one that the type cannot represent in a ``ValueError``."""
    if numbers.size and not integers.start <= int(numbers.min()) <= int(numbers.max()) < integers.stop:
        beyond = next(number for number in numbers.tolist() if int(number) not in integers)
        raise ValueError(f"{show(beyond)}, which is out of range")
    return numbers.astype(dtype, copy=False)


def _integer(item: Any) -> int:
    number = item.item() if isinstance(item, np.generic) else item
    with suppress(ValueError, OverflowError):
        if isinstance(number, _TEXTS) or number == int(number):
            return int(number)
    raise ValueError(describe(item))


@cache
def _integers_of(dtype: np.dtype) -> range | None:
    """Return the integers of a type, ``None`` if it has other numbers."""
    if dtype.kind == "b":
        return range(2)
    bits = dtype.name.lstrip("uint")
    if not bits.isdecimal():
        return None
    count = 1 << int(bits)
    if dtype.name.startswith("u"):
        return range(count)
    return range(-count // 2, count // 2)


def _rounded(numbers: ndarray, dtype: np.dtype) -> ndarray:
    """Round numbers to a type, or describe one that is too large for the type in a ``ValueError``."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = numbers.astype(dtype, copy=False)
    # As in most runs, which skip the rest. A type of one byte can have no infinity.
    if dtype.itemsize > 1 and np.isfinite(array).all():
        return array
    is_lost = ~np.isfinite(array.astype(np.float64)) | (np.abs(numbers) > _saturation(dtype))
    beyond = numbers[np.isfinite(numbers) & is_lost]
    if beyond.size:
        raise ValueError(f"{show(beyond.tolist()[0])}, which is out of range")
    return array


def _float(item: Any) -> float:
    try:
        number = float(item)
    except ValueError:
        raise ValueError(describe(item)) from None
    except OverflowError:
        raise ValueError(f"{show(item)}, which is out of range") from None
    if isinstance(item, _TEXTS) and math.isinf(number) and any(map(str.isdigit, str(item))):  # as of '1e400'
        raise ValueError(describe(item))
    return number


@cache
def _saturation(dtype: np.dtype) -> float:
    """Return the number that represents all larger ones, infinity if the type uses infinity or NaN for them."""
    largest = float(np.array(math.inf).astype(dtype))
    return largest if math.isfinite(largest) else math.inf
