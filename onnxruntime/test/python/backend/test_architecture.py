# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the structure of the package: imports point down, without a circle."""

from __future__ import annotations

import ast
import graphlib
import sys
import unittest
from functools import cache
from pathlib import Path
from typing import NamedTuple

import onnxruntime.backend

PACKAGE = "onnxruntime.backend"
FOLDER = Path(onnxruntime.backend.__file__).parent
# From the top to the bottom: each folder, and each module beside the folders. A module imports modules of its own layer
# and of the layers below it.
LAYERS = (
    "__main__",
    "command_line",
    "comparison",
    "conformance",
    "__init__",
    "backend",
    "backend_rep",
    "parts",
    "capture",
    "openvino",
    "locks",
    "applied",
    "runs",
    "session",
    "explanations",
    "libraries",
    "request",
    "environment",
    "allowlist",
    "errors",
    "packages",
    "provider_names",
)
# google.protobuf is a requirement of onnx.
DISTRIBUTIONS = {"numpy", "onnx", "onnxruntime", "google"}
# The modules that a function may import, because few calls need them. Other imports are at the top of a module.
IN_FUNCTIONS = {
    "difflib",
    "unittest",
    f"{PACKAGE}.capture.sessions",
    f"{PACKAGE}.locks",
    f"{PACKAGE}.openvino.sessions",
}
# The modules that a layer does not import.
NEVER = {
    # It judges names and values: it creates no session and opens no file.
    "allowlist": {"ctypes", "importlib", "io", "pathlib", "subprocess", "tempfile", "onnxruntime.InferenceSession"},
    # The steps of prepare, and a run, do not depend on names of options.
    "backend": {f"{PACKAGE}.allowlist.providers"},
    "runs": {f"{PACKAGE}.allowlist.providers"},
    # In Python 3.11, it has a lock for each class, which a fork or an interrupt can leave taken.
    "": {"functools.cached_property"},
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


def layer_of(module: str) -> str:
    return module.partition(".")[0]


def is_within(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}.")


def each_import() -> list[tuple[str, Import]]:
    """Each import at run time, with its module."""
    return [(module, one) for module in modules() for one in imports_of(module) if not one.for_types]


class ArchitectureTest(unittest.TestCase):
    def test_every_module_has_a_room(self):
        self.assertEqual({layer_of(module) for module in modules()}, {*LAYERS})

    def test_imports_point_down(self):
        upward = set()
        for module, one in each_import():
            imported = module_of(one.name)
            if imported and LAYERS.index(layer_of(imported)) < LAYERS.index(layer_of(module)):
                upward.add((module, imported))
        self.assertEqual(upward, set())

    def test_no_circle(self):
        """Not even with the imports for type checkers."""
        graph = {}
        for module in modules():
            imported = {module_of(one.name) for one in imports_of(module) if not one.in_function}
            graph[module] = imported - {None, module}
        self.assertLessEqual({"session.creation", "request", "errors"}, graph["backend"])
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as circle:
            self.fail(" -> ".join(circle.args[1]))

    def test_requirements(self):
        known = DISTRIBUTIONS | sys.stdlib_module_names
        self.assertEqual(
            [(module, one) for module, one in each_import() if one.name.partition(".")[0] not in known], []
        )

    def test_imports_in_functions(self):
        found = [(module, one) for module, one in each_import() if one.in_function]
        kinds = {one: {kind for kind in IN_FUNCTIONS if is_within(one.name, kind)} for _, one in found}
        self.assertEqual([(module, one) for module, one in found if not kinds[one]], [])
        for _, one in found:
            self.assertRegex(one.line, r"  # \w.*  # noqa: PLC0415$", "the line gives no reason")
        self.assertEqual(set().union(*kinds.values()), IN_FUNCTIONS)

    def test_modules_that_a_room_never_imports(self):
        imported = {one.name for _, one in each_import()}
        for layer, names in NEVER.items():
            for name in names:
                of = [
                    module
                    for module, one in each_import()
                    if is_within(one.name, name) and layer in ("", layer_of(module))
                ]
                self.assertEqual((name, of), (name, []))
        others = {name for layer, names in NEVER.items() if layer for name in names}
        self.assertEqual([name for name in others if not any(is_within(one, name) for one in imported)], [])


if __name__ == "__main__":
    unittest.main()
