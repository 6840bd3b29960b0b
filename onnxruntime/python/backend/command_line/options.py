# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""List permitted options with their values, default and effect, or refused options with the reasons."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from onnxruntime.backend.allowlist import attributes, run_config, session_config
from onnxruntime.backend.allowlist.providers import EVERY_EP, NO_OPTIONS, PROVIDERS
from onnxruntime.backend.allowlist.rules import Refused, Rule, Table
from onnxruntime.backend.allowlist.suggestions import provider_named, similar_provider
from onnxruntime.backend.command_line.output import MistakeError, Page
from onnxruntime.backend.session import presence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    use = "list options of SCOPE: session, run, or an EP name (default: print the number of options in each table)"
    parser.add_argument("scope", nargs="?", metavar="[SCOPE]", help=use)
    parser.add_argument("--refused", action="store_true", help="list refused options and the reasons")
    parser.add_argument("--search", metavar="TEXT", default="", help="list only options that contain TEXT")


def execute(chosen: argparse.Namespace) -> tuple[dict, int]:
    searched = chosen.search.lower()
    tables = []
    for table in _tables(chosen.scope):
        entries = []
        others = 0
        rules: dict[str, Rule | Refused] = {**table.reviewed.refused, **table.refused, **table.reviewed}
        for name, rule in sorted(rules.items()):
            entry = _described(name, rule)
            text = " ".join([name, *_sentences(entry)])
            if searched not in text.lower():
                continue
            if entry["permitted"] is chosen.refused:
                others += 1
            else:
                entries.append(entry)
        shown = {"title": table.title, "provider": table.provider, "entries": entries, "others": others}
        tables.append(shown)

    result = {
        "scope": chosen.scope,
        "search": chosen.search,
        "listed": "refused" if chosen.refused else "permitted",
        "tables": tables,
    }
    return result, 0


class _Table(NamedTuple):
    scope: str
    title: str
    provider: str  # an EP, or ""
    reviewed: Table
    refused: Mapping[str, Refused] = MappingProxyType({})  # further names


# Besides the tables of EPs.
_OF_SESSION_AND_RUN = [
    _Table("session", "session_config", "", session_config.SESSION_CONFIG),
    _Table("session", "keyword arguments of prepare", "", attributes.SESSION_ATTRIBUTES),
    _Table("run", "run_config", "", run_config.RUN_CONFIG),
    _Table("run", "keyword arguments of run", "", attributes.RUN_ATTRIBUTES),
]


def _tables(scope: str | None) -> list[_Table]:
    """Return the tables in a scope. ``None`` is the scope of all tables."""
    if scope is None:
        return _OF_SESSION_AND_RUN + _of_providers({})

    tables = _OF_SESSION_AND_RUN + _of_providers(EVERY_EP.refused)
    # The names of keyword arguments, such as session_options, are scopes, too.
    other_name = scope.removesuffix("_config").removesuffix("_options")
    name = provider_named(scope, presence.kinds()) or other_name
    found = [table for table in tables if table.scope == name]
    if found:
        return found
    if name in presence.kinds():  # a plugin EP without a table
        return [_Table(name, name, name, NO_OPTIONS)]

    search = f"To search all tables, use --search {shlex.quote(scope)}"
    expected = f"Expected session, run or an EP{similar_provider(scope)}"
    raise MistakeError(f"unknown scope {scope!a}. {search}. {expected}")


def _of_providers(of_every: Mapping[str, Refused]) -> list[_Table]:
    """Return the table of each EP, with the refused options that all EPs share."""
    tables = []
    for name, kinds in PROVIDERS.items():
        for kind, reviewed in kinds.items():
            table = _Table(name, f"{name} ({kind})", name, reviewed, of_every)
            tables.append(table)
    return tables


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
        effect = " (otherwise no effect)" if need.only_warns else ""
        found.append(f"{need.what}{effect}")
    return found


def _sentences(entry: dict) -> list[str]:
    if not entry["permitted"]:
        return [f"{entry['hazard']}: {entry['reason']}"]

    default = entry["default"] or "empty"
    sentences = [entry["effect"], f"{entry['accepts']} (default: {default})"]
    if entry["requires"]:
        sentences.append(f"requires {'; and '.join(entry['requires'])}")
    return sentences


def show(result: dict, page: Page) -> None:
    listed = result["listed"]
    others = "permitted" if listed == "refused" else "refused"
    if not result["scope"] and not result["search"] and listed == "permitted":
        _show_numbers(result, others, page)
        return

    is_empty = True
    count = 0
    for table in result["tables"]:
        count += table["others"]
        if table["entries"]:
            is_empty = False
            _show_table(table, listed, page)
    if is_empty and result["search"]:
        page.add(f"No {listed} option matches {result['search']!a}.")
    elif is_empty:
        page.add(f"No {listed} option.")
    if count:
        use = "without" if others == "permitted" else "use"
        page.add(f"Other matches: {count} {others} ({use} --refused)")


def _show_numbers(result: dict, others: str, page: Page) -> None:
    rows = [("", result["listed"], others)]
    for table in result["tables"]:
        count = len(table["entries"])
        rows.append((table["title"], str(count), str(table["others"])))
    page.table(rows)
    page.add()
    page.add("To list the options of a table, add its scope, such as: options session, options CUDA --refused")


def _show_table(table: dict, listed: str, page: Page) -> None:
    keyword = "provider_options of " if table["provider"] else ""
    page.add(f"{keyword}{table['title']}: {listed}")
    for entry in table["entries"]:
        page.add(entry["name"], 2)
        for sentence in _sentences(entry):
            page.add(sentence, 6)
    page.add()
