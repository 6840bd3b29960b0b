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
from importlib import import_module
import onnx.backend.test.case.node

def import_recursive(package):
    print("computed")
    for name in ("relu", "abs"):
        import_module(f"{package.__name__}.{name}")

def load_node_model_tests():
    import_recursive(onnx.backend.test.case.node)
    return onnx.backend.test.case.node.tests
"""
TEST = """
import numpy as np
from . import tests

tests.append(f"{__name__} {np.arange(3.0)}")
"""
PROGRAM = "from onnx.backend.test import loader; print(loader.load_node_model_tests())"


class KeptSeriesTest(unittest.TestCase):
    def test_one_process_computes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            hook = Path(folder, "tests", "kept_series")
            package = Path(folder, "onnx", "backend", "test")
            node = package / "case" / "node"
            for path in (hook, node):
                path.mkdir(parents=True)
            shutil.copy(HOOK, hook)
            Path(folder, "onnx", "__init__.py").write_text("__version__ = '1.0'")
            (package / "loader.py").write_text(LOADER)
            (node / "__init__.py").write_text("tests = []")
            for name in ("relu", "abs"):
                (node / f"{name}.py").write_text(TEST)
            environment = {**os.environ, "PYTHONPATH": f"{hook}{os.pathsep}{folder}"}

            def load(**variables: str) -> list[str]:
                command, given = [sys.executable, "-c", PROGRAM], environment | variables
                ran = subprocess.run(command, env=given, stdout=subprocess.PIPE, text=True, check=True)
                return ran.stdout.splitlines()

            (selected,) = load(KEPT_SERIES="relu")
            self.assertIn("node.relu", selected)
            self.assertNotIn("node.abs", selected)
            self.assertFalse(Path(folder, "build").exists())
            computed, tests = load()
            self.assertEqual(computed, "computed")
            self.assertEqual(load(), [tests])
            self.assertIn("node.abs", tests)
            (kept,) = Path(folder, "build").iterdir()
            kept.unlink()
            self.assertEqual(load(), [computed, tests])


if __name__ == "__main__":
    unittest.main()
