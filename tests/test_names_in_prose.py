# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Documents, docstrings and comments name files (``.py``, ``.sh`` and ``.md``) that exist."""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import tokenize
import unittest
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from _paths import ROOT

# Files of ORT, of onnx and of examples for users.
ELSEWHERE = {
    *("build.py", "onnx_backend_test_series.py", "plot_backend.py", "onnxruntime_test_python_backend.py"),
    *("onnxruntime_test_python_backend_mlops.py", "Privacy.md", "coverage.py", "test_configured.py"),
    *("on_dask.py", "pool.py", "app.py", "part.py"),
    *("test_backend.py", "generator.py"),  # of the ONNX Backend Scoreboard
}
_BINARY = {".onnx", ".txz", ".xz"}
_FILE = re.compile(r"(?<![\w*%<>{.-])([\w./-]*[\w-]+\.(?:py|sh|md))(?![\w*])")


@cache
def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in listed.split("\0")[:-1]]
    return [path for path in paths if path.exists() and path.suffix not in _BINARY]


@cache
def file_names() -> set[str]:
    return {path.name for path in tracked()}


def problems(text: str) -> Iterator[str]:
    """The names in a text of files that do not exist."""
    for name in _FILE.findall(text):
        last = name.rpartition("/")[2]
        if last not in file_names() | ELSEWHERE and not name.startswith("//") and "..." not in name:
            yield name


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a document; the comments and docstrings of a program, with their line numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (found := ast.get_docstring(node)):
                yield node.body[0].lineno, found
    elif path.suffix in (".md", ".sh") or path.name == "Makefile":
        yield from enumerate(text.splitlines(), 1)


@unittest.skipUnless(shutil.which("git") and (ROOT / ".git").exists(), "needs git and a checkout")
class NamesInProseTest(unittest.TestCase):
    def test_every_name_exists(self):
        found = [
            f"{path.relative_to(ROOT)}:{line}: {name}"
            for path in tracked()
            if any(
                problems(path.read_text(encoding="utf-8", errors="replace"))
            )  # to find the prose of a program takes longer
            for line, text in prose(path)
            for name in problems(text)
        ]
        self.assertEqual(found, [], "\n".join(["", *found]))


if __name__ == "__main__":
    unittest.main()
