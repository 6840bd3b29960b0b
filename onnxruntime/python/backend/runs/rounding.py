# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts Python numbers to arrays of an element type, in three steps: read, round, and compare.

If numpy changes none of the numbers in nested lists, it reads them. Otherwise, this module reads each item. It rounds
the numbers to the type, and refuses numbers that the type cannot represent.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from onnxruntime.backend.errors import show
from onnxruntime.backend.runs import nested_lists
from onnxruntime.backend.runs.tensors import describe

_TEXTS = (str, bytes)
_NUMBERS = (
    int,
    float,
    np.bool_,
    np.integer,
    np.floating,
)


class _NumberType(NamedTuple):
    """A type of numbers, and how a Python number or nested lists of numbers become an array of this type."""

    dtype: np.dtype
    integers: range | None  # of the type, if it has no other numbers
    kinds: str  # of arrays in which numpy has not changed the numbers
    fitting: tuple  # the classes of objects that can be numbers
    within: str  # the first words about a number that does not fit


@cache
def _number_type(dtype: np.dtype, in_list: bool) -> _NumberType:
    integers = _integers_of(dtype)
    # numpy rounds large integers of different types, and counts durations among the integers.
    kinds = "biuf" if integers is None else "biu"
    within = ""
    fitting: tuple[type, ...] = (*_NUMBERS, dtype.type)
    if in_list:
        within = "a list that contains "
        # A text can be a number, as in the stock backend. numpy reads it as the bool True if it is not empty.
        if dtype.kind != "b":
            fitting += _TEXTS
    return _NumberType(dtype, integers, kinds, fitting, within)


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


def as_numbers(value: object, dtype: np.dtype) -> ndarray:
    """Convert a Python number, or nested lists of numbers, to an array of a type that is not text."""
    in_list = isinstance(value, (list, tuple))
    target = _number_type(dtype, in_list)
    kinds = nested_lists.kinds_in(value, target.fitting)
    has_text = any(issubclass(kind, _TEXTS) for kind in kinds)

    # numpy would make texts of all numbers, each as long as the longest text.
    numbers = nested_lists.stacked(value, object if has_text else None)
    if numbers.dtype.kind not in target.kinds:
        objects = nested_lists.stacked(value, object)
        numbers = nested_lists.each(objects, lambda item: _read(item, target))
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
