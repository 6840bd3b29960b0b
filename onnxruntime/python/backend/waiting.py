# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Waits for a lock, and calls a function under it.

No error and no interrupt leaves a lock taken: after ``RLock.acquire``, the ``finally`` block releases the lock if the
thread owns it. Two other structures would leave it taken. Python 3.14 can call a signal handler before the block of a
``with`` statement. Python 3.13 and later can call one at the end of a loop, outside of the ``try`` block around it, if
the loop ends with a condition, as each ``while`` does. So these loops are in separate functions.
"""

import traceback
from collections.abc import Callable
from typing import Any

from onnxruntime import RunOptions

WAITS_FOR_ITSELF = (
    "This call would wait for its own thread, which is in a block of device_lock, or in the middle of a call that a "
    "signal handler or a finalizer has interrupted. Use the session after the block or the call"
)


def call_holding(lock: Any, options: RunOptions | None, function: Callable, *arguments: object) -> Any:
    """Call a function under an ``RLock`` that this thread does not hold yet. The run options can end the wait."""
    if lock._is_owned():  # as threading.Condition calls it
        raise RuntimeError(WAITS_FOR_ITSELF)
    try:
        acquire(lock, options)
        return function(*arguments)
    except BaseException as error:
        clear_frames(error)
        raise
    finally:
        try:  # noqa: SIM105 - before suppress, Python can call a signal handler
            lock.release()
        except RuntimeError:  # an error or an interrupt ended the wait
            pass


def acquire(lock: Any, options: RunOptions | None) -> None:
    """Acquire a lock. The run options can end the wait."""
    while not lock.acquire(timeout=0.05):
        check_terminated(options)


def check_terminated(options: RunOptions | None) -> None:
    """Raise an error if the run options terminate a run that waits."""
    if options is not None and options.terminate:
        raise RuntimeError("the run was terminated while it waited for other sessions")


def clear_frames(error: BaseException) -> None:
    """Release what the frames of a failed call refer to, such as an inner session: the program can keep the error."""
    for failed in (error, error.__cause__):
        if failed is not None:
            traceback.clear_frames(failed.__traceback__)
