# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The exception for settings of a call, its wording, and warnings. No function calls a method of a caller's object."""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple, NoReturn

NOT_PERMITTED = "is not permitted via the backend API"

_SHOWN = frozenset({bool, int, float, str, bytes, type(None)})


class NotPermittedError(RuntimeError):
    """Raised if the caller specifies a setting that is not permitted, not valid, or not available.

    ORT can reject a permitted setting, too, such as the index of a device that does not exist, with its own error.
    """

    keyword = ""  # the keyword argument, such as "session_config"
    provider = ""  # the EP, for a provider option
    key = ""  # the option, key or name inside the keyword argument
    reason = ""


class Place(NamedTuple):
    """Where a setting is in a call."""

    keyword: str  # the keyword argument
    provider: str = ""  # the EP of a provider option
    key: str | None = None  # the option, key or name, which can be empty. None: the keyword argument or the EP itself

    def __str__(self) -> str:
        """The expression for the setting, such as ``session_config['session.disable_prepacking']``."""
        expression = self.keyword
        if self.provider:
            expression += f"[{show(self.provider)}]"
        if self.key is not None:
            expression += f"[{show(self.key)}]"
        return expression


def refuse(place: Place, reason: str) -> NoReturn:
    """Raise the error for a setting that the allowlist does not permit. For other problems, see :func:`reject`."""
    fail(f"{place} {NOT_PERMITTED}: {reason}", place, reason)


def reject(place: Place, problem: str) -> NoReturn:
    """Raise the error for a setting that this call cannot apply, such as an EP that is not available."""
    fail(f"{place}: {problem}", place, problem)


def fail(message: str, place: Place, reason: str) -> NoReturn:
    """Raise the error with these attributes."""
    error = NotPermittedError(message)
    error.keyword = place.keyword
    error.provider = place.provider
    error.key = place.key or ""
    error.reason = reason
    raise error from None


def show(value: object) -> str:
    """Describe a caller's value in at most 80 ASCII characters, without calling any of its methods."""
    kind = type(value)
    if kind is int and value.bit_length() > 128:
        return f"of type int with {value.bit_length()} bits"
    if kind not in _SHOWN:
        return f"of type {type_name(value)}"
    if kind in (str, bytes):
        value = value[:80]
    text = ascii(value)
    if len(text) > 80:
        text = text[:77] + "..."
    return text


def type_name(value: object) -> str:
    """Return the name of a value's type, as ASCII text of at most 60 characters."""
    name = type.__dict__["__name__"].__get__(type(value))
    return ascii(name)[1:-1][:60]


def warn(message: str) -> None:
    """Give a ``RuntimeWarning`` at the line that called into this package."""
    frame = sys._getframe()
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
        level += 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)
