# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts numpy arrays of any ONNX element type to ``OrtValue`` and back.

ORT's Python API converts the element types that numpy has. All other types (bfloat16, float8, 4-bit and 2-bit types)
are arrays of the dtypes that ``onnx.helper`` specifies, and onnx's own helpers pack and unpack them. This requires onnx
1.19: an older onnx specifies numpy's own dtypes for these types, which ORT rejects, as in the stock backend.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnxruntime import OrtValue, copy_tensors
from onnxruntime.backend.errors import show

_STRING = np.dtype(object)
# The Python representation of a container is not text that a caller means.
_CONTAINERS = (list, tuple, Mapping, AbstractSet, np.ndarray)
_FLAT = (str, bytes, bytearray, memoryview)
_RAGGED = "a list of lists of different lengths"
_MOST_DIMENSIONS = 64  # numpy supports no more (32 before 2.0). A list that contains itself is nested deeper
_ELEMENT_TYPES = {name.lower(): number for name, number in TensorProto.DataType.items()}  # by ORT's names

dtype_of = helper.tensor_dtype_to_np_dtype


@lru_cache
def element_type(value_type: str) -> int | None:
    """Return the ONNX element type of a type such as ``'tensor(float)'``; ``None`` if it is not a tensor or unknown."""
    match = re.fullmatch(r"tensor\((\w+)\)", value_type)
    return _ELEMENT_TYPES.get(match[1]) if match else None


def readable(value_type: str) -> str:
    """Return a type that ORT reports with the dtype's name for each tensor: ``'float32'`` for ``'tensor(float)'``."""

    def name(match: re.Match) -> str:
        element = element_type(match[0])
        return match[0] if element is None else "string" if match[1] == "string" else dtype_of(element).name

    return re.sub(r"\btensor\((\w+)\)", name, value_type)


def numpy_has(dtype: np.dtype) -> bool:
    """Return whether a dtype is numpy's own, which ORT's Python API converts, and not of ml_dtypes."""
    return dtype.isbuiltin != 2  # 1, or 0 for a copy, as in an unpickled array


def number_dtype(value_type: str) -> np.dtype | None:
    """Return the dtype of arrays that ORT accepts for a type without conversion; ``None`` for text and other types."""
    dtype = dtype_of(element_type(value_type) or TensorProto.STRING)
    return dtype if dtype.kind in "biuf" and numpy_has(dtype) else None


def is_plain(value_type: str) -> bool:
    """Return whether ORT's Python API converts values of this type, because numpy has all of its element types."""
    elements = map(element_type, re.findall(r"tensor\(\w+\)", value_type))
    return all(element is None or numpy_has(dtype_of(element)) for element in elements)


def as_array(value: object, dtype: np.dtype) -> np.ndarray:
    """Convert a value to an array of exactly this dtype, or raise a ``ValueError`` that describes the value.

    Values with an element type (arrays, numpy scalars, objects with ``__array__``) must have this one. Python numbers,
    texts and lists have none: they are read as this type if it can represent them.
    """
    if isinstance(value, (bool, int, float, str, bytes, list, tuple)) and not isinstance(value, np.generic):
        if dtype != _STRING:
            return _numbers_of(value, dtype)
        _types_in(value, (object,) if isinstance(value, (list, tuple)) else (str, bytes))
        return _texts(_stacked(value, object))
    array = np.asarray(value)
    if dtype == _STRING:
        # numpy wraps an object without __array__ in an array of objects. The fields of a np.void are no text.
        kinds = "OSTU" if hasattr(value, "__array__") else "STU"
        if array.dtype.kind not in kinds and (array.dtype.type is not np.void or array.dtype.names):
            raise ValueError(describe(value))
        return _texts(array)
    # ORT would read bytes in foreign byte order as native ones, and crashes on such text.
    if array.dtype.newbyteorder("=") != dtype:
        raise ValueError(describe(array if hasattr(value, "__array__") else value))
    return array if array.dtype is dtype else array.astype(dtype)


def _texts(array: np.ndarray) -> np.ndarray:
    """Decode ``bytes``, and leave ``str()`` of all other values, such as numbers, ``None`` and dates, to ORT."""
    array = array.astype(object)  # a copy
    kinds = set(map(type, array.flat))
    return _each(array, _text) if any(issubclass(kind, (bytes, *_CONTAINERS)) for kind in kinds) else array


def _text(item: object) -> object:
    if isinstance(item, _CONTAINERS):
        raise ValueError(f"text that contains {describe(item)}")
    try:
        return item.decode() if isinstance(item, bytes) else item
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8 text") from None


def _numbers_of(value: object, dtype: np.dtype) -> np.ndarray:
    """Convert a Python number, or nested lists of numbers, to an array of a type that is not text."""
    whole = dtype.kind in "biu" or (dtype.kind == "V" and dtype.name.startswith(("int", "uint")))  # the name is slow
    within = "a list that contains " if isinstance(value, (list, tuple)) else ""
    # In a list, a text can be a number, as in the stock backend. numpy reads it as the bool True if it is not empty.
    texts = (str, bytes) if within and dtype.kind != "b" else ()
    fitting = (bool, int, float, np.bool_, np.integer, np.floating, dtype.type, *texts)
    has_text = any(issubclass(kind, texts) for kind in _types_in(value, fitting))
    found = None if has_text else _stacked(value)
    # numpy rounds large integers of different types, and counts durations among the integers.
    if found is None or found.dtype.kind not in ("biu" if whole else "biuf"):
        items = _stacked(value, object)
        try:
            found = _each(items, lambda item: _number(item, fitting, whole))
        except ValueError as reason:
            raise ValueError(f"{within}{reason}") from None
    if whole:
        size = 2 if dtype.kind == "b" else 1 << int(dtype.name.lstrip("uint"))
        low = -size // 2 if dtype.name[0] == "i" else 0
        exact = found.astype(object)  # numpy before 2.0 rounds large integers to compare them
        array, lost = found, np.asarray((exact < low) | (exact >= low + size))
    else:
        array, lost = _floats(found, dtype)
    if lost.any():
        raise ValueError(f"{within}{show(found[lost].tolist()[0])}, which is out of range")
    return array.astype(dtype, copy=False)


def _number(item: object, fitting: tuple[type, ...], whole: bool) -> object:
    """Return the Python number that an item of a list represents, or describe the item in a ``ValueError``."""
    if isinstance(item, fitting) and not isinstance(item, np.timedelta64):
        number = item.item() if isinstance(item, np.generic) else item
        with suppress(ValueError, OverflowError):
            if isinstance(number, (str, bytes)):
                number = int(number) if whole else float(number)
                if number in (np.inf, -np.inf) and re.search(r"\d", str(item)):  # as of '1e400'
                    raise OverflowError
            if not whole or number == int(number):
                return number
    raise ValueError(describe(item))


def _each(array: np.ndarray, convert: Callable[[object], object]) -> np.ndarray:
    """Convert each object of an array. For numpy, a list can contain an array without dimensions: convert its item."""
    items = (item[()] if type(item) is np.ndarray and item.ndim == 0 else item for item in array.flat)
    # numpy would convert objects that are sequences if they were assigned to an array.
    return np.fromiter(map(convert, items), object, array.size).reshape(array.shape)


def _floats(found: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Round numbers to a type that is not of integers, and return for each number whether it is out of range."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            numbers = found.astype(np.float64) if found.dtype.kind == "O" else found
        except OverflowError:  # an integer of more than 1024 bits
            return found, abs(found) >= 1 << 1023
        array = numbers.astype(dtype)
        if dtype.itemsize > 1 and np.isfinite(array).all():  # as in most runs, which skip the rest
            return array, np.False_
        # A type without infinity represents a number that is too large as NaN, or as the largest number that it has.
        size = np.abs(array.astype(np.float64))
        return array, np.isfinite(numbers) & (np.isinf(size) | ((size != 0) & ~(size * 2 >= np.abs(numbers))))


def _types_in(value: object, fitting: tuple[type, ...]) -> set[type]:
    """Return the types of the items in nested lists, or raise a ``ValueError`` if numpy must not convert the lists.

    Each step checks one level. numpy before 1.24 makes an array of lists of different lengths. numpy 2.4 crashes on
    some lists next to a number or a text, such as ``[[1, x], x]`` with a list ``x``.
    """
    types: set[type] = set()
    items: list = [value]
    for _ in range(_MOST_DIMENSIONS):
        kinds = set(map(type, items))  # few, even of a million items
        if np.ndarray in kinds:
            kinds = set(map(_type_of, items))
        nested = {kind for kind in kinds if issubclass(kind, Sequence) and not issubclass(kind, _FLAT)}
        if unfit := {kind for kind in kinds - nested if not issubclass(kind, fitting) and not _is_array_like(kind)}:
            item = next(item for item in items if _type_of(item) in unfit)
            raise ValueError(describe(value) if item is value else f"a list that contains {describe(item)}")
        types |= kinds - nested
        if not nested:
            return types
        # Each list once: otherwise, a list that contains another one several times takes exponential time.
        lists = {id(item): item for item in items if type(item) in nested}.values()
        beside = (item for item in items if type(item) not in nested and isinstance(item, fitting))
        scalars = any(not isinstance(item, np.ndarray) or item.ndim == 0 for item in beside)
        if scalars or len(set(map(len, lists))) > 1:
            raise ValueError(_RAGGED)
        items = list(chain.from_iterable(lists))
    raise ValueError("a list that is nested too deeply")


def _type_of(item: object) -> type:
    return item.dtype.type if type(item) is np.ndarray else type(item)


def _is_array_like(kind: type) -> bool:
    """Return whether numpy converts objects of a class to arrays. Their type is known only afterwards."""
    return kind is memoryview or (hasattr(kind, "__array__") and not issubclass(kind, np.generic))


def _stacked(value: object, dtype: type | None = None) -> np.ndarray:
    try:
        return np.asarray(value, dtype)
    except ValueError:
        raise ValueError(_RAGGED) from None


def to_ort_value(array: np.ndarray, element: int) -> OrtValue:
    """Convert an array of a type that numpy lacks to a tensor. The array must not change while the tensor is in use."""
    array = np.asarray(array, order="C")
    if _is_packed(array.dtype):
        packed = numpy_helper.from_array(array).raw_data
        # ORT uses the shape of the array, and reads the packed bytes from the start of its memory.
        array = np.zeros(array.shape, dtype=np.uint8)
        array.reshape(-1)[: len(packed)] = np.frombuffer(packed, dtype=np.uint8)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(array, element)


@cache
def _is_packed(dtype: np.dtype) -> bool:
    """Return whether a tensor of this type contains several elements in a byte."""
    return len(numpy_helper.from_array(np.zeros(4, dtype)).raw_data) < 4 * dtype.itemsize


def owned(value: object) -> object:
    """Copy an output of a run unless it owns its memory: an array, or the arrays of a sequence."""
    if isinstance(value, list):
        return [owned(item) for item in value]
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.owndata else value


def to_array(value: OrtValue) -> np.ndarray | None:
    """Copy a tensor to an array that owns its bytes; return ``None`` for an optional without a value.

    A result can share the memory of an input, an initializer or another result. ``OrtValue.numpy`` returns a view of
    that memory, which nothing keeps alive. So only this function calls it.
    """
    if not value.has_value():
        return None
    element, device = value.element_type(), value.device_name()  # a sequence raises a RuntimeError
    if element == TensorProto.STRING or device == "cuda":
        return value.numpy()  # ORT makes a new array of text, and copies from CUDA memory
    dtype = dtype_of(element)
    if _is_packed(dtype):
        data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
        return numpy_helper.to_array(TensorProto(data_type=element, dims=value.shape(), raw_data=data))
    array = np.empty(value.shape(), dtype)
    if device == "cpu":
        ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    else:
        copy_tensors([value], [OrtValue.ortvalue_from_numpy(array)])  # the second value shares the array's memory
    return array


def describe(value: object) -> str:
    """Describe a value for a message: its type, and its shape or the value itself."""
    if isinstance(value, OrtValue):
        return f"OrtValue {readable(value.data_type())}{value.shape() if value.is_tensor() else ''}"
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype.name}{list(value.shape)}"
    if value is None:
        return "None"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    text = show(value)
    return text if text.startswith(("a value of", "an integer of")) else f"{text} ({type(value).__name__})"
