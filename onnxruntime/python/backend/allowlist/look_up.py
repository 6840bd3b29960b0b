# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Looks up the names and values of settings in the tables of the allowlist.

ORT receives a caller's setting only if :meth:`Allowlist.setting_of` returned it. A setting has a name of the tables
(:mod:`allowlist.tables`, :mod:`allowlist.providers`), and text rendered from a parsed value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.providers import EVERY_EP, PROVIDERS, options_of
from onnxruntime.backend.allowlist.rules import NOTHING, Rule, Setting, Settings, Table, Values
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, LIBRARIES, PERMIT
from onnxruntime.backend.allowlist.value_kinds import ForbiddenError
from onnxruntime.backend.errors import ENVIRONMENT, NotPermittedError, Place, refuse, reject, reject_value, show

_ATTRIBUTES = SESSION_ATTRIBUTES.keys() | RUN_ATTRIBUTES.keys()
_LONGEST_NAME = 100  # of an attribute


class Allowlist:
    """The settings that callers may set."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def attributes(self, table: Table, keyword_arguments: Values) -> Settings:
        """Look up attributes. Names that no class of ORT has are left out, as in the stock backend."""
        settings = {}
        for name, value in keyword_arguments.items():
            if name in table:
                settings[name] = self.setting_of(table, Place(name), value)
            else:
                _refuse_attribute(table, name, value)
        return settings

    def settings(self, keyword: str, requested: Mapping[str, Values]) -> Settings:
        """Look up the settings of a keyword argument, except for ``provider_options``."""
        if keyword not in requested:
            return NOTHING
        values = requested[keyword]
        return self._settings(BY_KEYWORD[keyword], Place(keyword), values)

    def providers(self, specified: Mapping[str, Values]) -> dict[str, Settings]:
        """Look up the EPs that the caller specifies, with their options."""
        providers = {}
        for ep, options in specified.items():
            kinds: Iterable[str] = PROVIDERS.get(ep, NOTHING)
            if ep in self.process.kinds:
                kinds = [self.process.kinds[ep]]
            if not kinds:
                advice = suggestions.unknown_provider(ep)
                refuse(Place("provider_options", ep, None if ep else ""), f"unknown execution provider{advice}")
            providers[ep] = self._options(ep, kinds, options)
        return providers

    def _options(self, ep: str, kinds: Iterable[str], options: Values) -> Settings:
        """Look up the options of an EP, and add those that the backend always sends. One kind must permit all."""
        refusals = []
        for kind in kinds:
            table = options_of(ep, kind)
            sent: Values = {name: False for name, rule in table.items() if rule.always_off}
            try:
                return self._settings(table, Place("provider_options", ep), {**sent, **options})
            except NotPermittedError as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def _settings(self, table: Table, container: Place, values: Values) -> dict[str, Setting]:
        """Look up names and values, or refuse the first one that the table does not permit."""
        settings = {}
        for name, value in values.items():
            place = Place(container.keyword, container.provider, name)
            settings[name] = self.setting_of(table, place, value)
        return settings

    def setting_of(self, table: Table, place: Place, value: object) -> Setting:
        """Look up a name and a value, or refuse them. Every setting that ORT receives passes this function."""
        try:
            rule = self.rule_of(table, place)
            parsed = self._parsed(rule, place, value)
        except NotPermittedError as refusal:
            refusal.value = show(value)
            raise
        return Setting(place, rule, parsed, rule.kind.render(parsed))

    def rule_of(self, table: Table, place: Place) -> Rule:
        """Return the rule of a name, or refuse the name."""
        name = place.keyword if place.key is None else place.key
        rule = table.rule_of(name)
        if rule is None:
            refused = table.why_refused(name)
            if refused is None and place.provider:
                refused = EVERY_EP.why_refused(name)
            if refused is None:
                refuse(place, suggestions.why_unknown(table, place))
            refuse(place, refused.text(of_run=place.keyword == "run_config"))
        release = self.process.release
        if rule.since > release:
            required = _text_of(rule.since)
            refuse(place, f"it requires ORT {required}. ORT {_text_of(release)} stores it and ignores it")
        if rule.until is not None and release >= rule.until:
            first = _text_of(rule.until)
            refuse(place, f"ORT {_text_of(release)} ignores it, as all releases from {first} do")
        return rule

    def _parsed(self, rule: Rule, place: Place, value: object) -> object:
        try:
            return rule.kind.parse(value)
        except ForbiddenError as error:
            refuse(place, f"with the value {show(value)}, {error}")
        except ValueError as error:
            why = str(error)
        reject_value(place, value, self.accepts(place, rule), why)

    def accepts(self, place: Place, rule: Rule) -> str:
        """Return the values of a setting that callers may set, for an error."""
        return rule.kind.accepts


def _text_of(release: tuple[int, int]) -> str:
    major, minor = release
    return f"{major}.{minor}"


def _refuse_attribute(table: Table, name: str, value: object) -> None:
    """Refuse an attribute that is not permitted, and accept a name that is not an attribute."""
    if name in LIBRARIES or name == PERMIT:
        reason = f'only the environment variable {ENVIRONMENT} can specify it, as {{"{name}": ...}}'
        refuse(Place(name), reason, show(value))
    if len(name) > _LONGEST_NAME or name in _ATTRIBUTES:
        return
    of_run = table is RUN_ATTRIBUTES
    refused = table.why_refused(name)
    if refused is not None:
        refuse(Place(name), refused.text(of_run=of_run), show(value))
    if hasattr(RunOptions if of_run else SessionOptions, name):
        refuse(Place(name), "not reviewed", show(value))


def refuse_while_model_configures(keywords: Iterable[str]) -> None:
    """Refuse these keyword arguments if ORT would replace all session options by the model's metadata."""
    if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") != "1":
        return
    for keyword in keywords:
        problem = "cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. ORT uses the model's options"
        reject(Place(keyword), problem)
