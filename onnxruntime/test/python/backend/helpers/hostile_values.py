# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Hostile values: subclasses of the accepted types that change their value, and a class whose code must never run."""

import numpy as np


class Str(str):
    """Equals each other value, and converts to another text."""

    __slots__ = ()

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __str__(self) -> str:
        return "1"


class Int(int):
    """Converts to another number than it compares to."""

    def __str__(self) -> str:
        return "2147483647"

    __repr__ = __str__
    __index__ = __int__ = lambda self: 2147483647


class Float(float):
    pass


class NumpyInt(np.int64):
    def item(self) -> int:
        return 2147483647


class NumpyStr(np.str_):
    def item(self) -> str:
        return "evil"


class LoudType(type):
    """A type whose every operation runs code."""

    @property
    def __name__(cls):
        raise AssertionError("foreign code ran")

    def __repr__(cls) -> str:
        raise AssertionError("foreign code ran")

    __str__ = __repr__


class Loud(metaclass=LoudType):
    """A value whose every operation runs code."""

    def __repr__(self) -> str:
        raise AssertionError("foreign code ran")

    __str__ = __format__ = __eq__ = __hash__ = __len__ = __iter__ = __bool__ = __int__ = __index__ = __repr__
