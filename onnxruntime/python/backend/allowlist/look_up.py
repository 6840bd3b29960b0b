# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Converts the settings that a caller requests into a permit.

ORT receives a setting only if a function of this module returned it. These functions return only names that are
written in the tables (:mod:`allowlist.attributes`, :mod:`allowlist.config_keys`, :mod:`allowlist.providers`), with text
rendered from a parsed value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend.allowlist import refusals, suggestions
from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.circumstances import NOTHING, Circumstances
from onnxruntime.backend.allowlist.config_keys import FREE_DIMENSION, RUN_CONFIG, SESSION_CONFIG, SESSION_FAMILIES
from onnxruntime.backend.allowlist.permits import Permit, Setting
from onnxruntime.backend.allowlist.providers import ALWAYS, ANY_PLUGIN, NO_OPTION, PROVIDER_NEEDS, PROVIDERS
from onnxruntime.backend.allowlist.rules import Family, Rule
from onnxruntime.backend.allowlist.value_kinds import ForbiddenError
from onnxruntime.backend.errors import (
    NotPermittedError,
    name_of,
    nearest,
    refuse,
    reject,
    reject_key,
    reject_value,
    show,
    warn,
)
from onnxruntime.backend.provider_names import ON_CUDA_DEVICE

if TYPE_CHECKING:
    from onnxruntime.backend.request import Request

# The name of a setting in a refusal: the keyword argument, the EP or "", and the key or None.
Place = tuple[str, str, str | None]
_WITHOUT_OPTIONS = "Use provider_options={{'{}': {{}}}}"


def permit(request: Request, at: Circumstances, kind_of: Callable[[str], str]) -> Permit:
    """Look up all settings of a request.

    The verdict does not depend on the EPs of this machine.

    :param at: the circumstances of a session without settings. Its ``providers`` are the EPs of that session.
    :param kind_of: returns the kind of an EP, ``"built-in"`` or ``"plugin"``, or ``""`` if it is not available.
    :raises NotPermittedError: if a name is unknown, refused or without effect, or a value is invalid.
    """
    permitted = Permit(request.device, explicit=request.provider_options is not None)
    if "extensions" in request.attributes:
        variable = "the environment variable ORT_ONNX_BACKEND_CONFIG"
        refuse(f'only {variable} can specify libraries, as {{"extensions": [...]}}', "extensions")
    permitted.attributes, permitted.without_effect["session_options"] = attributes(
        SESSION_ATTRIBUTES, request.attributes, at, request.session_options or NOTHING
    )
    permitted.sizes = {
        name: _parsed(FREE_DIMENSION, size, ("free_dimension_overrides", "", name)).value
        for name, size in (request.free_dimension_overrides or NOTHING).items()
    }
    options: dict[str, Mapping[str, str]] = {}
    if request.provider_options is None:
        permitted.providers = {name: NOTHING for name in at.providers if _fits_session(name, at)}
    else:
        for name, given in request.provider_options.items():
            kind = permitted.kinds[name] = kind_of(name)
            permitted.providers[name], options[name] = _options_of(name, given, kind, at)
        _check_device(request, permitted)
    created = {
        "providers": tuple(permitted.providers),
        "options": options,
        "attributes": {**at.attributes, **permitted.attributes},
        "sizes": permitted.sizes,
    }
    for keyword in ("session_config", "run_config"):
        found, permitted.without_effect[keyword] = entries(keyword, getattr(request, keyword) or {}, at, **created)
        setattr(permitted, keyword, found)
    refuse_while_model_configures((*request.specified, *permitted.attributes))
    permitted.warnings = warn_unknown(request.attributes, SESSION_ATTRIBUTES)
    return permitted


def _check_device(request: Request, permitted: Permit) -> None:
    """Check that the requested device and the specified EPs do not contradict each other."""
    if request.device not in ("CUDA", "GPU"):
        return
    index = "" if request.device_index is None else f":{request.device_index}"
    on_device = [name for name in permitted.providers if name in ON_CUDA_DEVICE]
    if not on_device:
        problem = "contradicts provider_options, which contains no EP for this device"
        reject(f"{show(request.device + index)} {problem}", "device")
    for name in on_device if index else ():
        device_id = permitted.providers[name]["device_id"].value
        if device_id != request.device_index:
            problem = f"contradicts provider_options['{name}']['device_id'], which is {device_id}"
            reject(f"{show(request.device + index)} {problem}", "device")


def reject_device(device: object, supported: list[str], advice: str = "") -> NoReturn:
    """Raise the error for a device that is not one of the devices that this ORT supports."""
    near = suggestions.device(device, supported)
    listed = f"This ORT build supports: {', '.join(supported)}{f'. {advice}' if advice else ''}"
    reject(f"{show(device)} is not supported. {near}{listed}", "device")


def refuse_while_model_configures(keywords: Iterable[str]) -> None:
    """Refuse these keyword arguments if ORT would replace all session options by the model's metadata."""
    for keyword in keywords if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1" else ():
        reject(
            "the setting cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. With it, ORT replaces the session "
            "options with the model's metadata",
            keyword,
        )


def _fits_session(name: str, at: Circumstances) -> bool:
    """Return whether a session without specified EPs may have this EP. If not, warn."""
    for need in PROVIDER_NEEDS.get((name, "built-in"), ()):
        if not need.met(at, ""):
            warn(f"{name} is left out, because it requires {need.what}. Otherwise, {need.without}")
            return False
    return True


def entries(
    keyword: str, given: Mapping[str, object], at: Circumstances, **changes: object
) -> tuple[dict[str, str], dict[str, str]]:
    """Look up the entries of ``session_config`` or ``run_config``.

    :param at: the circumstances of the session, with ``changes`` applied to them.
    :return: the text of each entry, and a sentence about each entry that has no effect in this session.
    :raises NotPermittedError: if a key is unknown or refused, or a value is invalid.
    """
    table, families = (SESSION_CONFIG, SESSION_FAMILIES) if keyword == "session_config" else (RUN_CONFIG, ())
    settings: dict[str, Setting] = {}
    without_effect: dict[str, str] = {}
    in_family: dict[str, int] = {}
    for key, value in given.items():
        place = (keyword, "", key)
        family = None if key in table else _family_of(families, table, place)
        if family is None:
            settings[key] = _look_up(table, key, value, at, place)
            continue
        in_family[family.prefix] = in_family.get(family.prefix, 0) + 1
        if in_family[family.prefix] > family.most:
            reject(f"more than {family.most} keys of {family.prefix}*", *place)
        settings[key] = _parsed(family, value, place)
        without_effect[key] = (
            f"{name_of(*place)} is permitted only as one of {family.prefix}*. ORT stores any such key, so the "
            "backend cannot confirm that it has an effect"
        )
    texts = _texts(settings)
    _check_needs(settings, at, without_effect, beside=texts, **changes)
    return texts, without_effect


def attributes(
    table: Mapping[str, Rule],
    given: Mapping[str, object],
    at: Circumstances,
    session_options: Mapping[str, object] = NOTHING,
) -> tuple[dict[str, object], dict[str, str]]:
    """Look up the attributes among the keyword arguments of a call.

    :param given: the keyword arguments. Names that are not attributes are left out, as in the stock backend.
    :param session_options: attributes only. Keyword arguments win over them.
    :return: the value of each attribute, and a sentence about each attribute that has no effect in this session.
    :raises NotPermittedError: if an attribute is refused, or its value is invalid.
    """
    settings: dict[str, Setting] = {}
    for name, value in session_options.items():
        settings[name] = _look_up(table, name, value, at, ("session_options", "", name))
    for name, value in given.items():
        if type(name) is not str:  # a subclass could be looked up as one name and set as another
            reject_key(name, "keyword argument")
        if name in table:
            settings[name] = _look_up(table, name, value, at, (name, "", None))
        elif not is_attribute(name):
            where, owner = ("run", RunOptions) if table is RUN_ATTRIBUTES else ("session", SessionOptions)
            reason = _reason_of(f"{where} attributes", "", name)
            if reason or hasattr(owner, name):
                refuse(f"{reason or 'not reviewed'}. Permitted attributes: {', '.join(sorted(table))}", name)
    chosen = {name: setting.value for name, setting in settings.items()}
    without_effect: dict[str, str] = {}
    _check_needs(settings, at, without_effect, attributes=chosen)
    return chosen, without_effect


def is_attribute(name: str) -> bool:
    """Return whether a keyword argument is an attribute of SessionOptions or RunOptions."""
    return name in SESSION_ATTRIBUTES or name in RUN_ATTRIBUTES


def warn_unknown(given: Mapping[str, object], acting: Container[str]) -> tuple[str, ...]:
    """Warn about keyword arguments that are ignored, and return the warnings.

    :param acting: the names that have an effect in this call.
    """
    warnings = []
    for name, value in given.items():
        if type(name) is str and name not in acting:
            warnings.append(suggestions.ignored_keyword(name, value, given))
            warn(warnings[-1])
    return tuple(warnings)


def _options_of(
    name: str, options: Mapping[str, object], kind: str, at: Circumstances
) -> tuple[dict[str, Setting], dict[str, str]]:
    """Look up the options of one EP: in the table of its kind, or in all its tables if the EP is not available.

    :return: the settings, and the text of each.
    """
    tables = PROVIDERS.get(name, NOTHING)
    if kind:
        table = tables.get(kind, ANY_PLUGIN if kind == "plugin" else NO_OPTION)
        return _options_of_kind(name, kind, table, options, at)
    if not tables:
        reason = f"unknown execution provider{suggestions.similar_provider(name)}"
        refuse(reason, "provider_options", name, None if name else "")
    errors = []
    for kind, table in tables.items():
        try:
            return _options_of_kind(name, kind, table, options, at)
        except NotPermittedError as refusal:
            errors.append(refusal)
    raise errors[0]


def _options_of_kind(
    name: str, kind: str, table: Mapping[str, Rule], options: Mapping[str, object], at: Circumstances
) -> tuple[dict[str, Setting], dict[str, str]]:
    settings = {}
    for given in (ALWAYS.get((name, kind), NOTHING), options):
        for option, value in given.items():
            settings[option] = _look_up(table, option, value, at, ("provider_options", name, option), kind)
    texts = {}
    if settings:
        texts = _texts(settings)
        _check_needs(settings, at, {}, beside=texts)
    for need in PROVIDER_NEEDS.get((name, kind), ()):
        if not need.met(replace(at, beside=texts), ""):
            refuse(f"it requires {need.what}. Otherwise, {need.without}", "provider_options", name)
    return settings, texts


def _family_of(families: Iterable[Family], table: Mapping[str, Rule], place: Place) -> Family | None:
    """Return the permitted family of a key that has no rule. Refuse a key that is similar to a known key."""
    _, _, key = place
    for family in families:
        rest = key.removeprefix(family.prefix)
        if rest != key and re.fullmatch(family.rest, rest, re.ASCII):
            known = {other.removeprefix(family.prefix): other for other in table if other.startswith(family.prefix)}
            if near := nearest(rest, known, 0.75):
                refuse(f"unknown key. Did you mean '{known[near]}'?", *place)
            return family
    return None


def _look_up(
    table: Mapping[str, Rule], name: str, value: object, at: Circumstances, place: Place, kind: str = ""
) -> Setting:
    """Return the setting of one name and value."""
    rule = table.get(name)
    if rule is None:
        _refuse_name(table, place, kind)
    if rule.since > at.release:
        refuse("it requires ORT {}.{}. ORT {}.{} stores it and ignores it".format(*rule.since, *at.release), *place)
    if rule.until is not None and at.release >= rule.until:
        refuse("ORT {}.{} ignores it, as all releases from {}.{} do".format(*at.release, *rule.until), *place)
    return _parsed(rule, value, place)


def _parsed(rule: Rule, value: object, place: Place) -> Setting:
    """Return the setting of a rule with a value of its kind."""
    kind = rule.kind
    try:
        parsed = kind.parse(value)
    except ForbiddenError as error:
        refuse(f"with the value {show(value)}, {error}", *place)
    except ValueError as error:
        reject_value(value, kind.accepts, *place, why=str(error))
    return Setting(rule, parsed, kind.render(parsed), place)


def _texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    return {name: setting.text for name, setting in settings.items()}


def _check_needs(
    settings: Mapping[str, Setting], at: Circumstances, without_effect: dict[str, str], **changes: object
) -> None:
    """Check the conditions of permitted settings.

    :param without_effect: this function adds a sentence about each setting that has no effect.
    """
    for key, setting in settings.items():
        if not setting.rule.needs or key in without_effect:
            continue
        if changes:
            at, changes = replace(at, **changes), {}
        for need in setting.rule.needs:
            if need.met(at, setting.text):
                continue
            if need.idle and not need.shared and setting.text in setting.rule.anyway:
                continue
            if not need.idle:
                refuse(f"it requires {need.what}. Otherwise, {need.without}", *setting.place)
            without_effect[key] = f"{name_of(*setting.place)} has no effect in this session: it requires {need.what}"


def _refuse_name(known: Mapping[str, Rule], place: Place, kind: str) -> NoReturn:
    """Refuse a name that no table contains, with the most specific reason."""
    key = place[2]
    reason = _reason_of(*place, kind)
    if not reason and (key in SESSION_CONFIG or key in RUN_CONFIG):
        owner = "session_config" if key in SESSION_CONFIG else "run_config"
        reason = f"it is a {owner.replace('_', ' ')} key and belongs in {owner}"
    if not reason and is_attribute(key):
        owner = "SessionOptions" if key in SESSION_ATTRIBUTES else "RunOptions"
        form = "in session_options or" if key in SESSION_ATTRIBUTES else "to run"
        reason = f"it is a {owner} attribute. Pass it {form} as a keyword argument"
    if not reason and place[1] and place[1] not in PROVIDERS:
        reason = f"the options of this execution provider have not been reviewed. {_WITHOUT_OPTIONS.format(place[1])}"
    if not reason and not known:
        reason = f"no options of this execution provider are permitted. {_WITHOUT_OPTIONS.format(place[1])}"
    if not reason:
        what = "option" if place[1] else "attribute" if place[0] == "session_options" else "key"
        reason = f"unknown {what}{suggestions.similar_name(*place, known)}"
    refuse(reason, *place)


def _reason_of(*place: str) -> str:
    """Return the documented reason of a refusal, or ``""``."""
    found = refusals.find(*place)
    return f"{found.hazard} ({found.reason})" if found else ""
