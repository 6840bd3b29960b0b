# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The patches for an ORT source tree contain every file, replace only the stock files of ORT, and apply."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools" / "python"))

import backend_patch as patch

STOCK = os.environ.get("ORT_STOCK_PYTHON", "")
# The other files of ORT in the two folders.
ORTS_TESTS = {"helper.py", "onnx_backend_test_series.py", "requirements.txt", "onnxruntime_test_python_backend.py"}
ORTS_TESTS |= {"onnxruntime_test_python.py", "onnxruntime_test_python_backend_mlops.py"}

# The lines of ORT's build files that the patches replace, between others.
REPLACED = [f"{patch.BACKEND}/{name}.py" for name in ("__init__", "backend", "backend_rep")]
CMAKE = f"""\
if (onnxruntime_ENABLE_TRAINING)
endif()

{patch._CMAKE_GLOB}\
add_custom_command(
  TARGET onnxruntime_pybind11_state POST_BUILD
{patch._CMAKE_COPY}\
)
"""
SETUP = """\
packages = [
    "onnxruntime",
    "onnxruntime.backend",
    "onnxruntime.capi",
]
package_data = {"onnxruntime.tools": ["*.md"]}
"""


def build_and_check(tree: Path, out: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        patch.build(tree, out, tests=False)
    patch.check(tree, out)


def changed(tree: Path) -> list[str]:
    return patch.git(tree, "diff", "--name-only", "--diff-filter=M", "stock", "main").split()


@unittest.skipUnless(shutil.which("git") and (patch.ROOT / ".git").exists(), "needs git and a checkout")
class PatchTest(unittest.TestCase):
    def test_every_file_is_in_one_step(self) -> None:
        files = patch.upstream_files()
        assigned = patch.assign(files)
        self.assertEqual(sorted(file for step in assigned.values() for file in step), sorted(files))
        self.assertEqual([step.title for step, given in assigned.items() if not given], [])

    def test_the_document_has_the_current_table(self) -> None:
        text = patch.DOCUMENT.read_text(encoding="utf-8")
        self.assertEqual(text, patch.documented(text), "run: make document")

    def test_a_deleted_file_is_an_error_with_its_name(self) -> None:
        listed = f"{patch.BACKEND}/no.py\n{patch.BACKEND}/backend.py\n"
        with (
            mock.patch.object(patch, "git", return_value=listed),
            self.assertRaisesRegex(SystemExit, f"^{patch.BACKEND}/no.py: "),
        ):
            patch.upstream_files()

    def test_no_test_of_ort_is_replaced(self) -> None:
        names = {Path(file).name for file in patch.upstream_files() if not file.startswith(patch.BACKEND)}
        self.assertEqual(names & ORTS_TESTS, set())

    def test_a_file_that_no_step_or_two_steps_specify_is_an_error(self) -> None:
        last = patch.STEPS[-1]
        for product in ((), (*last.product, "backend.py")):
            steps = (*patch.STEPS[:-1], last._replace(product=product))
            with mock.patch.object(patch, "STEPS", steps), self.assertRaisesRegex(SystemExit, "expected one step"):
                patch.assign(patch.upstream_files())

    def test_a_step_that_needs_a_later_step_is_an_error(self) -> None:
        steps = (*patch.STEPS[1:], patch.STEPS[0])
        with mock.patch.object(patch, "STEPS", steps), self.assertRaisesRegex(SystemExit, "imports .* of a later step"):
            patch.assign(patch.upstream_files())


@unittest.skipUnless(shutil.which("git") and (patch.ROOT / ".git").exists(), "needs git and a checkout")
class CheckoutTest(unittest.TestCase):
    """The patches for a checkout with small build files."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.tree = cls.make("right")

    @classmethod
    def make(cls, name: str, cmake: str = CMAKE, setup: str = SETUP) -> Path:
        """Write and check the patches for a checkout, and return the tree in which they are made."""
        checkout, tree, out = (cls.folder / name / part for part in ("checkout", "tree", "out"))
        tree.mkdir(parents=True)
        for file, content in {patch.CMAKE: cmake, patch.SETUP: setup, **dict.fromkeys(REPLACED, "stock\n")}.items():
            (checkout / file).parent.mkdir(parents=True, exist_ok=True)
            (checkout / file).write_text(content)
        patch.start(tree, checkout / patch.BACKEND, checkout)
        build_and_check(tree, out)
        return tree

    def test_five_files_are_replaced(self) -> None:
        self.assertEqual(changed(self.tree), [patch.CMAKE, *REPLACED, patch.SETUP])
        self.assertEqual(len(list((self.tree.parent / "out" / "series").iterdir())), len(patch.STEPS))

    def test_each_step_lists_its_folders_as_packages(self) -> None:
        for number, step in enumerate(patch.STEPS, 1):
            commit = f"main~{len(patch.STEPS) - number}"
            files = patch.git(self.tree, "ls-tree", "-r", "--name-only", commit, patch.BACKEND).split()
            folders = {Path(file).parent.relative_to("onnxruntime/python").parts for file in files}
            exec(patch.git(self.tree, "show", f"{commit}:{patch.SETUP}"), setup := {})
            cmake = patch.git(self.tree, "show", f"{commit}:{patch.CMAKE}")
            with self.subTest(step.title):
                ours = sorted(".".join(("onnxruntime", *parts)) for parts in folders)
                self.assertEqual(setup["packages"], ["onnxruntime", *ours, "onnxruntime.capi"])
                marked = f"{patch.BACKEND}/py.typed" in files
                data = {"onnxruntime.backend": ["py.typed"]} if marked else {}
                self.assertEqual(setup["package_data"], data | {"onnxruntime.tools": ["*.md"]})
                self.assertIn("copy_directory\n      ${ONNXRUNTIME_ROOT}/python/backend\n", cmake)
                self.assertNotIn("onnxruntime_backend_srcs", cmake)
        self.assertTrue(marked)

    def test_other_build_files_are_an_error(self) -> None:
        other = CMAKE.replace("python/backend", "python/other")
        no_package = SETUP.replace("backend", "other")
        for name, files in ((patch.CMAKE, {"cmake": other}), (patch.SETUP, {"setup": no_package})):
            with self.subTest(name), self.assertRaisesRegex(SystemExit, f"^{name}: "):
                self.make(f"without {Path(name).name}", **files)


@unittest.skipUnless(STOCK, "ORT_STOCK_PYTHON does not specify the Python of an environment with the stock wheel")
class StockTest(unittest.TestCase):
    def test_the_patches_apply_to_the_files_of_the_stock_wheel(self) -> None:
        code = "import onnxruntime; print(onnxruntime.__path__[0])"
        package = subprocess.run([STOCK, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        with tempfile.TemporaryDirectory() as folder:
            tree, out = Path(folder, "tree"), Path(folder, "out")
            tree.mkdir()
            patch.start(tree, Path(package, "backend"))
            build_and_check(tree, out)
            self.assertEqual(changed(tree), REPLACED)


if __name__ == "__main__":
    unittest.main()
