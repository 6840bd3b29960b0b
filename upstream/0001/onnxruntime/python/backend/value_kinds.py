# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Kinds of values: the Python values that a caller can pass, and the text that ORT receives.

A kind accepts values of exact builtin and exact numpy scalar types only: a subclass can return another value on each
read. The text is always rendered from the parsed value.
"""

from __future__ import annotations

import re

import numpy as np

_NUMPY_SCALARS = frozenset({np.str_, *(np.dtype(code).type for code in "?bhilqBHILQ")})


class Kind:
    """A kind of value."""

    accepts: str  # the accepted values, for messages

    def text(self, value: object) -> str:
        """Return the text that ORT receives for a caller's value, or raise ``ValueError``."""
        raise NotImplementedError


class Flag(Kind):
    """On or off."""

    accepts = "True/False, 0/1 or '0'/'1'"

    def text(self, value: object) -> str:
        value = _plain(value)
        if value not in (0, 1, "0", "1"):
            raise ValueError("not a flag")
        return str(int(value))


class Integer(Kind):
    """An integer from ``low`` to ``high``."""

    def __init__(self, low: int, high: int) -> None:
        self.values = range(low, high + 1)
        self.accepts = f"an integer from {low} to {high}"

    def text(self, value: object) -> str:
        value = _plain(value)
        if type(value) is str and re.fullmatch("-?[0-9]{1,20}", value):
            value = int(value)
        if type(value) is not int or value not in self.values:
            raise ValueError("not one of the integers")
        return str(value)


class Choice(Kind):
    """One of a few exact names."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.accepts = f"one of {', '.join(map(repr, names))}"

    def text(self, value: object) -> str:
        value = _plain(value)
        if value not in self.names:
            raise ValueError("not one of the names")
        return value


class Pattern(Kind):
    """Text that matches a pattern completely."""

    def __init__(self, pattern: str, accepts: str) -> None:
        self.pattern = pattern
        self.accepts = accepts

    def text(self, value: object) -> str:
        value = _plain(value)
        if type(value) is not str or not re.fullmatch(self.pattern, value):
            raise ValueError("does not match")
        return value


def _plain(value: object) -> bool | int | str:
    """Convert a value to its exact builtin type, or raise ``ValueError`` for a value of another type."""
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return value
    if kind in _NUMPY_SCALARS:
        return value.item()
    raise ValueError("values of this type are not accepted")
