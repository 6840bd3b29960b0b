# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the settings that a caller requests into a permit.

ORT receives a caller's setting only if a function of this module returned it. These functions return only names of the
tables (:mod:`allowlist.tables`, :mod:`allowlist.providers`), with text rendered from a parsed value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend import optional_parts
from onnxruntime.backend.allowlist import threads, unknown_arguments
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.conditions import Circumstances, check_conditions
from onnxruntime.backend.allowlist.needs import pools_above_cpus
from onnxruntime.backend.allowlist.providers import ANY_PLUGIN, PROVIDER_NEEDS, PROVIDERS
from onnxruntime.backend.allowlist.rules import (
    NOTHING,
    Family,
    Permit,
    Place,
    Rule,
    Setting,
    Settings,
    Table,
    Values,
    texts_of,
)
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG, SESSION_FAMILIES
from onnxruntime.backend.allowlist.tables import BY_KEYWORD, FREE_DIMENSION
from onnxruntime.backend.errors import (
    NotPermittedError,
    from_refusals,
    refuse,
    reject,
    reject_key,
    show,
    warn,
)
from onnxruntime.backend.keywords import ENVIRONMENT, LIBRARIES, PERMIT
from onnxruntime.backend.provider_names import CUDA_DEVICE, ON_CUDA_DEVICE

if TYPE_CHECKING:
    from onnxruntime.backend.request import Request

_NOT_PERMITTED = "unknown or not permitted"  # the reason in a build without refusals/
_ATTRIBUTES = SESSION_ATTRIBUTES.keys() | RUN_ATTRIBUTES.keys()
_LONGEST_NAME = 100  # of an attribute


def permit(request: Request, facts: Circumstances) -> Permit:
    """Look up all settings of a request; ``facts`` describe the process, and the session without these settings.

    If a call has several problems, the order of these steps decides which error it raises.
    """
    _refuse_keywords_of_environment(request.attributes)
    request.narrowing.check_itself(facts)
    if request.narrowing is not facts.narrowing:
        facts = facts._replace(narrowing=request.narrowing)

    specified = request.settings.get("provider_options")
    permitted = Permit(request.device, specified is not None, kinds=facts.kinds)
    expected = facts
    if specified is not None:
        expected = facts._replace(providers=tuple(specified))
    session_options = request.settings.get("session_options", NOTHING)
    permitted.attributes, permitted.without_effect["session_options"] = attributes(
        SESSION_ATTRIBUTES, request.attributes, expected, session_options
    )
    for keyword, values in request.settings.items():
        if values:  # an empty mapping needs nothing
            check_part_of(keyword)
    overrides = request.settings.get("free_dimension_overrides", NOTHING)
    permitted.sizes = _sizes(overrides, facts)
    if specified is None:
        permitted.providers = _available_providers(facts)
    else:
        permitted.providers = _specified_providers(specified, facts)
        _check_device(request, permitted.providers)

    keywords = [keyword for keyword in ("session_config", "run_config") if keyword in request.settings]
    if keywords or permitted.attributes:
        facts = _with_permitted(permitted, facts)
        config = request.settings.get("session_config", NOTHING)
        permitted.stops_spinning = _entries_that_stop_spinning(config, facts)
        facts = facts._replace(beside=dict.fromkeys(permitted.stops_spinning, "0"))
        for keyword in keywords:
            requested = request.settings[keyword]
            texts, permitted.without_effect[keyword] = entries(keyword, requested, facts)
            setattr(permitted, keyword, texts)

    refuse_while_model_configures(chain(request.settings, permitted.attributes))
    permitted.warnings = unknown_arguments.warn_or_reject(request.attributes, SESSION_ATTRIBUTES)
    return permitted


def _entries_that_stop_spinning(requested: Values, facts: Circumstances) -> dict[str, str]:
    """Return the keys that keep idle threads of large pools from slowing down other sessions, each with a sentence."""
    sentences = {}
    for pool in pools_above_cpus(facts):
        key = f"session.{pool}.allow_spinning"
        if key in requested:
            continue
        number = facts.attributes[f"{pool}_num_threads"]
        sentences[key] = (
            f"The backend sends {key}=0, because idle threads slow down other sessions: {pool}_num_threads={number} "
            f"exceeds the {len(threads.CPUS)} CPUs that this process can use"
        )
    return sentences


def _refuse_keywords_of_environment(attributes: Values) -> None:
    """Refuse keyword arguments that are parts of a configuration in the environment, and not of a call."""
    only = f"only the environment variable {ENVIRONMENT} can specify"
    for keyword in LIBRARIES:
        if keyword in attributes:
            refuse(f'{only} libraries, as {{"{keyword}": [...]}}', keyword)
    if PERMIT in attributes:
        refuse(f'{only} the settings of callers, as {{"{PERMIT}": {{...}}}}', PERMIT)


def attributes(
    table: Table,
    keyword_arguments: Values,
    facts: Circumstances,
    session_options: Values = NOTHING,
) -> tuple[Values, dict[str, str]]:
    """Return the value of each attribute, and a sentence about each attribute that has no effect in this session.

    :param keyword_arguments: of a call. Names that no class of ORT has are left out, as in the stock backend.
    :param session_options: attributes only. Keyword arguments win over them.
    """
    unknown_arguments.check_number(keyword_arguments)
    settings = _settings(table, Place("session_options"), session_options, facts)
    for name, value in keyword_arguments.items():
        if type(name) is not str:  # a subclass could be looked up as one name and set as another
            reject_key(name, "keyword argument")
        if name in table:
            place = Place("session_options", "", name, is_keyword_argument=True)
            settings[name] = setting_of(table, place, value, facts)
        else:
            _refuse_attribute(table, name, value)

    if not settings:
        return {}, {}
    values = {name: setting.value for name, setting in settings.items()}
    return values, check_conditions(settings, facts._replace(attributes=values))


def _refuse_attribute(
    table: Table,
    name: str,
    value: object,
) -> None:
    """Refuse an attribute that is not permitted, and accept a name that is not an attribute."""
    if len(name) > _LONGEST_NAME or name in _ATTRIBUTES:
        return
    scope, owner = "session", SessionOptions
    if table is RUN_ATTRIBUTES:
        scope, owner = "run", RunOptions
    exists = hasattr(owner, name)
    reason = from_refusals("why_attribute_refused", f"{scope} attributes", name, exists)
    if reason or exists:
        permitted = ", ".join(sorted(table))
        refuse(f"{reason or _NOT_PERMITTED}. Permitted attributes: {permitted}", name, value=show(value))


def _sizes(overrides: Values, facts: Circumstances) -> dict[str, int]:
    """Return the size of each free dimension override."""
    table = dict.fromkeys(overrides, FREE_DIMENSION)
    settings = _settings(table, Place("free_dimension_overrides"), overrides, facts)
    return {name: setting.value for name, setting in settings.items()}


def _available_providers(facts: Circumstances) -> dict[str, Settings]:
    """Return the EPs for a caller who specifies none, without options. Warn about an EP whose condition is not met."""
    providers = {}
    for ep in facts.providers:
        need = PROVIDER_NEEDS.get(ep)
        absence, _ = optional_parts.absence_for(ep)
        if absence:
            warn(f"{ep} is left out: {absence}")
        elif need is None or need.met(facts, ""):
            providers[ep] = NOTHING
        else:
            warn(f"{ep} is left out, because {need.problem}")
    return providers


def _specified_providers(
    specified: Mapping[str, Values],
    facts: Circumstances,
) -> dict[str, Settings]:
    """Return the EPs that the caller specifies, with their options."""
    facts.narrowing.check_providers(specified)
    providers = {}
    for ep, options in specified.items():
        if ep in facts.kinds:
            providers[ep] = _options_of_kind(ep, options, facts)
        elif ep in PROVIDERS:
            providers[ep] = _options_of_any_kind(ep, options, facts)
        else:
            advice = from_refusals("unknown_provider", ep)
            refuse(f"unknown execution provider{advice}", "provider_options", ep, None if ep else "")
        _check_parts(ep, providers[ep])
    return providers


def _options_of_any_kind(
    ep: str,
    options: Values,
    facts: Circumstances,
) -> Settings:
    """Return the options of an EP that is not available. One of its kinds must permit all of them."""
    refusals = []
    for kind in PROVIDERS[ep]:
        try:
            return _options_of_kind(ep, options, facts._replace(kinds={ep: kind}))
        except NotPermittedError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _options_of_kind(
    ep: str,
    options: Values,
    facts: Circumstances,
) -> Settings:
    """Return the options of an EP: those that the caller specifies, and those that the backend always sends."""
    kind = facts.kinds[ep]
    without_table = ANY_PLUGIN if kind == "plugin" else NOTHING
    table = PROVIDERS.get(ep, NOTHING).get(kind, without_table)
    values = {}
    for option, rule in table.items():
        if rule.kind.always:
            values[option] = rule.kind.value
    values.update(options)

    settings = _settings(table, Place("provider_options", ep), values, facts)
    if settings:
        facts = facts._replace(beside=texts_of(settings))
        check_conditions(settings, facts)  # only refuses: no condition of an option only warns
    need = PROVIDER_NEEDS.get(ep)
    if need is not None and not need.met(facts, ""):
        refuse(need.problem, "provider_options", ep)
    return settings


def check_part_of(keyword: str) -> None:
    """Check that this build contains the optional part that a keyword argument needs, if any."""
    absence = optional_parts.absence_for_keyword(keyword)
    if absence:
        reject(absence, keyword)


def _check_parts(ep: str, options: Settings) -> None:
    """Check that this build contains the optional parts that an EP with these options needs."""
    switched_on = [name for name, setting in options.items() if setting.value is True]
    absence, option = optional_parts.absence_for(ep, switched_on)
    if absence:
        reject(absence, "provider_options", ep, option)


def _check_device(request: Request, providers: Mapping[str, Settings]) -> None:
    """Check that the requested device and the specified EPs do not contradict each other."""
    if request.device not in CUDA_DEVICE:
        return
    index = request.device_index
    device = show(request.device if index is None else f"{request.device}:{index}")
    on_device = [ep for ep in providers if ep in ON_CUDA_DEVICE]
    if not on_device:
        reject(f"{device} contradicts provider_options, which contains no EP for this device", "device")
    if index is None:
        return
    for ep in on_device:
        device_id = providers[ep]["device_id"].value
        if device_id != index:
            reject(f"{device} contradicts provider_options['{ep}']['device_id'], which is {device_id}", "device")


def _with_permitted(permitted: Permit, facts: Circumstances) -> Circumstances:
    """Return the facts about the session with its permitted settings."""
    return facts._replace(
        providers=tuple(permitted.providers),
        options={ep: texts_of(settings) for ep, settings in permitted.providers.items()},
        attributes={**facts.attributes, **permitted.attributes},
        sizes=permitted.sizes,
    )


def entries(
    keyword: str,
    requested: Values,
    facts: Circumstances,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the text of each entry, and a sentence about each entry that has no effect in this session."""
    table = BY_KEYWORD[keyword]
    settings = _settings(table, Place(keyword), requested, facts)
    texts = texts_of(settings)
    without_effect = check_conditions(settings, facts._replace(beside={**facts.beside, **texts}))
    for family in SESSION_FAMILIES:
        _check_members(family, settings, without_effect)
    return texts, without_effect


def _check_members(
    family: Family,
    settings: Settings,
    without_effect: dict[str, str],
) -> None:
    """Reject entries of a family if they are too many, and add a sentence about each."""
    places = {key: setting.place for key, setting in settings.items() if setting.rule is family.rule}
    for place in [*places.values()][family.most :]:
        reject(f"more than {family.most} keys of {family.prefix}*", *place.named)
    for key, place in places.items():
        without_effect[key] = (
            f"{place.name} is permitted only as one of {family.prefix}*. ORT stores any such key, "
            "so the backend cannot confirm that it has an effect"
        )


def _settings(
    table: Table,
    within: Place,
    values: Values,
    facts: Circumstances,
) -> dict[str, Setting]:
    """Return the settings for names and values, or refuse the first one that the table does not permit."""
    settings = {}
    for name, value in values.items():
        place = Place(within.keyword, within.provider, name)
        settings[name] = setting_of(table, place, value, facts)
    return settings


def rule_of(
    table: Table,
    place: Place,
    facts: Circumstances,
) -> Rule:
    """Return the rule of one name, or refuse the name."""
    name = place.key or ""
    rule = table.get(name)
    if rule is None and table is SESSION_CONFIG:
        rule = _rule_of_family(name)
    if rule is None:
        kind = facts.kinds.get(place.provider, "")
        reason = from_refusals("why_unknown", table, place, kind)
        place.refuse(reason or _NOT_PERMITTED)
    if rule.since > facts.release:
        release = _text_of(facts.release)
        required = _text_of(rule.since)
        place.refuse(f"it requires ORT {required}. ORT {release} stores it and ignores it")
    if rule.until is not None and facts.release >= rule.until:
        release = _text_of(facts.release)
        first = _text_of(rule.until)
        place.refuse(f"ORT {release} ignores it, as all releases from {first} do")
    return rule


def _rule_of_family(key: str) -> Rule | None:
    for family in SESSION_FAMILIES:
        if family.permits(key, SESSION_CONFIG):
            return family.rule
    return None


def _text_of(release: tuple[int, int]) -> str:
    major, minor = release
    return f"{major}.{minor}"


def setting_of(
    table: Table,
    place: Place,
    value: object,
    facts: Circumstances,
) -> Setting:
    """Return the setting for a name and a value, or refuse it. Every setting that ORT receives passes this function."""
    try:
        rule = rule_of(table, place, facts)
        parsed = _parsed(rule, place, value, facts)
        setting = Setting(rule, parsed, rule.kind.render(parsed), place)
        facts.narrowing.check(setting)
    except NotPermittedError as refusal:
        refusal.value = show(value)
        raise
    return setting


def _parsed(
    rule: Rule,
    place: Place,
    value: object,
    facts: Circumstances,
) -> object:
    try:
        return rule.kind.parse(value)
    except ValueError as error:
        why = str(error)
    if why == rule.kind.forbidden:
        place.refuse(f"with the value {show(value)}, {why}")
    facts.narrowing.reject_value(rule, place, value, why)


def reject_device(
    device: object,
    supported: list[str],
    advice: str = "",
) -> NoReturn:
    """Raise the error for a device that is not one of the devices that this ORT supports."""
    near = from_refusals("device", device, supported)
    listed = f"This ORT build supports: {', '.join(supported)}"
    reject(f"{show(device)} is not supported. {near}{listed}{advice}", "device", value=show(device))


def refuse_while_model_configures(keywords: Iterable[str]) -> None:
    """Refuse these keyword arguments if ORT would replace all session options by the model's metadata."""
    if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") != "1":
        return
    for keyword in keywords:
        reject("cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. ORT uses the model's options", keyword)
