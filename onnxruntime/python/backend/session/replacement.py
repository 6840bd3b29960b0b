# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Replaces the inner session of the OpenVINO EP after a run that failed.

After a run failed inside the OpenVINO EP, built-in or plugin, the inner session returns values of earlier runs. It also
fails runs whose inputs are right, and returns outputs for inputs that do not match. OpenVINO 1.24.1 and the plugin EP
1.8.1 do so with any number of threads, and on AUTO and HETERO devices.

Therefore an output is returned only if no other run failed in the same inner session before that output was complete.
A run cannot know this until each parallel run has ended, so it waits for these runs. If one of these runs failed, the
outcome is discarded and computed again, alone, in a new inner session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import RLock
from weakref import ref

from onnxruntime import InferenceSession, IOBinding, RunOptions
from onnxruntime.backend.provider_names import OPENVINO

# The attribute of a session that contains its Replacement.
_KEPT = "_replacement_of_backend"
# Seconds between two checks of whether a waiting run must end.
_INTERVAL = 0.05
# Errors that ORT and its Python API raise before the first node runs (``InferenceSession::ValidateInputsOutputs``).
_BEFORE_FIRST_NODE = re.compile(
    r"Required inputs \(|\[ONNXRuntimeError\] : 2 : INVALID_ARGUMENT : "
    r"(Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|Invalid input name)"
)


def watch(
    session: InferenceSession,
    model: str | bytes,
    create: Callable[[], InferenceSession],
    lock: Callable[[], AbstractContextManager] = nullcontext,
) -> None:
    """Let a new session replace this one after a failed run, if it has the OpenVINO EP.

    :param create: returns a new session with the same options, under ``lock``.
    """
    if OPENVINO in session.get_providers():
        vars(session)[_KEPT] = Replacement(session, partial(_renew, model, _stamp(model), create, lock))
        session.io_binding = partial(_io_binding, ref(session))


def of(session: InferenceSession) -> Replacement | None:
    """Return the replacement of a session, ``None`` if the session does not have the OpenVINO EP."""
    kept = vars(session)
    if _KEPT in kept or OPENVINO not in session.get_providers():
        return kept.get(_KEPT)
    return kept.setdefault(_KEPT, Replacement(session, None))


class _Inner:
    """An inner session, the runs that it computes, and the runs that failed in it. Each run is a lock that it holds."""

    def __init__(self, session: InferenceSession) -> None:
        self.handle = session._sess
        self.running: set = set()
        self.failed: set = set()


class Replacement:
    """Runs one session, and replaces its inner session after a failed run.

    A session that the caller created cannot be replaced: each later run raises an error.
    """

    def __init__(self, session: InferenceSession, renew: Callable[[InferenceSession], None] | None) -> None:
        """If the caller created the session, ``renew`` is ``None``. Otherwise, it replaces the inner session."""
        self._renew = renew
        self._inner = _Inner(session)
        self._alone: set = set()  # the run that computes alone, if any
        self._entering = RLock()

    def run(self, session: InferenceSession, options: RunOptions, compute: Callable, *arguments: object) -> object:
        """Return the outputs of ``compute``, or raise its error. If another run may have influenced them, run again.

        :param options: the options of the run, which can end it.
        """
        run = RLock()
        with run:
            with self._entering:
                inner = self._inner
                beside_others = not (self._alone or inner.failed or inner.handle is not session._sess)
                if beside_others:
                    inner.running.add(run)
            outcome = _attempt(inner, run, compute, arguments) if beside_others else None
        if beside_others:
            _wait(inner.running, options)
        if not beside_others or not inner.failed.issubset((run,)):
            outcome = self._run_alone(session, options, compute, arguments)
        outputs, error = outcome
        if error is None:
            return outputs
        try:
            raise error
        finally:
            del error, outcome  # a traceback that refers to itself keeps the caller's arrays

    def _run_alone(
        self, session: InferenceSession, options: RunOptions, compute: Callable, arguments: tuple
    ) -> tuple[object, Exception | None]:
        run = RLock()
        with run:
            try:
                while run not in self._alone:
                    _wait(self._alone, options)
                    with self._entering:
                        if not self._alone:
                            self._alone.add(run)
                _wait(self._inner.running, options)
                return _attempt(self._usable(session), run, compute, arguments)
            finally:
                self._alone.discard(run)

    def _usable(self, session: InferenceSession) -> _Inner:
        """Return an inner session without failed runs."""
        if self._inner.handle is not session._sess:  # the caller called set_providers
            self._inner, self._renew = _Inner(session), None
        if self._inner.failed:
            if self._renew is None:
                raise RuntimeError(
                    f"A run failed inside {OPENVINO}, and the session may return values of earlier runs. The backend "
                    "cannot replace a session that the caller created or changed. Create a new session and prepare it"
                )
            self._renew(session)
            self._inner = _Inner(session)
        return self._inner


def _attempt(inner: _Inner, run: object, compute: Callable, arguments: tuple) -> tuple[object, Exception | None]:
    """Compute, and record whether the run failed before it counts as ended."""
    try:
        return compute(*arguments), None
    except BaseException as error:
        if not _BEFORE_FIRST_NODE.match(str(error)):
            inner.failed.add(run)
        if not isinstance(error, Exception):
            raise  # such as KeyboardInterrupt, which can hide the error of the run
        return None, error
    finally:
        inner.running.discard(run)


def _wait(runs: set, options: RunOptions) -> None:
    """Wait until each of these runs has ended. If the options terminate this run, raise an error."""
    for run in runs.copy():
        while run in runs:
            if run.acquire(timeout=_INTERVAL):  # held by the run, so the run has ended
                runs.discard(run)
                run.release()
            elif options.terminate:
                raise RuntimeError("The run was ended while it waited for another run of the session")


def _renew(
    model: str | bytes,
    stamp: tuple,
    create: Callable[[], InferenceSession],
    lock: Callable[[], AbstractContextManager],
    session: InferenceSession,
) -> None:
    try:
        if _stamp(model) != stamp:
            raise RuntimeError("the model's file has changed")
        with lock():
            fresh = create()
            if fresh.get_providers() != session.get_providers():
                raise RuntimeError(f"ORT created it with {', '.join(fresh.get_providers())} only")
            vars(session).update(vars(fresh))
    except Exception as error:
        raise RuntimeError(
            f"A run failed inside {OPENVINO}, and the session could not be replaced: {error}. Prepare the model again"
        ) from error


def _stamp(model: str | bytes) -> tuple:
    """Return values that change when the model's file is replaced or written."""
    if isinstance(model, bytes):
        return ()
    status = os.stat(model)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _io_binding(session: ref[InferenceSession]) -> IOBinding:
    """Return an IO binding that keeps its inner session, as ORT's own bindings do from 1.31 on."""
    binding = IOBinding(session())
    binding._session = session()._sess
    return binding
