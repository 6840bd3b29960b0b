# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The optional parts of this package. Each is a folder or a module that can be deleted.

Only this module of the core names the parts. The core imports a part when it needs the part for the first time. If a
part is absent, the backend refuses the settings and sessions that need it.

To add a part, add a row to :data:`PARTS`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import NamedTuple

from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, OF_OPENVINO, THROUGH_CUDA, WEBGPU

_NOTHING: Mapping = MappingProxyType({})
_PACKAGE = "onnxruntime.backend"


class Part(NamedTuple):
    """An optional part: the settings that need it, and the functions that create and run its sessions.

    A function is written as ``module:name``. ``session/opening.py`` and ``session/routes.py`` call it.
    """

    name: str
    imports: tuple[str, ...] = ()  # the other parts that it imports
    needs_global_lock: bool = False  # whether it relies on Python's global interpreter lock
    providers: frozenset[str] = frozenset()  # the EPs that need it
    also_for: frozenset[str] = frozenset()  # the EPs whose sessions use it, but do not need it
    keywords: Mapping[str, str] = _NOTHING  # by keyword argument or part of the environment that needs it, its module
    switches: Mapping[str, str] = _NOTHING  # by EP, the option that needs it if the option is on
    constructs: str = ""  # calls the constructor of a session: (construct, permit, **arguments) -> session
    creates: str = ""  # creates a session: (create_session, model, options, permit) -> session
    explains: str = ""  # may raise a clearer error if the creation fails: (error, permit, open_again) -> None
    # Decides when a run may begin: (session) -> an object with the method run(options, function, *arguments).
    guards: str = ""
    locks_device: bool = False  # whether the guard also releases the session, and has the method alone()
    why_serial: str = ""  # explains why no runs are parallel: (session) -> a sentence, or ""
    routes: str = ""  # runs a session otherwise: (session) -> an object with the methods of routes.DirectRoute, or None


# A session can use several parts. The first creates it, inside the second, and so on. Its first guard is used.
PARTS = (
    Part(
        "capture",
        imports=("locks",),
        switches=CAPTURE_SWITCHES,
        creates="capture.sessions:create",
        explains="capture.advice:explain",
        routes="capture.sessions:capture_of",
    ),
    Part(
        "locks",
        needs_global_lock=True,
        providers=frozenset({WEBGPU}),
        also_for=frozenset(THROUGH_CUDA),
        constructs="locks:construct",
        creates="locks:create",
        guards="locks:lock_of",
        locks_device=True,
    ),
    Part(
        "openvino",
        imports=("locks",),
        providers=OF_OPENVINO,
        creates="openvino.sessions:create",
        guards="openvino.sessions:order_of",
        why_serial="openvino.sessions:why_serial",
    ),
    Part("free_dimensions", keywords={"free_dimension_overrides": "free_dimensions"}),
    Part("limits", keywords={"timeout": "limits", "cancellation": "limits"}),
    Part("libraries", keywords={"plugins": "libraries.plugins", "extensions": "libraries.extensions"}),
    Part("command_line", imports=("libraries",)),  # python -m onnxruntime.backend
    Part("conformance"),  # PYTEST_PLUGINS=onnxruntime.backend.conformance
)
_BY_NAME = {part.name: part for part in PARTS}
# The module of each keyword argument, or part of the environment, that needs an optional part.
_MODULES: dict[str, str] = {}
# The EPs whose sessions can use optional parts.
_PROVIDERS: set[str] = set()
for _part in PARTS:
    _MODULES.update(_part.keywords)
    _PROVIDERS.update(_part.providers, _part.also_for, _part.switches)


@cache
def load(name: str) -> ModuleType | None:
    """Import a module of an optional part. Return ``None`` if this build does not contain the module or its part."""
    full_name = f"{_PACKAGE}.{name}"
    if absence_of_part(_part_of(name)):
        return None
    if find_spec(full_name) is None:
        return None
    return importlib.import_module(full_name)


def _part_of(module: str) -> str:
    return module.partition(".")[0]


def for_keyword(keyword: str) -> ModuleType | None:
    """Import the module for a keyword, or return ``None`` if this build does not contain it."""
    return load(_MODULES[keyword])


def require(keyword: str, purpose: str) -> ModuleType:
    """Import the module for a keyword, or raise an error that begins with the purpose."""
    absence = absence_for_keyword(keyword)
    if absence:
        raise RuntimeError(f"{purpose}: {absence}")
    return importlib.import_module(f"{_PACKAGE}.{_MODULES[keyword]}")


def function(text: str) -> Callable:
    """Return a function of a part, which :data:`PARTS` specifies as ``module:name``."""
    module, _, name = text.partition(":")
    return getattr(load(module), name)


def absence_for_keyword(keyword: str) -> str:
    """Return a sentence about the part that a keyword needs and this build does not contain, or ``""``."""
    if keyword not in _MODULES:
        return ""
    return absence_of_part(_part_of(_MODULES[keyword]))


def absence_for(provider: str, options_on: Container[str] = ()) -> tuple[str, str | None]:
    """Return a sentence about a part that an EP needs and this build does not contain, or ``""``.

    The second result is the option that needs the part, ``None`` if the EP always needs it.

    :param options_on: the options of the EP that are on.
    """
    if provider not in _PROVIDERS:
        return "", None
    for part in PARTS:
        option = part.switches.get(provider)
        if provider in part.providers or option in options_on:
            absence = absence_of_part(part.name)
            if absence:
                return absence, option
    return "", None


def of_session(providers: Iterable[str], switched_on: Iterable[str]) -> list[Part]:
    """Return the parts that a session uses. Raise an error if this build does not contain one that it needs.

    :param providers: the EPs of the session.
    :param switched_on: those with an option on that needs a part.
    """
    used: list[Part] = []
    if _PROVIDERS.isdisjoint(providers):
        return used
    for part in PARTS:
        needing = part.providers.intersection(providers) | part.switches.keys() & switched_on
        if not needing and part.also_for.isdisjoint(providers):
            continue
        absence = absence_of_part(part.name)
        if not absence:
            used.append(part)
        elif needing:
            listed = ", ".join(providers)
            raise RuntimeError(f"A session with {listed} cannot run: {absence}")
    return used


@cache
def absence_of_part(part: str) -> str:
    """Return why a part, or a part that it imports, is absent from this build or Python; ``""`` if it is not."""
    for name in (part, *_BY_NAME[part].imports):
        spec = find_spec(f"{_PACKAGE}.{name}")
        if spec is None or spec.origin is None:  # a folder without a file, such as __pycache__ of a deleted part
            return f"this build of the backend does not contain {_PACKAGE}.{name}"
        if _BY_NAME[name].needs_global_lock and not _has_global_lock():
            return f"free-threaded Python has no global interpreter lock, on which {_PACKAGE}.{name} relies"
    return ""


def _has_global_lock() -> bool:
    is_enabled = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    return is_enabled is None or is_enabled()
