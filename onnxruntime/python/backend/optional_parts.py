# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The optional parts of this package. Each is a folder or a module that can be deleted.

Only this module names the parts. The core imports a part through :func:`load`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

_PACKAGE = "onnxruntime.backend"


def load(name: str) -> ModuleType | None:
    """Import a module of an optional part, or return ``None`` if this build of the backend does not contain it."""
    full_name = f"{_PACKAGE}.{name}"
    try:
        return importlib.import_module(full_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (full_name == error.name or full_name.startswith(f"{error.name}.")):
            return None
        raise


def require(name: str, purpose: str) -> ModuleType:
    """Import a module of an optional part, or raise an error that begins with the purpose."""
    module = load(name)
    if module is None:
        raise RuntimeError(f"{purpose}: this build of the backend does not contain {_PACKAGE}.{name}")
    return module
