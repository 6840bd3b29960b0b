# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The memory from which an inner OpenVINO session reads its inputs."""

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from onnxruntime import OrtValue
from onnxruntime.backend.runs import tensors

_NUMBERS = "biuf"  # the kinds of their dtypes
_BYTES = np.dtype(np.uint8)
_NOTHING = np.empty(0, _BYTES)


class InputMemory:
    """Copies of the inputs of the current run, each at an address that belongs to its input until this object ends.

    An input that outgrows its memory gets at least twice as much. So the memory of an input is at most four times as
    large as the largest value of the input.
    """

    def __init__(self) -> None:
        # By input, its memory last. The EP can write into the memory that the input has outgrown.
        self._memories: dict[str, list[np.ndarray]] = {}

    def copy(self, name: str, value: Any) -> object:
        """Return a copy of an input, or the input itself if it is not a tensor of numbers: the EP supports no other."""
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in _NUMBERS:
                return value
            own = self._array(name, value.shape, value.dtype)
            own[...] = value
            return own
        if not _has_numbers(value):
            return value
        element = value.element_type()
        dtype = tensors.dtype_of(element)
        if dtype.itemsize == 1:
            dtype = _BYTES  # ORT reads packed elements from the start of the array
        own = self._array(name, tuple(value.shape()), dtype)
        tensors.copy_bytes(value, own)
        return OrtValue.ortvalue_from_numpy_with_onnx_type(own, element)

    def _array(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        memories = self._memories.setdefault(name, [_NOTHING])
        size = dtype.itemsize * math.prod(shape)
        if memories[-1].size < size:
            memories.append(np.empty(max(size, 2 * memories[-1].size), _BYTES))
        return np.ndarray(shape, dtype, memories[-1])


def _has_numbers(value: object) -> bool:
    if not isinstance(value, OrtValue) or not value.is_tensor():
        return False
    return value.device_name() == "cpu" and value.element_type() != TensorProto.STRING
