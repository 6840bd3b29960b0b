# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The benchmark judges steady figures only, and each row has the figure that its limit is for."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import report
from benchmarks.__main__ import SUBJECTS
from benchmarks.comparison import BACKEND, BY_HAND, OF_STOCK, RATIO, VALUE, Comparison, Figure, Row, figure

STEADY, UNSTEADY = Figure(1.1, 1.06, 1.16), Figure(1.1, 1.0, 1.12)
MACHINE = {"date": "2026-11-22", "CPU": "a CPU", "CPUs": "2", "system": "Linux", "Python": "3", "onnxruntime": "1+x"}


def row(limit: float | None, judged: str = RATIO, ratio: Figure | None = STEADY, **kwargs) -> Row:
    comparison = Comparison("work", dict, limit, judged, unit=kwargs.pop("unit", "s"))
    return Row(comparison, kwargs.pop("value", STEADY), ratio, kwargs.pop("stock", None), **kwargs)


class JudgingTest(unittest.TestCase):
    def test_figures(self) -> None:
        samples = {BACKEND: [2.0, 3.0, 4.0, 5.0, 6.0], BY_HAND: [2.0] * 5}
        self.assertEqual(figure(RATIO, samples), (2.0, 1.5, 2.5))
        self.assertEqual(figure(VALUE, samples), (4.0, 3.0, 5.0))
        self.assertEqual(figure(VALUE, {BACKEND: [7.0]}), (7.0, 7.0, 7.0))

    def test_which_rows_meet_their_limits(self) -> None:
        for one, met in (
            (row(1.1), True),
            (row(1.09), False),
            (row(None), None),
            (row(1.0, ratio=UNSTEADY), None),
            (row(1.0, busy="other processes used 1.0 CPUs"), None),
            (row(1.15, OF_STOCK, stock=Figure(1.0, 0.99, 1.01)), True),
            (row(1.05, OF_STOCK, stock=Figure(1.0, 0.99, 1.01)), False),
            (row(1.05, OF_STOCK, stock=UNSTEADY), None),
            (row(1.05, OF_STOCK), None),
            (row(1.0, stock=UNSTEADY), False),  # the stock backend's figure is not judged
            (row(4.0, VALUE, None, value=Figure(5.0, 1.0, 9.0), unit="B", busy="other processes"), False),
        ):
            with self.subTest(one):
                self.assertIs(one.met, met)

    @unittest.skipUnless(importlib.util.find_spec("magika"), "needs the models of magika")
    def test_every_row_has_the_figure_of_its_limit(self) -> None:
        names = []
        for subject in SUBJECTS:
            for comparison in importlib.import_module(f"benchmarks.{subject}").COMPARISONS:
                names.append(comparison.name)
                with self.subTest(comparison.name):
                    self.assertTrue(comparison.stock or comparison.judged != OF_STOCK)
        self.assertEqual(len(names), len(set(names)))


class ReportTest(unittest.TestCase):
    def test_the_document_keeps_its_text(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "benchmarks.md")
            other = f"{report._BEGIN.format(' of others')}kept\n{report._END.format(' of others')}"
            for name, is_kept in (("", True), ("", True), ("of others", False)):
                if not file.exists():
                    begin, end = report._BEGIN.format(""), report._END.format("")
                    file.write_text(f"before\n{begin}old\n{end}{other}after\n")
                rows = [row(1.15, OF_STOCK, stock=STEADY), row(1.0, ratio=UNSTEADY)]
                report.write_document(file, rows, MACHINE, name)
                self.assertEqual("kept" in file.read_text(), is_kept)
            lines = file.read_text().splitlines()
            self.assertEqual((lines[0], lines[-1]), ("before", "after"))
            self.assertIn("| work | 1.100 | 1.060 to 1.160 | 1.100 | 1.15 of stock | met |", lines)
            self.assertEqual(sum(line.startswith("| work | 1.100") for line in lines), 4)
            self.assertNotIn("old", lines)
            file.write_text("no table")
            with self.assertRaises(SystemExit):
                report.write_document(file, [], MACHINE)


if __name__ == "__main__":
    unittest.main()
