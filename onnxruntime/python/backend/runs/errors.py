# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The errors of a run: those of the backend, and the classes of ORT's."""

from __future__ import annotations

from onnxruntime.backend.errors import DetailedError
from onnxruntime.capi import onnxruntime_pybind11_state


def _classes_of_ort() -> tuple[type[Exception], ...]:
    found = []
    for kind in vars(onnxruntime_pybind11_state).values():
        if isinstance(kind, type) and issubclass(kind, Exception):
            found.append(kind)
    return tuple(found)


#: The classes of ORT's errors. They derive from ``Exception`` alone.
ORT_ERRORS = _classes_of_ort()
# The errors of ORT's Python API, which raises its own and these two.
API_ERRORS: tuple[type[Exception], ...] = (*ORT_ERRORS, RuntimeError, ValueError)


class InputError(DetailedError, RuntimeError):
    """Raised if an input is missing, unknown, or has a wrong type, rank, shape or range.

    Two subclasses are also ORT's own classes.
    """

    input: str | None = None  # the input's name, None if the error concerns no single input
    expected: str = ""  # the declaration in the model
    got: str = ""  # the value


class InvalidInputError(InputError, onnxruntime_pybind11_state.InvalidArgument):
    """Raised if the stock backend raises ORT's ``InvalidArgument``."""


class FailedInputError(InputError, onnxruntime_pybind11_state.Fail):
    """Raised if the stock backend raises ORT's ``Fail``."""


class RunCancelledError(DetailedError, RuntimeError):
    """Raised if a ``Cancellation`` stopped the run. The prepared model is unchanged."""
