# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Looks up the settings of a call: all names and values, then all conditions. The result is a :class:`Permit`.

ORT receives a caller's setting only if :meth:`Allowlist.setting_of` returned it. A setting has a name of the tables
(:mod:`allowlist.tables`), and text rendered from a parsed value.
"""

import os
import re
from collections.abc import Container, Iterable, Mapping
from itertools import chain

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend.allowlist import conditions, suggestions, threads
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import Process, SessionFacts
from onnxruntime.backend.allowlist.permit import Permit, Request
from onnxruntime.backend.allowlist.rules import NO_SETTINGS, NOTHING, Rule, Setting, Settings, Table, Texts, Values
from onnxruntime.backend.allowlist.tables import (
    ANY_PLUGIN,
    BY_KEYWORD,
    EVERY_EP,
    LIBRARIES,
    LIMITS,
    NO_OPTIONS,
    PERMIT,
    PROVIDERS,
    TRUSTED,
)
from onnxruntime.backend.allowlist.value_kinds import ForbiddenError
from onnxruntime.backend.errors import (
    ENVIRONMENT,
    FROM_ENVIRONMENT,
    NotPermittedError,
    Place,
    refuse,
    reject,
    reject_value,
    show,
    warn,
    warn_each,
)
from onnxruntime.backend.provider_names import CUDA_DEVICE, ON_CUDA_DEVICE

# Other names of a limit, in lower case. A limit is never ignored.
_LIKE_A_LIMIT = (
    "(run_?)?(time_?out|deadline|time_?(limit|budget)|max_?(run_?)?(time|duration|seconds))"
    "(_?(in_?)?(m?s|us|m?secs?|(milli|micro)?seconds|millis|min(ute)?s?))?|cancell?ation_?token|cancelation"
)


def permit_of(request: Request, allowlist: "Allowlist") -> Permit:
    """Look up all settings of a request: first all names and values, then all conditions.

    If a call has several problems, the order of these steps decides which error it raises.
    """
    process = allowlist.process
    requested = request.settings
    if not requested and not request.attributes:  # as in most calls
        return Permit(request.device, explicit=False, providers=_available_providers(process), kinds=process.kinds)
    attributes = allowlist.settings("session_options", requested)
    if request.attributes:
        attributes = Settings({**attributes, **allowlist.attributes(SESSION_ATTRIBUTES, request.attributes)})
    sizes = allowlist.settings("free_dimension_overrides", requested).parsed
    explicit = "provider_options" in requested
    if explicit:
        providers = allowlist.providers(requested["provider_options"])
        _check_device(request, providers)
    else:
        providers = _available_providers(process)
    entries = allowlist.settings("session_config", requested)
    run_entries = allowlist.settings("run_config", requested)
    _refuse_while_model_configures(chain(requested, attributes))

    stops_spinning: Texts = NOTHING
    if attributes:
        stops_spinning = _entries_that_stop_spinning(attributes.parsed, entries)
    facts = SessionFacts(
        process,
        providers=tuple(providers),
        options={ep: options.texts for ep, options in providers.items()},
        attributes=attributes.parsed,
        session_config={**dict.fromkeys(stops_spinning, "0"), **entries.texts},
        sizes=sizes,
    )
    settings = {**providers, "session_options": attributes, "session_config": entries, "run_config": run_entries}
    without_effect = _check_conditions(settings, facts, request.from_environment)
    warnings = warn_or_reject(request.attributes, SESSION_ATTRIBUTES)
    return Permit(
        device=request.device,
        explicit=explicit,
        providers=providers,
        kinds=process.kinds,
        attributes=attributes,
        session_config=entries,
        run_config=run_entries,
        sizes=sizes,
        stops_spinning=stops_spinning,
        without_effect=without_effect,
        warnings=warnings,
    )


def of_run(
    attributes: Values, entries: Values | None, facts: SessionFacts, allowlist: "Allowlist"
) -> tuple[Settings, Settings, Texts]:
    """Look up the attributes and the run config entries of one run. Return a warning, too, for each key without effect.

    The warnings are given.
    """
    found = allowlist.attributes(RUN_ATTRIBUTES, attributes)
    found_entries = NO_SETTINGS
    if entries is not None:
        _refuse_while_model_configures(["run_config"])
        found_entries = allowlist.settings("run_config", {"run_config": entries})
    without_effect = _check_conditions({"run_config": found_entries}, facts)["run_config"]
    warn_or_reject(attributes, RUN_ATTRIBUTES)
    warn_each([*without_effect.values()])
    return found, found_entries, without_effect


def _available_providers(process: Process) -> dict[str, Settings]:
    """Return the EPs for a caller who specifies none, without options. Warn about an EP whose condition is not met."""
    providers = {}
    facts = SessionFacts(process, process.providers)
    for ep in process.providers:
        reason = _why_not(ep, facts)
        if reason:
            warn(f"{ep} is left out, because {reason}")
        else:
            providers[ep] = NO_SETTINGS
    return providers


def _check_device(request: Request, providers: Mapping[str, Settings]) -> None:
    """Check that the requested device and the specified EPs do not contradict each other."""
    if request.device not in CUDA_DEVICE:
        return
    place = Place("device")
    index = request.device_index
    device = request.device if index is None else f"{request.device}:{index}"
    on_device = [ep for ep in providers if ep in ON_CUDA_DEVICE]
    if not on_device:
        reject(place, f"{show(device)} contradicts provider_options, which contains no EP for this device")
    if index is None:
        return
    for ep in on_device:
        device_id = providers[ep]["device_id"]
        if device_id.value != index:
            reject(place, f"{show(device)} contradicts {device_id.place}, which is {device_id.value}")


def _entries_that_stop_spinning(attributes: Values, entries: Settings) -> dict[str, str]:
    """Return the keys that keep idle threads of large pools from slowing down other sessions, each with a sentence."""
    sentences = {}
    for pool in conditions.pools_above_cpus(attributes):
        key = f"session.{pool}.allow_spinning"
        if key in entries:
            continue
        number = attributes[f"{pool}_num_threads"]
        sentences[key] = (
            f"The backend sends {key}=0, because idle threads slow down other sessions: {pool}_num_threads={number} "
            f"exceeds the {len(threads.CPUS)} CPUs that this process can use"
        )
    return sentences


class Allowlist:
    """The settings that callers may set in a process. A subclass narrows them."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def attributes(self, table: Table, keyword_arguments: Values) -> Settings:
        """Look up attributes. Names that ORT's class does not have are left out, as in the stock backend."""
        settings = {}
        for name, value in keyword_arguments.items():
            if name in table or table.why_refused(name):
                settings[name] = self.setting_of(table, Place(name), value)
            else:
                _check_left_out(table, name, value)
        return Settings(settings)

    def settings(self, keyword: str, requested: Mapping[str, Values]) -> Settings:
        """Look up the settings of a keyword argument, except for ``provider_options``."""
        if keyword not in requested:
            return NO_SETTINGS
        return self._settings(BY_KEYWORD[keyword], Place(keyword), requested[keyword])

    def providers(self, specified: Mapping[str, Values]) -> dict[str, Settings]:
        """Look up the EPs that the caller specifies, with their options."""
        providers = {}
        for ep, options in specified.items():
            kinds: Iterable[str] = PROVIDERS.get(ep, NOTHING)
            if ep in self.process.kinds:
                kinds = [self.process.kinds[ep]]
            if not kinds:
                advice = suggestions.similar_provider(ep)
                refuse(Place("provider_options", ep, None if ep else ""), f"unknown execution provider{advice}")
            providers[ep] = self._options(ep, kinds, options)
        return providers

    def _options(self, ep: str, kinds: Iterable[str], options: Values) -> Settings:
        """Look up the options of an EP, and add those that the backend always sends. One kind must permit all."""
        refusals = []
        for kind in kinds:
            table = PROVIDERS.get(ep, NOTHING).get(kind, ANY_PLUGIN if kind == "plugin" else NO_OPTIONS)
            sent: Values = {name: False for name, rule in table.items() if rule.always_off}
            try:
                return self._settings(table, Place("provider_options", ep), {**sent, **options})
            except NotPermittedError as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def _settings(self, table: Table, container: Place, values: Values) -> Settings:
        """Look up names and values, or refuse the first one that the table does not permit."""
        settings = {}
        for name, value in values.items():
            settings[name] = self.setting_of(table, container._replace(key=name), value)
        return Settings(settings)

    def setting_of(self, table: Table, place: Place, value: object) -> Setting:
        """Look up a name and a value, or refuse them. Every setting that ORT receives passes this function."""
        try:
            rule = self.rule_of(table, place)
            parsed = rule.kind.parse(value)
        except NotPermittedError as refusal:
            refusal.value = show(value)
            raise
        except ForbiddenError as error:
            refuse(place, f"with the value {show(value)}, {error}", show(value))
        except ValueError as error:
            reject_value(place, value, self.accepted(rule, place), str(error))
        return Setting(place, rule, parsed, rule.kind.render(parsed))

    def accepted(self, rule: Rule, place: Place) -> str:
        """Return which values of a setting callers may specify."""
        return rule.kind.accepts

    def rule_of(self, table: Table, place: Place) -> Rule:
        """Return the rule of a name, or refuse the name."""
        name = place.keyword if place.key is None else place.key
        rule: Rule | None = table[name]
        if rule is None:
            reason = table.why_refused(name)
            if place.keyword == "provider_options":
                reason = reason or EVERY_EP.why_refused(name)
            refuse(place, reason or suggestions.why_unknown(table, place))
        release = self.process.release
        if rule.since > release:
            text = "it requires ORT {}.{}. ORT {}.{} stores it and ignores it"
            refuse(place, text.format(*rule.since, *release))
        if rule.until is not None and release >= rule.until:
            refuse(place, "ORT {}.{} ignores it, as all releases from {}.{} do".format(*release, *rule.until))
        return rule


def _check_left_out(table: Table, name: str, value: object) -> None:
    """Refuse a keyword argument that only the environment can contain, or an attribute that is in no table."""
    if name in (*LIBRARIES, PERMIT, TRUSTED):
        reason = f'only the environment variable {ENVIRONMENT} can specify it, as {{"{name}": ...}}'
        refuse(Place(name), reason, show(value))
    of_ort = RunOptions if table is RUN_ATTRIBUTES else SessionOptions
    if len(name) <= suggestions.LONGEST_NAME and hasattr(of_ort, name):
        refuse(Place(name), "not reviewed", show(value))


def _refuse_while_model_configures(keywords: Iterable[str]) -> None:
    """Refuse these keyword arguments if ORT would replace all session options by the model's metadata."""
    if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") != "1":
        return
    for keyword in keywords:
        problem = "cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. ORT uses the model's options"
        reject(Place(keyword), problem)


def _check_conditions(
    tables: Mapping[str, Settings], facts: SessionFacts, from_environment: Container[Place] = ()
) -> dict[str, dict[str, str]]:
    """Check the conditions of all settings of a session. Return a warning about each setting that has no effect.

    :param tables: the settings by keyword argument, and the options by EP. So are the warnings.
    :param from_environment: the settings that only the environment specifies.
    """
    warnings: dict[str, dict[str, str]] = {}
    for name, settings in tables.items():
        of_table = warnings[name] = {}
        for key, setting in settings.items():
            for need in setting.rule.needs:
                if need.holds(facts, setting.text):
                    continue
                if not need.only_warns:
                    refuse(setting.place, need.reason, show(setting.plain))
                if need.warns_always or not setting.rule.is_already_so(setting.text):
                    of_table[key] = need.warning(setting.place)
                    if setting.place in from_environment:
                        of_table[key] += FROM_ENVIRONMENT
        reason = _why_not(name, facts)
        if reason:
            refuse(Place("provider_options", name), reason)
    return warnings


def _why_not(ep: str, facts: SessionFacts) -> str:
    """Return the reason why an EP cannot be in a session, or ``""``."""
    for need in conditions.PROVIDER_NEEDS.get(ep, ()):
        if not need.holds(facts, ""):
            return need.reason
    return ""


def warn_or_reject(keyword_arguments: Values, acting: Container[str]) -> tuple[str, ...]:
    """Warn about keyword arguments that are not ``acting`` in this call, and return the warnings.

    A keyword argument that is a limit of a run, or has another name of one, is an error.
    """
    ignored = {name: value for name, value in keyword_arguments.items() if name not in acting}
    if not ignored:
        return ()
    for name, value in ignored.items():
        if value is None or len(name) > suggestions.LONGEST_NAME:
            continue
        if name in LIMITS or re.fullmatch(_LIKE_A_LIMIT, name.lower()):
            problem = "a run has the limits timeout, in seconds, and cancellation. Pass them to rep.run or run"
            reject(Place(name), problem, show(value))
    return warn_each([suggestions.ignored_keyword(name, value) for name, value in ignored.items()])
