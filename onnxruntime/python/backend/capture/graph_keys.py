# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Selects the id and the thread of each graph: ORT keeps the graphs of a session by id, and on CUDA by thread, too."""

from __future__ import annotations

import threading
import weakref
from _thread import start_new_thread  # Thread.start waits for an Event, whose lock an interrupt leaves taken
from collections.abc import Callable, Mapping
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

from onnx import parser

from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.errors import warn
from onnxruntime.backend.provider_names import CUDA, TENSORRT

# The run config entry that selects the graph of a run. Without it, ORT uses graph 0.
GRAPH_ID = "gpu_graph_id"
# The graph id of a run without capture.
ORDINARY = "-1"
# The id that ORT uses if the run config has none, and the id of TensorRT's only graph.
DEFAULT_ID = "0"
# The allowlist permits ids up to 1023.
FIRST_AUTOMATIC_ID = 1024
# ORT keeps every graph as long as the session. 32 graphs of 50 nodes on tensors of 256 KiB take 26 MiB.
MOST_GRAPHS = 32
# For each thread of a CUDA session, ORT keeps cuBLAS and cuDNN handles as long as the session. With eight threads, each
# can have the graphs of four sets of input shapes before the session has MOST_GRAPHS.
MOST_THREADS = 8

ONE_GRAPH = (
    f"{TENSORRT} keeps one graph for a session, of one set of input shapes, and {GRAPH_ID} has no effect. Prepare the "
    "model once more for other runs"
)
_Result = TypeVar("_Result")
_ENDED = "an exception has ended the thread that executes the runs of this session. Run the model again"
_OVERWRITTEN = (
    f"run_options({{'{GRAPH_ID}': {ORDINARY}}}) and captures exclude each other: on CUDA, a replay overwrites outputs "
    "that ORT allocated for runs with your own binding. Bind allocated values and use a graph id that rep.run does not "
    "use, or prepare the model without graph capture for such runs"
)


class GraphIds:
    """Assigns graph ids to runs of prepared models and to callers' own bindings. Threads may share an object.

    Only runs that are alone call :meth:`check` and :meth:`begin`.
    """

    def __init__(self, once: bool, on_webgpu: bool) -> None:
        """If ``once``, the EP captures one graph for a session, whatever the id, as TensorRT does."""
        self._once, self._on_webgpu = once, on_webgpu
        # The number of graphs that were ever begun. ORT may have captured each, and keeps it as long as the session.
        self._begun = 0
        # Why graphs of an id and input shapes are not captured.
        self.refused: dict[tuple, str] = {}
        # The input shapes of each id of a caller's run config.
        self._shapes: dict[str, list] = {}
        # For each id in use, whether runs of prepared models use it, and not a caller's binding. One operation of the
        # dict, setdefault, decides between threads. On CUDA, a capture also reserves ORDINARY.
        self._is_for_runs: dict[str, bool] = {}

    def claim(self, entries: Mapping[str, str]) -> None:
        """Reserve the graph id of a run config, if any, unless :meth:`lend` reserved it for a binding."""
        graph_id = entries.get(GRAPH_ID, ORDINARY)
        if graph_id != ORDINARY and not self._is_for_runs.setdefault(graph_id, True):
            raise RuntimeError(f"{GRAPH_ID}={graph_id} is used by run_options() of this session. Choose another id")

    def lend(self, entries: Mapping[str, str]) -> None:
        """Reserve the graph id of a run config, 0 without one, for a caller who runs the session with a binding."""
        graph_id = entries.get(GRAPH_ID, DEFAULT_ID)
        if graph_id == ORDINARY:
            if self._is_for_runs.setdefault(ORDINARY, False):
                raise RuntimeError(_OVERWRITTEN)
            return
        reserved = DEFAULT_ID if self._once else graph_id
        if self._is_for_runs.setdefault(reserved, False):
            raise RuntimeError(
                f"{GRAPH_ID}={graph_id} is used by run() of this session. For runs with your own binding, choose "
                f"another id, as in run_options({{'{GRAPH_ID}': 7}}), or {ORDINARY} for runs without capture"
            )

    def check(self, key: tuple) -> None:
        """Check that the graph of a caller's id (or ``None``) and input shapes may be captured."""
        graph_id, *shapes = key
        if self._once and (self._begun or graph_id is not None):
            raise RuntimeError(ONE_GRAPH)
        captured = self._shapes.get(graph_id, shapes)
        if captured != shapes:
            raise RuntimeError(
                f"{GRAPH_ID}={graph_id} was captured with inputs of shapes {captured}, but this run has {shapes}. "
                "Choose another id. Without an id, the backend selects one for each set of shapes"
            )
        if key in self.refused:
            raise RuntimeError(self.refused[key])

    def begin(self, key: tuple) -> str | None:
        """Return the id of a new graph. If the session has ``MOST_GRAPHS``, return ``None``, and warn once."""
        if self._begun >= MOST_GRAPHS:
            if self._begun == MOST_GRAPHS:
                self._begun += 1
                warn(
                    f"This session has captured {MOST_GRAPHS} graphs, one for each thread, set of input shapes and id, "
                    "and ORT never frees a graph. Other runs of this session do not capture"
                )
            return None

        graph_id, *shapes = key
        chosen = graph_id
        if graph_id is None:
            chosen = DEFAULT_ID if self._once else str(FIRST_AUTOMATIC_ID + self._begun)
        self.claim({GRAPH_ID: chosen})
        if not self._on_webgpu and not self._is_for_runs.setdefault(ORDINARY, True):
            raise RuntimeError(_OVERWRITTEN)
        self._begun += 1
        if graph_id is not None:
            # If the run fails, ORT may have captured a graph under this id. Automatic ids are never used again.
            self.refused[key] = f"the first run with {GRAPH_ID}={graph_id} failed. Choose another id or none"
            self._shapes[graph_id] = shapes
        return chosen


class Threads:
    """The graphs of each of the first ``MOST_THREADS`` threads of a session, and a worker that runs for all others."""

    def __init__(
        self,
        lock: locks.SessionLock,
        device_id: int,
        common: bool,
        worker: bool,
    ) -> None:
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
        work = _Work(function, arguments)
        try:
            self._lock.wait_for_worker(self._wait, work, options)
        finally:
            self._lock.release_ended()
        return work.result()

    def _wait(self, work: _Work, options: RunOptions | None) -> None:
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
    end: weakref.ref[Worker],
    works: SimpleQueue,
    serving: threading.Lock,
    lock: locks.SessionLock,
    device_id: int,
) -> None:
    """Do works in their order until the worker ends, unless another thread of the same worker does.

    :param end: the reference that enters the queue when the worker ends, as long as this thread keeps it.
    """
    taken: list[bool] = []
    thread = threading.get_ident()
    graphs: dict[tuple, object] = {}
    try:
        if not locks.take(serving, taken, 0):
            return
        lock.workers.add(thread)
        on_device = cache(partial(lock.run_unnested, None, _set_device, device_id))
        # The worker has ended if there is a reference, which can be that of a thread that started at the same time.
        while isinstance(work := works.get(), _Work):
            work.execute(on_device, graphs)
            del work  # keep nothing of a caller until the next work
    finally:
        if True in taken:
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
