# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tool that breaks the backend on purpose finds what there is to break, and changes nothing else."""

from __future__ import annotations

import ast
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools" / "python"))

import backend_mutants  # its folder is on the path only now

SOURCE = '''"""A module."""
MOST = 3

def look(value: int = 1, *, other: "str | None" = None) -> list:
    """Ä docstring."""
    kept = []
    if not value:
        raise ValueError(f"{value + 1}")
    for one in [x for x in range(2) if x > value and
                x != other]:
        kept.append(one)
    return kept
'''


class MutantsTest(unittest.TestCase):
    def test_every_kind(self) -> None:
        found = [(one.line, one.change) for one in backend_mutants.mutants("look", SOURCE)]
        self.assertEqual(
            sorted(found),
            [
                (2, "3 becomes 4"),
                (4, "1 becomes 2"),
                (6, "value dropped"),
                (7, "not negated"),
                (8, "statement dropped"),
                (9, "2 becomes 3"),
                (9, "> becomes >="),
                (9, "and becomes or"),
                (9, "condition negated"),
                (10, "!= becomes =="),
                (11, "statement dropped"),
                (12, "statement dropped"),
            ],
        )

    def test_each_is_one_change_on_the_lines_it_names(self) -> None:
        name = "runs/limits"
        source = (backend_mutants.BACKEND / f"{name}.py").read_text(encoding="utf-8")
        lines, meaning = source.splitlines(), ast.dump(ast.parse(source))
        for one in backend_mutants.mutants(name, source):
            with self.subTest(str(one)):
                changed = one.applied(source)
                self.assertNotEqual(ast.dump(ast.parse(changed)), meaning)
                self.assertEqual(len(changed.splitlines()), len(lines))
                self.assertEqual(changed.splitlines()[: one.line - 1], lines[: one.line - 1])
                self.assertEqual(one.place, lines[one.line - 1].strip())

    def test_modules_of_every_folder_and_no_table(self) -> None:
        found = set(backend_mutants.modules())
        folders = {path.name for path in backend_mutants.BACKEND.iterdir() if (path / "__init__.py").exists()}
        self.assertEqual({name.partition("/")[0] for name in found if "/" in name}, folders)
        self.assertEqual([name for name in found if name.endswith("__init__")], [])
        self.assertTrue((backend_mutants.BACKEND / backend_mutants.SUGGESTIONS).with_suffix(".py").exists())
        for table in backend_mutants.TABLES:
            with self.subTest(table):
                path = backend_mutants.BACKEND / table
                self.assertTrue(path.is_dir() or path.with_suffix(".py").exists())
                self.assertEqual([name for name in found - {backend_mutants.SUGGESTIONS} if name.startswith(table)], [])


if __name__ == "__main__":
    unittest.main()
