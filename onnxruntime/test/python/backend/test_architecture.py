# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the structure of the package: imports point down, without a circle."""

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
    "waiting",
)
# google.protobuf is a requirement of onnx.
DISTRIBUTIONS = {"numpy", "onnx", "onnxruntime", "google"}
# The modules that a function may import, because few calls need them. Other imports are at the top of a module.
IN_FUNCTIONS = {
    "difflib",
    "mmap",
    "unittest",
    f"{PACKAGE}.capture.sessions",
    f"{PACKAGE}.locks",
    f"{PACKAGE}.openvino.sessions",
}
# The modules that a layer does not import.
NEVER = {
    # It checks names and values: it creates no session, and opens no file that a setting names.
    "allowlist": {"ctypes", "importlib", "io", "pathlib", "subprocess", "tempfile", "onnxruntime.InferenceSession"},
    # The steps of prepare, and a run, do not depend on names of options.
    "backend": {f"{PACKAGE}.allowlist.tables.PROVIDERS"},
    "runs": {f"{PACKAGE}.allowlist.tables.PROVIDERS"},
    # In Python 3.11, it has a lock for each class, which a fork or an interrupt can leave taken.
    "": {"functools.cached_property", "typing.TYPE_CHECKING"},
}


class Import(NamedTuple):
    module: str  # that imports
    name: str  # the full name of the imported module, or of the object in it
    is_late: bool  # in a function


@cache
def modules() -> dict[str, Path]:
    """Each module of the package by its name without the package's."""
    names = {}
    for path in FOLDER.rglob("*.py"):
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        names[name.removesuffix(".__init__")] = path
    return names


@cache
def imports() -> list[Import]:
    found = []
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            prefix = ""
            if isinstance(node, ast.ImportFrom):
                prefix = ".".join(part for part in (node.level and PACKAGE, node.module) if part) + "."
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                # The whole program of __main__ is in a try statement.
                is_late = node.col_offset > 0 and module != "__main__"
                found += [Import(module, prefix + alias.name, is_late) for alias in node.names]
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


class ArchitectureTest(unittest.TestCase):
    def test_every_module_has_a_layer(self):
        self.assertEqual({layer_of(module) for module in modules()}, {*LAYERS})

    def test_imports_point_down(self):
        upward = []
        for one in imports():
            imported = module_of(one.name)
            if imported and LAYERS.index(layer_of(imported)) < LAYERS.index(layer_of(one.module)):
                upward.append(one)
        self.assertEqual(upward, [])

    def test_no_circle(self):
        graph: dict[str, set] = {}
        for one in imports():
            if not one.is_late:
                graph.setdefault(one.module, set()).add(module_of(one.name))
        self.assertLessEqual({"session.creation", "request", "errors"}, graph["backend"])
        for module, imported in graph.items():
            imported -= {None, module}
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as circle:
            self.fail(" -> ".join(circle.args[1]))

    def test_requirements(self):
        known = DISTRIBUTIONS | sys.stdlib_module_names
        self.assertEqual([one for one in imports() if one.name.partition(".")[0] not in known], [])

    def test_imports_in_functions(self):
        late = [one for one in imports() if one.is_late]
        unknown = [one for one in late if not any(is_within(one.name, name) for name in IN_FUNCTIONS)]
        unused = [name for name in IN_FUNCTIONS if not any(is_within(one.name, name) for one in late)]
        self.assertEqual((unknown, unused), ([], []))

    def test_modules_that_a_layer_never_imports(self):
        for layer, names in NEVER.items():
            found = [
                one
                for one in imports()
                if layer in ("", layer_of(one.module)) and any(is_within(one.name, name) for name in names)
            ]
            self.assertEqual((layer, found), (layer, []))


if __name__ == "__main__":
    unittest.main()
