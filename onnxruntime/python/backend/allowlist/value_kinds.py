# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Value kinds: what a caller may write for an option, and the exact text that ORT or an EP parses for it.

A kind knows nothing of options or EPs. Only values of exact builtin and exact numpy scalar types are read: a subclass
can answer differently each time it is asked. What is sent is always rendered from the parsed value, never passed on.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

import numpy as np

_NUMPY_SCALARS = frozenset({*(np.dtype(code).type for code in "?bhilqBHILQefd"), np.str_})


def plain(value: object) -> bool | int | float | str:
    """Return a value as its exact builtin type.

    :raises ValueError: when it is of any other type, subclasses of the accepted ones included.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is float:
        return value
    if kind in _NUMPY_SCALARS:
        return value.item()
    raise ValueError("a value of this type is not accepted")


def _text(value: object) -> str:
    value = plain(value)
    if type(value) is not str:
        raise ValueError("not text")
    return value


def whole(value: object) -> int:
    """Read an int or plain ASCII decimal digits, of at most 20 places."""
    value = plain(value)
    if type(value) is int:
        return value
    if type(value) is str:
        digits = value.removeprefix("-")
        if len(digits) <= 20 and digits.isascii() and digits.isdecimal():
            return int(value)
    raise ValueError("not a whole number")


class Kind:
    """One kind of value.

    ``accepts`` tells a person what may be written. ``parse`` turns that into a Python value or raises ``ValueError``
    with the reason; ``render`` turns the Python value into what ORT is sent; ``read`` understands ORT's own spelling
    of the value when it is read back.
    """

    accepts: str

    def parse(self, value: object) -> object:
        raise NotImplementedError

    def render(self, parsed: object) -> str:
        return str(parsed)

    def read(self, text: str) -> object:
        return self.parse(text)


_FLAGS = {0: False, 1: True, "0": False, "1": True}


class Flag(Kind):
    """On or off, in the spelling that the option's reader understands.

    ``only_off`` names why "on" is refused, ``only_on`` why "off" is.
    """

    def __init__(self, off: str = "0", on: str = "1", *, only_off: str = "", only_on: str = "") -> None:
        self._spelling = (off, on)
        self._refused = (only_on, only_off)
        self.accepts = "True/False, 0/1 or '0'/'1'"
        if only_off or only_on:
            self.accepts = "False, 0 or '0'" if only_off else "True, 1 or '1'"

    def parse(self, value: object) -> bool:
        value = plain(value)
        on = None if type(value) is float else _FLAGS.get(value)
        if on is None:
            raise ValueError("not a flag")
        if self._refused[on]:
            raise ValueError(self._refused[on])
        return on

    def render(self, parsed: object) -> str:
        return self._spelling[bool(parsed)]

    def read(self, text: str) -> bool:
        if text.lower() not in ("0", "1", "false", "true"):
            raise ValueError("not a flag")
        return text.lower() in ("1", "true")


class Integer(Kind):
    """A whole number from ``low`` to ``high``, or one of ``among``."""

    def __init__(self, low: int = 0, high: int = 0, *, among: tuple[int, ...] = (), flags: bool = False) -> None:
        self._among = among
        self._low, self._high = (min(among), max(among)) if among else (low, high)
        self._flags = flags
        self.accepts = f"one of {', '.join(map(str, among))}" if among else f"a whole number from {low} to {high}"
        if flags:
            self.accepts = f"True/False or {self.accepts}"

    def parse(self, value: object) -> int:
        if self._flags and type(value) in (bool, np.bool_):
            return int(value)
        number = whole(value)
        if not self._low <= number <= self._high or (self._among and number not in self._among):
            raise ValueError("out of range")
        return number


def usable_cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_cores() -> int:
    """How many CPU cores this process may use: hyper-threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return (usable_cpus() + 1) // 2  # at least, with two to a core
    cores = set()
    for cpu in os.sched_getaffinity(0):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                cores.add(file.read())
        except OSError:
            return (usable_cpus() + 1) // 2
    return len(cores)


def threads_start(number: int) -> bool:
    """Tell whether the system lets this process start so many threads more, by starting and ending them."""
    end = threading.Event()
    started = []
    try:
        for _ in range(number):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError):
        return False
    finally:
        end.set()
        for thread in started:
            thread.join()
    return True


class Threads(Kind):
    """A number of threads, from ``low`` to four for each CPU that the process may use, or to 16 where that is more.

    Others make nothing faster: on two CPUs a session with 1024 takes 78 s to open, and where the system gives no more
    threads, ORT waits for them without end.
    """

    _ALWAYS, _PER_CPU = 16, 4

    def __init__(self, low: int = 0) -> None:
        self._low = low
        self.accepts = (
            f"a whole number from {low} to {self._ALWAYS}, or to {self._PER_CPU} for each CPU that the process may use "
            "where that is more"
        )

    def parse(self, value: object) -> int:
        number = whole(value)
        if self._low <= number <= self._ALWAYS:
            return number
        high = max(self._ALWAYS, self._PER_CPU * usable_cpus())
        if not self._low <= number <= high:
            raise ValueError(f"out of range, which is {self._low} to {high} here")
        return number


class Choice(Kind):
    """One of a few exact names; ``spelled`` has those that are sent as another text."""

    def __init__(self, *names: str, spelled: Mapping[str, str] = MappingProxyType({})) -> None:
        self._spelling = {name: name for name in names} | dict(spelled)
        self.accepts = "one of " + ", ".join(map(repr, self._spelling))

    def parse(self, value: object) -> str:
        value = _text(value)
        if value not in self._spelling:
            raise ValueError("not one of the accepted names")
        return value

    def render(self, parsed: object) -> str:
        return self._spelling[parsed]

    def read(self, text: str) -> str:
        return self.parse({sent: name for name, sent in self._spelling.items()}.get(text, text))


class Member(Kind):
    """A member of one of ORT's enums, by member or by exact name."""

    def __init__(self, enum_type: type, members: Mapping[str, object]) -> None:
        self._type = enum_type
        self._by_name = dict(members)
        # ORT's enums make an object of any number, such as ExecutionMode(77), and ORT takes it.
        self._by_number = {int(member): member for member in members.values()}
        self.accepts = f"a member of {enum_type.__name__} or its name: {', '.join(self._by_name)}"

    def parse(self, value: object) -> object:
        member = None
        if type(value) is self._type:
            member = self._by_number.get(int(value))
        elif type(value) is str:
            member = self._by_name.get(value)
        if member is None:
            raise ValueError("not a member of this enum")
        return member


class Names(Kind):
    """
    Known names joined by ``separator``: a reader that skips unknown names would otherwise hide a typing error.

    ``known`` may be a function that gives them when they are first needed, where they are costly to find. With
    ``empty``, no name is accepted too.
    """

    def __init__(
        self,
        known: Iterable[str] | Callable[[], Iterable[str]],
        separator: str = ";",
        *,
        accepts: str = "",
        empty: bool = False,
    ) -> None:
        self._source = known
        self._separator = separator
        self._empty = empty
        self.accepts = f"{accepts or 'names'} joined by '{separator}'"
        if not accepts:
            self.accepts += f", of: {', '.join(sorted(self._known))}"

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self._source() if callable(self._source) else self._source)

    def parse(self, value: object) -> tuple[str, ...]:
        text = _text(value)
        if self._empty and text == "":
            return ()
        names = tuple(text.split(self._separator))
        if len(names) > len(self._known) or not self._known.issuperset(names):
            raise ValueError("a name is not known")
        return names

    def render(self, parsed: object) -> str:
        return self._separator.join(parsed)


class Text(Kind):
    """Text that matches an ASCII pattern as a whole."""

    def __init__(self, pattern: str, accepts: str, *, max_bytes: int = 256) -> None:
        self._pattern = pattern
        self._max_bytes = max_bytes
        self.accepts = f"{accepts}, at most {max_bytes} bytes"

    def parse(self, value: object) -> str:
        value = _text(value)
        if len(value) > self._max_bytes or not re.fullmatch(self._pattern, value, re.ASCII):
            raise ValueError("not of the accepted form")
        return value
