# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the ``report`` command: the EPs of the tests of each configuration, compared by name."""

from __future__ import annotations

import csv
import html
import json
import re
import unittest
from pathlib import Path
from unittest import mock

import onnx.backend.test
from helpers.command_line import CPU, CommandTest, Ran

from onnxruntime.backend.command_line import report

AZURE = "AzureExecutionProvider"
OTHER = "OtherExecutionProvider"
SECOND = "SecondExecutionProvider"
KINDS = ("ep", "mixed", "cpu", "none", "unknown", "failed", "skipped")
BAD_REASON = "<script>alert(1)</script> & more | x"


def model(*providers: str, **operators: dict[str, int]) -> dict:
    """Return a model of a test: the EPs of its session, and the operators on each EP."""
    of_eps = {}
    for name, ep in (("cpu", CPU), ("other", OTHER), ("second", SECOND)):
        if name in operators:
            of_eps[ep] = operators[name]
    return {"providers": providers, "operators": of_eps}


def on_cpu(**operators: int) -> dict:
    return model(CPU, cpu=operators)


def on_other(of_other: dict[str, int], of_cpu: dict[str, int] | None = None) -> dict:
    return model(OTHER, CPU, other=of_other, cpu=of_cpu or {})


def line(test: str, *models: dict, outcome: str = "passed", reason: str = "", operators: str = "") -> str:
    """Return the line of a test in a report."""
    fields = {
        "test": test,
        "outcome": outcome,
        "reason": reason,
        "operators": dict.fromkeys(operators.split(), 1),
        "models": models,
        "onnxruntime": "1.2.3",
        "backend": "0.7",
        "onnx": "4.5.6",
    }
    return json.dumps(fields)


def rows_of(page: str) -> dict[tuple[str, ...], list[str]]:
    """Return the class of each cell of each table row, by the row's texts."""
    found = {}
    for row in re.findall("<tr>.*?</tr>", page):
        cells = re.findall(r'<t[hd](?: class="([\w ]*)")?>(?:<div>)?(.*?)(?:</div>)?</t[hd]>', row)
        classes, texts = zip(*cells, strict=True)
        found[tuple(map(html.unescape, texts))] = list(classes)
    return found


class ReportTest(CommandTest):
    def test_results(self):
        only_cpu, other = model(CPU, AZURE), model(OTHER, CPU)
        relu, neg = {"Relu": 2}, {"Neg": 1}
        for result, line_of_test in (
            ("ep", line("a", on_other(relu))),
            ("ep", line("a", model(OTHER, other=relu, second={"Conv": 1}))),
            ("mixed", line("a", on_other(relu, neg))),
            ("mixed", line("a", model(OTHER, CPU, other=relu), model(CPU, AZURE, cpu=neg))),
            ("cpu", line("a", on_other({}, neg))),
            ("none", line("a", on_other({}))),
            ("unknown", line("a", other)),
            ("unknown", line("a", other, on_cpu(Neg=1))),
            ("unknown", line("a")),
            ("failed", line("a", model(OTHER, other=relu), outcome="failed")),
            ("skipped", line("a", outcome="skipped")),
            # The last run counts.
            ("cpu", line("a", outcome="failed") + "\n" + line("a", only_cpu)),
        ):
            with self.subTest(line_of_test):
                found = self.json("report", self.put("of.jsonl", line_of_test + "\n"))
                (configuration,) = found["configurations"]
                for kind in KINDS:
                    self.assertEqual(configuration[kind], int(kind == result), kind)
                self.assertEqual(configuration["onnxruntime"], "1.2.3")
                self.assertEqual(found["tests"]["a"]["of"]["result"], result)
                self.assertEqual("Relu" in found["operators"], result in ("ep", "mixed"))

    def test_many_tests_that_fail_for_one_reason(self):
        version = "The model has IR version 14"
        for reasons, expected in (
            ([version] * 54 + ["Fail: x"] * 10 + list("0123456789a"), f"54 of 75 .*: {version}"),
            ([version] * 3, f"3 of 3 .*: {version}"),
            ([version * 99] * 3, f"3 of 3 .*: ({version})+The"),
            ([version] * 2, ""),  # too few
            ([version] * 3 + list("0123456789"), ""),
            ([""] * 9, ""),
        ):
            lines = []
            for number, reason in enumerate(reasons):
                lines.append(line(f"T::{number}", outcome="failed", reason=reason))
            for number in range(99):
                lines.append(line(f"T::skipped_{number}", outcome="skipped", reason=version))
            page = " ".join(self.show("report", self.report("of", lines)).split())
            with self.subTest(reasons[0][:30], failed=len(reasons)):
                self.assertEqual("for one reason" in page, bool(expected))
                self.assertRegex(page, expected or "^")
                self.assertLess(len(page), 1200)

    def report(self, name: str, lines: list[str]) -> Path:
        return self.put(f"{name}.jsonl", "\n".join(lines))

    def files(self) -> list[object]:
        """Two reports and a report of the scoreboard, whose tests differ in number and order."""
        first = [
            line("T::b", on_other({"Conv": 3}, {"Relu": 1})),
            line("T::a", on_other({}, {"Relu": 1})),
            line("T::c", outcome="failed", reason=BAD_REASON),
        ]
        second = [line("T::a", on_cpu(Relu=1))]
        board = {"date": "today", "passed": ["T::c"], "failed": ["T::a"], "skipped": []}
        return [
            self.report("first", first),
            f"x=y={self.report('second', second)}",
            f"board={self.put('report.json', json.dumps(board))}",
        ]

    def test_text(self):
        page = self.show("report", *self.files()).splitlines()
        for row, expected in zip(
            page,
            (
                "ep mixed cpu none unknown failed skipped",
                "first 0 1 1 0 0 1 0",
                "x=y 0 0 1 0 0 0 0",
                "board 0 0 0 0 1 1 0",
            ),
            strict=False,
        ):
            self.assertEqual(row.split(), expected.split())
        self.assertEqual(page[-1], "first: operators on the CPU EP alone: Relu")

    def test_a_page_compares_by_name(self):
        path = self.folder / "page.html"
        self.show("report", *self.files(), "--html", path)
        page = path.read_text(encoding="utf-8")
        rows = rows_of(page)
        absent = "not in this report"
        for row, classes in (
            (("Number of tests", "first", "x=y", "board"), ["", "", ""]),
            (("onnxruntime", "1.2.3", "1.2.3", "?"), ["", "", ""]),
            (("backend", "0.7", "0.7", "?"), ["", "", ""]),
            (("mixed: passed, some nodes on the CPU EP", "1", "0", "0"), ["passed mixed", "", ""]),
            (("failed: did not pass", "1", "0", "1"), ["failed", "", "failed"]),
            (("failed: wrong values", "0", "0", "0"), ["", "", ""]),
            (("failed: error", "1", "0", "1"), ["failed error", "", "failed error"]),
            (("Operator", "first", "x=y", "board"), ["", "", ""]),
            (("Test", "first", "x=y", "board"), ["", "", ""]),
            (("T::a", "cpu: CPU 1", "cpu: CPU 1", "failed, error"), ["passed cpu", "passed cpu", "failed error"]),
            (("T::b", "mixed: Other 3, CPU 1", absent, absent), ["passed mixed", "", ""]),
            (("T::c", f"failed, error: {BAD_REASON}", absent, "unknown"), ["failed error", "", "passed unknown"]),
        ):
            self.assertEqual(rows[row][1:], classes)
        self.assertEqual(page.count("<script"), 1)
        self.assertNotRegex(page, r"\b(src|href|style|onclick)=|<(link|img|iframe|object)|url\(|@import")

    def test_operators(self):
        """The tests of an operator are those whose models contain it, in any report, or in which ORT created it."""
        first = [
            line("a", model(OTHER, CPU, other={"Relu": 3}), operators="Relu"),
            line("b", model(OTHER, CPU, cpu={"Relu": 1}), operators="Relu"),
            line("c", outcome="failed", operators="Relu Attention"),
            line("d", model(OTHER, CPU, other={"Softmax": 2}), operators="Attention"),
            line("e", model(OTHER, CPU, other={"Softmax": 2}), outcome="failed", operators="Softmax"),
            line("f", outcome="skipped", operators="Neg"),
            line("g", outcome="failed", operators="Conv"),
            line("h", model(OTHER), operators="Abs"),
        ]
        second = [line("d", on_cpu(Attention=1)), line("h", model(OTHER, CPU, cpu={}))]
        paths = [self.report("first", first), self.report("second", second)]
        page = self.folder / "page.html"
        found = self.json("report", *paths, "--html", page)
        rows = rows_of(page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}%", "%"))
        replaced = "none: ORT replaced the operator; 1 passed,"
        for row, classes in (
            (
                ("Abs", "unknown; 1 passed, 0 failed (100%)", f"{replaced} 0 failed (100%)"),
                ["passed unknown", "passed none"],
            ),
            (
                ("Attention", f"{replaced} 1 failed (50%)", "CPU 1; 1 passed, 0 failed (100%)"),
                ["failed none", "passed cpu"],
            ),
            (("Conv", "0 passed, 1 failed (0%)", "no test"), ["failed error", ""]),
            (("Neg", "1 skipped", "no test"), ["skipped", ""]),
            (("Relu", "Other 3, CPU 1; 2 passed, 1 failed (66%)", "no test"), ["failed mixed", ""]),
            (("Softmax", "Other 2; 1 passed, 1 failed (50%)", "no test"), ["failed ep", ""]),
        ):
            with self.subTest(row[0]):
                self.assertEqual(rows[row][1:], classes)
        self.assertEqual(found["operators"]["Relu"], {"first": {OTHER: 3, CPU: 1}})
        self.assertEqual(found["operator_tests"]["Relu"], {"first": {"ep": 1, "cpu": 1, "failed": 1}})
        self.assertNotIn("operators", found["tests"]["a"]["first"])

    def test_tests_of_other_devices_are_no_rows(self):
        """The reason is that of onnx's runner. A test that is skipped for another reason is a row."""
        backend = mock.Mock(supports_device=lambda device: device == "CPU")
        # ONNX would compute the models and outputs of all its node tests.
        with mock.patch.object(onnx.backend.test.loader, "load_node_model_tests", return_value=[]):
            runner = onnx.backend.test.BackendTest(backend, __name__)
        tests = runner.test_cases["OnnxBackendSimpleModelTest"]
        skipped = tests.test_expand_shape_model1_cuda.__unittest_skip_why__
        lines = [
            line("a_cpu", model(CPU, cpu={"Relu": 1})),
            line("a_cuda", outcome="skipped", reason=f"Skipped: {skipped}"),
            line("b_cuda", outcome="skipped", reason="Skipped: no locale"),
        ]
        found = self.json("report", self.report("of", lines))
        self.assertEqual(list(found["tests"]), ["a_cpu", "b_cuda"])
        self.assertEqual(found["configurations"][0]["skipped"], 1)

    def test_kinds_of_failures(self):
        page = self.folder / "page.html"
        for kind, reason in (
            ("values", "AssertionError: Not equal to tolerance"),
            ("kernel", "NotImplemented: Could not find an implementation for X(1)"),
            ("kernel", "Fatal error: com.example:X(-1) is not a registered function/op"),
            ("error", "RuntimeError: NotImplemented: X"),
        ):
            path = self.report("of", [line("t", outcome="failed", reason=reason)])
            found = self.json("report", path, "--html", page)
            self.assertEqual(found["tests"]["t"]["of"]["failure"], kind)
            self.assertIn(f'class="failed {kind}"', page.read_text(encoding="utf-8"))

    def test_csv_and_markdown(self):
        paths = self.folder / "t.csv", self.folder / "t.md"
        self.show("report", *self.files(), "--csv", paths[0], "--markdown", paths[1])
        with paths[0].open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 6)
        passed = {
            "test": "T::b",
            "configuration": "first",
            "result": "mixed",
            "failure": "",
            "reason": "",
            "nodes": "Other 3, CPU 1",
        }
        self.assertIn(passed, rows)
        failed = {"test": "T::c", "result": "failed", "failure": "error", "reason": BAD_REASON, "nodes": ""}
        self.assertIn(passed | failed, rows)

        lines = paths[1].read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines[:2], ["| Number of tests | first | x=y | board |", "|---|---|---|---|"])
        reason = "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more \\| x"
        self.assertIn(f"| T::c | failed, error: {reason} | not in this report | unknown |", lines)
        text = "\n".join(lines)
        self.assertIn("\n| T::a |", text)
        self.assertNotIn("\n| T::b |", text)  # failed nowhere
        self.assertIn("\n| Relu | CPU 2; ", text)

    def test_texts_that_act_on_a_program(self):
        """A lone surrogate has no UTF-8, a terminal obeys control characters, and a spreadsheet computes formulas."""
        formulas = ["=HYPERLINK(1)", "+1", "-1", "@x"]
        reason = "\ud800 \x1b[31m \x07 \N{RIGHT-TO-LEFT OVERRIDE}"
        lines = [line(test, outcome="failed", reason=reason) for test in formulas]
        lines.append(line("test", outcome="skipped", reason="=1"))
        path = self.report("of", lines)
        for flag in ("--csv", "--html", "--markdown"):
            with self.subTest(flag):
                file = self.folder / "file"
                self.show("report", f"@\ud800={path}", flag, file)
                text = file.read_text(encoding="utf-8")
                self.assertIn(r"\ud800 \x1b[31m \x07 \u202e", text)
                self.assertTrue(text.translate({ord("\n"): None, 0xA0: None}).isprintable())
                if flag == "--csv":
                    *rows, last = csv.DictReader(text.splitlines())
                    self.assertEqual((last["test"], last["reason"]), ("test", "'=1"))
                    for row, test in zip(rows, sorted(formulas), strict=True):
                        self.assertEqual((row["test"], row["configuration"]), (f"'{test}", r"'@\ud800"))
        self.assertNotIn("\x1b", self.show("report", path))

    def test_an_interrupt_prints_the_reports_that_were_read(self):
        lines = [line("t", on_cpu(Abs=1))]
        first, second = self.report("first", lines), self.report("second", lines)
        page = self.folder / "page.html"
        for complete in (1, 0):
            results = [report._read(str(first))] * complete + [KeyboardInterrupt]
            with self.subTest(complete=complete), mock.patch.object(report, "_read", side_effect=results):
                done = Ran("report", first, second, "--html", page)
                self.assertEqual(done.status, 130)
                self.assertEqual("first" in done.out, complete)
                self.assertEqual(page.exists(), complete)
                self.assertIn("error: interrupted", done.err)
            page.unlink(missing_ok=True)

    def test_mistakes(self):
        good = line("a", model(CPU))
        odd_models = json.dumps(json.loads(good) | {"models": [1]})
        for content in ("x", "[1]", "{}", "1", good[:40], odd_models):
            with self.subTest(content):
                self.assertIn("bad.jsonl", self.mistake("report", self.put("bad.jsonl", content)))
        for content in ("x", "[]", "{}", '{"passed": 1}'):
            with self.subTest(content):
                self.assertIn("report.json", self.mistake("report", self.put("report.json", content)))
        path = self.put("a.jsonl", good)
        self.assertIn("NAME=FILE", self.mistake("report", path, path))
        self.assertIn("none.jsonl", self.mistake("report", "none.jsonl"))
        for flag in ("--html", "--csv", "--markdown"):
            self.assertIn("none", self.mistake("report", path, flag, self.folder / "none" / "page"))


if __name__ == "__main__":
    unittest.main()
