# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""ORT's own exceptions in other words: of the class that ORT raises, and a ``RuntimeError`` as well.

ORT's classes, such as ``InvalidArgument`` and ``Fail``, derive from ``Exception`` alone. Callers of the stock backend
catch them; the rest of the backend API raises ``RuntimeError``.
"""

from __future__ import annotations

from functools import cache

from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument


def reworded(kind: type[Exception], message: str) -> RuntimeError:
    """Make an exception.

    :param kind: the class that ORT raised, or would have; of any other class than ORT's nothing is kept.
    :param message: what it says.
    """
    return (
        _also_runtime_error(kind)(message) if kind.__module__ == InvalidArgument.__module__ else RuntimeError(message)
    )


@cache
def _also_runtime_error(kind: type[Exception]) -> type[RuntimeError]:
    # Pickled by what it is made of, for callers in another process.
    members = {"__module__": kind.__module__, "__reduce__": lambda error: (reworded, (kind, *error.args))}
    return type(kind.__name__, (kind, RuntimeError), members)
