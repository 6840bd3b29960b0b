# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Value kinds of options: the Python values that a caller can pass, and the string that ORT or an EP receives.

A kind does not depend on options or EPs. Kinds accept values of exact builtin and exact numpy scalar types only. A
subclass can return a different value on each read. The string is always rendered from the parsed value.
"""

import re
from collections.abc import Callable, Iterable, Mapping
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


class ForbiddenError(ValueError):
    """Raised for a value that ORT or the EP accepts, with the reason why it is not permitted."""


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
    """On or off, with the texts that ORT receives."""

    accepts = "True/False, 0/1 or '0'/'1'"

    def __init__(self, off: str = "0", on: str = "1") -> None:
        self.texts = (off, on)

    def parse(self, value: object) -> bool:
        value = plain(value)
        if type(value) is float or value not in (0, 1, "0", "1"):
            raise ValueError("not a flag")
        return bool(int(value))

    def render(self, parsed: bool) -> str:
        return self.texts[parsed]

    def read(self, text: str) -> bool:
        if is_on(text):
            return True
        if text.lower() == "false":
            return False
        return self.parse(text)


class Fixed(Flag):
    """A flag with one permitted value."""

    def __init__(self, value: bool, forbidden: str) -> None:
        super().__init__()
        self.value = value
        self.forbidden = forbidden  # why the other value is not permitted
        self.accepts = f"{value}, {value:d} or '{value:d}'"

    def parse(self, value: object) -> bool:
        if super().parse(value) is not self.value:
            raise ForbiddenError(self.forbidden)
        return self.value


class Integer(Kind):
    """An integer from ``low`` to ``high``. With ``or_flag``, a boolean is sent as 0 or 1."""

    def __init__(self, low: int, high: int, *, or_flag: bool = False) -> None:
        self.values = range(low, high + 1)
        self.or_flag = or_flag
        self.accepts = f"an integer from {low} to {high}"
        if or_flag:
            self.accepts = f"True/False or {self.accepts}"

    def parse(self, value: Any) -> int:
        if self.or_flag and type(value) in (bool, np.bool_):
            return int(value)
        number = whole(value)
        if number not in self.values:
            raise ValueError("out of range")
        return number


class Choice(Kind):
    """One of a few exact names, or one of a few integers.

    :param texts: the texts that ORT receives, if they are other texts.
    """

    def __init__(self, *values: str | int, texts: Mapping[str, str] | None = None) -> None:
        self.values = values
        self.texts = texts or {}
        self.accepts = f"one of {', '.join(map(repr, values))}"

    def parse(self, value: object) -> str | int:
        parsed = whole(value) if type(self.values[0]) is int else text_of(value)
        if parsed not in self.values:
            raise ValueError("not one of the accepted values")
        return parsed

    def render(self, parsed: Any) -> str:
        return self.texts.get(parsed, str(parsed))


class Member(Kind):
    """A member of one of ORT's enums, or its exact name."""

    def __init__(self, *members: Any) -> None:
        self.enum = type(members[0])
        self.by_name = {member.name: member for member in members}
        self.accepts = f"a member of {self.enum.__name__} or its name: {', '.join(self.by_name)}"

    def parse(self, value: Any) -> object:
        # ORT's enums create an object from any number, such as ExecutionMode(77). Its name is "???".
        name = value.name if type(value) is self.enum else value
        if type(name) is str and name in self.by_name:
            return self.by_name[name]
        raise ValueError("not a member of this enum")


class Text(Kind):
    """ASCII text that matches a pattern completely. Its parts that match the pattern ``distinct`` are different."""

    def __init__(self, pattern: str, accepts: str, max_bytes: int = 256, distinct: str = "") -> None:
        self.pattern = pattern
        self.max_bytes = max_bytes
        self.distinct = distinct
        self.accepts = f"{accepts} (at most {max_bytes} bytes of text)"

    def parse(self, value: object) -> str:
        value = text_of(value)
        is_short = len(value) <= self.max_bytes
        if not is_short or not re.fullmatch(self.pattern, value, re.ASCII):
            raise ValueError("not of the accepted form")
        if self.distinct:
            parts = re.findall(self.distinct, value)
            if len(parts) > len(set(parts)):
                raise ValueError("a part appears twice")
        return value


class Names(Kind):
    """Names that ``known`` returns, joined by ``separator``, or no name if ``empty`` is true.

    ORT and the EPs skip unknown names silently.
    """

    def __init__(
        self, known: Callable[[], Iterable[str]], accepts: str, separator: str = ";", *, empty: bool = False
    ) -> None:
        self.known = known
        self.separator = separator
        self.empty = empty
        self.accepts = accepts

    def parse(self, value: object) -> str:
        text = text_of(value)
        if self.empty and text == "":
            return text
        known = set(self.known())
        is_short = text.count(self.separator) < len(known)
        names = text.split(self.separator) if is_short else []
        if not names or not known.issuperset(names):
            raise ValueError("it contains a name that is not permitted")
        return text
