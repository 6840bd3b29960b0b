# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture: fixed device buffers, one IO binding for each graph, capture and replay.

A captured graph replays fixed addresses. So ``InferenceSession.run`` is wrong on a session that captures. On CUDA, it
returns ``[]`` from the second call on, and replays freed host memory. This module copies inputs into the buffers of the
graph, and outputs out of other buffers.

A replay returns the same outputs as a run without capture, for these reasons. Each input that a node reads is in device
memory. So no node on the CPU reads a value of a caller. ORT does not capture a session whose nodes include copies
between host and device (``HasMemcpyNodes`` in ``inference_session.cc``). So nodes on the CPU compute from shapes only.
A graph has one set of shapes, and keeps the outputs of these nodes. No operator draws random numbers, and ORT copies no
output while it captures (:mod:`.eligibility`). No other thread calls CUDA while ORT captures (``locks.py``). In
addition, each graph is compared with a run without capture before it returns its first outputs (:mod:`.comparison`).

ORT gives the memory of a graph's intermediate values to other runs of the session. So replays of a session follow each
other on one stream. Runs without capture, whose inputs and outputs are in that memory, are alone, and leave no value in
that memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from weakref import proxy

import numpy as np

from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.capture import comparison, eligibility, own_runs
from onnxruntime.backend.capture.graph import Graph, Outputs, with_id
from onnxruntime.backend.capture.graph_ids import GRAPH_ID, ORDINARY, GraphIds
from onnxruntime.backend.capture.threads import Threads
from onnxruntime.backend.errors import Place, reject
from onnxruntime.backend.provider_names import TENSORRT, WEBGPU
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.direct_route import FastRun, inner_of, no_fast_path
from onnxruntime.backend.runs.settings import RunSettings

_Feeds = Mapping[str, np.ndarray | OrtValue]

_RUN_WITH_IOBINDING = InferenceSession.run_with_iobinding


class Capture:
    """The captured graphs of one session. Any number of threads and prepared models may call :meth:`run`."""

    def __init__(self, session: InferenceSession, switched_on: list[str], checked: bool) -> None:
        """Use the EPs that capture, and whether :func:`eligibility.check` has checked the session."""
        ep = switched_on[0]
        self._session: InferenceSession = proxy(session)  # the session refers to this object
        self.inner = inner_of(session)  # whose id is the key of this object
        self._on_webgpu = ep == WEBGPU
        self.lock = locks.CUDA
        if self._on_webgpu:
            self.lock = locks.WEBGPU
        # TensorRT captures one graph, in the second run of the session, whatever the id.
        self._once = ep == TENSORRT
        self._way_out = "prepare the model without graph capture"
        if not self._once:
            self._way_out = f"run with run_config={{'{GRAPH_ID}': {ORDINARY}}}, or {self._way_out}"
        options = session.get_provider_options()[ep]
        self._device_id = int(options.get("device_id", 0))

        inputs = session.get_inputs()
        outputs = session.get_outputs()
        self._types = {value.name: value.type for value in inputs}
        self._output_names = [value.name for value in outputs]
        values = inputs + outputs
        memories = session.get_input_memory_infos() + session.get_output_memory_infos()
        # Without a problem, no node reads the inputs among them.
        self._on_cpu = eligibility.on_cpu(values, memories)
        # If everything is on the CPU, there is nothing to capture.
        self._nothing = all(value.name in self._on_cpu for value in values)
        self.problem = ""
        self._bindings = threading.local()
        if not self._nothing:
            self.problem = eligibility.problem(session, switched_on, checked)
            if not self._on_webgpu:
                self._bindings = own_runs.refuse_wrong(session)

        self._ids = GraphIds(self._once, self._on_webgpu)
        self.reserve_for_binding = self._ids.reserve_for_binding
        self._threads = Threads(self.lock, self._device_id, common=self._on_webgpu, worker=self._once)
        # Every graph ever begun: ORT may have captured it and may replay into its buffers as long as the session lives.
        # The lock releases them, and then the inner session.
        self._begun: list[Graph] = self.lock.own(session).graphs
        # The graphs share an arena, so one replay follows another. If one thread has captured all of them, its replays
        # do not take this lock, which takes a tenth of their time.
        self._turn = threading.RLock()
        self._capturing_threads: set[int] = set()
        self._takes_turns = False

    def _replays(self, call: RunSettings) -> bool:
        """Return whether a run with these settings captures or replays a graph."""
        if self._nothing:
            return False
        return self._once or call.entries.get(GRAPH_ID) != ORDINARY

    def limited(self, call: RunSettings, limit: str) -> RunSettings:
        """Return the settings of a run that can be ended, or refuse the keyword argument ``limit`` for a replay."""
        if self._replays(call):
            reject(Place(limit), f"a replay cannot be ended: {self._way_out}")
        return with_id(call, ORDINARY)

    def run(self, feeds: _Feeds, call: RunSettings) -> Outputs:
        """Return the outputs. The options of :meth:`limited` settings can end the run."""
        if not self._replays(call):
            # Alone: ORT may give the run memory into which graphs replay.
            return self._threads.call(call.options, self._ordinary_alone, feeds, call)
        if self.problem:
            raise RuntimeError(f"{self.problem}: {self._way_out}")

        feeds = self._checked(feeds)
        graph_id = call.entries.get(GRAPH_ID)
        shapes = map(tensors.shape, feeds.values())
        key = (graph_id, *shapes)
        return self._threads.call(None, self._capture_or_replay, key, feeds, call)

    def _ordinary_alone(self, _: object, feeds: _Feeds, call: RunSettings) -> Outputs:
        return self.lock.run_alone(call.options, self._ordinary, feeds, call)

    def _capture_or_replay(self, graphs: dict[tuple, Graph], key: tuple, feeds: _Feeds, call: RunSettings) -> Outputs:
        graph = graphs.get(key)
        if graph is None:
            return self.lock.run_alone(None, self._capture, graphs, key, feeds, call)
        in_turn = partial(locks.call_holding, self._turn, None, self._replay)
        return self.lock.run_unnested(None, in_turn, graph, feeds, call)

    def fast_run(self, prepared: RunSettings) -> FastRun:
        """Reserve the graph id of a prepared model, and return a function that replays its graphs for numpy arrays.

        The function does without the checks of ``InferenceSession``. It returns the outputs, or ``None`` for
        :meth:`run`, such as if a program has replaced a method.
        """
        self._ids.reserve_for_runs(prepared.entries)
        # A subclass can override its methods.
        if self._session.__class__ is not InferenceSession or own_runs.is_replaced(self._session, "run_with_iobinding"):
            return no_fast_path
        # Local names take less time.
        names = list(self._types)
        prepared_options = prepared.options
        graph_id = prepared.entries.get(GRAPH_ID)
        attributes = vars(self._session)
        own_method = attributes.get("run_with_iobinding")
        graphs_of_this = self._threads.graphs_of_this
        under_lock = self.lock.run_unnested
        replay = self.replay_arrays
        of_thread = threading.local()

        def fast_run(inputs: Any, options: RunOptions) -> Outputs | None:
            if (
                options is not prepared_options
                or InferenceSession.run_with_iobinding is not _RUN_WITH_IOBINDING
                or attributes.get("run_with_iobinding") is not own_method
            ):
                return None
            kind = type(inputs)
            if kind is dict:
                if len(inputs) != len(names):
                    return None
                inputs = [inputs.get(name) for name in names]
            elif kind is not list and kind is not tuple:
                inputs = (inputs,)

            last = getattr(of_thread, "last", None)
            if last is not None:
                graph, settings = last
                outputs = under_lock(None, replay, graph, settings, inputs)
                if outputs is not None:
                    return outputs
            graphs = graphs_of_this()
            if graphs is None:  # the worker replays
                return None
            # Without the shape of each input, no key is equal.
            shapes = [value.shape for value in inputs if type(value) is np.ndarray]
            graph = graphs.get((graph_id, *shapes))
            if graph is None:
                return None
            settings = graph.options(prepared)
            of_thread.last = graph, settings
            return under_lock(None, replay, graph, settings, inputs)

        return fast_run

    def replay_arrays(self, graph: Graph, options: RunOptions, inputs: Sequence[object]) -> Outputs | None:
        """Replay a graph, or return ``None`` if it cannot replay for these inputs. Call it under the lock."""
        if self.lock.other_devices:
            return None
        if self._takes_turns:
            return locks.call_holding(self._turn, None, graph.replay, inputs, options)
        return graph.replay(inputs, options)

    def _checked(self, feeds: _Feeds) -> _Feeds:
        """Return the feeds in the model's order. An upload compares sizes and copies bytes only."""
        if len(feeds) > len(self._types):
            raise RuntimeError("a captured run takes the model's inputs only, whose initializers it has captured")
        checked = {}
        for name, value_type in self._types.items():
            value = feeds[name]
            if isinstance(value, np.ndarray):  # of this type
                value = np.require(value, requirements="C")
            elif value.data_type() != value_type:
                raise RuntimeError(f"input {name!a} takes {value_type}, got {value.data_type()}")
            elif value.device_name() == "cpu":
                value = tensors.to_array(value)
            checked[name] = value
        return checked

    def _replay(self, graph: Graph, feeds: _Feeds, call: RunSettings) -> Outputs:
        """Run a graph. The first time, ORT captures it. The caller is alone or holds ``_turn``."""
        for name, buffer in graph.inputs:
            buffer.update_inplace(feeds[name])
        options = graph.options(call)
        self._session.run_with_iobinding(graph.binding, options)
        return graph.inner_binding.copy_outputs_to_cpu()  # copies outputs in CPU memory, too

    def _ordinary(self, feeds: _Feeds, call: RunSettings) -> Outputs:
        options = with_id(call, ORDINARY).options
        return self._session.run(self._output_names, feeds, options)

    def _capture(self, graphs: dict[tuple, Graph], key: tuple, feeds: _Feeds, call: RunSettings) -> Outputs:
        """Capture and compare the graph of a key. If that fails, nothing replays the graph."""
        if key in graphs:  # another thread has captured it since, for all threads
            return self._replay(graphs[key], feeds, call)
        self._capturing_threads.add(threading.get_ident())
        self._takes_turns = len(self._capturing_threads) > 1
        self._ids.check(key)
        if hasattr(self._bindings, str(key[0])):
            raise RuntimeError(f"rep.run: {GRAPH_ID}={key[0]} is used by an IO binding of your own. Choose another id")
        # Before the capture: ORT checks the inputs, and the outputs have the shapes of the graph's outputs.
        wanted = self._ordinary(feeds, call)
        graph_id = self._ids.begin(key)
        if graph_id is None:
            return wanted

        other = comparison.other_data(feeds)
        graph = self._new_graph(graph_id, other, wanted)
        try:
            self._replay(graph, other, call)
            outputs = self._replay(graph, feeds, call)
        except Exception as error:
            self._check_usable(error)
            raise
        again = None
        if not self._once:  # TensorRT would capture another run
            again = partial(self._ordinary, feeds, call)
        wrong = comparison.differing(outputs, wanted, again)
        if wrong:
            names = ", ".join(ascii(self._output_names[index]) for index in wrong)
            self._ids.refused[key] = (
                f"graph capture returns wrong values for output {names}: a replay differs from a run without capture "
                f"of the same inputs. The model is random, or the EP captures a part of its work only: {self._way_out}"
            )
            raise RuntimeError(self._ids.refused[key])

        graphs[key] = graph
        self._ids.refused.pop(key, None)
        return outputs

    def _new_graph(self, graph_id: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray]) -> Graph:
        """Return a graph that is not captured yet, with buffers for such inputs and outputs."""
        graph = Graph(graph_id, self._session)
        self._begun.append(graph)
        for name, array in inputs.items():
            graph.add_input(name, array, self._buffer(name, array))
        for name, array in zip(self._output_names, outputs, strict=True):
            buffer = self._buffer(name, array)
            graph.binding.bind_ortvalue_output(name, buffer)
        return graph

    def _check_usable(self, error: Exception) -> None:
        """Check whether a failed capture goes on. If so, all CUDA calls of this process fail: raise, now and later."""
        if self._on_webgpu:
            return
        try:
            value = np.zeros(1, np.float32)
            OrtValue.ortvalue_from_numpy(value, "cuda", self._device_id)
        except Exception:  # ORT's own, of several classes
            self.lock.failure = (
                "no session of this process can use CUDA any more: a graph capture failed and ORT did not end it. "
                "Restart the process, and prepare the model without graph capture"
            )
            raise RuntimeError(self.lock.failure) from error

    def _buffer(self, name: str, array: np.ndarray) -> OrtValue:
        """Return a new buffer for an input or output of the shape and type of an array."""
        shape = list(array.shape)
        kind = array.dtype.type
        if self._on_webgpu:  # ORT accepts only device memory
            return self._session.create_ortvalue_from_shape_and_type(shape, kind, "webgpu")
        if name in self._on_cpu:
            return OrtValue.ortvalue_from_shape_and_type(shape, kind, "cpu")
        return OrtValue.ortvalue_from_shape_and_type(shape, kind, "cuda", self._device_id)
