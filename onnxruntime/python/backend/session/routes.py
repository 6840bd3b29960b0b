# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Chooses how a session runs: through the fast path, under a lock, by capture and replay, or with a replacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.allowlist import circumstances
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.circumstances import NOTHING, Circumstances
from onnxruntime.backend.errors import reject
from onnxruntime.backend.provider_names import ON_ANY_DEVICE
from onnxruntime.backend.runs import fast_path, run_options, tensors
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.limits import Limited
from onnxruntime.backend.runs.run_options import NO_SETTINGS, RunSettings
from onnxruntime.backend.session import replacement

if TYPE_CHECKING:
    from onnxruntime.backend.capture.graphs import Capture
    from onnxruntime.backend.capture.locks import SessionLock

# The types whose equal values are the same value, unlike 0.0 and -0.0.
_COMPARABLE = frozenset({str, int, bool})
_MOST_KEPT = 64


@dataclass(eq=False)
class Runs:
    """Everything that the runs of one session need. A run uses one such object from its start to its end."""

    session: object
    inner: object = None
    """Differs for each inner session, which ``set_providers`` replaces."""
    inputs: ModelInputs | None = None
    settings: RunSettings = NO_SETTINGS
    """The settings of every run."""
    capture: Capture | None = None
    lock: SessionLock | None = None
    direct: Callable[[object, RunOptions], list | None] = fast_path.none
    """The fast path; it returns ``None`` for inputs that it does not support."""
    route: Callable[[Runs, dict[str, object], RunSettings], list] | None = None
    kept: dict[tuple, RunSettings] = field(default_factory=dict)
    """The permitted settings of earlier runs."""

    @classmethod
    def of(cls, session: object, run_config: Mapping[str, str]) -> Runs:
        """Return the runs of a session with these run config entries."""
        settings = RunSettings(NOTHING, run_config) if run_config else NO_SETTINGS
        runs = cls(session, fast_path.inner_of(session), ModelInputs(session), settings, route=_run_session)
        if runs.is_ort:
            runs._choose_route()
        return runs.with_settings(settings)

    def _choose_route(self) -> None:
        session = self.session
        plain = all(tensors.is_plain(node.type) for node in session.get_outputs())  # numpy has these types
        # Also for a session that captured before set_providers: its graphs are released under the lock.
        if not ON_ANY_DEVICE.issuperset(session.get_providers()) or "_graph_capture" in vars(session):
            from onnxruntime.backend.capture import graphs, locks  # only for EPs on a device  # noqa: PLC0415

            self.capture, self.lock = graphs.of(session), locks.of(session)
        if self.capture is not None:
            self.route = _run_captured
            return
        if not plain:
            self.route = _run_values
        if self.lock is not None:
            self.route = partial(_run_locked, self.route)
        # A subclass of InferenceSession can override run.
        if plain and type(session) is InferenceSession:
            self.direct = fast_path.of(session, self.inputs.slots, self.output_names, self.lock)
        watched = replacement.of(session)
        if watched is not None:
            direct, route = self.direct, self.route
            self.direct = lambda inputs, options: watched.run(session, None, direct, inputs, options)
            self.route = lambda runs, feeds, call: watched.run(session, call.options, route, runs, feeds, call)
        shared = self.inputs.returned_as(self.output_names)
        if plain and shared:
            self.direct, self.route = fast_path.none, partial(_run_copying, self.route, shared)

    def are_of(self, session: object) -> bool:
        """Return whether these are the runs of a session as it is now."""
        return session is self.session and fast_path.inner_of(session) is self.inner

    def with_settings(self, settings: RunSettings) -> Runs:
        """Return the same runs with these settings."""
        direct = self.direct
        if self.capture is not None:
            self.capture.claim(settings.entries)
            if type(self.session) is InferenceSession:
                direct = self.capture.fast_path(self.session, settings.entries, settings.options)
        return replace(self, settings=settings, direct=direct, kept={})

    @property
    def is_ort(self) -> bool:
        """Whether the session is ORT's, and not a mock or another object with ``get_inputs`` and ``run``."""
        return issubclass(type(self.session), InferenceSession)

    @cached_property
    def output_names(self) -> list[str]:
        return [node.name for node in self.session.get_outputs()]

    @cached_property
    def circumstances(self) -> Circumstances:
        if not self.is_ort:
            return circumstances.expected(())
        return circumstances.of_session(self.session, SESSION_ATTRIBUTES)

    def permitted(
        self, run_config: Mapping[str, object] | None, attributes: Mapping[str, object]
    ) -> tuple[RunSettings, dict[str, str]]:
        """Look up the settings of one run. See :func:`run_options.permitted`."""
        return run_options.permitted(self.settings, self.circumstances, run_config, attributes)

    def settings_of(self, run_config: Mapping[str, object] | None, attributes: dict[str, object]) -> RunSettings:
        """Look up the settings of one run, or return those of an earlier run with the same arguments."""
        if run_config is not None and type(run_config) is not dict:
            return self.permitted(run_config, attributes)[0]
        config = {} if run_config is None else run_config.copy()  # another thread may change the caller's
        given = (run_config is None, len(config), *config, *config.values(), *attributes, *attributes.values())
        # Only exact types: a subclass could claim to equal anything. True equals 1, so the types are part of the key.
        types = tuple(map(type, given))
        comparable = _COMPARABLE.issuperset(types)
        if comparable and (found := self.kept.get((types, given))) is not None:
            return found
        settings, without_effect = self.permitted(None if run_config is None else config, attributes)
        # A setting that is ignored or has no effect is warned about each time.
        without_warning = not without_effect and len(settings.attributes) == len(attributes)
        texts = map(str, (*chain(*settings.entries.items()), *chain(*settings.attributes.items())))
        # No text of the caller is kept, except for text that ORT receives.
        if comparable and without_warning and {*texts}.issuperset(one for one in given if type(one) is str):
            if len(self.kept) >= _MOST_KEPT:
                self.kept.clear()
            self.kept[types, given] = settings
        return settings

    def blame_inputs(self, error: Exception, feeds: Mapping[str, object]) -> None:
        """Raise an ``InputError`` in place of ORT's error if the inputs do not match the model."""
        problem = self.inputs.problem(feeds, type(error)) if self.is_ort else None
        if problem:
            raise problem from error

    def run_limited(
        self,
        inputs: object,
        run_config: Mapping[str, object] | None,
        attributes: Mapping[str, object],
        timeout: object = None,
        cancellation: object = None,
    ) -> list:
        """Run within limits, with separate run options and without the fast path."""
        call, _ = self.permitted(run_config, attributes)
        limited = Limited(call.options, timeout, cancellation)
        if self.capture is not None and self.capture.replays(call.entries):
            reject(
                "a replay cannot be ended. Add run_config={'gpu_graph_id': -1} for a run without capture",
                "cancellation" if timeout is None else "timeout",
            )
        feeds = self.inputs.feeds(inputs)
        with limited:
            try:
                if self.capture is not None:
                    return self.capture.run(self.session, feeds, call.attributes, call.entries, call.options)
                return self.route(self, feeds, call)
            except Exception as error:
                self.blame_inputs(error, feeds)
                raise


NOT_READY = Runs(object())


# The routes of a run.


def _run_session(runs: Runs, feeds: dict[str, object], call: RunSettings) -> list:
    # ORT's own backend passes None for all outputs: a tracer or a mock may check it.
    outputs = runs.session.run(None, feeds, call.options)
    return [outputs[name] for name in runs.output_names] if isinstance(outputs, Mapping) else outputs


def _run_values(runs: Runs, feeds: dict[str, object], call: RunSettings) -> list:
    return fast_path.with_values(runs.session, feeds, runs.output_names, call.options)


def _run_locked(route: Callable, runs: Runs, feeds: dict[str, object], call: RunSettings) -> list:
    with runs.lock.for_a_run(call.options):
        return route(runs, feeds, call)


def _run_copying(
    route: Callable, shared: frozenset[int], runs: Runs, feeds: dict[str, object], call: RunSettings
) -> list:
    outputs = route(runs, feeds, call)
    return [tensors.owned(output) if index in shared else output for index, output in enumerate(outputs)]


def _run_captured(runs: Runs, feeds: dict[str, object], call: RunSettings) -> list:
    return runs.capture.run(runs.session, feeds, call.attributes, call.entries)
