# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the ``report`` command: the EPs of the tests of each configuration, compared by name."""

from __future__ import annotations

import html
import json
import re
import unittest

from backend_test_command_line import CPU, CommandTest

AZURE, OTHER, SECOND = "AzureExecutionProvider", "OtherExecutionProvider", "SecondExecutionProvider"


def model(*providers: str, **operators: dict[str, int]) -> dict:
    short = {"cpu": CPU, "other": OTHER, "second": SECOND}
    return {"providers": providers, "operators": {short[ep]: counts for ep, counts in operators.items()}}


def line(test: str, *models: dict, outcome: str = "passed", reason: str = "") -> str:
    rest = {"models": models, "onnxruntime": "1.2.3", "backend": "0.7", "onnx": "4.5.6"}
    return json.dumps({"test": test, "outcome": outcome, "reason": reason, **rest})


def rows_of(page: str) -> dict[tuple[str, ...], list[str]]:
    """Return the class of each cell of each table row, by the row's texts."""
    rows = [
        re.findall(r'<t[hd](?: class="(\w*)")?>(?:<div>)?(.*?)(?:</div>)?</t[hd]>', row)
        for row in re.findall("<tr>.*?</tr>", page)
    ]
    return {tuple(html.unescape(text) for _, text in row): [kind for kind, _ in row] for row in rows}


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
        page = path.read_text(encoding="utf-8")
        rows = rows_of(page)
        for row, classes in (
            (("Number of tests", "first", "x=y", "board"), ["", "", ""]),
            (("onnxruntime", "1.2.3", "1.2.3", "?"), ["", "", ""]),
            (("backend", "0.7", "0.7", "?"), ["", "", ""]),
            (("mixed: passed, some nodes on the CPU EP", "1", "0", "0"), ["mixed", "", ""]),
            (("failed: did not pass", "1", "0", "1"), ["failed", "", "failed"]),
            (("Operator", "first", "x=y", "board"), ["", "", ""]),
            (("Conv", "Other 3", "", ""), ["ep", "", ""]),
            (("Relu", "CPU 2", "CPU 1", ""), ["cpu", "cpu", ""]),
            (("Test", "first", "x=y", "board"), ["", "", ""]),
            (("T::a", "cpu: CPU 1", "cpu: CPU 1", "failed"), ["cpu", "cpu", "failed"]),
            (("T::b", "mixed: Other 3, CPU 1", "", ""), ["mixed", "", ""]),
            (("T::c", "failed: <script>alert(1)</script> & more", "", "unknown"), ["failed", "", "unknown"]),
        ):
            self.assertEqual(rows[row][1:], classes)
        self.assertEqual(page.count("<script"), 1)
        self.assertNotRegex(page, r"\b(src|href|style|onclick)=|<(link|img|iframe|object)|url\(|@import")

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
