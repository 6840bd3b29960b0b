# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Value kinds of options: the Python values that a caller can pass, and the string that ORT or an EP receives.

A kind does not depend on options or EPs. Kinds accept values of exact builtin and exact numpy scalar types only. A
subclass can return a different value on each read. The string is always rendered from the parsed value.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable

import numpy as np

_NUMPY_SCALARS = frozenset({*(np.dtype(code).type for code in "?bhilqBHILQefd"), np.str_})


def plain(value: object) -> bool | int | float | str:
    """Convert a value to its exact builtin type, or raise ``ValueError`` for a value of another type."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is float:
        return value
    if kind in _NUMPY_SCALARS:
        return value.item()
    raise ValueError("values of this type are not accepted")


def _text(value: object) -> str:
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

    def parse(self, value: object) -> object:
        """Convert a caller's value to a parsed value, or raise ``ValueError`` with the reason."""
        raise NotImplementedError

    def render(self, parsed: object) -> str:
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

    def render(self, parsed: object) -> str:
        return self.spelling[parsed]

    def read(self, text: str) -> bool:
        if is_on(text):
            return True
        if text.lower() == "false":
            return False
        return self.parse(text)


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
        if among:
            self.values = among
            self.accepts = f"one of {', '.join(map(str, among))}"
        else:
            self.values = range(low, high + 1)
            self.accepts = f"an integer from {low} to {high}"
        if flags:
            self.accepts = f"True/False or {self.accepts}"

    def parse(self, value: object) -> int:
        if self.flags and type(value) in (bool, np.bool_):
            return int(value)
        number = whole(value)
        if number not in self.values:
            raise ValueError("out of range")
        return number


class Threads(Kind):
    """A number of threads, from ``low`` to 16, or to four for each usable CPU if that is more.

    This bound protects a worker from its caller. More threads make no run faster, and they cost CPU time. On two CPUs,
    one run with 128 threads uses four CPU seconds. A session with 1024 threads takes over a minute to create.
    """

    def __init__(self, low: int = 0, forbidden: str = "") -> None:
        self.low = low
        self.forbidden = forbidden  # why 1 is not permitted, if so
        self.accepts = f"an integer from {low} to 16, or to 4 times the number of usable CPUs, if that is more"

    def parse(self, value: object) -> int:
        number = whole(value)
        if number == 1 and self.forbidden:
            raise ValueError(self.forbidden)
        high = max(16, 4 * len(CPUS))
        if not self.low <= number <= high:
            raise ValueError(f"out of range, which is {self.low} to {high} on this machine")
        return number


def _cpus() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


# The CPUs that this process may use. Asked before any session: OpenVINO pins threads, and children inherit this.
CPUS = _cpus()


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use; the hyper-threads of one core count once."""
    cores = set()
    try:
        for cpu in CPUS:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                cores.add(file.read())
    except OSError:  # not Linux, or its list cannot be read
        return (len(CPUS) + 1) // 2  # the minimum, if each core has two hyper-threads
    return len(cores)


def threads_start(number: int) -> bool:
    """Return whether this process can start this many more threads: start them, then end them.

    This check protects a worker from its caller. If the system refuses a thread, ORT waits for the thread indefinitely,
    and the worker never answers again.
    """
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


class Choice(Kind):
    """One of a few exact names; ``spelled`` maps more names to the strings that ORT receives instead."""

    def __init__(self, *names: str, **spelled: str) -> None:
        self.spelling = dict(zip(names, names, strict=True)) | spelled
        self.accepts = f"one of {', '.join(map(repr, self.spelling))}"

    def parse(self, value: object) -> str:
        value = _text(value)
        if value not in self.spelling:
            raise ValueError("not one of the accepted names")
        return value

    def render(self, parsed: object) -> str:
        return self.spelling[parsed]


class Member(Kind):
    """A member of one of ORT's enums, or its exact name."""

    def __init__(self, *members: object) -> None:
        self.enum = type(members[0])
        self.by_name = {member.name: member for member in members}
        self.accepts = f"a member of {self.enum.__name__} or its name: {', '.join(self.by_name)}"

    def parse(self, value: object) -> object:
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
        text = _text(value)
        if self.empty and text == "":
            return ()
        known = set(self.known())
        is_short = text.count(self.separator) < len(known)
        names = text.split(self.separator) if is_short else []
        if not names or not known.issuperset(names):
            raise ValueError("it contains a name that is not permitted")
        return tuple(names)

    def render(self, parsed: object) -> str:
        return self.separator.join(parsed)


class Text(Kind):
    """ASCII text that matches a pattern completely. A part that matches ``once`` can appear only once."""

    def __init__(
        self,
        pattern: str,
        accepts: str,
        *,
        max_bytes: int = 256,
        once: str = "",
    ) -> None:
        self.pattern = pattern
        self.max_bytes = max_bytes
        self.once = once
        self.accepts = f"{accepts} (at most {max_bytes} bytes of text)"

    def parse(self, value: object) -> str:
        value = _text(value)
        is_short = len(value) <= self.max_bytes
        if not is_short or not re.fullmatch(self.pattern, value, re.ASCII):
            raise ValueError("not of the accepted form")
        if self.once:
            parts = re.findall(self.once, value)
            if len(parts) > len(set(parts)):
                raise ValueError("a part appears twice")
        return value
