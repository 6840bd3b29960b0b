# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The reference contains every permitted entry of the tables."""

import re
import unittest

import _paths
import backend_option_document as reference

from onnxruntime.backend.allowlist.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG


class TestReference(unittest.TestCase):
    def setUp(self):
        self.text = reference.document()

    def test_it_is_current(self):
        written = (reference.FOLDER / "options.md").read_text(encoding="utf-8")
        self.assertTrue(self.text == written, "docs/options.md is not current. Run: make document")

    def test_every_entry_has_one_line(self):
        tables = [SESSION_ATTRIBUTES, RUN_ATTRIBUTES, SESSION_CONFIG, RUN_CONFIG]
        tables += [table for _, table in reference.sections()]
        written = re.findall(r"(?m)(?:^- \*\*`.*\n(?:  - .*\n)?)+", self.text)
        for table, lines in zip(tables, written, strict=True):
            for name, rule in table.items():
                with self.subTest(name):
                    (line,) = re.findall(rf"(?m)^- \*\*`{re.escape(name)}`\*\*: .*$", lines)
                    for text in (reference._text(rule.effect), *reference.requirements(rule)):
                        self.assertIn(text, line)
            self.assertEqual(lines.count("- **`"), len(table))


if __name__ == "__main__":
    unittest.main()
