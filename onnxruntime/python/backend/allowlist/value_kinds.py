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
from collections.abc import Callable, Sequence
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
    # The reason why a value that ORT or the EP accepts is not permitted. `parse` raises it.
    forbidden = ""
    # Whether the backend sends the only permitted value even if no caller specifies it.
    always = False
    value: Any  # the only permitted one, if always

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
    """On or off, in the spelling that the option's parser accepts."""

    def __init__(self, off: str = "0", on: str = "1") -> None:
        self.spelling = (off, on)
        self.accepts = "True/False, 0/1 or '0'/'1'"

    def parse(self, value: object) -> bool:
        value = plain(value)
        if type(value) is float or value not in (0, 1, "0", "1"):
            raise ValueError("not a flag")
        return bool(int(value))

    def render(self, parsed: bool) -> str:
        return self.spelling[parsed]

    def read(self, text: str) -> bool:
        if is_on(text):
            return True
        if text.lower() == "false":
            return False
        return self.parse(text)


class Integer(Kind):
    """An integer from ``low`` to ``high``, or one of ``among``. With ``flags``, booleans are accepted, too."""

    def __init__(
        self,
        low: int = 0,
        high: int = 0,
        *,
        among: tuple[int, ...] = (),
        flags: bool = False,
    ) -> None:
        self.flags = flags
        self.values: Sequence[int] = among
        if among:
            self.accepts = f"one of {', '.join(map(str, among))}"
        else:
            self.values = range(low, high + 1)
            self.accepts = f"an integer from {low} to {high}"
        if flags:
            self.accepts = f"True/False or {self.accepts}"

    def parse(self, value: object) -> int:
        if self.flags and type(value) in (bool, np.bool_):
            return int(bool(value))
        number = whole(value)
        if number not in self.values:
            raise ValueError("out of range")
        return number


class Choice(Kind):
    """One of a few exact names; ``spelled`` maps more names to the strings that ORT receives instead."""

    def __init__(self, *names: str, **spelled: str) -> None:
        self.spelling = dict(zip(names, names, strict=True)) | spelled
        self.accepts = f"one of {', '.join(map(repr, self.spelling))}"

    def parse(self, value: object) -> str:
        value = text_of(value)
        if value not in self.spelling:
            raise ValueError("not one of the accepted names")
        return value

    def render(self, parsed: str) -> str:
        return self.spelling[parsed]


class Text(Kind):
    """ASCII text that matches a pattern completely. A part that matches ``once`` can appear only once."""

    def __init__(
        self,
        pattern: str,
        accepts: str,
        *,
        max_bytes: int = 256,
        once: str = "",
        why_not: Callable[[str], str] = lambda _: "",
    ) -> None:
        """:param why_not: returns the reason why a short text of another form is not accepted, or ``""``."""
        self.pattern = pattern
        self.max_bytes = max_bytes
        self.once = once
        self.why_not = why_not
        self.accepts = f"{accepts} (at most {max_bytes} bytes of text)"

    def parse(self, value: object) -> str:
        value = text_of(value)
        is_short = len(value) <= self.max_bytes
        if not is_short or not re.fullmatch(self.pattern, value, re.ASCII):
            reason = is_short and self.why_not(value)
            raise ValueError(reason or "not of the accepted form")
        if self.once:
            parts = re.findall(self.once, value)
            if len(parts) > len(set(parts)):
                raise ValueError("a part appears twice")
        return value
