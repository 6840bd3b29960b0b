# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs that may take only so long, or that another thread may cancel. Imported by the first run that asks for it.

Both set ``RunOptions.terminate``, which ORT looks at before each node
(``onnxruntime/core/framework/sequential_executor.cc``). So a run ends when the node that it is at has ended; a node
that an EP made of many is one node.
"""

from __future__ import annotations

import math
from threading import Lock, Timer

from onnxruntime import RunOptions
from onnxruntime.backend.errors import RunCancelledError, reject_type, reject_value

# The keyword arguments of a run that limit it.
LIMITS = ("timeout", "cancellation")
# More would end beyond what timers can count (threading.TIMEOUT_MAX is smaller on some systems).
_LONGEST = 1e6


class Cancellation:
    """
    Lets any thread cancel the runs that it is given to::

        cancellation = Cancellation()
        rep.run(inputs, cancellation=cancellation)  # in one thread
        cancellation.cancel()  # in another

    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: list[RunOptions] = []
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel the runs under way, and every later one that this is given to. Returns at once."""
        with self._lock:
            self._cancelled = True
            for options in self._runs:
                options.terminate = True

    def _begin(self, options: RunOptions) -> None:
        with self._lock:
            self._runs.append(options)
            if self._cancelled:
                options.terminate = True

    def _end(self, options: RunOptions) -> None:
        with self._lock:
            # By identity: what ORT's options are equal to is theirs to say.
            self._runs = [other for other in self._runs if other is not options]


class Limited:
    """A context in which one run happens, with its limits.

    :raises TimeoutError: where it leaves, when the time was over before the run ended, whatever the run gave.
    :raises RunCancelledError: where it leaves, when the run was cancelled before it ended.
    """

    def __init__(self, options: RunOptions, timeout: object, cancellation: object) -> None:
        """
        :param options: the options of this run alone.
        :param timeout: most seconds that the run may take, ``None`` for no limit.
        :param cancellation: what cancels it, ``None`` for nothing.
        :raises NotPermittedError: for a value that is neither.
        """
        if timeout is not None:
            if type(timeout) not in (int, float) or not 0 < timeout <= _LONGEST or math.isnan(timeout):
                reject_value(timeout, f"a number of seconds greater than 0 and at most {_LONGEST:.0f}", "timeout")
            self._timer = Timer(timeout, self._time_is_over)
            self._timer.daemon = True
        if cancellation is not None and type(cancellation) is not Cancellation:
            reject_type(cancellation, "an onnxruntime.backend.Cancellation", "cancellation")
        self._options = options
        self._timeout = timeout
        self._cancellation = cancellation
        self._late = False

    def _time_is_over(self) -> None:
        self._late = True
        self._options.terminate = True

    def __enter__(self) -> None:
        if self._cancellation is not None:
            self._cancellation._begin(self._options)
        if self._timeout is not None:
            self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._timeout is not None:
            self._timer.cancel()
            self._timer.join()  # it never waits: nothing of it is left behind
        if self._cancellation is not None:
            self._cancellation._end(self._options)
        if kind is not None and not issubclass(kind, Exception):
            return  # such as KeyboardInterrupt
        if self._late:
            raise TimeoutError(f"the run took longer than {self._timeout} s, and was ended") from error
        if self._options.terminate:
            raise RunCancelledError("the run was cancelled") from error
