# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Selects the thread of each graph: on CUDA, ORT keeps the graphs of a session by thread."""

from __future__ import annotations

import threading
import weakref
from _thread import start_new_thread  # Thread.start waits for an Event, whose lock an interrupt leaves taken
from collections.abc import Callable
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

from onnx import parser

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.provider_names import CUDA

# For each thread of a CUDA session, ORT keeps cuBLAS and cuDNN handles as long as the session. With eight threads, each
# can have the graphs of four sets of input shapes before the session has MOST_GRAPHS.
MOST_THREADS = 8
_Result = TypeVar("_Result")
_ENDED = "an exception has ended the thread that executes the runs of this session. Run the model again"


class Threads:
    """The graphs of each of the first ``MOST_THREADS`` threads of a session, and a worker that runs for all others."""

    def __init__(self, lock: locks.SessionLock, device_id: int, common: bool, worker: bool) -> None:
        """If ``common``, all threads share graphs, as on WebGPU. If ``worker``, it makes all runs, as on TensorRT."""
        self._lock = lock
        self._common: dict[tuple, Any] | None = {} if common else None
        self._own = threading.local()
        # An item for each thread that can still have its own graphs. An interrupt leaves the lock of a Semaphore taken.
        self._left: list[None] = [] if worker else [None] * MOST_THREADS
        self._worker = Worker(lock, device_id)

    def graphs_of_this(self) -> dict[tuple, Any] | None:
        """Return the graphs of the calling thread by key, ``None`` if the worker runs for it."""
        if self._common is not None:
            return self._common
        if not hasattr(self._own, "graphs"):
            self._own.graphs = self._first_graphs()
        # ORT 1.31.1 sets CUDA's current device in the thread that creates or releases a session, but not for the run of
        # a session that captures (``cuda_execution_provider.cc``).
        if self._lock.other_devices:
            return None
        return self._own.graphs

    def _first_graphs(self) -> dict[tuple, object] | None:
        try:
            self._left.pop()
        except IndexError:  # the worker runs for this thread
            return None
        return {}

    def call(self, options: RunOptions | None, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function with the graphs of a thread, in that thread. The run options can end the wait."""
        graphs = self.graphs_of_this()
        if graphs is None:
            return self._worker.call(options, function, *arguments)
        return function(graphs, *arguments)


class Worker:
    """A thread with graphs, which calls functions for other threads. The functions take the locks in this thread.

    It begins with the first call, and ends with this object.
    """

    def __init__(self, lock: locks.SessionLock, device_id: int) -> None:
        self._lock = lock
        self._device_id = device_id
        self._works: SimpleQueue[object] = SimpleQueue()
        # The thread holds this lock as long as it works.
        self._serving = threading.Lock()

    def call(self, options: RunOptions | None, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function with the graphs of the worker."""
        self._lock.check_waits()
        work = _Work(function, arguments)
        try:
            self._works.put(work)
            while not work.has_ended:
                if not work.has_begun:
                    locks.check_terminated(options)
                self._wait_a_moment(work)
        finally:
            # After an interrupt, too, unless another interrupt follows: the inputs are the worker's until then.
            work.is_wanted = False
            while work.has_begun and not work.has_ended:
                self._wait_a_moment(work)
            self._lock.release_ended()
        return work.result()

    def _wait_a_moment(self, work: _Work) -> None:
        if not self._serving.locked():
            if work.has_begun:
                raise RuntimeError(_ENDED)
            self._works.put(work)  # an ended thread can have taken it
            end = weakref.ref(self, self._works.put)
            start_new_thread(_serve, (end, self._works, self._serving, self._lock, self._device_id))
        work.ended.acquire(timeout=0.05)


class _Work:
    """One call of a function by a worker."""

    def __init__(self, function: Callable, arguments: tuple) -> None:
        self._function = function
        self._arguments = arguments
        self._outputs: Any = None
        self._error: BaseException | None = RuntimeError(_ENDED)
        self.is_wanted = True
        self.has_begun = False
        self.has_ended = False
        self.ended = threading.Lock()
        self.ended.acquire()

    def execute(self, before: Callable, graphs: dict[tuple, object]) -> None:
        if self.has_begun or not self.is_wanted:
            return
        self.has_begun = True
        try:
            before()
            self._outputs = self._function(graphs, *self._arguments)
            self._error = None
        except BaseException as error:
            self._error = error
        finally:
            self.has_ended = True
            self.ended.release()

    def result(self) -> Any:
        error, self._error = self._error, None  # the traceback of the error refers to this object
        try:
            if error is not None:
                raise error
        finally:
            del error
        return self._outputs


def _serve(
    end: weakref.ref[Worker], works: SimpleQueue, serving: threading.Lock, lock: locks.SessionLock, device_id: int
) -> None:
    """Do works in their order until the worker ends, unless another thread of the same worker does.

    :param end: the reference that enters the queue when the worker ends, as long as this thread keeps it.
    """
    if not serving.acquire(blocking=False):
        return
    thread = threading.get_ident()
    graphs: dict[tuple, object] = {}
    try:
        lock.workers.add(thread)
        on_device = cache(partial(lock.run_unnested, None, _set_device, device_id))
        # The worker has ended if there is a reference, which can be that of a thread that started at the same time.
        while isinstance(work := works.get(), _Work):
            work.execute(on_device, graphs)
            del work  # keep nothing of a caller until the next work
    finally:
        serving.release()
        graphs.clear()
        lock.workers.discard(thread)
        lock.release_ended()  # the graphs are those of this thread


def _set_device(device_id: int) -> None:
    """Set CUDA's current device of the calling thread: ORT sets it permanently in the thread that creates a session."""
    if device_id:
        copy = '<ir_version: 8, opset_import: ["": 17]> copy (float[1] X) => (float[1] Y) { Y = Identity (X) }'
        model = parser.parse_model(copy)
        InferenceSession(model.SerializeToString(), providers=[(CUDA, {"device_id": device_id})])
