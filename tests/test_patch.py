# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The pull requests for ORT apply to the stock backend, are small, and pass ORT's linter."""

import contextlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import tokenize
import unittest
from pathlib import Path
from unittest import mock

import _paths
import backend_first_step as first_step
from backend_first_step import API, BACKEND, BUILD, CHANGES, TESTS, UPSTREAM, git

STOCK = os.environ.get("ORT_STOCK_PYTHON", "")
AUTHOR = "A Name <a.name@example.org>"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
MOST_TOKENS = {  # of the backend, including the stock backend's, and of the tests
    "0001": {BACKEND: 4200, TESTS: 5000},
    "0002": {BACKEND: 4200 + 3500, TESTS: 5000 + 3000},
}
BUILD_PY = """\
def run_onnxruntime_tests(args, cwd, dll_path):
    if args.onnx_test:
        run_subprocess(
            [sys.executable, "onnxruntime_test_python_backend.py"],
            cwd=cwd,
            dll_path=dll_path,
        )

        run_subprocess([sys.executable, "onnxruntime_test_python_backend_mlops.py"], cwd=cwd, dll_path=dll_path)
"""
API_SUMMARY = f".. autofunction:: onnxruntime.backend.run\n\n{first_step.LAST_FUNCTION}\nMore\n====\n"


def tokens(folder: Path) -> int:
    """Return the number of tokens of the files in a folder, without comments, docstrings and layout."""
    found = 0
    for path in folder.glob("*.py"):
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                found += token.type not in LAYOUT and not token.string.startswith('"""')
    return found


@unittest.skipUnless(shutil.which("git") and STOCK, "needs git, and ORT_STOCK_PYTHON, a Python with the stock wheel")
class StepsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        code = "import onnxruntime; print(onnxruntime.__path__[0])"
        environment = {**os.environ, "PYTHONPATH": ""}  # which make try sets for this backend
        done = subprocess.run([STOCK, "-c", code], check=True, capture_output=True, text=True, env=environment)
        cls.stock = Path(done.stdout.strip(), "backend")
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    def checkout(self) -> Path:
        """Return a source tree of ORT with the files that the patches change."""
        checkout = self.new_folder()
        shutil.copytree(self.stock, checkout / BACKEND, ignore=shutil.ignore_patterns("__pycache__"))
        for file, content in {BUILD: BUILD_PY, API: API_SUMMARY}.items():
            (checkout / file).parent.mkdir(parents=True)
            (checkout / file).write_text(content, encoding="utf-8")
        return checkout

    def write_patches(self, checkout: Path, author: str = AUTHOR) -> list[Path]:
        out = self.new_folder() / "out"
        with contextlib.redirect_stdout(io.StringIO()):
            first_step.write_patches(checkout / BACKEND, checkout, author, out)
        return sorted(out.iterdir())

    def test_each_step_is_small_and_flat(self):
        folder = self.new_folder()
        most = {"stock": {}, **MOST_TOKENS}
        for step, backend in first_step.each_step(folder, self.stock):
            for part, limit in most[step].items():
                with self.subTest(step, part=part):
                    self.assertLessEqual(tokens(folder / part), limit)
            self.assertEqual([path for path in backend.iterdir() if path.is_dir()], [])
        new = [file for file in first_step.new_files(UPSTREAM / "0001") if file.startswith(BACKEND)]
        self.assertLessEqual(len(new), 6)

    @unittest.skipUnless(importlib.util.find_spec("ruff"), "needs ruff")
    def test_the_linter_finds_nothing(self):
        folder = self.new_folder()
        for step, _ in first_step.each_step(folder, self.stock):
            for command in (["check"], ["format", "--check"]):
                ruff = [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", UPSTREAM / "ruff.toml"]
                done = subprocess.run([*ruff, folder], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, f"{step}: {done.stdout}")

    def test_saved_steps_are_the_same(self):
        folder, upstream = self.new_folder(), self.new_folder() / "upstream"
        first_step.open_steps(folder, self.stock)
        shutil.copytree(UPSTREAM, upstream)
        for file in (*upstream.rglob("*.py"), *upstream.rglob(CHANGES)):
            file.write_text("# replaced\n", encoding="utf-8")
        with mock.patch.object(first_step, "UPSTREAM", upstream):
            first_step.save(folder)
        for file in UPSTREAM.glob("0*/**/*"):
            if file.is_file():
                saved = upstream / file.relative_to(UPSTREAM)
                self.assertEqual(saved.read_text(encoding="utf-8"), file.read_text(encoding="utf-8"))

    def test_the_patches_for_a_checkout(self):
        checkout = self.checkout()
        git(checkout, "init", "--quiet")
        first_step._commit(checkout, "ORT", AUTHOR, "before")
        patches = self.write_patches(checkout)
        self.assertEqual([patch.name[:5] for patch in patches], ["0001-", "0002-"])
        identity = ["-c", "user.name=A", "-c", "user.email=a@b"]
        git(checkout, *identity, "am", "--quiet", "--whitespace=error-all", *map(str, patches))
        self.assertEqual(set(git(checkout, "log", "--format=%an <%ae>").splitlines()), {AUTHOR})
        changed = git(checkout, "diff", "--name-only", "--diff-filter=M", "before", "HEAD").split()
        stock = [f"{BACKEND}/{name}.py" for name in ("__init__", "backend", "backend_rep")]
        self.assertEqual(changed, [API, *stock, BUILD])
        build = (checkout / BUILD).read_text(encoding="utf-8")
        compile(build, BUILD, "exec")
        places = [build.index(f"backend{name}.py") for name in ("", "_configuration", "_cuda_graph", "_mlops")]
        self.assertEqual(sorted(places), [places[0], places[2], places[1], places[3]])
        self.assertIn("NotPermittedError\n\nMore\n", (checkout / API).read_text(encoding="utf-8"))

    def test_an_author_is_required(self):
        for author in ("", "name", "name <localhost>"):
            with self.subTest(author), self.assertRaisesRegex(SystemExit, "^the author must have the form"):
                self.write_patches(self.checkout(), author)


if __name__ == "__main__":
    unittest.main()
