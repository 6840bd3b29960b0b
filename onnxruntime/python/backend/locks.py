# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The lock of the sessions on CUDA and WebGPU, which also releases these sessions.

A capture of a CUDA graph is alone: ORT captures in the global mode (``cudaStreamCaptureModeGlobal`` in
``cuda_graph.cc``), in which an allocation or a device synchronization of any thread fails and breaks the capture. All
other calls on CUDA run side by side. Each call on WebGPU is alone: without the lock, calls of two threads on two WebGPU
sessions fail, or the process crashes (plugin EP of ORT 1.31.1, built-in EP of 1.27).

A signal handler or a finalizer can use a session in the middle of a call of its thread. ORT is not in a call of this
thread then, so the inner call goes on. If it would wait for the outer call, it raises an error.

The last reference to a session can end in the garbage collector, where waiting for a lock can hang. Therefore, the lock
also refers to the inner session and the captured graphs of each session, and releases both after the session has ended.

No error and no interrupt leaves the lock taken (``waiting.py``). This relies on the global interpreter lock, which
orders the steps of all threads (``parts.py``).
"""

import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock, get_ident
from typing import Any

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.allowlist.rules import Texts
from onnxruntime.backend.provider_names import WEBGPU
from onnxruntime.backend.session.creation import Construction, Create, Guard, SessionPart
from onnxruntime.backend.session.state import state_of
from onnxruntime.backend.waiting import WAITS_FOR_ITSELF, acquire, call_holding, check_terminated, clear_frames

_FORKED = (
    "This process was forked from a process with sessions on the same device, which a forked process cannot use. "
    "Prepare models after the fork only, or start processes with spawn or forkserver"
)


class _Owned(weakref.ref):
    """A weak reference to a session, with the objects that the lock releases afterwards, the last one first."""

    __slots__ = ("lock", "objects")
    __eq__, __hash__ = object.__eq__, object.__hash__
    lock: "SessionLock"
    objects: list


class SessionLock:
    """A lock that one thread holds alone, or any number of threads hold side by side for a run each."""

    def __init__(self) -> None:
        self._alone: Any = RLock()
        self._owner = 0  # the thread that is alone
        self._running: dict[int, None] = {}  # the threads that are in a call side by side
        self._owned: set[_Owned] = set()
        self._ended: deque[_Owned] = deque()  # the sessions that have ended and are not released yet
        #: The threads that execute the runs of others. They release no session, which changes CUDA's current device.
        self.workers: set[int] = set()
        #: Whether a thread ever began to create a session on another device than 0. Threads begin on device 0.
        self.other_devices = False
        #: Why no session of this process can run any more, or "".
        self.failure = ""

    def run(self, options: RunOptions | None, function: Callable, *arguments: object) -> Any:
        """Call a function that creates or runs a session, while no other thread is alone."""
        thread, running = get_ident(), self._running
        if thread in running:
            return function(*arguments)
        while True:
            if self._ended or self.failure:  # faster than the call
                self._begin()
            running[thread] = None
            try:
                if not self._owner or self._owner == thread:
                    return function(*arguments)
            except BaseException as error:
                clear_frames(error)
                raise
            finally:
                del running[thread]
            call_holding(self._alone, options, bool)

    def run_alone(self, options: RunOptions | None, function: Callable, *arguments: object) -> Any:
        """Call a function while no other thread creates, runs or releases a session."""
        if self._alone._is_owned():
            return self._call_alone(options, function, *arguments)
        self._begin()
        try:
            return call_holding(self._alone, options, self._call_alone, options, function, *arguments)
        finally:
            self.release_ended()

    def _call_alone(self, options: RunOptions | None, function: Callable, *arguments: object) -> Any:
        outer = self._owner
        try:
            self._wait_for_others(options)
            return function(*arguments)
        finally:
            self._owner = outer

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Return a context in which no other thread creates, runs or releases a session.

        An interrupt between two steps of the ``with`` statement releases the lock when the program drops its traceback.
        """
        if self._alone._is_owned():
            yield
            return
        self._begin()
        thread = get_ident()
        try:
            acquire(self._alone, None)
            self._wait_for_others(None)
            yield
        finally:
            if self._owner == thread:
                self._owner = 0
            try:  # noqa: SIM105 - as above
                self._alone.release()
            except RuntimeError:  # an interrupt ended the wait
                pass
            self.release_ended()

    def _wait_for_others(self, options: RunOptions | None) -> None:
        thread = self._owner = get_ident()
        pause = 2e-5
        while self._running.keys() - {thread}:
            check_terminated(options)
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def check_waits(self) -> None:
        """Raise an error if this thread cannot wait for a worker, which can take the lock."""
        self._begin()
        if get_ident() in self.workers or self._alone._is_owned():
            raise RuntimeError(WAITS_FOR_ITSELF)

    def _begin(self) -> None:
        """Check that a call may begin that waits for others."""
        if self.failure:
            raise RuntimeError(self.failure)
        if get_ident() in self._running:
            raise RuntimeError(WAITS_FOR_ITSELF)
        self.release_ended()

    def own(self, session: InferenceSession) -> list:
        """Return the objects that are released after a session has ended. None may refer to the session."""
        kept = state_of(session)
        owned = kept.owned
        if owned is None or owned.objects[0] is not session._sess:
            if owned is not None:  # set_providers has replaced the inner session
                self._ended.append(owned)
            # The callback is a C function: no interrupt can prevent it, or is lost in it.
            owned = kept.owned = _Owned(session, self._ended.append)
            owned.lock = self
            owned.objects = [session._sess]
            self._owned.add(owned)
        return owned.objects

    def release_ended(self) -> None:
        """Release the sessions that have ended. If a thread is alone, that thread does so later."""
        if not self._ended or self.failure or get_ident() in self.workers or self._alone._is_owned():
            return
        try:
            if self._alone.acquire(blocking=False):
                self._release_all()
        finally:
            try:  # noqa: SIM105 - as above
                self._alone.release()
            except RuntimeError:  # a thread is alone
                pass

    def _release_all(self) -> None:
        while self._ended:
            owned = self._ended[0]  # until it is released: after an interrupt, the next call continues
            while owned.objects:
                owned.objects.pop()
            self._owned.discard(owned)
            self._ended.popleft()

    def after_fork(self) -> None:
        """Refuse calls in a forked process if its parent had sessions or calls on the device."""
        if self._owned or self._running or self._owner:
            self.failure = _FORKED


GPU = SessionLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=GPU.after_fork)


class LockPart(SessionPart):
    """Creates and runs a session under the lock."""

    name = "locks"

    def create(self, construction: Construction, create: Create) -> InferenceSession:
        """Create a session if this process can use its device. The lock owns it before anything can fail."""
        providers = construction.permit.providers
        # Raises an error if this process cannot. In the constructor, the error would be explained as one of the EP.
        GPU.run(None, bool)
        # Before ORT changes CUDA's current device of this thread.
        _note_other_devices([settings.texts for settings in providers.values()])
        construction.call = partial(_call_for(providers), None, _construct)
        return create()

    def guard(self, session: InferenceSession, inner: Guard | None) -> Guard | None:
        _note_other_devices(session.get_provider_options().values())
        GPU.own(session)
        call = _call_for(session.get_providers())
        if inner is None:
            return call

        def nested(waiting: RunOptions | None, *run: Any) -> list:
            return call(waiting, inner, waiting, *run)

        return nested


def _call_for(providers: Iterable[str]) -> Callable:
    return GPU.run_alone if WEBGPU in providers else GPU.run


def _note_other_devices(options: Iterable[Texts]) -> None:
    if any(texts.get("device_id", "0") != "0" for texts in options):
        GPU.other_devices = True


def _construct(constructor: Callable[[], InferenceSession]) -> InferenceSession:
    session = constructor()
    GPU.own(session)
    return session
