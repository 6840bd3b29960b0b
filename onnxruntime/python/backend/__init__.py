# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""ONNX's backend API on top of ONNX Runtime."""

from .backend import is_compatible, prepare, run, supports_device  # noqa: F401
from .errors import InputError, NotPermittedError, RunCancelledError  # noqa: F401
from .runs.limits import Cancellation  # noqa: F401
