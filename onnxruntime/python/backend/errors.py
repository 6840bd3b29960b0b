# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""All exception classes, and the wording of refusals and warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from functools import cache
from typing import NoReturn

from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

NOT_PERMITTED = "is not permitted via the backend API"
# rep.run(None, {...}), the arguments of InferenceSession.run, is a call with the wrong arguments in this API.
RUN_LIKE_A_SESSION = (
    "run() takes the inputs as its only positional argument, and returns all outputs. Use rep.run({...}) instead of "
    "session.run(None, {...})"
)

_SHOWN = frozenset({bool, int, float, str, bytes, type(None)})


class _PortableError(Exception):
    """An exception that keeps its attributes when it is pickled or copied, whatever its constructor requires."""

    # The base class and ORT's class, for a class that :func:`_also_ort` makes.
    _made_of: tuple[type, type] | None = None

    def __reduce__(self) -> tuple:
        return _restore, (self._made_of or type(self), self.args, vars(self))


def _restore(made_of: type | tuple[type, type], arguments: tuple, attributes: dict[str, object]) -> Exception:
    kind = _also_ort(*made_of) if isinstance(made_of, tuple) else made_of
    error = kind.__new__(kind, *arguments)
    vars(error).update(attributes)
    return error


class NotPermittedError(_PortableError, RuntimeError):
    """
    A setting that the caller specified and cannot have.

    A service that passes on its clients' settings can distinguish this error from all other errors, which are not about
    a setting.

    :param message: the whole sentence.
    :param keyword: the keyword argument, such as ``"session_config"``.
    :param provider: the EP, for a provider option.
    :param key: the option, key or name inside the keyword argument.
    :param reason: the reason.
    """

    def __init__(self, message: str, *, keyword: str, provider: str, key: str, reason: str) -> None:
        super().__init__(message)
        self.keyword = keyword
        self.provider = provider
        self.key = key
        self.reason = reason


class WrongTypeError(NotPermittedError, TypeError):
    """A keyword argument of the wrong type, such as a list instead of a mapping."""


class InputError(_PortableError, RuntimeError):
    """
    An input that does not match the model: missing, unknown, or of a wrong type, rank, shape or range.

    It is an instance of ORT's own class, too, if the stock backend raises that (``InvalidArgument`` or ``Fail``).

    :param message: the whole sentence.
    :param input: the input's name, ``None`` if the error concerns no single input.
    :param expected: the declaration in the model, as text.
    :param got: the value, as text.
    """

    def __init__(self, message: str, *, input: str | None = None, expected: str = "", got: str = "") -> None:
        super().__init__(message)
        self.input = input
        self.expected = expected
        self.got = got


class RunCancelledError(_PortableError, RuntimeError):
    """A run that a ``Cancellation`` ended. It returned no outputs, and the prepared model is unchanged."""


@cache
def _also_ort(base: type[Exception], kind: type[Exception]) -> type[Exception]:
    """Return a class derived from ``base`` and from ORT's class ``kind``, with the name of the public class."""
    public, portable = (base, ()) if issubclass(base, _PortableError) else (kind, (_PortableError,))
    members = {"__module__": public.__module__, "_made_of": (base, kind)}
    return type(public.__name__, (*portable, base, kind), members)


def reworded(kind: type[Exception], message: str) -> RuntimeError:
    """Return an exception of ORT's class ``kind`` that is also a ``RuntimeError``, or a plain one for any other class.

    ORT's classes, such as ``InvalidArgument`` and ``Fail``, derive from ``Exception`` alone. Callers of the stock
    backend catch them, while the rest of the backend API raises ``RuntimeError``.
    """
    return _also_ort(RuntimeError, kind)(message) if _is_ort(kind) else RuntimeError(message)


def input_error(
    kind: type[Exception], message: str, *, input: str | None = None, expected: str = "", got: str = ""
) -> InputError:
    """Return an :class:`InputError` that is an instance of ORT's class ``kind``, too."""
    made = _also_ort(InputError, kind) if _is_ort(kind) else InputError
    return made(message, input=input, expected=expected, got=got)


def _is_ort(kind: type[Exception]) -> bool:
    return kind.__module__ == InvalidArgument.__module__


def refuse(reason: str, keyword: str, provider: str = "", key: str | None = None) -> NoReturn:
    """Raise the error for a setting that the allowlist does not permit: "... is not permitted via the backend API".

    For all other problems with a setting, use :func:`reject` and the functions after it.

    :param reason: the reason, as the end of a sentence.
    """
    _raise(f"{name_of(keyword, provider, key)} {NOT_PERMITTED}: {reason}", keyword, provider, key, reason)


def reject(problem: str, keyword: str, provider: str = "", key: str | None = None) -> NoReturn:
    """Raise the error for a setting that cannot be applied in this call, such as an EP that is not available.

    :param problem: the problem and the next step, as sentences that follow the setting and a colon.
    """
    _raise(f"{name_of(keyword, provider, key)}: {problem}", keyword, provider, key, problem)


def reject_value(
    value: object, expected: str, keyword: str, provider: str = "", key: str | None = None, *, why: str = ""
) -> NoReturn:
    """Raise the error for an invalid value of a permitted setting.

    :param expected: the accepted values, as the end of "Expected ...".
    :param why: the reason, if the accepted values do not make it obvious.
    """
    # "invalid value of type list", "invalid value of 133 bits"
    shown = show(value).removeprefix("a value ").removeprefix("an integer ")
    reject(f"invalid value {shown}{f' ({why})' if why else ''}. Expected {expected}", keyword, provider, key)


def reject_type(value: object, expected: str, keyword: str, provider: str = "", *, advice: str = "") -> NoReturn:
    """Raise the error for a keyword argument of the wrong type.

    :param expected: the accepted types, as the middle of "must be ..., not list".
    :param advice: what to write, as a sentence.
    """
    problem = f"must be {expected}, not {type_name(value)}{f'. {advice}' if advice else ''}"
    _raise(f"{name_of(keyword, provider)} {problem}", keyword, provider, None, problem, WrongTypeError)


def reject_key(key: object, keyword: str, provider: str = "") -> NoReturn:
    """Raise the error for a key of a mapping that is not a ``str``."""
    problem = f"a key must be a str, not {type_name(key)}"
    place = name_of(keyword, provider) + (f"[{show(key)}]" if type(key) in _SHOWN else "")
    _raise(f"{place}: {problem}", keyword, provider, show(key), problem)


def _raise(
    message: str,
    keyword: str,
    provider: str,
    key: str | None,
    reason: str,
    error: type[NotPermittedError] = NotPermittedError,
) -> NoReturn:
    raise error(message, keyword=keyword, provider=provider, key=key or "", reason=reason) from None


def name_of(keyword: str, provider: str = "", key: str | None = None) -> str:
    """Return the expression for a setting, such as ``session_config['session.disable_prepacking']``.

    :param key: the key, which can be empty, or ``None`` if the setting is not a key.
    """
    names = ([provider] if provider else []) + ([] if key is None else [key])
    return keyword + "".join(f"[{show(name)}]" for name in names)


def show(value: object) -> str:
    """Describe a caller's value without running any of the caller's code, such as a ``__repr__``.

    :return: ASCII text of at most 80 characters.
    """
    kind = type(value)
    if kind is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if kind in _SHOWN:
        text = ascii(value[:80] if kind in (str, bytes) else value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a value of type {type_name(value)}"


def type_name(value: object) -> str:
    """Return the name of a value's type, as ASCII text of at most 60 characters."""
    return ascii(type.__dict__["__name__"].__get__(type(value)))[1:-1][:60]


def nearest(name: str, known: Iterable[str], cutoff: float) -> str:
    """Return the known name that is most similar to a misspelt one, or ``""``."""
    import difflib  # only for errors  # noqa: PLC0415

    return next(iter(difflib.get_close_matches(name[:100], known, 1, cutoff)), "")


def warn(message: str) -> None:
    """Give a ``RuntimeWarning`` on every use, at the line that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(__package__ + "."):
        frame = frame.f_back
    module = frame.f_globals.get("__name__") or "<unknown>"
    # A new registry each time: with a shared one, Python gives a warning once per line and keeps the caller's text.
    warnings.warn_explicit(message, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, module, {})
