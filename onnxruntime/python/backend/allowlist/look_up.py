# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the settings that a caller requests into a permit.

ORT receives a caller's setting only if a function of this module returned it. These functions return only names of the
tables (:mod:`allowlist.ort_options`, :mod:`allowlist.providers`), with text rendered from a parsed value.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import optional_parts
from onnxruntime.backend.allowlist import ort_options
from onnxruntime.backend.allowlist.providers import ANY_PLUGIN, PROVIDER_NEEDS, PROVIDERS
from onnxruntime.backend.allowlist.rules import NOTHING, Circumstances, Permit, Place, Rule, Setting, texts_of
from onnxruntime.backend.errors import (
    NotPermittedError,
    from_refusals,
    name_of,
    refuse,
    reject,
    reject_key,
    reject_value,
    show,
    warn,
)
from onnxruntime.backend.keywords import ENVIRONMENT, LIBRARIES, PERMIT
from onnxruntime.backend.provider_names import CUDA_DEVICE, ON_CUDA_DEVICE

if TYPE_CHECKING:
    from onnxruntime.backend.request import Request

_NOT_PERMITTED = "unknown or not permitted"  # the reason in a build without refusals/
_MOST_WARNINGS = 8  # about the keyword arguments of a call: each one searches for similar names
_ATTRIBUTES = {*ort_options.SESSION_ATTRIBUTES, *ort_options.RUN_ATTRIBUTES}
_LONGEST_NAME = 100  # of an attribute


def permit(request: Request, facts: Circumstances) -> Permit:
    """Look up all settings of a request; ``facts`` describe the process, and the session without these settings."""
    eps = request.settings.get("provider_options")
    permitted = Permit(request.device, eps is not None, kinds=facts.kinds)
    variable = f"the environment variable {ENVIRONMENT}"
    for keyword in LIBRARIES:
        if keyword in request.attributes:
            refuse(f'only {variable} can specify libraries, as {{"{keyword}": [...]}}', keyword)
    if PERMIT in request.attributes:
        refuse(f'only {variable} can specify the settings of callers, as {{"{PERMIT}": {{...}}}}', PERMIT)
    request.narrowing.check_itself(facts)
    facts = facts._replace(narrowing=request.narrowing)
    permitted.attributes, permitted.without_effect["session_options"] = attributes(
        ort_options.SESSION_ATTRIBUTES, request.attributes, facts, request.settings.get("session_options", NOTHING)
    )
    _check_parts_of_keywords(request.settings)
    permitted.sizes = {
        name: parsed(ort_options.FREE_DIMENSION, size, ("free_dimension_overrides", "", name), facts).value
        for name, size in request.settings.get("free_dimension_overrides", NOTHING).items()
    }
    if eps is None:
        for name in facts.providers:
            need = PROVIDER_NEEDS.get(name)
            absence, _ = optional_parts.absence_for(name)
            if absence:
                warn(f"{name} is left out: {absence}")
            elif need is None or need.met(facts, ""):
                permitted.providers[name] = NOTHING
            else:
                warn(f"{name} is left out, because it requires {need.what}. Otherwise, {need.without}")
    else:
        facts.narrowing.check_providers(eps)
        for name, given in eps.items():
            if name not in facts.kinds and name not in PROVIDERS:
                advice = from_refusals("unknown_provider", name)
                refuse(f"unknown execution provider{advice}", "provider_options", name, None if name else "")
            permitted.providers[name] = _options_of(name, given, facts)
            _check_parts(name, permitted.providers[name])
        _check_device(request, permitted)
    for keyword in (word for word in ("session_config", "run_config") if word in request.settings):
        beside = facts._replace(
            providers=tuple(permitted.providers),
            options={name: texts_of(settings) for name, settings in permitted.providers.items()},
            attributes={**facts.attributes, **permitted.attributes},
            sizes=permitted.sizes,
        )
        found, permitted.without_effect[keyword] = entries(keyword, request.settings[keyword], beside)
        setattr(permitted, keyword, found)
    refuse_while_model_configures((*request.settings, *permitted.attributes))
    permitted.warnings = warn_unknown(request.attributes, ort_options.SESSION_ATTRIBUTES)
    return permitted


def entries(keyword: str, given: Mapping[str, object], facts: Circumstances) -> tuple[dict[str, str], dict[str, str]]:
    """Return the text of each entry, and a sentence about each entry that has no effect in this session."""
    table = ort_options.BY_KEYWORD[keyword]
    settings = {key: _look_up(table, key, value, facts, (keyword, "", key)) for key, value in given.items()}
    texts = texts_of(settings)
    without_effect = _without_effect(settings, facts._replace(beside=texts))
    for family in ort_options.SESSION_FAMILIES:
        members = [key for key, setting in settings.items() if setting.rule is family.rule]
        for key in members[family.most :]:
            reject(f"more than {family.most} keys of {family.prefix}*", keyword, "", key)
        for key in members:
            without_effect[key] = (
                f"{name_of(keyword, '', key)} is permitted only as one of {family.prefix}*. ORT stores any such key, "
                "so the backend cannot confirm that it has an effect"
            )
    return texts, without_effect


def attributes(
    table: Mapping[str, Rule],
    given: Mapping[str, object],
    facts: Circumstances,
    session_options: Mapping[str, object] = NOTHING,
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the value of each attribute, and a sentence about each attribute that has no effect in this session.

    :param given: the keyword arguments of a call. Names that no class of ORT has are left out, as in the stock backend.
    :param session_options: attributes only. Keyword arguments win over them.
    """
    settings: dict[str, Setting] = {}
    for name, value in session_options.items():
        settings[name] = _look_up(table, name, value, facts, ("session_options", "", name))
    for name, value in given.items():
        if type(name) is not str:  # a subclass could be looked up as one name and set as another
            reject_key(name, "keyword argument")
        if name in table:
            settings[name] = _look_up(table, name, value, facts, (name, "", None))
        elif len(name) <= _LONGEST_NAME and name not in _ATTRIBUTES:
            where, owner = ("run", RunOptions) if table is ort_options.RUN_ATTRIBUTES else ("session", SessionOptions)
            exists = hasattr(owner, name)
            reason = from_refusals("why_attribute_refused", f"{where} attributes", name, exists)
            if reason or exists:
                refuse(f"{reason or _NOT_PERMITTED}. Permitted attributes: {', '.join(sorted(table))}", name)
    chosen = {name: setting.value for name, setting in settings.items()}
    return chosen, _without_effect(settings, facts._replace(attributes=chosen)) if settings else {}


def _options_of(name: str, given: Mapping[str, object], facts: Circumstances) -> dict[str, Setting]:
    """Return the options of an EP. If it is not available, one of its kinds must permit all of them."""
    first = None
    for kind in (facts.kinds[name],) if name in facts.kinds else PROVIDERS[name]:
        try:
            return _options_of_kind(name, kind, given, facts)
        except NotPermittedError as refusal:
            first = first or refusal
    raise first


def _options_of_kind(name: str, kind: str, given: Mapping[str, object], facts: Circumstances) -> dict[str, Setting]:
    table = PROVIDERS.get(name, NOTHING).get(kind, ANY_PLUGIN if kind == "plugin" else NOTHING)
    always = {option: rule.kind.value for option, rule in table.items() if rule.kind.always}
    settings = {
        option: _look_up(table, option, value, facts, ("provider_options", name, option), kind)
        for option, value in {**always, **given}.items()
    }
    facts = facts._replace(beside=texts_of(settings))
    _without_effect(settings, facts)  # only refuses: no condition of an option only warns
    need = PROVIDER_NEEDS.get(name)
    if need and not need.met(facts, ""):
        refuse(f"it requires {need.what}. Otherwise, {need.without}", "provider_options", name)
    return settings


def _check_parts_of_keywords(settings: Mapping[str, Mapping]) -> None:
    """Check that this build contains the optional parts that the keyword arguments need."""
    for keyword, entries_of_keyword in settings.items():
        absence = optional_parts.absence_for_keyword(keyword)
        if absence and entries_of_keyword:
            reject(absence, keyword)


def _check_parts(name: str, settings: Mapping[str, Setting]) -> None:
    """Check that this build contains the optional parts that an EP with these options needs."""
    switched_on = [option for option, setting in settings.items() if setting.value is True]
    absence, option = optional_parts.absence_for(name, switched_on)
    if absence:
        reject(absence, "provider_options", name, option or None)


def _look_up(
    table: Mapping[str, Rule], name: str, value: object, facts: Circumstances, place: Place, kind: str = ""
) -> Setting:
    """Return the setting of one name and value."""
    return parsed(rule_of(table, name, facts, place, kind), value, place, facts)


def rule_of(table: Mapping[str, Rule], name: str, facts: Circumstances, place: Place, kind: str) -> Rule:
    """Return the rule of one name, or refuse the name."""
    rule = table.get(name)
    if rule is None and table is ort_options.SESSION_CONFIG:
        rule = next((family.rule for family in ort_options.SESSION_FAMILIES if family.permits(name, table)), None)
    if rule is None:
        refuse(from_refusals("why_unknown", table, place, kind) or _NOT_PERMITTED, *place)
    if rule.since > facts.release:
        refuse("it requires ORT {}.{}. ORT {}.{} stores it and ignores it".format(*rule.since, *facts.release), *place)
    if rule.until is not None and facts.release >= rule.until:
        refuse("ORT {}.{} ignores it, as all releases from {}.{} do".format(*facts.release, *rule.until), *place)
    return rule


def parsed(rule: Rule, value: object, place: Place, facts: Circumstances) -> Setting:
    """Return the setting of a rule with a value of its kind. Every setting that ORT receives passes this function."""
    try:
        own = rule.kind.parse(value)
    except ValueError as error:
        if str(error) == rule.kind.forbidden:
            refuse(f"with the value {show(value)}, {error}", *place)
        reject_value(value, rule.kind.accepts, *place, why=str(error))
    facts.narrowing.check(rule, own, place)
    return Setting(rule, own, rule.kind.render(own), place)


def _without_effect(settings: Mapping[str, Setting], facts: Circumstances) -> dict[str, str]:
    """Check the conditions of settings, and return a sentence about each setting that has no effect."""
    sentences = {}
    for key, (rule, _, text, place) in settings.items():
        for need in rule.needs:
            if need.met(facts, text):
                continue
            if not need.only_warns:
                refuse(f"it requires {need.what}. Otherwise, {need.without}", *place)
            if need.shared or text not in rule.already_so:
                sentences[key] = f"{name_of(*place)} has no effect in this session: it requires {need.what}"
    return sentences


def _check_device(request: Request, permitted: Permit) -> None:
    """Check that the requested device and the specified EPs do not contradict each other."""
    if request.device not in CUDA_DEVICE:
        return
    index = request.device_index
    device = show(request.device if index is None else f"{request.device}:{index}")
    on_device = [name for name in permitted.providers if name in ON_CUDA_DEVICE]
    if not on_device:
        reject(f"{device} contradicts provider_options, which contains no EP for this device", "device")
    for name in on_device if index is not None else ():
        device_id = permitted.providers[name]["device_id"].value
        if device_id != index:
            reject(f"{device} contradicts provider_options['{name}']['device_id'], which is {device_id}", "device")


def reject_device(device: object, supported: list[str], advice: str = "") -> NoReturn:
    """Raise the error for a device that is not one of the devices that this ORT supports."""
    near = from_refusals("device", device, supported)
    listed = f"This ORT build supports: {', '.join(supported)}"
    reject(f"{show(device)} is not supported. {near}{listed}{advice}", "device")


def refuse_while_model_configures(keywords: Iterable[str]) -> None:
    """Refuse these keyword arguments if ORT would replace all session options by the model's metadata."""
    for keyword in keywords:
        if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1":
            reject("cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. ORT uses the model's options", keyword)


def warn_unknown(given: Mapping[str, object], acting: Container[str]) -> tuple[str, ...]:
    """Warn about keyword arguments that are not ``acting`` in this call, and return the warnings."""
    plain = {str.__str__(name): value for name, value in given.items()}  # a subclass of str can have its own methods
    ignored = [each for each in plain.items() if each[0] not in acting]
    warnings = [
        from_refusals("ignored_keyword", name, value) or f"Keyword argument {show(name)} is ignored"
        for name, value in ignored[:_MOST_WARNINGS]
    ]
    if more := len(ignored) - len(warnings):
        warnings.append(f"{more} further keyword arguments are ignored")
    for warning in warnings:
        warn(warning)
    return tuple(warnings)
