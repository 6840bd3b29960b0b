# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs one test file, which can import ``helpers``: ``python onnxruntime/test/python/backend FILE ARGUMENTS``.

Python adds the folder that it runs to ``sys.path``. pytest does so because of ``pythonpath`` in ``pyproject.toml``.
"""

from __future__ import annotations

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
