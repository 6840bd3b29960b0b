# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The report of conformance tests: results, operators, reasons of failures, and texts of other people."""

import contextlib
import csv
import importlib.util
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import _paths

HAS_PANDAS = importlib.util.find_spec("pandas") is not None
if HAS_PANDAS:
    import backend_report as report

CPU, OTHER, AZURE = "CPUExecutionProvider", "OtherExecutionProvider", "AzureExecutionProvider"
EVIL = "<script>alert(1)</script> \x1b[31m \ud800"


def line(
    test: str, *models: tuple[list[str], dict], outcome: str = "passed", reason: str = "", operators: str = ""
) -> dict:
    """Return the line of a test. A model has the EPs of its session, and the operators on each EP."""
    versions = {"onnxruntime": "1.2.3", "backend": "0.7", "onnx": "4.5.6"}
    found = [{"providers": eps, "operators": of_eps, "unconfirmed": {}} for eps, of_eps in models]
    result = {"test": test, "outcome": outcome, "reason": reason, "models": found}
    return result | versions | {"operators": dict.fromkeys(operators.split(), 1)}


def failed(test: str, reason: str, operators: str = "") -> dict:
    return line(test, outcome="failed", reason=reason, operators=operators)


@unittest.skipUnless(HAS_PANDAS, "requires pandas")
class ReportTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def put(self, name: str, *lines: dict) -> Path:
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        return path

    def run_tool(self, *arguments: object, status: int = 0) -> str:
        """Run the program, and return what it prints: its result, or its error."""
        out, err = io.StringIO(), io.StringIO()
        argv = mock.patch.object(sys, "argv", ["report", *map(str, arguments)])
        with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                found = report.main()
            except SystemExit as left:
                found = left.code
        self.assertEqual(found, status, err.getvalue())
        return err.getvalue() if status else out.getvalue()

    def test_settings_outside_of_the_allowlist(self):
        vendor = line("a", ([OTHER, CPU], {OTHER: {"Relu": 1}}))
        vendor["models"][0]["unconfirmed"] = {
            OTHER: {"vtcm_mb": "8", "b": "trusted"},
            "session_config": {"a": "trusted"},
        }
        page = self.folder / "page.html"
        printed = self.run_tool(self.put("vendor", vendor), self.put("other", line("a")), "--html", page)
        expected = f"vendor: settings outside of the allowlist: {OTHER}.b, session_config.a"
        for text in (printed, page.read_text()):
            self.assertIn(expected, text)
            self.assertEqual(text.count("outside of"), 1)

    def test_the_result_of_a_test(self):
        relu, neg = {"Relu": 2}, {"Neg": 1}
        on_cpu, default = ([CPU], {CPU: neg}), ([AZURE, CPU], {})
        for kind, one in (
            ("ep", line("a", ([OTHER, CPU], {OTHER: relu, CPU: {}}))),
            ("mixed", line("a", ([OTHER, CPU], {OTHER: relu, CPU: neg}))),
            ("cpu", line("a", ([OTHER, CPU], {OTHER: {}, CPU: neg}))),
            ("cpu", line("a", default)),  # ORT has no record, and no other EP
            ("none", line("a", ([OTHER, CPU], {OTHER: {}, CPU: {}}))),
            ("unknown", line("a", ([OTHER, CPU], {}), on_cpu)),
            ("unknown", line("a")),
            ("values", failed("a", "AssertionError: Not equal to tolerance")),
            ("kernel", failed("a", "NotImplemented: Could not find an implementation for X(1)")),
            ("kernel", failed("a", "Fatal error: com.example:X(-1) is not a registered function/op")),
            ("error", failed("a", "RuntimeError: NotImplemented: X")),
            ("skipped", line("a", outcome="skipped", reason="no locale")),
        ):
            with self.subTest(one):
                self.assertEqual(report.kind_of(one), kind)

    def test_the_most_frequent_reasons(self):
        lines = [failed(f"{number}", f"reason {number % 7 % 6}") for number in range(70)]
        tests = report.read(str(self.put("of", *lines)))
        found = [*report.reasons(tests).itertuples(index=False, name=None)]
        self.assertEqual(found, [("of", 20, "reason 0"), *(("of", 10, f"reason {number}") for number in range(1, 5))])
        self.assertIn("of: 20 tests failed for one reason: reason 0\n", self.run_tool(self.folder / "of.jsonl"))

    def test_totals_and_operators(self):
        """An operator of a test on the CPU EP ran there: nothing is said of nodes that ORT has no record of."""
        path = self.put(
            "of",
            failed("a", "x"),
            line("a", ([CPU], {}), operators="Add Relu"),  # the last run counts
            line("b", ([OTHER, CPU], {OTHER: {"Add": 1}}), operators="Add"),
            line("c", ([OTHER, CPU], {OTHER: {"Add": 1}}), operators="Add"),
            failed("d", "AssertionError", operators="Add Conv"),
            line("e", outcome="skipped", operators="Neg"),
            line("f_cuda", outcome="skipped", reason="Skipped: Backend doesn't support device CUDA"),
        )
        tests = report.read(f"x=y={path}")
        totals = report.totals(tests).loc["x=y"]
        counts = dict.fromkeys(report.KINDS, 0) | {"ep": 2, "cpu": 1, "values": 1, "skipped": 1}
        self.assertEqual({kind: totals[kind] for kind in report.KINDS}, counts)
        self.assertEqual((totals["passed"], totals["onnxruntime"]), ("75.0%", "1.2.3"))
        found = report.of_operators(tests)["x=y"]
        self.assertEqual([*found.index], ["Add", "Conv", "Relu"])
        for operator, text in (
            ("Add", "ep: 3 of 4 tests passed"),
            ("Conv", "values: 0 of 1 tests passed"),
            ("Relu", "cpu: 1 of 1 tests passed"),
        ):
            self.assertIn(f">{text}</span>", found[operator])

    def test_files(self):
        first = self.put(
            "first", line("<b>a</b>", ([OTHER], {OTHER: {"A": 2, "B": 1}, CPU: {"C": 1}})), failed("=b", EVIL)
        )
        second = self.put("second", line("<b>a</b>", ([CPU], {}), operators="A"))
        page, table = self.folder / "page.html", self.folder / "table.csv"
        printed = self.run_tool(first, f"x={second}", "--html", page, "--csv", table)
        text = page.read_text(encoding="utf-8")
        for part in (
            "first: 50.0% passed",
            ">ep: 1 of",
            "&lt;b&gt;a&lt;/b&gt;",
            ">mixed: Other 3, CPU 1</span>",
            "&lt;script&gt;",
        ):
            self.assertEqual(part in text, part != ">ep: 1 of", part)
        for found in (text, printed, table.read_text(encoding="utf-8")):
            self.assertTrue(found.replace("\n", "").isprintable())
            self.assertIn(r"\ud800", found)
        rows = {(row["report"], row["test"]): row for row in csv.DictReader(table.open(encoding="utf-8", newline=""))}
        self.assertEqual([*rows], [("first", "<b>a</b>"), ("first", "'=b"), ("x", "<b>a</b>")])
        self.assertEqual(rows["x", "<b>a</b>"]["kind"], "cpu")

    def test_mistakes(self):
        good = self.put("good", line("a"))
        for content in ("x", "[1]", "{}", good.read_text()[:40]):
            path = self.folder / "bad.jsonl"
            path.write_text(content)
            with self.subTest(content):
                self.assertIn("bad.jsonl: not a report of the pytest plugin", self.run_tool(path, status=2))
        self.assertIn("NAME=FILE", self.run_tool(good, good, status=2))


if __name__ == "__main__":
    unittest.main()
