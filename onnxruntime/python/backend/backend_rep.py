# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's backend API: inputs become outputs, on every run, with the run config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cached_property, lru_cache
from types import MappingProxyType

from onnx.backend.base import BackendRep

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import (
    allowlist,
    configuration,
    execution_providers,
    tensor_values,
    webgpu_lock,
)
from onnxruntime.backend.messages import NOT_PERMITTED
from onnxruntime.backend.model_inputs import ModelInputs
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail

_NOTHING: Mapping = MappingProxyType({})
# Not float: 0.0 and -0.0 are equal.
_LOOKED_UP = frozenset({str, int, bool})


class OnnxRuntimeBackendRep(BackendRep):
    """
    A prepared model: an :class:`onnxruntime.InferenceSession`, the run config that its runs carry, and what ORT
    reports of the configuration that was asked for.
    """

    def __init__(
        self,
        session: InferenceSession,
        run_config: Mapping[str, str] = _NOTHING,
        *,
        session_config: Mapping[str, str] = _NOTHING,
        applied: tuple[Mapping[str, Mapping[str, str]], Mapping[str, tuple[str, ...]]] = (_NOTHING, _NOTHING),
    ) -> None:
        """
        :param session: the open session.
        :param run_config: validated run config entries.
        :param session_config: validated session config entries that the session was opened with.
        :param applied: what :func:`execution_providers.read_back` returned, where EPs were named.
        """
        self._session = session
        self._run_entries = run_config
        self._applied = applied
        self._session_config = _NOTHING
        if session_config:
            held = session.get_session_options().get_session_config_entry
            self._session_config = MappingProxyType({key: held(key) for key in session_config})
            if self._session_config != session_config:
                raise RuntimeError(
                    f"session_config was sent as {dict(session_config)}, ORT holds {self._session_config}"
                )
        # Not left to the first run: a cached_property is slower to find on all the others.
        self._inputs = ModelInputs(session)
        outputs = session.get_outputs()
        self._output_names = [node.name for node in outputs]
        self._plain_outputs = all(tensor_values.is_plain(node.type) for node in outputs)
        # Kept for every run: ORT only reads it, and would make one for each run without.
        self._run_options = configuration.run_options({}, run_config)
        self._capture = None
        if not execution_providers.ON_ANY_DEVICE.issuperset(session.get_providers()):
            from onnxruntime.backend import graph_capture  # noqa: PLC0415 # no session on the CPU EP alone needs it

            self._capture = graph_capture.of(session)
        if self._capture is not None:
            self._capture.claim(run_config)
        self._lock = webgpu_lock.of(session)
        # What every run looks at first, because most sessions need nothing else.
        self._plain = self._plain_outputs and self._capture is None and self._lock is None
        # A subclass of InferenceSession has its own idea of a run.
        self._straight = self._plain and type(session) is InferenceSession

    @property
    def providers(self) -> tuple[str, ...]:
        """The session's EPs, in order."""
        return tuple(self._session.get_providers())

    @property
    def provider_options(self) -> Mapping[str, Mapping[str, str]]:
        """EP name to the options that were named for it (and its ``device_id``), as ORT reports them."""
        return self._applied[0]

    @property
    def unconfirmed(self) -> Mapping[str, tuple[str, ...]]:
        """EP name to the options that were named for it and sent, but that this EP has no way to report."""
        return self._applied[1]

    @property
    def session_config(self) -> Mapping[str, str]:
        """The session config entries that were named, as the session holds them."""
        return self._session_config

    @property
    def run_config(self) -> Mapping[str, str]:
        """The run config entries that every run carries, as ORT's run options hold them."""
        return MappingProxyType({key: self._run_options.get_run_config_entry(key) for key in self._run_entries})

    @property
    def node_assignment(self) -> Mapping[str, int] | None:
        """EP name to the number of nodes it took; ``None`` when no EPs were named or this ORT keeps no record."""
        return execution_providers.node_assignment(self._session)

    @property
    def session(self) -> InferenceSession:
        """
        The session underneath, for IO binding with :meth:`run_options`. Its own ``run`` carries no run config; on a
        session that captures graphs it is not safe to call at all.
        """
        return self._session

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
        entries = dict(self._run_entries)
        if run_config is not None:
            entries |= self._permit(run_config)
        if self._capture is not None:
            self._capture.lend(entries)
        return configuration.run_options({}, entries)

    def with_run_config(self, run_config: Mapping[str, object]) -> OnnxRuntimeBackendRep:
        """
        A new prepared model on the same session, with more run config entries.

        :param run_config: ``{key: value}``, whose keys win over those prepared before.
        """
        return OnnxRuntimeBackendRep(
            self._session,
            {**self._run_entries, **self._permit(run_config)},
            session_config=self._session_config,
            applied=self._applied,
        )

    def run(self, inputs, *, run_config: Mapping[str, object] | None = None, **kwargs) -> list:
        """
        Compute the outputs. See :meth:`onnxruntime.InferenceSession.run`.

        Any number of threads may call this. Runs go one after the other on a session that captures graphs, on CUDA on
        a thread that the session has for them, and among all WebGPU sessions of the process.

        Arrays have the element type that the model declares, those that numpy lacks as ml_dtypes arrays (the dtypes
        that ``onnx.helper.tensor_dtype_to_np_dtype`` names); Python numbers, texts and lists are read as that type.

        :param inputs: list or tuple in the order of the model's inputs, mapping by name, or the value of the only
            input. A value is an array, a list for a sequence, a mapping for a map, ``None`` for an absent optional, or
            an :class:`onnxruntime.OrtValue`.
        :param run_config: ``{key: value}`` of run config entries for this run, whose keys win over the prepared ones.
        :param kwargs: permitted attributes of :class:`onnxruntime.RunOptions`. Other names are ignored.
        :return: list of outputs.
        :raises RuntimeError: for anything that is not permitted, and for inputs that are not the model's.
        """
        attributes, entries, options = _NOTHING, self._run_entries, self._run_options
        if kwargs or run_config is not None:
            attributes, entries, options = self._for_run(run_config, kwargs)
        feeds = self._inputs.as_they_are(inputs) if self._straight else None
        straight = feeds is not None
        if not straight:
            feeds = self._inputs.feeds(inputs)
        try:
            if straight:
                # All that InferenceSession.run looks at first is known to be right. set_providers replaces the handle
                # underneath, so it is never kept.
                return self._session._sess.run(self._output_names, feeds, options)
            if self._plain:
                return self._session.run(self._output_names, feeds, options)
            if self._capture is not None:
                return self._capture.run(self._session, feeds, attributes, entries)
            with self._lock or nullcontext():
                return self._ordinary(feeds, options)
        except Exception as error:
            if straight and isinstance(error, EPFail):
                return self._session.run(self._output_names, feeds, options)  # a caller's own session may fall back
            problem = self._inputs.problem(feeds)
            if problem:
                raise RuntimeError(problem) from error
            raise

    def _ordinary(self, feeds: Mapping[str, object], options: RunOptions) -> list:
        if self._plain_outputs:
            return self._session.run(self._output_names, feeds, options)
        values = {name: tensor_values.to_ort_value(value) for name, value in feeds.items() if value is not None}
        outputs = self._session.run_with_ort_values(self._output_names, values, options)
        return [tensor_values.to_array(output) for output in outputs]

    def _for_run(
        self, run_config: Mapping[str, object] | None, kwargs: dict[str, object]
    ) -> tuple[Mapping[str, object], Mapping[str, str], RunOptions]:
        """The RunOptions attributes and the run config entries of one run, and both together."""
        if type(run_config) is dict and not kwargs:
            given = (*run_config, *run_config.values())
            # Only exact types are looked up: a subclass could say that it equals anything.
            if _LOOKED_UP.issuperset(map(type, given)):
                return self._kept(*given)
        if kwargs:
            for keyword in ("provider_options", "session_config", "free_dimension_overrides"):
                if kwargs.pop(keyword, None) is not None:
                    raise RuntimeError(
                        f"{keyword} {NOT_PERMITTED} for a run, whose session is open already: pass it to prepare"
                    )
            configuration.warn_misspelt(kwargs)
        attributes = allowlist.run_attributes(kwargs)
        entries = {**self._run_entries, **({} if run_config is None else self._permit(run_config))}
        return attributes, entries, configuration.run_options(attributes, entries)

    @cached_property
    def _kept(self) -> Callable[..., tuple[Mapping[str, object], Mapping[str, str], RunOptions]]:
        """Gives what :meth:`_for_run` returns for one run config, whose keys and then values are its arguments."""
        # Not a method: a cache that holds the rep would keep the session open until the next garbage collection.
        prepared, circumstances = self._run_entries, self._circumstances

        @lru_cache(maxsize=64, typed=True)  # typed: True is not 1, though equal
        def look_up(*given: object) -> tuple[Mapping[str, object], Mapping[str, str], RunOptions]:
            half = len(given) // 2
            config = dict(zip(given[:half], given[half:], strict=True))
            entries = {**prepared, **allowlist.run_config(config, circumstances)}
            return _NOTHING, entries, configuration.run_options({}, entries)

        return look_up

    def _permit(self, run_config: object) -> dict[str, str]:
        return allowlist.run_config(run_config, self._circumstances)

    @cached_property
    def _circumstances(self) -> allowlist.Circumstances:
        # Looked at once: the variable matters to ORT only where a session is opened.
        configuration.refuse_while_model_configures({"run_config": _NOTHING})
        return configuration.circumstances(self._session.get_session_options(), self._session.get_providers())
