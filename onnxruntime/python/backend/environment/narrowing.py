# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Narrows the allowlist to the settings that callers may set: the part "permit" of ``ORT_ONNX_BACKEND_CONFIG``.

The settings beside this part are the defaults of callers. A caller's setting that equals its default changes nothing,
so it needs no permission: ``prepare(model, **rep.configuration())`` works under each environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from onnxruntime.backend.allowlist.value_kinds import Kind
from onnxruntime.backend.environment.configuration import KEYWORDS, PERMIT
from onnxruntime.backend.errors import name_of, refuse, show

if TYPE_CHECKING:
    from onnxruntime.backend.allowlist.rules import Place, Rule


class Narrowing:
    """The settings that callers may set: names with ``True`` for all permitted values, or with a list of values."""

    def __init__(self, configuration: Mapping[str, dict]) -> None:
        self.permit, self._defaults = configuration[PERMIT], configuration

    def check_providers(self, names: Iterable[str]) -> None:
        """Refuse the first EP that callers may not choose, or may not move to another place in the order."""
        permitted = _table(self.permit, "provider_options")
        if not names and "provider_options" not in {*self.permit, *self._defaults}:
            _refuse(("provider_options", "", None), permitted)
        others = [name for name in names if name not in permitted]
        ours = [name for name in _table(self._defaults, "provider_options") if name not in permitted]
        for index, name in enumerate(others):
            if [name] != ours[index : index + 1]:
                _refuse(("provider_options", name, None), permitted)

    def check(self, rule: Rule, parsed: object, place: Place) -> None:
        """Refuse a setting that callers may not set, or not to this value."""
        keyword, provider, key = place if place[0] in KEYWORDS else ("session_options", "", place[0])
        names, defaults = (_table(each, keyword, provider) for each in (self.permit, self._defaults))
        permitted = names.get(key, [])
        if permitted is True or rule.kind.always:
            return
        values = [*permitted, defaults[key]] if key in defaults else permitted
        if not _contains(values, parsed, rule.kind):
            _refuse(place, permitted or names, name_of(keyword, provider, key if permitted else None))


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
        f'"{PERMIT}" in the environment variable ORT_ONNX_BACKEND_CONFIG does not contain this setting. {listed}',
        *place,
    )
