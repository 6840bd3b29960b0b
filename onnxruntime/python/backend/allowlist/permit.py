# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The permitted settings of one session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from onnxruntime.backend.allowlist.rules import NO_SETTINGS, NOTHING, Settings, Texts


class Permit(NamedTuple):
    """The permitted settings of one session, by name. Only :mod:`allowlist.look_up` creates one."""

    device: str  # ONNX's name of the requested device, or ""
    explicit: bool  # whether the EPs were specified. Otherwise, they are all available EPs, and ORT may fall back
    providers: Mapping[str, Settings]  # the options of each EP, in order
    kinds: Texts = NOTHING  # of the EPs of the process
    attributes: Settings = NO_SETTINGS
    session_config: Settings = NO_SETTINGS
    run_config: Settings = NO_SETTINGS
    sizes: Mapping[str, int] = NOTHING
    # The keys of the session config entries that the backend adds with the text 0, each with a sentence about it.
    stops_spinning: Texts = NOTHING
    # By keyword argument, each key that has no effect in this session, with a sentence about it.
    without_effect: Mapping[str, Texts] = NOTHING
    warnings: tuple[str, ...] = ()  # those given while the settings were looked up

    def configuration(self) -> dict[str, dict]:
        """Return the settings as plain data, with which ``prepare`` creates the same permit."""
        configuration: dict[str, dict] = {}
        if self.session_config:
            configuration["session_config"] = dict(self.session_config.texts)
        if self.run_config:
            configuration["run_config"] = dict(self.run_config.texts)
        if self.attributes:
            configuration["session_options"] = plain_copy(self.attributes.parsed)
        if self.sizes:
            configuration["free_dimension_overrides"] = dict(self.sizes)
        if self.explicit:
            configuration["provider_options"] = {ep: dict(of_ep.parsed) for ep, of_ep in self.providers.items()}
        return configuration


def plain_copy(values: Mapping) -> dict:
    """Return a copy that JSON can represent: a member of an enum becomes its name."""
    copied = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            copied[name] = plain_copy(value)
        else:
            copied[name] = getattr(value, "name", value)
    return copied
