# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Selects the id and the thread of each graph: ORT keeps the graphs of a session by id, and on CUDA by thread, too."""

from __future__ import annotations

import operator
import threading
import weakref
from _thread import start_new_thread  # Thread.start waits for an Event, whose lock an interrupt leaves taken
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from queue import SimpleQueue

from onnx import parser

from onnxruntime import InferenceSession
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
        self._common = common
        self._own = threading.local()
        # An item for each thread that can still have its own graphs. An interrupt leaves the lock of a Semaphore taken.
        self._left: list[None] = [] if worker else [None] * MOST_THREADS
        # The graphs of the worker, or of all threads.
        self._shared: dict[tuple, object] = {}
        self._worker = Worker(lock, device_id)

    def of_a_run(self) -> tuple[dict[tuple, object], Callable]:
        """Return the graphs of the calling thread by key, and a function that calls another for the run."""
        if self._common:
            return self._shared, operator.call
        if not hasattr(self._own, "graphs"):
            self._own.graphs = self._first_graphs()
        # ORT 1.31.1 sets CUDA's current device in the thread that creates or releases a session, but not for the run of
        # a session that captures (``cuda_execution_provider.cc``).
        if self._own.graphs is None or self._lock.other_devices:
            return self._shared, self._worker.call
        return self._own.graphs, operator.call

    def _first_graphs(self) -> dict[tuple, object] | None:
        try:
            self._left.pop()
        except IndexError:  # the worker runs for this thread
            return None
        return {}


class Worker:
    """A thread that calls functions for other threads, which hold the locks for it.

    It begins with the first call, and ends with this object.
    """

    def __init__(self, lock: locks.SessionLock, device_id: int) -> None:
        self._lock = lock
        self._device_id = device_id
        self._works: SimpleQueue[object] = SimpleQueue()
        self._serving = threading.Lock()

    def call(self, function: Callable, *arguments: object) -> object:
        """Call a function in the worker, under the locks of the calling thread. The first call must be alone."""
        if not self._serving.locked():
            end = weakref.ref(self, self._works.put)
            start_new_thread(_serve, (end, self._works, self._serving, self._lock, self._device_id))
        work = _Work(partial(function, *arguments))
        sent: list[None] = []
        try:
            sent.extend(map(self._works.put, (work,)))  # one C call sends the work and records it
            work.wait()
        finally:
            if sent:
                work.wait_in_spite_of_interrupts()  # the locks and the caller's arrays are the worker's until then
            self._lock.release_dead()
        return work.result()


class _Work:
    """One call of a function by a worker."""

    def __init__(self, function: Callable) -> None:
        self._function = function
        self._outputs: object = None
        self._error: BaseException | None = None
        self._ended = threading.Lock()
        self._ended.acquire()

    def execute(self, before: Callable) -> None:
        try:
            before()
            self._outputs = self._function()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.release()

    def wait(self) -> None:
        locks.pass_through(self._ended)

    def wait_in_spite_of_interrupts(self) -> None:
        try:
            while self._ended.locked():
                with suppress(BaseException):
                    self.wait()
        finally:
            self.wait()  # for an interrupt between two steps of the loop

    def result(self) -> object:
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
    """Do works in their order until the worker ends, unless another thread of the same worker does."""
    if not serving.acquire(blocking=False):  # after an interrupt, or beside another first call
        return
    on_device = cache(partial(_set_device, device_id))
    while (work := works.get()) is not end:
        with suppress(BaseException):
            lock.run_for_other_thread(work.execute, on_device)
        del work  # keep nothing of a caller until the next work


def _set_device(device_id: int) -> None:
    """Set CUDA's current device of the calling thread: ORT sets it permanently in the thread that creates a session."""
    if device_id:
        copy = '<ir_version: 8, opset_import: ["": 13]> copy (float[1] X) => (float[1] Y) { Y = Identity (X) }'
        model = parser.parse_model(copy)
        InferenceSession(model.SerializeToString(), providers=[(CUDA, {"device_id": device_id})])
