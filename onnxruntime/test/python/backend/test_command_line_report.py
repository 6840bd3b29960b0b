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
from unittest import mock

import onnx.backend.test
from helpers.command_line import CPU, CommandTest, Ran

from onnxruntime.backend.command_line import report

AZURE, OTHER, SECOND = (
    "AzureExecutionProvider",
    "OtherExecutionProvider",
    "SecondExecutionProvider",
)


def model(*providers: str, **operators: dict[str, int]) -> dict:
    short = {"cpu": CPU, "other": OTHER, "second": SECOND}
    return {
        "providers": providers,
        "operators": {short[ep]: counts for ep, counts in operators.items()},
    }


def line(test: str, *models: dict, outcome: str = "passed", reason: str = "", operators: str = "") -> str:
    rest = {"models": models, "onnxruntime": "1.2.3", "backend": "0.7", "onnx": "4.5.6"}
    counts = dict.fromkeys(operators.split(), 1)
    return json.dumps({"test": test, "outcome": outcome, "reason": reason, "operators": counts, **rest})


def rows_of(page: str) -> dict[tuple[str, ...], list[str]]:
    """Return the class of each cell of each table row, by the row's texts."""
    rows = [
        re.findall(r'<t[hd](?: class="([\w ]*)")?>(?:<div>)?(.*?)(?:</div>)?</t[hd]>', row)
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
            (
                "mixed",
                line(
                    "a",
                    model(OTHER, CPU, other={"Relu": 2}),
                    only_cpu | {"operators": {CPU: {"Neg": 1}}},
                ),
            ),
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
            (
                "cpu",
                line("a", outcome="failed") + "\n" + line("a", only_cpu),
            ),  # the last run counts
        ):
            with self.subTest(line_of_test):
                found = json.loads(self.show("report", self.put("of.jsonl", line_of_test + "\n"), "--json"))
                (configuration,) = found["configurations"]
                self.assertEqual({key for key, count in configuration.items() if count == 1}, {result})
                self.assertEqual(configuration["onnxruntime"], "1.2.3")
                self.assertEqual(found["tests"]["a"]["of"]["result"], result)
                self.assertEqual("Relu" in found["operators"], result in ("ep", "mixed"))

    def test_many_tests_that_fail_for_one_reason(self) -> None:
        version = "The model has IR version 14"
        for reasons, expected in (
            (
                [version] * 54 + ["Fail: x"] * 10 + [str(n) for n in range(11)],
                f"54 of 75 .*: {version}",
            ),
            ([version] * 3, f"3 of 3 .*: {version}"),
            ([version * 99] * 3, f"3 of 3 .*: ({version})+The"),
            ([version] * 2, ""),  # too few
            ([version] * 3 + [str(n) for n in range(10)], ""),
            ([""] * 9, ""),
        ):
            lines = [line(f"T::{n}", outcome="failed", reason=reason) for n, reason in enumerate(reasons)]
            lines += [line(f"T::skipped_{n}", outcome="skipped", reason=version) for n in range(99)]
            page = " ".join(self.show("report", self.put("of.jsonl", "\n".join(lines))).split())
            with self.subTest(reasons[0][:30], failed=len(reasons)):
                self.assertEqual("for one reason" in page, bool(expected))
                self.assertRegex(page, expected or "^")
                self.assertLess(len(page), 1200)

    def files(self) -> list[str]:
        """Two reports and a report of the scoreboard, whose tests differ in number and order."""
        first = [
            line("T::b", model(OTHER, CPU, other={"Conv": 3}, cpu={"Relu": 1})),
            line("T::a", model(OTHER, CPU, other={}, cpu={"Relu": 1})),
            line("T::c", outcome="failed", reason="<script>alert(1)</script> & more | x"),
        ]
        second = [line("T::a", model(CPU, cpu={"Relu": 1}))]
        paths = (
            self.put("first.jsonl", "\n".join(first)),
            self.put("second.jsonl", "\n".join(second)),
        )
        board = {"date": "today", "passed": ["T::c"], "failed": ["T::a"], "skipped": []}
        return [
            str(paths[0]),
            f"x=y={paths[1]}",
            f"board={self.put('report.json', json.dumps(board))}",
        ]

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
        absent = "not in this report"
        for row, classes in (
            (("Number of tests", "first", "x=y", "board"), ["", "", ""]),
            (("onnxruntime", "1.2.3", "1.2.3", "?"), ["", "", ""]),
            (("backend", "0.7", "0.7", "?"), ["", "", ""]),
            (
                ("mixed: passed, some nodes on the CPU EP", "1", "0", "0"),
                ["passed mixed", "", ""],
            ),
            (("failed: did not pass", "1", "0", "1"), ["failed", "", "failed"]),
            (("failed: wrong values", "0", "0", "0"), ["", "", ""]),
            (("failed: error", "1", "0", "1"), ["failed error", "", "failed error"]),
            (("Operator", "first", "x=y", "board"), ["", "", ""]),
            (("Test", "first", "x=y", "board"), ["", "", ""]),
            (
                ("T::a", "cpu: CPU 1", "cpu: CPU 1", "failed, error"),
                ["passed cpu", "passed cpu", "failed error"],
            ),
            (("T::b", "mixed: Other 3, CPU 1", absent, absent), ["passed mixed", "", ""]),
            (
                (
                    "T::c",
                    "failed, error: <script>alert(1)</script> & more | x",
                    absent,
                    "unknown",
                ),
                ["failed error", "", "passed unknown"],
            ),
        ):
            self.assertEqual(rows[row][1:], classes)
        self.assertEqual(page.count("<script"), 1)
        self.assertNotRegex(page, r"\b(src|href|style|onclick)=|<(link|img|iframe|object)|url\(|@import")

    def test_operators(self) -> None:
        """The tests of an operator are those whose models contain it, in any report, or in which ORT created it."""
        on_other = model(OTHER, CPU, other={"Relu": 3})
        first = [
            line("a", on_other, operators="Relu"),
            line("b", model(OTHER, CPU, cpu={"Relu": 1}), operators="Relu"),
            line("c", outcome="failed", operators="Relu Attention"),
            line("d", model(OTHER, CPU, other={"Softmax": 2}), operators="Attention"),
            line(
                "e",
                model(OTHER, CPU, other={"Softmax": 2}),
                outcome="failed",
                operators="Softmax",
            ),
            line("f", outcome="skipped", operators="Neg"),
            line("g", outcome="failed", operators="Conv"),
            line("h", model(OTHER), operators="Abs"),
        ]
        second = [
            line("d", model(CPU, cpu={"Attention": 1})),
            line("h", model(OTHER, CPU, cpu={})),
        ]
        paths = [
            self.put("first.jsonl", "\n".join(first)),
            self.put("second.jsonl", "\n".join(second)),
        ]
        page = self.folder / "page.html"
        found = json.loads(self.show("report", *paths, "--html", page, "--json"))
        rows = rows_of(page.read_text(encoding="utf-8"))
        percent = "\N{NO-BREAK SPACE}%"
        none, unknown = "none: ORT replaced the operator", "unknown"
        for row, classes in (
            (
                (
                    "Abs",
                    f"{unknown}; 1 passed, 0 failed (100{percent})",
                    f"{none}; 1 passed, 0 failed (100{percent})",
                ),
                ["passed unknown", "passed none"],
            ),
            (
                (
                    "Attention",
                    f"{none}; 1 passed, 1 failed (50{percent})",
                    f"CPU 1; 1 passed, 0 failed (100{percent})",
                ),
                ["failed none", "passed cpu"],
            ),
            (("Conv", f"0 passed, 1 failed (0{percent})", "no test"), ["failed error", ""]),
            (("Neg", "1 skipped", "no test"), ["skipped", ""]),
            (
                ("Relu", f"Other 3, CPU 1; 2 passed, 1 failed (66{percent})", "no test"),
                ["failed mixed", ""],
            ),
            (
                ("Softmax", f"Other 2; 1 passed, 1 failed (50{percent})", "no test"),
                ["failed ep", ""],
            ),
        ):
            with self.subTest(row[0]):
                self.assertEqual(rows[row][1:], classes)
        self.assertEqual(found["operators"]["Relu"], {"first": {OTHER: 3, CPU: 1}})
        self.assertEqual(found["operator_tests"]["Relu"], {"first": {"ep": 1, "cpu": 1, "failed": 1}})
        self.assertNotIn("operators", found["tests"]["a"]["first"])

    def test_tests_of_other_devices_are_no_rows(self) -> None:
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
        ]
        lines.append(line("b_cuda", outcome="skipped", reason="Skipped: no locale"))
        found = json.loads(self.show("report", self.put("of.jsonl", "\n".join(lines)), "--json"))
        self.assertEqual(list(found["tests"]), ["a_cpu", "b_cuda"])
        self.assertEqual(found["configurations"][0]["skipped"], 1)

    def test_kinds_of_failures(self) -> None:
        lines = []
        for test, reason in (
            ("values", "AssertionError: Not equal to tolerance"),
            ("kernel", "NotImplemented: Could not find an implementation for X(1)"),
            ("kernel2", "Fatal error: com.example:X(-1) is not a registered function/op"),
            ("error", "RuntimeError: NotImplemented: X"),
        ):
            lines.append(line(test, outcome="failed", reason=reason))
        page = self.folder / "page.html"
        path = self.put("of.jsonl", "\n".join(lines))
        found = json.loads(self.show("report", path, "--json", "--html", page))["tests"]
        kinds = {test: by_name["of"]["failure"] for test, by_name in found.items()}
        self.assertEqual(
            kinds,
            {"error": "error", "kernel": "kernel", "kernel2": "kernel", "values": "values"},
        )
        rows = rows_of(page.read_text(encoding="utf-8"))
        classes = {row[0]: classes[1] for row, classes in rows.items() if row[0] in kinds}
        self.assertEqual(classes, {test: f"failed {kind}" for test, kind in kinds.items()})

    def test_csv_and_markdown(self) -> None:
        paths = self.folder / "t.csv", self.folder / "t.md"
        self.show("report", *self.files(), "--csv", paths[0], "--markdown", paths[1])
        with paths[0].open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 6)
        first = {
            "test": "T::b",
            "configuration": "first",
            "result": "mixed",
            "failure": "",
            "reason": "",
        }
        self.assertIn(first | {"nodes": "Other 3, CPU 1"}, rows)
        failed = {
            "test": "T::c",
            "configuration": "first",
            "result": "failed",
            "failure": "error",
            "nodes": "",
        }
        self.assertIn(failed | {"reason": "<script>alert(1)</script> & more | x"}, rows)

        lines = paths[1].read_text(encoding="utf-8").splitlines()
        self.assertEqual(
            lines[:3],
            ["| Number of tests | first | x=y | board |", "|---|---|---|---|", lines[2]],
        )
        reason = "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more \\| x"
        self.assertIn(f"| T::c | failed, error: {reason} | not in this report | unknown |", lines)
        self.assertTrue(any(line.startswith("| T::a |") for line in lines))
        self.assertFalse(any(line.startswith("| T::b |") for line in lines))  # failed nowhere
        self.assertTrue(any(line.startswith("| Relu | CPU 2; ") for line in lines))

    def test_texts_that_act_on_a_program(self) -> None:
        """A lone surrogate has no UTF-8, a terminal obeys control characters, and a spreadsheet computes formulas."""
        formulas = ["=HYPERLINK(1)", "+1", "-1", "@x"]
        reason = "\ud800 \x1b[31m \x07 \N{RIGHT-TO-LEFT OVERRIDE}"
        lines = [line(test, outcome="failed", reason=reason) for test in formulas]
        lines.append(line("test", outcome="skipped", reason="=1"))
        path = self.put("of.jsonl", "\n".join(lines))
        for flag in ("--csv", "--html", "--markdown"):
            with self.subTest(flag):
                file = self.folder / "file"
                self.show("report", f"@\ud800={path}", flag, file)
                text = file.read_text(encoding="utf-8")
                self.assertIn(r"\ud800 \x1b[31m \x07 \u202e", text)
                self.assertTrue(text.translate({ord("\n"): None, 0xA0: None}).isprintable())
                if flag == "--csv":
                    rows = list(csv.DictReader(text.splitlines()))
                    found = [(row["test"], row["configuration"], row["reason"][:2]) for row in rows]
                    expected = [(f"'{test}", r"'@\ud800", r"\u") for test in sorted(formulas)]
                    self.assertEqual(found, [*expected, ("test", r"'@\ud800", "'=")])
        self.assertNotIn("\x1b", self.show("report", path))

    def test_an_interrupt_prints_the_reports_that_were_read(self) -> None:
        first, second = (
            self.put(f"{name}.jsonl", line("t", model(CPU, cpu={"Abs": 1}))) for name in ("first", "second")
        )
        page = self.folder / "page.html"
        for complete in (1, 0):
            results = [*[report._read(str(first))] * complete, KeyboardInterrupt]
            with (
                self.subTest(complete=complete),
                mock.patch.object(report, "_read", side_effect=results),
            ):
                done = Ran("report", first, second, "--html", page)
                self.assertEqual(
                    (done.status, "first" in done.out, page.exists()),
                    (130, bool(complete), bool(complete)),
                )
                self.assertIn("error: interrupted", done.err)
            page.unlink(missing_ok=True)

    def test_mistakes(self) -> None:
        good = line("a", model(CPU))
        for content in (
            "x",
            "[1]",
            "{}",
            good[:40],
            json.dumps(json.loads(good) | {"models": [1]}),
            "1",
        ):
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
