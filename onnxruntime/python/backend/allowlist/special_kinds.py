# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Value kinds of few settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer, Kind, Text, text_of, whole


class ForbiddenError(ValueError):
    """Raised for a value that ORT or the EP accepts, with the reason why it is not permitted."""


class WordFlag(Flag):
    """A flag with the text ``True`` or ``False``."""

    def render(self, parsed: bool) -> str:
        return str(parsed)


class Fixed(Flag):
    """A flag with one permitted value."""

    def __init__(self, value: bool, forbidden: str) -> None:
        self.value = value
        self.forbidden = forbidden
        self.accepts = f"{value}, {value:d} or '{value:d}'"

    def parse(self, value: object) -> bool:
        if super().parse(value) is not self.value:
            raise ForbiddenError(self.forbidden)
        return self.value


class OneOf(Kind):
    """One of a few integers."""

    def __init__(self, *values: int) -> None:
        self.values = values
        self.accepts = f"one of {', '.join(map(str, values))}"

    def parse(self, value: object) -> int:
        number = whole(value)
        if number not in self.values:
            raise ValueError("out of range")
        return number


class FlagOrInteger(Integer):
    """An integer, or a boolean, which is sent as 0 or 1."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(low, high)
        self.accepts = f"True/False or {self.accepts}"

    def parse(self, value: Any) -> int:
        if type(value) in (bool, np.bool_):
            return int(value)
        return super().parse(value)


class Spelled(Choice):
    """One of a few names, for each of which ORT receives another text."""

    def __init__(self, **texts: str) -> None:
        super().__init__(*texts)
        self.texts = texts

    def render(self, parsed: str) -> str:
        return self.texts[parsed]


class Parts(Text):
    """Text whose parts, which match another pattern, are different."""

    def __init__(self, pattern: str, accepts: str, max_bytes: int, part: str) -> None:
        super().__init__(pattern, accepts, max_bytes)
        self.part = part

    def parse(self, value: object) -> str:
        text = super().parse(value)
        parts = re.findall(self.part, text)
        if len(parts) > len(set(parts)):
            raise ValueError("a part appears twice")
        return text


class Member(Kind):
    """A member of one of ORT's enums, or its exact name."""

    def __init__(self, *members: Any) -> None:
        self.enum = type(members[0])
        self.by_name = {member.name: member for member in members}
        self.accepts = f"a member of {self.enum.__name__} or its name: {', '.join(self.by_name)}"

    def parse(self, value: Any) -> object:
        # ORT's enums create an object from any number, such as ExecutionMode(77). Its name is "???".
        name = value
        if type(value) is self.enum:
            name = value.name
        if type(name) is not str or name not in self.by_name:
            raise ValueError("not a member of this enum")
        return self.by_name[name]


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
