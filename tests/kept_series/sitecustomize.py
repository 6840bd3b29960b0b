# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Imports only some of ONNX's modules of node tests: those in the variable ``KEPT_SERIES``.

ONNX computes the models and the expected outputs of all node tests in each process that imports them. This takes more
CPU time than all else that such a process does. Python imports ``sitecustomize`` when it starts, if this folder is in
``PYTHONPATH``.
"""

import os
import pkgutil

_listed = pkgutil.iter_modules


def _kept(path=None, prefix=""):
    of_node_tests = path is not None and os.path.join("onnx", "backend", "test", "case", "node") in path[0]
    for module in _listed(path, prefix):
        if not of_node_tests or module.name in os.environ["KEPT_SERIES"].split():
            yield module


pkgutil.iter_modules = _kept
