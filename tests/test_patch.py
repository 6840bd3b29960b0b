# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The patches for an ORT source tree apply, and the first one is small: the request of issue 28209 alone."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tempfile
import tokenize
import unittest
from pathlib import Path
from unittest import mock

import _paths  # noqa: F401
import backend_first_step as first_step
import backend_patch as patch

STOCK = os.environ.get("ORT_STOCK_PYTHON", "")
HAS_GIT = shutil.which("git") and (patch.ROOT / ".git").exists()
# The other files of ORT in the two folders.
ORTS_TESTS = {
    "helper.py",
    "onnx_backend_test_series.py",
    "onnxruntime_test_python.py",
    "onnxruntime_test_python_backend.py",
    "onnxruntime_test_python_backend_mlops.py",
    "requirements.txt",
}
LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
REPLACED = [f"{patch.BACKEND}/{name}.py" for name in ("__init__", "backend", "backend_rep")]
# The lines of ORT's build files that the patches replace, between others.
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


def stock_files() -> Path:
    """Return the folder of the stock backend."""
    code = "import onnxruntime; print(onnxruntime.__path__[0])"
    environment = {**os.environ, "PYTHONPATH": ""}  # which make try sets for this backend
    done = subprocess.run([STOCK, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return Path(done.stdout.strip(), "backend")


@unittest.skipUnless(HAS_GIT, "needs git and a checkout")
class FilesTest(unittest.TestCase):
    def test_a_deleted_file_is_an_error_with_its_name(self):
        listed = f"{patch.BACKEND}/no.py\n{patch.BACKEND}/backend.py\n"
        with (
            mock.patch.object(patch, "git", return_value=listed),
            self.assertRaisesRegex(SystemExit, f"^{patch.BACKEND}/no.py: "),
        ):
            patch.upstream_files()

    def test_no_test_of_ort_is_replaced(self):
        files = [*patch.upstream_files(), *first_step.tests()]
        names = {Path(file).name for file in files if patch.BACKEND not in str(file)}
        self.assertIn("onnxruntime_test_python_backend_configuration.py", names)
        self.assertEqual(names & ORTS_TESTS, set())


@unittest.skipUnless(HAS_GIT and STOCK, "needs git, a checkout, and ORT_STOCK_PYTHON, a Python with the stock wheel")
class FirstStepTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stock = stock_files()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.applies = first_step.derive(cls.folder, cls.stock)

    def tokens(self, folder: str) -> int:
        """Return the number of tokens of the files in a folder, without comments, docstrings and layout."""
        found = 0
        for path in (self.folder / folder).rglob("*.py"):
            with path.open("rb") as file:
                for token in tokenize.tokenize(file.readline):
                    found += token.type not in LAYOUT and not token.string.startswith('"""')
        return found

    def test_the_diff_applies(self):
        self.assertTrue(self.applies, "run: make first-step")

    def test_the_backend_is_small(self):
        self.assertLessEqual(self.tokens(patch.BACKEND), 4200)

    def test_its_tests_are_small(self):
        self.assertLessEqual(self.tokens(patch.TESTS), 5000)

    def test_a_saved_diff_derives_the_same_files(self):
        with tempfile.TemporaryDirectory() as name:
            upstream, again = Path(name, "upstream"), Path(name, "again")
            upstream.mkdir()
            again.mkdir()
            diff = upstream / "first_step.diff"
            with mock.patch.object(first_step, "UPSTREAM", upstream), mock.patch.object(first_step, "DIFF", diff):
                first_step.save(self.folder, self.stock)
                self.assertTrue(first_step.derive(again, self.stock))
            for path in self.folder.rglob("*.py"):
                self.assertEqual(path.read_bytes(), (again / path.relative_to(self.folder)).read_bytes())
            self.assertEqual(diff.read_text(encoding="utf-8"), first_step.DIFF.read_text(encoding="utf-8"), "save it")

    def test_a_tree_that_the_diff_does_not_fit(self):
        with tempfile.TemporaryDirectory() as name:
            stock, folder = Path(name, "stock"), Path(name, "folder")
            shutil.copytree(self.stock, stock)
            folder.mkdir()
            (stock / "backend_rep.py").write_text("other = 1\n", encoding="utf-8")
            self.assertFalse(first_step.derive(folder, stock, "--quiet", "--reject"))
            with self.assertRaisesRegex(SystemExit, "backend_rep.py.rej"):
                first_step.save(folder, self.stock)


@unittest.skipUnless(HAS_GIT and STOCK, "needs git, a checkout, and ORT_STOCK_PYTHON, a Python with the stock wheel")
class PatchTest(unittest.TestCase):
    """The patches for a checkout with the stock backend and small build files."""

    @classmethod
    def setUpClass(cls):
        cls.stock = stock_files()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.tree = cls.make("right")

    @classmethod
    def make(cls, name: str, cmake: str = CMAKE, setup: str = SETUP) -> Path:
        """Write and check the patches for a checkout, and return the repository in which they are made."""
        checkout, tree, out = (cls.folder / name / part for part in ("checkout", "tree", "out"))
        tree.mkdir(parents=True)
        shutil.copytree(cls.stock, checkout / patch.BACKEND, ignore=shutil.ignore_patterns("__pycache__"))
        for file, content in {patch.CMAKE: cmake, patch.SETUP: setup}.items():
            (checkout / file).parent.mkdir(parents=True, exist_ok=True)
            (checkout / file).write_text(content, encoding="utf-8")
        patch.start(tree, checkout / patch.BACKEND, checkout)
        with contextlib.redirect_stdout(io.StringIO()):
            patch.build(tree, out)
        patch.check(tree, out)
        return tree

    def test_two_patches(self):
        names = sorted(path.name for path in (self.tree.parent / "out").iterdir())
        self.assertEqual([name[:5] for name in names], ["0001-", "backe"])

    def test_five_files_of_ort_change(self):
        for branch in ("first_step", "tree"):
            changed = patch.git(self.tree, "diff", "--name-only", "--diff-filter=M", "stock", branch).split()
            self.assertEqual(changed, [patch.CMAKE, *REPLACED, patch.SETUP], branch)

    def test_the_build_contains_each_folder(self):
        for branch in ("first_step", "tree"):
            files = patch.git(self.tree, "ls-tree", "-r", "--name-only", branch, patch.BACKEND).split()
            folders = {Path(file).parent.relative_to("onnxruntime/python").parts for file in files}
            exec(patch.git(self.tree, "show", f"{branch}:{patch.SETUP}"), setup := {})
            cmake = patch.git(self.tree, "show", f"{branch}:{patch.CMAKE}")
            with self.subTest(branch):
                ours = sorted(".".join(("onnxruntime", *parts)) for parts in folders)
                self.assertEqual(setup["packages"], ["onnxruntime", *ours, "onnxruntime.capi"])
                data = {"onnxruntime.tools": ["*.md"]}
                if branch == "tree":
                    data["onnxruntime.backend"] = ["py.typed"]
                self.assertEqual(setup["package_data"], data)
                self.assertIn("copy_directory\n      ${ONNXRUNTIME_ROOT}/python/backend\n", cmake)
                self.assertNotIn("onnxruntime_backend_srcs", cmake)

    def test_other_build_files_are_an_error(self):
        other = CMAKE.replace("python/backend", "python/other")
        no_package = SETUP.replace("backend", "other")
        for name, files in ((patch.CMAKE, {"cmake": other}), (patch.SETUP, {"setup": no_package})):
            with self.subTest(name), self.assertRaisesRegex(SystemExit, f"^{name}: "):
                self.make(f"without {Path(name).name}", **files)


if __name__ == "__main__":
    unittest.main()
