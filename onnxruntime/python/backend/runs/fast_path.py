# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Fast path for runs whose inputs need no conversion: it calls the inner handle of the session directly.

If a tracer, a mock or a subclass replaces ``run``, it receives every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy import ndarray

from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.inputs import ModelInputs

_RUN = InferenceSession.run
_RUN_WITH_ORT_VALUES = InferenceSession.run_with_ort_values


class Guard(Protocol):
    """Decides when a run may begin."""

    def run(
        self,
        waiting: RunOptions | None,
        compute: Callable,
        feeds: dict,
        options: RunOptions,
        /,
    ) -> list:
        """Return the outputs of ``compute``. ``waiting`` can end the wait."""


def none(inputs: object, options: RunOptions) -> None:
    """Return ``None``, as a fast path does for inputs that it does not support."""


def inner_of(session: object) -> object:
    """Return an object that ORT replaces together with a session's inner handle, and that does not keep it alive."""
    if isinstance(session, InferenceSession):
        return getattr(session, "_providers", None)
    return None


def of(
    session: InferenceSession,
    inputs_of_model: ModelInputs,
    outputs: list[str],
    lock: Guard | None,
) -> Callable:
    """Return a function of the inputs and the run options. It returns the outputs, or ``None`` if it cannot run them.

    The session is exactly an :class:`InferenceSession`, and numpy has the types of all of its outputs. On a device, it
    has a ``SessionLock``.
    """
    own = vars(session)
    inner = own.get("_providers")
    # Local names take less time.
    slots = inputs_of_model.slots
    count = len(slots)
    checks_elements = inputs_of_model.checks_elements
    array = ndarray
    ort_value = OrtValue

    def run(inputs: Any, options: RunOptions) -> list | None:
        kind = type(inputs)
        if kind is not list and kind is not tuple:
            if kind is not dict:
                inputs = (inputs,)
            elif len(inputs) == count:
                inputs = [inputs.get(name) for _, name, _ in slots]
            else:
                return None
        if (
            len(inputs) != count
            or InferenceSession.run is not _RUN
            or "run" in own
            or own["_providers"] is not inner  # set_providers replaced the handle, perhaps with another EP's
        ):
            return None
        feeds = {}
        for index, name, dtype in slots:  # zip takes twice the time
            value = inputs[index]
            kind = type(value)
            # numpy has one dtype object for each built-in type and byte order, so `is` compares both. ORT checks the
            # type and the shape of an OrtValue. Only InferenceSession checks whether it belongs to another session.
            if kind is array:
                if value.dtype is not dtype or (checks_elements and not value.size):
                    return None
            elif kind is not ort_value or getattr(value, "_session", None) is not None:
                return None
            elif checks_elements and tensors.lack_elements([value]):
                return None
            feeds[name] = value
        # set_providers replaces the handle, so no local name may keep it.
        if lock is None:
            return session._sess.run(outputs, feeds, options)
        return lock.run(None, compute, feeds, options)

    def compute(feeds: dict, options: RunOptions) -> list:
        return session._sess.run(outputs, feeds, options)

    return run


def with_values(
    session: InferenceSession,
    feeds: Mapping,
    outputs: list[str],
    options: RunOptions,
) -> list:
    """Run a session with outputs of types that numpy does not have. A feed is ``None`` for an absent optional."""
    values = {}
    for name, value in feeds.items():
        if isinstance(value, OrtValue):
            values[name] = value
        elif value is not None:
            values[name] = OrtValue.ortvalue_from_numpy(value)

    if _only_calls_ort(session, values):
        inner = {name: value._ortvalue for name, value in values.items()}
        vector = session._sess.run_with_ort_values(inner, outputs, options)
        # pybind11's iterator ends with a C++ exception, which takes 100 us.
        results = [OrtValue(vector[index]) for index in range(len(vector))]
    else:
        results = session.run_with_ort_values(outputs, values, options)
    return [tensors.to_array(value) for value in results]


def _only_calls_ort(session: InferenceSession, values: dict[str, OrtValue]) -> bool:
    """Return whether ``run_with_ort_values`` is ORT's own method, and only passes the values to the inner handle."""
    method = session.run_with_ort_values
    if getattr(method, "__func__", None) is not _RUN_WITH_ORT_VALUES:
        return False
    return all(getattr(value, "_session", None) is None for value in values.values())
