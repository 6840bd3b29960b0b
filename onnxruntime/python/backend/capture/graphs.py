# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture: fixed device buffers, one IO binding for each graph, capture and replay.

A captured graph replays fixed addresses. So ``InferenceSession.run`` is wrong on a session that captures: on CUDA, it
returns ``[]`` from the second call on, and replays freed host memory. This module copies inputs into the buffers of the
graph, and outputs out of other buffers.

A replay returns the same outputs as a run without capture, for these reasons. Each input that a node reads is in device
memory, so no node on the CPU reads a value of a caller. ORT does not capture a session whose nodes include copies
between host and device (``HasMemcpyNodes`` in ``inference_session.cc``). So nodes on the CPU compute from shapes only.
A graph has one set of shapes, and keeps the outputs of these nodes. No operator draws random numbers, and ORT copies no
output while it captures (:mod:`.eligibility`). No other thread calls CUDA while ORT captures (``locks.py``). In
addition, each graph is compared with a run without capture before it returns its first outputs (:mod:`.comparison`).

ORT gives the memory of a graph's intermediate values to other runs of the session. So replays of a session follow each
other on one stream. Runs without capture, whose inputs and outputs are in that memory, are alone, and leave no value in
that memory.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from weakref import proxy

import numpy as np

from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.capture import comparison, eligibility, own_runs
from onnxruntime.backend.capture.graph_keys import GRAPH_ID, ONE_GRAPH, ORDINARY, GraphIds, Threads
from onnxruntime.backend.errors import reject
from onnxruntime.backend.provider_names import TENSORRT, WEBGPU
from onnxruntime.backend.runs import fast_path, tensors
from onnxruntime.backend.runs.run_options import RunSettings
from onnxruntime.backend.session.routes import no_fast_path

_Feeds = Mapping[str, np.ndarray | OrtValue]

_RUN_WITH_IOBINDING = InferenceSession.run_with_iobinding
_WAY_OUT = f"run with run_config={{'{GRAPH_ID}': {ORDINARY}}}, or prepare the model without graph capture"


def _shape(value: np.ndarray | OrtValue) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else tuple(value.shape())


def _with_id(call: RunSettings, graph_id: str) -> RunSettings:
    return RunSettings(call.attributes, {**call.entries, GRAPH_ID: graph_id})


class Graph:
    """A captured graph. When it ends, its attributes are released under the lock. Nothing else may own its binding."""

    def __init__(self, graph_id: str, session: InferenceSession, lock: locks.SessionLock) -> None:
        self._lock = lock
        #: Returns the options of a run of this graph, and keeps the last.
        self.options = lru_cache(maxsize=1)(lambda call: _with_id(call, graph_id).options)
        self.binding = session.io_binding()
        self.inner_binding = self.binding._iobinding
        self.inputs: list[tuple[str, OrtValue]] = []
        # The inner session that captured the graph, which set_providers replaces.
        self.inner = session._sess

    def __del__(self, is_finalizing: Callable = sys.is_finalizing) -> None:
        if not is_finalizing():
            self._lock.put_aside(vars(self), self.inner)


class Turn:
    """The turn of the replays of a session: its graphs share an arena, so one replay follows another.

    As long as one thread has captured all graphs, its replays do not take the lock, which takes a tenth of their time.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_needed = False
        self._thread: int | None = None

    def begin_capture(self) -> None:
        """Record the thread of a capture, which is alone."""
        thread = threading.get_ident()
        if self._thread not in (None, thread):
            self.is_needed = True
        self._thread = thread


class Capture:
    """The captured graphs of one session. Any number of threads and prepared models may call :meth:`run`."""

    def __init__(
        self, session: InferenceSession, switched_on: list[str], lock: locks.SessionLock, checked: bool
    ) -> None:
        """Use the EPs that capture, and whether :func:`eligibility.check` has checked the session."""
        ep = switched_on[0]
        self._session = proxy(session)  # the session refers to this object
        self._is_exact = type(session) is InferenceSession
        self.inner = fast_path.inner_of(session)  # whose id is the key of this object
        self._lock = lock
        self._on_webgpu = ep == WEBGPU
        # TensorRT captures one graph, in the second run of the session, whatever the id.
        self._once = ep == TENSORRT
        self._device_id = int(session.get_provider_options()[ep].get("device_id", 0))
        self._slots = [(value.name, tensors.number_dtype(value.type), value.type) for value in session.get_inputs()]
        self._output_names = [value.name for value in session.get_outputs()]
        names = [*(name for name, _, _ in self._slots), *self._output_names]
        memories = [*session.get_input_memory_infos(), *session.get_output_memory_infos()]
        # Without a problem, no node reads the inputs among them.
        self._on_cpu = {name for name, memory in zip(names, memories, strict=True) if memory.name == "Cpu"}
        # If everything is on the CPU, there is nothing to capture.
        self._nothing = self._on_cpu.issuperset(names)
        self.problem = "" if self._nothing else eligibility.problem(session, switched_on, checked)
        self._ids = GraphIds(self._once, self._on_webgpu)
        self.claim, self.lend = self._ids.claim, self._ids.lend
        self._threads = Threads(self._lock, self._device_id, common=self._on_webgpu, worker=self._once)
        # Every graph ever begun: ORT may have captured it and may replay into its buffers as long as the session lives.
        self._begun: list[Graph] = []
        self._turn = Turn()
        if not self._nothing and not self._on_webgpu:
            own_runs.refuse_wrong(session)

    def replays(self, entries: Mapping[str, str]) -> bool:
        """Return whether a run with these run config entries captures or replays a graph."""
        return not (self._nothing or entries.get(GRAPH_ID) == ORDINARY)

    def ordinary(self, call: RunSettings) -> RunSettings:
        """Return the settings of a run without capture."""
        return call if call.entries.get(GRAPH_ID) == ORDINARY else _with_id(call, ORDINARY)

    def limited(self, call: RunSettings, limit: str) -> RunSettings:
        """Return the settings of a run that can be ended, or refuse the keyword argument ``limit`` for a replay."""
        if self.replays(call.entries):
            reject("a replay cannot be ended. Add run_config={'gpu_graph_id': -1} for a run without capture", limit)
        return self.ordinary(call)

    def run(self, feeds: _Feeds, call: RunSettings) -> list[np.ndarray]:
        """Return the outputs. The options of :meth:`ordinary` settings can end the run."""
        graph_id = call.entries.get(GRAPH_ID)
        if not self.replays(call.entries):
            if self._once and not self._nothing:
                raise RuntimeError(self.problem or ONE_GRAPH)
            # Alone: ORT may give the run memory into which graphs replay.
            _, call_on_thread = self._threads.of_a_run()
            return self._lock.run_alone(call.options, call_on_thread, self._ordinary, feeds, call)
        if self.problem:
            raise RuntimeError(self.problem if self._once else f"{self.problem}: {_WAY_OUT}")

        graphs, call_on_thread = self._threads.of_a_run()
        feeds = self._checked(feeds)
        key = (graph_id, *map(_shape, feeds.values()))
        graph = graphs.get(key)
        if graph is None:
            return self._lock.run_alone(None, call_on_thread, self._capture, graphs, key, feeds, call)
        return self._lock.run_unnested(None, call_on_thread, self._replay, graph, feeds, call)

    def fast_path(self, prepared: RunSettings) -> Callable[[object, RunOptions], list[np.ndarray] | None]:
        """Return a function of inputs and run options, which returns the outputs, or ``None`` for :meth:`run`.

        It omits the checks of ``InferenceSession``, as long as ``run_with_iobinding`` is ORT's own method.
        """
        if not self._is_exact:  # a subclass can override its methods
            return no_fast_path
        own, names, of_thread = vars(self._session), [name for name, _, _ in self._slots], threading.local()
        graph_id, prepared_options = prepared.entries.get(GRAPH_ID), prepared.options
        method = own_runs.binding_method(own)

        def run(inputs: object, options: RunOptions) -> list[np.ndarray] | None:
            if (
                options is not prepared_options
                or InferenceSession.run_with_iobinding is not _RUN_WITH_IOBINDING
                or own.get("run_with_iobinding") is not method
            ):
                return None
            kind = type(inputs)
            if kind is dict:
                if len(inputs) != len(names):
                    return None
                inputs = [inputs.get(name) for name in names]
            elif kind is not list and kind is not tuple:
                inputs = (inputs,)
            graph, settings = getattr(of_thread, "last", (None, None))
            outputs = None if graph is None else graph.replay(inputs, settings)
            if outputs is None:  # another graph than the last one of the thread
                shapes = [value.shape if type(value) is np.ndarray else None for value in inputs]
                graphs, call_on_thread = self._threads.of_a_run()
                graph = graphs.get((graph_id, *shapes))
                if graph is not None and call_on_thread is operator.call:  # and not in the worker
                    of_thread.last = graph, graph.options(prepared)
                    outputs = graph.replay(inputs, of_thread.last[1])
            return outputs

        return run

    def _replay_of(self, graph: Graph) -> Callable[[Sequence[object], RunOptions], list[np.ndarray] | None]:
        """Return a function that replays a graph for plain arrays of its shapes, and returns ``None`` for others."""
        # Local names and indices: an attribute or a ``zip`` takes a hundredth of the time of a replay.
        own, lock, turn = vars(self._session), self._lock, self._turn
        array, count = np.ndarray, len(self._slots)
        takes = []
        for i, ((_, dtype, _), (_, buffer)) in enumerate(zip(self._slots, graph.inputs, strict=True)):
            like = np.empty(buffer.shape(), dtype)
            takes.append((i, dtype, like.shape, like.strides, buffer._ortvalue.update_inplace))
        inner, binding = graph.inner, graph.inner_binding
        replay, copy = inner.run_with_iobinding, binding.copy_outputs_to_cpu

        def upload_and_replay(inputs: Sequence[object], options: RunOptions) -> list[np.ndarray] | None:
            if len(inputs) != count or own["_sess"] is not inner or lock.other_devices:
                return None
            taken: list[bool] = []
            try:
                if turn.is_needed:
                    taken.extend(map(turn.lock.acquire, (True,)))  # one C call takes the lock and records it
                # Another thread that changes the shape of an array after this check gets wrong outputs of this run.
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
            finally:
                if taken:
                    turn.lock.release()

        return partial(lock.run_unnested, None, upload_and_replay)

    def _checked(self, feeds: _Feeds) -> _Feeds:
        """Return the feeds in the model's order, each checked: an upload compares sizes and copies bytes only."""
        if len(feeds) > len(self._slots):
            raise RuntimeError("a captured run takes the model's inputs only, whose initializers it has captured")
        checked = {}
        for name, dtype, kind in self._slots:
            value = feeds[name]
            if isinstance(value, OrtValue) and value.device_name() == "cpu":
                value = tensors.to_array(value)
            on_device = isinstance(value, OrtValue)
            got, wanted = (value.data_type(), kind) if on_device else (value.dtype, dtype)  # byte order included
            if got != wanted:
                raise RuntimeError(f"input {name!a} takes {kind}, got {got}")
            checked[name] = value if on_device else np.require(value, requirements="C")
        return checked

    def _replay(self, graph: Graph, feeds: _Feeds, call: RunSettings) -> list[np.ndarray]:
        """Run a graph. The first time, ORT captures it."""
        return locks.call_holding(self._turn.lock, self._replay_in_turn, graph, feeds, call)

    def _replay_in_turn(self, graph: Graph, feeds: _Feeds, call: RunSettings) -> list[np.ndarray]:
        for name, buffer in graph.inputs:
            buffer.update_inplace(feeds[name])
        self._session.run_with_iobinding(graph.binding, graph.options(call))
        return graph.inner_binding.copy_outputs_to_cpu()  # copies outputs in CPU memory, too

    def _ordinary(self, feeds: _Feeds, call: RunSettings) -> list[np.ndarray]:
        return self._session.run(self._output_names, feeds, self.ordinary(call).options)

    def _capture(self, graphs: dict[tuple, Graph], key: tuple, feeds: _Feeds, call: RunSettings) -> list[np.ndarray]:
        """Capture and compare the graph of a key. If that fails, nothing replays the graph."""
        if key in graphs:  # another thread has captured it since, for all threads
            return self._replay(graphs[key], feeds, call)
        self._turn.begin_capture()
        self._ids.check(key)
        # Before the capture: ORT checks the inputs, and the outputs have the shapes of the graph's outputs.
        wanted = self._ordinary(feeds, call)
        graph_id = self._ids.begin(key)
        if graph_id is None:
            return wanted
        graph = self._new_graph(graph_id, key[1:], wanted)
        try:
            self._replay(graph, comparison.other_data(feeds), call)
            outputs = self._replay(graph, feeds, call)
        except Exception as error:
            self._check_usable(error)
            raise
        wrong = comparison.differing(outputs, wanted, None if self._once else lambda: self._ordinary(feeds, call))
        if wrong:
            names = ", ".join(ascii(self._output_names[i]) for i in wrong)
            self._ids.refused[key] = (
                f"graph capture returns wrong values for output {names}: a replay differs from a run without capture "
                f"of the same inputs. The model is random, or the EP does not capture all that it does; {_WAY_OUT}"
            )
            raise RuntimeError(self._ids.refused[key])
        graph.replay = self._replay_of(graph)
        graphs[key] = graph
        self._ids.refused.pop(key, None)
        return outputs

    def _new_graph(self, graph_id: str, shapes: Sequence[tuple], outputs: Sequence[np.ndarray]) -> Graph:
        """Return a graph that is not captured yet, with buffers for inputs of these shapes and such outputs."""
        graph = Graph(graph_id, self._session, self._lock)
        self._begun.append(graph)
        for (name, dtype, _), shape in zip(self._slots, shapes, strict=True):
            buffer = self._buffer(name, shape, dtype)
            graph.inputs.append((name, buffer))
            graph.binding.bind_ortvalue_input(name, buffer)
        for name, output in zip(self._output_names, outputs, strict=True):
            graph.binding.bind_ortvalue_output(name, self._buffer(name, output.shape, output.dtype))
        return graph

    def _check_usable(self, error: Exception) -> None:
        """Check whether a failed capture goes on. If so, all CUDA calls of this process fail: raise, now and later."""
        if self._on_webgpu:
            return
        try:
            OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32), "cuda", self._device_id)
        except Exception:  # ORT's own, of several classes
            self._lock.failure = (
                "no session of this process can use CUDA any more: a graph capture failed and ORT did not end it. "
                "Restart the process, and prepare the model without graph capture"
            )
            raise RuntimeError(self._lock.failure) from error

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> OrtValue:
        if self._on_webgpu:  # ORT accepts only device memory
            return self._session.create_ortvalue_from_shape_and_type(list(shape), dtype.type, "webgpu")
        device = ("cpu", 0) if name in self._on_cpu else ("cuda", self._device_id)
        return OrtValue.ortvalue_from_shape_and_type(list(shape), dtype.type, *device)
