# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The session and machine that a configuration is checked against."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import onnxruntime
from onnxruntime import InferenceSession

NOTHING: Mapping = MappingProxyType({})


@dataclass(eq=False, repr=False)
class Circumstances:
    """The facts about a session and its machine that a rule may depend on."""

    release: tuple[int, int]
    """ORT's release as (major, minor)."""
    machine: str
    """The CPU family as :func:`platform.machine` reports it."""
    system: str = ""
    """The operating system as :func:`platform.system` reports it."""
    providers: tuple[str, ...] = ()
    """The EPs of the session, in order."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    """``SessionOptions`` attribute to value. An attribute that is missing has ORT's default."""
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """EP to the text of each of its specified options."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Dimension name to size, for each free dimension override."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """The text of each entry that is specified together with the one being checked."""


def expected(providers: Iterable[str]) -> Circumstances:
    """Describe a session with these EPs on this machine that has not been created yet."""
    major, minor = onnxruntime.__version__.split(".")[:2]
    return Circumstances((int(major), int(minor)), platform.machine(), platform.system(), tuple(providers))


def of_session(session: InferenceSession, attributes: Iterable[str]) -> Circumstances:
    """Describe an existing session by its EPs, their options and these ``SessionOptions`` attributes."""
    at, options = expected(session.get_providers()), session.get_session_options()
    at.attributes = {name: getattr(options, name) for name in attributes}
    at.options = session.get_provider_options()
    return at
