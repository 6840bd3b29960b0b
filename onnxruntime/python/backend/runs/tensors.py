# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ONNX element types, and the conversion of arrays of these types to ``OrtValue`` and back.

ORT's Python API converts the element types that numpy has. Arrays of other types (bfloat16, float8, 4-bit and 2-bit
types) have the dtypes that ``onnx.helper`` specifies. The helpers of onnx pack and unpack them. This requires onnx
1.19. An older onnx specifies numpy's own dtypes for these types, which ORT rejects, as in the stock backend.
"""

import ctypes
import re
from functools import cache, lru_cache

import numpy as np
from numpy import ndarray
from onnx import TensorProto, helper, numpy_helper

from onnxruntime import OrtValue, copy_tensors
from onnxruntime.backend.errors import show

_ELEMENT_TYPES = {name.lower(): number for name, number in TensorProto.DataType.items()}  # by ORT's names
_TENSOR = re.compile(r"\btensor\((\w+)\)")

dtype_of = helper.tensor_dtype_to_np_dtype


@lru_cache
def element_type(value_type: str) -> int | None:
    """Return the ONNX element type of a type such as ``'tensor(float)'``, ``None`` if it is not a tensor or unknown."""
    match = _TENSOR.fullmatch(value_type)
    if match:
        return _ELEMENT_TYPES.get(match[1])
    return None


def readable(value_type: str) -> str:
    """Return a type that ORT reports with the dtype's name for each tensor: ``'float32'`` for ``'tensor(float)'``."""
    return _TENSOR.sub(_readable_tensor, value_type)


def _readable_tensor(tensor: re.Match) -> str:
    element = element_type(tensor[0])
    if element is None:
        return tensor[0]
    if element == TensorProto.STRING:
        return "string"
    return dtype_of(element).name


def numpy_has(dtype: np.dtype) -> bool:
    """Return whether a dtype is numpy's own, which ORT's Python API converts, and not of ml_dtypes."""
    return dtype.isbuiltin != 2  # 1, or 0 for a copy, as in an unpickled array


def number_dtype(value_type: str) -> np.dtype | None:
    """Return the dtype of arrays that ORT accepts for a type without conversion, ``None`` for text and other types."""
    element = element_type(value_type)
    if element:
        dtype = dtype_of(element)
        if dtype.kind in "biuf" and numpy_has(dtype):
            return dtype
    return None


def numpy_has_types(value_type: str) -> bool:
    """Return whether ORT's Python API converts values of this type, because numpy has all of its element types."""
    for tensor in re.findall(r"tensor\(\w+\)", value_type):  # in a sparse_tensor, too
        element = element_type(tensor)
        if element is not None and not numpy_has(dtype_of(element)):
            return False
    return True


def to_ort_value(array: ndarray, element: int) -> OrtValue:
    """Convert an array of a type that numpy lacks to a tensor. The array must not change while the tensor is in use."""
    array = np.asarray(array, order="C")
    if _is_packed(array.dtype):
        packed = numpy_helper.from_array(array).raw_data
        # ORT uses the shape of the array, and reads the packed bytes from the start of its memory.
        array = np.zeros(array.shape, np.uint8)
        memory = array.ravel()
        memory[: len(packed)] = np.frombuffer(packed, np.uint8)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(array, element)


@cache
def _is_packed(dtype: np.dtype) -> bool:
    """Return whether a tensor of this type contains several elements in a byte."""
    four = numpy_helper.from_array(np.zeros(4, dtype))
    return len(four.raw_data) < 4 * dtype.itemsize


def owned(value: object) -> object:
    """Copy an output of a run unless it owns its memory: an array, or the arrays of a sequence."""
    if isinstance(value, list):
        return [owned(item) for item in value]
    if isinstance(value, ndarray) and not value.flags.owndata:
        return value.copy()
    return value


def to_array(value: OrtValue) -> ndarray | None:
    """Copy a tensor to an array that owns its bytes. Return ``None`` for an optional without a value.

    A result can share the memory of an input, an initializer or another result. The method ``OrtValue.numpy`` returns a
    view of that memory, which nothing keeps alive. So only this function calls it.
    """
    if not value.has_value():
        return None
    element = value.element_type()  # a sequence raises a RuntimeError
    device = value.device_name()
    if element == TensorProto.STRING or device == "cuda":
        return value.numpy()  # ORT makes a new array of text, and copies from CUDA memory
    dtype = dtype_of(element)
    if _is_packed(dtype):
        data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
        packed = TensorProto(data_type=element, dims=value.shape(), raw_data=data)
        return numpy_helper.to_array(packed)
    array = np.empty(value.shape(), dtype)
    if device == "cpu":
        copy_bytes(value, array)
    else:
        shared = OrtValue.ortvalue_from_numpy(array)
        copy_tensors([value], [shared])
    return array


def shape(value: object) -> tuple[int, ...]:
    """Return the shape of a converted value, empty if it is not a tensor."""
    if isinstance(value, ndarray):
        return value.shape
    if isinstance(value, OrtValue) and value.is_tensor():
        return tuple(value.shape())
    return ()


def copy_bytes(value: OrtValue, array: ndarray) -> None:
    """Copy a tensor on the CPU to the start of an array's memory."""
    ctypes.memmove(array.ctypes.data, value.data_ptr(), value.tensor_size_in_bytes())


def describe(value: object) -> str:
    """Describe a value for a message: its type, and its shape or the value itself."""
    if isinstance(value, OrtValue):
        shape = value.shape() if value.is_tensor() else ""
        return f"OrtValue {readable(value.data_type())}{shape}"
    if isinstance(value, (ndarray, np.generic)):
        return f"{value.dtype.name}{list(value.shape)}"
    if value is None:
        return "None"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    text = show(value)
    if text.startswith(("a value of", "an integer of")):
        return text
    return f"{text} ({type(value).__name__})"
