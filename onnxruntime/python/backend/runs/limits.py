# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Stops runs that exceed a time limit or that another thread cancels.

Both set ``RunOptions.terminate``, which ORT checks before each node
(``onnxruntime/core/framework/sequential_executor.cc``). A thread that waits for the lock of its session checks it, too.

An exception such as ``KeyboardInterrupt`` can leave a function between any two instructions. So callbacks of weak
references to the run's :class:`Limited` object remove it from its ``Cancellation`` and wake the thread that waits for
the timeout, in C code that no signal handler can interrupt. No callback takes a lock, so a signal handler can cancel.
"""

from __future__ import annotations

import weakref
from _thread import start_new_thread  # threading.Thread.start waits for an Event, whose lock an interrupt leaves taken
from contextlib import suppress
from queue import Empty, SimpleQueue

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
            if (run := reference()) is not None:
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

    def __init__(self, options: RunOptions, timeout: object, cancellation: object) -> None:
        """Check the limits of a run in seconds and by a :class:`Cancellation`. No other run uses ``options``."""
        self._options, self._timeout, self._late = options, check(timeout, cancellation), False
        self._end = SimpleQueue()
        self._cancellation = Cancellation() if cancellation is None else cancellation

    def terminate(self, late: bool = False) -> None:
        """Make ORT end the run. If ``late``, the reason is the timeout."""
        self._late = self._late or late
        self._options.terminate = True

    def __enter__(self) -> None:
        # In one C call: discard needs the hash of the reference, which add computes while the run is alive.
        runs = self._cancellation._runs
        runs.update(map(weakref.ref, (self,), (runs.discard,)))
        if self._cancellation.cancelled:
            self.terminate()
        if self._timeout is not None:
            start_new_thread(_wait, (weakref.ref(self, self._end.put), self._end, self._timeout))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._end.put(None)
        self._cancellation._runs.discard(weakref.ref(self))
        if kind is not None and not issubclass(kind, Exception):
            return  # such as KeyboardInterrupt
        if self._late:
            raise TimeoutError(f"The run exceeded its timeout of {self._timeout} s and was ended") from error
        if self._options.terminate:
            raise RunCancelledError("The run was canceled") from error


def _wait(run: weakref.ref[Limited], end: SimpleQueue, timeout: float) -> None:
    """Terminate a run after its timeout, unless the run ends first."""
    # The first get acquires the lock of the queue. In Python 3.11 and 3.12, a get that acquires it after its timeout
    # waits indefinitely (Modules/_queuemodule.c). Therefore, the first get does not wait.
    with suppress(Empty):
        end.get(block=False)
        return
    try:
        end.get(timeout=timeout)
    except Empty:
        if (limited := run()) is not None:
            limited.terminate(late=True)
