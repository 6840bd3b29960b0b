# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""ONNX's backend API on top of ONNX Runtime."""

from .backend import is_compatible, prepare, run, supports_device
from .errors import InputError, NotPermittedError, RunCancelledError, WrongTypeError
from .runs.limits import Cancellation

__version__ = "1.1"

# Programs catch them by these names.
for _class in (Cancellation, InputError, NotPermittedError, RunCancelledError, WrongTypeError):
    _class.__module__ = __name__

# For help(), which lists the modules only otherwise.
__all__ = [
    "Cancellation",
    "InputError",
    "NotPermittedError",
    "RunCancelledError",
    "WrongTypeError",
    "is_compatible",
    "prepare",
    "run",
    "supports_device",
]
