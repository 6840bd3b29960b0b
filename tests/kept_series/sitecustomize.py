# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Imports only some of ONNX's modules of node tests: those in the variable ``KEPT_SERIES``.

ONNX computes the models and the expected outputs of all node tests in each process that imports them. This takes more
CPU time than all else that such a process does. Python imports ``sitecustomize`` when it starts, if this folder is in
``PYTHONPATH``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

_LOADER = "onnx.backend.test.loader"


class KeptSeries:
    """An import hook: the loader of ONNX's tests imports the modules in ``KEPT_SERIES`` only."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != _LOADER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            module.import_recursive = lambda package: [
                importlib.import_module(f"{package.__name__}.{name}") for name in os.environ["KEPT_SERIES"].split()
            ]

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, KeptSeries())
