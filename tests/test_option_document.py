# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The documents of all options say what the tables say."""

from __future__ import annotations

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools" / "python"))

import backend_option_document as document

from onnxruntime.backend.allowlist import refusals


class TestDocuments(unittest.TestCase):
    def test_they_are_current(self):
        for name, text in document.documents().items():
            written = (document.FOLDER / name).read_text(encoding="utf-8")
            self.assertEqual(text, written, "write them again: python tools/python/backend_option_document.py")

    def test_every_rule_has_its_row(self):
        tables = [document.SESSION_ATTRIBUTES, document.RUN_ATTRIBUTES, document.SESSION_CONFIG, document.RUN_CONFIG]
        tables.append(refusals.EVERY_PROVIDER)
        tables += [rules for provider in document.PROVIDERS.values() for rules in provider.values()]
        text = "\n".join(document.documents().values())
        for rules in tables:
            for name, rule in rules.items():
                verdict = re.escape(document._text(getattr(rule, "effect", "") or rule.reason))
                self.assertRegex(text, rf"(?m)^\| `{re.escape(name)}` \|.*{verdict}")
        rows = re.findall(r"(?m)^\| `[^`]*` \|", text)
        self.assertEqual(len(rows), sum(map(len, tables)) + 3)  # and three beginnings of keys

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
                self.assertLess(len(line), 700, "too wide to read")

    def test_links_lead_somewhere(self):
        texts = document.documents()
        for name, text in texts.items():
            for file, anchor in re.findall(r"\]\(([a-z-]+\.md)?(?:#([^)]+))?\)", text):
                headings = re.findall(r"(?m)^#+ (.*)$", texts[file or name])
                self.assertIn(anchor, ["", *map(document._anchor, headings)])


if __name__ == "__main__":
    unittest.main()
