# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The locks of sessions that may not be created, run or released at the same time in one process.

Each call on WebGPU is alone (:data:`WEBGPU`). If two threads use two WebGPU sessions, or one thread creates a session
while another runs one, the calls fail or the process crashes (plugin EP of ORT 1.31.1, built-in EP of 1.27).

On CUDA (:data:`CUDA`), a capture is alone, and all other calls run in parallel. ORT captures CUDA graphs in the global
mode (``cudaStreamCaptureModeGlobal`` in ``cuda_graph.cc``). In this mode, an allocation or a device synchronization of
any thread fails and breaks the capture.

The backend takes these locks for its own calls. An application must take them for its own sessions, IO bindings and
``OrtValue`` objects on such a device, with ``rep.device_lock()`` of a prepared model.

**Lock order**

1. ``SessionLock._alone``, re-entrant, one for each of ``WEBGPU`` and ``CUDA``. A thread that is alone holds it. To add
   a run lock or to release sessions, a thread holds it for a moment.
2. Run locks, re-entrant, in ``SessionLock._run_locks`` (CUDA only): one for each thread that has created or run a
   session, and one for each session that replays graphs (``Capture._replay_lock``). A thread that is alone holds all of
   them. A thread that holds one never takes ``_alone``: it would deadlock with a thread that is alone.
3. ``GraphIds._state`` and ``marking``, held for a few assignments. A thread that holds one waits for no other lock.

**Locks of each call on CUDA**

A thread holds its run lock while it creates a session, or runs a session that does not capture. A replay holds the run
lock of its session, because the graphs of a session share an arena. A capture (the first run of a graph) is alone. So
are runs without capture of a session that captures: ORT may give them memory into which graphs replay. To release a
session, a thread holds ``_alone`` only, also on WebGPU. The worker of ``graph_keys.Threads`` takes no lock: the thread
that waits for the worker holds the locks.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import compress
from operator import methodcaller

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import provider_names

# All EPs that compute through the CUDA runtime.
_ON_CUDA = frozenset({provider_names.CUDA, provider_names.TENSORRT, provider_names.NV_TENSORRT_RTX})

_acquire, _release = methodcaller("acquire"), methodcaller("release")
_try, _try_for_a_moment = methodcaller("acquire", False), methodcaller("acquire", True, 0.05)


@contextmanager
def _holding(locks: list, acquire: Callable) -> Iterator[list]:
    """Hold each lock that ``acquire`` gets.

    One call of C code takes all locks, and another releases them: Ctrl-C between taking a lock and recording it would
    block every other thread.
    """
    held: list = []
    let_go = partial(deque, map(_release, held), 0)
    try:
        held.extend(compress(locks, map(acquire, locks)))
        yield held
    finally:
        let_go()


@contextmanager
def holding_all(locks: list, options: RunOptions | None) -> Iterator[None]:
    """Hold all of the locks. If run options are given, raise an error when they terminate the run that waits."""
    while True:
        with _holding(locks, _acquire if options is None else _try_for_a_moment) as held:
            if len(held) == len(locks):
                yield
                return
        if options.terminate:
            raise RuntimeError("the run was terminated while it waited for other sessions")


def _one(lock: threading.RLock, options: RunOptions | None) -> AbstractContextManager:
    return lock if options is None else holding_all([lock], options)


class SessionLock:
    """A re-entrant lock that one thread holds alone, or any number of threads hold side by side for a run each.

    It also releases sessions. The last reference to a session can end in the garbage collector, where waiting for a
    lock can hang. So the attributes of the session are put aside. The thread that is alone, now or next, releases them.
    """

    def __init__(self, side_by_side: bool) -> None:
        self._side_by_side = side_by_side
        self._alone = threading.RLock()
        self._taken = False
        # Each ends with its thread or its session.
        self._run_locks: weakref.WeakSet = weakref.WeakSet()
        self._dead: deque[dict] = deque()
        # Whether a session on another device than 0 ever took this lock. Threads begin on device 0.
        self.other_devices = False
        # Why no session of this process can run any more; empty if they can.
        self.failure = ""
        # The run lock of each thread, and whether the thread releases nothing: a release changes CUDA's current device.
        self.of_thread = threading.local()

    def for_a_run(self, options: RunOptions | None = None) -> AbstractContextManager:
        """Return the lock for creating or running a session. A thread that holds it may not call :meth:`alone`."""
        if self.failure:
            raise RuntimeError(self.failure)
        if not self._side_by_side:
            return self.alone(options)
        if not hasattr(self.of_thread, "run_lock"):
            self.of_thread.run_lock = self.new_lock(options)
        return _one(self.of_thread.run_lock, options)

    @contextmanager
    def alone(self, options: RunOptions | None = None) -> Iterator[None]:
        """Wait until no other thread creates, runs or releases a session, and keep other threads from it."""
        try:
            with _one(self._alone, options):
                outer, self._taken = self._taken, True
                try:
                    with holding_all(list(self._run_locks), options) if self._side_by_side else nullcontext():
                        yield
                finally:
                    self._taken = outer
        finally:
            self.release_dead()

    def new_lock(self, options: RunOptions | None = None) -> threading.RLock:
        """Return a new run lock, which a thread that is alone holds. Keep it as long as it is used."""
        with _one(self._alone, options):
            lock = threading.RLock()
            self._run_locks.add(lock)
        self.release_dead()
        return lock

    def release_dead(self) -> None:
        """Release the sessions that were put aside, unless another thread will release them."""
        # A thread that holds the lock calls this after it releases the lock.
        while self._dead and not hasattr(self.of_thread, "releases_nothing"):
            with _holding([self._alone], _try) as held:
                # The garbage collector can run while this thread holds the lock, which calls this again afterwards.
                if not held or self._taken:
                    return
                with suppress(IndexError):  # until none is left: other threads may take some
                    while True:
                        self._dead.popleft().clear()  # the finalizer may still refer to it

    def put_aside(self, own: dict) -> None:
        """Empty the attributes of an object that owns device memory, now or when no thread holds the lock."""
        self._dead.append(own)
        self.release_dead()

    def release_of(self, owner: object) -> None:
        """Release all attributes of an object, such as a session's inner session, under the lock when it ends."""
        with marking:
            if "_released_under_lock" not in vars(owner):
                owner._released_under_lock = _Release(self, owner)


class _Release:
    """An attribute of an object that puts the attributes of the object aside when the object ends.

    Only the object may refer to this one: if anything else does, an object that refers to itself never ends.
    """

    def __init__(self, lock: SessionLock, owner: object) -> None:
        self._lock, self._own = lock, vars(owner)
        # Called when the last reference ends. The garbage collector, which ends cycles, calls __del__ instead.
        self._ended = weakref.ref(owner, self._end)

    def _end(self, _: object = None, is_finalizing: Callable = sys.is_finalizing) -> None:
        own, self._own, self._ended = self._own, None, None
        if own is not None and not is_finalizing():
            self._lock.put_aside(own)

    __del__ = _end


WEBGPU = SessionLock(side_by_side=False)
CUDA = SessionLock(side_by_side=True)
marking = threading.Lock()


def _of(providers: Iterable[str]) -> SessionLock | None:
    if provider_names.WEBGPU in providers:
        return WEBGPU
    return None if _ON_CUDA.isdisjoint(providers) else CUDA


def while_opening(providers: Iterable[str]) -> AbstractContextManager:
    """Return the lock for creating a session with these EPs."""
    lock = _of(providers)
    return nullcontext() if lock is None else lock.for_a_run()


def of(session: InferenceSession) -> SessionLock | None:
    """Return the lock of a session, whose :meth:`SessionLock.for_a_run` its runs need; ``None`` if it needs none."""
    lock = _of(session.get_providers())
    if lock is not None:
        options = session.get_provider_options().values()
        lock.other_devices |= any(texts.get("device_id", "0") != "0" for texts in options)
        lock.release_of(session)
    return lock
