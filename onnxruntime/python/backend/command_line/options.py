# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""List permitted options with their values, default and effect, or refused options with the reasons."""

import argparse
from collections.abc import Iterator

from onnxruntime.backend.allowlist import attributes, run_config, session_config
from onnxruntime.backend.allowlist.rules import Refused, Rule
from onnxruntime.backend.allowlist.rules import Table as Rules
from onnxruntime.backend.allowlist.suggestions import provider_named, similar_provider
from onnxruntime.backend.allowlist.tables import EVERY_EP, PROVIDERS
from onnxruntime.backend.command_line.output import Cell, Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    use = "list options of SCOPE: session, run, or an EP name (default: all)"
    parser.add_argument("scope", nargs="?", default="", metavar="SCOPE", help=use)
    parser.add_argument("--refused", action="store_true", help="list refused options and the reasons")
    parser.add_argument("--search", metavar="TEXT", default="", help="list only options that contain TEXT")


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    found = []
    for title, provider, rules in _tables(chosen.scope):
        entries = []
        merged: dict[str, Rule | Refused] = {**rules.refused, **rules}
        for name, rule in sorted(merged.items()):
            entry = _described(name, rule)
            if entry["permitted"] != chosen.refused and chosen.search.lower() in f"{name} {_text(entry)}".lower():
                entries.append(entry)
        found.append({"title": title, "provider": provider, "entries": entries})
    if not found:
        raise RuntimeError(
            f"unknown scope {chosen.scope!a}. To search all tables, use --search {chosen.scope!a}. "
            f"Expected session, run or an EP{similar_provider(chosen.scope)}"
        )
    return {"listed": "refused" if chosen.refused else "permitted", "tables": found}, 0


def _tables(scope: str) -> Iterator[tuple[str, str, Rules]]:
    """Yield the title, the EP (or ``""``) and the rules of each table in a scope. ``""`` is the scope of all."""
    if scope in ("", "session", "session_config"):
        yield "session_config", "", session_config.SESSION_CONFIG
        yield "keyword arguments of prepare", "", attributes.SESSION_ATTRIBUTES
    if scope in ("", "run", "run_config"):
        yield "run_config", "", run_config.RUN_CONFIG
        yield "keyword arguments of run", "", attributes.RUN_ATTRIBUTES
    provider = provider_named(scope)
    for ep, kinds in PROVIDERS.items():
        if not scope or ep == provider:
            for kind, rules in kinds.items():
                yield f"{ep} ({kind})", ep, rules
    if not scope or provider:
        yield "every EP", "", EVERY_EP


def _described(name: str, rule: Rule | Refused) -> dict:
    if not isinstance(rule, Rule):
        return {"name": name, "permitted": False, "hazard": rule.hazard, "reason": rule.reason}
    return {
        "name": name,
        "permitted": True,
        "effect": rule.effect,
        "accepts": rule.kind.accepts,
        "default": rule.default,
        "requires": conditions(rule),
    }


def conditions(rule: Rule) -> list[str]:
    """Return the conditions of an option: the ORT releases, then the others."""
    found = []
    if rule.since > (1, 24):
        found.append("ORT {}.{}".format(*rule.since))
    if rule.until:
        found.append("ORT before {}.{}".format(*rule.until))
    for need in rule.needs:
        found.append(f"{need.what}{' (otherwise no effect)' if need.only_warns else ''}")
    return found


def _text(entry: dict) -> str:
    if not entry["permitted"]:
        return f"{entry['hazard']}: {entry['reason']}"
    text = f"{entry['effect']} Values: {entry['accepts']} (default: {entry['default'] or 'empty'})."
    requires = "; ".join(entry["requires"]).replace(" (otherwise no effect);", ",")  # once, after the last of them
    return f"{text} Requires {requires}." if requires else text


def tables(result: dict) -> Iterator[Table]:
    listed = result["listed"]
    count = 0
    for one in result["tables"]:
        rows = [(Cell(entry["name"], "name"), _text(entry)) for entry in one["entries"]]
        count += len(rows)
        if rows:
            yield Table(rows, (), f"{'provider_options of ' if one['provider'] else ''}{one['title']}: {listed}")
    use = "omit" if listed == "refused" else "add"
    yield Table([[Cell(f"{count} {listed} options. For the others, {use} --refused", "note")]])
