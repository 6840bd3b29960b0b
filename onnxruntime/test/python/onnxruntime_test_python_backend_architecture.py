# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the structure of the package: imports point down, without a circle, and each folder keeps to its subject."""

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
# From the top to the bottom. A module imports modules of its layer and of the layers below it.
LAYERS = (
    "__main__",
    "command_line",
    "conformance",
    "__init__",
    "backend",
    "backend_rep",
    "session",
    "capture",
    "runs",
    "request",
    "allowlist",
    "configuration",
    "errors",
    "provider_names",
)
# google.protobuf is a requirement of onnx.
DISTRIBUTIONS = {"numpy", "onnx", "onnxruntime", "google"}
# The modules that a function may import, with the modules where it may, or None for every module.
IN_FUNCTIONS = {
    "unittest": None,
    "difflib": None,
    f"{PACKAGE}.allowlist.refusals": {"allowlist.look_up", "request"},
    f"{PACKAGE}.capture": {"session.opening", "session.parallel_models", "session.state"},
}
_FILES = {"io", "pathlib", "shutil", "subprocess", "tempfile"}
_REFUSALS = {f"{PACKAGE}.allowlist.refusals"}
# The modules that a folder or module never imports.
NEVER = {
    # Judges names and values: creates no session and opens no file.
    "allowlist": {"ctypes", "onnxruntime.capi", *_FILES},
    # The policy does not depend on the reasons of refusals.
    "allowlist.ort_options": _REFUSALS,
    "allowlist.providers": _REFUSALS,
    "allowlist.rules": _REFUSALS,
    "allowlist.value_kinds": _REFUSALS,
    # Runs a session that exists, with any EP.
    "runs": {f"{PACKAGE}.allowlist.providers", *_FILES, *_REFUSALS},
    "capture": {"subprocess", *_REFUSALS},
    "session": {"subprocess", "tempfile", *_REFUSALS},
    "request": {"onnxruntime.InferenceSession", "onnxruntime.capi", *_FILES},
    "backend": {"subprocess", "tempfile", f"{PACKAGE}.allowlist.providers", *_REFUSALS},
    "backend_rep": {f"{PACKAGE}.allowlist.providers", *_FILES, *_REFUSALS},
    "configuration": {"onnx", "onnxruntime"},
    "errors": {"onnx"},
    "provider_names": {"numpy", "onnx", "onnxruntime"},
}
# No function of these folders creates a session.
NO_SESSIONS = ("allowlist", "runs", "request", "configuration", "errors")


class Import(NamedTuple):
    name: str  # the full name of the module, or of the object in it
    in_function: bool
    line: str  # of the source


@cache
def modules() -> dict[str, Path]:
    """Each module of the package by its name without the package's."""
    names = {path: list(path.relative_to(FOLDER).with_suffix("").parts) for path in FOLDER.rglob("*.py")}
    return {".".join(parts if parts[-1] != "__init__" else parts[:-1] or parts): path for path, parts in names.items()}


def imports(source: str, package: str = PACKAGE) -> list[Import]:
    """The imports of a module, without those that only type checkers read."""
    lines = source.splitlines()
    found = []

    def visit(node: ast.AST, in_function: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = ""
            if isinstance(node, ast.ImportFrom):
                module = ".".join(part for part in (package if node.level else "", node.module) if part) + "."
            found.extend(Import(module + alias.name, in_function, lines[node.lineno - 1]) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(ast.parse(source), False)
    return found


@cache
def imports_of(module: str) -> list[Import]:
    return imports(modules()[module].read_text(encoding="utf-8"))


def module_of(name: str) -> str | None:
    """The module of the package that an imported name belongs to."""
    parts = name.split(".")
    if parts[:2] != PACKAGE.split("."):
        return None
    for length in range(len(parts), 2, -1):
        if (found := ".".join(parts[2:length])) in modules():
            return found
    return "__init__"


def layer(module: str) -> int:
    return LAYERS.index(module.partition(".")[0])


def is_within(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}.")


def is_one_of(name: str, others: set[str]) -> bool:
    """Return whether a name is in one of these modules; ``onnxruntime`` means ORT without this package."""
    return any(is_within(name, other) and is_within(name, PACKAGE) == is_within(other, PACKAGE) for other in others)


def allowed_in_function(module: str, name: str) -> bool:
    return any(is_within(name, one) and (where is None or module in where) for one, where in IN_FUNCTIONS.items())


def each_import() -> list[tuple[str, Import]]:
    return [(module, one) for module in modules() for one in imports_of(module)]


class ArchitectureTest(unittest.TestCase):
    def test_every_module_has_a_layer(self) -> None:
        self.assertEqual({module.partition(".")[0] for module in modules()}, set(LAYERS))

    def test_imports_point_down(self) -> None:
        own = [(module, module_of(one.name)) for module, one in each_import()]
        self.assertEqual([(module, name) for module, name in own if name and layer(name) < layer(module)], [])

    def test_no_circle(self) -> None:
        graph = {module: {module_of(one.name) for one in imports_of(module)} - {None, module} for module in modules()}
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as circle:
            self.fail(" -> ".join(circle.args[1]))

    def test_requirements(self) -> None:
        known = DISTRIBUTIONS | sys.stdlib_module_names
        self.assertEqual(
            [(module, one) for module, one in each_import() if one.name.partition(".")[0] not in known], []
        )

    def test_imports_in_functions(self) -> None:
        """Other imports are at the top of the module. No kind in the list is unused, and there are at most four."""
        found = [(module, one) for module, one in each_import() if one.in_function]
        self.assertEqual([(module, one) for module, one in found if not allowed_in_function(module, one.name)], [])
        for _, one in found:
            self.assertRegex(one.line, r"  # \w.*  # noqa: PLC0415$", "the line gives no reason")
        used = {kind for kind in IN_FUNCTIONS if any(is_within(one.name, kind) for _, one in found)}
        self.assertEqual(used, {*IN_FUNCTIONS})
        self.assertLessEqual(len(IN_FUNCTIONS), 4)

    def test_what_a_folder_never_imports(self) -> None:
        for place, names in NEVER.items():
            with self.subTest(place):
                self.assertTrue(any(is_within(module, place) for module in modules()))
                found = [(module, one.name) for module, one in each_import() if is_within(module, place)]
                self.assertEqual([(module, name) for module, name in found if is_one_of(name, names)], [])

    def test_no_lock_that_a_fork_can_leave_taken(self) -> None:
        """In Python 3.11, functools.cached_property has a lock for each class."""
        self.assertEqual([module for module, one in each_import() if one.name == "functools.cached_property"], [])

    def test_modules_that_create_no_session(self) -> None:
        for module, path in modules().items():
            if module.partition(".")[0] in NO_SESSIONS:
                nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                calls = {ast.unparse(node.func).rpartition(".")[2] for node in nodes if isinstance(node, ast.Call)}
                with self.subTest(module):
                    self.assertNotIn("InferenceSession", calls)


class ParsingTest(unittest.TestCase):
    """The functions above notice each kind of import."""

    def test_imports(self) -> None:
        source = """
import os.path, json
from . import request
from .runs.limits import Cancellation
if TYPE_CHECKING:
    from onnxruntime.backend.request import Request
class One:
    def call(self):
        from onnxruntime.backend import backend  # a reason  # noqa: PLC0415
"""
        self.assertEqual(
            [(one.name, one.in_function) for one in imports(source)],
            [
                ("os.path", False),
                ("json", False),
                ("onnxruntime.backend.request", False),
                ("onnxruntime.backend.runs.limits.Cancellation", False),
                ("onnxruntime.backend.backend", True),
            ],
        )

    def test_names(self) -> None:
        for function, arguments, expected in (
            (module_of, ("onnxruntime.backend.allowlist.look_up.permit",), "allowlist.look_up"),
            (module_of, ("onnxruntime.backend.allowlist",), "allowlist"),
            (module_of, ("onnxruntime.backend.request",), "request"),
            (module_of, ("onnxruntime.backend.NotPermittedError",), "__init__"),
            (module_of, ("onnxruntime.InferenceSession",), None),
            (is_one_of, ("onnxruntime.capi._pybind_state", {"onnxruntime"}), True),
            (is_one_of, (f"{PACKAGE}.errors", {"onnxruntime"}), False),
            (is_one_of, (f"{PACKAGE}.errors.show", {f"{PACKAGE}.errors"}), True),
            (is_one_of, (f"{PACKAGE}.errors_of", {f"{PACKAGE}.errors"}), False),
            (allowed_in_function, ("backend", "unittest.SkipTest"), True),
            (allowed_in_function, ("backend", "unittests"), False),
            (allowed_in_function, ("session.state", f"{PACKAGE}.capture.graphs"), True),
            (allowed_in_function, ("backend", f"{PACKAGE}.capture.graphs"), False),
        ):
            with self.subTest(function.__name__, arguments=arguments):
                self.assertEqual(function(*arguments), expected)


if __name__ == "__main__":
    unittest.main()
