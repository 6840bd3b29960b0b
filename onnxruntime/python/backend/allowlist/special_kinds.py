# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Value kinds for few settings: a flag with one permitted value, members of ORT's enums, and lists of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from onnxruntime.backend.allowlist.value_kinds import Flag, Kind, text_of


class Fixed(Flag):
    """A flag with one permitted value."""

    def __init__(
        self,
        value: bool,
        forbidden: str,
        *,
        always: bool = False,
    ) -> None:
        super().__init__()
        self.value = value
        self.forbidden = forbidden
        self.always = always
        self.accepts = f"{value}, {value:d} or '{value:d}'"

    def parse(self, value: object) -> bool:
        if super().parse(value) is not self.value:
            raise ValueError(self.forbidden)
        return self.value


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
        self,
        known: Callable[[], Iterable[str]],
        accepts: str,
        separator: str = ";",
        *,
        empty: bool = False,
    ) -> None:
        self.known = known
        self.separator = separator
        self.empty = empty
        self.accepts = accepts

    def parse(self, value: object) -> tuple[str, ...]:
        text = text_of(value)
        if self.empty and text == "":
            return ()
        known = set(self.known())
        is_short = text.count(self.separator) < len(known)
        names = text.split(self.separator) if is_short else []
        if not names or not known.issuperset(names):
            raise ValueError("it contains a name that is not permitted")
        return tuple(names)

    def render(self, parsed: tuple[str, ...]) -> str:
        return self.separator.join(parsed)
