# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs a session through the fast path, through its guards, or along the route of one of its parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import limits
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.facts import Process, SessionFacts
from onnxruntime.backend.allowlist.rules import NOTHING, Texts
from onnxruntime.backend.allowlist.tables import ENVIRONMENT, MOST_ENTRIES
from onnxruntime.backend.errors import without_frames
from onnxruntime.backend.runs import fast_path, tensors
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.run_options import RunSettings
from onnxruntime.backend.session import selection, state
from onnxruntime.backend.session.part import SessionPart
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

_FastRun = Callable  # of the inputs and the run options
_MOST_SETTINGS = 64  # of earlier runs. Each takes one or two kilobytes
_PLAIN = (bool, int, str)
_ENCODED = os.fsencode(ENVIRONMENT) if os.supports_bytes_environ else ENVIRONMENT


class DirectRoute:
    """Passes the runs of a session to ORT, through the guard of the session if it has one.

    A part of the session can have another route, with the same public methods.
    """

    def __init__(
        self,
        session: InferenceSession,
        inputs: ModelInputs,
        guard: fast_path.Guard | None,
    ) -> None:
        self._session = session
        self._guard = guard
        self._output_names: list[str] = []
        self._numpy_has_types = True  # of all outputs
        self._shared: list[int] = []  # the outputs that can share memory with an input: ORT 1.24 returns views
        self._fast_path: _FastRun = fast_path.none
        if not is_ort(session):  # it may have no get_outputs, which the stock backend does not need
            return
        for index, node in enumerate(session.get_outputs()):
            self._output_names.append(node.name)
            self._numpy_has_types &= tensors.is_plain(node.type)
            if inputs.find(node.name):
                self._shared.append(index)
        is_fast = self._numpy_has_types and not self._shared
        # A subclass of InferenceSession can override run.
        if is_fast and type(session) is InferenceSession:
            self._fast_path = fast_path.of(session, inputs, self._output_names, guard)

    def claim(self, entries: Texts) -> None:
        """Reserve the graph of a prepared model with these run config entries. This route has no graphs."""

    def lend(self, entries: Texts) -> None:
        """Reserve the graph of these run config entries for a caller's own runs. This route has no graphs."""

    def limited(self, call: RunSettings, limit: str) -> RunSettings:
        """Return the settings of a run that can be ended, or refuse the keyword argument ``limit``."""
        return call

    def fast_path(self, settings: RunSettings) -> _FastRun:
        """Return a function of the inputs and run options. It returns ``None`` for inputs that it does not support."""
        return self._fast_path

    def run(self, feeds: dict, call: RunSettings) -> list:
        """Return the outputs."""
        options = call.options
        if self._guard is None:
            outputs = self._pass_to_ort(feeds, options)
        else:
            outputs = self._guard.run(options, self._pass_to_ort, feeds, options)
        if self._shared:
            outputs = list(outputs)
        for index in self._shared:
            outputs[index] = tensors.owned(outputs[index])
        return outputs

    def _pass_to_ort(self, feeds: dict, options: RunOptions) -> list:
        if not self._numpy_has_types:
            return fast_path.with_values(self._session, feeds, self._output_names, options)
        # ORT's own backend passes None for all outputs: a tracer or a mock may check it.
        outputs = self._session.run(None, feeds, options)
        if isinstance(outputs, Mapping):
            return [outputs[node.name] for node in self._session.get_outputs()]
        return outputs


def is_ort(session: object) -> bool:
    """Return whether a session is ORT's, and not a mock or another object with ``get_inputs`` and ``run``."""
    return issubclass(type(session), InferenceSession)


@dataclass(eq=False, repr=False, slots=True)
class Runs:
    """Everything that the runs of one session need. A run uses one such object from its start to its end."""

    session: InferenceSession  # or an object with get_inputs and run
    inner: object  # differs for each inner session, which set_providers replaces
    inputs: ModelInputs
    settings: RunSettings  # the prepared ones, which those of a run override
    route: DirectRoute  # or an object of a part with the same methods
    fast_run: _FastRun = fast_path.none
    # The permitted settings of earlier runs, by the environment variable and the arguments of the run.
    settings_cache: dict[tuple | None, RunSettings] = field(default_factory=dict)

    @classmethod
    def of(cls, session: InferenceSession, run_config: Texts) -> Runs:
        """Return the runs of a session with these run config entries."""
        inner = fast_path.inner_of(session)
        needs_elements = state.of(session).needs_elements if is_ort(session) else ""
        inputs = ModelInputs(session, needs_elements)
        route = guard = None
        for part in _parts_of(session):
            route = route or part.route(session)
            guard = guard or part.guard(session)
        if route is None:
            route = DirectRoute(session, inputs, guard)
        settings = RunSettings(NOTHING, run_config)
        runs = cls(session, inner, inputs, settings, route)
        return runs.with_settings(settings)

    def are_of(self, session: object) -> bool:
        """Return whether these are the runs of a session as it is now."""
        return session is self.session and fast_path.inner_of(session) is self.inner

    def with_settings(self, settings: RunSettings) -> Runs:
        """Return a copy with these prepared settings, whose graph id, if any, is reserved."""
        self.route.claim(settings.entries)
        fast_run = self.route.fast_path(settings)
        return replace(self, settings=settings, fast_run=fast_run, settings_cache={})

    @property
    def is_ort(self) -> bool:
        """Whether the session is ORT's."""
        return is_ort(self.session)

    @without_frames
    def overridden_by(self, run_config: Mapping | None, attributes: Mapping = NOTHING) -> tuple[RunSettings, Texts]:
        """Look up the settings of one run. Return a warning, too, for each key without effect."""
        facts = SessionFacts(Process.here())
        if self.is_ort:
            facts = SessionFacts.of_session(self.session, SESSION_ATTRIBUTES)
        return self.settings.overridden_by(facts, run_config, attributes)

    def settings_of(self, run_config: Mapping | None, attributes: Mapping) -> RunSettings:
        """Look up the settings of one run, or return those of an earlier run with the same arguments."""
        if type(run_config) is dict and len(run_config) <= MOST_ENTRIES:
            run_config = run_config.copy()  # another thread may change the caller's
        key = _key(_configuration(), run_config, attributes)
        settings = self.settings_cache.get(key)
        if settings is not None:
            return settings
        settings, without_effect = self.overridden_by(run_config, attributes)
        # A setting that is ignored or has no effect is warned about each time. A file of the environment can change.
        is_ignored = len(settings.attributes) < len(attributes)
        names_file = os.environ.get(ENVIRONMENT, "").startswith("@")
        if without_effect or is_ignored or names_file:
            return settings
        if key is not None and _sends_all_texts(settings, run_config, attributes):
            if len(self.settings_cache) >= _MOST_SETTINGS:
                self.settings_cache.clear()
            self.settings_cache[key] = settings
        return settings

    def compute(self, inputs: object, call: RunSettings) -> list:
        """Run without the fast path."""
        feeds = self.inputs.feeds(inputs)
        try:
            return self.route.run(feeds, call)
        except Exception as error:
            self.blame_inputs(error, feeds)
            raise

    def blame_inputs(self, error: Exception, feeds: Mapping) -> None:
        """Raise an ``InputError`` in place of ORT's error if the inputs do not match the model."""
        # A session of the caller can pass its run to ORT. Its own errors are not replaced.
        if self.is_ort or isinstance(error, InvalidArgument):
            self.inputs.check(feeds, error)

    @without_frames
    def run_limited(
        self,
        inputs: object,
        run_config: Mapping | None,
        attributes: dict,
        timeout: object,
        cancellation: object,
    ) -> list:
        """Run within limits, with separate run options and without the fast path."""
        call, _ = self.overridden_by(run_config, attributes)
        keyword = "cancellation" if timeout is None else "timeout"
        limits.check(timeout, cancellation)
        call = self.route.limited(call, keyword)
        with limits.Limited(call.options, timeout, cancellation):
            return self.compute(inputs, call)


NOT_READY = Runs.__new__(Runs)  # of no session
NOT_READY.session = object()


def _parts_of(session: InferenceSession) -> list[SessionPart]:
    """Return the parts of a session as it is now."""
    if not is_ort(session):
        return []
    used = selection.for_session(session)
    # set_providers can have changed the EPs of the session.
    names = [part.name for part in used]
    kept = state.of(session)
    kept.keep_only(names)
    kept.let_go(session._sess)
    return used


def _configuration() -> object:
    """Return the environment variable of this package."""
    # os.environ.get raises and catches an exception for a variable that is not set, which takes a tenth of a short run.
    try:
        return os.environ._data.get(_ENCODED)  # type: ignore[attr-defined]
    except AttributeError:  # not an interface of Python
        return os.environ.get(ENVIRONMENT)


def _key(environment: object, *arguments: Mapping | None) -> tuple | None:
    """Return a key that is equal for equal arguments with values of the same plain types, ``None`` for others.

    A comparison of the keys calls no code of a caller's class.
    """
    key: list[object] = [environment]
    for argument in arguments:
        key.append(argument is None)  # where the items of the argument begin
        if argument is None:
            continue
        if type(argument) is not dict or len(argument) > MOST_ENTRIES:
            return None
        for name, value in argument.items():
            kind = type(value)
            if type(name) is not str or kind not in _PLAIN:
                return None
            key.append((name, kind, value))
    return tuple(key)


def _sends_all_texts(settings: RunSettings, *arguments: Mapping | None) -> bool:
    """Return whether ORT receives each text in the arguments. Other texts of a caller are not kept."""
    sent = set(settings.entries.values())
    sent.update(settings.attributes.values())
    for argument in filter(None, arguments):
        for value in argument.values():
            if type(value) is str and value not in sent:
                return False
    return True
