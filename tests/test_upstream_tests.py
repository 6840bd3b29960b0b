# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``upstream_tests.py`` finds the tests of a checkout, runs them as they are, and tells what is worse here."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import upstream_tests

STOCK = os.environ.get("ORT_STOCK_PYTHON", "")
_OURS = "hasattr(onnxruntime.backend, 'NotPermittedError')"
_FILE = """
import unittest
from beside import CONSTANT
import onnxruntime.backend

class Tests(unittest.TestCase):
    def test_right(self):
        self.assertEqual((CONSTANT, __name__), (1, "__main__"))

    def test_chosen(self):
        OUTCOME

unittest.main(buffer=True)
"""


@unittest.skipUnless(STOCK, "ORT_STOCK_PYTHON names no Python of an environment with the stock wheel")
class UpstreamTestsTest(unittest.TestCase):
    def run_on(self, outcome: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            tests = Path(folder, "onnxruntime", "test", "python")
            tests.mkdir(parents=True)
            (tests / "beside.py").write_text("CONSTANT = 1\n")
            (tests / "another_test.py").write_text("raise RuntimeError('does not use the backend')\n")
            (tests / "backend_test.py").write_text(_FILE.replace("OUTCOME", outcome))
            out = io.StringIO()
            with mock.patch.object(sys, "argv", ["", folder, STOCK]), contextlib.redirect_stdout(out):
                return upstream_tests.main(), out.getvalue()

    def test_what_is_as_on_stock_or_better(self) -> None:
        for outcome in ("pass", "self.fail()", "self.skipTest('')", f"self.assertTrue({_OURS})"):
            with self.subTest(outcome):
                status, out = self.run_on(outcome)
                self.assertEqual(status, 0, out)
        self.assertEqual(
            out, "backend_test.py: stock 1 passed, 1 failed, 0 skipped; here 2 passed, 0 failed, 0 skipped\n"
        )

    def test_what_is_worse_is_named(self) -> None:
        for outcome, here in ((f"self.assertFalse({_OURS})", "failed"), (f"{_OURS} and self.skipTest('')", "skipped")):
            status, out = self.run_on(outcome)
            self.assertEqual(status, 1)
            self.assertIn(f"__main__.Tests.test_chosen: stock passed, here {here}\n", out)

    def test_what_ran_nothing_is_an_error(self) -> None:
        with self.assertRaisesRegex(SystemExit, "ran no test of backend_test.py"):
            self.run_on("pass\n\nraise RuntimeError")
        no_tests = self.assertRaisesRegex(SystemExit, "has no tests of onnxruntime.backend")
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "argv", ["", folder, STOCK]), no_tests:
            upstream_tests.main()


if __name__ == "__main__":
    unittest.main()
