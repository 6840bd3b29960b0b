# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Stops runs that exceed a time limit or that another thread cancels.

Both set ``RunOptions.terminate``, which ORT checks before each node
(``onnxruntime/core/framework/sequential_executor.cc``). A thread that waits for the lock of its session checks it, too.

One thread keeps the deadlines of all runs. No step waits for a lock of Python code: a signal handler can cancel runs,
and have limited runs itself. An interrupt can leave a run in a set until its deadline, or the end of its cancellation.
"""

import math
import os
from _thread import start_new_thread  # an interrupt of threading.Thread.start leaves a lock taken
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from onnxruntime import RunOptions
from onnxruntime.backend.allowlist.value_kinds import plain
from onnxruntime.backend.errors import Place, RunCancelledError, reject_type, reject_value

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
        self._runs: set[Limits] = set()
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel all current and later runs with this object. Return immediately."""
        self._cancelled = True
        for run in self._runs.copy():
            run.options.terminate = True


class Limits:
    """The limits of one run."""

    def __init__(self, timeout: Any = None, cancellation: Any = None) -> None:
        """Check the keyword arguments of a run, which :data:`allowlist.tables.LIMITS` lists."""
        seconds: Any = None
        if timeout is not None:
            with suppress(ValueError):
                seconds = plain(timeout)
            if type(seconds) not in (int, float) or not 0 < seconds <= _LONGEST:
                expected = f"a number of seconds greater than 0 and at most {_LONGEST:.0f}"
                reject_value(Place("timeout"), timeout, expected)
        if cancellation is not None and type(cancellation) is not Cancellation:
            reject_type(Place("cancellation"), cancellation, "an onnxruntime.backend.Cancellation")
        self._seconds: float = math.inf if seconds is None else seconds
        self._cancellation: Cancellation = cancellation or Cancellation()

    def run(self, options: RunOptions, call: Callable, *arguments: object) -> Any:
        """Return the result of a call that ends early if its run options, which no other call uses, terminate it.

        :raises TimeoutError: if the time limit ended the call.
        :raises RunCancelledError: if the cancellation did.
        """
        self.options = options
        self.deadline = monotonic() + self._seconds
        runs = self._cancellation._runs
        try:
            runs.add(self)
            if self._cancellation.cancelled:
                options.terminate = True
            if self._seconds < math.inf:
                _deadlines.add(self)
            result = call(*arguments)
        except Exception as error:
            self._check(error)
            raise
        finally:
            _deadlines.runs.discard(self)
            runs.discard(self)
        self._check(None)
        return result

    def _check(self, error: Exception | None) -> None:
        """Raise the error for a call that the limits ended."""
        if not self.options.terminate:
            return
        if monotonic() >= self.deadline:
            raise TimeoutError(f"The run exceeded its timeout of {self._seconds} s and was ended") from error
        raise RunCancelledError("The run was canceled") from error


class _Deadlines:
    """The runs with a time limit, and a thread that terminates each of them at its deadline."""

    def __init__(self) -> None:
        self.runs: set[Limits] = set()
        self._changed: SimpleQueue[None] = SimpleQueue()  # wakes the thread
        self._has_thread = False

    def add(self, run: Limits) -> None:
        self.runs.add(run)
        if not self._has_thread:
            self._start()
        self._changed.put(None)

    def _start(self) -> None:
        start_new_thread(self._keep, ())  # two threads would do no harm
        self._has_thread = True

    def _keep(self) -> None:
        try:
            while True:
                seconds = min(map(self._seconds_left, self.runs.copy()), default=_LONGEST)
                with suppress(Empty):
                    self._changed.get(timeout=seconds)
        finally:  # another thread can end this one (PyThreadState_SetAsyncExc)
            self._has_thread = False
            self._start()

    def _seconds_left(self, run: Limits) -> float:
        """Return the seconds until the deadline of a run. Terminate the run at its deadline, and forget it."""
        seconds = run.deadline - monotonic()
        if seconds > 0:
            return seconds
        run.options.terminate = True
        self.runs.discard(run)
        return _LONGEST


_deadlines = _Deadlines()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_deadlines.__init__)  # type: ignore[misc]  # a child has no thread of its parent
