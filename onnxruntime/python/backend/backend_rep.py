# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's ``BackendRep``: a prepared model, its configuration, and its runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from onnx.backend.base import BackendRep

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.allowlist import circumstances
from onnxruntime.backend.allowlist.attributes import SESSION_ATTRIBUTES
from onnxruntime.backend.allowlist.circumstances import NOTHING, Circumstances
from onnxruntime.backend.configuration import LIMITS
from onnxruntime.backend.errors import RUN_LIKE_A_SESSION, reject
from onnxruntime.backend.provider_names import ON_ANY_DEVICE
from onnxruntime.backend.runs import fast_path, run_options, tensors
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.backend.runs.limits import Limited
from onnxruntime.backend.runs.run_options import NO_SETTINGS, RunSettings
from onnxruntime.backend.session import replacement, verification
from onnxruntime.backend.session.verification import NOTHING_APPLIED, Applied
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail

if TYPE_CHECKING:
    from typing import Self  # since Python 3.11

    from onnxruntime.backend.capture.graphs import Capture
    from onnxruntime.backend.capture.locks import SessionLock

# The types whose equal values are the same value, unlike 0.0 and -0.0.
_COMPARABLE = frozenset({str, int, bool})
_MOST_KEPT = 64


class _Closed:
    """Replaces the session of a closed model."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("The prepared model is closed")


_CLOSED = _Closed()


@dataclass(eq=False)
class _Runs:
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
    route: Callable[[_Runs, dict[str, object], RunSettings], list] | None = None
    kept: dict[tuple, RunSettings] = field(default_factory=dict)
    """The permitted settings of earlier runs."""

    @classmethod
    def of(cls, session: object, run_config: Mapping[str, str]) -> _Runs:
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
        if self.lock is not None:
            self.route = _run_locked if plain else _run_values_locked
        elif not plain:
            self.route = _run_values
        # A subclass of InferenceSession can override run.
        if plain and type(session) is InferenceSession:
            self.direct = fast_path.of(session, self.inputs.slots, self.output_names, self.lock)
        watched = replacement.of(session)
        if watched is not None:
            direct, route = self.direct, self.route
            self.direct = lambda inputs, options: watched.run(session, options, direct, inputs, options)
            self.route = lambda runs, feeds, call: watched.run(session, call.options, route, runs, feeds, call)
        shared = self.inputs.returned_as(self.output_names)
        if plain and shared:
            self.direct, self.route = fast_path.none, partial(_run_copying, self.route, shared)

    def are_of(self, session: object) -> bool:
        """Return whether these are the runs of a session as it is now."""
        return session is self.session and fast_path.inner_of(session) is self.inner

    def with_settings(self, settings: RunSettings) -> _Runs:
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
        # A setting that is ignored or has no effect is warned about each time, and a caller's text may be long.
        if comparable and not without_effect and len(settings.attributes) == len(attributes):
            texts = {
                *settings.entries,
                *settings.entries.values(),
                *settings.attributes,
                *map(str, settings.attributes.values()),
            }
            if texts.issuperset(value for value in given if type(value) is str):
                if len(self.kept) >= _MOST_KEPT:
                    self.kept.clear()
                self.kept[types, given] = settings
        return settings

    def blame_inputs(self, error: Exception, feeds: Mapping[str, object]) -> None:
        """Raise an ``InputError`` in place of ORT's error if the inputs do not match the model."""
        problem = self.inputs.problem(feeds, type(error)) if self.is_ort else None
        if problem:
            raise problem from error


_NOT_READY = _Runs(object())


class OnnxRuntimeBackendRep(BackendRep):
    """
    A prepared model: an :class:`onnxruntime.InferenceSession`, the run config of its runs, and the configuration as ORT
    reports it.
    """

    # For a subclass that sets ``_session`` itself.
    _applied, _run_config, _runs = NOTHING_APPLIED, NOTHING, _NOT_READY

    def __init__(
        self,
        session: InferenceSession,
        run_config: Mapping[str, str] = NOTHING,
        *,
        applied: Applied = NOTHING_APPLIED,
    ) -> None:
        """
        :param session: the session, or another object with ``get_inputs`` and ``run``.
        :param run_config: permitted run config entries.
        :param applied: the configuration of the session as ORT reports it.
        """
        self._session = session
        self._applied = applied
        self._run_config = run_config
        self._ready()

    def _ready(self) -> _Runs:
        """Return the runs of the session that this prepared model has now."""
        runs = self._runs
        if not runs.are_of(self._session):
            runs = self._runs = _Runs.of(self._session, self._run_config)
        return runs

    @property
    def providers(self) -> tuple[str, ...]:
        """The EPs of the session, in order."""
        return tuple(self._session.get_providers())

    @property
    def provider_options(self) -> Mapping[str, Mapping[str, str]]:
        """For each specified EP, the specified options (and its ``device_id``) as ORT reports them."""
        return self._applied.provider_options

    @property
    def unconfirmed(self) -> Mapping[str, Mapping[str, object]]:
        """
        The settings that were sent and could not be verified, with the values that were sent.

        Keys are EPs (options that the EP cannot report) and keyword arguments (settings without effect in this
        session).
        """
        return self._applied.unconfirmed

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings given while the model was prepared."""
        return self._applied.warnings

    @property
    def extensions(self) -> tuple[str, ...]:
        """
        The custom operator libraries of the session: names of packages, and file names of other libraries. Only the
        environment variable ``ORT_ONNX_BACKEND_CONFIG`` can specify them.
        """
        return self._applied.extensions

    @property
    def session_options(self) -> Mapping[str, object]:
        """The specified attributes of :class:`onnxruntime.SessionOptions`, as stored in the session."""
        return self._applied.session_options

    @property
    def session_config(self) -> Mapping[str, str]:
        """The specified session config entries, as stored in the session."""
        return self._applied.session_config

    @property
    def run_config(self) -> Mapping[str, str]:
        """The run config entries of every run, as stored in ORT's run options."""
        settings = self._ready().settings
        held = settings.options.get_run_config_entry
        return MappingProxyType({key: held(key) for key in settings.entries})

    @property
    def node_assignment(self) -> Mapping[str, int] | None:
        """For each EP, the number of nodes assigned to it; ``None`` if no EP was specified or ORT keeps no record."""
        return verification.node_assignment(self.session)

    def configuration(self) -> dict[str, dict]:
        """
        Return the specified configuration as plain data, in the form of ``ORT_ONNX_BACKEND_CONFIG``.

        ``prepare(model, **rep.configuration())`` repeats it, also in another process. Custom operator libraries are
        not included, because only the environment can specify them.
        """
        found = {keyword: dict(entries) for keyword, entries in self._applied.configuration.items()}
        if "provider_options" in found:
            found["provider_options"] = {ep: dict(options) for ep, options in found["provider_options"].items()}
        entries = dict(self._ready().settings.entries)
        return found | ({"run_config": entries} if entries else {})

    @property
    def session(self) -> InferenceSession:
        """
        The session, for your own IO binding with :meth:`run_options`.

        Its ``run`` does not use the run config. Do not call it on a session that captures graphs. On the OpenVINO EP,
        prepare the model again after a failed run of your own; a failed :meth:`run` ends the use of existing bindings.
        """
        return self._session if self._session is not _CLOSED else _CLOSED.session

    def close(self) -> None:
        """
        Release the session. Its memory is free when nothing else refers to it, such as another prepared model on the
        same session, or a run that has not ended.
        """
        self._session = _CLOSED
        self._runs = _NOT_READY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name, session = type(self).__name__, self._session
        if session is _CLOSED:
            return f"<{name}, closed>"
        path = getattr(session, "_model_path", None)
        model = ascii(os.path.basename(path)) if path else f"graph {session.get_modelmeta().graph_name!a}"
        stated = {
            "provider_options": {ep: dict(options) for ep, options in self.provider_options.items()},
            "session_options": dict(self.session_options),
            "session_config": dict(self.session_config),
            "run_config": dict(self._runs.settings.entries),
            "unconfirmed": {name: dict(settings) for name, settings in self.unconfirmed.items()},
        }
        configured = "".join(f", {keyword}={entries!a}" for keyword, entries in stated.items() if entries)
        return f"<{name} of {model} on {', '.join(session.get_providers())}{configured}>"

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self).copy())  # another thread may be adding an attribute
        return copied

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "Send functools.partial(onnxruntime.backend.prepare, path, **rep.configuration()) and call it in the "
            "worker: a prepared model cannot be pickled or deep-copied. copy.copy shares the session"
        )

    def run_options(self, run_config: Mapping[str, object] | None = None) -> RunOptions:
        """
        Return new :class:`onnxruntime.RunOptions` for runs of :attr:`session` with your own IO binding.

        ::

            binding = rep.session.io_binding()
            ...
            rep.session.run_with_iobinding(binding, rep.run_options())

        :param run_config: ``{key: value}`` of run config entries. They override prepared entries with the same key.
        :raises RuntimeError: on a session that captures graphs, if :meth:`run` uses this ``gpu_graph_id`` (default: 0).
        """
        runs = self._ready()
        settings, _ = runs.permitted(run_config, {})
        if runs.capture is not None:
            runs.capture.lend(settings.entries)
        return run_options.make({}, settings.entries)

    def with_run_config(self, run_config: Mapping[str, object]) -> Self:
        """
        Return a new prepared model on the same session, with additional run config entries.

        :param run_config: ``{key: value}``. They override prepared entries with the same key.
        """
        runs = self._ready()
        settings, without_effect = runs.permitted(run_config, {})
        rep = self.__copy__()
        rep._runs = runs.with_settings(settings)
        rep._session, rep._run_config = runs.session, settings.entries
        if without_effect:
            rep._applied = self._applied.and_without_effect("run_config", settings.entries, without_effect)
        return rep

    def run(self, inputs, *surplus, run_config: Mapping[str, object] | None = None, **kwargs) -> list:
        """
        Compute the outputs. See :meth:`onnxruntime.InferenceSession.run`.

        Any number of threads may call this method. Runs of all WebGPU sessions of the process follow one another; on
        CUDA, a run that captures a graph is the only one in the process.

        Arrays have the declared element type. Types that numpy lacks are ml_dtypes arrays (the dtypes of
        ``onnx.helper.tensor_dtype_to_np_dtype``). Python numbers, texts and lists are converted to the declared type.

        :param inputs: a list or tuple in the order of the model's inputs, a mapping by name, or the value of the only
            input. A value is an array, a list for a sequence, a mapping for a map, ``None`` for an absent optional, or
            an :class:`onnxruntime.OrtValue`.
        :param timeout: the maximum duration in seconds, waiting for other sessions included; ``None`` for no limit. A
            run ends when its current node ends.
        :param cancellation: an :class:`onnxruntime.backend.Cancellation`, by which another thread or a signal handler
            can end the run; ``None`` for no cancellation.
        :param run_config: ``{key: value}`` of run config entries for this run. They override prepared entries with the
            same key.
        :param kwargs: permitted attributes of :class:`onnxruntime.RunOptions`. Other names are ignored, with a
            ``RuntimeWarning``.
        :return: list of outputs, each an array that owns its memory.
        :raises NotPermittedError: if a setting is not permitted.
        :raises InputError: if an input does not match the model.
        :raises TimeoutError: if the run exceeds ``timeout``. The prepared model is unchanged.
        :raises RunCancelledError: if the run is cancelled. The prepared model is unchanged.
        :raises TypeError: if there is more than one positional argument.
        """
        if surplus:
            raise TypeError(RUN_LIKE_A_SESSION)
        runs = self._runs
        if runs.session is not self._session:
            runs = self._ready()
        if kwargs and not LIMITS.isdisjoint(kwargs):
            limits = {name: limit for name in LIMITS if (limit := kwargs.pop(name, None)) is not None}
            if limits:
                return _run_limited(self._ready(), inputs, run_config, kwargs, **limits)
        call = runs.settings if run_config is None and not kwargs else runs.settings_of(run_config, kwargs)
        try:
            outputs = runs.direct(inputs, call.options)
            if outputs is not None:
                return outputs
        except EPFail:
            pass  # a caller's own session can fall back, which InferenceSession.run does
        except Exception as error:
            runs.blame_inputs(error, runs.inputs.feeds(inputs))
            raise
        # The fast path returns None after set_providers. A run beside close() continues.
        if not runs.are_of(runs.session):
            self._ready()
            return self.run(inputs, run_config=run_config, **kwargs)
        feeds = runs.inputs.feeds(inputs)
        try:
            return runs.route(runs, feeds, call)
        except Exception as error:
            runs.blame_inputs(error, feeds)
            raise


def _run_limited(
    runs: _Runs,
    inputs,
    run_config: Mapping[str, object] | None,
    attributes: Mapping[str, object],
    timeout: object = None,
    cancellation: object = None,
) -> list:
    """Run within limits, with run options of its own and without the fast path."""
    call, _ = runs.permitted(run_config, attributes)
    limited = Limited(call.options, timeout, cancellation)
    if runs.capture is not None and runs.capture.replays(call.entries):
        reject(
            "a replay cannot be ended. Add run_config={'gpu_graph_id': -1} for a run without capture",
            "cancellation" if timeout is None else "timeout",
        )
    feeds = runs.inputs.feeds(inputs)
    with limited:
        try:
            if runs.capture is not None:
                return runs.capture.run(runs.session, feeds, call.attributes, call.entries, call.options)
            # The limits cover the wait for the lock, which the route acquires again.
            with nullcontext() if runs.lock is None else runs.lock.for_a_run(call.options):
                return runs.route(runs, feeds, call)
        except Exception as error:
            runs.blame_inputs(error, feeds)
            raise


# The routes of a run.


def _run_session(runs: _Runs, feeds: dict[str, object], call: RunSettings) -> list:
    # ORT's own backend passes None for all outputs: a tracer or a mock may check it.
    outputs = runs.session.run(None, feeds, call.options)
    return [outputs[name] for name in runs.output_names] if isinstance(outputs, Mapping) else outputs


def _run_locked(runs: _Runs, feeds: dict[str, object], call: RunSettings) -> list:
    with runs.lock.for_a_run():
        return _run_session(runs, feeds, call)


def _run_values(runs: _Runs, feeds: dict[str, object], call: RunSettings) -> list:
    return fast_path.with_values(runs.session, feeds, runs.output_names, call.options)


def _run_values_locked(runs: _Runs, feeds: dict[str, object], call: RunSettings) -> list:
    with runs.lock.for_a_run():
        return _run_values(runs, feeds, call)


def _run_copying(
    route: Callable, shared: frozenset[int], runs: _Runs, feeds: dict[str, object], call: RunSettings
) -> list:
    outputs = route(runs, feeds, call)
    return [tensors.owned(output) if index in shared else output for index, output in enumerate(outputs)]


def _run_captured(runs: _Runs, feeds: dict[str, object], call: RunSettings) -> list:
    return runs.capture.run(runs.session, feeds, call.attributes, call.entries)
