# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The classes of the allowlist: entries of the tables, and permitted settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from onnxruntime.backend.allowlist.value_kinds import Kind
from onnxruntime.backend.errors import name_of, nearest, refuse, reject_value

NOTHING: Mapping = MappingProxyType({})
Values = Mapping[str, Any]  # of settings, by name. Each kind has another type
Texts = Mapping[str, str]


class Place(NamedTuple):
    """Where a setting is. An attribute is in ``session_options``, even if it is a separate keyword argument."""

    keyword: str
    provider: str = ""
    key: str | None = None
    # Whether the caller specifies an attribute as a keyword argument.
    is_keyword_argument: bool = False

    @property
    def named(self) -> tuple[str, str, str | None]:
        """The keyword argument, the EP and the key, as errors name them."""
        if self.is_keyword_argument:
            return self.key or "", "", None
        return self.keyword, self.provider, self.key

    @property
    def name(self) -> str:
        """The expression for the setting."""
        return name_of(*self.named)

    def refuse(self, reason: str, value: str = "") -> NoReturn:
        """Raise the error for a setting that the allowlist does not permit."""
        refuse(reason, *self.named, value=value)


class Narrowing:
    """Narrows the allowlist for callers. This class permits all that the allowlist permits."""

    def check_itself(self, facts: Any) -> None:
        """Raise ``RuntimeError`` if it contains a setting that the allowlist does not permit."""

    def check_providers(self, names: Iterable[str]) -> None:
        """Refuse the first EP that callers may not choose, or may not move to another place in the order."""

    def check(self, setting: Setting) -> None:
        """Refuse a setting that callers may not set, or not to this value."""

    def reject_value(
        self,
        rule: Rule,
        place: Place,
        value: object,
        why: str,
    ) -> NoReturn:
        """Raise the error for an invalid value, with the values that callers may set."""
        reject_value(value, rule.kind.accepts, *place.named, why=why)


ANYTHING = Narrowing()


class Need(NamedTuple):
    """A precondition of an entry. If it does not hold, ORT stores the entry and ignores it, or fails later."""

    what: str  # the condition, as the end of "it requires ..."
    # Whether it holds, from the circumstances and the rendered value.
    met: Callable[..., bool]
    # Whether the entry is accepted with a warning otherwise, because it then has no effect.
    only_warns: bool = False
    # Whether something outside the session decides that. Each value then has a warning.
    shared: bool = False
    # The consequence otherwise, as the end of "Otherwise, ...".
    without: str = "ORT ignores or rejects it"
    # Of which the model must have one. Only a session that exists shows its operators.
    operators: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """The sentences about a session that does not meet the condition."""
        return f"it requires {self.what}. Otherwise, {self.without}"


class Rule(NamedTuple):
    """A permitted option, key or attribute."""

    kind: Kind  # the values that are accepted, and the text that is sent
    # The value that ORT uses without the option; a text with a comma if this is not an accepted value.
    default: str
    effect: str
    # The first ORT release known to understand it, as (major, minor).
    since: tuple[int, int] = (1, 24)
    until: tuple[int, int] | None = None  # the first ORT release known to ignore it
    needs: tuple[Need, ...] = ()  # conditions in addition to the release
    # The texts that describe a session without it, which cause no warning.
    already_so: tuple[str, ...] = ()
    reported: bool = True  # whether ORT reports the value in use (EP options only)


class Family(NamedTuple):
    """Keys permitted by their prefix. An exact entry always wins over a family."""

    prefix: str
    rest: str  # the rest of the key, as a pattern of ASCII characters
    most: int  # the number of keys of the family that one call may specify
    rule: Rule

    def permits(self, key: str, known: Iterable[str]) -> bool:
        """Return whether the family has this key. A key that is similar to a known key is probably misspelt."""
        rest = key.removeprefix(self.prefix)
        if rest == key:
            return False
        if not re.fullmatch(self.rest, rest, re.ASCII):
            return False
        others = []
        for name in known:
            if name.startswith(self.prefix):
                others.append(name.removeprefix(self.prefix))
        return not nearest(rest, others)


class Setting(NamedTuple):
    """A permitted option with its value."""

    rule: Rule
    value: Any  # as parsed
    text: str  # as ORT receives it
    place: Place

    @property
    def plain(self) -> bool | int | str:
        """The value as plain data that a caller can specify. An EP can have another spelling of it."""
        if type(self.value) is tuple:
            return self.text
        return getattr(self.value, "name", self.value)  # of a member of an enum


Table = Mapping[str, Rule]  # of permitted names
Settings = Mapping[str, Setting]


@dataclass(eq=False, repr=False)
class Permit:
    """The settings that may be passed to ORT for one session, by name. Only :mod:`allowlist.look_up` creates one."""

    device: str  # ONNX's name of the requested device, or ""
    # Whether the EPs were specified. Otherwise, they are all available EPs, and ORT may fall back.
    explicit: bool
    providers: dict[str, Settings] = field(default_factory=dict)  # the options of each EP, in order
    kinds: Texts = field(default_factory=dict)  # of the EPs of the process
    attributes: Values = field(default_factory=dict)
    session_config: Texts = field(default_factory=dict)
    run_config: Texts = field(default_factory=dict)
    # The keys of the session config entries that the backend adds with the text 0, each with a sentence about it.
    stops_spinning: Texts = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    # By keyword argument, each key that has no effect in this session, with a sentence about it.
    without_effect: dict[str, dict[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # those given while the settings were looked up

    def configuration(self) -> dict[str, dict]:
        """Return the settings as plain data, with which ``prepare`` creates the same permit."""
        tables = {
            "session_config": dict(self.session_config),
            "run_config": dict(self.run_config),
            "session_options": plain_copy(self.attributes),
            "free_dimension_overrides": dict(self.sizes),
        }
        configuration = {keyword: entries for keyword, entries in tables.items() if entries}
        if self.explicit:
            options = configuration["provider_options"] = {}
            for ep, settings in self.providers.items():
                options[ep] = {option: setting.plain for option, setting in settings.items()}
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


def texts_of(settings: Settings) -> dict[str, str]:
    """Return the text of each setting."""
    return {name: setting.text for name, setting in settings.items()}
