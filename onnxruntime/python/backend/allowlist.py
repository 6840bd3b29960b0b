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

import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NoReturn

from onnxruntime.backend.allowlist_attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist_config_keys import FREE_DIMENSION, RUN_CONFIG, SESSION_CONFIG, SESSION_FAMILIES
from onnxruntime.backend.allowlist_providers import ALWAYS, ANY_PLUGIN, NO_OPTION, PROVIDER_NEEDS, PROVIDERS
from onnxruntime.backend.allowlist_rules import Circumstances, Family, Need, Permitted
from onnxruntime.backend.messages import NotPermittedError, nearest, refuse, show, suggest, warn
from onnxruntime.backend.request import KEYWORDS, Request, refuse_while_model_configures
from onnxruntime.backend.value_kinds import Kind

_NOTHING: Mapping = MappingProxyType({})


class Grant:
    """A permitted option with its value: as parsed, and as the text that is sent."""

    __slots__ = ("rule", "text", "value")

    def __init__(self, rule: Permitted, value: object, text: str) -> None:
        self.rule = rule
        self.value = value
        self.text = text


class Permit:
    """What ORT may be given for one session.

    - ``attributes``: SessionOptions attribute to its value.
    - ``providers``: the EPs in their order, each with its options as ``{option: Grant}``.
    - ``named``: whether somebody named these EPs. Where not, they are all that are available, and ORT may fall back.
    - ``absent``: those of them that this process has not.
    - ``device``: ONNX's name of the device that was asked for, ``""`` for none.
    - ``session_config``, ``run_config``: key to text.
    - ``sizes``: dimension name to size.
    - ``idle``: by keyword argument, each key that has nothing to act on in this session, with a sentence about it.
    """

    __slots__ = (
        "absent",
        "attributes",
        "device",
        "idle",
        "named",
        "providers",
        "run_config",
        "session_config",
        "sizes",
    )

    def __init__(self, providers: Mapping[str, Mapping[str, Grant]] = _NOTHING) -> None:
        self.attributes: Mapping[str, object] = _NOTHING
        self.providers = providers
        self.named = False
        self.absent: list[str] = []
        self.device = ""
        self.session_config: Mapping[str, str] = _NOTHING
        self.run_config: Mapping[str, str] = _NOTHING
        self.sizes: Mapping[str, int] = _NOTHING
        self.idle: dict[str, dict[str, str]] = {}


def permit(request: Request, at: Circumstances, flavour_of: Callable[[str], str]) -> Permit:
    """Look up everything that a request names.

    The verdict does not depend on which EPs this machine has: whether a named one is there is asked when it is opened.

    :param request: what was asked for.
    :param at: the circumstances of a session that nothing was asked of; its ``providers`` are the EPs it would have.
    :param flavour_of: tells whether an EP of this name is ``"bundled"`` or a ``"plugin"`` here, or ``""``.
    :raises NotPermittedError: for a name that is unknown, refused or without effect here, or a value that it does not
        accept.
    """
    permitted = Permit(dict.fromkeys(at.providers, _NOTHING))
    permitted.device = request.device
    idle: dict[str, str] = {}
    if request.attributes or request.session_options:
        permitted.attributes = _attributes(SESSION_ATTRIBUTES, request.attributes, at, idle, request.session_options)
        _note(permitted, "session_options", idle)
    if request.free_dimension_overrides:
        permitted.sizes = _sizes(request.free_dimension_overrides)
    if request.provider_options is not None:
        permitted.named = True
        permitted.providers = {}
        for name, options in request.provider_options.items():
            flavour = flavour_of(name)
            permitted.providers[name] = _provider(name, options, flavour, at)
            if not flavour:
                permitted.absent.append(name)
    if request.session_config or request.run_config:
        options = {name: {key: grant.text for key, grant in of.items()} for name, of in permitted.providers.items()}
        attributes = {**at.attributes, **permitted.attributes}
        at = at.replace(providers=tuple(permitted.providers), options=options, attributes=attributes)
        permitted.session_config, idle = session_config(request.session_config or _NOTHING, at)
        _note(permitted, "session_config", idle)
        permitted.run_config, idle = run_config(request.run_config or _NOTHING, at)
        _note(permitted, "run_config", idle)
    refuse_while_model_configures((*request.named, *permitted.attributes))
    return permitted


def _sizes(given: Mapping[str, object]) -> dict[str, int]:
    keyword, sizes = "free_dimension_overrides", {}
    for name, size in given.items():
        if not name or "\0" in name:  # ORT cuts a name there
            refuse("a dimension is named by a str, not empty, without NUL", keyword, key=name)
        sizes[name] = _render(keyword, name, size, FREE_DIMENSION)[0]
    return sizes


def _note(permitted: Permit, keyword: str, idle: dict[str, str]) -> None:
    if idle:
        permitted.idle[keyword] = idle


def session_config(given: Mapping[str, object], at: Circumstances) -> tuple[dict[str, str], dict[str, str]]:
    """Turn ``session_config`` into session config entries.

    :param given: session config keys to values.
    :param at: the session it is meant for.
    :return: the entries, and those of them that have nothing to act on, each with a sentence about it.
    :raises NotPermittedError: for a key that is unknown, refused or without effect here, or a value it does not accept.
    """
    entries: dict[str, str] = {}
    idle: dict[str, str] = {}
    in_family: dict[str, int] = {}
    for key, value in given.items():
        family = None if key in SESSION_CONFIG else _family(key)
        if family is None:
            entries[key] = _entry("session_config", key, value, SESSION_CONFIG, at, idle)
            continue
        in_family[family.prefix] = in_family.get(family.prefix, 0) + 1
        if in_family[family.prefix] > family.most:
            refuse(f"at most {family.most} keys of {family.prefix}* are accepted", "session_config", key=key)
        entries[key] = _render("session_config", key, value, family.kind)[1]
        _check_needs(family.needs, at, entries[key], idle, "session_config", key)
        idle[key] = (
            f"session_config[{show(key)}] is known only as one of {family.prefix}*: ORT stores such a key whether it "
            f"understands it or not, and this version cannot confirm that it acts{suggest(key, SESSION_CONFIG)}"
        )
    return entries, idle


def run_config(given: Mapping[str, object], at: Circumstances) -> tuple[dict[str, str], dict[str, str]]:
    """Turn ``run_config`` into run config entries, as :func:`session_config` does for a session."""
    idle: dict[str, str] = {}
    return {key: _entry("run_config", key, value, RUN_CONFIG, at, idle) for key, value in given.items()}, idle


def run_attributes(given: Mapping[str, object], at: Circumstances) -> dict[str, object]:
    """Pick the permitted ``RunOptions`` attributes out of plain keyword arguments.

    :param given: the keyword arguments.
    :param at: the session of the run.
    :return: attribute name to the value to assign. Names that are no attribute are left out, as ORT always did.
    :raises NotPermittedError: for a refused attribute or value.
    """
    return _attributes(RUN_ATTRIBUTES, given, at, {})


def is_attribute(name: str) -> bool:
    """Tell whether a plain keyword argument of this name would be set on SessionOptions or RunOptions."""
    return name in SESSION_ATTRIBUTES or name in RUN_ATTRIBUTES


def warn_misspelt(given: Mapping[str, object]) -> None:
    """Warn of a keyword that is nearly one of ours: unknown keywords are ignored, so the typing error would be too."""
    for name in given:
        near = "" if is_attribute(name) else nearest(name, KEYWORDS, 0.85)
        if near:
            warn(f"keyword argument {show(name)} is ignored; did you mean {near}?")


def sent(grants: Mapping[str, Grant]) -> dict[str, str]:
    """The option texts that ORT is given for one EP, with the options that travel inside another one folded into it."""
    texts: dict[str, str] = {}
    folded: dict[str, dict] = {}
    for option, grant in grants.items():
        if not grant.rule.within:
            texts[option] = grant.text
            continue
        carrier, *path, last = grant.rule.within
        place = folded.setdefault(carrier, {})
        for step in path:
            place = place.setdefault(step, {})
        place[last] = grant.text
    return texts | {carrier: json.dumps(tree) for carrier, tree in folded.items()}


def _provider(name: str, options: Mapping[str, object], flavour: str, at: Circumstances) -> dict[str, Grant]:
    """Look up the options of one EP: of the flavour that is here, or, of an absent EP, of any that it comes in."""
    tables = PROVIDERS.get(name)
    if tables is None and not flavour:
        near = suggest(name, PROVIDERS) or f". Known: {', '.join(PROVIDERS)}"
        refuse(f"no such execution provider is known{near}", "provider_options", provider=name)
    tables = tables or {}
    if flavour:
        table = tables.get(flavour, ANY_PLUGIN if flavour == "plugin" else NO_OPTION)
        return _grants(name, flavour, table, options, at)
    refusals = []
    for absent, table in tables.items():
        try:
            return _grants(name, absent, table, options, at)
        except NotPermittedError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _grants(
    name: str, flavour: str, table: Mapping[str, Permitted], options: Mapping[str, object], at: Circumstances
) -> dict[str, Grant]:
    _check_needs(PROVIDER_NEEDS.get((name, flavour), ()), at, "", {}, "provider_options", provider=name)
    grants: dict[str, Grant] = {}
    for option, value in (*ALWAYS.get((name, flavour), _NOTHING).items(), *options.items()):
        rule = table.get(option)
        if rule is None:
            _refuse_name("provider_options", option, table, name, flavour)
        _check_release(rule, at, "provider_options", option, name)
        grants[option] = Grant(rule, *_render("provider_options", option, value, rule.kind, name))
    if any(grant.rule.needs for grant in grants.values()):
        together = at.replace(beside={option: grant.text for option, grant in grants.items()})
        for option, grant in grants.items():
            _check_needs(grant.rule.needs, together, grant.text, {}, "provider_options", option, name)
    return grants


def _attributes(
    rules: Mapping[str, Permitted],
    given: Mapping[str, object],
    at: Circumstances,
    idle: dict[str, str],
    session_options: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Look up attributes: those of ``session_options`` have to be known; plain keyword arguments win over them."""
    of = "run attributes" if rules is RUN_ATTRIBUTES else "session attributes"
    chosen: dict[str, object] = {}
    texts: dict[str, str] = {}
    for name, value in (session_options or _NOTHING).items():
        if name not in rules:
            _refuse_name("session_options", name, rules)
        chosen[name], texts[name] = _render("session_options", name, value, rules[name].kind)
    for name, value in given.items():
        if type(name) is not str:  # a subclass could be found as one name and set another
            refuse("it is named by a str", "keyword argument", key=name)
        if name in rules:
            chosen[name], texts[name] = _render(name, "", value, rules[name].kind)
        elif not is_attribute(name) and (reason := _verdict(of, name)):
            refuse(f"{reason}. Permitted: {', '.join(sorted(rules))}", name)
    at = at.replace(attributes=chosen) if chosen else at
    for name, text in texts.items():
        _check_needs(rules[name].needs, at, text, idle, name)
    return chosen


def _family(key: str) -> Family | None:
    """The permitted family of a key that has no rule of its own."""
    for family in SESSION_FAMILIES:
        if key.startswith(family.prefix) and re.fullmatch(family.rest, key[len(family.prefix) :], re.ASCII):
            return family
    return None


def _entry(
    keyword: str, key: str, value: object, rules: Mapping[str, Permitted], at: Circumstances, idle: dict[str, str]
) -> str:
    rule = rules.get(key)
    if rule is None:
        _refuse_name(keyword, key, rules)
    _check_release(rule, at, keyword, key)
    text = _render(keyword, key, value, rule.kind)[1]
    if rule.needs:
        _check_needs(rule.needs, at, text, idle, keyword, key)
    return text


def _render(keyword: str, key: str, value: object, kind: Kind, provider: str = "") -> tuple[object, str]:
    try:
        parsed = kind.parse(value)
    except ValueError as error:
        refuse(f"{error}. Accepted: {kind.accepts}", keyword, provider=provider, key=key, value=value)
    return parsed, kind.render(parsed)


def _check_release(rule: Permitted, at: Circumstances, keyword: str, key: str, provider: str = "") -> None:
    if rule.since <= at.release and (rule.until is None or at.release < rule.until):
        return
    here = _dotted(at.release)
    reason = f"ORT {here} ignores it, as all do from {_dotted(rule.until or at.release)} on"
    if rule.since > at.release:
        reason = f"it needs ORT {_dotted(rule.since)}; ORT {here} would store it and ignore it"
    refuse(reason, keyword, provider=provider, key=key)


def _dotted(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def _check_needs(
    needs: Iterable[Need],
    at: Circumstances,
    text: str,
    idle: dict[str, str],
    keyword: str,
    key: str = "",
    provider: str = "",
) -> None:
    for need in needs:
        if need.met(at, text):
            continue
        if not need.idle:
            refuse(
                f"it needs {need.what}, without which ORT ignores or rejects it", keyword, provider=provider, key=key
            )
        idle[key or keyword] = (
            f"{keyword}{f'[{show(key)}]' if key else ''} has nothing to act on in this session: it needs {need.what}"
        )


def _refuse_name(
    keyword: str, key: str, known: Mapping[str, Permitted], provider: str = "", flavour: str = ""
) -> NoReturn:
    """Refuse a name that no table permits, with the best reason there is."""
    reason = _verdict(keyword, key, provider, flavour)
    for other, table in (("session_config", SESSION_CONFIG), ("run_config", RUN_CONFIG)):
        if not reason and key in table:
            reason = f"it belongs into {other}"
    if not reason and is_attribute(key):
        reason = "it is a keyword argument of its own"
    if not reason and not known:
        reason = "no option of this execution provider is permitted: name it with {}"
    refuse(reason or f"no such name is known{suggest(key, known)}", keyword, provider=provider, key=key)


def _verdict(keyword: str, key: str, provider: str = "", flavour: str = "") -> str:
    """Why a name is refused, where that is known; ``""`` otherwise."""
    try:
        from onnxruntime.backend import refusals  # noqa: PLC0415 # read only when something was refused
    except (ImportError, OSError):  # taken out, or no file can be opened any more: the name stays refused
        return ""
    found = refusals.find(keyword, key, provider, flavour)
    return f"{found.hazard}: {found.reason}" if found else ""
