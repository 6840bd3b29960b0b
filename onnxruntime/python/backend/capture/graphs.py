# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture: fixed device buffers, one IO binding for each graph, capture and replay.

A captured graph replays fixed addresses. So ``InferenceSession.run`` is wrong on a session that captures: on CUDA, it
returns ``[]`` from the second call on, and replays freed host memory. This module copies inputs into the buffers of the
graph, and outputs out of other buffers.

A replay returns the same outputs as a run without capture, for these reasons. Each input is in device memory, so no
node on the CPU reads a value of a caller. ORT does not capture a session whose nodes include copies between host and
device (``HasMemcpyNodes`` in ``inference_session.cc``). So nodes on the CPU compute from shapes only. A graph has one
set of shapes, and keeps the outputs of these nodes. No operator draws random numbers, and ORT copies no output while it
captures (:mod:`.eligibility`). No other thread calls CUDA while ORT captures (:mod:`.locks`).

ORT gives the memory of a graph's intermediate values to other runs of the session. So replays of a session follow each
other on one stream. Runs without capture, whose inputs and outputs are in that memory, are alone, and leave no value in
that memory.

In addition, each graph is compared with a run without capture before it returns its first outputs.

Parts: :mod:`.graph_ids` assigns ids, :mod:`.threads` selects the thread that replays, :mod:`.replays` is the fast path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend.capture import comparison, eligibility, locks, replays
from onnxruntime.backend.capture.graph_ids import GRAPH_ID, ONE_GRAPH, ORDINARY, GraphIds
from onnxruntime.backend.capture.replays import Graph
from onnxruntime.backend.capture.threads import Threads
from onnxruntime.backend.provider_names import TENSORRT, WEBGPU
from onnxruntime.backend.runs import fast_path, tensors
from onnxruntime.backend.runs.run_options import RunSettings

_WAY_OUT = f"run with run_config={{'{GRAPH_ID}': {ORDINARY}}}, or prepare the model without graph capture"
_UNUSABLE = (
    "no session of this process can use CUDA any more: a graph capture failed and ORT did not end it. Restart the "
    "process, and prepare the model without graph capture"
)
_dropping = threading.Lock()


def of(session: InferenceSession) -> Capture | None:
    """Return the capture state of a session, which all its runs share; ``None`` if the session does not capture."""
    # The state is kept with the session: its buffers must end with the session.
    own = vars(session)
    switched_on = eligibility.switched_on(session)
    with _dropping:
        state = own.get("_graph_capture")
        if state is not None and state.inner is not fast_path.inner_of(session):
            del own["_graph_capture"]  # of an inner session that set_providers has replaced
    if not switched_on:
        return None
    return own.get("_graph_capture") or own.setdefault("_graph_capture", Capture(session, switched_on))


def require(session: InferenceSession) -> None:
    """Check that a session can capture. For a session that a caller created, :meth:`Capture.run` raises the error."""
    state = of(session)
    if state is not None and state.problem:
        raise RuntimeError(f"{state.problem}. Prepare the model without graph capture")


class _Call(NamedTuple):
    """One run: the session, the inputs by name, the settings, and the options of a run with limits."""

    session: InferenceSession
    feeds: Mapping[str, np.ndarray | OrtValue]
    attributes: Mapping[str, object]
    entries: Mapping[str, str]
    options: RunOptions | None = None


class Capture:
    """The captured graphs of one session. Any number of threads and prepared models may call :meth:`run`."""

    def __init__(self, session: InferenceSession, switched_on: list[str]) -> None:
        ep = switched_on[0]
        self.inner = fast_path.inner_of(session)
        self._lock = locks.of(session)
        self._on_webgpu = ep == WEBGPU
        self._unread = eligibility.unread(session) or frozenset()
        # TensorRT captures one graph, in the second run of the session, whatever the id.
        self._once = ep == TENSORRT
        self._device_id = int(session.get_provider_options()[ep].get("device_id", 0))
        self._slots = [(value.name, tensors.number_dtype(value.type), value.type) for value in session.get_inputs()]
        self._output_names = [value.name for value in session.get_outputs()]
        memories = [memory.name for memory in session.get_output_memory_infos()]
        # On WebGPU, ORT accepts only device memory for outputs.
        self._on_cpu = {i for i, name in enumerate(memories) if name == "Cpu" and not self._on_webgpu}
        # If everything is on the CPU, there is nothing to capture.
        self._nothing = {"Cpu"}.issuperset([*memories, *(info.name for info in session.get_input_memory_infos())])
        self.problem = "" if self._nothing else eligibility.problem(session, switched_on)
        self._ids = GraphIds(self._once, self._on_webgpu)
        self.claim, self.lend = self._ids.claim, self._ids.lend
        self._threads = Threads(self._lock, self._device_id, common=self._on_webgpu, worker=self._once)
        # Every graph ever begun: ORT may have captured it and may replay into its buffers as long as the session lives.
        self._begun: list[Graph] = []
        # Held by a replay in place of the run lock of its thread. On WebGPU, each run is alone.
        self._replay_lock = None if self._on_webgpu else self._lock.new_lock()

    def replays(self, entries: Mapping[str, str]) -> bool:
        """Return whether a run with these run config entries captures or replays a graph."""
        return not (self._nothing or entries.get(GRAPH_ID) == ORDINARY)

    def run(
        self,
        session: InferenceSession,
        feeds: Mapping[str, np.ndarray | OrtValue],
        attributes: Mapping[str, object],
        entries: Mapping[str, str],
        limited: RunOptions | None = None,
    ) -> list[np.ndarray]:
        """Return the outputs, by capture and replay unless the run config contains ``gpu_graph_id=-1``.

        A run with limits, whose options are ``limited``, is not captured (:meth:`replays`).
        """
        if self._lock.failure:
            raise RuntimeError(self._lock.failure)
        graphs, do = self._threads.of_a_run()
        graph_id = entries.get(GRAPH_ID)
        if self.problem or not self.replays(entries):
            self._check_ordinary(graph_id)
            with self._lock.alone(limited):  # the run may be given memory into which graphs replay
                return do(self._ordinary, _Call(session, feeds, attributes, entries, limited))
        call = _Call(session, self._checked(feeds), attributes, entries)
        key = (graph_id, *map(_shape, call.feeds.values()))
        with self._replay_lock if self._replay_lock and key in graphs else self._lock.alone():
            return do(self._compute, graphs, key, call)

    def fast_path(
        self, session: InferenceSession, entries: Mapping[str, str], options: RunOptions
    ) -> Callable[[object, RunOptions], list[np.ndarray] | None]:
        """Return the fast path of runs with these entries, and the options made from them."""
        graph_id = entries.get(GRAPH_ID)
        return replays.fast_path(
            session, self._slots, self._threads, self._lock, self._replay_lock, graph_id, entries, options
        )

    def _check_ordinary(self, graph_id: str | None) -> None:
        """Check that a run without capture can be right. Otherwise, raise a ``RuntimeError``."""
        if self._once and not self._nothing:
            raise RuntimeError(self.problem or f"{GRAPH_ID}={ORDINARY} has no effect on {TENSORRT}: {ONE_GRAPH}")
        if self.problem and graph_id != ORDINARY:
            raise RuntimeError(f"{self.problem}: {_WAY_OUT}, or bind and run rep.session with rep.run_options()")

    def _checked(self, feeds: Mapping[str, np.ndarray | OrtValue]) -> dict[str, np.ndarray | OrtValue]:
        """Return the feeds in the model's order, each checked: an upload compares sizes and copies bytes only."""
        if len(feeds) > len(self._slots):
            raise RuntimeError("a captured run takes the model's inputs only, whose initializers it has captured")
        checked = {}
        for name, dtype, kind in self._slots:
            if name not in feeds:
                raise RuntimeError(f"input {name!a} is missing")
            value = feeds[name]
            if isinstance(value, OrtValue):
                if value.data_type() != kind:
                    raise RuntimeError(f"input {name!a} takes {kind}, got {value.data_type()}")
                if value.device_name() == "cpu":
                    value = tensors.to_array(value)
            elif value.dtype != dtype:  # byte order included
                raise RuntimeError(f"input {name!a} takes {kind}, got {value.dtype}")
            elif not value.flags.c_contiguous:
                value = np.require(value, requirements="C")
            checked[name] = value
        return checked

    def _compute(self, graphs: dict[tuple, Graph], key: tuple, call: _Call) -> list[np.ndarray]:
        # On WebGPU, all threads share the graphs: another may have captured this one meanwhile.
        return self._replay(graphs[key], call) if key in graphs else self._capture(graphs, key, call)

    def _replay(self, graph: Graph, call: _Call) -> list[np.ndarray]:
        """Run a graph. The first time, ORT captures it."""
        for name, buffer in graph.inputs:
            buffer.update_inplace(call.feeds[name])
        if call.attributes or graph.entries is not call.entries:
            graph.options = RunSettings(call.attributes, {**call.entries, GRAPH_ID: graph.id}).options
            graph.entries = None if call.attributes else call.entries
        call.session.run_with_iobinding(graph.binding, graph.options)
        return graph.inner_binding.copy_outputs_to_cpu()  # copies outputs in CPU memory, too

    def _ordinary(self, call: _Call) -> list[np.ndarray]:
        """Run without capture."""
        options = call.options
        if options is None:
            options = RunSettings(call.attributes, {**call.entries, GRAPH_ID: ORDINARY}).options
        return call.session.run(self._output_names, call.feeds, options)

    def _capture(self, graphs: dict[tuple, Graph], key: tuple, call: _Call) -> list[np.ndarray]:
        """Capture and compare the graph of some input shapes. After a failure or an interrupt, nothing replays it."""
        self._ids.check(key)
        # Before the capture: ORT checks the inputs, and the outputs have the shapes of the graph's outputs.
        wanted = self._ordinary(call)
        graph_id = self._ids.begin(key)
        if graph_id is None:
            return wanted
        graph = Graph(graph_id, call.session, self._lock)
        self._begun.append(graph)
        for (name, dtype, _), shape in zip(self._slots, key[1:], strict=True):
            graph.bind_input(name, self._buffer(call.session, shape, dtype, on_cpu=name in self._unread))
        for i, (name, want) in enumerate(zip(self._output_names, wanted, strict=True)):
            buffer = self._buffer(call.session, want.shape, want.dtype, on_cpu=i in self._on_cpu)
            graph.binding.bind_ortvalue_output(name, buffer)
        given = {
            name: tensors.to_array(value) if isinstance(value, OrtValue) else value
            for name, value in call.feeds.items()
        }
        try:
            self._replay(graph, call._replace(feeds=comparison.other_data(given)))
            outputs = self._replay(graph, call)
        except Exception as error:
            self._check_usable(error)
            raise
        wrong = comparison.differing(outputs, wanted, None if self._once else lambda: self._ordinary(call))
        if wrong:
            names = ", ".join(ascii(self._output_names[i]) for i in wrong)
            self._ids.refuse(
                key,
                f"graph capture returns wrong values for output {names}: a replay differs from a run without capture "
                f"of the same inputs. The model is random, or the EP does not capture all that it does; {_WAY_OUT}",
            )
        self._ids.accept(key)
        graphs[key] = graph
        return outputs

    def _check_usable(self, error: Exception) -> None:
        """Check whether a failed capture goes on. If so, all CUDA calls of this process fail: raise, now and later."""
        if self._on_webgpu:
            return
        try:
            OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32), "cuda", self._device_id)
        except Exception:  # ORT's own, of several classes
            self._lock.failure = _UNUSABLE
            raise RuntimeError(_UNUSABLE) from error

    def _buffer(self, session: InferenceSession, shape: tuple, dtype: np.dtype, on_cpu: bool = False) -> OrtValue:
        if self._on_webgpu:
            return session.create_ortvalue_from_shape_and_type(list(shape), dtype.type, "webgpu")
        device = ("cpu", 0) if on_cpu else ("cuda", self._device_id)
        return OrtValue.ortvalue_from_shape_and_type(list(shape), dtype.type, *device)


def _shape(value: np.ndarray | OrtValue) -> tuple:
    return value.shape if isinstance(value, np.ndarray) else tuple(value.shape())
