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
from typing import Any, Literal, NoReturn

from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist
from onnxruntime.backend.allowlist.providers import PROVIDERS, options_of
from onnxruntime.backend.allowlist.rules import Rule, Setting, Settings, Table, Values
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, KEYWORDS, PERMIT
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.errors import ENVIRONMENT, NotPermittedError, Place, refuse, show

_MOST_LISTED = 32  # names or values in an error


class NarrowedAllowlist(Allowlist):
    """The settings that callers may set: names with ``True`` for all permitted values, or with a list of values."""

    def __init__(self, configuration: Mapping[str, dict], process: Process) -> None:
        """:raises RuntimeError: if callers may set a setting that the allowlist does not permit."""
        super().__init__(process)
        self._permitted = configuration[PERMIT]
        self._defaults = configuration
        for fault in faults(self._permitted, process):
            raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {fault}")

    def providers(self, specified: Mapping[str, Values]) -> dict[str, Settings]:
        """Refuse the first EP that callers may not choose, or may not move to another place in the order."""
        place = Place("provider_options")
        permitted = _table(self._permitted, place)
        is_specified = place.keyword in self._permitted or place.keyword in self._defaults
        if not specified and not is_specified:
            _refuse(place, place, permitted)

        # Callers may choose the permitted EPs in any order. The other EPs are the environment's, in its order.
        of_environment = iter(_table(self._defaults, place))
        for name in specified:
            if name in permitted:
                continue
            others = (ep for ep in of_environment if ep not in permitted)
            expected = next(others, None)
            if name != expected:
                _refuse(place._replace(provider=name), place, permitted)
        return super().providers(specified)

    def setting_of(self, table: Table, place: Place, value: object) -> Setting:
        """Refuse a setting that callers may not set, or not to this value, too."""
        setting = super().setting_of(table, place, value)
        within = _in_configuration(place)
        values = self._values(within)
        if values is True or setting.rule.always_off or _contains(values, setting):
            return setting
        defaults = _table(self._defaults, within)
        key = within.key or ""
        if key in defaults and _contains([defaults[key]], setting):
            return setting
        if values:
            _refuse(place, within, values, f"the value {show(setting.plain)}", show(value))
        self._refuse_setting(place, show(value))

    def accepts(self, place: Place, rule: Rule) -> str:
        """Refuse a setting that callers may not set, too."""
        values = self._values(_in_configuration(place))
        if values is True or rule.always_off:
            return rule.kind.accepts
        if not values:
            self._refuse_setting(place)
        return _listed(values)

    def _values(self, place: Place) -> list | Literal[True]:
        """Return the values of a setting that callers may set: a list, or ``True`` for all permitted values."""
        return _table(self._permitted, place).get(place.key or "", [])

    def _refuse_setting(self, place: Place, value: str = "") -> NoReturn:
        container = _in_configuration(place)._replace(key=None)
        _refuse(place, container, _table(self._permitted, container), value=value)


def faults(permitted: Mapping[str, dict], process: Process) -> Iterator[str]:
    """Return a sentence about each setting in a part PERMIT that the allowlist does not permit."""
    allowlist = Allowlist(process)
    for keyword, ep, names in configuration.tables(permitted):
        container = Place(keyword, ep)
        tables = _tables_of(container, process)
        if not tables:
            yield f"{PERMIT}: {container}: unknown execution provider{suggestions.similar_provider(ep)}"
            continue
        for name, values in names.items():
            place = container._replace(key=name)
            refusals = []
            for table in tables:
                try:
                    _check_values(allowlist, table, place, values)
                    break
                except NotPermittedError as refusal:
                    refusals.append(refusal)
            else:
                yield f"{PERMIT}: {refusals[0]}"


def _tables_of(container: Place, process: Process) -> list[Table]:
    """Return the tables of the allowlist for a part of PERMIT: of each kind of the EP."""
    if container.keyword != "provider_options":
        return [BY_KEYWORD[container.keyword]]
    ep = container.provider
    kinds = list(PROVIDERS.get(ep, ()))
    if not kinds and ep in process.kinds:
        kinds = ["plugin"]
    return [options_of(ep, kind) for kind in kinds]


def _check_values(allowlist: Allowlist, table: Table, place: Place, values: Iterable[object] | Literal[True]) -> None:
    """Check that a table of the allowlist contains a name, and permits its values."""
    if values is True:
        allowlist.rule_of(table, place)
        return
    for value in values:
        allowlist.setting_of(table, place, value)


def _in_configuration(place: Place) -> Place:
    """Return the place of a setting in a configuration. It contains attributes in ``session_options`` only."""
    if place.keyword in KEYWORDS:
        return place
    return Place("session_options", key=place.keyword)


def _table(configuration: Mapping[str, dict], place: Place) -> Values:
    """Return the table of a configuration that contains a setting."""
    table = configuration.get(place.keyword, {})
    if place.provider:
        return table.get(place.provider, {})
    return table


def _contains(values: Iterable[object], setting: Setting) -> bool:
    for value in values:
        try:
            if setting.rule.kind.parse(value) == setting.value:
                return True
        except ValueError:
            pass  # a value of an EP of another kind
    return False


def _refuse(
    place: Place, container: Place, permitted: Iterable[object], what: str = "this setting", value: str = ""
) -> NoReturn:
    refuse(
        place,
        f'"{PERMIT}" in the environment variable {ENVIRONMENT} does not contain {what}. '
        f"Permitted in {container}: {_listed(permitted)}",
        value,
    )


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
