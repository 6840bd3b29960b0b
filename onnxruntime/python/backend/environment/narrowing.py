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

from onnxruntime.backend.allowlist import look_up
from onnxruntime.backend.allowlist.conditions import Circumstances
from onnxruntime.backend.allowlist.providers import ANY_PLUGIN, PROVIDERS
from onnxruntime.backend.allowlist.rules import Narrowing, Place, Rule, Setting, Table, Values
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, FREE_DIMENSION
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.errors import NotPermittedError, from_refusals, name_of, reject_value, show
from onnxruntime.backend.keywords import ENVIRONMENT, PERMIT

_MOST_LISTED = 32  # names or values in an error


class NarrowedToPermit(Narrowing):
    """The settings that callers may set: names with ``True`` for all permitted values, or with a list of values."""

    def __init__(self, configuration: Mapping[str, dict]) -> None:
        self._permit = configuration[PERMIT]
        self._defaults = configuration

    def check_itself(self, facts: Circumstances) -> None:
        for problem in faults_of_permit(self._permit, facts):
            raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {problem}")

    def check_providers(self, names: Iterable[str]) -> None:
        place = Place("provider_options")
        permitted = _table(self._permit, place)
        is_specified = place.keyword in self._permit or place.keyword in self._defaults
        if not names and not is_specified:
            _refuse(place, place, permitted)

        # Callers may choose the permitted EPs in any order. The other EPs are the environment's, in its order.
        of_environment = iter(_table(self._defaults, place))
        for name in names:
            if name in permitted:
                continue
            others = (ep for ep in of_environment if ep not in permitted)
            expected = next(others, None)
            if name != expected:
                _refuse(place._replace(provider=name), place, permitted)

    def check(self, setting: Setting) -> None:
        place = setting.place
        values = self._values(place)
        if values is True or setting.rule.kind.always or _contains(values, setting):
            return
        defaults = _table(self._defaults, place)
        key = place.key or ""
        if key in defaults and _contains([defaults[key]], setting):
            return
        if values:
            _refuse(place, place, values, f"the value {show(setting.plain)}")
        self._refuse_setting(place)

    def reject_value(
        self,
        rule: Rule,
        place: Place,
        value: object,
        why: str,
    ) -> NoReturn:
        values = self._values(place)
        if values is True or rule.kind.always:
            super().reject_value(rule, place, value, why)
        if values:
            reject_value(value, _listed(values), *place.named)
        self._refuse_setting(place)

    def _values(self, place: Place) -> list | Literal[True]:
        """Return the values of a setting that callers may set: a list, or ``True`` for all permitted values."""
        return _table(self._permit, place).get(place.key or "", [])

    def _refuse_setting(self, place: Place) -> NoReturn:
        _refuse(place, place._replace(key=None), _table(self._permit, place))


def faults_of_permit(permit: Mapping[str, dict], facts: Circumstances) -> Iterator[str]:
    """Return a sentence about each setting in a part PERMIT that the allowlist does not permit."""
    for keyword, ep, names in configuration.tables(permit):
        place = Place(keyword, ep)
        tables = _tables_of(place, names, facts)
        if not tables:
            advice = from_refusals("similar_provider", ep)
            yield f"{PERMIT}: {place.name}: unknown execution provider{advice}"
            continue
        for name, values in names.items():
            refusals = []
            for kind, table in tables.items():
                facts_of_kind = facts._replace(kinds={ep: kind})
                try:
                    _check_values(table, place._replace(key=name), values, facts_of_kind)
                    break
                except NotPermittedError as refusal:
                    refusals.append(refusal)
            else:
                yield f"{PERMIT}: {refusals[0]}"


def _tables_of(
    place: Place,
    names: Iterable[str],
    facts: Circumstances,
) -> Mapping[str, Table]:
    """Return the tables of the allowlist for a part of PERMIT, by the kind of the EP or ``""``."""
    if place.keyword == "free_dimension_overrides":
        return {"": dict.fromkeys(names, FREE_DIMENSION)}
    if place.keyword != "provider_options":
        return {"": BY_KEYWORD[place.keyword]}
    if place.provider in PROVIDERS:
        return PROVIDERS[place.provider]
    if place.provider in facts.kinds:
        return {"plugin": ANY_PLUGIN}
    return {}


def _check_values(
    table: Table,
    place: Place,
    values: Iterable[object] | Literal[True],
    facts: Circumstances,
) -> None:
    """Check that a table of the allowlist contains a name, and permits its values."""
    if values is True:
        look_up.rule_of(table, place, facts)
        return
    for value in values:
        look_up.setting_of(table, place, value, facts)


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
    place: Place,
    container: Place,
    permitted: Iterable[object],
    what: str = "this setting",
) -> NoReturn:
    where = name_of(container.keyword, container.provider, container.key)
    place.refuse(
        f'"{PERMIT}" in the environment variable {ENVIRONMENT} does not contain {what}. '
        f"Permitted in {where}: {_listed(permitted)}"
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
