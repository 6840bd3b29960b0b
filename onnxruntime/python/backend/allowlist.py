# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The look-ups that turn what a caller named into what ORT may be given.

Nothing reaches ORT but what a function of this module returned, and those return only names written in the tables
(:mod:`allowlist_config_keys`, :mod:`allowlist_providers`) with text rendered from a parsed value. A caller's mapping
is read once; only the copy is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NoReturn

from onnxruntime.backend.allowlist_config_keys import (
    REFUSED_SESSION_FAMILIES,
    RUN_ATTRIBUTES,
    RUN_CONFIG,
    SESSION_ATTRIBUTES,
    SESSION_CONFIG,
    SESSION_FAMILIES,
)
from onnxruntime.backend.allowlist_providers import ALWAYS, EVERY_PROVIDER, PROVIDERS
from onnxruntime.backend.allowlist_rules import Circumstances, Need, Permitted, Refused, Rule
from onnxruntime.backend.messages import NOT_PERMITTED, NotPermittedError, nearest, show, warn

# More entries than ORT has keys; a mapping that goes on after that is no configuration.
MOST_ENTRIES = 256


class Grant:
    """A permitted option with its value: as parsed, and as the text that is sent."""

    __slots__ = ("rule", "text", "value")

    def __init__(self, rule: Permitted, value: object, text: str) -> None:
        self.rule = rule
        self.value = value
        self.text = text


def read(keyword: str, given: object) -> list[tuple[object, object]]:
    """Read a caller's mapping once.

    :param keyword: the keyword argument, for messages.
    :param given: what the caller passed for it.
    :raises TypeError: when it is not a mapping.
    :raises RuntimeError: when it has more entries than any configuration.
    """
    if type(given) is dict and len(given) <= MOST_ENTRIES:
        return list(given.items())
    if not isinstance(given, Mapping):
        raise TypeError(f"{keyword} must be a mapping such as a dict, not {show(given)}")
    try:
        pairs = [(key, value) for key, value in islice(given.items(), MOST_ENTRIES + 1)]
    except Exception as error:
        raise TypeError(f"{keyword} could not be read as a mapping") from error
    if len(pairs) > MOST_ENTRIES:
        raise RuntimeError(f"{keyword} with more than {MOST_ENTRIES} entries {NOT_PERMITTED}")
    return pairs


def session_attributes(given: Mapping[str, object]) -> dict[str, object]:
    """Pick the permitted ``SessionOptions`` attributes out of plain keyword arguments.

    :return: attribute name to the value to assign. Names that are no attribute are left out, as ORT always did.
    :raises RuntimeError: for a refused attribute or value.
    """
    return _attributes(SESSION_ATTRIBUTES, given)


def run_attributes(given: Mapping[str, object]) -> dict[str, object]:
    """Pick the permitted ``RunOptions`` attributes out of plain keyword arguments, as :func:`session_attributes`."""
    return _attributes(RUN_ATTRIBUTES, given)


def session_config(given: object, circumstances: Circumstances) -> dict[str, str]:
    """Turn ``session_config`` into session config entries.

    :param given: the caller's mapping of session config keys to values.
    :param circumstances: the session it is meant for.
    :raises TypeError: when it is not a mapping.
    :raises RuntimeError: for a key that is unknown, refused or without effect here, or a value it does not accept.
    """
    entries: dict[str, str] = {}
    in_family: dict[str, int] = {}
    for key, value in read("session_config", given):
        family = _family(key)
        if family is None:
            entries[key] = _entry("session_config", key, value, SESSION_CONFIG, circumstances)
            continue
        in_family[family.prefix] = in_family.get(family.prefix, 0) + 1
        if in_family[family.prefix] > family.most:
            _refuse("session_config", key, f"at most {family.most} keys of {family.prefix}* are accepted")
        entries[key] = _render("session_config", key, value, family.kind)[1]
        _check_needs("session_config", key, family.needs, circumstances, entries[key])
        warn(
            f"session_config[{show(key)}] is known only as one of {family.prefix}*: ORT stores such a key whether it "
            f"understands it or not, and this version cannot confirm that it acts{_suggest(key, SESSION_CONFIG)}"
        )
    return entries


def run_config(given: object, circumstances: Circumstances) -> dict[str, str]:
    """Turn ``run_config`` into run config entries, as :func:`session_config` does for a session."""
    return {
        key: _entry("run_config", key, value, RUN_CONFIG, circumstances) for key, value in read("run_config", given)
    }


def provider_options(
    given: object, flavour_of: Callable[[str], str], circumstances: Circumstances
) -> dict[str, dict[str, Grant]]:
    """Turn ``provider_options`` into the options of each named EP, in the caller's order.

    :param given: the caller's mapping of EP names to mappings of options to values.
    :param flavour_of: tells whether an EP of this name is ``"bundled"`` or a ``"plugin"`` here; raises
        ``RuntimeError`` when there is none.
    :param circumstances: the session it is meant for; its ``providers`` are not looked at.
    :return: EP name to option name to what was granted.
    :raises TypeError: when it, or what it holds for an EP, is not a mapping.
    :raises RuntimeError: for an EP that is unknown or not available, an option that is unknown or refused, or a value
        it does not accept.
    """
    granted: dict[str, dict[str, Grant]] = {}
    for name, options in read("provider_options", given):
        if type(name) is not str:
            _refuse("provider_options", name, "an execution provider is named by a str")
        where = f"provider_options[{show(name)}]"
        try:
            flavour = flavour_of(name)
        except LookupError as error:
            if name in PROVIDERS:
                raise NotPermittedError(f"{where} cannot be used: {error}", where) from None
            near = _suggest(name, PROVIDERS) or f". Known: {', '.join(PROVIDERS)}"
            raise NotPermittedError(
                f"{where} {NOT_PERMITTED}: no such execution provider is known{near}", where
            ) from None
        rules = {**EVERY_PROVIDER, **PROVIDERS.get(name, {}).get(flavour, {})}
        pairs = (*ALWAYS.get((name, flavour), {}).items(), *read(where, options))
        grants = {option: _permit(where, option, value, rules, circumstances) for option, value in pairs}
        if grants:
            together = circumstances._replace(beside={option: grant.text for option, grant in grants.items()})
            for option, grant in grants.items():
                _check_needs(where, option, grant.rule.needs, together, grant.text)
        granted[name] = grants
    return granted


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


def _attributes(rules: Mapping[str, Rule], given: Mapping[str, object]) -> dict[str, object]:
    chosen: dict[str, object] = {}
    for name, value in given.items():
        if type(name) is not str:
            _refuse("keyword argument", name, "a keyword is named by a str")
        rule = rules.get(name)
        if type(rule) is Permitted:
            chosen[name] = _render("keyword argument", name, value, rule.kind)[0]
        elif type(rule) is Refused:
            permitted = ", ".join(sorted(key for key, other in rules.items() if type(other) is Permitted))
            raise RuntimeError(
                f"keyword argument {name} {NOT_PERMITTED}: {rule.hazard}: {rule.reason}. Permitted: {permitted}"
            )
    return chosen


def _family(key: object):
    """The permitted family of a key that has no rule of its own."""
    if type(key) is str and key not in SESSION_CONFIG:
        for family in SESSION_FAMILIES:
            if key.startswith(family.prefix) and re.fullmatch(family.rest, key[len(family.prefix) :], re.ASCII):
                return family
    return None


def _entry(where: str, key: object, value: object, rules: Mapping[str, Rule], circumstances: Circumstances) -> str:
    rule = _rule(where, key, rules, circumstances)
    _, text = _render(where, key, value, rule.kind)
    if rule.needs:
        _check_needs(where, key, rule.needs, circumstances, text)
    return text


def _permit(where: str, key: object, value: object, rules: Mapping[str, Rule], circumstances: Circumstances) -> Grant:
    rule = _rule(where, key, rules, circumstances)
    return Grant(rule, *_render(where, key, value, rule.kind))


def _rule(where: str, key: object, rules: Mapping[str, Rule], circumstances: Circumstances) -> Permitted:
    rule = rules.get(key) if type(key) is str else None
    if type(rule) is not Permitted:
        _refuse_key(where, key, rule, rules)
    if rule.since > circumstances.release:
        needed, here = (".".join(map(str, release)) for release in (rule.since, circumstances.release))
        _refuse(where, key, f"it needs ORT {needed}; ORT {here} would store it and ignore it")
    return rule


def _check_needs(where: str, key: object, needs: Iterable[Need], circumstances: Circumstances, text: str) -> None:
    for need in needs:
        if not need.met(circumstances, text):
            _refuse(where, key, f"it needs {need.what}, without which ORT ignores or rejects it")


def _render(where: str, key: object, value: object, kind) -> tuple[object, str]:
    try:
        parsed = kind.parse(value)
    except ValueError as error:
        place = f"{where}[{show(key)}]" if where != "keyword argument" else f"{where} {key}"
        raise NotPermittedError(
            f"{place} with the value {show(value)} {NOT_PERMITTED}: {error}. Accepted: {kind.accepts}", place
        ) from None
    return parsed, kind.render(parsed)


def _refuse_key(where: str, key: object, rule: Refused | None, rules: Mapping[str, Rule]) -> NoReturn:
    if type(key) is not str:
        _refuse(where, key, "a name must be a str")
    if rule is None and where == "session_config":
        rule = next((rule for prefix, rule in REFUSED_SESSION_FAMILIES.items() if key.startswith(prefix)), None)
    if rule is not None:
        _refuse(where, key, f"{rule.hazard}: {rule.reason}")
    for keyword, table in (("session_config", SESSION_CONFIG), ("run_config", RUN_CONFIG)):
        if type(table.get(key)) is Permitted:
            _refuse(where, key, f"it belongs into {keyword}")
    if type(SESSION_ATTRIBUTES.get(key)) is Permitted or type(RUN_ATTRIBUTES.get(key)) is Permitted:
        _refuse(where, key, "it is a keyword argument of its own")
    if not any(type(rule) is Permitted for rule in rules.values()):
        _refuse(where, key, "no option of this execution provider is permitted: name it with {}")
    _refuse(where, key, f"no such name is known{_suggest(key, rules)}")


def _refuse(where: str, key: object, reason: str) -> NoReturn:
    place = f"{where}[{show(key)}]"
    raise NotPermittedError(f"{place} {NOT_PERMITTED}: {reason}", place)


def _suggest(name: str, known: Mapping[str, object]) -> str:
    """A near miss among the permitted names, as the end of a message."""
    by_form = {key.lower(): key for key, rule in known.items() if type(rule) is not Refused}
    near = nearest(name[:100].strip().lower(), by_form, 0.8)
    return f". Did you mean '{by_form[near]}'?" if near and by_form[near] != name else ""
