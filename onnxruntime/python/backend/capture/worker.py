# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A thread that calls functions for other threads."""

import weakref
from _thread import start_new_thread  # Thread.start waits for an Event, whose lock an interrupt leaves taken
from collections.abc import Callable
from queue import Empty, SimpleQueue  # no lock of Python code, which an interrupt could leave taken
from threading import get_ident
from typing import Any

from onnxruntime import RunOptions
from onnxruntime.backend.locks import GPU
from onnxruntime.backend.waiting import check_terminated


class Worker:
    """A thread that calls functions for other threads, in their order."""

    def __init__(self, first: Callable[[], object]) -> None:
        """Let the thread begin with the call of a function, which raises no error."""
        self._first = first
        self._calls: SimpleQueue[Any] = SimpleQueue()
        self._has_begun = False

    def call(self, options: RunOptions | None, *call: Any) -> Any:
        """Return the result of a function. The run options can end the wait, but not the function."""
        GPU.check_waits()
        if not self._has_begun:  # an interrupt can start two threads
            # The thread ends with this object. The callback is a C function: the end runs no code of Python.
            start_new_thread(_serve, (weakref.ref(self, self._calls.put), self._calls, self._first))
            self._has_begun = True
        done: SimpleQueue[tuple] = SimpleQueue()
        self._calls.put((done, *call))
        while True:
            try:
                result, error = done.get(timeout=0.05)
                break
            except Empty:
                check_terminated(options)
        GPU.release_ended()
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


def _serve(_: weakref.ref, calls: SimpleQueue, first: Callable[[], object]) -> None:
    """Call functions until the worker has ended: then, the weak reference enters the queue."""
    GPU.workers.add(get_ident())
    first()
    while isinstance(call := calls.get(), tuple):
        done, function, *arguments = call
        try:
            done.put((function(*arguments), None))
        except BaseException as error:
            done.put((None, error))
            first()  # a finalizer can have run a session of another device in this thread
        del call, done, function, arguments  # keep nothing of a caller
    GPU.workers.discard(get_ident())
