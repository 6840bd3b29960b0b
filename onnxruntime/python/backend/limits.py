# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Stops runs that exceed a time limit or that another thread cancels.

Both set ``RunOptions.terminate``, which ORT checks before each node
(``onnxruntime/core/framework/sequential_executor.cc``). A thread that waits for the lock of its session checks it, too.

One thread keeps the deadlines of all runs. An exception such as ``KeyboardInterrupt`` can leave a function between any
two instructions. So this thread and each ``Cancellation`` have only weak references to the :class:`Limited` object of a
run. No step takes a lock of Python code. So a signal handler can cancel runs, and can have limited runs itself.
"""

from __future__ import annotations

import math
import os
import weakref
from _thread import get_ident, start_new_thread  # an interrupt of threading.Thread.start leaves a lock taken
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic

from onnxruntime import RunOptions
from onnxruntime.backend.allowlist.value_kinds import plain
from onnxruntime.backend.errors import RunCancelledError, reject_type, reject_value

_LONGEST = 1e6  # timers cannot count longer on every system (threading.TIMEOUT_MAX)


class Cancellation:
    """
    Lets any thread cancel runs::

        rep.run(inputs, cancellation=cancellation)  # in one thread
        cancellation.cancel()  # in another thread

    A signal handler can cancel runs of other threads. Python calls the
    handler after the main thread's current run.
    """

    def __init__(self) -> None:
        self._runs: set[weakref.ref[Limited]] = set()
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel all current and later runs with this object. Return immediately."""
        self._cancelled = True
        for reference in self._runs.copy():
            run = reference()
            if run is not None:
                run.terminate()


def check(timeout: object = None, cancellation: object = None) -> float | None:
    """Check the limits of a run, and return its timeout in seconds."""
    seconds = None
    if timeout is not None:
        with suppress(ValueError):
            seconds = plain(timeout)
        if type(seconds) not in (int, float) or not 0 < seconds <= _LONGEST:
            reject_value(timeout, f"a number of seconds greater than 0 and at most {_LONGEST:.0f}", "timeout")
    if cancellation is not None and type(cancellation) is not Cancellation:
        reject_type(cancellation, "an onnxruntime.backend.Cancellation", "cancellation")
    return seconds


class Limited:
    """Context manager for one run with limits. It raises ``TimeoutError`` or :class:`RunCancelledError` on exit."""

    def __init__(
        self,
        options: RunOptions,
        timeout: object,
        cancellation: object,
    ) -> None:
        """Check the limits of a run in seconds and by a :class:`Cancellation`. No other run uses ``options``."""
        self._options = options
        self._timeout = check(timeout, cancellation)
        self._cancellation = Cancellation() if cancellation is None else cancellation
        self.deadline = math.inf

    def terminate(self) -> None:
        """Make ORT end the run."""
        self._options.terminate = True

    def __enter__(self) -> None:
        # In one C call: discard, at the end of this object, needs the hash that add computes while the run is alive.
        runs = self._cancellation._runs
        runs.update(map(weakref.ref, (self,), (runs.discard,)))
        if self._cancellation.cancelled:
            self.terminate()
        if self._timeout is not None:
            self.deadline = monotonic() + self._timeout
            _keep_deadline(weakref.ref(self))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: object,
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            return  # such as KeyboardInterrupt
        if not self._options.terminate:
            return
        if monotonic() >= self.deadline:
            raise TimeoutError(f"The run exceeded its timeout of {self._timeout} s and was ended") from error
        raise RunCancelledError("The run was canceled") from error


_started: SimpleQueue[weakref.ref[Limited]] = SimpleQueue()  # the runs whose deadlines no thread knows yet
_keepers: list[int] = []  # the thread that keeps deadlines

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keepers.clear)


def _keep_deadline(run: weakref.ref[Limited]) -> None:
    """Pass a run to the thread that keeps deadlines."""
    _started.put(run)
    # The garbage collector can call a finalizer with a limited run in the thread that keeps deadlines.
    if not _keepers or _keepers[-1] == get_ident():
        # One C call starts and records the thread. If several threads do this, each may get runs from the queue.
        _keepers.extend(map(start_new_thread, (_keep_deadlines,), ((),)))


def _keep_deadlines() -> None:
    """Terminate each run at its deadline, as long as the process exists."""
    runs: list[weakref.ref[Limited]] = []
    try:
        while True:
            with suppress(Empty, MemoryError):
                runs = [run for run in runs if _seconds_left(run)]
                seconds = min(map(_seconds_left, runs), default=_LONGEST)
                # The first get acquires the lock of the queue. In Python 3.11 and 3.12, a get that acquires it after
                # its timeout waits indefinitely (Modules/_queuemodule.c). Therefore, the first get does not wait.
                with suppress(Empty):
                    runs.append(_started.get(block=False))
                    continue
                runs.append(_started.get(timeout=seconds))
    finally:
        # Another thread can end this one (PyThreadState_SetAsyncExc). The next limited run starts a new one.
        _keepers.clear()
        for run in runs:
            _started.put(run)


def _seconds_left(run: weakref.ref[Limited]) -> float:
    """Return the seconds until the deadline of a run. 0 if the run has ended, or is terminated at its deadline."""
    limited = run()
    if limited is None:
        return 0
    seconds = limited.deadline - monotonic()
    if seconds <= 0:
        limited.terminate()
        return 0
    return seconds
