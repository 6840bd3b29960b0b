# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The locks of sessions that may not be created, run or released at the same time.

Each call on WebGPU is alone (:data:`WEBGPU`). Without the lock, calls of two threads on two WebGPU sessions fail, or
the process crashes. This also applies to the creation of a session (plugin EP of ORT 1.31.1, built-in EP of 1.27).

On CUDA (:data:`CUDA`), a capture is alone, and all other calls run in parallel. ORT captures CUDA graphs in the global
mode (``cudaStreamCaptureModeGlobal`` in ``cuda_graph.cc``). In this mode, an allocation or a device synchronization of
any thread fails and breaks the capture.

On OpenVINO, each session has a separate lock for its runs (``openvino/run_order.py``). A thread takes WebGPU's lock
first, then CUDA's, then that of an OpenVINO session.

A signal handler or a finalizer can use sessions in the middle of a call of its thread. If both calls may be parallel to
others, the inner call goes on. Otherwise, it raises a ``RuntimeError``, because it would wait for its own thread.

No error and no interrupt leaves a lock taken: after ``RLock.acquire``, the ``finally`` block releases the lock if the
thread owns it. A ``with`` statement is not enough: Python 3.14 can call a signal handler before its block.

All of this relies on the global interpreter lock, which orders the steps of all threads (``session/selection.py``).
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock, get_ident
from typing import Any, TypeVar

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import provider_names
from onnxruntime.backend.allowlist.rules import Texts, texts_of
from onnxruntime.backend.runs.direct_route import Guard
from onnxruntime.backend.session.construction import Construction, SessionPart
from onnxruntime.backend.session.release import Owner

_Result = TypeVar("_Result")
_IN_A_CALL = (
    "A signal handler or a finalizer used a session in the middle of a call of the same thread, and one of both calls "
    "must be alone. Use the session after the interrupted call"
)
_OF_WORKER = (
    "Another thread executes this run, and cannot do so while this thread is in a block of device_lock. Call rep.run "
    "before or after the block"
)
_FORKED = (
    "This process was forked from a process with sessions on the same device, which a forked process cannot use. "
    "Prepare models after the fork only, or start processes with spawn or forkserver"
)


def call_holding(
    lock: Any, options: RunOptions | None, function: Callable[..., _Result], *arguments: object
) -> _Result:
    """Call a function under an ``RLock``. The run options can end the wait."""
    if lock._is_owned():  # as threading.Condition calls it
        return function(*arguments)
    try:
        _acquire(lock, options)
        return function(*arguments)
    finally:
        try:  # noqa: SIM105 - before suppress, Python can call a signal handler
            lock.release()
        except RuntimeError:  # an error or an interrupt ended the wait
            pass


def _acquire(lock: Any, options: RunOptions | None) -> None:
    while not lock.acquire(timeout=0.05):
        check_terminated(options)


def check_terminated(options: RunOptions | None) -> None:
    """Raise an error if the run options terminate a run that waits."""
    if options is not None and options.terminate:
        raise RuntimeError("the run was terminated while it waited for other sessions")


def _clear_frames(error: BaseException) -> None:
    """Release the objects in the frames of a failed call, while the lock is held: the program can keep the error.

    The frames of ORT's constructor refer to an inner session, also those of a first attempt, the cause of the error.
    """
    for failed in (error, error.__cause__):
        if failed is not None:
            traceback.clear_frames(failed.__traceback__)


class SessionLock(Owner):
    """A lock that one thread holds alone, or any number of threads hold side by side for a run each.

    It owns the inner sessions of its device. The thread that is alone, now or next, releases those that have ended.
    """

    def __init__(self, side_by_side: bool) -> None:
        super().__init__()
        self._side_by_side = side_by_side
        self._alone: Any = RLock()
        # The thread that is alone or was alone last, changed under _alone only. 0 if another thread has run since.
        self._owner = 0
        # For each thread that is in a call, whether the call is alone.
        self._running: dict[int, bool] = {}
        #: The threads that execute the runs of others. They release no session, which changes CUDA's current device.
        self.workers: set[int] = set()
        #: Whether a thread ever began to create a session on another device than 0. Threads begin on device 0.
        self.other_devices = False
        #: Why no session of this process can run any more, or "".
        self.failure = ""

    def run(self, options: RunOptions | None, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function that creates or runs a session, while no other thread is alone."""
        thread = get_ident()
        if thread in self.workers:  # a finalizer
            raise RuntimeError(_IN_A_CALL)
        if self._running.get(thread) is False:  # in the middle of a call that is not alone
            return function(*arguments)
        return self.run_unnested(options, function, *arguments)

    def run_unnested(self, options: RunOptions | None, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Do the same as :meth:`run`, but raise an error in the middle of any call of this thread."""
        if not self._side_by_side:
            return self.run_alone(options, function, *arguments)
        thread, running = get_ident(), self._running
        if thread in running or self.ended or self.failure:  # faster than the call
            self._begin()
        while True:
            running[thread] = False
            try:
                owner = self._owner
                if not owner or owner == thread:
                    return function(*arguments)
            finally:
                del running[thread]
            call_holding(self._alone, options, self._forget_owner)

    def run_alone(self, options: RunOptions | None, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function while no other thread creates, runs or releases a session."""
        self._begin()
        try:
            return call_holding(self._alone, options, self._call_alone, options, function, *arguments)
        finally:
            self.release_ended()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Return a context in which no other thread creates, runs or releases a session.

        An interrupt between two steps of the ``with`` statement releases the lock when the program drops its traceback.
        """
        self.check_idle()
        is_nested = self._alone._is_owned()
        try:
            if not is_nested:
                _acquire(self._alone, None)
            self._wait_for_others(None)
            yield
        finally:
            try:  # as above
                if not is_nested:
                    self._alone.release()
            except RuntimeError:  # an interrupt ended the wait
                pass
            self.release_ended()

    def check_idle(self) -> None:
        """Raise an error in the middle of a call of this thread, and in a worker."""
        if get_ident() in self.workers:
            raise RuntimeError(_IN_A_CALL)
        self._begin()

    def check_waits(self) -> None:
        """Raise an error if this thread cannot wait for a worker, which can take the lock."""
        self.check_idle()
        if self._alone._is_owned():
            raise RuntimeError(_OF_WORKER)

    def _begin(self) -> None:
        """Check that a call that cannot be nested may begin."""
        if get_ident() in self._running:
            raise RuntimeError(_IN_A_CALL)
        if self.failure:
            raise RuntimeError(self.failure)
        self.release_ended()

    def _call_alone(self, options: RunOptions | None, function: Callable[..., _Result], *arguments: object) -> _Result:
        thread = get_ident()
        self._wait_for_others(options)
        self._running[thread] = True
        try:
            return function(*arguments)
        except BaseException as error:
            _clear_frames(error)
            raise
        finally:
            del self._running[thread]

    def _wait_for_others(self, options: RunOptions | None) -> None:
        self._owner = get_ident()
        pause = 2e-5
        while self._running:
            check_terminated(options)
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def _forget_owner(self) -> None:
        self._owner = 0

    def in_call(self) -> bool:
        """Return whether this thread is in a call."""
        return get_ident() in self._running

    def release_ended(self) -> None:
        """Release the sessions that have ended. If a thread is alone, that thread does so later."""
        if self.ended:
            self.call_if_free(self.release_each)

    def call_if_free(self, function: Callable, *arguments: object) -> None:
        """Call a function alone, unless a thread is alone already, or must not release sessions."""
        if self.failure or get_ident() in self.workers or self._alone._is_owned():
            return
        try:
            if self._alone.acquire(blocking=False):
                function(*arguments)
        finally:
            try:  # noqa: SIM105 - as above
                self._alone.release()
            except RuntimeError:  # a thread is alone
                pass

    def after_fork(self) -> None:
        """Refuse calls in a forked process if its parent had sessions or calls on the device."""
        if self._owned or self._running or self._owner:
            self.failure = _FORKED


WEBGPU = SessionLock(side_by_side=False)
CUDA = SessionLock(side_by_side=True)


class _Both(Owner):
    """The locks of sessions on both devices: WebGPU's, and inside it CUDA's."""

    def run(self, options: RunOptions | None, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function that creates or runs a session, while no other thread is alone on a device."""
        self.release_ended()
        return WEBGPU.run(options, CUDA.run, options, function, *arguments)

    @contextmanager
    def alone(self) -> Iterator[None]:
        with WEBGPU.alone(), CUDA.alone():
            yield

    def in_call(self) -> bool:
        """Return whether this thread is in a call."""
        return WEBGPU.in_call()

    def release_ended(self) -> None:
        if self.ended:
            WEBGPU.call_if_free(CUDA.call_if_free, self.release_each)


BOTH = _Both()
if hasattr(os, "register_at_fork"):
    for _lock in (WEBGPU, CUDA):
        os.register_at_fork(after_in_child=_lock.after_fork)


def of(providers: Iterable[str]) -> SessionLock | _Both | None:
    """Return the lock of sessions with these EPs, ``None`` if they need none."""
    on_cuda = any(ep in providers for ep in provider_names.THROUGH_CUDA)
    if provider_names.WEBGPU in providers:
        return BOTH if on_cuda else WEBGPU
    return CUDA if on_cuda else None


class LockPart(SessionPart):
    """Creates and runs a session under the lock of its device."""

    name = "locks"

    def create(self, construction: Construction) -> InferenceSession:
        """Create a session if this process and thread can use its device. The lock owns it before anything can fail."""
        lock = of(construction.permit.providers)
        assert lock is not None  # only such sessions
        lock.run(None, bool)  # raises an error if this thread or this process cannot
        # Before ORT changes CUDA's current device of this thread.
        _note_other_devices(map(texts_of, construction.permit.providers.values()))
        construction.call = partial(_construct, lock)
        return construction.create()

    def guard(self, session: InferenceSession, inner: Guard | None) -> Guard | None:
        lock = lock_of(session)
        if lock is None:
            return inner
        if inner is None:
            return lock.run

        def nested(waiting: RunOptions | None, *run: Any) -> list:
            return lock.run(waiting, inner, waiting, *run)

        return nested


def _construct(lock: SessionLock | _Both, constructor: Callable[[], InferenceSession]) -> InferenceSession:
    if lock.in_call():  # a run replaces its inner session (openvino/replacement.py)
        return _construct_owned(lock, constructor)
    return lock.run(None, _construct_owned, lock, constructor)


def _note_other_devices(options: Iterable[Texts]) -> None:
    """Note whether the options of an EP specify another device than 0."""
    if any(texts.get("device_id", "0") != "0" for texts in options):
        CUDA.other_devices = True


def _construct_owned(lock: SessionLock | _Both, constructor: Callable[[], InferenceSession]) -> InferenceSession:
    try:
        session = constructor()
    except BaseException as error:
        _clear_frames(error)
        raise
    lock.own(session)
    return session


def lock_of(session: InferenceSession) -> SessionLock | _Both | None:
    """Return the lock that the runs of a session need, under which the session is released, if any."""
    lock = of(session.get_providers())
    if lock is not None:
        _note_other_devices(session.get_provider_options().values())
        lock.own(session)
    return lock
