# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The locks of sessions that may not open, run or end beside each other in one process.

:data:`WEBGPU`: two WebGPU sessions used from two threads fail or crash the process, and so does opening one while
another runs: with the plugin EP of ORT 1.31.1 and with the EP inside 1.27. So each does everything alone.

:data:`CUDA`: ORT captures a CUDA graph in the global mode (``cudaStreamCaptureModeGlobal`` in ``cuda_graph.cc``), in
which an allocation or a device synchronisation of any thread fails and breaks the capture. So who captures is alone;
all else goes on side by side.

The backend takes these locks for what it does. What an application does by itself on such a device (a session of its
own, an IO binding, an ``OrtValue`` in device memory) it does ::

    with onnxruntime.backend.session_lock.CUDA.alone():
        ...
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import compress
from operator import methodcaller

from onnxruntime import InferenceSession
from onnxruntime.backend import provider_names

# All that computes through the CUDA runtime.
_ON_CUDA = frozenset({provider_names.CUDA, provider_names.TENSORRT, provider_names.NV_TENSORRT_RTX})

_acquire, _try, _release = methodcaller("acquire"), methodcaller("acquire", False), methodcaller("release")


@contextmanager
def _holding(locks: list, acquire: Callable) -> Iterator[list]:
    """Hold those of the locks that ``acquire`` gets.

    All are taken in one call of C code and let go in another, so that Ctrl-C cannot come between a lock and the note of
    it: a lock that nobody lets go would stop every other thread.
    """
    held: list = []
    let_go = partial(deque, map(_release, held), 0)
    try:
        held.extend(compress(locks, map(acquire, locks)))
        yield held
    finally:
        let_go()


class _Thread(threading.local):
    """What each thread has of a lock: one of its own, to hold during a run."""

    def __init__(self, new_lock: Callable) -> None:
        self.running = new_lock()


class SessionLock:
    """
    A re-entrant lock that one thread holds alone, or any number hold side by side for a run each.

    It also releases sessions. A session dies wherever its last reference goes, in the garbage collector too, where
    waiting for a lock can hang. So what it held is put aside, and dropped by whoever is alone then or next.
    """

    def __init__(self, side_by_side: bool) -> None:
        """
        :param side_by_side: whether threads may run sessions at the same time.
        """
        self._side_by_side = side_by_side
        self._alone = threading.RLock()
        self._taken = False
        # One lock for each thread that has run a session, gone when its thread is, and for each session that replays
        # graphs: to be alone means to hold them all. So a run takes no lock that another's run wants.
        self._running: weakref.WeakSet = weakref.WeakSet()
        self._dead: deque[dict] = deque()
        # Whether it was ever had by a session on another device than 0, which is where every thread begins.
        self.other_devices = False
        self._thread = _Thread(self.new_lock)
        self._elsewhere = threading.local()  # apart from _thread, which takes the lock when a thread first has it

    def for_a_run(self) -> AbstractContextManager:
        """What the calling thread holds while it opens or runs a session. Inside it, nothing may ask to be alone."""
        return self._thread.running if self._side_by_side else self.alone()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other thread opens, runs or releases a session, and keep it so."""
        try:
            with self._alone:
                outer, self._taken = self._taken, True
                try:
                    if self._side_by_side:
                        with _holding(list(self._running), _acquire):
                            yield
                    else:
                        yield  # nobody holds a lock of their own
                finally:
                    self._taken = outer
        finally:
            if self._dead:
                self.bury()

    def new_lock(self):
        """A lock that nobody else holds while one thread is alone; to be kept as long as it is used."""
        with self._alone:
            lock = threading.RLock()
            self._running.add(lock)
        self.bury()
        return lock

    def bury_elsewhere(self) -> None:
        """Have the calling thread release no session: CUDA's current device would be that of the released one."""
        self._elsewhere.is_so = True

    def bury(self) -> None:
        """Release the sessions that were put aside, unless another thread is to."""
        # A thread that does not get the lock leaves what is put aside to the thread that has it: that one calls this
        # after releasing it.
        while self._dead and not hasattr(self._elsewhere, "is_so"):
            with _holding([self._alone], _try) as held:
                # The garbage collector can run while this thread holds the lock; it calls this again afterwards.
                if not held or self._taken:
                    return
                with suppress(IndexError):  # until none is left, whoever else takes of them
                    while True:
                        # Emptied, for the finalizer that put it aside may still hold it.
                        self._dead.popleft().clear()

    def _put_aside(self, held: dict) -> None:
        self._dead.append(held)
        self.bury()

    def release_of(self, session: InferenceSession) -> None:
        """Have the inner session, and all else that a session object holds, dropped under the lock."""
        with _marking:
            if "_released_under_lock" in vars(session):
                return
            session._released_under_lock = True
        # vars(session) outlives the object because the finalizer holds it. It holds no reference back.
        weakref.finalize(session, self._put_aside, vars(session)).atexit = False


WEBGPU = SessionLock(side_by_side=False)
CUDA = SessionLock(side_by_side=True)
_marking = threading.Lock()


def _of(providers: Iterable[str]) -> SessionLock | None:
    if provider_names.WEBGPU in providers:
        return WEBGPU
    return None if _ON_CUDA.isdisjoint(providers) else CUDA


def while_opening(providers: Iterable[str]) -> AbstractContextManager:
    """What to hold while a session with these EPs is opened."""
    lock = _of(providers)
    return nullcontext() if lock is None else lock.for_a_run()


def of(session: InferenceSession) -> SessionLock | None:
    """The lock of a session, under whose :meth:`SessionLock.for_a_run` it runs; ``None`` where it needs none."""
    lock = _of(session.get_providers())
    if lock is not None:
        options = session.get_provider_options().values()
        lock.other_devices |= any(texts.get("device_id", "0") != "0" for texts in options)
        lock.release_of(session)
    return lock
