# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Lists the small changes that ``backend_mutants.py`` makes to a module.

A change negates a condition, swaps a comparison or its bound, adds one to an integer, or drops a statement.
"""

import ast
import re
from typing import NamedTuple

_SWAPPED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
}
_OPERATOR = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


class Mutant(NamedTuple):
    """One change to a module: the text from one offset to another becomes another text.

    :param line: the number of the first line that it changes.
    :param place: that line as it is, without indentation; with ``change``, which counts those that would be the same on
        a line, it names a mutant wherever the line moves to.
    """

    module: str
    line: int
    place: str
    change: str
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """The module's source with this change."""
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line}: {self.change}: {self.place}"


class _Finder(ast.NodeVisitor):
    """Collects the mutants of one module."""

    def __init__(self, module: str, source: str) -> None:
        self.found: list[Mutant] = []
        self._module = module
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._offsets = [0]
        for line in self._lines:
            self._offsets.append(self._offsets[-1] + len(line))
        self._functions = 0
        self.visit(ast.parse(source))

    def _offset(self, line: int, column: int) -> int:
        # ast counts columns in bytes of UTF-8.
        return self._offsets[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _add(self, node: ast.AST, change: str, text: str, span: tuple[int, int] | None = None) -> None:
        place = self._lines[node.lineno - 1].strip()
        start, end = span or self._span(node)
        # As many lines as before, so that tracebacks and coverage agree.
        text += "\\\n" * (self._source.count("\n", start, end) - text.count("\n"))
        self.found.append(Mutant(self._module, node.lineno, place, change, start, end, text))

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end]

    def _condition(self, test: ast.expr) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._add(test, "not negated", f"bool({self._text(test.operand)})")
        elif not (
            isinstance(test, ast.Compare) and len(test.ops) == 1 and not isinstance(test.ops[0], (ast.Lt, ast.Gt))
        ):
            self._add(test, "condition negated", f"(not ({self._text(test)}))")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions += 1
        for default in node.args.defaults + node.args.kw_defaults:
            if default is not None:
                self.visit(default)
        for statement in node.body:  # not the annotations
            self.visit(statement)
        self._functions -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Python 3.11 does not report the positions of the expressions in an f-string."""

    def visit_If(self, node: ast.If) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_Assert = visit_If  # noqa: N815

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = "or", "and"
        if isinstance(node.op, ast.And):
            old, new = "and", "or"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(node, left, right, old, new)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            old = _OPERATOR[type(op)]
            self._between(node, left, right, old, _SWAPPED[old])
            left = right
        self.generic_visit(node)

    def _between(self, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        _, begin = self._span(left)
        end, _ = self._span(right)
        match = re.search(rf"(?<![\w<>=!]){re.escape(old)}(?![\w=])", self._source[begin:end])
        span = (begin + match.start(), begin + match.end())
        self._add(left, f"{old} becomes {new}", new, span)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._add(node, f"{node.value} becomes {node.value + 1}", str(node.value + 1))

    def _dropped(self, node: ast.stmt, instead: str = "pass") -> None:
        self._add(node, "statement dropped", instead)
        self.generic_visit(node)

    visit_Raise = visit_Delete = visit_Continue = visit_Break = visit_AugAssign = _dropped  # noqa: N815

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Yield):
            self.generic_visit(node)
            return
        self._dropped(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self._text(node.value) != "None":
            self._add(node, "statement dropped", "return None")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
            self._add(node, "statement dropped", "pass")
        elif self._functions and self._text(node.value) != "None":
            self._add(node.value, "value dropped", "None")
        self.generic_visit(node)


def mutants(module: str, source: str) -> list[Mutant]:
    """Return every mutant of a module that is still Python, in the order of its text.

    :param module: the module's path in the package, without ``.py``.
    """
    found = []
    for mutant in sorted(set(_Finder(module, source).found), key=lambda mutant: mutant.start):
        try:
            compile(mutant.applied(source), module, "exec")
        except SyntaxError:
            continue
        same = sum(mutant[:4] == (*other[:3], other.change.partition(" (")[0]) for other in found)
        found.append(mutant._replace(change=f"{mutant.change} ({same + 1})") if same else mutant)
    return found
