# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the structure of the package: imports point down, without a circle, and the core imports no optional part."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import unittest
from functools import cache
from pathlib import Path
from typing import NamedTuple

import onnxruntime.backend
from onnxruntime.backend import optional_parts

PACKAGE = "onnxruntime.backend"
FOLDER = Path(onnxruntime.backend.__file__).parent
# The core, from the top to the bottom. A module imports modules of its layer and of the layers below it.
LAYERS = (
    "__init__",
    "backend",
    "backend_rep",
    "session",
    "runs",
    "request",
    "environment",
    "refusals",
    "allowlist",
    "advice",
    "errors",
    "optional_parts",
    "keywords",
    "provider_names",
)
# The optional parts, each with the others that it imports.
PARTS = {part.name: {*part.imports} for part in optional_parts.PARTS} | {"__main__": set()}
# google.protobuf is a requirement of onnx.
DISTRIBUTIONS = {"numpy", "onnx", "onnxruntime", "google"}
# The modules that a function may import. Other imports are at the top of a module.
IN_FUNCTIONS = {
    "unittest",
    f"{PACKAGE}.environment.variable",
    f"{PACKAGE}.refusals.suggestions",
}
# The modules and folders that import these modules. No other module does.
IMPORTED_BY = {
    # The allowlist judges names and values: it creates no session and opens no file.
    "ctypes": {"runs", "session"},
    "io": {"capture", "command_line"},
    "pathlib": {"capture", "command_line", "environment"},
    "shutil": {"command_line"},
    "subprocess": {"command_line"},
    "tempfile": {"capture", "command_line"},
    # In Python 3.11, it has a lock for each class, which a fork can leave taken.
    "functools.cached_property": set(),
    "numpy": {
        "allowlist",
        "capture",
        "command_line",
        "free_dimensions",
        "openvino",
        "runs",
    },
    "onnx": {
        "allowlist",
        "backend",
        "backend_rep",
        "capture",
        "command_line",
        "conformance",
        "free_dimensions",
        "openvino",
        "runs",
        "session",
    },
    "onnxruntime.capi": {"backend_rep", "errors", "refusals", "runs", "session"},
    "onnxruntime.InferenceSession": {
        *(
            "backend",
            "backend_rep",
            "capture",
            "free_dimensions",
            "locks",
            "openvino",
            "runs",
            "session",
        ),
    },
    # A run, and the steps of prepare, do not depend on names of options.
    f"{PACKAGE}.allowlist.providers": {
        "allowlist",
        "command_line",
        "environment",
        "refusals",
        "session",
    },
}


class Import(NamedTuple):
    name: str  # the full name of the module, or of the object in it
    in_function: bool
    line: str  # of the source
    for_types: bool  # whether only type checkers read it


@cache
def modules() -> dict[str, Path]:
    """Each module of the package by its name without the package's."""
    names = {path: list(path.relative_to(FOLDER).with_suffix("").parts) for path in FOLDER.rglob("*.py")}
    return {".".join(parts if parts[-1] != "__init__" else parts[:-1] or parts): path for path, parts in names.items()}


@cache
def imports_of(module: str) -> list[Import]:
    """The imports of a module."""
    source = modules()[module].read_text(encoding="utf-8")
    lines = source.splitlines()
    found = []

    def visit(node: ast.AST, in_function: bool, for_types: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for_types = True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            in_function = True
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            prefix = ""
            if isinstance(node, ast.ImportFrom):
                prefix = ".".join(part for part in (node.level and PACKAGE, node.module) if part) + "."
            for alias in node.names:
                found.append(Import(prefix + alias.name, in_function, lines[node.lineno - 1], for_types))
        for child in ast.iter_child_nodes(node):
            visit(child, in_function, for_types)

    visit(ast.parse(source), False, False)
    return found


def module_of(name: str) -> str | None:
    """The module of the package that an imported name belongs to."""
    parts = name.split(".")
    if parts[:2] != PACKAGE.split("."):
        return None
    for length in range(len(parts), 2, -1):
        if (found := ".".join(parts[2:length])) in modules():
            return found
    return "__init__"


def top(module: str) -> str:
    return module.partition(".")[0]


def is_within(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}.")


def each_import() -> list[tuple[str, Import]]:
    """Each import at run time, with its module."""
    return [(module, one) for module in modules() for one in imports_of(module) if not one.for_types]


class ArchitectureTest(unittest.TestCase):
    def test_every_module_has_a_place(self) -> None:
        self.assertEqual({top(module) for module in modules()}, {*LAYERS, *PARTS})

    def test_imports_point_down(self) -> None:
        own = [(module, module_of(one.name)) for module, one in each_import() if not one.in_function]
        inside = [(module, name) for module, name in own if name and top(module) in LAYERS and top(name) in LAYERS]
        self.assertTrue(inside)
        wrong = [(module, name) for module, name in inside if LAYERS.index(top(name)) < LAYERS.index(top(module))]
        self.assertEqual(wrong, [])

    def test_who_imports_an_optional_part(self) -> None:
        """The core imports none, and a part those that its row lists."""
        imported = {part: set() for part in PARTS}
        for module, one in each_import():
            part = top(module_of(one.name) or "")
            if part not in PARTS or part == top(module):
                continue
            self.assertIn(top(module), PARTS, f"{module} imports {part}")
            imported[top(module)].add(part)
        self.assertEqual(imported, PARTS)

    def test_only_the_table_names_the_parts(self) -> None:
        """In the core, no text is the name of a part or of its module, except for the keyword arguments."""
        pattern = rf"({'|'.join(PARTS)})([.:]\w+)*"
        for module, path in modules().items():
            if top(module) in LAYERS and module != "optional_parts":
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        self.assertIsNone(re.fullmatch(pattern, node.value), f"{module}: {node.value}")

    def test_no_circle(self) -> None:
        """Not even with the imports for type checkers."""
        graph = {module: {module_of(one.name) for one in imports_of(module)} - {None, module} for module in modules()}
        self.assertLessEqual({"session.opening", "request", "errors"}, graph["backend"])
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as circle:
            self.fail(" -> ".join(circle.args[1]))

    def test_requirements(self) -> None:
        known = DISTRIBUTIONS | sys.stdlib_module_names
        self.assertEqual(
            [(module, one) for module, one in each_import() if one.name.partition(".")[0] not in known],
            [],
        )

    def test_imports_in_functions(self) -> None:
        found = [(module, one) for module, one in each_import() if one.in_function]
        kinds = {one: {kind for kind in IN_FUNCTIONS if is_within(one.name, kind)} for _, one in found}
        self.assertEqual([(module, one) for module, one in found if not kinds[one]], [])
        for _, one in found:
            self.assertRegex(one.line, r"  # \w.*  # noqa: PLC0415$", "the line gives no reason")
        self.assertEqual(set().union(*kinds.values()), IN_FUNCTIONS)

    def test_who_imports_a_module(self) -> None:
        """No import is missing in the list, and no module of the list is unused."""
        for name, places in IMPORTED_BY.items():
            with self.subTest(name):
                own = is_within(name, PACKAGE)  # ``onnxruntime`` means ORT without this package
                found = {
                    module: {place for place in places if is_within(module, place)}
                    for module, one in each_import()
                    if is_within(one.name, name) and is_within(one.name, PACKAGE) == own
                }
                self.assertEqual([module for module, of in found.items() if not of], [])
                self.assertEqual(set().union(*found.values()), places)


if __name__ == "__main__":
    unittest.main()
