# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Implements ONNX's ``BackendRep``: a prepared model, its configuration, and its runs."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NoReturn, Self

from onnx.backend.base import BackendRep

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import parts
from onnxruntime.backend.allowlist.rules import NOTHING, Texts
from onnxruntime.backend.applied import nodes
from onnxruntime.backend.applied.settings import NOTHING_APPLIED, Applied, plain_copy
from onnxruntime.backend.runs.limits import Limits
from onnxruntime.backend.runs.plan import Plan
from onnxruntime.backend.session.state import generation_of, is_of_ort, state_of


class OnnxRuntimeBackendRep(BackendRep):
    """A prepared model: an :class:`onnxruntime.InferenceSession`, its run config, and the settings that ORT reports."""

    # For a subclass that sets ``_session`` itself, or whose constructor fails.
    _session: Any = None
    _applied = NOTHING_APPLIED
    _plan: Plan | None = None

    def __init__(self, session, *, applied: Applied = NOTHING_APPLIED) -> None:
        """Use an ``InferenceSession``, or another object with ``get_inputs`` and ``run``, with permitted settings."""
        if applied is NOTHING_APPLIED and is_of_ort(session):  # of the caller: its creation imported no part
            with suppress(Exception):  # each run raises it
                parts.for_session(session)
        self._session = session
        self._applied = applied

    def _current_plan(self) -> Plan:
        """Return the plan of the runs of the session that this prepared model has now."""
        plan = self._plan
        session = self.session
        if plan is None or plan.session is not session or plan.generation is not generation_of(session):
            plan = self._plan = _new_plan(session, self._applied.configuration.get("run_config", NOTHING))
            if self._session is not session:  # another thread closed this prepared model
                self._plan = None
        return plan

    @property
    def providers(self) -> tuple[str, ...]:
        """The EPs of the session, in order."""
        return tuple(self.session.get_providers())

    @property
    def provider_options(self) -> dict[str, dict[str, str]]:
        """For each specified EP, the specified options (and its ``device_id``) as ORT reports them."""
        return plain_copy(self._applied.provider_options)

    @property
    def unconfirmed(self) -> dict[str, dict[str, object]]:
        """The options that an EP cannot report, by EP, and settings without effect, by keyword argument.

        The settings of the operator, in the part ``trusted`` of ``ORT_ONNX_BACKEND_CONFIG``, have the value "trusted".
        """
        return plain_copy(self._applied.unconfirmed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of ``prepare``."""
        return self._applied.warnings

    @property
    def extensions(self) -> tuple[str, ...]:
        """The custom operator libraries, by package or file name. Only ``ORT_ONNX_BACKEND_CONFIG`` specifies them."""
        return self._applied.extensions

    @property
    def session_options(self) -> dict[str, object]:
        """The specified attributes of :class:`onnxruntime.SessionOptions`, as stored in the session."""
        return plain_copy(self._applied.session_options)

    @property
    def session_config(self) -> dict[str, str]:
        """The specified session config entries, as stored in the session."""
        return plain_copy(self._applied.configuration.get("session_config", NOTHING))

    @property
    def run_config(self) -> dict[str, str]:
        """The run config entries of every run, as stored in ORT's run options."""
        settings = self._current_plan().settings
        return {key: settings.options.get_run_config_entry(key) for key in settings.entries}

    @property
    def node_assignment(self) -> nodes.NodeAssignment | None:
        """For each EP, the number of its nodes. ``None`` if ORT has no record, as usual if no EP was specified.

        Its text is a sentence, such as ``3 of 412 nodes on CUDAExecutionProvider, 409 on CPUExecutionProvider``.
        """
        return nodes.node_assignment(self.session)

    @property
    def why_serial(self) -> str:
        """Why no runs on OpenVINO are parallel. Empty if runs of several threads can be parallel, and on other EPs."""
        session = self.session
        reasons = [part.why_serial(session) for part in parts.for_session(session)]
        return "".join(reasons)  # of one part at most

    def configuration(self) -> dict[str, dict]:
        """
        Return the specified configuration as plain data, in the form of ``ORT_ONNX_BACKEND_CONFIG``.

        ``prepare(model, **rep.configuration())`` applies it in any process. It does not contain :attr:`extensions`.
        """
        return plain_copy(self._applied.configuration)

    @property
    def session(self) -> InferenceSession:
        """
        The session, for your own IO binding with :meth:`run_options`.

        Its ``run`` does not use the run config. Do not call it if the session captures graphs: a replay would write to
        memory that was released. On the OpenVINO EP, prepare the model again if a run of your own fails. If :meth:`run`
        fails, create your IO bindings again.
        """
        session = self._session
        if session is None:
            raise RuntimeError("The prepared model is closed")
        return session

    def close(self) -> None:
        """Release the session. Another prepared model on the same session, or a run that has not ended, keeps it."""
        session = self._session
        self._session = None
        self._plan = None
        owned = state_of(session).owned if is_of_ort(session) else None
        del session
        if owned is not None:  # the session shares a device
            owned.lock.release_ended()

    def __del__(self, is_finalizing: Callable = sys.is_finalizing) -> None:
        if not is_finalizing():
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        session = self._session
        if session is None:
            return f"<{name}, closed>"
        path = getattr(session, "_model_path", None)
        if path:
            model = ascii(os.path.basename(path))
        else:
            model = f"graph {session.get_modelmeta().graph_name!a}"
        text = f"{name} of {model}"

        assignment = self.node_assignment
        if assignment is None:
            text += f" on {', '.join(session.get_providers())}"
        else:
            text += f": {assignment}"
        for report in ("provider_options", "session_options", "session_config", "run_config", "unconfirmed"):
            values = getattr(self, report)
            if values:
                text += f", {report}={values!a}"
        return f"<{text}>"

    def __getattr__(self, name: str) -> NoReturn:
        problem = f"{type(self).__name__!r} object has no attribute {name!r}"
        if hasattr(InferenceSession, name):
            problem += f". Use rep.session.{name}"
        raise AttributeError(problem, name=name, obj=self)

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self).copy())  # another thread may be adding an attribute
        return copied

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            # The advice first: frameworks cut the message.
            "Send functools.partial(onnxruntime.backend.prepare, path, **rep.configuration()), call it in a function "
            "of the worker, and return outputs only: a prepared model cannot be pickled or deep-copied. copy.copy "
            "shares the session"
        )

    def run_options(self, run_config: Mapping | None = None, **attributes) -> RunOptions:
        """
        Return new :class:`onnxruntime.RunOptions` for runs of :attr:`session` with your own IO binding::

            rep.session.run_with_iobinding(binding, rep.run_options())

        :param run_config: ``{key: value}`` of run config entries. They override prepared entries with the same key.
        :param attributes: permitted attributes of :class:`onnxruntime.RunOptions`, as for :meth:`run`.
        """
        plan = self._current_plan()
        settings, _ = plan.overrides.look_up(run_config, attributes)
        return settings.options

    def device_lock(self) -> AbstractContextManager[None]:
        """
        Return a context in which no other thread creates, runs or releases a session on the device of this session.

        Use it while you use the device without :meth:`run`: for ``OrtValue`` objects in device memory, IO bindings, and
        your own sessions. Call :meth:`run` before or after the block. A process has one lock for CUDA and WebGPU. Other
        devices do not need a lock.

        :raises RuntimeError: at the start of the block, if a signal handler or a finalizer uses it in the middle of a
            call of the same thread on the device.
        """
        session = self._current_plan().session
        owned = state_of(session).owned if is_of_ort(session) else None
        if owned is None:
            return nullcontext()
        return owned.lock.alone()

    def with_run_config(self, run_config: Mapping) -> Self:
        """Return a new prepared model on the same session. The entries override prepared entries with the same key."""
        plan = self._current_plan()
        settings, without_effect = plan.overrides.look_up(run_config, {})
        rep = self.__copy__()
        rep._session = plan.session
        rep._plan = _new_plan(plan.session, settings.entries)
        if settings.entries:
            rep._applied = self._applied.with_run_config(settings.entries, without_effect)
        return rep

    def run(  # type: ignore[override]  # a list, as from the stock backend
        self, inputs, *surplus, run_config=None, timeout=None, cancellation=None, **kwargs
    ) -> list:
        """
        Compute the outputs. Any number of threads may call this method. On WebGPU, OpenVINO and CUDA, runs may wait for
        each other.

        :param inputs: a list or tuple in the order of the model's inputs, a mapping by name, or the value of the only
            input (``[value]`` if that is a list). A value is an array of the declared type, a list for a sequence, a
            mapping for a map, ``None`` for an absent optional, or an :class:`onnxruntime.OrtValue`. Arrays of types
            that numpy lacks have the dtypes of ``onnx.helper.tensor_dtype_to_np_dtype``. Python numbers, texts and
            lists are converted to the declared type.
        :param run_config: ``{key: value}`` of run config entries. They override prepared entries with the same key.
        :param timeout: the maximum duration in seconds, which includes the time to wait for other sessions. A run that
            exceeds it stops at the end of its current node.
        :param cancellation: an :class:`onnxruntime.backend.Cancellation`, which lets another thread end the run.
        :param kwargs: permitted attributes of :class:`onnxruntime.RunOptions`. Other names are ignored, with a
            ``RuntimeWarning``.
        :return: list of outputs, each an array that owns its memory.
        :raises NotPermittedError: if a setting is not permitted.
        :raises InputError: if an input does not match the model.
        :raises TimeoutError: if the run exceeds ``timeout``. The prepared model is unchanged.
        :raises RunCancelledError: if ``cancellation`` ends the run. The prepared model is unchanged.
        """
        if surplus:
            raise TypeError(
                "run() takes the inputs as its only positional argument, and returns all outputs. Use rep.run({...}) "
                "instead of session.run(None, {...})"
            )
        plan = self._plan
        # As in _current_plan. Calling it takes a hundredth of a short run.
        if (
            plan is None
            or plan.session is not self._session
            or plan.generation is not getattr(plan.session, "_providers", None)
        ):
            plan = self._current_plan()
        settings = plan.settings
        if run_config is not None or kwargs:
            settings = plan.overrides.of_run(run_config, kwargs)
        if timeout is not None or cancellation is not None:
            return plan.run_limited(inputs, settings, Limits(timeout, cancellation))
        fast_run = plan.fast_run  # Python calls a local function faster than an attribute
        outputs = fast_run(inputs, settings.options)
        if outputs is None:
            outputs = plan.run(inputs, settings)
        return outputs


def _new_plan(session: InferenceSession, run_config: Texts) -> Plan:
    return Plan(session, run_config, parts.for_session(session) if is_of_ort(session) else [])
