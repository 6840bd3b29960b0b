# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What people are told: the words of a refusal, how a caller's value is shown, what was nearly meant, whom to warn."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import NoReturn

NOT_PERMITTED = "is not permitted via the backend API"

# More entries than ORT has keys; a mapping that goes on after that is no configuration.
MOST_ENTRIES = 256
_SHOWN = frozenset({bool, int, float, str, bytes, type(None)})


class NotPermittedError(RuntimeError):
    """
    What a caller named and cannot have.

    Whoever hands on what others ask for, such as a service, can tell it from all other errors, which are not about what
    was asked.

    :param message: the whole sentence.
    :param keyword: the keyword argument, such as ``"session_config"``.
    :param provider: the EP, for an option of one.
    :param key: the option, key or name inside the keyword argument.
    :param reason: why not.
    """

    def __init__(self, message: str, *, keyword: str, provider: str, key: str, reason: str) -> None:
        super().__init__(message)
        self.keyword = keyword
        self.provider = provider
        self.key = key
        self.reason = reason


class WrongTypeError(NotPermittedError, TypeError):
    """A keyword argument whose value is of the wrong type, such as a list where a mapping is wanted."""


def refuse(
    reason: str,
    keyword: str,
    provider: str = "",
    key: str = "",
    *,
    value: object = ...,
    error: type[NotPermittedError] = NotPermittedError,
) -> NoReturn:
    """Refuse what a caller named.

    :param reason: why, as the end of a sentence.
    :param keyword: the keyword argument.
    :param provider: the EP, for an option of one.
    :param key: the option, key or name inside the keyword argument.
    :param value: the value of it, where that is what cannot be.
    :raises NotPermittedError: always.
    """
    given = "" if value is ... else f" with the value {show(value)}"
    message = f"{name_of(keyword, provider, key)}{given} {NOT_PERMITTED}: {reason}"
    raise error(message, keyword=keyword, provider=provider, key=key, reason=reason) from None


def name_of(keyword: str, provider: str, key: str) -> str:
    """Name what a caller named, such as ``session_config['session.disable_prepacking']``."""
    return keyword + "".join(f"[{show(name)}]" for name in (provider, key) if name)


def show(value: object) -> str:
    """Describe a caller's value for a message without running any of the caller's code, such as a ``__repr__``.

    :return: ASCII text of at most 80 characters.
    """
    kind = type(value)
    if kind is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if kind in _SHOWN:
        text = ascii(value[:80] if kind in (str, bytes) else value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a value of type {ascii(type.__dict__['__name__'].__get__(kind))[1:-1][:60]}"


def late(module: str) -> ModuleType | None:
    """A module of this package that only errors need; ``None`` where no file can be opened any more: what is said then
    must not be about that.
    """
    try:
        return importlib.import_module(f"{__package__}.{module}")
    except (ImportError, OSError):
        return None


def nearest(name: str, known: Iterable[str], cutoff: float) -> str:
    """Find the known name that a misspelt one comes near to; ``""`` for none."""
    try:
        import difflib  # most programs misspell nothing  # noqa: PLC0415
    except (ImportError, OSError):  # no file can be opened any more: what is said must not be about that
        return ""
    return next(iter(difflib.get_close_matches(name[:100], known, 1, cutoff)), "")


def suggest(name: str, known: Iterable[str]) -> str:
    """A near miss among known names, as the end of a message; ``""`` for none."""
    by_form = {key.lower(): key for key in known}
    near = nearest(name[:100].strip().lower(), by_form, 0.8)
    return f". Did you mean '{by_form[near]}'?" if near and by_form[near] != name else ""


# Given warnings, as Python keeps them for each module. Not the calling module's: texts that hold a caller's names would
# stay there for ever.
_given: dict = {}


def warn(message: str) -> None:
    """Give a ``RuntimeWarning`` that points at the line which called into this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(__package__ + "."):
        frame = frame.f_back
    if len(_given) > MOST_ENTRIES:
        _given.clear()
    module = frame.f_globals.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, module, _given)
