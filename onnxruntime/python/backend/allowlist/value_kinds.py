# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Value kinds of options: the Python values that a caller can pass, and the string that ORT or an EP receives.

A kind does not depend on options or EPs. Kinds accept values of exact builtin and exact numpy scalar types only. A
subclass can return a different value on each read. The string is always rendered from the parsed value.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_NUMPY_SCALARS = frozenset({*(np.dtype(code).type for code in "?bhilqBHILQefd"), np.str_})


def plain(value: Any) -> bool | int | float | str:
    """Convert a value to its exact builtin type, or raise ``ValueError`` for a value of another type."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is float:
        return value
    if kind in _NUMPY_SCALARS:
        return value.item()
    raise ValueError("values of this type are not accepted")


def text_of(value: object) -> str:
    """Convert text to an exact ``str``, or raise ``ValueError``."""
    value = plain(value)
    if type(value) is not str:
        raise ValueError("not text")
    return value


def whole(value: object) -> int:
    """Convert an int, or a string of at most 20 ASCII decimal digits, to an int."""
    value = plain(value)
    if type(value) is int:
        return value
    if type(value) is str and re.fullmatch("-?[0-9]{1,20}", value):
        return int(value)
    raise ValueError("not an integer")


class Kind:
    """A kind of value."""

    accepts: str  # the accepted values, for messages and documents

    def parse(self, value: object) -> object:
        """Convert a caller's value to a parsed value, or raise ``ValueError`` with the reason."""
        raise NotImplementedError

    def render(self, parsed: Any) -> str:
        """Convert a parsed value to the string that ORT receives."""
        return str(parsed)

    def read(self, text: str) -> object:
        """Convert another spelling of a value, which ORT reports, to a parsed value."""
        return self.parse(text)


def is_on(text: str) -> bool:
    """Return whether ORT reads or reports a switch with this text as on."""
    return text.lower() in ("1", "true")


class Flag(Kind):
    """On or off."""

    accepts = "True/False, 0/1 or '0'/'1'"

    def parse(self, value: object) -> bool:
        value = plain(value)
        if type(value) is float or value not in (0, 1, "0", "1"):
            raise ValueError("not a flag")
        return bool(int(value))

    def render(self, parsed: bool) -> str:
        return str(int(parsed))

    def read(self, text: str) -> bool:
        if is_on(text):
            return True
        if text.lower() == "false":
            return False
        return self.parse(text)


class Integer(Kind):
    """An integer from ``low`` to ``high``."""

    def __init__(self, low: int, high: int) -> None:
        self.values = range(low, high + 1)
        self.accepts = f"an integer from {low} to {high}"

    def parse(self, value: object) -> int:
        number = whole(value)
        if number not in self.values:
            raise ValueError("out of range")
        return number


class Choice(Kind):
    """One of a few exact names."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.accepts = f"one of {', '.join(map(repr, names))}"

    def parse(self, value: object) -> str:
        value = text_of(value)
        if value not in self.names:
            raise ValueError("not one of the accepted names")
        return value


class Text(Kind):
    """ASCII text that matches a pattern completely."""

    def __init__(self, pattern: str, accepts: str, max_bytes: int = 256) -> None:
        self.pattern = pattern
        self.max_bytes = max_bytes
        self.accepts = f"{accepts} (at most {max_bytes} bytes of text)"

    def parse(self, value: object) -> str:
        value = text_of(value)
        is_short = len(value) <= self.max_bytes
        if not is_short or not re.fullmatch(self.pattern, value, re.ASCII):
            raise ValueError("not of the accepted form")
        return value
