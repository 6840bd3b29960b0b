# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reads ONNX's node tests from a file, in each Python process that has this folder in ``PYTHONPATH``.

ONNX computes the models and the expected outputs of its node tests in each process that imports them. This takes more
CPU time than all else that such a process does. The first process writes the tests into a file in ``build``, and later
processes read this file. The file contains all tests, unchanged. Python imports ``sitecustomize`` when it starts.

If the variable ``KEPT_SERIES`` is set, it lists ONNX's modules of node tests that the process imports, and the process
reads no file. A test runner needs more time to collect all tests than to run a few.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import platform
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_LOADER = "onnx.backend.test.loader"


class KeptSeries:
    """An import hook: the loader of ONNX's tests reads the node tests from the file if there is one."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != _LOADER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            selected = os.environ.get("KEPT_SERIES", "").split()
            if selected:
                module.import_recursive = lambda package: [
                    importlib.import_module(f"{package.__name__}.{name}") for name in selected
                ]
            else:
                module.load_node_model_tests = _kept(module.load_node_model_tests)

        spec.loader.exec_module = exec_module
        return spec


def _kept(create: Callable[[], list]) -> Callable[[], list]:
    def load() -> list:
        import numpy  # only in a process that imports ONNX's tests  # noqa: PLC0415
        import onnx  # noqa: PLC0415

        releases = "-".join((onnx.__version__, numpy.__version__, platform.python_version()))
        path = Path(__file__).resolve().parents[2] / "build" / f"onnx-series-{releases}.pickle"
        if path.exists():
            return pickle.loads(path.read_bytes())
        tests = create()
        # Without permission to write, each process computes the tests.
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_bytes(pickle.dumps(tests))
            unfinished.replace(path)
        return tests

    return load


sys.meta_path.insert(0, KeptSeries())
