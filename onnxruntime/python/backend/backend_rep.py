# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's backend API: inputs become outputs, on every run, with the run config."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
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
from onnxruntime.backend.session.replacement import Replacement
from onnxruntime.backend.session.verification import NOTHING_APPLIED, Applied
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail

if TYPE_CHECKING:
    from typing import Self  # since Python 3.11

# The types of which equal values are the same value, unlike 0.0 and -0.0.
_COMPARABLE = frozenset({str, int, bool})
_MOST_KEPT = 64


class _Closed:
    """Stands for everything that a closed model had."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("the prepared model is closed")

    def __call__(self, *_: object) -> NoReturn:
        raise RuntimeError("the prepared model is closed")


_CLOSED = _Closed()


class OnnxRuntimeBackendRep(BackendRep):
    """
    A prepared model: an :class:`onnxruntime.InferenceSession`, the run config that its runs carry, and what ORT
    reports of the configuration that was asked for.
    """

    # What a subclass has that sets ``_session`` itself.
    _applied, _entries, _ready_for, _inner = NOTHING_APPLIED, NOTHING, None, None

    def __init__(
        self,
        session: InferenceSession,
        run_config: Mapping[str, str] = NOTHING,
        *,
        applied: Applied = NOTHING_APPLIED,
    ) -> None:
        """
        :param session: the open session, or an object with ``get_inputs``, ``get_outputs`` and ``run`` like it.
        :param run_config: permitted run config entries.
        :param applied: what became of the configuration that the session was opened with.
        """
        self._session = session
        self._applied = applied
        self._entries = run_config
        self._get_ready()

    def _get_ready(self) -> None:
        """Work out all that the runs of this session need."""
        session = self._session
        self._inputs = ModelInputs(session)
        self._output_names = []
        plain = True  # whether numpy has types for all outputs
        for node in session.get_outputs():
            self._output_names.append(node.name)
            plain = plain and tensors.is_plain(node.type)
        self._capture = self._lock = self._replacement = None
        self._direct, self._route = fast_path.none, _run_session
        if isinstance(session, InferenceSession):
            # Also for a session that captured before set_providers: its graphs are released under the lock.
            if not ON_ANY_DEVICE.issuperset(session.get_providers()) or "_graph_capture" in vars(session):
                from onnxruntime.backend.capture import graphs, locks  # long to import  # noqa: PLC0415

                self._capture = graphs.of(session)
                self._lock = locks.of(session)
            if self._capture is not None:
                self._route = _run_captured
            elif self._lock is not None:
                self._route = _run_locked if plain else _run_values_locked
            elif not plain:
                self._route = _run_values
            # A subclass of InferenceSession has its own idea of a run.
            if plain and self._capture is None and type(session) is InferenceSession:
                self._direct = fast_path.of(session, self._inputs.slots, self._output_names, self._lock)
            self._replacement = replacement.of(session) if self._capture is None else None
            if self._replacement is not None:
                self._route = partial(_run_watched, self._route)
                self._direct = partial(_run_directly_watched, self._replacement, session, self._direct)
            shared = self._inputs.returned_as(self._output_names)
            if plain and shared:
                self._direct, self._route = fast_path.none, partial(_run_copying, self._route, shared)
        if self._ready_for is not None:
            vars(self).pop("_circumstances", None)
        self._kept: dict[tuple, RunSettings] = {}
        self._prepared = NO_SETTINGS
        if self._entries or self._capture is not None:
            self._carry(self._entries)
        self._ready_for, self._inner = session, fast_path.inner_of(session)

    def _carry(self, run_config: Mapping[str, str]) -> None:
        """Have every run carry these run config entries."""
        self._prepared = RunSettings(NOTHING, run_config) if run_config else NO_SETTINGS
        self._kept = {}
        if self._capture is not None:
            self._capture.claim(run_config)
            if type(self._session) is InferenceSession:
                self._direct = self._capture.fast_path(self._session, self._prepared.entries, self._prepared.options)

    @property
    def providers(self) -> tuple[str, ...]:
        """The session's EPs, in order."""
        return tuple(self._session.get_providers())

    @property
    def provider_options(self) -> Mapping[str, Mapping[str, str]]:
        """EP name to the options that were named for it (and its ``device_id``), as ORT reports them."""
        return self._applied.provider_options

    @property
    def unconfirmed(self) -> Mapping[str, tuple[str, ...]]:
        """
        What was named and sent, and could not be confirmed: by EP, the options that it has no way to report; by keyword
        argument, the keys that have nothing to act on in this session.
        """
        return self._applied.unconfirmed

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was warned of when the model was prepared: Python shows a warning once."""
        return self._applied.warnings

    @property
    def extensions(self) -> tuple[str, ...]:
        """
        The libraries of custom operators that the session has: packages, and the file names of others. Only the
        environment variable ``ORT_ONNX_BACKEND_CONFIG`` names any.
        """
        return self._applied.extensions

    @property
    def session_options(self) -> Mapping[str, object]:
        """The attributes of :class:`onnxruntime.SessionOptions` that were named, as the session holds them."""
        return self._applied.session_options

    @property
    def session_config(self) -> Mapping[str, str]:
        """The session config entries that were named, as the session holds them."""
        return self._applied.session_config

    @property
    def run_config(self) -> Mapping[str, str]:
        """The run config entries that every run carries, as ORT's run options hold them."""
        self._check_ready()
        held = self._prepared.options.get_run_config_entry
        return MappingProxyType({key: held(key) for key in self._prepared.entries})

    @property
    def node_assignment(self) -> Mapping[str, int] | None:
        """EP name to the number of nodes it took; ``None`` when no EPs were named or this ORT keeps no record."""
        return verification.node_assignment(self.session)

    @property
    def session(self) -> InferenceSession:
        """
        The session underneath, for IO binding with :meth:`run_options`. Its own ``run`` carries no run config; on a
        session that captures graphs it is not safe to call at all.
        """
        return self._session if self._session is not _CLOSED else _CLOSED.session

    def close(self) -> None:
        """
        Let go of the session. Its memory is free when nobody else holds it: another prepared model on the same session,
        or a run that is under way.
        """
        self._session = _CLOSED
        # A run that has begun in another thread meets an error that says so.
        self._inputs = self._direct = self._route = _CLOSED
        self._ready_for = self._capture = self._lock = self._replacement = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._session is _CLOSED:
            return f"<{name}, closed>"
        path = getattr(self._session, "_model_path", None)
        model = ascii(os.path.basename(path)) if path else f"graph {self._session.get_modelmeta().graph_name!a}"
        said = {
            "provider_options": {ep: dict(options) for ep, options in self.provider_options.items()},
            "session_options": dict(self.session_options),
            "session_config": dict(self.session_config),
            "run_config": dict(self.run_config),
            "unconfirmed": dict(self.unconfirmed),
        }
        configured = "".join(f", {keyword}={entries!a}" for keyword, entries in said.items() if entries)
        return f"<{name} of {model} on {', '.join(self.providers)}{configured}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a prepared model cannot be copied or sent to another process: prepare it there, from the model and its "
            "configuration. On the same session, with_run_config gives another one"
        )

    def run_options(self, run_config: Mapping[str, object] | None = None) -> RunOptions:
        """
        Fresh :class:`onnxruntime.RunOptions` for runs of :attr:`session` with a binding of the caller's own.

        ::

            binding = rep.session.io_binding()
            ...
            rep.session.run_with_iobinding(binding, rep.run_options())

        :param run_config: ``{key: value}`` of run config entries, added to those that were prepared, its keys winning.
        :raises RuntimeError: on a session that captures graphs, for a ``gpu_graph_id`` (0 where none is given) that
            :meth:`run` uses.
        """
        self._check_ready()
        entries = self._permitted(run_config, {}).entries
        if self._capture is not None:
            self._capture.lend(entries)
        return run_options.make({}, entries)

    def with_run_config(self, run_config: Mapping[str, object]) -> OnnxRuntimeBackendRep:
        """
        A new prepared model on the same session, with more run config entries.

        :param run_config: ``{key: value}``, whose keys win over those prepared before.
        """
        self._check_ready()
        rep = object.__new__(type(self))
        vars(rep).update(vars(self).copy())
        rep._carry(self._permitted(run_config, {}).entries)
        return rep

    def run(self, inputs, *surplus, run_config: Mapping[str, object] | None = None, **kwargs) -> list:
        """
        Compute the outputs. See :meth:`onnxruntime.InferenceSession.run`.

        Any number of threads may call this. Those of all WebGPU sessions of the process run one after the other; on
        CUDA, a run that captures a graph is alone in the process.

        Arrays have the element type that the model declares, those that numpy lacks as ml_dtypes arrays (the dtypes
        that ``onnx.helper.tensor_dtype_to_np_dtype`` names); Python numbers, texts and lists are read as that type.

        :param inputs: list or tuple in the order of the model's inputs, mapping by name, or the value of the only
            input. A value is an array, a list for a sequence, a mapping for a map, ``None`` for an absent optional, or
            an :class:`onnxruntime.OrtValue`.
        :param timeout: the maximum duration in seconds, waiting for other sessions included; ``None`` for no limit. A
            run ends when its current node ends.
        :param cancellation: an :class:`onnxruntime.backend.Cancellation`, by which another thread or a signal handler
            can end the run; ``None`` for no cancellation.
        :param run_config: ``{key: value}`` of run config entries for this run, whose keys win over the prepared ones.
        :param kwargs: permitted attributes of :class:`onnxruntime.RunOptions`. Other names are ignored, with a
            ``RuntimeWarning``.
        :return: list of outputs, each an array that owns its memory.
        :raises NotPermittedError: if a setting is not permitted.
        :raises InputError: if the inputs do not match the model.
        :raises TimeoutError: if the run exceeds ``timeout``. The prepared model is unchanged.
        :raises RunCancelledError: if the run is cancelled. The prepared model is unchanged.
        :raises TypeError: if there is more than one positional argument.
        """
        if surplus:
            raise TypeError(RUN_LIKE_A_SESSION)
        if self._session is not self._ready_for:
            self._get_ready()
        if kwargs and not LIMITS.isdisjoint(kwargs):
            limits = {name: limit for name in LIMITS if (limit := kwargs.pop(name, None)) is not None}
            if limits:
                return self._run_limited(inputs, run_config, kwargs, **limits)
        call = self._prepared if run_config is None and not kwargs else self._settings_of_run(run_config, kwargs)
        try:
            outputs = self._direct(inputs, call.options)
            if outputs is not None:
                return outputs
        except EPFail:
            pass  # a caller's own session may fall back, which the long way does
        except Exception as error:
            self._blame_inputs(error, self._inputs.feeds(inputs))
            raise
        if self._check_ready():  # set_providers replaced the inner session, which the fast path notices
            return self.run(inputs, run_config=run_config, **kwargs)
        feeds = self._inputs.feeds(inputs)
        try:
            return self._route(self, feeds, call)
        except Exception as error:
            self._blame_inputs(error, feeds)
            raise

    def _check_ready(self) -> bool:
        """Prepare for the session as it is now; return whether that was necessary."""
        ready = self._session is self._ready_for and self._inner is fast_path.inner_of(self._session)
        if not ready:
            self._get_ready()
        return not ready

    def _run_limited(
        self,
        inputs,
        run_config: Mapping[str, object] | None,
        attributes: Mapping[str, object],
        timeout: object = None,
        cancellation: object = None,
    ) -> list:
        """Run with limits: with run options of its own, and without the fast path."""
        self._check_ready()
        call = self._permitted(run_config, attributes)
        limited = Limited(call.options, timeout, cancellation)
        if self._capture is not None and self._capture.replays(call.entries):
            reject(
                "a replay cannot be ended. Add run_config={'gpu_graph_id': -1} for a run without capture",
                "cancellation" if timeout is None else "timeout",
            )
        feeds = self._inputs.feeds(inputs)
        with limited:
            try:
                if self._capture is not None:
                    return self._capture.run(self._session, feeds, call.attributes, call.entries, call.options)
                # The limits cover the wait for the lock, which the route takes again.
                with nullcontext() if self._lock is None else self._lock.for_a_run(call.options):
                    return self._route(self, feeds, call)
            except Exception as error:
                self._blame_inputs(error, feeds)
                raise

    def _blame_inputs(self, error: Exception, feeds: Mapping[str, object]) -> None:
        """Raise an ``InputError`` in place of ORT's error if the inputs do not match the model."""
        problem = isinstance(self._session, InferenceSession) and self._inputs.problem(feeds, type(error))
        if problem:
            raise problem from error

    def _settings_of_run(self, run_config: Mapping[str, object] | None, attributes: dict[str, object]) -> RunSettings:
        """Return the settings of a run that has some of its own, as looked up before if nothing differs."""
        config = {} if run_config is None else run_config
        if type(config) is not dict:
            return self._permitted(run_config, attributes)
        config = config.copy()  # another thread may change the caller's
        given = (len(config), *config, *config.values(), *attributes, *attributes.values())
        # Only exact types: a subclass could claim to equal anything. True equals 1, so the types are part of the key.
        types = tuple(map(type, given))
        if not _COMPARABLE.issuperset(types):
            return self._permitted(config if run_config is not None else None, attributes)
        found = self._kept.get((types, given))
        return found or self._permitted(config if run_config is not None else None, attributes, (types, given))

    def _permitted(
        self, run_config: Mapping[str, object] | None, attributes: Mapping[str, object], key: tuple | None = None
    ) -> RunSettings:
        """Look up the settings of a run, and keep them under a key if it contains nothing but permitted text."""
        settings, idle = run_options.permitted(self._prepared, self._circumstances, run_config, attributes)
        # A setting that is ignored or has no effect is warned about each time, and a caller's text may be long.
        if key is not None and not idle and len(settings.attributes) == len(attributes):
            texts = {
                *settings.entries,
                *settings.entries.values(),
                *settings.attributes,
                *map(str, settings.attributes.values()),
            }
            if texts.issuperset(value for value in key[1] if type(value) is str):
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = settings
        return settings

    @cached_property
    def _circumstances(self) -> Circumstances:
        return circumstances.of_session(self._session, SESSION_ATTRIBUTES)


# The routes of a run. Functions and not bound methods: a rep that held one would be a cycle, and its session would
# stay open until the next garbage collection.


def _run_session(rep: OnnxRuntimeBackendRep, feeds: dict[str, object], call: RunSettings) -> list:
    # None, all outputs, is what ORT's own backend passes: a tracer or a mock may look at it.
    outputs = rep._session.run(None, feeds, call.options)
    return [outputs[name] for name in rep._output_names] if isinstance(outputs, Mapping) else outputs


def _run_locked(rep: OnnxRuntimeBackendRep, feeds: dict[str, object], call: RunSettings) -> list:
    with rep._lock.for_a_run():
        return _run_session(rep, feeds, call)


def _run_values(rep: OnnxRuntimeBackendRep, feeds: dict[str, object], call: RunSettings) -> list:
    return fast_path.with_values(rep._session, feeds, rep._output_names, call.options)


def _run_values_locked(rep: OnnxRuntimeBackendRep, feeds: dict[str, object], call: RunSettings) -> list:
    with rep._lock.for_a_run():
        return _run_values(rep, feeds, call)


def _run_watched(route: Callable, rep: OnnxRuntimeBackendRep, feeds: dict[str, object], call: RunSettings) -> list:
    return rep._replacement.run(rep._session, call.options, route, rep, feeds, call)


def _run_directly_watched(
    replaced: Replacement, session: InferenceSession, direct: Callable, inputs: object, options: RunOptions
) -> list | None:
    return replaced.run(session, options, direct, inputs, options)


def _run_copying(
    route: Callable, shared: frozenset[int], rep: OnnxRuntimeBackendRep, feeds: dict[str, object], call: RunSettings
) -> list:
    outputs = route(rep, feeds, call)
    return [tensors.owned(output) if index in shared else output for index, output in enumerate(outputs)]


def _run_captured(rep: OnnxRuntimeBackendRep, feeds: dict[str, object], call: RunSettings) -> list:
    return rep._capture.run(rep._session, feeds, call.attributes, call.entries)
