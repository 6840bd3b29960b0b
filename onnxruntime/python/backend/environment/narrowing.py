# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Narrows the allowlist to the settings that callers may set: the part "permit" of ``ORT_ONNX_BACKEND_CONFIG``.

The settings next to this part are the defaults of callers. A caller's setting that equals its default changes nothing,
so it needs no permission: ``prepare(model, **rep.configuration())`` works under each environment.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist
from onnxruntime.backend.allowlist.rules import Rule, Setting, Settings, Table, Values
from onnxruntime.backend.allowlist.tables import ANY_PLUGIN, BY_KEYWORD, PERMIT, PROVIDERS
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.errors import ENVIRONMENT, NotPermittedError, Place, refuse, show

_MOST_LISTED = 32  # names or values in an error
_DOES_NOT_CONTAIN = f'"{PERMIT}" in the environment variable {ENVIRONMENT} does not contain'


class NarrowedAllowlist(Allowlist):
    """The settings that callers may set: names with ``True`` for all permitted values, or with a list of values."""

    def __init__(self, environment: Values, process: Process) -> None:
        """:raises RuntimeError: if callers may set a setting that the allowlist does not permit."""
        super().__init__(process)
        self._permitted = environment[PERMIT]
        self._defaults = environment
        checked = dict(self._permitted)
        if not process.kinds:  # for a run, which sets no options of EPs
            checked.pop("provider_options", None)
        for fault in faults(checked, process):
            raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {fault}")

    def setting_of(self, table: Table, place: Place, value: object) -> Setting:
        """Look up a setting, and refuse it unless callers may set it, or the value is its default."""
        setting = super().setting_of(table, place, value)
        values = self._values_of(place)
        if values is True or setting.rule.always_off:
            return setting
        if not values:
            container, _ = _container_of(place)
            refuse(place, _lacks("this setting", container, _names(self._permitted, container)), show(value))
        for one in values:
            with suppress(ValueError):  # a value of an EP of another kind
                if setting.rule.kind.parse(one) == setting.value:
                    return setting
        problem = f"{_DOES_NOT_CONTAIN} this value. Permitted: {_listed(values)}"
        refuse(place, f"with the value {show(value)}, {problem}", show(value))

    def accepted(self, rule: Rule, place: Place) -> str:
        """Return which values of a setting callers may specify."""
        values = self._values_of(place)
        return super().accepted(rule, place) if values in (True, []) else _listed(values)

    def _values_of(self, place: Place) -> Any:
        """Return the values that callers may specify, among them the default, or ``True`` for all."""
        container, name = _container_of(place)
        values = _names(self._permitted, container).get(name, [])
        defaults = _names(self._defaults, container)
        if values is not True and name in defaults and defaults[name] not in values:
            return [*values, defaults[name]]
        return values

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
    tables = list(PROVIDERS.get(container.provider, {}).values())
    if not tables and container.provider in process.kinds:
        return [ANY_PLUGIN]
    return tables


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


def _container_of(place: Place) -> tuple[Place, str]:
    """Return the part of a configuration that contains a setting, and the name of the setting."""
    if place.key is None:  # a keyword argument
        return Place("session_options"), place.keyword
    return place._replace(key=None), place.key


def _names(settings: Mapping[str, dict], place: Place) -> Values:
    """Return the names and values of a place."""
    names = settings.get(place.keyword, {})
    if place.provider:
        return names.get(place.provider, {})
    return names


def _lacks(what: str, place: Place, permitted: Iterable[object]) -> str:
    return f"{_DOES_NOT_CONTAIN} {what}. Permitted in {place}: {_listed(permitted)}"


def _listed(permitted: Iterable[Any]) -> str:
    """Return names or values for an error."""
    shown = [show(value) for value in permitted]
    if len(shown) > _MOST_LISTED:
        shown[_MOST_LISTED:] = ["..."]
    return ", ".join(shown) or "nothing"
