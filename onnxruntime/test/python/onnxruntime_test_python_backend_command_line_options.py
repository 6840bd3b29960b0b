# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``options`` command: permitted and refused options."""

from __future__ import annotations

import json
import unittest
from types import SimpleNamespace

from backend_test_command_line import CPU, PREPACKING, SPINNING, WRITES, CommandTest, page_of
from backend_test_processes import UNKNOWN, process_with

from onnxruntime.backend.allowlist import ort_options, refusals
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.value_kinds import Flag
from onnxruntime.backend.command_line import options

SESSION_CONFIG = ort_options.SESSION_CONFIG | refusals.SESSION_CONFIG
PROVIDERS = refusals.provider_tables()


class OptionsTest(CommandTest):
    def names(self, *arguments: str) -> list[str]:
        found = json.loads(self.show("options", *arguments, "--json"))
        return [entry["name"] for table in found["tables"] for entry in table["entries"]]

    def test_scopes_in_other_words(self) -> None:
        """The names of keyword arguments are scopes; an unknown scope gets the command that searches for it."""
        self.assertIn("intra_op_num_threads", self.show("options", "session_options"))
        self.assertIn("session_config: permitted\n", self.show("options", "session_config"))
        self.assertEqual(self.show("options", "run_config"), self.show("options", "run"))
        self.assertIn("--search spinning", self.mistake("options", "spinning"))

    def test_overview(self) -> None:
        permitted = sum(type(rule) is Rule for rule in SESSION_CONFIG.values())
        out = self.show("options")
        self.assertRegex(out, rf"\nsession_config +{permitted} +{len(SESSION_CONFIG) - permitted}\n")
        self.assertRegex(out, rf"\n{CPU} \(built-in\) +0 +0\n")
        self.assertRegex(out, r"\A +permitted +refused\n")

    def test_json(self) -> None:
        found = json.loads(self.show("options", "session", "--search", "spinning", "--json"))
        self.assertEqual(found["tables"][0]["title"], "session_config")
        (entry,) = [entry for entry in found["tables"][0]["entries"] if entry["name"] == SPINNING]
        rule = SESSION_CONFIG[SPINNING]
        expected = {"name": SPINNING, "permitted": True, "effect": rule.effect, "accepts": rule.kind.accepts}
        self.assertEqual(entry, expected | {"default": rule.default, "requires": options.conditions(rule)})
        found = json.loads(self.show("options", "session", "--refused", "--search", WRITES, "--json"))
        table = found.pop("tables")[0]
        self.assertEqual(found, {"scope": "session", "search": WRITES, "listed": "refused"})
        refused = SESSION_CONFIG[WRITES]
        expected = {"name": WRITES, "permitted": False, "hazard": refused.hazard, "reason": refused.reason}
        self.assertEqual(table, {"title": "session_config", "provider": "", "entries": [expected], "others": 0})

    def test_layout(self) -> None:
        rule = {"name": "a", "permitted": True, "effect": "E.", "accepts": "0 or 1", "default": "", "requires": []}
        entries = [rule, rule | {"name": "b", "default": "1", "requires": ["x", "y"]}]
        tables = [{"title": "t", "provider": "P", "entries": entries, "others": 3}]
        tables += [{"title": "u", "provider": "", "entries": entries[:1], "others": 4}]
        tables += [{"title": "v", "provider": "", "entries": [], "others": 5}]
        result = {"scope": "s", "search": "", "listed": "permitted", "tables": tables}
        first = ["  a", "      E.", "      0 or 1 (default: empty)"]
        second = ["  b", "      E.", "      0 or 1 (default: 1)", "      requires x; and y"]
        page = ["provider_options of t: permitted", *first, *second, "", "u: permitted", *first, ""]
        self.assertEqual(page_of(options, result), [*page, "Other matches: 12 refused (use --refused)"])
        self.assertEqual(page_of(options, result | {"scope": None, "search": "z"})[:-1], page)
        result |= {"tables": tables[2:], "listed": "refused"}
        others = "Other matches: 5 permitted (without --refused)"
        self.assertEqual(page_of(options, result), ["No refused option.", others])
        self.assertEqual(page_of(options, result | {"search": "z"}), ["No refused option matches 'z'.", others])
        self.assertEqual(page_of(options, result | {"search": "z", "tables": []}), ["No refused option matches 'z'."])
        overview = page_of(options, {"scope": None, "search": "", "listed": "permitted", "tables": tables})
        table = ["   permitted  refused", "t          2        3", "u          1        4", "v          0        5"]
        self.assertEqual(overview[:5], [*table, ""])
        self.assertEqual(overview[5].partition(":")[0], "To list the options of a table, add its scope, such as")

    def test_json_lists_what_the_page_lists(self) -> None:
        self.assertIn(PREPACKING, self.names("session"))
        self.assertNotIn(WRITES, self.names("session"))
        self.assertIn(WRITES, self.names("session", "--refused"))
        self.assertNotIn(PREPACKING, self.names("session", "--refused"))
        (table, _) = json.loads(self.show("options", "session", "--search", "memory_stats", "--json"))["tables"]
        self.assertEqual((table["entries"], table["others"]), ([], 1))

    def test_every_entry_of_every_scope(self) -> None:
        tables = {"session": [SESSION_CONFIG]}
        tables |= {name: list(provider.values()) for name, provider in PROVIDERS.items()}
        for scope, rules in tables.items():
            permitted, refused = self.show("options", scope), self.show("options", scope, "--refused")
            for name, rule in (entry for table in rules for entry in table.items()):
                with self.subTest(scope=scope, option=name):
                    shown = permitted if type(rule) is Rule else refused
                    described = " ".join(shown.partition(f"\n  {name}\n")[2].split())
                    expected = rule.effect if type(rule) is Rule else f"{rule.hazard}: {rule.reason}"
                    self.assertIn(" ".join(expected.split()), described)

    def test_keyword_arguments(self) -> None:
        self.assertIn("intra_op_num_threads", self.names("session"))
        self.assertIn("only_execute_path_to_fetches", self.names("run"))
        for scope, tables in (
            ("run", (refusals.RUN_CONFIG, refusals.RUN_ATTRIBUTES)),
            ("session", (refusals.SESSION_CONFIG, refusals.SESSION_ATTRIBUTES)),
        ):
            self.assertLessEqual({name for table in tables for name in table}, {*self.names(scope, "--refused")})

    def test_titles(self) -> None:
        session = ["session_config", "keyword arguments of prepare"]
        run = ["run_config", "keyword arguments of run"]
        eps = [(f"{name} ({kind})", name) for name, kinds in PROVIDERS.items() for kind in kinds]
        for scope, expected in (
            (["session"], [(title, "") for title in session]),
            (["run"], [(title, "") for title in run]),
            ([], [*((title, "") for title in session + run), *eps]),
        ):
            tables = json.loads(self.show("options", *scope, "--json"))["tables"]
            self.assertEqual(sorted((table["title"], table["provider"]) for table in tables), sorted(expected))

    def test_names_of_an_ep(self) -> None:
        expected = self.show("options", "CUDAExecutionProvider")
        for name in ("CUDA", "cuda", "cudaexecutionprovider"):
            self.assertEqual(self.show("options", name), expected)
        self.assertEqual(self.names("CPU"), [])
        self.assertEqual(self.names("CPU", "--refused"), sorted(refusals.EVERY_PROVIDER))
        for name in ("CDUA", "x", "\x1b[2J"):
            self.assertIn(ascii(name), self.mistake("options", name))

    def test_a_plugin_ep_without_a_table(self) -> None:
        with process_with(plugins=(UNKNOWN,)):
            tables = json.loads(self.show("options", "unheardof", "--json"))["tables"]
        self.assertEqual(tables, [{"title": UNKNOWN, "provider": UNKNOWN, "entries": [], "others": 0}])

    def test_releases(self) -> None:
        rule = Rule(Flag(), "", "")
        self.assertEqual(options.conditions(rule), [])
        later = rule._replace(since=(1, 25), until=(1, 27))
        self.assertEqual(options.conditions(later), ["ORT 1.25", "ORT before 1.27"])
        needs = tuple(
            SimpleNamespace(what=what, only_warns=only_warns) for what, only_warns in (("x", False), ("y", True))
        )
        self.assertEqual(options.conditions(rule._replace(needs=needs)), ["x", "y (otherwise no effect)"])

    def test_search(self) -> None:
        self.assertIn(SPINNING, self.names("--search", "SPINNING"))
        self.assertIn(SPINNING, self.names("--search", SESSION_CONFIG[SPINNING].effect.upper()))
        self.assertIn(WRITES, self.names("--refused", "--search", SESSION_CONFIG[WRITES].reason.upper()))
        self.assertNotIn(PREPACKING, self.names("--search", "SPINNING"))
        self.assertIn("--refused", self.show("options", "session", "--search", "memory_stats"))
        self.assertIn("'\\xe9'", self.show("options", "--search", "é"))


if __name__ == "__main__":
    unittest.main()
