# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Plans the runs of a session, once for all of them, and passes them to ORT, through the guard of the session if any.

If the inputs of a run need no conversion, a function calls the inner handle of the session directly. If a tracer, a
mock or a subclass replaces ``run``, it receives every run.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy import ndarray

from onnxruntime import InferenceSession, NodeArg, OrtValue, RunOptions
from onnxruntime.backend.allowlist.rules import Texts
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.limits import Limits
from onnxruntime.backend.runs.settings import Overrides, RunSettings
from onnxruntime.backend.session.creation import Guard, SessionPart
from onnxruntime.backend.session.state import generation_of, is_of_ort
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail, InvalidArgument

_RUN = InferenceSession.run
_RUN_WITH_ORT_VALUES = InferenceSession.run_with_ort_values
# Of the inputs and the run options. It returns None for inputs that it does not support.
FastRun = Callable[[Any, RunOptions], list | None]


class Plan:
    """All that the runs of one session with one run config need. It does not change: another session needs another."""

    def __init__(self, session: InferenceSession, run_config: Texts, parts: Iterable[SessionPart]) -> None:
        """Use a session, or another object with ``get_inputs`` and ``run``."""
        self.session = session
        self.generation = generation_of(session)  # first: another thread can replace the inner session
        self.is_of_ort = is_of_ort(session)
        self.inputs = ModelInputs(session)
        # Another object may have no get_outputs, which the stock backend does not need.
        outputs = session.get_outputs() if self.is_of_ort else []
        route = guard = None
        for part in parts:
            route = route or part.route(session)
            guard = part.guard(session, guard)
        self.route = route or DirectRoute(session, self.inputs, outputs, guard)
        self.overrides = Overrides(session if self.is_of_ort else None, run_config)
        self.settings = self.overrides.prepared
        self.fast_run = self.route.fast_run(self.settings)

    def run(self, inputs: object, settings: RunSettings) -> list:
        """Run without the fast path."""
        feeds = self.inputs.feeds(inputs)
        try:
            return self.route.run(feeds, settings)
        except Exception as error:
            # A session of the caller can pass its run to ORT. Its own errors are not replaced.
            if self.is_of_ort or isinstance(error, InvalidArgument):
                self.inputs.explain(error, feeds)
            raise

    def run_limited(self, inputs: object, settings: RunSettings, limits: Limits) -> list:
        """Run within limits, with separate run options and without the fast path."""
        separate = RunSettings(settings.attributes, settings.entries, settings.trusted)
        return limits.run(separate.options, self.run, inputs, separate)


def _no_fast_path(inputs: object, options: RunOptions) -> None:
    """Return ``None``, as a fast path does for inputs that it does not support."""


class DirectRoute:
    """The runs of a session without captured graphs. :class:`capture.graphs.Capture` has the same public methods."""

    def __init__(
        self, session: InferenceSession, inputs: ModelInputs, outputs: Iterable[NodeArg], guard: Guard | None
    ) -> None:
        self._session = session
        self._inputs = inputs
        self._guard = guard
        self._output_names: list[str] = []
        self._numpy_has_types = True  # of all outputs
        self._shared: list[int] = []  # the outputs that can share memory with an input: ORT 1.24 returns views
        for index, node in enumerate(outputs):
            self._output_names.append(node.name)
            self._numpy_has_types &= tensors.numpy_has_types(node.type)
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
        # A subclass can override run.
        if type(self._session) is not InferenceSession or self._shared or not self._numpy_has_types:
            return _no_fast_path
        return self._fast_path()

    def _fast_path(self) -> FastRun:
        # Local names take less time.
        session = self._session
        attributes = vars(session)
        slots = self._inputs.slots
        count = len(slots)
        outputs = self._output_names
        guard = self._guard
        compute = self._compute
        after_error = self._after_error
        array = ndarray
        ort_value = OrtValue

        def fast_run(inputs: Any, options: RunOptions) -> list | None:
            form = type(inputs)
            if form is not list and form is not tuple and form is not dict:
                inputs = (inputs,)
            if len(inputs) != count or InferenceSession.run is not _RUN or "run" in attributes:
                return None
            if form is dict:
                inputs = [inputs.get(name) for _, name, _ in slots]
            feeds = {}
            for index, name, dtype in slots:  # zip takes twice the time
                value = inputs[index]
                form = type(value)
                # numpy has one dtype object for each built-in type and byte order, so `is` compares both. ORT checks
                # the type and the shape of an OrtValue. Only InferenceSession checks the session to which it belongs.
                if (form is not array or value.dtype is not dtype) and (
                    form is not ort_value or getattr(value, "_session", None) is not None
                ):
                    return None
                feeds[name] = value
            try:
                # set_providers replaces the handle, so no local name may keep it.
                if guard is None:
                    return session._sess.run(outputs, feeds, options)
                return guard(None, compute, feeds, options)
            except Exception as error:
                return after_error(error, feeds)

        return fast_run

    def _compute(self, feeds: dict, options: RunOptions) -> list:
        return self._session._sess.run(self._output_names, feeds, options)

    def _after_error(self, error: Exception, feeds: dict) -> None:
        """Raise the error of a run, and return if ``InferenceSession.run`` would try other EPs after it."""
        if isinstance(error, EPFail):  # a caller's own session can fall back
            return
        self._inputs.explain(error, feeds)
        raise error


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
