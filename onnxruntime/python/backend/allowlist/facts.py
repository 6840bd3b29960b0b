# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The facts on which the allowlist depends: about the process and a session."""

import platform
from collections.abc import Mapping
from typing import NamedTuple

import onnxruntime
from onnxruntime.backend.allowlist.rules import NOTHING, Texts, Values

_NUMBERS = onnxruntime.__version__.split(".")
RELEASE = (int(_NUMBERS[0]), int(_NUMBERS[1]))  # of ORT


class Process(NamedTuple):
    """The release of ORT, the machine, and the EPs of a process, by default of this one, without its EPs."""

    release: tuple[int, int] = RELEASE
    machine: str = platform.machine()
    system: str = platform.system()
    providers: tuple[str, ...] = ()  # the EPs for a caller who specifies none, in order
    kinds: Texts = NOTHING  # all EPs, each with "built-in" or "plugin"


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

    def option(self, ep: str, name: str, default: str = "") -> str:
        """Return the text of an option of an EP."""
        return self.options.get(ep, NOTHING).get(name, default)
