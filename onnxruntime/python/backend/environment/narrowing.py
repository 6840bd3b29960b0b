# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Narrows the allowlist to the settings that callers may set: the part "permit" of ``ORT_ONNX_BACKEND_CONFIG``.

The settings beside this part are the defaults of callers. A caller's setting that equals its default changes nothing,
so it needs no permission: ``prepare(model, **rep.configuration())`` works under each environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from onnxruntime.backend.allowlist import look_up, ort_options
from onnxruntime.backend.allowlist.providers import ANY_PLUGIN, PROVIDERS
from onnxruntime.backend.allowlist.rules import Circumstances, Narrowing, Place, Rule
from onnxruntime.backend.allowlist.value_kinds import Kind
from onnxruntime.backend.environment.configuration import tables
from onnxruntime.backend.errors import NotPermittedError, from_refusals, name_of, refuse, show
from onnxruntime.backend.keywords import ENVIRONMENT, KEYWORDS, PERMIT


class NarrowedToPermit(Narrowing):
    """The settings that callers may set: names with ``True`` for all permitted values, or with a list of values."""

    def __init__(self, configuration: Mapping[str, dict]) -> None:
        self.permit, self._defaults = configuration[PERMIT], configuration

    def check_itself(self, facts: Circumstances) -> None:
        for problem in faults_of_permit(self.permit, facts):
            raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {problem}")

    def check_providers(self, names: Iterable[str]) -> None:
        permitted = _table(self.permit, "provider_options")
        if not names and "provider_options" not in {*self.permit, *self._defaults}:
            _refuse(("provider_options", "", None), permitted)
        others = [name for name in names if name not in permitted]
        ours = [name for name in _table(self._defaults, "provider_options") if name not in permitted]
        for index, name in enumerate(others):
            if [name] != ours[index : index + 1]:
                _refuse(("provider_options", name, None), permitted)

    def check(self, rule: Rule, parsed: object, place: Place) -> None:
        keyword, provider, key = place if place[0] in KEYWORDS else ("session_options", "", place[0])
        names, defaults = (_table(each, keyword, provider) for each in (self.permit, self._defaults))
        permitted = names.get(key, [])
        if permitted is True or rule.kind.always:
            return
        values = [*permitted, defaults[key]] if key in defaults else permitted
        if not _contains(values, parsed, rule.kind):
            _refuse(place, permitted or names, name_of(keyword, provider, key if permitted else None))


def faults_of_permit(permitted: Mapping[str, dict], facts: Circumstances) -> Iterator[str]:
    """Return a sentence about each setting in a part PERMIT that the allowlist does not permit."""
    for keyword, ep, names in tables(permitted):
        kinds = {"": ort_options.BY_KEYWORD.get(keyword, dict.fromkeys(names, ort_options.FREE_DIMENSION))}
        if keyword == "provider_options":
            kinds = PROVIDERS.get(ep) or ({"plugin": ANY_PLUGIN} if ep in facts.kinds else {})
        if not kinds:
            advice = from_refusals("similar_provider", ep)
            yield f"{PERMIT}: {name_of(keyword, ep)}: unknown execution provider{advice}"
        for name, values in names.items() if kinds else ():
            place, refusals = (keyword, ep, name), []
            for kind, table in kinds.items():
                try:
                    rule = look_up.rule_of(table, name, facts, place, kind)
                    for value in () if values is True else values:
                        look_up.parsed(rule, value, place, facts)
                except NotPermittedError as refusal:
                    refusals.append(refusal)
            if len(refusals) == len(kinds):
                yield f"{PERMIT}: {refusals[0]}"


def _table(configuration: Mapping[str, dict], keyword: str, provider: str = "") -> Mapping[str, object]:
    table = configuration.get(keyword, {})
    return table.get(provider, {}) if provider else table


def _contains(values: Iterable[object], parsed: object, kind: Kind) -> bool:
    for value in values:
        try:
            if kind.parse(value) == parsed:
                return True
        except ValueError:
            pass  # a value of an EP of another kind
    return False


def _refuse(place: Place, permitted: Iterable[object], where: str = "provider_options") -> NoReturn:
    listed = f"Permitted in {where}: {', '.join(map(show, permitted)) or 'nothing'}"
    refuse(
        f'"{PERMIT}" in the environment variable {ENVIRONMENT} does not contain this setting. {listed}',
        *place,
    )
