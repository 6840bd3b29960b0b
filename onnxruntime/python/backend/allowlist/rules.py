# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Classes for writing the tables of the allowlist, and for the settings that the tables permit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from onnxruntime.backend.allowlist.circumstances import Circumstances
from onnxruntime.backend.allowlist.value_kinds import Kind
from onnxruntime.backend.errors import nearest


class Need(NamedTuple):
    """A precondition of an entry. If it does not hold, ORT stores the entry and ignores it, or fails later."""

    what: str
    """The condition, as the end of "it requires ..."."""
    met: Callable[[Circumstances, str], bool]
    """Returns whether the condition holds, from the circumstances and the rendered value."""
    idle: bool = False
    """Whether the entry is accepted with a warning if the condition does not hold, because it then has no effect."""
    shared: bool = False
    """Whether something outside the session decides if the condition does not hold. Each value then has a warning."""
    without: str = "ORT ignores or rejects it"
    """The consequence if the condition does not hold, as the end of "Otherwise, ..."."""


class Rule(NamedTuple):
    """A permitted option, key or attribute."""

    kind: Kind
    """The values that are accepted, and the text that is sent."""
    default: str
    """The value that ORT uses if the option is not set. If this is not an accepted value, the text has a comma."""
    effect: str
    """The effect, in one line."""
    since: tuple[int, int] = (1, 24)
    """The first ORT release known to understand it, as (major, minor)."""
    until: tuple[int, int] | None = None
    """The first ORT release known to ignore it."""
    needs: tuple[Need, ...] = ()
    """Conditions in addition to the release."""
    anyway: tuple[str, ...] = ()
    """The texts that describe a session without the option. They cause no warning if the option has no effect."""
    within: tuple[str, ...] = ()
    """For an option that an EP reads only inside another option of JSON text: that option, a section and the name."""
    hardware: str = ""
    """For an option that only one kind of a plugin EP's devices reads: that kind, as ORT names it."""
    reported: bool = True
    """Whether ORT reports the value in use (EP options only)."""
    evidence: str = ""
    """How the effect is known. docs/options-evidence.md lists the evidence of config keys."""


class Family(NamedTuple):
    """Keys permitted by their prefix. An exact entry always wins over a family."""

    prefix: str
    rest: str
    """The rest of the key, as a pattern of ASCII characters."""
    most: int
    """The number of keys of the family that one call may specify."""
    rule: Rule

    def permits(self, key: str, known: Iterable[str]) -> bool:
        """Return whether the family has this key. A key that is similar to a known key is probably misspelt."""
        others = [name.removeprefix(self.prefix) for name in known if name.startswith(self.prefix)]
        rest = key.removeprefix(self.prefix)
        return rest != key and bool(re.fullmatch(self.rest, rest, re.ASCII)) and not nearest(rest, others, 0.75)


class Common(NamedTuple):
    """What the rules of a table have in common, written ``Common(...) | {name: Rule(...)}``."""

    evidence: str = ""
    """The evidence of the rules that do not specify their own."""
    needs: tuple[Need, ...] = ()
    """Conditions of every rule, in addition to its own."""
    reported: bool = True
    """``False`` for a plugin EP: ORT repeats every name and value, even those that the EP does not know."""

    def __or__(self, rules: Mapping[str, Rule]) -> dict[str, Rule]:
        return {
            name: rule._replace(
                evidence=rule.evidence or self.evidence,
                needs=rule.needs + self.needs,
                reported=rule.reported and self.reported,
            )
            for name, rule in rules.items()
        }


class Setting(NamedTuple):
    """A permitted option with its value."""

    rule: Rule
    value: object
    """The value as parsed."""
    text: str
    """The value as ORT receives it."""
    place: tuple[str, str, str | None]
    """The keyword argument, the EP or ``""``, and the option or ``None``."""


@dataclass(eq=False, repr=False)
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
    folded: dict[str, dict[str, dict[str, str]]] = {}
    for option, setting in settings.items():
        if setting.rule.within:
            carrier, section, name = setting.rule.within
            folded.setdefault(carrier, {}).setdefault(section, {})[name] = setting.text
        else:
            texts[option] = setting.text
    return texts | {carrier: json.dumps(sections) for carrier, sections in folded.items()}
