# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``options`` command: permitted and refused options."""

from __future__ import annotations

import unittest
from types import SimpleNamespace

from helpers.command_line import PREPACKING, SPINNING, WRITES, CommandTest

from onnxruntime.backend.allowlist import attributes, run_config, session_config
from onnxruntime.backend.allowlist.providers import EVERY_EP, PROVIDERS
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.value_kinds import Flag
from onnxruntime.backend.command_line import options, output

SESSION_CONFIG = session_config.SESSION_CONFIG | session_config.SESSION_CONFIG.refused


class OptionsTest(CommandTest):
    def names(self, *arguments: str) -> list[str]:
        found = self.json("options", *arguments)
        return [entry["name"] for table in found["tables"] for entry in table["entries"]]

    def test_scopes_in_other_words(self):
        """The names of keyword arguments are scopes; an unknown scope gets the command that searches for it."""
        self.assertIn("intra_op_num_threads", self.show("options", "session_options"))
        self.assertIn("session_config: permitted\n", self.show("options", "session_config"))
        self.assertEqual(self.show("options", "run_config"), self.show("options", "run"))
        self.assertIn("--search spinning", self.mistake("options", "spinning"))

    def test_json(self):
        for flags, name, listed in (((), SPINNING, "permitted"), (("--refused",), WRITES, "refused")):
            found = self.json("options", "session", "--search", name, *flags)
            tables = found.pop("tables")
            self.assertEqual(found, {"scope": "session", "search": name, "listed": listed})
            self.assertEqual((tables[0]["title"], tables[0]["provider"]), ("session_config", ""))
            (entry,) = [entry for entry in tables[0]["entries"] if entry["name"] == name]
            self.assertEqual(entry, options._described(name, SESSION_CONFIG[name]))

    def test_layout(self):
        rule = {"name": "a", "permitted": True, "effect": "E.", "accepts": "0 or 1", "default": "", "requires": []}
        requires = ["x", "y (otherwise no effect)", "z (otherwise no effect)"]
        entries = [rule, rule | {"name": "b", "default": "1", "requires": requires}]
        tables = [{"title": "t", "provider": "P", "entries": entries, "others": 3}]
        tables += [{"title": "u", "provider": "", "entries": [], "others": 4}]
        for scope, search, listed, empty, use in (
            ("s", "", "permitted", ["u: permitted", "none", ""], "with"),
            ("s", "z", "permitted", [], "with"),
            (None, "", "refused", [], "without"),
        ):
            result = {"scope": scope, "search": search, "listed": listed, "tables": tables}
            lines = [
                f"provider_options of t: {listed}",
                "a  E. Values: 0 or 1 (default: empty).",
                "b  E. Values: 0 or 1 (default: 1). Requires x. No effect without y; z.",
                "",
                *empty,
                f"Other options that match: 7 ({use} --refused)",
            ]
            self.assertEqual(output.text(options.tables(result), 80, colors=False).splitlines(), lines)

    def test_every_entry_of_every_scope(self):
        session = [session_config.SESSION_CONFIG, attributes.SESSION_ATTRIBUTES]
        run = [run_config.RUN_CONFIG, attributes.RUN_ATTRIBUTES]
        scopes = {ep: [*kinds.values(), EVERY_EP] for ep, kinds in PROVIDERS.items()}
        of_eps = [table for kinds in PROVIDERS.values() for table in kinds.values()]
        scopes |= {"session": session, "run": run, None: [*session, *run, *of_eps, EVERY_EP]}
        for scope, tables in scopes.items():
            for flags in ([], ["--refused"]):
                found = self.json("options", *filter(None, [scope]), *flags)["tables"]
                for one, table in zip(found, tables, strict=True):
                    with self.subTest(scope, title=one["title"], flags=flags):
                        shown, others = (table.refused, table) if flags else (table, table.refused)
                        self.assertEqual([entry["name"] for entry in one["entries"]], sorted(shown))
                        self.assertEqual(one["others"], len(others))

    def test_names_of_an_ep(self):
        expected = self.show("options", "CUDAExecutionProvider")
        for name in ("CUDA", "cuda", "cudaexecutionprovider"):
            self.assertEqual(self.show("options", name), expected)
        for name in ("CDUA", "x", "\x1b[2J"):
            self.assertIn(ascii(name), self.mistake("options", name))

    def test_conditions(self):
        needs = (SimpleNamespace(what="x", only_warns=False), SimpleNamespace(what="y", only_warns=True))
        rule = Rule(Flag(), "", "", since=(1, 25), until=(1, 27), needs=needs)
        expected = ["ORT 1.25", "ORT before 1.27", "x", "y (otherwise no effect)"]
        self.assertEqual((options.conditions(rule), options.conditions(Rule(Flag(), "", ""))), (expected, []))

    def test_search(self):
        self.assertIn(SPINNING, self.names("--search", "SPINNING"))
        self.assertIn(SPINNING, self.names("--search", SESSION_CONFIG[SPINNING].effect.upper()))
        self.assertIn(WRITES, self.names("--refused", "--search", SESSION_CONFIG[WRITES].reason.upper()))
        self.assertNotIn(PREPACKING, self.names("--search", "SPINNING"))
        self.assertIn("match: 1 (with --refused)", self.show("options", "session", "--search", "memory_stats"))


if __name__ == "__main__":
    unittest.main()
