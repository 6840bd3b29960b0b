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
2. ``Turn.lock``, one for each session that captures, for a replay.
3. ``SessionLock._alone``, for a thread that is alone or waits until it is alone, and for the release of sessions.
4. ``SessionLock._running``: a call enters its thread, then reads ``_owner``. A thread that must be alone sets
   ``_owner``, then polls until no call is running.
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
object and without a deeper call than taking them. A thread is entered by an assignment, and removed in the ``finally``
block after it: Python calls no signal handler between the assignment and the block.

**Python's global interpreter lock**

Steps that are one operation of a ``dict``, ``set``, ``deque`` or ``list`` rely on this operation being atomic, as it is
with the global lock and with the locks of each object in builds without the global lock. The order of an assignment and
a read of another variable relies on the global lock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import RLock, get_ident, local

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import provider_names
from onnxruntime.backend.allowlist.rules import Permit
from onnxruntime.backend.session import state


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


_LATER = object()


class _OfThread(local):
    """What belongs to one thread."""

    releases_nothing = False

    def __init__(self) -> None:
        # The works of this thread in a worker (``capture/graph_keys.py``), of which it waits for the last.
        self.works: list[object] = []


class Turn:
    """The turn of the replays of a session: its graphs share an arena, so one replay follows another.

    As long as one thread has captured all graphs, its replays do not take the lock, which takes a tenth of their time.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.only: int | None = None  # the thread that has captured all graphs; 0 if there are several

    def begin_capture(self, thread: int) -> None:
        """Record the thread of a capture, which is alone; 0 if several threads replay the graph."""
        self.only = thread if self.only in (None, thread) else 0


class SessionLock:
    """A re-entrant lock that one thread holds alone, or any number of threads hold side by side for a run each.

    It also releases sessions. The last reference to a session can end in the garbage collector, where waiting for a
    lock can hang. So the attributes of the session are put aside. The thread that is alone, now or next, releases them.
    """

    def __init__(self, side_by_side: bool) -> None:
        self._side_by_side = side_by_side
        self._alone = RLock()
        self._owner = 0  # the thread that is alone, or waits for the calls of other threads to end; 0 if none
        # The threads in a call. False while code in the middle of the call waits, so that other threads can be alone.
        self._running: dict[int, bool] = {}
        self._of_thread = _OfThread()
        self._dead: deque[dict] = deque()
        # Whether a session on another device than 0 ever took this lock. Threads begin on device 0.
        self.other_devices = False
        # Why no session of this process can run any more; empty if they can.
        self.failure = ""

    def works(self) -> list:
        """Return the works of this thread in a worker."""
        return self._of_thread.works

    def _wait_for_works(self) -> None:
        """In code in the middle of a call, wait until the worker of the call does not run."""
        for work in self._of_thread.works.copy():
            work.wait()

    def run(self, options: RunOptions | None, function: Callable, *arguments: object) -> object:
        """Call a function that creates or runs a session, while no other thread is alone."""
        if self.failure:
            raise RuntimeError(self.failure)
        thread, running = get_ident(), self._running
        if running.get(thread):  # this is code in the middle of a call
            return function(*arguments)
        if not self._side_by_side or thread in running or self._owner == thread:
            with self.alone(options):
                return function(*arguments)
        while True:
            running[thread] = True
            try:
                if not self._owner:
                    return function(*arguments)
            finally:
                del running[thread]
            self._wait_until_open(options)

    def replayer(self, turn: Turn, replay: Callable) -> Callable:
        """Return a function that replays a graph while no other thread is alone or has the turn.

        :param replay: a function of two arguments that replays the graph.
        """
        if not self._side_by_side:
            return partial(self.run, None, replay)
        running = self._running

        def attempt(thread: int, has_turn: bool, inputs: object, settings: object) -> object:
            running[thread] = True
            try:
                if self._owner or not (has_turn or turn.only == thread):
                    return _LATER
                return replay(inputs, settings)
            finally:
                del running[thread]

        def run(inputs: object, settings: object) -> object:
            thread = get_ident()
            if thread in running or self._owner == thread:
                with self.alone():  # in the middle of a call, a thread does not wait for the turn
                    return replay(inputs, settings)
            if self.failure:
                raise RuntimeError(self.failure)
            outputs = attempt(thread, False, inputs, settings)
            while outputs is _LATER:
                if self._owner:
                    self._wait_until_open(None)
                with turn.lock:
                    outputs = attempt(thread, True, inputs, settings)
            return outputs

        return run

    def interrupts(self, turn: Turn) -> bool:
        """Return whether this thread, which is alone, interrupts a replay of another thread without a lock."""
        return turn.only != get_ident() and turn.only in self._running

    @contextmanager
    def alone(self, options: RunOptions | None = None) -> Iterator[None]:
        """Wait until no other thread creates, runs or releases a session, and keep other threads from it."""
        thread, taken = get_ident(), []
        if self._owner == thread:
            self._wait_for_works()
            self._wait_for_calls(options)  # this can be code in the middle of this wait
            yield
            return
        try:
            with self._interrupted(thread):
                try:
                    while not _take(self._alone, taken):
                        check_terminated(options)
                    self._owner = thread
                    try:
                        self._wait_for_calls(options)
                        yield
                    finally:
                        self._owner = 0
                finally:
                    if True in taken:
                        self._alone.release()
        finally:
            self.release_dead()

    @contextmanager
    def _interrupted(self, thread: int) -> Iterator[None]:
        """While code in the middle of a call waits, let other threads be alone, as if the call were not running."""
        running = self._running
        if not running.get(thread):
            yield
            return
        self._wait_for_works()
        try:
            running[thread] = False
            yield
        finally:
            running[thread] = True
            while self._owner not in (0, thread):  # another thread is alone, because the call did not run
                running[thread] = False
                try:
                    self._wait_until_open(None)
                finally:
                    running[thread] = True

    def _wait_until_open(self, options: RunOptions | None) -> None:
        call_holding(self._alone, options, bool)
        self.release_dead()  # of other threads, since this thread took the lock

    def _wait_for_calls(self, options: RunOptions | None) -> None:
        pause = 2e-5
        while any([*self._running.values()]):
            check_terminated(options)
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def releases_nothing(self) -> None:
        """Let this thread release no session: a release changes CUDA's current device."""
        self._of_thread.releases_nothing = True

    def release_dead(self) -> None:
        """Release the sessions that were put aside, unless a thread is alone: it calls this when it is not any more."""
        while self._dead and not self._of_thread.releases_nothing:
            taken: list[bool] = []
            try:
                if not _take(self._alone, taken, 0) or self._owner:
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
