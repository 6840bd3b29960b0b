# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Passes the runs of a session to ORT, through the guard of the session if it has one.

If the inputs of a run need no conversion, a function calls the inner handle of the session directly. If a tracer, a
mock or a subclass replaces ``run``, it receives every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy import ndarray

from onnxruntime import InferenceSession, NodeArg, OrtValue, RunOptions
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.settings import RunSettings
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail

_RUN = InferenceSession.run
_RUN_WITH_ORT_VALUES = InferenceSession.run_with_ort_values
# Of the inputs and the run options. It returns None for inputs that it does not support.
FastRun = Callable[[Any, RunOptions], list | None]
# Calls a function with the feeds and the run options when the run may begin. The first options can end the wait.
Guard = Callable[[RunOptions | None, Callable, dict, RunOptions], list]


def is_ort(session: object) -> bool:
    """Return whether a session is ORT's, and not a mock or another object with ``get_inputs`` and ``run``."""
    return issubclass(type(session), InferenceSession)


def generation_of(session: object) -> object:
    """Return an object that ORT replaces together with a session's inner handle, and that does not keep it alive."""
    return getattr(session, "_providers", None)


def no_fast_path(inputs: object, options: RunOptions) -> None:
    """Return ``None``, as a fast path does for inputs that it does not support."""


class DirectRoute:
    """The runs of a session without captured graphs. :class:`capture.graphs.Capture` has the same public methods."""

    def __init__(
        self, session: InferenceSession, inputs: ModelInputs, outputs: list[NodeArg], guard: Guard | None
    ) -> None:
        self._session = session
        self._inputs = inputs
        self._guard = guard
        self._output_names: list[str] = []
        self._numpy_has_types = True  # of all outputs
        self._shared: list[int] = []  # the outputs that can share memory with an input: ORT 1.24 returns views
        for index, node in enumerate(outputs):
            self._output_names.append(node.name)
            self._numpy_has_types &= tensors.is_plain(node.type)
            if inputs.find(node.name):
                self._shared.append(index)

    def run(self, feeds: dict, settings: RunSettings) -> list:
        """Return the outputs."""
        options = settings.options
        if self._guard is None:
            outputs = self._pass_to_ort(feeds, options)
        else:
            outputs = self._guard(options, self._pass_to_ort, feeds, options)
        if self._shared:
            outputs = list(outputs)
        for index in self._shared:
            outputs[index] = tensors.owned(outputs[index])
        return outputs

    def _pass_to_ort(self, feeds: dict, options: RunOptions) -> list:
        if not self._numpy_has_types:
            return _run_with_values(self._session, feeds, self._output_names, options)
        # ORT's own backend passes None for all outputs: a tracer or a mock may check it.
        outputs = self._session.run(None, feeds, options)
        if isinstance(outputs, Mapping):
            return [outputs[node.name] for node in self._session.get_outputs()]
        return outputs

    def fast_run(self, settings: RunSettings) -> FastRun:
        """Return the fast path of a prepared model with these settings."""
        session = self._session
        # A subclass can override run.
        if type(session) is not InferenceSession or self._shared or not self._numpy_has_types:
            return no_fast_path
        own = vars(session)
        # Local names take less time.
        model_inputs = self._inputs
        outputs = self._output_names
        guard = self._guard
        slots = model_inputs.slots
        count = len(slots)
        array = ndarray
        ort_value = OrtValue

        def fast_run(inputs: Any, options: RunOptions) -> list | None:
            form = type(inputs)
            if form is not list and form is not tuple:
                if form is not dict:
                    inputs = (inputs,)
                elif len(inputs) == count:
                    inputs = [inputs.get(name) for _, name, _ in slots]
                else:
                    return None
            if len(inputs) != count or InferenceSession.run is not _RUN or "run" in own:
                return None
            feeds = {}
            for index, name, dtype in slots:  # zip takes twice the time
                value = inputs[index]
                form = type(value)
                # numpy has one dtype object for each built-in type and byte order, so `is` compares both. ORT checks
                # the type and the shape of an OrtValue. Only InferenceSession checks the session to which it belongs.
                if form is array:
                    if value.dtype is not dtype:
                        return None
                elif form is not ort_value or getattr(value, "_session", None) is not None:
                    return None
                feeds[name] = value
            try:
                # set_providers replaces the handle, so no local name may keep it.
                if guard is None:
                    return session._sess.run(outputs, feeds, options)
                return guard(None, compute, feeds, options)
            except EPFail:
                return None  # a caller's own session can fall back, which InferenceSession.run does
            except Exception as error:
                model_inputs.check(feeds, error)
                raise

        def compute(feeds: dict, options: RunOptions) -> list:
            return session._sess.run(outputs, feeds, options)

        return fast_run


def _run_with_values(session: InferenceSession, feeds: Mapping, outputs: list[str], options: RunOptions) -> list:
    """Run a session with outputs of types that numpy does not have. A feed is ``None`` for an absent optional."""
    values = {}
    for name, value in feeds.items():
        if isinstance(value, OrtValue):
            values[name] = value
        elif value is not None:
            values[name] = OrtValue.ortvalue_from_numpy(value)

    # ORT's own method checks whether the values belong to another session, and calls the inner handle.
    method = getattr(session.run_with_ort_values, "__func__", None)
    sessions = [getattr(value, "_session", None) for value in values.values()]
    if method is _RUN_WITH_ORT_VALUES and not any(sessions):
        inner = {name: value._ortvalue for name, value in values.items()}
        vector = session._sess.run_with_ort_values(inner, outputs, options)
        # pybind11's iterator ends with a C++ exception, which takes 100 us.
        results = [OrtValue(vector[index]) for index in range(len(vector))]
    else:
        results = session.run_with_ort_values(outputs, values, options)
    return [tensors.to_array(value) for value in results]
