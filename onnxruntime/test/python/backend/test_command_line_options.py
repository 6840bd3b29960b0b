# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``options`` command: permitted and refused options."""

from __future__ import annotations

import itertools
import unittest
from types import SimpleNamespace

from helpers.command_line import PREPACKING, SPINNING, WRITES, CommandTest

from onnxruntime.backend.allowlist import attributes, run_config, session_config
from onnxruntime.backend.allowlist.providers import EVERY_EP, PROVIDERS
from onnxruntime.backend.allowlist.rules import Refused, Rule, Table
from onnxruntime.backend.allowlist.value_kinds import Flag
from onnxruntime.backend.command_line import options, output


def reviewed(table: Table) -> dict[str, Rule | Refused]:
    return {**table.refused, **table}


SESSION_CONFIG = reviewed(session_config.SESSION_CONFIG)


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
        found = self.json("options", "session", "--search", "spinning")
        self.assertEqual(found["tables"][0]["title"], "session_config")
        (entry,) = [entry for entry in found["tables"][0]["entries"] if entry["name"] == SPINNING]
        rule = SESSION_CONFIG[SPINNING]
        expected = {"name": SPINNING, "permitted": True, "effect": rule.effect, "accepts": rule.kind.accepts}
        self.assertEqual(entry, expected | {"default": rule.default, "requires": options.conditions(rule)})
        found = self.json("options", "session", "--refused", "--search", WRITES)
        table = found.pop("tables")[0]
        self.assertEqual(found, {"scope": "session", "search": WRITES, "listed": "refused"})
        refused = SESSION_CONFIG[WRITES]
        expected = {"name": WRITES, "permitted": False, "hazard": refused.hazard, "reason": refused.reason}
        self.assertEqual(table, {"title": "session_config", "provider": "", "entries": [expected], "others": 0})

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
        """An EP's scope also has the refusals that all EPs share."""
        of_session = reviewed(attributes.SESSION_ATTRIBUTES)
        session = [("session_config", "", SESSION_CONFIG), ("keyword arguments of prepare", "", of_session)]
        of_run = reviewed(attributes.RUN_ATTRIBUTES)
        run = [("run_config", "", reviewed(run_config.RUN_CONFIG))]
        run += [("keyword arguments of run", "", of_run)]
        eps = [
            (f"{name} ({kind})", name, reviewed(table))
            for name, kinds in PROVIDERS.items()
            for kind, table in kinds.items()
        ]
        scopes = {None: [*session, *run, ("every EP", "", EVERY_EP.refused), *eps], "session": session, "run": run}
        for title, ep, rules in eps:
            scopes.setdefault(ep, []).append((title, ep, EVERY_EP.refused | rules))
        for (scope, tables), flags in itertools.product(scopes.items(), ([], ["--refused"])):
            words = ["options", *filter(None, [scope]), *flags]
            found = self.json(*words)["tables"]
            for table, (title, ep, rules) in zip(found, tables, strict=True):
                with self.subTest(words, title=title):
                    names = [name for name, rule in sorted(rules.items()) if (type(rule) is Rule) is not bool(flags)]
                    self.assertEqual([entry["name"] for entry in table.pop("entries")], names)
                    self.assertEqual(table, {"title": title, "provider": ep, "others": len(rules) - len(names)})

    def test_names_of_an_ep(self):
        expected = self.show("options", "CUDAExecutionProvider")
        for name in ("CUDA", "cuda", "cudaexecutionprovider"):
            self.assertEqual(self.show("options", name), expected)
        for name in ("CDUA", "x", "\x1b[2J"):
            self.assertIn(ascii(name), self.mistake("options", name))

    def test_releases(self):
        rule = Rule(Flag(), "", "")
        self.assertEqual(options.conditions(rule), [])
        later = rule._replace(since=(1, 25), until=(1, 27))
        self.assertEqual(options.conditions(later), ["ORT 1.25", "ORT before 1.27"])
        needs = (SimpleNamespace(what="x", only_warns=False), SimpleNamespace(what="y", only_warns=True))
        self.assertEqual(options.conditions(rule._replace(needs=needs)), ["x", "y (otherwise no effect)"])

    def test_search(self):
        self.assertIn(SPINNING, self.names("--search", "SPINNING"))
        self.assertIn(SPINNING, self.names("--search", SESSION_CONFIG[SPINNING].effect.upper()))
        self.assertIn(WRITES, self.names("--refused", "--search", SESSION_CONFIG[WRITES].reason.upper()))
        self.assertNotIn(PREPACKING, self.names("--search", "SPINNING"))
        self.assertIn("match: 1 (with --refused)", self.show("options", "session", "--search", "memory_stats"))


if __name__ == "__main__":
    unittest.main()
