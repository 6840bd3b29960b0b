# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The fast path of captured graphs: most runs pass plain arrays, of shapes that the calling thread has captured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend.capture import locks
from onnxruntime.backend.capture.threads import Threads

_RUN_WITH_IOBINDING = InferenceSession.run_with_iobinding

_Replay = Callable[[Sequence[object]], "list[np.ndarray] | None"]


class Graph(locks.Owner):
    """One captured graph: its buffers, and the binding of these buffers."""

    def __init__(self, graph_id: str, session: InferenceSession, lock: locks.SessionLock) -> None:
        super().__init__(lock)
        self.id = graph_id
        self.binding = session.io_binding()
        # The inner session that captured the graph, which set_providers replaces, and its binding.
        self.inner, self.inner_binding = session._sess, self.binding._iobinding
        self.inputs: list[tuple[str, OrtValue]] = []
        # The run options of the last run, and their entries.
        self.options: RunOptions | None = None
        self.entries: Mapping[str, str] | None = None

    def bind_input(self, name: str, buffer: OrtValue) -> None:
        self.inputs.append((name, buffer))
        self.binding.bind_ortvalue_input(name, buffer)


class _Fast(locks.Owner):
    """The function that replays a graph with some run options. Nothing else refers to the function."""

    def __init__(self, lock: locks.SessionLock, replay: _Replay) -> None:
        super().__init__(lock)
        self.replay = replay


class _OfThread(threading.local):
    """The graphs of a thread, by input shapes, and the last of them."""

    def __init__(self) -> None:
        self.graphs: dict[tuple, _Fast] = {}
        self.last: _Fast | None = None


def fast_path(
    session: InferenceSession,
    slots: Sequence[tuple[str, np.dtype, str]],
    threads: Threads,
    lock: locks.SessionLock,
    replay_lock: threading.RLock | None,
    graph_id: str | None,
    entries: Mapping[str, str],
    options: RunOptions,
) -> Callable[[object, RunOptions], list[np.ndarray] | None]:
    """Return a function of the inputs and the run options, which returns the outputs, or ``None`` for ``Capture.run``.

    The function omits the checks of ``InferenceSession``, as long as ``run_with_iobinding`` is ORT's own method.

    :param replay_lock: the lock of each replay, or ``None`` if each run is alone.
    :param entries: the run config entries of these runs, always the same object. ``options`` are made from them.
    """
    own, mine = vars(session), _OfThread()
    names = [name for name, _, _ in slots]

    def run(inputs: object, run_options: RunOptions) -> list[np.ndarray] | None:
        if (
            run_options is not options
            or InferenceSession.run_with_iobinding is not _RUN_WITH_IOBINDING
            or "run_with_iobinding" in own
        ):
            return None
        kind = type(inputs)
        if kind is dict:
            if len(inputs) != len(names):
                return None
            inputs = [inputs.get(name) for name in names]
        elif kind is not list and kind is not tuple:
            inputs = (inputs,)
        last = mine.last
        outputs = None if last is None else last.replay(inputs)
        return other(inputs) if outputs is None else outputs

    def other(inputs: Sequence[object]) -> list[np.ndarray] | None:
        """Run another graph than the last one of the thread."""
        shapes = tuple([value.shape if type(value) is np.ndarray else None for value in inputs])
        if shapes not in mine.graphs:
            graph = (threads.graphs() or {}).get((graph_id, *shapes))
            if graph is None or graph.entries is not entries:
                return None
            mine.graphs[shapes] = _Fast(lock, replay_of(graph, own, slots, lock, replay_lock))
        mine.last = mine.graphs[shapes]
        return mine.last.replay(inputs)

    return run


def replay_of(
    graph: Graph,
    own: Mapping[str, object],
    slots: Sequence[tuple[str, np.dtype, str]],
    lock: locks.SessionLock,
    replay_lock: threading.RLock | None,
) -> _Replay:
    """Return a function that replays a graph for plain arrays of its shapes, and returns ``None`` for other inputs.

    The function uses local names and indices: an attribute or a ``zip`` takes a hundredth of the time of a replay.
    """
    array, count = np.ndarray, len(slots)
    takes = []
    for i, ((_, dtype, _), (_, buffer)) in enumerate(zip(slots, graph.inputs, strict=True)):
        like = np.empty(buffer.shape(), dtype)
        takes.append((i, dtype, like.shape, like.strides, buffer._ortvalue.update_inplace))
    inner, binding, options = graph.inner, graph.inner_binding, graph.options
    replay, copy = inner.run_with_iobinding, binding.copy_outputs_to_cpu

    def run(inputs: Sequence[object]) -> list[np.ndarray] | None:
        if len(inputs) != count or own["_sess"] is not inner or lock.other_devices or lock.failure:
            return None
        with replay_lock or lock.alone():
            for i, dtype, shape, strides, upload in takes:
                value = inputs[i]
                # numpy has one dtype object for each built-in type and byte order, so `is` compares both.
                if (
                    type(value) is not array
                    or value.dtype is not dtype
                    or value.shape != shape
                    or value.strides != strides
                ):
                    return None
                upload(value)
            replay(binding, options)
            return copy()

    return run
