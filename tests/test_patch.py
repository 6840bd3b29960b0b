# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The patches for an ORT source tree hold every file, replace none of ORT's but three, and apply."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools" / "python"))

import backend_patch as patch

STOCK = os.environ.get("ORT_STOCK_PYTHON", "")
# What ORT has in the two folders, apart from the backend's three files.
ORTS_TESTS = {"helper.py", "onnx_backend_test_series.py", "requirements.txt", "onnxruntime_test_python_backend.py"}
ORTS_TESTS |= {"onnxruntime_test_python.py", "onnxruntime_test_python_backend_mlops.py"}


@unittest.skipUnless(shutil.which("git") and (patch.ROOT / ".git").exists(), "needs git and a checkout")
class PatchTest(unittest.TestCase):
    def test_every_file_is_in_one_step(self) -> None:
        files = patch.upstream_files()
        assigned = [file for step in patch.assign(files).values() for file in step]
        self.assertEqual(sorted(assigned), sorted(files))
        self.assertTrue(all(patch.assign(files).values()), "a step without a file")

    def test_the_pull_request_tells_of_each_step(self) -> None:
        text = (patch.ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
        for number, step in enumerate(patch.STEPS, 1):
            self.assertIn(f"\n| {number} {step.title} |", text)

    def test_nothing_of_orts_is_replaced(self) -> None:
        names = {Path(file).name for file in patch.upstream_files() if not file.startswith(patch.BACKEND)}
        self.assertEqual(names & ORTS_TESTS, set())

    @unittest.skipUnless(STOCK, "ORT_STOCK_PYTHON names no Python of an environment with the stock wheel")
    def test_they_apply(self) -> None:
        code = "import onnxruntime; print(onnxruntime.__path__[0])"
        package = subprocess.run([STOCK, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        with tempfile.TemporaryDirectory() as folder:
            tree, out = Path(folder, "tree"), Path(folder, "out")
            tree.mkdir()
            patch.start(tree, Path(package, "backend"))
            patch.build(tree, out, tests=False)
            patch.check(tree, out)
            changed = patch.git(tree, "diff", "--name-only", "--diff-filter=M", "stock", "main").split()
            self.assertEqual(changed, [f"{patch.BACKEND}/{name}.py" for name in ("__init__", "backend", "backend_rep")])
            self.assertEqual(len(list((out / "series").iterdir())), len(patch.STEPS))
            # A tree whose backend is another is told.
            patch.git(tree, "checkout", "--quiet", "--force", "stock")
            (tree / patch.BACKEND / "backend.py").write_text("another\n")
            patch.git(tree, "commit", "--quiet", "--all", "--message", "another")
            patch.git(tree, "tag", "--force", "stock")
            with self.assertRaises(subprocess.CalledProcessError):
                patch.check(tree, out)


if __name__ == "__main__":
    unittest.main()
