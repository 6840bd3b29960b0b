# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""ONNX's backend API on top of ONNX Runtime."""

from typing import TYPE_CHECKING

from . import optional_parts
from .backend import is_compatible, prepare, run, supports_device
from .errors import NotPermittedError, WrongTypeError
from .runs.errors import InputError, RunCancelledError

__version__ = "1.1"

# For help(), which lists the modules only otherwise.
__all__ = [
    "InputError",
    "NotPermittedError",
    "RunCancelledError",
    "WrongTypeError",
    "is_compatible",
    "prepare",
    "run",
    "supports_device",
]

_limits = optional_parts.for_keyword("cancellation")
if TYPE_CHECKING:
    from .limits import Cancellation
elif _limits is not None:
    Cancellation = _limits.Cancellation
    __all__ += ["Cancellation"]
