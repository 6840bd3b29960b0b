# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Selects the thread that replays a graph, because ORT keeps CUDA graphs by thread."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from onnx import parser

from onnxruntime import InferenceSession
from onnxruntime.backend.capture import locks
from onnxruntime.backend.provider_names import CUDA

# For each thread of a CUDA session, ORT keeps cuBLAS and cuDNN handles as long as the session.
MOST_THREADS = 8


class Threads:
    """The graphs of each of the first ``MOST_THREADS`` threads of a session, and a worker that runs for all others."""

    def __init__(self, lock: locks.SessionLock, device_id: int, common: bool, worker: bool) -> None:
        """If ``common``, all threads share graphs, as on WebGPU. If ``worker``, it makes all runs, as on TensorRT."""
        self._lock, self._device_id, self._common = lock, device_id, common
        self._own = threading.local()
        self._left = threading.Semaphore(0 if worker else MOST_THREADS)
        # The graphs of the worker, or of all threads.
        self._shared: dict[tuple, object] = {}
        self.worker = None

    def of_a_run(self) -> tuple[dict[tuple, object], Callable]:
        """Return the graphs for a run of the calling thread, by key, and a function that calls another for the run."""
        if self._common:
            return self._shared, operator.call
        if not hasattr(self._own, "graphs"):
            self._own.graphs = {} if self._left.acquire(blocking=False) else None
        # ORT 1.31.1 sets CUDA's current device in the thread that creates or releases a session, but not for the run of
        # a session that captures (``cuda_execution_provider.cc``).
        if self._own.graphs is None or self._lock.other_devices:
            return self._shared, self._on_worker
        return self._own.graphs, operator.call

    def _on_worker(self, function: Callable, *arguments: object) -> object:
        """Call a function in the worker, under the lock that the calling thread holds."""
        if self.worker is None:  # the first run of the worker is alone
            start = partial(_become_worker, self._lock, self._device_id)
            self.worker = ThreadPoolExecutor(1, "onnxruntime-graph-capture", initializer=start)
        future = self.worker.submit(function, *arguments)
        try:
            return future.result()
        finally:
            future.exception()  # after Ctrl-C too, wait for the run: it reads the caller's arrays
            self._lock.release_dead()


def _become_worker(lock: locks.SessionLock, device_id: int) -> None:
    """Set CUDA's current device of the calling thread: ORT sets it permanently in the thread that creates a session."""
    lock.of_thread.releases_nothing = True
    if device_id:
        copy = '<ir_version: 8, opset_import: ["": 13]> copy (float[1] X) => (float[1] Y) { Y = Identity (X) }'
        model = parser.parse_model(copy).SerializeToString()
        InferenceSession(model, providers=[(CUDA, {"device_id": device_id})])
