# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Narrows the allowlist to the settings that callers may set: the part "permit" of ``ORT_ONNX_BACKEND_CONFIG``.

The settings next to this part are the defaults of callers. A caller's setting that equals its default changes nothing,
so it needs no permission: ``prepare(model, **rep.configuration())`` works under each environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist, options_of
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Refused, Rule, Settings, Table, Values
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, PERMIT
from onnxruntime.backend.allowlist.value_kinds import ForbiddenError, Kind
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.errors import ENVIRONMENT, NotPermittedError, Place, refuse, show

_MOST_LISTED = 32  # names or values in an error
_DOES_NOT_CONTAIN = f'"{PERMIT}" in the environment variable {ENVIRONMENT} does not contain'


class NarrowedAllowlist(Allowlist):
    """The settings that callers may set: names with ``True`` for all permitted values, or with a list of values."""

    def __init__(self, configuration: Mapping[str, dict], process: Process) -> None:
        """:raises RuntimeError: if callers may set a setting that the allowlist does not permit."""
        super().__init__(process)
        self._permitted = configuration[PERMIT]
        self._defaults = configuration
        checked = dict(self._permitted)
        if not process.kinds:  # for a run, which sets no options of EPs
            checked.pop("provider_options", None)
        for fault in faults(checked, process):
            raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {fault}")

    def for_callers(self, table: Table, place: Place) -> Table:
        return _NarrowedTable(table, place, _names(self._permitted, place), _names(self._defaults, place))

    def providers(self, specified: Mapping[str, Values]) -> dict[str, Settings]:
        """Refuse the first EP that callers may not choose, or may not move to another place in the order."""
        place = Place("provider_options")
        permitted = _names(self._permitted, place)
        is_specified = place.keyword in self._permitted or place.keyword in self._defaults
        if not specified and not is_specified:
            refuse(place, _lacks("this setting", place, permitted))

        # Callers may choose the permitted EPs in any order. The other EPs are the environment's, in its order.
        others = [ep for ep in specified if ep not in permitted]
        of_environment = [ep for ep in _names(self._defaults, place) if ep not in permitted]
        for number, ep in enumerate(others):
            if of_environment[number : number + 1] != [ep]:
                refuse(place._replace(provider=ep), _lacks("this setting", place, permitted))
        return super().providers(specified)


class _NarrowedTable(Table):
    """A table in which callers may set some names, and each name to its default."""

    def __init__(self, table: Table, place: Place, permitted: Values, defaults: Values) -> None:
        super().__init__(table)
        self._table = table
        self._place = place
        self._permitted = permitted
        self._defaults = defaults

    def rule_of(self, name: str) -> Rule | None:
        rule = self._table.rule_of(name)
        values = self._permitted.get(name, [])
        if rule is None or values is True or rule.always_off:
            return rule
        defaults = [self._defaults[name]] if name in self._defaults else []
        if not values and not defaults:
            return None
        return rule._replace(kind=_Narrowed(rule.kind, values, defaults))

    def why_refused(self, name: str) -> Refused | None:
        if self._table.rule_of(name) is None:
            return self._table.why_refused(name)
        return _NotForCallers("", _lacks("this setting", self._place, self._permitted))


class _NotForCallers(Refused):
    """A name that the allowlist permits, and callers may not set."""

    def text(self, *, of_run: bool = False) -> str:
        return self.reason


class _Narrowed(Kind):
    """Some values of a kind: those that callers may set, and the default of the environment."""

    def __init__(self, kind: Kind, permitted: Iterable[object], defaults: Iterable[object]) -> None:
        self._kind = kind
        self._permitted = [*permitted]
        self._defaults = [*defaults]
        self.accepts = _listed(self._permitted or self._defaults)

    def parse(self, value: object) -> object:
        parsed = self._kind.parse(value)
        for one in (*self._permitted, *self._defaults):
            try:
                if self._kind.parse(one) == parsed:
                    return parsed
            except ValueError:
                pass  # a value of an EP of another kind
        raise ForbiddenError(f"{_DOES_NOT_CONTAIN} this value. Permitted: {_listed(self._permitted)}")

    def render(self, parsed: Any) -> str:
        return self._kind.render(parsed)

    def read(self, text: str) -> object:
        return self._kind.read(text)


def faults(permitted: Mapping[str, dict], process: Process) -> Iterator[str]:
    """Return a sentence about each setting in a part PERMIT that the allowlist does not permit."""
    allowlist = Allowlist(process)
    for container, names in configuration.tables(permitted):
        tables = tables_of(container, process)
        if not tables:
            yield f"{PERMIT}: {container}: unknown execution provider{suggestions.similar_provider(container.provider)}"
            continue
        for name, values in names.items():
            problems = [_problem(allowlist, table, container._replace(key=name), values) for table in tables]
            if all(problems):
                yield f"{PERMIT}: {problems[0]}"


def tables_of(container: Place, process: Process) -> list[Table]:
    """Return the tables of the allowlist for a part of a configuration: of each kind of the EP."""
    if container.keyword != "provider_options":
        return [BY_KEYWORD[container.keyword]]
    ep = container.provider
    kinds = list(PROVIDERS.get(ep, ()))
    if not kinds and ep in process.kinds:
        kinds = ["plugin"]
    return [options_of(ep, kind) for kind in kinds]


def _problem(allowlist: Allowlist, table: Table, place: Place, values: Any) -> str:
    """Return why a table does not contain a name, or does not permit its values, or ``""``."""
    try:
        if values is True:
            allowlist.rule_of(table, place)
        else:
            for value in values:
                allowlist.setting_of(table, place, value)
    except NotPermittedError as refusal:
        return str(refusal)
    return ""


def _names(configuration: Mapping[str, dict], place: Place) -> Values:
    """Return the part of a configuration that a place contains."""
    names = configuration.get(place.keyword, {})
    if place.provider:
        return names.get(place.provider, {})
    return names


def _lacks(what: str, place: Place, permitted: Iterable[object]) -> str:
    return f"{_DOES_NOT_CONTAIN} {what}. Permitted in {place}: {_listed(permitted)}"


def _listed(permitted: Iterable[Any]) -> str:
    """Return names or values for an error. Successive integers are a range."""
    permitted = list(permitted)
    if len(permitted) > 2 and all(type(value) is int for value in permitted):
        low, high = min(permitted), max(permitted)
        if high - low + 1 == len(set(permitted)):
            return f"an integer from {low} to {high}"
    shown = [show(value) for value in permitted[:_MOST_LISTED]]
    if len(permitted) > _MOST_LISTED:
        shown.append(f"and {len(permitted) - _MOST_LISTED} more")
    return ", ".join(shown) or "nothing"
