# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tensor values: numpy arrays of any ONNX element type to ``OrtValue`` and back.

ORT's Python API moves the types that numpy itself has. The others (bfloat16, the float8 family, the 4 and 2 bit types)
are numpy arrays of the dtypes that ``onnx.helper`` names for them; onnx's own helpers pack and unpack them. That takes
onnx 1.19: an older one names dtypes of numpy's for them, which ORT does not take, as with the stock backend.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache, lru_cache

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnxruntime import OrtValue, copy_tensors

_STRING = np.dtype(object)
_SPELLED = (str, bytes, bool, int, float, np.generic, type(None))
_RAGGED = "lists of different lengths in one list"
# ORT writes ONNX's own names in lower case.
_ELEMENT_TYPES = {name.lower(): number for name, number in TensorProto.DataType.items()}


@lru_cache
def element_type(value_type: str) -> int | None:
    """The ONNX element type of a tensor type as ORT writes it, such as ``'tensor(float)'``.

    :return: a ``TensorProto.DataType``, or ``None`` for what is not a plain tensor or has a type that this onnx lacks.
    """
    match = re.fullmatch(r"tensor\((\w+)\)", value_type)
    return _ELEMENT_TYPES.get(match[1]) if match else None


def dtype_of(element: int) -> np.dtype:
    """The dtype of the arrays that hold an ONNX element type."""
    return helper.tensor_dtype_to_np_dtype(element)


def numpy_has(dtype: np.dtype) -> bool:
    """Tell whether a dtype is numpy's own, which ORT's Python API moves by itself."""
    return dtype.isbuiltin == 1


def as_array(value: object, dtype: np.dtype) -> np.ndarray:
    """Give a value as an array of exactly this dtype, in native byte order.

    Whatever carries an element type (arrays, numpy scalars, objects with ``__array__``) must carry this one. Python
    numbers, texts and lists carry none: they are read as this one where it can hold them.

    :raises ValueError: when the value is of another type; the message is the value's description.
    """
    if isinstance(value, (bool, int, float, str, bytes, list, tuple)) and not isinstance(value, np.generic):
        return _from_plain(value, dtype)
    array = np.asarray(value)
    if dtype == _STRING:
        # Without __array__ that is any object, which numpy wrapped as it knew no better.
        if array.dtype.kind not in ("OSTU" if hasattr(value, "__array__") else "STU"):
            raise ValueError(describe(value))
        return _texts(array)
    # ORT takes the bytes of an array in foreign byte order for its own, and crashes on such text.
    if array.dtype.newbyteorder("=") != dtype:
        raise ValueError(describe(value))
    return array if array.dtype is dtype else array.astype(dtype)


def _from_plain(value: object, dtype: np.dtype) -> np.ndarray:
    if dtype == _STRING:
        if isinstance(value, (bool, int, float)):
            raise ValueError(describe(value))
        return _texts(np.asarray(value, dtype=object))
    try:
        found = np.asarray(value)
    except ValueError:
        raise ValueError(_RAGGED) from None
    if found.size == 0:
        return found.astype(dtype)
    if found.dtype == dtype:
        return found
    whole = dtype.name.startswith(("int", "uint"))
    if found.dtype.kind not in ("biu" if whole else "biuf") or dtype.kind == "b":
        raise ValueError(describe(value))
    array = found.astype(dtype)
    # Compared as Python's numbers, as numpy's would wrap around the same way again.
    if whole and np.any(array.astype(object) != found.astype(object)):
        raise ValueError(f"{describe(value)} out of range")
    return array


def _texts(array: np.ndarray) -> np.ndarray:
    """Text as ORT takes it: ``str``, or numbers and ``None``, of which it takes the Python spelling; so it would of
    ``bytes``, which are decoded."""
    array = array.astype(object, copy=False)
    kinds = set(map(type, array.flat))
    if any(issubclass(kind, (list, tuple)) for kind in kinds):
        raise ValueError(_RAGGED)
    if not all(issubclass(kind, _SPELLED) for kind in kinds):
        raise ValueError(describe(array))
    if any(issubclass(kind, bytes) for kind in kinds):
        texts = np.empty(array.shape, dtype=object)
        texts.flat = [text.decode() if isinstance(text, bytes) else text for text in array.flat]
        return texts
    return array


@lru_cache
def is_plain(value_type: str) -> bool:
    """Tell whether ORT's Python API moves values of a type by itself, as numpy has its element type."""
    elements = map(element_type, re.findall(r"tensor\(\w+\)", value_type))
    return all(element is None or numpy_has(dtype_of(element)) for element in elements)


def to_ort_value(value: object, element: int = TensorProto.UNDEFINED) -> OrtValue:
    """Give an array to ORT as a tensor. Its data is copied only where it must be packed.

    :param value: array, which must not change while the result is in use; or an ``OrtValue``, which stays that.
    :param element: the ONNX element type, a ``TensorProto.DataType``, where numpy lacks it.
    :raises RuntimeError: for values of which ORT's Python API can make none.
    """
    if isinstance(value, OrtValue):
        return value
    if not isinstance(value, np.ndarray) or value.dtype == _STRING:
        raise RuntimeError(
            f"ORT's Python API cannot pass {describe(value)} to a model with outputs of element types that numpy lacks"
        )
    array = np.asarray(value, order="C")
    if numpy_has(array.dtype):
        return OrtValue.ortvalue_from_numpy(array)
    if _is_packed(array.dtype):
        packed = numpy_helper.from_array(array).raw_data
        # ORT takes the shape from the array and reads the tensor's bytes from the start of its data.
        array = np.zeros(array.shape, dtype=np.uint8)
        array.reshape(-1)[: len(packed)] = np.frombuffer(packed, dtype=np.uint8)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(array, element)


@cache
def _is_packed(dtype: np.dtype) -> bool:
    """Tell whether a tensor of this type keeps several elements in a byte."""
    return len(numpy_helper.from_array(np.zeros(4, dtype)).raw_data) < 4 * dtype.itemsize


def to_array(value: OrtValue) -> np.ndarray | None:
    """Copy a tensor to an array that owns its bytes, from CPU memory or from a device.

    A result of a run can share the memory of an input, an initializer or another result. ``OrtValue.numpy()`` returns a
    view of that memory, which nothing keeps alive, so only this function calls it.

    :return: an array of the dtype that ``onnx.helper`` specifies for the type; ``None`` for an optional without a value.
    :raises RuntimeError: if the value is not a tensor.
    """
    if not value.has_value():
        return None
    if not value.is_tensor():
        raise RuntimeError(
            f"ORT's Python API cannot return {value.data_type()} beside outputs of element types that numpy lacks"
        )
    element = value.element_type()
    device = value.device_name()
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
    """Name a value's type and shape for a message."""
    if isinstance(value, OrtValue):
        return f"OrtValue {value.data_type()}{value.shape() if value.is_tensor() else ''}"
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype.name}{list(value.shape)}"
    return type(value).__name__
