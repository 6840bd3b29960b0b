# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Imports the advice in errors and warnings when the first of them needs it."""

from __future__ import annotations

from functools import cache
from types import ModuleType


@cache
def suggestions() -> ModuleType:
    """Return the module ``refusals/suggestions.py``. Its import takes about a tenth of the import of the backend."""
    from onnxruntime.backend.refusals import suggestions as module  # long to import  # noqa: PLC0415

    return module
