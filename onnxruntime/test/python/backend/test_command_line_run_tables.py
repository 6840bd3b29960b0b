# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The tables that the ``run`` command writes, its progress on a terminal, and its result after an interrupt."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
from helpers.command_line import CPU, PREPACKING, CommandTest, Ran

import onnxruntime
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import output, run, run_page, run_tables

try:
    import pty
except ImportError:  # on Windows
    pty = None


def ran(p50: float, **changed: object) -> dict:
    """A configuration in the result of ``run``."""
    return {
        "configuration": json.dumps({"session_config": {PREPACKING: "1"}}),
        "error": None,
        "providers": [{"name": CPU, "kind": "built-in"}],
        "provider_options": {CPU: {}},
        "unconfirmed": {},
        "session_options": {},
        "session_config": {PREPACKING: "1"},
        "run_config": {},
        "extensions": [],
        "warnings": [],
        "nodes": {CPU: 2},
        "operators_on_cpu": {},
        "outputs": [{"name": "<Y>", "type": "float32", "shape": [2, 3]}],
        "latency_ms": {"p50": p50, "p90": 2 * p50, "p99": 100 * p50, "runs": 7, "warm_up": 3, "ratio_to_first": p50},
    } | changed


def result_of(*configurations: dict, **changed: object) -> dict:
    result = {"model": "folder/<m>.onnx", "onnxruntime": "1.32.0", "backend": "1.1", "inputs": [], "tolerance": None}
    return result | {"interrupted": False, "configurations": list(configurations)} | changed


DIFFERS = {"within": False, "absolute": 1.0, "relative": 0.5, "note": "", "index": None}
FAILED = {"configuration": "{}", "error": {"message": "no | device"}}


class FormsTest(CommandTest):
    def test_the_options_write_files(self):
        words = [self.path, "--repeat", "2", "--compare"]
        for entries in ({}, {PREPACKING: "1"}):
            words += ["--config", json.dumps({"provider_options": {}, "session_config": entries})]
        for form in run.FORMS:
            words += [f"--{form}", self.folder / form]
        self.assertEqual(Ran("run", *words).status, 0)
        texts = {form: self.folder.joinpath(form).read_text(encoding="utf-8") for form in run.FORMS}
        for text in texts.values():
            for part in ("matches the CPU EP", PREPACKING, CPU, "CPU 2"):
                self.assertIn(part, text)
            self.assertNotIn("run_config", text)  # no configuration has one
        self.assertEqual(texts["html"].count("gradient"), 2)
        self.assertIn(onnxruntime.__version__, texts["html"])
        self.assertEqual(len(list(csv.reader(io.StringIO(texts["csv"])))), 3)

    def test_the_csv_file(self):
        different = ran(3.0, outputs=[ran(1.0)["outputs"][0] | {"difference": DIFFERS}])
        rows = list(csv.DictReader(io.StringIO(run_tables.csv_text(result_of(ran(1.0), different, FAILED)))))
        self.assertEqual([row["p50 ms"] for row in rows], ["1", "3", ""])
        self.assertEqual([row["ratio"] for row in rows], ["1.00", "3.00", ""])
        self.assertEqual([row["error"] for row in rows], ["", "", "no | device"])
        self.assertIn("DIFFERS from the CPU EP", rows[1]["output <Y>"])
        self.assertNotIn("DIFFERS", rows[0]["output <Y>"])

    def test_the_markdown_table(self):
        head, line, *rows = run_tables.markdown(result_of(ran(1.0), FAILED)).splitlines()
        self.assertEqual((head.count("|"), line.count("|")), (4, 4))
        self.assertIn(r"no \| device", "".join(rows))
        self.assertIn("| &lt;m&gt;.onnx |", head)
        self.assertIn("| result |", run_tables.markdown(result_of(ran(1.0))))

    def test_the_page(self):
        different = ran(3.0, outputs=[ran(1.0)["outputs"][0] | {"difference": DIFFERS}])
        page = run_page.html(result_of(ran(1.0), different, FAILED, interrupted=True))
        self.assertIn("<h1>&lt;m&gt;.onnx", page)
        self.assertNotRegex(page, r"<m>|<Y>|\b(src|href|url)\b")
        self.assertEqual(page.count('class="failed'), 3)  # the error, the output, and the result of all outputs
        self.assertIn("interrupted", page)
        self.assertEqual(page.count("</tbody></table></div>"), page.count("<table>"))
        self.assertNotIn("Inputs: ", page)
        inputs = [{"name": "X", "type": "float32", "shape": [2, 3]}]
        page = run_page.html(result_of(ran(1.0), inputs=inputs))
        self.assertIn("Inputs: X", page)
        self.assertNotIn("interrupted", page)

    def test_the_picture(self):
        page = run_page.html(result_of(ran(1.0), ran(4.0)))
        ends = [list(map(float, re.findall(r"([\d.]+)%", bar))) for bar in re.findall(r"linear-gradient\((.*)\)", page)]
        # The longest bar is half of the width, and slower runs do not shorten it.
        self.assertEqual(ends, [[6.2, 12.5, 100.0], [25.0, 50.0, 100.0]])
        self.assertNotIn("gradient", run_page.html(result_of(ran(1.0, latency_ms=None))))


class InterruptTest(CommandTest):
    def test_an_interrupt_prints_what_there_is(self):
        page = self.folder / "page.html"
        words = ["run", self.path, "--repeat", "1000", "--compare", "--save", self.folder / "y.npz", "--html", page]
        for calls, measured in ((3 + 5, 5), (2, 0)):
            with mock.patch.object(OnnxRuntimeBackendRep, "run", interrupted_run(calls)):
                done = Ran(*words)
            with self.subTest(calls):
                self.assertEqual(done.status, output.INTERRUPTED)
                self.assertIn("error: interrupted", done.err)
                self.assertEqual("p50 ms" in done.out, measured > 0)
                self.assertEqual(f"  {measured}\n" in done.out, measured > 0)
                self.assertEqual(page.exists(), measured > 0)
                self.assertNotIn("matches", done.out)
            page.unlink(missing_ok=True)

    def test_an_interrupt_among_several_configurations(self):
        with mock.patch.object(OnnxRuntimeBackendRep, "run", interrupted_run(3 * 2 + 1)):
            words = ["--compare", "--config", "{}", "--config", "{}", "--save", self.folder / "y.npz"]
            done = Ran("run", self.path, *words, "--json")
        result = json.loads(done.out)
        self.assertTrue(result["interrupted"])
        self.assertIsNone(result["tolerance"])
        first, second = result["configurations"]
        self.assertEqual((first["latency_ms"]["runs"], second["latency_ms"]), (1, None))
        with np.load(self.folder / "y.npz") as saved:
            self.assertEqual(list(saved), ["1/Y"])
        self.assertEqual(done.status, output.INTERRUPTED)


def interrupted_run(after: int):
    """Return a replacement of ``run`` that is interrupted after a number of calls."""
    calls = []

    def run(self: OnnxRuntimeBackendRep, inputs: object) -> list:
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(inputs)
        return self.session.run(None, {"X": inputs[0]})

    return run


class ProgressTest(CommandTest):
    def test_a_terminal_shows_the_latest_step_alone(self):
        stream = io.StringIO()
        progress = output.Progress()
        with mock.patch.object(sys, "stderr", stream), mock.patch.object(output.time, "monotonic") as now:
            for moment, text in ((0, "first"), (0.1, "too early"), (0.3, "x\ny" * 100)):
                now.return_value = moment
                progress.show(text)
            self.assertEqual(stream.getvalue(), "")  # not a terminal
            stream.isatty = lambda: True
            for moment, text in ((1, "first"), (1.1, "too early"), (1.3, "x\ny" * 100)):
                now.return_value = moment
                progress.show(text)
            shown = stream.getvalue()
            self.assertTrue(shown.startswith("first\r     \rx y"), shown)
            self.assertNotIn("\n", shown)
            progress.clear()
            progress.clear()
        self.assertEqual(stream.getvalue().count("\r"), 4)

    @unittest.skipUnless(pty, "needs a pseudo-terminal")
    def test_a_run_on_a_terminal(self):
        ours, terminal = pty.openpty()
        command = [sys.executable, "-m", "onnxruntime.backend", "run", str(self.path), "--repeat", "1"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=True, text=True)
        with open(ours, "rb", buffering=0) as shown:
            self.assertRegex(shown.read(1000), rb"^preparing configuration 1 of 1.*\r +\r$")
        self.assertIn("p50 ms", done.stdout)
        self.assertNotIn("preparing", done.stdout)


if __name__ == "__main__":
    unittest.main()
