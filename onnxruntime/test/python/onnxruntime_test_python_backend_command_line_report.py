# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the ``report`` command: the EPs of the tests of each configuration, compared by name."""

from __future__ import annotations

import json
import unittest
from html.parser import HTMLParser

from backend_test_command_line import CPU, CommandTest

AZURE, OTHER, SECOND = "AzureExecutionProvider", "OtherExecutionProvider", "SecondExecutionProvider"


def model(*providers: str, **operators: dict[str, int]) -> dict:
    short = {"cpu": CPU, "other": OTHER, "second": SECOND}
    return {"providers": providers, "operators": {short[ep]: counts for ep, counts in operators.items()}}


def line(test: str, *models: dict, outcome: str = "passed", reason: str = "") -> str:
    rest = {"models": models, "onnxruntime": "1.2.3", "onnx": "4.5.6"}
    return json.dumps({"test": test, "outcome": outcome, "reason": reason, **rest})


class Page(HTMLParser):
    """The cells of each table row with their classes, and everything that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows, self.classes, self.loads, self.tags, self.in_cell = [], [], [], set(), False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.tags.add(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href", "style", "onclick")]
        if tag == "tr":
            self.rows.append([])
            self.classes.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.classes[-1] += [value for name, value in attributes if name == "class"]
        self.in_cell = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self.in_cell = False

    def handle_data(self, data: str) -> None:
        if self.in_cell:
            self.rows[-1][-1] += data


class ReportTest(CommandTest):
    def test_results(self) -> None:
        only_cpu, other = model(CPU, AZURE), model(OTHER, CPU)
        for result, line_of_test in (
            ("ep", line("a", model(OTHER, CPU, other={"Relu": 2}, cpu={}))),
            ("ep", line("a", model(OTHER, other={"Relu": 2}, second={"Conv": 1}))),
            ("mixed", line("a", model(OTHER, CPU, other={"Relu": 2}, cpu={"Neg": 1}))),
            ("mixed", line("a", model(OTHER, CPU, other={"Relu": 2}), only_cpu | {"operators": {CPU: {"Neg": 1}}})),
            ("cpu", line("a", model(OTHER, CPU, other={}, cpu={"Neg": 1}))),
            ("cpu", line("a", only_cpu)),
            ("none", line("a", model(OTHER, CPU, other={}, cpu={}))),
            ("unknown", line("a", other)),
            ("unknown", line("a", other, only_cpu)),
            ("unknown", line("a", other, model(CPU, cpu={"Neg": 1}))),
            ("mixed", line("a", only_cpu, model(OTHER, CPU, other={"Relu": 2}))),
            ("unknown", line("a")),
            ("failed", line("a", model(OTHER, other={"Relu": 2}), outcome="failed")),
            ("skipped", line("a", outcome="skipped")),
            ("cpu", line("a", outcome="failed") + "\n" + line("a", only_cpu)),  # the last run counts
        ):
            with self.subTest(line_of_test):
                found = json.loads(self.show("report", self.put("of.jsonl", line_of_test + "\n"), "--json"))
                (configuration,) = found["configurations"]
                self.assertEqual({key for key, count in configuration.items() if count == 1}, {result})
                self.assertEqual(configuration["onnxruntime"], "1.2.3")
                self.assertEqual(found["tests"]["a"]["of"]["result"], result)
                self.assertEqual("Relu" in found["operators"], result in ("ep", "mixed"))

    def files(self) -> list[str]:
        """Two reports and a report of the scoreboard, whose tests differ in number and order."""
        first = [
            line("T::b", model(OTHER, CPU, other={"Conv": 3}, cpu={"Relu": 1})),
            line("T::a", model(OTHER, CPU, other={}, cpu={"Relu": 1})),
            line("T::c", outcome="failed", reason="<script>alert(1)</script> & more"),
        ]
        second = [line("T::a", model(CPU, cpu={"Relu": 1}))]
        paths = self.put("first.jsonl", "\n".join(first)), self.put("second.jsonl", "\n".join(second))
        board = {"date": "today", "passed": ["T::c"], "failed": ["T::a"], "skipped": []}
        return [str(paths[0]), f"x=y={paths[1]}", f"board={self.put('report.json', json.dumps(board))}"]

    def test_text(self) -> None:
        page = self.show("report", *self.files()).splitlines()
        self.assertEqual(
            [row.split() for row in page[:4]],
            [
                ["ep", "mixed", "cpu", "none", "unknown", "failed", "skipped"],
                ["first", "0", "1", "1", "0", "0", "1", "0"],
                ["x=y", "0", "0", "1", "0", "0", "0", "0"],
                ["board", "0", "0", "0", "0", "1", "1", "0"],
            ],
        )
        self.assertEqual(page[-1], "first: operators on the CPU EP alone: Relu")

    def test_a_page_compares_by_name(self) -> None:
        path = self.folder / "page.html"
        self.show("report", *self.files(), "--html", path)
        page = Page(path.read_text(encoding="utf-8"))
        for row in (
            ["Number of tests", "first", "x=y", "board"],
            ["onnxruntime", "1.2.3", "1.2.3", "?"],
            ["mixed: passed, some nodes on the CPU EP", "1", "0", "0"],
            ["failed: did not pass", "1", "0", "1"],
            ["Operator", "first", "x=y", "board"],
            ["Conv", "Other 3", "", ""],
            ["Relu", "CPU 2", "CPU 1", ""],
            ["Test", "first", "x=y", "board"],
            ["T::a", "cpu: CPU 1", "cpu: CPU 1", "failed"],
            ["T::b", "mixed: Other 3, CPU 1", "", ""],
            ["T::c", "failed: <script>alert(1)</script> & more", "", "unknown"],
        ):
            self.assertIn(row, page.rows)
        classes = dict(zip(map(tuple, page.rows), page.classes, strict=True))
        for row, expected in (
            (("onnxruntime", "1.2.3", "1.2.3", "?"), ["", "", ""]),
            (("mixed: passed, some nodes on the CPU EP", "1", "0", "0"), ["mixed", "", ""]),
            (("Conv", "Other 3", "", ""), ["ep", "", ""]),
            (("T::a", "cpu: CPU 1", "cpu: CPU 1", "failed"), ["cpu", "cpu", "failed"]),
        ):
            self.assertEqual(classes[row], expected)
        self.assertEqual(page.loads, [])
        self.assertTrue(page.tags.isdisjoint({"link", "img", "iframe", "object"}))

    def test_mistakes(self) -> None:
        good = line("a", model(CPU))
        for content in ("x", "[1]", "{}", good[:40], json.dumps(json.loads(good) | {"models": [1]}), "1"):
            with self.subTest(content):
                self.assertIn("bad.jsonl", self.mistake("report", self.put("bad.jsonl", content)))
        for content in ("x", "[]", "{}", '{"passed": 1}'):
            with self.subTest(content):
                self.assertIn("report.json", self.mistake("report", self.put("report.json", content)))
        path = self.put("a.jsonl", good)
        self.assertIn("NAME=FILE", self.mistake("report", path, path))
        self.assertIn("none.jsonl", self.mistake("report", "none.jsonl"))
        self.assertIn("none", self.mistake("report", path, "--html", self.folder / "none" / "page.html"))


if __name__ == "__main__":
    unittest.main()
