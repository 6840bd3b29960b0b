# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The classes of the allowlist: entries of the tables, and permitted settings."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from onnxruntime.backend.allowlist.value_kinds import Flag, Kind
from onnxruntime.backend.errors import Place

NOTHING: Mapping = MappingProxyType({})
Values = Mapping[str, Any]  # of settings, by name. Each kind has another type
Texts = Mapping[str, str]


class Need(NamedTuple):
    """A condition of a setting, which depends on the session."""

    what: str  # the condition, as the end of "it requires ..."
    holds: Callable[..., bool]  # from the facts about the session, and the text of the setting
    # Whether the setting is accepted with a warning otherwise, because it then has no effect.
    only_warns: bool = False
    # Whether the warning is given for each value. Otherwise, not for a value that describes the session anyway.
    warns_always: bool = False
    # The consequence otherwise: as the end of "Otherwise, ...", or, in a warning, after the name of the setting.
    otherwise: str = "ORT ignores or rejects it"

    @property
    def reason(self) -> str:
        """The reason of a refusal."""
        return f"it requires {self.what}. Otherwise, {self.otherwise}"

    def warning(self, place: Place) -> str:
        """Return the warning about a setting."""
        return f"{place} {self.otherwise}: it requires {self.what}"


class Rule(NamedTuple):
    """A permitted option, key or attribute."""

    kind: Kind  # the values that are accepted, and the text that is sent
    default: str  # the value that ORT uses without the setting, or a text with a comma if callers cannot specify it
    effect: str
    since: tuple[int, int] = (1, 24)  # the first ORT release known to understand it, as (major, minor)
    until: tuple[int, int] | None = None  # the first ORT release known to ignore it
    needs: tuple[Need, ...] = ()  # conditions in addition to the release
    already_so: tuple[str, ...] = ()  # the texts that describe a session without it, if not only the default
    reported: bool = True  # whether ORT reports the value in use (EP options only)
    always_off: bool = False  # whether the backend sends it as off if no caller specifies it (EP options only)

    def is_already_so(self, text: str) -> bool:
        """Return whether a text describes a session without the setting, and therefore needs no warning."""
        return text in (self.already_so or (self.default,))


# The hazards of settings that do not help a trusted program either. For the others, its next step.
_USELESS = ("wrong results", "no effect", "no useful effect", "set by another argument")
_OWN_SESSION = "create the InferenceSession with it and pass the session to prepare"
OWN_RUN = "call rep.session.run with RunOptions that contain it"

switch = partial(Rule, Flag(), "0")
switch_on = partial(Rule, Flag(), "1")


class Refused(NamedTuple):
    """A refused option, key or attribute."""

    hazard: str  # the kind of harm, in a few words
    reason: str  # the effect if ORT received the setting


class Table(dict[str, Rule]):
    """The reviewed names of one place: the rules of the permitted names, and the reasons for the refused names.

    :param refused: by hazard, names and their reason. Names that share a reason are separated by spaces. A name that
        ends with a dot means each other name that begins with it.
    :param others: a function that returns the rule of a name outside of the table, or ``None``.
    :param reported: whether ORT reports the values in use.
    :param own: what a program that its author trusts does to set a refused name.
    """

    def __init__(
        self,
        permitted: Mapping[str, Rule],
        *refused: Mapping[str, Mapping[str, str]],
        others: Callable[[str], Rule | None] | None = None,
        reported: bool = True,
        own: str = _OWN_SESSION,
    ) -> None:
        if not reported:
            permitted = {name: rule._replace(reported=False) for name, rule in permitted.items()}
        super().__init__(permitted)
        self._others = others
        self._own = own
        self.refused: dict[str, Refused] = {}
        for by_hazard in refused:
            for hazard, reasons in by_hazard.items():
                for names, reason in reasons.items():
                    self.refused |= dict.fromkeys(names.split(), Refused(hazard, reason))

    def __missing__(self, name: str) -> Rule | None:
        """Return the rule of a name outside of the table, ``None`` if the name is not permitted."""
        return self._others and self._others(name)

    def why_refused(self, name: str) -> str:
        """Return the hazard of a refused name, the reason, and the next step of a trusted program, or ``""``."""
        prefixes = [prefix for prefix in self.refused if prefix.endswith(".") and name.startswith(prefix)]
        for known in (name, *prefixes):
            if known in self.refused:
                hazard, reason = self.refused[known]
                step = "" if hazard in _USELESS else f". In a program that you trust, {self._own}"
                return f"{hazard} ({reason}){step}"
        return ""


class Setting(NamedTuple):
    """A permitted setting with its value. Only :mod:`allowlist.look_up` creates one."""

    place: Place
    rule: Rule
    value: Any  # as parsed
    text: str  # as ORT receives it

    @property
    def plain(self) -> bool | int | str:
        """The value as plain data that a caller can specify. An EP can have another spelling of it."""
        return getattr(self.value, "name", self.value)  # of a member of an enum


class Settings(dict[str, Setting]):
    """Permitted settings by name, with their texts and their parsed values."""

    def __init__(self, settings: Mapping[str, Setting] = NOTHING) -> None:
        super().__init__(settings)
        self.texts = {name: setting.text for name, setting in settings.items()}
        self.parsed = {name: setting.value for name, setting in settings.items()}


NO_SETTINGS = Settings()
