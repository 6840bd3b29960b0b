# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``scoreboard.py`` runs the tests of a checkout, and fails if a stock wheel passes more tests than this backend."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import scoreboard

# A checkout with as much of the scoreboard as the program uses. A stock wheel has no configuration.
CHECKOUT = {
    "test/conftest.py": """
import json, os

def pytest_addoption(parser):
    parser.addoption("--onnx_backend")

def pytest_terminal_summary(terminalreporter):
    passed = [report.nodeid.partition("::")[2] for report in terminalreporter.stats.get("passed", [])]
    with open(os.environ["RESULTS_DIR"] + "/report.json", "w") as file:
        json.dump({"passed": passed, "failed": [], "skipped": []}, file)
""",
    "test/test_backend.py": """
import os

def test_both_cpu():
    pass

def test_here_cpu():
    assert "ORT_ONNX_BACKEND_CONFIG" in os.environ

def test_stock_cpu():
    "ORT_ONNX_BACKEND_CONFIG" in os.environ and os._exit(1)

def test_both_cuda():
    pass
""",
    "website-generator/generator.py": "import sys; print('website of', open(sys.argv[2]).read())",
}


class ScoreboardTest(unittest.TestCase):
    def test_a_run_is_compared_with_the_stock_wheel_of_its_eps(self):
        for status, passed, line in (
            (0, {"stock": "a b", "cpu": "a b", "stock-openvino": "a", "openvino": "a"}, r"cpu +2 +2 +0 +0"),
            (1, {"stock": "a b d", "cpu": "a b c"}, "FAILED cpu: d passes with the stock wheel"),
            (
                0,
                {"stock": "a b", "cpu": "a b", "qnn-plugin": "a", "x": "a"},
                r"qnn-plugin +1 +the stock backend cannot .*",
            ),
        ):
            out = io.StringIO()
            with self.subTest(passed), contextlib.redirect_stdout(out):
                self.assertEqual(scoreboard.compare({name: {*of.split()} for name, of in passed.items()}), status)
            self.assertRegex(out.getvalue(), f"(?m)^{line}$")
            self.assertEqual("FAILED" in out.getvalue(), status == 1)

    @unittest.skipUnless(importlib.util.find_spec("xdist"), "needs pytest-xdist")
    @unittest.skipUnless(importlib.util.find_spec("pandas"), "needs pandas, for the page")
    def test_a_checkout(self):
        absent = scoreboard.Run("here", {"plugins": ["no_such_package"]})
        config = {"provider_options": {"CPUExecutionProvider": {}}}
        runs = {"stock": scoreboard.Run("here"), "cpu": scoreboard.Run("here", config, "stock"), "absent": absent}
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            for name, text in CHECKOUT.items():
                Path(folder, name).parent.mkdir(exist_ok=True)
                Path(folder, name).write_text(text)
            arguments = mock.patch.object(sys, "argv", ["", folder, f"here={sys.executable}"])
            places = mock.patch.multiple(scoreboard, OUT=Path(folder, "out"), RUNS=runs)
            with arguments, places, contextlib.redirect_stdout(out):
                status = scoreboard.main()
            self.assertRegex(Path(folder, "out", "index.html").read_text(), "test_here_cpu")
            self.assertRegex(Path(folder, "out", "cpu", "log").read_text(), "1 failed, 2 passed")
        self.assertEqual(status, 1)
        self.assertRegex(out.getvalue(), r"absent is left out: .*no_such_package")
        self.assertRegex(out.getvalue(), r"(?m)^cpu +2 +2 +1 +1$")
        self.assertIn("FAILED cpu: test_stock_cpu passes with the stock wheel", out.getvalue())


if __name__ == "__main__":
    unittest.main()
