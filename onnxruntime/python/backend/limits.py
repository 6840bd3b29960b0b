# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Stops runs that exceed a time limit or that another thread cancels.

Both set ``RunOptions.terminate``, which ORT checks before each node
(``onnxruntime/core/framework/sequential_executor.cc``). A thread that waits for the lock of its session checks it, too.

One thread keeps the deadlines of all runs. An exception such as ``KeyboardInterrupt`` can leave a function between any
two instructions. So this thread and each ``Cancellation`` have only weak references to the :class:`Limits` object of a
run. No step waits for a lock of Python code. So a signal handler can cancel runs, and can have limited runs itself.
"""

from __future__ import annotations

import math
import os
import weakref
from _thread import get_ident, start_new_thread  # an interrupt of threading.Thread.start leaves a lock taken
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any

from onnxruntime import RunOptions
from onnxruntime.backend.allowlist.value_kinds import plain
from onnxruntime.backend.errors import Place, reject_type, reject_value
from onnxruntime.backend.runs.errors import RunCancelledError

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
        self._runs: set[weakref.ref[Limits]] = set()
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


LIMITS = ("timeout", "cancellation")


class Limits:
    """The limits of one run, and a context manager for it: ``TimeoutError`` or :class:`RunCancelledError` on exit."""

    #: The options of the run, which no other run uses.
    options: RunOptions

    def __init__(self, timeout: Any = None, cancellation: Any = None) -> None:
        """Check the keyword arguments of a run, which :data:`LIMITS` lists."""
        seconds: Any = None
        if timeout is not None:
            with suppress(ValueError):
                seconds = plain(timeout)
            if type(seconds) not in (int, float) or not 0 < seconds <= _LONGEST:
                expected = f"a number of seconds greater than 0 and at most {_LONGEST:.0f}"
                reject_value(Place("timeout"), timeout, expected)
        if cancellation is not None and type(cancellation) is not Cancellation:
            reject_type(Place("cancellation"), cancellation, "an onnxruntime.backend.Cancellation")
        self._seconds: float | None = seconds
        self._cancellation: Cancellation = cancellation or Cancellation()
        self.keyword = "cancellation" if timeout is None else "timeout"
        self.deadline = math.inf

    def terminate(self) -> None:
        """Make ORT end the run."""
        self.options.terminate = True

    def __enter__(self) -> None:
        # In one C call: discard, at the end of this object, needs the hash that add computes while the run is alive.
        runs = self._cancellation._runs
        runs.update(map(weakref.ref, (self,), (runs.discard,)))
        if self._cancellation.cancelled:
            self.terminate()
        if self._seconds is not None:
            self.deadline = monotonic() + self._seconds
            _keep_deadline(self)

    def __exit__(self, error_class: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error_class is not None and not issubclass(error_class, Exception):
            return  # such as KeyboardInterrupt
        if not self.options.terminate:
            return
        if monotonic() >= self.deadline:
            raise TimeoutError(f"The run exceeded its timeout of {self._seconds} s and was ended") from error
        raise RunCancelledError("The run was canceled") from error


_with_deadlines: set[weakref.ref[Limits]] = set()  # the runs that have not reached their deadlines
_changed = Lock()  # released when the thread that keeps deadlines must compute the next one again
_changed.acquire()
_keeper: int | None = None  # the thread that keeps deadlines


def _keep_deadline(run: Limits) -> None:
    """Pass a run to the thread that keeps deadlines."""
    _with_deadlines.update(map(weakref.ref, (run,), (_with_deadlines.discard,)))
    _wake()


def _wake() -> None:
    """Wake the thread that keeps deadlines, or start one."""
    with suppress(RuntimeError):  # it is released already
        _changed.release()
    # The garbage collector can call a finalizer with a limited run in the thread that keeps deadlines.
    if _keeper in (None, get_ident()):
        start_new_thread(_keep_deadlines, ())


def _keep_deadlines() -> None:
    """Terminate each run at its deadline, as long as the process exists, unless another thread does."""
    global _keeper  # noqa: PLW0603
    try:
        _keeper = get_ident()
        while _keeper == get_ident():
            with suppress(MemoryError):
                seconds = min(map(_seconds_left, _with_deadlines.copy()), default=_LONGEST)
                _changed.acquire(timeout=seconds)
    finally:
        # Another thread can end this one (PyThreadState_SetAsyncExc).
        if _keeper == get_ident():
            _keeper = None
        _wake()


def _seconds_left(run: weakref.ref[Limits]) -> float:
    """Return the seconds until the deadline of a run. Terminate the run at its deadline, and forget it."""
    limits = run()
    if limits is None:
        return _LONGEST
    seconds = limits.deadline - monotonic()
    if seconds > 0:
        return seconds
    limits.terminate()
    _with_deadlines.discard(run)
    return _LONGEST


def _forget_threads() -> None:
    """Forget the threads of the parent process."""
    global _keeper  # noqa: PLW0603
    _keeper = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
