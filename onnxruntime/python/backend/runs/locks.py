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

A thread may wait for a lock only while it holds locks with lower numbers.

1. ``RunOrder._turn``, one for each OpenVINO session, for a run that is alone. The thread polls until no other thread
   runs the session.
2. ``Capture._turn``, one for each session that captures: its graphs share an arena, so one replay follows another.
3. ``SessionLock._alone``, for a thread that is alone or waits until it is alone, and for the release of sessions.
4. ``_Calls.running``: only its own thread takes it, so no thread waits for it. A thread that is alone closes the lock
   (``_closed``), and polls until no call is running.
5. ``GraphIds._state``, held for a few assignments.

**Code in the middle of a call**

A signal handler or a finalizer can run between two steps of a thread that holds locks, and can use sessions itself.

- It runs a session: the locks of the interrupted call suffice.
- It must be alone, or it replays a graph: it waits to be alone. Until then, the interrupted call counts as waiting and
  not as running, so that another thread can be alone first. The interrupted call is between two calls of ORT. It goes
  on when no other thread is alone, and repeats a replay whose buffers another call has used (``Capture._replay``).

**Errors in the middle of a call**

An interrupt, a ``RecursionError`` or a ``MemoryError`` can end any step. Therefore, a lock is taken by a ``with``
statement on a lock of C code, or by a C call that also records it (:func:`_take`). Both are released without a new
object and without a deeper call than taking them.

**Python's global interpreter lock**

The lock itself does not need it: ``running`` is taken before ``_closed`` is read, and ``_closed`` before ``running`` is
read. Steps that are one operation of a ``dict``, ``set``, ``deque`` or ``list`` rely on this operation being atomic, as
it is with the global lock and with the locks of each object in builds without the global lock.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, RLock, local

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import provider_names


def _take(lock: RLock, taken: list[bool], seconds: float = 0.05) -> bool:
    """Take a lock and record it. The caller's ``finally`` releases the lock if ``True in taken``."""
    # One C call takes and records: Ctrl-C between two steps would block every other thread.
    taken.extend(map(lock.acquire, (True,), (seconds,)))
    return taken[-1]


def call_holding(lock: RLock, options: RunOptions | None, function: Callable, *arguments: object) -> object:
    """Call a function under a lock. If run options are given, raise an error when they terminate the run that waits."""
    if options is None:
        with lock:
            return function(*arguments)
    taken: list[bool] = []
    try:
        while not _take(lock, taken):
            check_terminated(options)
        return function(*arguments)
    finally:
        if True in taken:
            lock.release()


def check_terminated(options: RunOptions | None) -> None:
    if options is not None and options.terminate:
        raise RuntimeError("the run was terminated while it waited for other sessions")


class _Calls:
    """The calls of one thread under a :class:`SessionLock`. While a call waits, code in its middle has another one."""

    def __init__(self) -> None:
        # Taken by this thread only, and never waited for. `with` releases them, whatever is raised.
        self.running, self.replaying, self.waiting = Lock(), Lock(), Lock()
        # The works of this thread in a worker (``capture/graph_keys.py``), of which it waits for the last.
        self.works: list[object] = []


def _wait_for_works(calls: _Calls) -> None:
    """In code in the middle of a call, wait until the worker of the call does not run, as if it were this thread."""
    for work in calls.works.copy():
        work.wait()


class SessionLock:
    """A re-entrant lock that one thread holds alone, or any number of threads hold side by side for a run each.

    It also releases sessions. The last reference to a session can end in the garbage collector, where waiting for a
    lock can hang. So the attributes of the session are put aside. The thread that is alone, now or next, releases them.
    """

    def __init__(self, side_by_side: bool) -> None:
        self._side_by_side = side_by_side
        self._alone, self._owner = RLock(), None
        self._closed = Lock()  # taken while a thread is alone or waits for the calls of other threads to end
        self._of_thread = local()
        self._all_calls: set[weakref.ref[_Calls]] = set()
        self._dead: deque[dict] = deque()
        # Whether a session on another device than 0 ever took this lock. Threads begin on device 0.
        self.other_devices = False
        # Why no session of this process can run any more; empty if they can.
        self.failure = ""

    def calls(self) -> _Calls:
        """Return the calls of this thread."""
        return getattr(self._of_thread, "calls", None) or self._new_calls()

    def _new_calls(self) -> _Calls:
        calls = _Calls()
        self._all_calls.add(weakref.ref(calls, self._all_calls.discard))
        self._of_thread.calls = calls
        return calls

    def run(self, options: RunOptions | None, function: Callable, *arguments: object) -> object:
        """Call a function that creates or runs a session, while no other thread is alone."""
        if self.failure:
            raise RuntimeError(self.failure)
        if not self._side_by_side:
            with self.alone(options):
                return function(*arguments)
        calls = getattr(self._of_thread, "calls", None) or self._new_calls()  # faster than a method
        if calls.running.locked():  # this is code in the middle of a call
            return function(*arguments)
        while True:
            with calls.running:
                if not self._closed.locked():
                    return function(*arguments)
            if self._belongs_to(calls):
                _wait_for_works(calls)
                return function(*arguments)
            self._wait_until_open(options)

    def replay(self, turn: RLock, function: Callable, *arguments: object) -> object:
        """Call a function that replays a graph, while no other thread is alone or calls one with the same ``turn``."""
        calls = self.calls()
        if not self._side_by_side:
            return self.run(None, function, *arguments)
        if calls.replaying.locked() or calls.running.locked() or self._belongs_to(calls):
            with self.alone():  # in the middle of a call, a thread does not wait for the turn
                return function(*arguments)
        with calls.replaying, turn:
            return self.run(None, function, *arguments)

    @contextmanager
    def alone(self, options: RunOptions | None = None) -> Iterator[None]:
        """Wait until no other thread creates, runs or releases a session, and keep other threads from it."""
        calls, taken = self.calls(), []
        if self._belongs_to(calls):
            _wait_for_works(calls)
            self._wait_for_calls(options)  # this can be code in the middle of this wait
            yield
            return
        try:
            with self._interrupted(calls):
                try:
                    while not _take(self._alone, taken):
                        check_terminated(options)
                    self._owner = self.calls()
                    with self._closed:
                        self._wait_for_calls(options)
                        yield
                finally:
                    if True in taken:
                        self._alone.release()
        finally:
            self.release_dead()

    def _belongs_to(self, calls: _Calls) -> bool:
        """Return whether the thread of these calls is alone, or waits for calls of other threads to end."""
        return self._closed.locked() and self._owner is calls

    @contextmanager
    def _interrupted(self, calls: _Calls) -> Iterator[None]:
        """While code in the middle of a call waits, let other threads be alone, as if the call were not running."""
        if not calls.running.locked():
            yield
            return
        _wait_for_works(calls)
        try:
            with calls.waiting:
                self._new_calls()
                yield
        finally:
            self._of_thread.calls = calls
            while self._closed.locked():  # a thread may be alone because the call is waiting
                with calls.waiting:
                    self._wait_until_open(None)

    def _wait_until_open(self, options: RunOptions | None) -> None:
        call_holding(self._alone, options, bool)
        self.release_dead()  # of other threads, since this thread took the lock

    def _wait_for_calls(self, options: RunOptions | None) -> None:
        """Wait until no call is running, except for calls that wait."""
        for reference in self._all_calls.copy():
            pause = 2e-5
            while (calls := reference()) and calls.running.locked() and not calls.waiting.locked():
                check_terminated(options)
                time.sleep(pause)
                pause = min(2 * pause, 1e-3)

    def releases_nothing(self) -> None:
        """Let this thread release no session: a release changes CUDA's current device."""
        self._of_thread.releases_nothing = True

    def release_dead(self) -> None:
        """Release the sessions that were put aside, unless a thread is alone: it calls this when it is not any more."""
        while self._dead and not hasattr(self._of_thread, "releases_nothing"):
            taken: list[bool] = []
            try:
                if not _take(self._alone, taken, 0) or self._closed.locked():
                    return
                with suppress(IndexError):  # until none is left: the garbage collector can call this at any step
                    while True:
                        self._dead.popleft().clear()  # the finalizer may still refer to it
            finally:
                if True in taken:
                    self._alone.release()

    def put_aside(self, own: dict) -> None:
        """Empty the attributes of an object that owns device memory, now or when no thread holds the lock."""
        self._dead.append(own)
        self.release_dead()


WEBGPU = SessionLock(side_by_side=False)
CUDA = SessionLock(side_by_side=True)


def of(providers: Iterable[str]) -> SessionLock | None:
    """Return the lock of sessions with these EPs, ``None`` if they need none."""
    if provider_names.WEBGPU in providers:
        return WEBGPU
    return CUDA if any(ep in providers for ep in provider_names.THROUGH_CUDA) else None


def while_opening(providers: Iterable[str], create: Callable[[], InferenceSession]) -> InferenceSession:
    """Create a session with these EPs under their lock."""
    lock = of(providers)
    return create() if lock is None else lock.run(None, create)
