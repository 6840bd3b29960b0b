# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What people are told: the words of a refusal, how a caller's value is shown, what was nearly meant, whom to warn."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

NOT_PERMITTED = "is not permitted via the backend API"

_SHOWN = frozenset({bool, int, float, str, bytes, type(None)})


class NotPermittedError(RuntimeError):
    """An entry that is not permitted. ``place`` tells which, as the message does: ``session_config['the.key']``."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


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


def nearest(name: str, known: Iterable[str], cutoff: float) -> str:
    """Find the known name that a misspelt one comes near to; ``""`` for none."""
    import difflib  # noqa: PLC0415 # most programs misspell nothing

    return next(iter(difflib.get_close_matches(name[:100], known, 1, cutoff)), "")


def warn(message: str) -> None:
    """Give a ``RuntimeWarning`` that points at the line which called into this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(__package__ + "."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)
