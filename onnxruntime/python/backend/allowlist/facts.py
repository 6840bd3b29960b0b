# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The facts on which the allowlist depends: about the process, and about a session."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import onnxruntime
from onnxruntime.backend.allowlist.rules import (
    NOTHING,
    Texts,
    Values,
)

_NUMBERS = onnxruntime.__version__.split(".")
_RELEASE = (int(_NUMBERS[0]), int(_NUMBERS[1]))
_MACHINE = platform.machine()
_SYSTEM = platform.system()


class Process(NamedTuple):
    """The release of ORT, the machine, and the EPs of a process."""

    release: tuple[int, int]  # as (major, minor)
    machine: str  # the CPU family as platform.machine() reports it
    system: str = ""  # the operating system as platform.system() reports it
    providers: tuple[str, ...] = ()  # the EPs for a caller who specifies none, in order
    kinds: Texts = NOTHING  # all EPs, each with "built-in" or "plugin"

    @classmethod
    def here(cls, providers: Iterable[str] = (), kinds: Texts = NOTHING) -> Process:
        return cls(_RELEASE, _MACHINE, _SYSTEM, tuple(providers), kinds)


class SessionFacts(NamedTuple):
    """The EPs and the settings of a session, which may not exist yet."""

    process: Process
    providers: tuple[str, ...] = ()  # in order
    options: Mapping[str, Texts] = NOTHING  # by EP
    attributes: Values = NOTHING  # of SessionOptions. A missing one has ORT's default
    session_config: Texts = NOTHING
    sizes: Mapping[str, int] = NOTHING  # of the free dimension overrides

    def has(self, *eps: str) -> bool:
        """Return whether the session has one of these EPs."""
        return not {*eps}.isdisjoint(self.providers)

    def option(
        self,
        ep: str,
        name: str,
        default: str = "",
    ) -> str:
        """Return the text of an option of an EP."""
        return self.options.get(ep, NOTHING).get(name, default)

    @classmethod
    def of_session(cls, session: onnxruntime.InferenceSession, attributes: Iterable[str]) -> SessionFacts:
        """Describe an existing session by its EPs, their options and these ``SessionOptions`` attributes."""
        options = session.get_session_options()
        values = {name: getattr(options, name) for name in attributes}
        return cls(
            Process.here(),
            tuple(session.get_providers()),
            session.get_provider_options(),
            values,
        )
