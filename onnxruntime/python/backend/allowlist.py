# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The look-ups that turn what a caller asked for into what ORT may be given.

Nothing reaches ORT but what a function of this module returned, and those return only names written in the tables
(:mod:`allowlist_attributes`, :mod:`allowlist_config_keys`, :mod:`allowlist_providers`) with text rendered from a parsed
value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NoReturn

from onnxruntime import RunOptions, SessionOptions
from onnxruntime.backend.allowlist_attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist_config_keys import FREE_DIMENSION, RUN_CONFIG, SESSION_CONFIG, SESSION_FAMILIES
from onnxruntime.backend.allowlist_providers import ALWAYS, ANY_PLUGIN, NO_OPTION, PROVIDER_NEEDS, PROVIDERS
from onnxruntime.backend.allowlist_rules import NOTHING, Circumstances, Family, Grant, Permit, Permitted
from onnxruntime.backend.messages import NotPermittedError, late, name_of, nearest, refuse, show, suggest, warn
from onnxruntime.backend.request import Request, refuse_while_model_configures

# What names an entry in a message and in a refusal: the keyword argument, the EP, and the key; "" for none.
Place = tuple[str, str, str]


def permit(request: Request, at: Circumstances, flavour_of: Callable[[str], str]) -> Permit:
    """Look up everything that a request names.

    The verdict does not depend on which EPs this machine has: whether a named one is there is asked when it is opened.

    :param request: what was asked for.
    :param at: the circumstances of a session that nothing was asked of; its ``providers`` are the EPs it would have.
    :param flavour_of: tells whether an EP of this name is ``"bundled"`` or a ``"plugin"`` here, or ``""``.
    :raises NotPermittedError: for a name that is unknown, refused or without effect here, or a value that it does not
        accept.
    """
    permitted = Permit((), request.device)
    permitted.idle = {}
    if request.provider_options is None:
        permitted.providers = {name: NOTHING for name in at.providers if _is_fit(name, at)}
    if request.attributes or request.session_options:
        named = request.session_options or NOTHING
        permitted.attributes, idle = attributes(SESSION_ATTRIBUTES, request.attributes, at, named)
        permitted.idle["session_options"] = idle
    if request.free_dimension_overrides:
        permitted.sizes = {
            name: _grant(FREE_DIMENSION, size, ("free_dimension_overrides", "", name)).value
            for name, size in request.free_dimension_overrides.items()
        }
    options: dict[str, Mapping[str, str]] = {}
    if request.provider_options is not None:
        permitted.named = True
        permitted.flavours = {}
        for name, given in request.provider_options.items():
            flavour = permitted.flavours[name] = flavour_of(name)
            permitted.providers[name], options[name] = _provider(name, given, flavour, at)
    if request.session_config or request.run_config:
        changes = {
            "providers": tuple(permitted.providers),
            "options": options,
            "attributes": {**at.attributes, **permitted.attributes} if permitted.attributes else at.attributes,
        }
        for keyword in ("session_config", "run_config"):
            if given := getattr(request, keyword):
                found, permitted.idle[keyword] = entries(keyword, given, at, **changes)
                setattr(permitted, keyword, found)
    refuse_while_model_configures((*request.named, *permitted.attributes))
    return permitted


def _is_fit(name: str, at: Circumstances) -> bool:
    """Whether an EP that nobody named may be in the session; where not, there is a warning."""
    for need in PROVIDER_NEEDS.get((name, "bundled"), ()):
        if not need.met(at, ""):
            warn(f"{name} is left out: it needs {need.what}, without which {need.without}")
            return False
    return True


def entries(
    keyword: str, given: Mapping[str, object], at: Circumstances, **changes: object
) -> tuple[dict[str, str], dict[str, str]]:
    """Turn ``session_config`` or ``run_config`` into entries.

    :param keyword: which of the two.
    :param given: keys to values.
    :param at: the session it is meant for.
    :param changes: what is otherwise than ``at`` says.
    :return: the entries, and those of them that have nothing to act on, each with a sentence about it.
    :raises NotPermittedError: for a key that is unknown, refused or without effect here, or a value it does not accept.
    """
    table, families = (SESSION_CONFIG, SESSION_FAMILIES) if keyword == "session_config" else (RUN_CONFIG, ())
    grants: dict[str, Grant] = {}
    idle: dict[str, str] = {}
    in_family: dict[str, int] = {}
    for key, value in given.items():
        place = (keyword, "", key)
        family = None if key in table else _family(families, table, place)
        if family is None:
            grants[key] = _granted(table, key, value, at, place)
            continue
        in_family[family.prefix] = in_family.get(family.prefix, 0) + 1
        if in_family[family.prefix] > family.most:
            refuse(f"at most {family.most} keys of {family.prefix}* are accepted", *place)
        grants[key] = _grant(family, value, place)
        idle[key] = (
            f"session_config[{show(key)}] is known only as one of {family.prefix}*: ORT stores such a key whether it "
            "understands it or not, and this version cannot confirm that it acts"
        )
    texts = _texts(grants)
    _check_needs(grants, at, idle, beside=texts, **changes)
    return texts, idle


def attributes(
    table: Mapping[str, Permitted],
    given: Mapping[str, object],
    at: Circumstances,
    session_options: Mapping[str, object] = NOTHING,
) -> tuple[dict[str, object], dict[str, str]]:
    """Pick permitted attributes out of plain keyword arguments.

    :param table: ``SESSION_ATTRIBUTES`` or ``RUN_ATTRIBUTES``.
    :param given: the keyword arguments.
    :param at: the session it is meant for.
    :param session_options: what was given as that, all of which must be attributes; keyword arguments win over it.
    :return: attribute name to the value to assign, and those that have nothing to act on. Names that are no attribute
        are left out, as ORT always did.
    :raises NotPermittedError: for a refused attribute or value.
    """
    grants: dict[str, Grant] = {}
    for name, value in session_options.items():
        grants[name] = _granted(table, name, value, at, ("session_options", "", name))
    for name, value in given.items():
        if type(name) is not str:  # a subclass could be found as one name and set another
            refuse("it is named by a str", "keyword argument", "", show(name))
        if name in table:
            grants[name] = _granted(table, name, value, at, (name, "", ""))
        elif not is_attribute(name):
            where, owner = ("run", RunOptions) if table is RUN_ATTRIBUTES else ("session", SessionOptions)
            reason = _verdict(f"{where} attributes", "", name)
            if reason or hasattr(owner, name):
                refuse(f"{reason or 'it was never judged'}. Permitted: {', '.join(sorted(table))}", name)
    chosen = {name: grant.value for name, grant in grants.items()}
    idle: dict[str, str] = {}
    _check_needs(grants, at, idle, attributes=chosen)
    return chosen, idle


def is_attribute(name: str) -> bool:
    """Tell whether a plain keyword argument of this name would be set on SessionOptions or RunOptions."""
    return name in SESSION_ATTRIBUTES or name in RUN_ATTRIBUTES


def warn_unknown(given: Mapping[str, object], acting: Container[str]) -> tuple[str, ...]:
    """Warn of plain keyword arguments that nobody reads: they are ignored, as in ORT's own backend, but not in silence.

    :param given: the keyword arguments.
    :param acting: those that act here.
    :return: what was warned of.
    """
    idioms = None
    warnings = []
    for name, value in given.items():
        if type(name) is str and name not in acting:
            idioms = idioms or late("idioms")
            advice = idioms.unknown_keyword(name, value, given) if idioms else ""
            warnings.append(f"keyword argument {show(name)} is ignored{advice}")
            warn(warnings[-1])
    return tuple(warnings)


def _provider(
    name: str, options: Mapping[str, object], flavour: str, at: Circumstances
) -> tuple[dict[str, Grant], dict[str, str]]:
    """Look up the options of one EP: of the flavour that is here, or, of an absent EP, of any that it comes in.

    :return: what is granted, and the text of each.
    """
    tables = PROVIDERS.get(name, NOTHING)
    if flavour:
        table = tables.get(flavour, ANY_PLUGIN if flavour == "plugin" else NO_OPTION)
        return _grants(name, flavour, table, options, at)
    if not tables:
        idioms = late("idioms")
        meant = idioms.provider_named(name) if idioms else ""
        near = f". Did you mean '{meant}'?" if meant else suggest(name, PROVIDERS) or f". Known: {', '.join(PROVIDERS)}"
        refuse(f"no such execution provider is known{near}", "provider_options", name)
    refusals = []
    for flavour, table in tables.items():
        try:
            return _grants(name, flavour, table, options, at)
        except NotPermittedError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _grants(
    name: str, flavour: str, table: Mapping[str, Permitted], options: Mapping[str, object], at: Circumstances
) -> tuple[dict[str, Grant], dict[str, str]]:
    grants = {}
    for given in (ALWAYS.get((name, flavour), NOTHING), options):
        for option, value in given.items():
            grants[option] = _granted(table, option, value, at, ("provider_options", name, option), flavour)
    texts = {}
    if grants:
        texts = _texts(grants)
        _check_needs(grants, at, {}, beside=texts)
    for need in PROVIDER_NEEDS.get((name, flavour), ()):
        if not need.met(at.replace(beside=texts), ""):
            refuse(f"it needs {need.what}, without which {need.without}", "provider_options", name)
    return grants, texts


def _family(families: Iterable[Family], table: Mapping[str, Permitted], place: Place) -> Family | None:
    """The permitted family of a key that has no rule of its own."""
    _, _, key = place
    for family in families:
        rest = key.removeprefix(family.prefix)
        if rest != key and re.fullmatch(family.rest, rest, re.ASCII):
            known = {other.removeprefix(family.prefix): other for other in table if other.startswith(family.prefix)}
            if near := nearest(rest, known, 0.75):
                refuse(f"no such name is known. Did you mean '{known[near]}'?", *place)
            return family
    return None


def _granted(
    table: Mapping[str, Permitted], name: str, value: object, at: Circumstances, place: Place, flavour: str = ""
) -> Grant:
    """Look up one name with its value."""
    rule = table.get(name)
    if rule is None:
        _refuse_name(table, place, flavour)
    if rule.since > at.release:
        refuse("it needs ORT {}.{}; ORT {}.{} would store it and ignore it".format(*rule.since, *at.release), *place)
    if rule.until is not None and at.release >= rule.until:
        refuse("ORT {}.{} ignores it, as all do from {}.{} on".format(*at.release, *rule.until), *place)
    return _grant(rule, value, place)


def _grant(rule: Permitted, value: object, place: Place) -> Grant:
    """Grant a value that the rule's kind accepts."""
    kind = rule.kind
    try:
        parsed = kind.parse(value)
    except ValueError as error:
        refuse(f"{error}. Accepted: {kind.accepts}", *place, value=value)
    return Grant(rule, parsed, kind.render(parsed), place)


def _texts(grants: Mapping[str, Grant]) -> dict[str, str]:
    return {name: grant.text for name, grant in grants.items()}


def _check_needs(grants: Mapping[str, Grant], at: Circumstances, idle: dict[str, str], **changes: object) -> None:
    """Hold the needs of what was granted against the circumstances.

    :param idle: what has nothing to act on, each with a sentence about it; more is added.
    :param changes: what the grants change in the circumstances.
    """
    for key, grant in grants.items():
        if not grant.rule.needs or key in idle:
            continue
        if changes:
            at, changes = at.replace(**changes), {}
        for need in grant.rule.needs:
            if need.met(at, grant.text):
                continue
            if not need.idle:
                refuse(f"it needs {need.what}, without which {need.without}", *grant.place)
            idle[key] = f"{name_of(*grant.place)} has nothing to act on in this session: it needs {need.what}"


def _refuse_name(known: Mapping[str, Permitted], place: Place, flavour: str) -> NoReturn:
    """Refuse a name that no table permits, with the best reason there is."""
    key = place[2]
    reason = _verdict(*place, flavour)
    if not reason and (key in SESSION_CONFIG or key in RUN_CONFIG):
        reason = f"it belongs into {'session_config' if key in SESSION_CONFIG else 'run_config'}"
    if not reason and is_attribute(key):
        reason = "it is a keyword argument of its own"
    if not reason and place[1] and place[1] not in PROVIDERS:
        reason = "nobody has judged the options of this execution provider: name it with {}"
    if not reason and not known:
        reason = "no option of this execution provider is permitted: name it with {}"
    refuse(reason or f"no such name is known{suggest(key, known)}", *place)


def _verdict(*place: str) -> str:
    """Why a name is refused, where that is known; ``""`` otherwise."""
    try:
        from onnxruntime.backend import refusals  # read only when something was refused  # noqa: PLC0415
    except (ImportError, OSError):  # taken out, or no file can be opened any more: the name stays refused
        return ""
    found = refusals.find(*place)
    return f"{found.hazard}: {found.reason}" if found else ""
