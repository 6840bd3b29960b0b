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
    trusted: Mapping[str, Mapping] = NOTHING  # the settings of the operator, by keyword
