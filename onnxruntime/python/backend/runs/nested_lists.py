# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads nested lists of a caller: checks them before numpy converts them, and converts them to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy import ndarray

from onnxruntime.backend.runs.tensors import describe

_FLAT = (str, bytes, bytearray, memoryview)
_RAGGED = "a list of lists of different lengths"
_MOST_DIMENSIONS = 64  # numpy supports no more (32 before 2.0). A list that contains itself is nested deeper


def kinds_in(value: object, fitting: tuple) -> set:
    """Return the classes of the items in nested lists, or raise a ``ValueError`` if numpy must not convert the lists.

    Each step checks one level. Before 1.24, numpy makes an array of lists of different lengths. Version 2.4 of numpy
    crashes on some lists next to a number or a text, such as ``[[1, x], x]`` with a list ``x``.
    """
    kinds = set()
    items = [value]
    for _ in range(_MOST_DIMENSIONS):
        of_level = set(map(type, items))  # few, even of a million items
        if ndarray in of_level:
            of_level = set(map(_kind, items))
        nested = set(filter(_is_list, of_level))
        flat = of_level - nested

        unfit = {kind for kind in flat if not _fits(kind, fitting)}
        if unfit:
            item = next(item for item in items if _kind(item) in unfit)
            within = "" if item is value else "a list that contains "
            raise ValueError(within + describe(item))

        kinds |= flat
        if not nested:
            return kinds
        items = _items_of(items, nested, fitting)
    raise ValueError("a list that is nested too deeply")


def _kind(item: object) -> type:
    """Return the class of an item, or of the items of an array."""
    if type(item) is ndarray:
        return item.dtype.type
    return type(item)


def _is_list(kind: type) -> bool:
    return issubclass(kind, Sequence) and not issubclass(kind, _FLAT)


def _fits(kind: type, fitting: tuple) -> bool:
    if issubclass(kind, fitting) or kind is memoryview:
        return True
    # numpy converts the objects to arrays. Their type is known only afterwards.
    return hasattr(kind, "__array__") and not issubclass(kind, np.generic)


def _items_of(
    items: list,
    list_kinds: set,
    fitting: tuple,
) -> list:
    """Return the items of the lists among these items, or raise a ``ValueError`` if numpy must not convert them."""
    # Each list once: otherwise, a list that contains another one several times takes exponential time.
    lists = {}
    for item in items:
        if type(item) in list_kinds:
            lists[id(item)] = item
        elif isinstance(item, fitting):
            is_array = isinstance(item, ndarray) and item.ndim > 0
            if not is_array:  # but a number or a text
                raise ValueError(_RAGGED)
    lengths = set(map(len, lists.values()))
    if len(lengths) > 1:
        raise ValueError(_RAGGED)
    return list(chain.from_iterable(lists.values()))


def stacked(value: object, dtype: type | None = None) -> ndarray:
    """Convert nested lists to an array, or raise a ``ValueError`` if their lengths differ."""
    try:
        return np.asarray(value, dtype)
    except ValueError:
        raise ValueError(_RAGGED) from None


def each(array: ndarray, convert: Callable) -> ndarray:
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
