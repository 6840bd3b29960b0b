# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The session and machine that a configuration is checked against."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import onnxruntime
from onnxruntime import InferenceSession

NOTHING: Mapping = MappingProxyType({})


class Circumstances(NamedTuple):
    """The facts about a session and its machine that a rule may depend on."""

    release: tuple[int, int]  # of ORT, as (major, minor)
    machine: str  # the CPU family as platform.machine() reports it
    system: str = ""  # the operating system as platform.system() reports it
    providers: tuple[str, ...] = ()  # the EPs of the session, in order
    attributes: Mapping[str, object] = NOTHING  # of SessionOptions. A missing one has ORT's default
    options: Mapping[str, Mapping[str, str]] = NOTHING  # EP to the texts of its specified options
    sizes: Mapping[str, int] = NOTHING  # of the free dimension overrides
    beside: Mapping[str, str] = NOTHING  # the texts of the entries specified together with this one


def expected(providers: Iterable[str]) -> Circumstances:
    """Describe a session with these EPs on this machine that has not been created yet."""
    major, minor = onnxruntime.__version__.split(".")[:2]
    return Circumstances((int(major), int(minor)), platform.machine(), platform.system(), tuple(providers))


def of_session(session: InferenceSession, attributes: Iterable[str]) -> Circumstances:
    """Describe an existing session by its EPs, their options and these ``SessionOptions`` attributes."""
    options = session.get_session_options()
    values = {name: getattr(options, name) for name in attributes}
    return expected(session.get_providers())._replace(attributes=values, options=session.get_provider_options())
