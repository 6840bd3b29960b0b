# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The code says one thing in each line: a line has few tokens, few expressions are compact, and files are short.

Comments, docstrings and blank lines do not count. A conditional expression, an assignment expression, a comprehension,
and a starred expression are compact expressions.
"""

from __future__ import annotations

import ast
import functools
import io
import shutil
import subprocess
import textwrap
import tokenize
import unittest
from typing import NamedTuple

from _paths import ROOT

PRODUCT = ROOT / "onnxruntime" / "python" / "backend"
# Modules of tables, in which a line is an entry.
TABLES = {
    "allowlist/attributes.py",
    "allowlist/cuda.py",
    "allowlist/conditions.py",
    "allowlist/nv_tensorrt_rtx.py",
    "allowlist/openvino.py",
    "allowlist/optimizers.py",
    "allowlist/others.py",
    "allowlist/providers.py",
    "allowlist/qnn.py",
    "allowlist/run_config.py",
    "allowlist/session_config.py",
    "allowlist/tables.py",
    "allowlist/tensorrt.py",
    "allowlist/webgpu.py",
    "capture/operators.py",
}
CODE_OF_REFUSALS = {"refusals/__init__.py", "refusals/suggestions.py"}
MOST_LINES = 450  # of a file

# A folder or file, the tokens of a line, and the compact expressions of a hundred lines.
OTHER_LIMITS = [
    ("benchmarks", 9, 6),
    ("examples", 9, 6),
    ("noxfile.py", 9, 8),
    ("onnxruntime/test/python", 10.5, 7),
    ("setup.py", 9, 10),
    ("tests", 10.5, 7),
    ("tools", 9, 6),
    ("upstream", 7.5, 3),
]

_BLANK = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
_COMPACT = (
    ast.DictComp,
    ast.GeneratorExp,
    ast.IfExp,
    ast.ListComp,
    ast.NamedExpr,
    ast.SetComp,
    ast.Starred,
)
_DOCUMENTED = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Module)


class Density(NamedTuple):
    tokens: int
    lines: int  # with at least one token
    compact: int
    wide: int  # lines of more than 100 columns

    @property
    def tokens_per_line(self) -> float:
        return self.tokens / max(1, self.lines)

    @property
    def compact_per_hundred(self) -> float:
        return 100 * self.compact / max(1, self.lines)

    @property
    def percent_wide(self) -> float:
        return 100 * self.wide / max(1, self.lines)


def density_of(source: str) -> Density:
    nodes = list(ast.walk(ast.parse(source)))
    documentation = set()
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            documentation.update(range(docstring.lineno, docstring.end_lineno + 1))

    tokens = 0
    code = set()
    depth = 0  # of f-strings: since Python 3.12, one of them has several tokens
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _BLANK or token.start[0] in documentation:
            continue
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_END":
            depth -= 1
        elif depth == 0:
            tokens += 1
            code.add(token.start[0])
        if name == "FSTRING_START":
            depth += 1

    compact = 0
    for node in nodes:
        if isinstance(node, _COMPACT):
            compact += 1
        elif isinstance(node, ast.Dict):
            compact += node.keys.count(None)  # **mapping
    wide = 0
    for number, line in enumerate(source.splitlines(), 1):
        if number in code and len(line) > 100:
            wide += 1
    return Density(tokens, len(code), compact, wide)


@functools.cache
def product() -> dict[str, Density]:
    """The density of each module of the product that is not a table."""
    found = {}
    for path in sorted(PRODUCT.rglob("*.py")):
        module = path.relative_to(PRODUCT).as_posix()
        is_refusal = module.startswith("refusals/") and module not in CODE_OF_REFUSALS
        if module not in TABLES and not is_refusal:
            found[module] = density_of(path.read_text(encoding="utf-8"))
    return found


class DensityTest(unittest.TestCase):
    def test_the_count(self):
        source = '''
            """A docstring."""

            x = [f"{y:{z}} {f'{y}'}" for y in range(2)]  # a comment
            def f(*a):
                """Another."""
                return {**g(*a)} if (b := a) else (
                    1
                )
        '''
        got = density_of(textwrap.dedent(source))
        self.assertEqual(got, Density(tokens=12 + 7 + 19, lines=5, compact=5, wide=0))
        self.assertEqual(density_of("x = 1" + " " * 95 + ";y = 2").wide, 1)

    def test_the_whole(self):
        total = Density(*map(sum, zip(*product().values(), strict=True)))
        self.assertGreater(total.lines, 4000)
        self.assertLessEqual(total.tokens_per_line, 7.5)
        self.assertLessEqual(total.compact_per_hundred, 4)
        self.assertLessEqual(total.percent_wide, 5)

    def test_each_module(self):
        for module, density in product().items():
            with self.subTest(module):
                self.assertLessEqual(density.tokens_per_line, 9)
                self.assertLessEqual(density.compact_per_hundred, 8)

    def test_other_folders_and_files(self):
        for name, tokens, compact in OTHER_LIMITS:
            path = ROOT / name
            files = [path]
            if path.is_dir():
                files = sorted(path.rglob("*.py"))
            found = []
            for file in files:
                found.append(density_of(file.read_text(encoding="utf-8")))
            total = Density(*map(sum, zip(*found, strict=True)))
            with self.subTest(name):
                self.assertLessEqual(total.tokens_per_line, tokens)
                self.assertLessEqual(total.compact_per_hundred, compact)

    @unittest.skipUnless(shutil.which("git") and (ROOT / ".git").exists(), "needs git and a checkout")
    def test_the_lines_of_each_file(self):
        listed = subprocess.run(
            ["git", "ls-files", "-z", "*.py"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in listed.stdout.split("\0"):
            path = ROOT / name
            if path.is_file():
                lines = path.read_text(encoding="utf-8").count("\n")
                with self.subTest(name):
                    self.assertLessEqual(lines, MOST_LINES)


if __name__ == "__main__":
    unittest.main()
