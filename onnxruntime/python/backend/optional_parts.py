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
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import NamedTuple

from onnxruntime.backend.keywords import ENVIRONMENT
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, OF_OPENVINO, THROUGH_CUDA, WEBGPU

_NOTHING: Mapping = MappingProxyType({})
_PACKAGE = "onnxruntime.backend"


class Part(NamedTuple):
    """An optional part: what needs it, and what is different for its sessions.

    A function is written as ``module:name``. ``session/opening.py`` and ``session/routes.py`` call it.
    """

    name: str
    imports: tuple[str, ...] = ()  # the other parts that it imports
    providers: frozenset[str] = frozenset()  # the EPs that need it
    also_for: frozenset[str] = frozenset()  # the EPs whose sessions use it, but do not need it
    keywords: Mapping[str, str] = _NOTHING  # by keyword argument or part of the environment that needs it, its module
    switches: Mapping[str, str] = _NOTHING  # by EP, the option that needs it if the option is on
    creates: str = ""  # creates a session: (create_session, model, options, permit) -> session
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
        routes="capture.sessions:capture_of",
    ),
    Part(
        "locks",
        providers=frozenset({WEBGPU}),
        also_for=frozenset(THROUGH_CUDA),
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
    Part("environment", keywords={ENVIRONMENT: "environment.variable"}),
    Part("libraries", keywords={"plugins": "libraries.plugins", "extensions": "libraries.extensions"}),
    Part("refusals"),
    Part("command_line", imports=("environment", "libraries", "refusals")),  # python -m onnxruntime.backend
    Part("conformance"),  # PYTEST_PLUGINS=onnxruntime.backend.conformance
)
SUGGESTIONS = "refusals.suggestions"  # the module for errors and warnings
_BY_NAME = {part.name: part for part in PARTS}
# Sessions with other EPs, such as the CPU EP, use no part.
_PROVIDERS = frozenset().union(*(part.providers | part.also_for | part.switches.keys() for part in PARTS))


@cache
def load(name: str) -> ModuleType | None:
    """Import a module of an optional part, or return ``None`` if this build of the backend does not contain it."""
    full_name = f"{_PACKAGE}.{name}"
    try:
        return importlib.import_module(full_name)
    except ModuleNotFoundError as error:
        # Not if the module exists, and one of its own imports fails.
        if error.name is not None and f"{full_name}.".startswith(f"{error.name}."):
            return None
        raise


def for_keyword(keyword: str) -> ModuleType | None:
    """Import the module for a keyword, or return ``None`` if this build of the backend does not contain it."""
    for part in PARTS:
        if keyword in part.keywords:
            return load(part.keywords[keyword])
    raise KeyError(keyword)


def require(keyword: str, purpose: str) -> ModuleType:
    """Import the module for a keyword, or raise an error that begins with the purpose."""
    module = for_keyword(keyword)
    if module is None:
        raise RuntimeError(f"{purpose}: {absence_for_keyword(keyword)}")
    return module


def function(text: str) -> Callable:
    """Return a function of a part, which :data:`PARTS` specifies as ``module:name``."""
    module, _, name = text.partition(":")
    return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)


@cache
def absence_for_keyword(keyword: str) -> str:
    """Return a sentence about the part that a keyword needs and this build does not contain, or ``""``."""
    for part in PARTS:
        if keyword in part.keywords and for_keyword(keyword) is None:
            return _absence_of(part.name)
    return ""


def absence_for(provider: str, options_on: Container[str] = ()) -> tuple[str, str]:
    """Return a sentence about a part that an EP needs and this build does not contain, or ``""``.

    The second result is the option that needs the part, ``""`` if the EP always needs it.

    :param options_on: the options of the EP that are on.
    """
    if provider not in _PROVIDERS:
        return "", ""

    for part in PARTS:
        switch = part.switches.get(provider, "")
        is_on = switch != "" and switch in options_on
        if provider in part.providers or is_on:
            absence = absence_of_part(part.name)
            if absence:
                return absence, switch if is_on else ""
    return "", ""


def of_session(providers: Iterable[str], switched_on: Iterable[str]) -> list[Part]:
    """Return the parts that a session uses. Raise an error if this build does not contain one that it needs.

    :param providers: the EPs of the session.
    :param switched_on: those with an option on that needs a part.
    """
    used = []
    if _PROVIDERS.isdisjoint(providers):
        return used

    for part in PARTS:
        is_needed = not part.providers.isdisjoint(providers)
        if not part.switches.keys().isdisjoint(switched_on):
            is_needed = True
        if not is_needed and part.also_for.isdisjoint(providers):
            continue
        absence = absence_of_part(part.name)
        if not absence:
            used.append(part)
        elif is_needed:
            listed = ", ".join(providers)
            raise RuntimeError(f"A session with {listed} cannot run: {absence}")
    return used


@cache
def absence_of_part(part: str) -> str:
    """Return a sentence if this build does not contain a part, or a part that it imports; ``""`` if it contains all."""
    for name in (part, *_BY_NAME[part].imports):
        spec = find_spec(f"{_PACKAGE}.{name}")
        if spec is None or spec.origin is None:  # a folder without a file, such as __pycache__ of a deleted part
            return _absence_of(name)
    return ""


def _absence_of(name: str) -> str:
    return f"this build of the backend does not contain {_PACKAGE}.{name}"
