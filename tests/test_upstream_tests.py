# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``upstream_tests.py`` runs the tests of a checkout, and lists those with a worse result than on the stock wheel."""

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
    def test_beside(self):
        self.assertEqual((CONSTANT, __name__), (1, "__main__"))
"""


@unittest.skipUnless(STOCK, "ORT_STOCK_PYTHON does not specify the Python of an environment with the stock wheel")
class UpstreamTestsTest(unittest.TestCase):
    def run_on(self, *bodies: str) -> tuple[int, str]:
        """Compare a file with a test for each body, and return the exit status and the output."""
        tests = [f"    def test_{number}(self):\n        {body}\n" for number, body in enumerate(bodies)]
        with tempfile.TemporaryDirectory() as folder:
            checkout = Path(folder, "onnxruntime", "test", "python")
            checkout.mkdir(parents=True)
            (checkout / "beside.py").write_text("CONSTANT = 1\n")
            (checkout / "another_test.py").write_text("raise RuntimeError('does not use the backend')\n")
            (checkout / "backend_test.py").write_text(f"{_FILE}{''.join(tests)}\nunittest.main(buffer=True)\n")
            out = io.StringIO()
            with mock.patch.object(sys, "argv", ["", folder, STOCK]), contextlib.redirect_stdout(out):
                return upstream_tests.main(), out.getvalue()

    def test_tests_with_the_same_or_a_better_result(self):
        status, out = self.run_on("pass", "self.fail()", "self.skipTest('')", f"self.assertTrue({_OURS})")
        self.assertEqual(status, 0, out)
        expected = "backend_test.py: stock 2 passed, 2 failed, 1 skipped; here 3 passed, 1 failed, 1 skipped\n"
        self.assertEqual(out, expected)

    def test_tests_with_a_worse_result_are_listed(self):
        status, out = self.run_on(f"self.assertFalse({_OURS})", f"{_OURS} and self.skipTest('')")
        self.assertEqual(status, 1)
        for number, here in enumerate(("failed", "skipped")):
            self.assertIn(f"__main__.Tests.test_{number}: stock passed, here {here}\n", out)


if __name__ == "__main__":
    unittest.main()
