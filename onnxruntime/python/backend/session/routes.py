# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Chooses how a session runs: through the fast path, under a lock, by capture and replay, or with a replacement."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.allowlist.ort_options import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.rules import NOTHING, Circumstances
from onnxruntime.backend.errors import reject
from onnxruntime.backend.request import MOST_ENTRIES
from onnxruntime.backend.runs import fast_path, tensors
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.limits import Limited
from onnxruntime.backend.runs.run_options import RunSettings
from onnxruntime.backend.session import state
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

if TYPE_CHECKING:
    from onnxruntime.backend.capture.graphs import Capture
    from onnxruntime.backend.locks import SessionLock
    from onnxruntime.backend.openvino.run_order import RunOrder

_MOST_SETTINGS = 64  # of earlier runs. Each takes one or two kilobytes
_LONGEST_KEPT = 256  # of a name or text in their arguments


@dataclass(eq=False, repr=False, slots=True)
class Runs:
    """Everything that the runs of one session need. A run uses one such object from its start to its end."""

    session: object
    inner: object = None  # differs for each inner session, which set_providers replaces
    inputs: ModelInputs | None = None
    output_names: list[str] = field(default_factory=list)
    settings: RunSettings | None = None  # the prepared ones, which those of a run override
    capture: Capture | None = None
    lock: SessionLock | None = None
    guard: SessionLock | RunOrder | None = None  # the lock, or the order of runs on OpenVINO
    plain: bool = True  # whether numpy has the types of all outputs
    shared: frozenset[int] = frozenset()  # the outputs that can share memory with an input
    # The fast path, which returns None for inputs that it does not support.
    fast_run: Callable[[object, RunOptions], list | None] = lambda inputs, options: None
    settings_cache: dict[bytes, RunSettings] = field(default_factory=dict)  # the permitted settings of earlier runs

    @classmethod
    def of(cls, session: object, run_config: Mapping[str, str]) -> Runs:
        """Return the runs of a session with these run config entries."""
        output_names = [node.name for node in session.get_outputs()]
        runs = cls(session, fast_path.inner_of(session), ModelInputs(session), output_names)
        if runs.is_ort:
            runs._choose_route()
        return runs.with_settings(RunSettings(NOTHING, run_config))

    def _choose_route(self) -> None:
        session = self.session
        session_state = state.of(session)
        self.capture, self.lock = session_state.capture_of(session), session_state.lock_of(session)
        if self.capture is not None:
            return
        self.guard = self.lock or session_state.order_of(session)
        self.plain = all(tensors.is_plain(node.type) for node in session.get_outputs())
        if self.plain:
            self.shared = self.inputs.returned_as(self.output_names)
        # A subclass of InferenceSession can override run.
        if self.plain and not self.shared and type(session) is InferenceSession:
            self.fast_run = fast_path.of(session, self.inputs.slots, self.output_names, self.guard)

    def are_of(self, session: object) -> bool:
        """Return whether these are the runs of a session as it is now."""
        return session is self.session and fast_path.inner_of(session) is self.inner

    def with_settings(self, settings: RunSettings) -> Runs:
        """Return a copy with these prepared settings, whose graph id, if any, is reserved."""
        fast_run = self.fast_run
        if self.capture is not None:
            self.capture.claim(settings.entries)
            if type(self.session) is InferenceSession:
                fast_run = self.capture.fast_path(settings)
        return replace(self, settings=settings, fast_run=fast_run, settings_cache={})

    @property
    def is_ort(self) -> bool:
        """Whether the session is ORT's, and not a mock or another object with ``get_inputs`` and ``run``."""
        return issubclass(type(self.session), InferenceSession)

    @property
    def circumstances(self) -> Circumstances:
        """The circumstances of a run's settings, read only for settings that no earlier run had."""
        return Circumstances.of_session(self.session, SESSION_ATTRIBUTES) if self.is_ort else Circumstances.expected(())

    def settings_of(self, run_config: Mapping[str, object] | None, attributes: dict[str, object]) -> RunSettings:
        """Look up the settings of one run, or return those of an earlier run with the same arguments."""
        if type(run_config) is dict and len(run_config) <= MOST_ENTRIES:
            run_config = run_config.copy()  # another thread may change the caller's
        key = _key(run_config, attributes)
        if (found := self.settings_cache.get(key)) is not None:
            return found
        settings, without_effect = self.settings.overridden_by(self.circumstances, run_config, attributes)
        # A setting that is ignored or has no effect is warned about each time.
        if key and not without_effect and len(settings.attributes) == len(attributes):
            # No text of the caller is kept, except for text that ORT receives.
            permitted = {*settings.entries.values(), *settings.attributes.values()}
            values = (*(run_config or NOTHING).values(), *attributes.values())
            if all(type(value) is not str or value in permitted for value in values):
                if len(self.settings_cache) >= _MOST_SETTINGS:
                    self.settings_cache.clear()
                self.settings_cache[key] = settings
        return settings

    def compute(self, inputs: object, call: RunSettings) -> list:
        """Run without the fast path."""
        feeds = self.inputs.feeds(inputs)
        try:
            if self.capture is not None:
                return self.capture.run(feeds, call)
            if self.guard is None:
                outputs = self._run(feeds, call.options)
            else:
                outputs = self.guard.run(call.options, self._run, feeds, call.options)
        except Exception as error:
            self.blame_inputs(error, feeds)
            raise
        if not self.shared:
            return outputs
        return [tensors.owned(output) if index in self.shared else output for index, output in enumerate(outputs)]

    def _run(self, feeds: dict[str, object], options: RunOptions) -> list:
        if not self.plain:
            return fast_path.with_values(self.session, feeds, self.output_names, options)
        # ORT's own backend passes None for all outputs: a tracer or a mock may check it.
        outputs = self.session.run(None, feeds, options)
        return [outputs[name] for name in self.output_names] if isinstance(outputs, Mapping) else outputs

    def blame_inputs(self, error: Exception, feeds: Mapping[str, object]) -> None:
        """Raise an ``InputError`` in place of ORT's error if the inputs do not match the model."""
        # A session of the caller can pass its run to ORT. Its own errors are not replaced.
        of_ort = self.is_ort or isinstance(error, InvalidArgument)
        if of_ort and (problem := self.inputs.problem(feeds, type(error))):
            raise problem from error

    def run_limited(
        self,
        inputs: object,
        run_config: Mapping[str, object] | None,
        attributes: Mapping[str, object],
        timeout: object,
        cancellation: object,
    ) -> list:
        """Run within limits, with separate run options and without the fast path."""
        call, _ = self.settings.overridden_by(self.circumstances, run_config, attributes)
        replays = self.capture is not None and self.capture.replays(call.entries)
        if self.capture is not None:
            call = self.capture.ordinary(call)
        limited = Limited(call.options, timeout, cancellation)
        if replays:
            limit = "cancellation" if timeout is None else "timeout"
            reject("a replay cannot be ended. Add run_config={'gpu_graph_id': -1} for a run without capture", limit)
        with limited:
            return self.compute(inputs, call)


NOT_READY = Runs(object())


def _key(*arguments: object) -> bytes:
    """Return bytes that are equal for equal ``dict`` of plain values of the same types only; ``b""`` for others.

    Unlike a comparison, this calls no code of a caller's class. ``marshal`` would, and never ends for some lists.
    """
    for given in arguments:
        if given is not None and (type(given) is not dict or len(given) > MOST_ENTRIES):
            return b""
        for key, value in given.items() if given else ():
            kind = type(value)
            short = kind is int or kind is bool or (kind is str and len(value) <= _LONGEST_KEPT)
            if type(key) is not str or len(key) > _LONGEST_KEPT or not short:
                return b""
    return marshal.dumps(arguments, 2)  # later versions depend on reference counts
