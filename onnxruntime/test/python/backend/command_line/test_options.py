# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``options`` command: permitted and refused options."""

import unittest
from types import SimpleNamespace

import _above
from helpers.command_line import PREPACKING, SPINNING, WRITES, CommandTest
from helpers.models import two_nodes

from onnxruntime.backend import NotPermittedError, prepare
from onnxruntime.backend.allowlist import attributes, run_config, session_config
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.tables import EVERY_EP, PROVIDERS
from onnxruntime.backend.allowlist.value_kinds import Flag
from onnxruntime.backend.command_line import options, output

SESSION_CONFIG = session_config.SESSION_CONFIG | session_config.SESSION_CONFIG.refused


class OptionsTest(CommandTest):
    def names(self, *arguments: str) -> list[str]:
        found = self.json("options", *arguments)
        return [entry["name"] for table in found["tables"] for entry in table["entries"]]

    def test_layout(self):
        rule = {"name": "a", "permitted": True, "effect": "E.", "accepts": "0 or 1", "default": "", "requires": []}
        entries = [
            rule,
            rule
            | {"name": "b", "default": "1", "requires": ["x", *(f"{name} (otherwise no effect)" for name in "yz")]},
        ]
        tables = [{"title": "t", "provider": "P", "entries": entries}, {"title": "u", "provider": "", "entries": []}]
        for listed, use in (("permitted", "add"), ("refused", "omit")):
            lines = [
                f"provider_options of t: {listed}",
                "a  E. Values: 0 or 1 (default: empty).",
                "b  E. Values: 0 or 1 (default: 1). Requires x; y, z (otherwise no effect).",
                "",
                f"2 {listed} options. For the others, {use} --refused",
            ]
            shown = output.text(options.tables({"listed": listed, "tables": tables}), 80, colors=False)
            self.assertEqual(shown.splitlines(), lines)

    def test_every_entry_of_every_scope(self):
        session = [session_config.SESSION_CONFIG, attributes.SESSION_ATTRIBUTES]
        run = [run_config.RUN_CONFIG, attributes.RUN_ATTRIBUTES]
        scopes = {ep: [*kinds.values(), EVERY_EP] for ep, kinds in PROVIDERS.items()}
        of_eps = [table for kinds in PROVIDERS.values() for table in kinds.values()]
        scopes |= {"session": session, "run": run, "": [*session, *run, *of_eps, EVERY_EP]}
        for scope, tables in scopes.items():
            for words, listed in ([scope], "permitted"), ([scope, "--refused"], "refused"):
                found = self.json("options", *words)
                self.assertEqual(found["listed"], listed)
                for one, table in zip(found["tables"], tables, strict=True):
                    rules = table.refused if listed == "refused" else table
                    with self.subTest(words, title=one["title"]):
                        for rule in table.values():  # the text ends with the conditions without which it has no effect
                            self.assertEqual([*rule.needs], sorted(rule.needs, key=lambda need: need.only_warns))
                        entries = [options._described(name, rules[name]) for name in sorted(rules)]
                        self.assertEqual(one["entries"], entries)

    def test_names_of_scopes(self):
        scopes = {"CUDA": "CUDAExecutionProvider", "cudaexecutionprovider": "CUDA"}
        for name, other in (scopes | {"session_config": "session", "run_config": "run"}).items():
            self.assertEqual(self.show("options", name), self.show("options", other))
        for name in ("CDUA", "\x1b[2J"):
            self.assertIn(f"--search {name!a}", self.mistake("options", name))
        for keyword in ("session_options", "session_config", "run_config"):
            with self.subTest(keyword), self.assertRaises(NotPermittedError) as caught:
                prepare(two_nodes(), **{keyword: {"zzqq": 1}})
            self.assertTrue(self.names(caught.exception.reason.rpartition("options ")[2].rstrip("`")))

    def test_conditions(self):
        needs = (SimpleNamespace(what="x", only_warns=False), SimpleNamespace(what="y", only_warns=True))
        rule = Rule(Flag(), "", "", since=(1, 25), until=(1, 27), needs=needs)
        expected = ["ORT 1.25", "ORT before 1.27", "x", "y (otherwise no effect)"]
        self.assertEqual(options.conditions(rule), expected)

    def test_search(self):
        self.assertIn(SPINNING, self.names("--search", "SPINNING"))
        self.assertIn(SPINNING, self.names("--search", SESSION_CONFIG[SPINNING].effect.upper()))
        self.assertIn(WRITES, self.names("--refused", "--search", SESSION_CONFIG[WRITES].reason.upper()))
        self.assertNotIn(PREPACKING, self.names("--search", "SPINNING"))


if __name__ == "__main__":
    unittest.main()
