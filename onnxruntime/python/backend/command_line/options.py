# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend options``: what may be set, to which values, and what is refused."""

from __future__ import annotations

import argparse

from onnxruntime.backend.allowlist.refusals import Refused
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.command_line.shared import PROGRAM, Page, tables


def add_to(commands: argparse._SubParsersAction, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser.

    :param commands: the parser's commands.
    :param shared: a parser of the options that all commands have.
    """
    parser = commands.add_parser(
        "options", parents=[shared], help="what may be set, to which values, and what is refused",
        description="What may be set, to which values, with its default and its effect.",
        usage="%(prog)s [SCOPE] ...",
    )  # fmt: skip
    parser.add_argument(
        "scope", nargs="?", metavar="SCOPE",
        help="whose options: session, run or an EP; without it, how many there are of each",
    )  # fmt: skip
    parser.add_argument("--refused", action="store_true", help="what is refused instead, with the reason")
    parser.add_argument("--search", metavar="TEXT", default="", help="only those whose name or description holds TEXT")
    parser.set_defaults(command=command, tell=tell, parser=parser)


def command(chosen: argparse.Namespace) -> tuple[dict[str, object], int]:
    """Run the command.

    :return: the result and the exit status.
    """
    text = chosen.search.lower()
    found = []
    for title, provider, rules in tables(chosen.scope):
        described = [_described(name, rule) for name, rule in sorted(rules.items())]
        matching = [entry for entry in described if text in " ".join(_sentences(entry, entry["name"])).lower()]
        found.append({"title": title, "provider": provider, "entries": matching})
    result = {
        "scope": chosen.scope,
        "search": chosen.search,
        # What a person asked to see; a program gets all and chooses by "permitted".
        "shown": "refused" if chosen.refused else "permitted",
        "tables": found,
    }
    return result, 0


def _described(name: str, rule: Rule | Refused) -> dict[str, object]:
    if not isinstance(rule, Rule):
        return {"name": name, "permitted": False, "hazard": rule.hazard, "reason": rule.reason}
    needs = [need.what for need in rule.needs]
    if rule.since > (1, 24):
        needs.insert(0, "ORT {}.{}".format(*rule.since))
    return {
        "name": name,
        "permitted": True,
        "effect": rule.effect,
        "accepts": rule.kind.accepts,
        "default": rule.default,
        "needs": needs,
    }


def _sentences(entry: dict, *before: str) -> list[str]:
    """What a person wants to know of an entry."""
    if not entry["permitted"]:
        return [*before, f"{entry['hazard']}: {entry['reason']}"]
    told = [*before, entry["effect"], f"{entry['accepts']}; default {entry['default'] or 'empty'}"]
    return [*told, f"needs {'; and '.join(entry['needs'])}"] if entry["needs"] else told


def tell(result: dict, page: Page) -> None:
    """Write the result for a person."""
    if not result["scope"] and not result["search"] and result["shown"] == "permitted":
        _tell_overview(result["tables"], page)
        return
    shown = missed = 0
    for table in result["tables"]:
        wanted = [entry for entry in table["entries"] if entry["permitted"] == (result["shown"] == "permitted")]
        missed += len(table["entries"]) - len(wanted)
        if not wanted:
            continue
        if shown:
            page.line()
        page.line(f"{_of(table)}{table['title']}: {result['shown']}")
        shown += len(wanted)
        for entry in wanted:
            page.line(f"  {entry['name']}")
            for sentence in _sentences(entry):
                page.paragraph(sentence, " " * 6)
    if not shown:
        what = f"holds {result['search']!a}" if result["search"] else "is there"
        page.line(f"Nothing {result['shown']} {what}.")
    if missed:
        other = "refused (see --refused)" if result["shown"] == "permitted" else "permitted (without --refused)"
        page.line()
        page.line(f"Further matches: {missed} {other}.")


def _of(table: dict) -> str:
    return "provider_options of " if table["provider"] else ""


def _tell_overview(found: list[dict], page: Page) -> None:
    page.line(f"{'':40} permitted  refused")
    bare = []
    for table in found:
        permitted = sum(entry["permitted"] for entry in table["entries"])
        if permitted:
            page.line(f"{table['title']:40} {permitted:9} {len(table['entries']) - permitted:8}")
        else:
            bare.append(table["title"])
    page.line()
    page.line("EPs without a permitted option, to be named alone")
    page.paragraph(", ".join(bare), "  ")
    page.line()
    page.line(f"Next: {PROGRAM} options session")
    page.line(f"      {PROGRAM} options CUDA --refused")
    page.line(f"      {PROGRAM} options --search thread")
