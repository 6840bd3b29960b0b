# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The first process with ``kept_series`` computes ONNX's tests, and later processes read the same tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HOOK = Path(__file__).with_name("kept_series") / "sitecustomize.py"
LOADER = """
from collections import namedtuple
import numpy as np

Test = namedtuple("Test", "name data")

def load_node_model_tests():
    print("computed")
    return [Test("test_relu", [np.arange(3.0)]), Test("test_abs", [])]
"""
PROGRAM = "from onnx.backend.test import loader; print(loader.load_node_model_tests())"


class KeptSeriesTest(unittest.TestCase):
    def test_one_process_computes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            hook = Path(folder, "tests", "kept_series")
            package = Path(folder, "onnx", "backend", "test")
            for path in (hook, package):
                path.mkdir(parents=True)
            shutil.copy(HOOK, hook)
            Path(folder, "onnx", "__init__.py").write_text("__version__ = '1.0'")
            (package / "loader.py").write_text(LOADER)
            environment = {**os.environ, "PYTHONPATH": f"{hook}{os.pathsep}{folder}"}

            def load(**variables: str) -> list[str]:
                command, given = [sys.executable, "-c", PROGRAM], environment | variables
                ran = subprocess.run(command, env=given, stdout=subprocess.PIPE, text=True, check=True)
                return ran.stdout.splitlines()

            computed, tests = load()
            self.assertEqual(computed, "computed")
            self.assertEqual(load(), [tests])
            (selected,) = load(KEPT_SERIES="test_re")
            self.assertIn("test_relu", selected)
            self.assertNotIn("test_abs", selected)
            (kept,) = Path(folder, "build").iterdir()
            kept.unlink()
            self.assertEqual(load(), [computed, tests])


if __name__ == "__main__":
    unittest.main()
