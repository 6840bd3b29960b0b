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

On OpenVINO, each session has a separate lock for its runs (``openvino/run_order.py``).

The backend takes these locks for its own calls. An application must take them for its own sessions, IO bindings and
``OrtValue`` objects. Use ``rep.device_lock()`` of a prepared model.

A thread may wait for a lock only while it holds locks that are above it in this list:

* ``SessionLock._alone`` of an OpenVINO session, then of a device: for a thread that is alone, or waits until it is.
* ``SessionLock._running``: a thread that must be alone waits until no other thread is in a call.
* ``Capture._turn`` of a session that captures graphs, for one replay after another.

A signal handler or a finalizer can run between two steps of a call, and can use sessions itself. If both calls may be
parallel to others, the call of this code goes on. Otherwise, it raises a ``RuntimeError``, because it would wait for
its own thread. The release of a session never waits.

An interrupt, a ``RecursionError`` or a ``MemoryError`` can end any step, except between an assignment and the ``try``
statement that follows. Therefore, one C call takes a lock and records it (:func:`take`), inside the ``try`` statement
that releases the lock. A ``with`` statement is not enough: Python 3.14 can call a signal handler before its block.

All of this relies on the global interpreter lock, which orders the steps of all threads (``optional_parts.py``).
"""

from __future__ import annotations

import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import call
from threading import Lock, RLock, get_ident
from typing import Any, TypeVar

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import provider_names
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.session import state

_Result = TypeVar("_Result")
_IN_A_CALL = (
    "A signal handler or a finalizer used a session in the middle of a call of the same thread, and one of both calls "
    "must be alone. Use the session after the interrupted call"
)
_FORKED = (
    "This process was forked from a process with sessions on the same device, which a forked process cannot use. "
    "Prepare models after the fork only, or start processes with spawn or forkserver"
)


def take(lock: Lock | RLock, taken: list[bool], seconds: float = 0.05) -> bool:
    """Take a lock and record it. The caller's ``finally`` block releases the lock if ``True in taken``."""
    taken.extend(map(lock.acquire, (True,), (seconds,)))
    return taken[-1]


def call_holding(
    lock: Lock | RLock,
    options: RunOptions | None,
    function: Callable[..., _Result],
    *arguments: object,
) -> _Result:
    """Call a function under a lock. The run options can end the wait."""
    taken: list[bool] = []
    try:
        while not take(lock, taken):
            check_terminated(options)
        return function(*arguments)
    finally:
        if True in taken:
            lock.release()


def check_terminated(options: RunOptions | None) -> None:
    """Raise an error if the run options terminate a run that waits."""
    if options is not None and options.terminate:
        raise RuntimeError("the run was terminated while it waited for other sessions")


def _clear_frames(error: BaseException) -> None:
    """Release what the frames of a failed call refer to, while the lock is held: the program can keep the error.

    The frames of ORT's constructor refer to an inner session, also those of a first attempt, the cause of the error.
    """
    for failed in (error, error.__cause__):
        if failed is not None:
            traceback.clear_frames(failed.__traceback__)


class SessionLock:
    """A lock that one thread holds alone, or any number of threads hold side by side for a run each.

    It also releases sessions. The last reference to a session can end in the garbage collector, where waiting for a
    lock can hang. So the lock owns the inner session. The thread that is alone, now or next, releases it.
    """

    def __init__(self, side_by_side: bool) -> None:
        self._side_by_side = side_by_side
        self._alone: Any = RLock()  # its private methods are those that threading.Condition calls
        # The thread that is alone or was alone last, changed under _alone only. 0 if another thread has run since.
        self._owner = 0
        # For each thread that is in a call, whether the call is alone.
        self._running: dict[int, bool] = {}
        #: The threads that execute the runs of others. They release no session, which changes CUDA's current device.
        self.workers: set[int] = set()
        self._owned: dict[int, state.Owned] = {}
        #: The sessions that have ended and are not released yet.
        self.ended: deque[state.Owned] = deque()
        #: Whether a thread ever began to create a session on another device than 0. Threads begin on device 0.
        self.other_devices = False
        #: Why no session of this process can run any more; empty if they can.
        self.failure = ""

    def run(
        self,
        options: RunOptions | None,
        function: Callable[..., _Result],
        *arguments: object,
    ) -> _Result:
        """Call a function that creates or runs a session, while no other thread is alone."""
        thread = get_ident()
        if thread in self.workers:  # a finalizer
            raise RuntimeError(_IN_A_CALL)
        if self._running.get(thread) is False:  # in the middle of a call that is not alone
            return function(*arguments)
        return self.run_unnested(options, function, *arguments)

    def run_unnested(
        self,
        options: RunOptions | None,
        function: Callable[..., _Result],
        *arguments: object,
    ) -> _Result:
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
            except BaseException as error:
                _clear_frames(error)
                raise
            finally:
                del running[thread]
            call_holding(self._alone, options, self._forget_owner)

    def run_alone(
        self,
        options: RunOptions | None,
        function: Callable[..., _Result],
        *arguments: object,
    ) -> _Result:
        """Call a function while no other thread creates, runs or releases a session."""
        self._begin()
        thread = get_ident()
        taken: list[bool] = []
        try:
            self._take_alone(options, taken)
            self._running[thread] = True
            try:
                return function(*arguments)
            except BaseException as error:
                _clear_frames(error)
                raise
            finally:
                del self._running[thread]
        finally:
            if True in taken:
                self._alone.release()
            self.release_ended()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Return a context in which no other thread creates, runs or releases a session.

        An interrupt can end a step of Python between taking the lock and the block, or between the block and the
        release. Then the lock is released when the program drops the traceback of the interrupt, and with it this
        generator.
        """
        self._begin(worker=False)
        taken: list[bool] = []
        try:
            self._take_alone(None, taken)
            yield
        finally:
            if True in taken:
                self._alone.release()
            self.release_ended()

    def wait_for_worker(self, wait: Callable, *arguments: object) -> None:
        """Call a function that waits for a worker. The worker can take the lock, although this thread is alone."""
        self._begin(worker=False)
        held: list[object] = []
        try:
            if self._alone._is_owned():
                held.extend(map(call, (self._alone._release_save,)))
            wait(*arguments)
        finally:
            if held:
                self._alone._acquire_restore(*held)  # no signal handler runs while this waits
                self._wait_for_others(None)

    def calls(self) -> int:
        """Return how many threads are in a call."""
        return len(self._running)

    def _begin(self, worker: bool = True) -> None:
        """Check that a call that cannot be nested may begin, and whether this thread may be a worker."""
        thread = get_ident()
        if thread in self._running or (thread in self.workers and not worker):
            raise RuntimeError(_IN_A_CALL)
        if self.failure:
            raise RuntimeError(self.failure)
        self.release_ended()

    def _take_alone(self, options: RunOptions | None, taken: list[bool]) -> None:
        while not take(self._alone, taken):
            check_terminated(options)
        self._wait_for_others(options)

    def _wait_for_others(self, options: RunOptions | None) -> None:
        self._owner = get_ident()
        pause = 2e-5
        while self._running:
            check_terminated(options)
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def _forget_owner(self) -> None:
        self._owner = 0

    def own(self, session: InferenceSession) -> state.Owned:
        """Let this lock release the inner session after the session has ended."""
        of_session = state.of(session)
        of_session.let_go(session._sess)
        if of_session.owned is None:
            owned = state.Owned(session, self)
            self._owned[id(owned)] = owned
            of_session.owned = owned
        return of_session.owned

    def release_ended(self) -> None:
        """Release the sessions that have ended. If a thread is alone, that thread does so later."""
        if not self.ended or self.failure or get_ident() in self.workers or self._alone._is_owned():
            return
        taken: list[bool] = []
        try:
            if not take(self._alone, taken, 0):
                return
            for _ in range(len(self.ended)):
                # It stays first until it is released: after an interrupt, the next call continues.
                owned = self.ended[0]
                if owned.release():
                    self._owned.pop(id(owned), None)
                    self.ended.popleft()
                else:
                    self.ended.rotate(-1)
        finally:
            if True in taken:
                self._alone.release()

    def after_fork(self) -> None:
        """Refuse calls in a forked process if its parent had sessions or calls on the device."""
        if self._owned or self._running or self._owner:
            self.failure = _FORKED


WEBGPU = SessionLock(side_by_side=False)
CUDA = SessionLock(side_by_side=True)
if hasattr(os, "register_at_fork"):
    for _lock in (WEBGPU, CUDA):
        os.register_at_fork(after_in_child=_lock.after_fork)


def of(providers: Iterable[str]) -> SessionLock | None:
    """Return the lock of sessions with these EPs, ``None`` if they need none."""
    if provider_names.WEBGPU in providers:
        return WEBGPU
    return CUDA if any(ep in providers for ep in provider_names.THROUGH_CUDA) else None


def create(
    create_session: Callable[[], InferenceSession], model: object, options: object, permit: Permit
) -> InferenceSession:
    """Create a session if this process and thread can use its device."""
    lock = of(permit.providers)
    assert lock is not None  # only such sessions
    lock.run(None, bool)  # raises an error if this thread or this process cannot
    for settings in permit.providers.values():
        device = settings.get("device_id")
        if device is not None and device.text != "0":
            lock.other_devices = True  # before ORT changes CUDA's current device of this thread
    return create_session()


def construct(
    constructor: Callable[..., InferenceSession],
    permit: Permit,
    **arguments: object,
) -> InferenceSession:
    """Create a session under the lock of its EPs. The lock owns the session before anything else can fail."""
    lock = of(permit.providers)
    assert lock is not None  # only such sessions
    return lock.run(None, _construct_owned, lock, partial(constructor, **arguments))


def _construct_owned(lock: SessionLock, constructor: Callable[[], InferenceSession]) -> InferenceSession:
    session = constructor()
    lock.own(session)
    return session


def lock_of(session: InferenceSession) -> SessionLock | None:
    """Return the lock that the runs of a session need, under which the session is released; ``None`` if none."""
    lock = of(session.get_providers())
    if lock is not None:
        options = session.get_provider_options().values()
        if any(texts.get("device_id", "0") != "0" for texts in options):
            lock.other_devices = True
        lock.own(session)
    return lock
