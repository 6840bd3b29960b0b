# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A permit: the settings that may be passed to ORT for one session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from onnxruntime.backend.allowlist.rules import Rule


class Setting(NamedTuple):
    """A permitted option with its value."""

    rule: Rule
    value: object
    """The value as parsed."""
    text: str
    """The value as ORT receives it."""
    place: tuple[str, str, str | None]
    """The keyword argument, the EP or ``""``, and the option or ``None``."""


@dataclass(eq=False)
class Permit:
    """The settings that may be passed to ORT for one session, by name. Only :mod:`allowlist.look_up` creates one."""

    device: str
    """ONNX's name of the requested device, or ``""``."""
    providers: dict[str, Mapping[str, Setting]] = field(default_factory=dict)
    """The EPs in order, each with its options."""
    explicit: bool = False
    """Whether the EPs were specified. Otherwise, they are all available EPs, and ORT may fall back."""
    kinds: dict[str, str] = field(default_factory=dict)
    """The kind of each specified EP in this process, see :func:`session.presence.kind_of`."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    session_config: Mapping[str, str] = field(default_factory=dict)
    run_config: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    without_effect: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By keyword argument, each key that has no effect in this session, with a sentence about it."""
    warnings: tuple[str, ...] = ()
    """The warnings given while the settings were looked up."""


def sent(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return the option texts that ORT receives for one EP, with options that travel inside another one folded in."""
    texts: dict[str, str] = {}
    folded: dict[str, dict] = {}
    for option, setting in settings.items():
        if not setting.rule.within:
            texts[option] = setting.text
            continue
        carrier, *path, last = setting.rule.within
        place = folded.setdefault(carrier, {})
        for step in path:
            place = place.setdefault(step, {})
        place[last] = setting.text
    return texts | {carrier: json.dumps(tree) for carrier, tree in folded.items()}
