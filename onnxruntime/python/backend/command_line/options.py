# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""List permitted options with their values, default and effect, or refused options with the reasons."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping

from onnxruntime.backend.allowlist import ort_options, refusals
from onnxruntime.backend.allowlist.refusals.suggestions import provider_named, similar_provider
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.command_line.output import MistakeError, Page
from onnxruntime.backend.session import presence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    use = "list options of SCOPE: session, run, or an EP name (default: print the number of options in each table)"
    parser.add_argument("scope", nargs="?", metavar="[SCOPE]", help=use)
    parser.add_argument("--refused", action="store_true", help="list refused options and the reasons")
    parser.add_argument("--search", metavar="TEXT", default="", help="list only options that contain TEXT")


def execute(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    text, found = chosen.search.lower(), []
    for _, title, provider, rules in _tables(chosen.scope):
        described = [_described(name, rule) for name, rule in sorted(rules.items())]
        matching = [entry for entry in described if text in " ".join([entry["name"], *_sentences(entry)]).lower()]
        entries = [entry for entry in matching if entry["permitted"] is not chosen.refused]
        found.append({"title": title, "provider": provider, "entries": entries, "others": len(matching) - len(entries)})
    listed = "refused" if chosen.refused else "permitted"
    return {"scope": chosen.scope, "search": chosen.search, "listed": listed, "tables": found}, 0


def _tables(scope: str | None) -> list[tuple[str, str, str, Mapping[str, Rule | refusals.Refused]]]:
    """Return scope, title, EP (or ``""``) and entries of each table in a scope; ``None`` is the scope of all tables."""
    tables = [
        ("session", "session_config", "", ort_options.SESSION_CONFIG | refusals.SESSION_CONFIG),
        ("session", "keyword arguments of prepare", "", ort_options.SESSION_ATTRIBUTES | refusals.SESSION_ATTRIBUTES),
        ("run", "run_config", "", ort_options.RUN_CONFIG | refusals.RUN_CONFIG),
        ("run", "keyword arguments of run", "", ort_options.RUN_ATTRIBUTES | refusals.RUN_ATTRIBUTES),
    ]
    for name, kinds in refusals.provider_tables().items():
        of_every = refusals.EVERY_PROVIDER if scope else {}
        tables += [(name, f"{name} ({kind})", name, {**of_every, **rules}) for kind, rules in kinds.items()]
    if scope is None:
        return tables
    # The names of keyword arguments, such as session_options, are scopes, too.
    name = provider_named(scope, presence.kinds()) or scope.removesuffix("_config").removesuffix("_options")
    if found := [table for table in tables if table[0] == name]:
        return found
    if name in presence.kinds():  # a plugin EP without a table
        return [(name, name, name, {})]
    search = f"To search all tables, use --search {shlex.quote(scope)}"
    expected = f"Expected session, run or an EP{similar_provider(scope)}"
    raise MistakeError(f"unknown scope {scope!a}. {search}. {expected}")


def _described(name: str, rule: Rule | refusals.Refused) -> dict[str, object]:
    if not isinstance(rule, Rule):
        return {"name": name, "permitted": False, "hazard": rule.hazard, "reason": rule.reason}
    effect = {"effect": rule.effect, "accepts": rule.kind.accepts, "default": rule.default}
    return {"name": name, "permitted": True, **effect, "requires": conditions(rule)}


def conditions(rule: Rule) -> list[str]:
    """Return the conditions of an option: the ORT releases, then the others."""
    since = ["ORT {}.{}".format(*rule.since)] if rule.since > (1, 24) else []
    until = ["ORT before {}.{}".format(*rule.until)] if rule.until else []
    needs = [f"{need.what}{' (otherwise no effect)' if need.only_warns else ''}" for need in rule.needs]
    return [*since, *until, *needs]


def _sentences(entry: dict) -> list[str]:
    if not entry["permitted"]:
        return [f"{entry['hazard']}: {entry['reason']}"]
    requires = [f"requires {'; and '.join(entry['requires'])}"] if entry["requires"] else []
    return [entry["effect"], f"{entry['accepts']} (default: {entry['default'] or 'empty'})", *requires]


def show(result: dict, page: Page) -> None:
    listed, others = result["listed"], "permitted" if result["listed"] == "refused" else "refused"
    if not result["scope"] and not result["search"] and listed == "permitted":
        rows = [(table["title"], str(len(table["entries"])), str(table["others"])) for table in result["tables"]]
        page.table([("", listed, others), *rows])
        page.add()
        page.add("To list the options of a table, add its scope, such as: options session, options CUDA --refused")
        return
    tables = [table for table in result["tables"] if table["entries"]]
    for table in tables:
        page.add(f"{'provider_options of ' if table['provider'] else ''}{table['title']}: {listed}")
        for entry in table["entries"]:
            page.add(entry["name"], 2)
            for sentence in _sentences(entry):
                page.add(sentence, 6)
        page.add()
    if not tables:
        page.add(f"No {listed} option" + (f" matches {result['search']!a}." if result["search"] else "."))
    if count := sum(table["others"] for table in result["tables"]):
        page.add(f"Other matches: {count} {others} ({'without' if others == 'permitted' else 'use'} --refused)")
