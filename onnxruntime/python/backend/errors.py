# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The classes of errors, and the wording of refusals and warnings."""

import sys
import warnings
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from onnxruntime.capi import onnxruntime_pybind11_state
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

NOT_PERMITTED = "is not permitted via the backend API"
# The environment variable with a configuration, and the end of an error or a warning about its settings.
ENVIRONMENT = "ORT_ONNX_BACKEND_CONFIG"
FROM_ENVIRONMENT = f" (from the environment variable {ENVIRONMENT})"

_MOST_WARNINGS = 8  # of one kind in a call: a caller can send hundreds of settings
_SHOWN = frozenset({bool, int, float, str, bytes, type(None)})


class DetailedError(Exception):
    """An exception with attributes. ``BaseException.__new__`` stores the positional arguments."""

    def __init__(self, *arguments: object, **attributes: object) -> None:
        vars(self).update(attributes)


class NotPermittedError(DetailedError, RuntimeError):
    """Raised if the caller specifies a setting that is not permitted, not valid, or not available.

    Other errors do not concern a setting of the call. A service can therefore return this error to its client.
    """

    keyword: str  # the keyword argument, such as "session_config"
    provider: str  # the EP, for a provider option
    key: str  # the option, key or name inside the keyword argument
    value: str  # the refused value as text of at most 80 characters, or "" if the error concerns no value
    reason: str


class WrongTypeError(NotPermittedError, TypeError):
    """A keyword argument of the wrong type, such as a list instead of a mapping."""


class InputError(DetailedError, RuntimeError):
    """Raised if an input is missing, unknown, or has a wrong type, rank, shape or range.

    Two subclasses are also ORT's own classes.
    """

    input: str | None = None  # the input's name, None if the error concerns no single input
    expected: str = ""  # the declaration in the model
    got: str = ""  # the value


class InvalidInputError(InputError, InvalidArgument):
    """Raised if the stock backend raises ORT's ``InvalidArgument``."""


class FailedInputError(InputError, Fail):
    """Raised if the stock backend raises ORT's ``Fail``."""


class RunCancelledError(DetailedError, RuntimeError):
    """Raised if a ``Cancellation`` stopped the run. The prepared model is unchanged."""


#: The classes of ORT's errors. They derive from ``Exception`` alone.
ORT_ERRORS = tuple(
    kind for kind in vars(onnxruntime_pybind11_state).values() if isinstance(kind, type) and issubclass(kind, Exception)
)


def reworded(kind: type[Exception], message: str) -> Exception:
    """Return an error of ORT's class ``kind``, which callers of the stock backend catch. Otherwise, a RuntimeError."""
    if issubclass(kind, ORT_ERRORS):
        return kind(message)
    return RuntimeError(message)


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


def refuse(place: Place, reason: str, value: str = "") -> NoReturn:
    """Raise the error for a setting that the allowlist does not permit. For other problems, see :func:`reject`."""
    _raise(NotPermittedError, f"{place} {NOT_PERMITTED}: {reason}", place, reason, value)


def reject(place: Place, problem: str, value: str = "") -> NoReturn:
    """Raise the error for a setting that this call cannot apply, such as an EP that is not available."""
    _raise(NotPermittedError, f"{place}: {problem}", place, problem, value)


def reject_value(place: Place, value: object, expected: str, why: str = "") -> NoReturn:
    """Raise the error for an invalid value of a permitted setting. ``expected`` ends the sentence "Expected ..."."""
    value_text = show(value)
    # "invalid value of type list", "invalid value of 133 bits"
    shown = value_text.removeprefix("a value ").removeprefix("an integer ")
    problem = f"invalid value {shown}"
    if why:
        problem += f" ({why})"
    reject(place, f"{problem}. Expected {expected}", value_text)


def reject_type(place: Place, value: object, expected: str, advice: str = "") -> NoReturn:
    """Raise the error for a keyword argument of the wrong type. ``advice`` is a sentence about the next step."""
    problem = f"must be {expected}, not {type_name(value)}"
    if advice:
        problem += f". {advice}"
    _raise(WrongTypeError, f"{place} {problem}", place, problem, show(value))


def _raise(error: type[NotPermittedError], message: str, place: Place, reason: str, value: str = "") -> NoReturn:
    raise error(
        message, keyword=place.keyword, provider=place.provider, key=place.key or "", value=value, reason=reason
    ) from None


def show(value: Any) -> str:
    """Describe a caller's value in at most 80 ASCII characters, without calling any of its methods."""
    kind = type(value)
    if kind is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if kind not in _SHOWN:
        return f"a value of type {type_name(value)}"
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


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to a misspelt one, or ``""``."""
    import difflib  # takes as long as all of this module  # noqa: PLC0415

    # The similarity of providers and provider_options. A name of four characters with one wrong character has 0.75,
    # session_config and session_options have 0.69, and num_threads has 0.71 with two names.
    matches = difflib.get_close_matches(name[:100], known, 1, 0.72)
    return matches[0] if matches else ""


def _module_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")  # a program can set any name
    if name and type(name) is str:
        return name
    return "<unknown>"


def warn_each(messages: Sequence[str]) -> tuple[str, ...]:
    """Give the first of these warnings, and one that counts the others. Return the warnings that are given."""
    given = [*messages[:_MOST_WARNINGS]]
    if len(given) < len(messages):
        given.append(f"{len(messages) - len(given)} further warnings")
    for message in given:
        warn(message)
    return tuple(given)


def warn(message: str) -> None:
    """Give a ``RuntimeWarning`` on every use, at the line that called into this package."""
    frame = sys._getframe()
    module = _module_of(frame)
    while module.startswith(f"{__package__}.") and frame.f_back is not None:
        frame = frame.f_back
        module = _module_of(frame)
    # A new registry each time: with a shared one, Python gives a warning once per line and keeps the caller's text.
    file = frame.f_code.co_filename
    warnings.warn_explicit(message, RuntimeWarning, file, frame.f_lineno, module, {})
