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

**Code in the middle of a call**

A signal handler or a finalizer can run between two steps of a call, and can use sessions itself. If both calls may be
parallel to others, the call of this code goes on. Otherwise, it raises a ``RuntimeError`` at once, because it would
wait for its own thread. The release of a session never waits.

**Lock order**

A thread may wait for a lock only while it holds locks that are above it in this list:

* ``SessionLock._alone`` of an OpenVINO session, then of a device: for a thread that is alone, or waits until it is.
* ``SessionLock._running``: a thread that must be alone waits until no other thread is in a call.
* ``Capture._turn`` of a session that captures graphs, for one replay after another.

**Errors in the middle of a call**

An interrupt, a ``RecursionError`` or a ``MemoryError`` can end any step. Python calls a signal handler at the start of
a Python function, after a call of a C function, and before the next iteration of a loop. Since 3.14, it also does so
between a ``with`` statement's call of ``__enter__`` and its block. Therefore:

* One C call takes a lock and records it (:func:`_take`), inside the ``try`` statement that releases the lock.
* The release is one call of a C function, without a new object and without a deeper call than taking the lock.
* No loop is between the two: Python 3.14 can jump back to its start without the protection of the ``try`` statement.
* A thread is entered in ``_running`` by an assignment immediately before a ``try`` statement, and removed by the first
  statement of its ``finally`` block. Python calls no signal handler between these steps.
* ``_owner`` is not reset. A value that is out of date costs another thread one short wait.

A ``with`` statement cannot guarantee this for ``rep.device_lock()``, see :meth:`SessionLock.alone`.

**Threads without a global interpreter lock**

* A lock orders the steps before its release and the steps after it is taken.
* One operation of a ``dict``, ``list`` or ``deque`` is atomic. Operations that change one, and ``copy``, take its lock
  (*Thread Safety Guarantees* in Python's documentation). An attribute is read and assigned like an item of a ``dict``.
* An assignment of a thread and its next read of another variable have no guaranteed order. A thread enters ``_running``
  and reads ``_owner``, another one assigns ``_owner`` and reads ``_running``. Between its two steps, each of them
  passes through a lock (:func:`pass_through`), so that at least one of them sees the assignment of the other. The same
  holds for a session that is put aside while a thread is alone. With the global lock, this step is left out, because
  the global lock orders all steps.
* If a thread drops the last reference to an object that another thread has created, the other thread ends the object at
  a later step. So the release of a session ends with a garbage collection, which ends such objects under the lock
  (:func:`_collect_garbage`). No collection is possible within another one. Therefore, a new thread releases a session
  that the garbage collector has ended.
"""

from __future__ import annotations

import gc
import sys
import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import call
from threading import Lock, RLock, get_ident, local

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import provider_names
from onnxruntime.backend.allowlist.rules import Permit
from onnxruntime.backend.session import state

_FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()
_IN_A_CALL = (
    "A signal handler or a finalizer used a session in the middle of a call of the same thread, and one of both calls "
    "must be alone. Use the session after the interrupted call"
)


def _take(lock: RLock, taken: list[bool], seconds: float = 0.05) -> bool:
    """Take a lock and record it. The caller's ``finally`` block releases the lock if ``True in taken``."""
    taken.extend(map(lock.acquire, (True,), (seconds,)))
    return taken[-1]


def call_holding(
    lock: RLock,
    options: RunOptions | None,
    function: Callable,
    *arguments: object,
) -> object:
    """Call a function under a lock. The run options can end the wait."""
    taken: list[bool] = []
    try:
        while not _take(lock, taken):
            check_terminated(options)
        return function(*arguments)
    finally:
        if True in taken:
            lock.release()


def pass_through(lock: Lock) -> None:
    """Wait until no thread holds a lock. One C call takes and releases it: ``acquire`` is true, and ``release`` not."""
    all(map(call, (lock.acquire, lock.release)))


def check_terminated(options: RunOptions | None) -> None:
    """Raise an error if the run options terminate a run that waits."""
    if options is not None and options.terminate:
        raise RuntimeError("the run was terminated while it waited for other sessions")


class _Cycle:
    """An object that only the garbage collector can end. It records the thread that collects garbage."""

    def __init__(self, collectors: list[int]) -> None:
        self.collectors = collectors
        self.itself = self

    def __del__(self) -> None:
        self.collectors.append(get_ident())


def _collect_garbage(seconds: float) -> bool:
    """Collect garbage in this thread. Return whether that was possible: within another collection, it is not.

    Without the global lock, the thread that created an object ends it later, unless a collection ends it before.

    :param seconds: the time to wait for a collection of another thread, a finalizer of which can wait for this thread.
    """
    until = time.monotonic() + seconds
    collectors: list[int] = []
    while time.monotonic() < until:
        _Cycle(collectors)
        gc.collect()
        if get_ident() in collectors:
            return True
        time.sleep(1e-3)
    return False


class SessionLock:
    """A lock that one thread holds alone, or any number of threads hold side by side for a run each.

    It also releases sessions. The last reference to a session can end in the garbage collector, where waiting for a
    lock can hang. So the attributes of the session are put aside. The thread that is alone, now or next, releases them.
    """

    def __init__(self, side_by_side: bool) -> None:
        self._side_by_side = side_by_side
        self._alone = RLock()
        # The thread that is alone or was alone last, changed under _alone only. 0 if another thread has run since.
        self._owner = 0
        # For each thread that is in a call, whether the call is alone.
        self._running: dict[int, bool] = {}
        self._between = Lock()  # for pass_through
        # Which threads release no session: they have the attribute ``releases_nothing``.
        self._of_thread = local()
        self._dead: deque[dict] = deque()
        # Whether a session on another device than 0 ever took this lock. Threads begin on device 0.
        self.other_devices = False
        # Why no session of this process can run any more; empty if they can.
        self.failure = ""

    def run(
        self,
        options: RunOptions | None,
        function: Callable,
        *arguments: object,
    ) -> object:
        """Call a function that creates or runs a session, while no other thread is alone."""
        if self._running.get(get_ident()) is False:  # in the middle of a call that is not alone
            return function(*arguments)
        return self.run_unnested(options, function, *arguments)

    def run_unnested(
        self,
        options: RunOptions | None,
        function: Callable,
        *arguments: object,
    ) -> object:
        """Do the same as :meth:`run`, but raise an error in the middle of any call of this thread."""
        if not self._side_by_side:
            return self.run_alone(options, function, *arguments)
        thread, running = get_ident(), self._running
        if thread in running:
            raise RuntimeError(_IN_A_CALL)
        if self.failure:
            raise RuntimeError(self.failure)
        while True:
            running[thread] = False
            try:
                if _FREE_THREADED:
                    pass_through(self._between)
                owner = self._owner
                if not owner or owner == thread:
                    return function(*arguments)
            finally:
                del running[thread]
            try:
                call_holding(self._alone, options, self._forget_owner)
            finally:
                self.release_dead()  # of other threads, since this thread took the lock

    def run_alone(
        self,
        options: RunOptions | None,
        function: Callable,
        *arguments: object,
    ) -> object:
        """Call a function while no other thread creates, runs or releases a session."""
        if self.failure:
            raise RuntimeError(self.failure)
        thread, taken = get_ident(), []
        try:
            self._begin_alone(options, taken)
            self._running[thread] = True
            try:
                return function(*arguments)
            finally:
                del self._running[thread]
        finally:
            if True in taken:
                self._alone.release()
            self.release_dead()

    def calls(self) -> int:
        """Return how many threads are in a call."""
        return len(self._running.copy())  # unlike its length, a copy is read under the lock of the dict

    def run_for_other_thread(self, function: Callable, *arguments: object) -> None:
        """Call a function in a worker, for a call of another thread. Code in its middle cannot wait for that thread.

        From now on, the worker releases no session: a release changes CUDA's current device.
        """
        self._of_thread.releases_nothing = True
        thread = get_ident()
        self._running[thread] = True
        try:
            function(*arguments)
        finally:
            del self._running[thread]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Return a context in which no other thread creates, runs or releases a session.

        An interrupt can end a step of Python between taking the lock and the block, or between the block and the
        release. Then the lock is released when the program drops the traceback of the interrupt, and with it this
        generator.
        """
        taken: list[bool] = []
        try:
            self._begin_alone(None, taken)
            yield
        finally:
            if True in taken:
                self._alone.release()
            self.release_dead()

    def _begin_alone(self, options: RunOptions | None, taken: list[bool]) -> None:
        thread = get_ident()
        if thread in self._running:
            raise RuntimeError(_IN_A_CALL)
        while not _take(self._alone, taken):
            check_terminated(options)
        self._owner = thread
        if _FREE_THREADED:
            pass_through(self._between)
        pause = 2e-5
        while self.calls():
            check_terminated(options)
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def _forget_owner(self) -> None:
        self._owner = 0

    def release_dead(self) -> None:
        """Release the sessions that were put aside. If a thread is alone, that thread does so later."""
        while self._may_release():
            taken: list[bool] = []
            try:
                if not _take(self._alone, taken, 0):
                    return
                self._empty_dead()
            finally:
                if True in taken:
                    self._alone.release()

    def _empty_dead(self) -> None:
        while self._dead:
            # It stays first until its attributes have ended: after an interrupt, the next call continues.
            self._dead[0].clear()  # the finalizer may still refer to it
            if _FREE_THREADED:
                _collect_garbage(1)
            self._dead.popleft()

    def _may_release(self) -> bool:
        if _FREE_THREADED:
            pass_through(self._between)
        if not self._dead or hasattr(self._of_thread, "releases_nothing") or self._alone._is_owned():
            return False
        if _FREE_THREADED and not _collect_garbage(0.02):
            start_new_thread(self.release_dead, ())
            return False
        return True

    def put_aside(self, *attributes: dict) -> None:
        """Empty the attributes of objects that own device memory, one after another, now or when the lock is free."""
        self._dead.extend(attributes)
        self.release_dead()


WEBGPU = SessionLock(side_by_side=False)
CUDA = SessionLock(side_by_side=True)


def of(providers: Iterable[str]) -> SessionLock | None:
    """Return the lock of sessions with these EPs, ``None`` if they need none."""
    if provider_names.WEBGPU in providers:
        return WEBGPU
    return CUDA if any(ep in providers for ep in provider_names.THROUGH_CUDA) else None


def create(
    create_session: Callable[[], InferenceSession], model: object, options: object, permit: Permit
) -> InferenceSession:
    """Create a session under the lock of its EPs."""
    session = of(permit.providers).run(None, create_session)
    lock_of(session)
    return session


def lock_of(session: InferenceSession) -> SessionLock | None:
    """Return the lock that the runs of a session need, under which the session is released; ``None`` if none."""
    lock = of(session.get_providers())
    if lock is not None:
        options = session.get_provider_options().values()
        if any(texts.get("device_id", "0") != "0" for texts in options):
            lock.other_devices = True
        state.of(session).release_under(lock, session)
    return lock
