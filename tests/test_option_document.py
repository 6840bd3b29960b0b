# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The reference contains every entry of the tables, and its rows can be read and linked to."""

from __future__ import annotations

import re
import unittest

import _paths  # noqa: F401
import backend_option_document as document
from backend_option_evidence import OF_CLASS, OF_PERMITTED, OF_REFUSED, OPTIONS, REFUSED_KEYS, REFUSED_OPTIONS

from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.refusals import Refused


class TestDocuments(unittest.TestCase):
    def tables(self) -> list[tuple[str, str, document.Rules]]:
        """The file, the prefix of anchors, and the entries of each table."""
        found = []
        for prefix, rules in document._sections().values():
            found.append(("options.md", prefix, rules))
        for _, prefix, rules in document._tables():
            found.append(("provider-options.md", prefix, rules))
        return found

    def test_they_are_current(self):
        for name, text in document.documents().items():
            written = (document.FOLDER / name).read_text(encoding="utf-8")
            self.assertTrue(text == written, f"docs/{name} is not current. Run: make document")

    def test_every_entry_has_one_row_and_one_anchor(self):
        texts = document.documents()
        entries = 0
        for file, prefix, rules in self.tables():
            entries += len(rules)
            for name, rule in rules.items():
                with self.subTest(f"{file}#{prefix}{name}"):
                    (row,) = re.findall(rf'(?m)^\| <a id="{re.escape(prefix + name)}"></a>.*$', texts[file])
                    self.assertIn(f"</a>`{name}` |", row)
                    text = document._text(getattr(rule, "effect", "") or rule.reason)
                    self.assertTrue(text in row or ("see below" in row and text in texts[file]), row)
        rows = "".join(texts.values()).count("<a id=")
        self.assertEqual(rows, entries)
        self.assertGreater(rows, 500)

    def test_conditions_are_listed(self):
        for file, prefix, rules in self.tables():
            text = document.documents()[file]
            for name, rule in rules.items():
                for need in getattr(rule, "needs", ()):
                    self.assertIn(document._condition(need), text, f"{prefix}{name}")

    def test_names_of_settings_are_not_capitalized(self):
        text = "".join(document.documents().values())
        words = set(re.findall(r"[\w.]+", text))
        names = set()
        for _, _, rules in self.tables():
            names.update(rules)
        for name in names:
            capitalized = name[0].upper() + name[1:]
            if re.search("[a-z][A-Z]|_", name) and capitalized not in names:
                self.assertNotIn(capitalized, words)

    def test_each_entry_has_its_own_evidence(self):
        """Evidence of harm never counts for a permitted entry, which leaves no name in both."""
        tables = {}
        for title, (_, rules) in document._sections().items():
            tables[title] = rules
        tables.update((title, rules) for title, _, rules in document._tables())
        for verdict, evidence in ((Rule, OF_PERMITTED), (Refused, OF_REFUSED)):
            entries = {title: set(names) for title, names in evidence.items()}
            for title, rules in tables.items():
                names = {name for name, rule in rules.items() if type(rule) is verdict}
                if title in OF_CLASS:
                    continue
                with self.subTest(title, verdict=verdict.__name__):
                    if title.endswith("config"):
                        self.assertLessEqual(names, entries[title])
                        entries[title] -= names
                    else:
                        self.assertEqual(entries.pop(title, set()), names)
            unused = entries.pop("Session config") & entries.pop("Run config")
            self.assertEqual((unused, entries), (set(), {}))
        for names in (REFUSED_KEYS, *OPTIONS.values(), *REFUSED_OPTIONS.values()):
            listed = " ".join(names.values()).split()
            self.assertEqual(len(listed), len(set(listed)))

    def test_tables_are_well_formed(self):
        for text in document.documents().values():
            columns = 0
            for line in text.splitlines():
                if not line.startswith("|"):
                    columns = 0
                    continue
                cells = len(re.findall(r"(?<!\\)\|", line)) - 1
                columns = columns or cells
                self.assertEqual(cells, columns, line)
                self.assertLessEqual(len(line), document.LONGEST_ROW)


if __name__ == "__main__":
    unittest.main()
