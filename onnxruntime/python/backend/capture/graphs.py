# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture: fixed device buffers, one IO binding for each graph, capture and replay.

A captured graph replays fixed addresses. So ``InferenceSession.run`` is wrong on a session that captures. On CUDA, it
returns ``[]`` from the second call on, and replays freed host memory. This module copies inputs into the buffers of the
graph, and outputs out of other buffers.

A replay computes what a run without capture does. Each input that a node reads is in device memory. Nodes on the CPU
compute from shapes only, because ORT does not capture a session whose nodes include copies (``HasMemcpyNodes`` in
``inference_session.cc``), and a graph has one set of shapes. :mod:`.eligibility` refuses what ORT does not see. In
addition, each graph is compared with a run without capture before it returns its first outputs.

The ids of the graphs in ORT are numbers above those of callers: a caller's id is a part of the key of a graph. So a run
never meets a graph that the caller has captured with an IO binding.

ORT gives the memory of a graph's intermediate values to other runs of the session. So replays of a session follow each
other, and runs without capture are alone. No other thread calls CUDA while ORT captures (``locks.py``).

On CUDA, ORT keeps the graphs of a session by thread. It sets CUDA's current device in the thread that creates or
releases a session, but not for the run of a session that captures (``cuda_execution_provider.cc``, ORT 1.31.1).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import RLock, local
from typing import Any
from weakref import proxy

import numpy as np
from onnx import parser

from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend.allowlist.run_config import GRAPH_ID
from onnxruntime.backend.capture import comparison, eligibility
from onnxruntime.backend.capture.worker import Worker
from onnxruntime.backend.errors import warn
from onnxruntime.backend.locks import GPU
from onnxruntime.backend.provider_names import CUDA, TENSORRT, WEBGPU
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.plan import FastRun
from onnxruntime.backend.runs.settings import RunSettings
from onnxruntime.backend.session.state import generation_of
from onnxruntime.backend.waiting import call_holding

Outputs = list[np.ndarray]
_Feeds = Mapping[str, Any]
_ARRAY = np.ndarray  # an attribute takes a hundredth of the time of a replay
ORDINARY = "-1"  # the graph id of a run without capture
_FIRST_ID = 1024  # of the graphs in ORT. The allowlist permits callers' ids up to 1023
# ORT keeps every graph as long as the session. 32 graphs of 50 nodes on tensors of 256 KiB take 26 MiB.
MOST_GRAPHS = 32
# For each thread, ORT keeps cuBLAS and cuDNN handles as long as the session. One more thread runs for all others.
MOST_THREADS = 8
WITHOUT = "prepare the model without graph capture"
_WAY_OUT = f"Run with run_config={{'{GRAPH_ID}': {ORDINARY}}}, or {WITHOUT}"
_ONE_GRAPH = (
    f"{TENSORRT} keeps one graph for a session, of one set of input shapes, and {GRAPH_ID} has no effect. Prepare the "
    "model once more for other runs"
)
_BROKEN = (
    "no session of this process can use CUDA any more: a graph capture failed and ORT did not end it. Restart the "
    f"process, and {WITHOUT}"
)


def _with_id(call: RunSettings, graph_id: str) -> RunSettings:
    return RunSettings(call.attributes, {**call.entries, GRAPH_ID: graph_id}, call.trusted)


class Graph:
    """A captured graph with its buffers. The lock releases it, so it may not refer to the session."""

    def __init__(
        self,
        session: InferenceSession,
        turn: Any,
        graph_id: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
        buffer: Callable[[str, np.ndarray], OrtValue],
    ) -> None:
        """Let ``buffer`` make buffers for such inputs and outputs. The first replay captures the graph."""
        self._id = graph_id
        self._turn = turn
        self._binding = session.io_binding()
        self._inner_binding = self._binding._iobinding
        # Of the inner session that captures the graph, which set_providers replaces.
        self._run = session._sess.run_with_iobinding
        self._copy_outputs = self._inner_binding.copy_outputs_to_cpu
        self._last_options: tuple[RunSettings, RunOptions] | None = None
        self.inputs: list[OrtValue] = []
        # For each input, its index, the type, shape and strides of its array, and the function that copies the array.
        self._takes: list[tuple] = []
        for name, array in inputs.items():
            value = buffer(name, array)
            self._binding.bind_ortvalue_input(name, value)
            self.inputs.append(value)
            like = np.empty_like(array, order="C")
            upload = value._ortvalue.update_inplace
            self._takes.append((len(self._takes), like.dtype, like.shape, like.strides, upload))
        self._count = len(inputs)
        for name, array in outputs.items():
            self._binding.bind_ortvalue_output(name, buffer(name, array))

    def options(self, call: RunSettings) -> RunOptions:
        """Return the options of a run of this graph. They are those of the last run if the settings are."""
        last = self._last_options
        if last is not None and last[0] is call:
            return last[1]
        options = _with_id(call, self._id).options
        self._last_options = call, options
        return options

    def replay(self, waiting: RunOptions | None, values: Iterable, options: RunOptions) -> Outputs:
        """Return the outputs of a replay of values of the right types and shapes."""
        return call_holding(self._turn, waiting, self._replay, values, options)

    def _replay(self, values: Iterable, options: RunOptions) -> Outputs:
        for buffer, value in zip(self.inputs, values, strict=True):
            buffer.update_inplace(value)
        self._run(self._inner_binding, options)
        return self._copy_outputs()  # those in CPU memory, too

    def replay_arrays(self, inputs: Sequence[object], options: RunOptions) -> Outputs | None:
        """Return the outputs of a replay, or ``None`` if the inputs are not arrays of the right types and shapes.

        It does as :meth:`replay`, without calls of Python functions, which take a part of the time of a replay.
        """
        turn = self._turn
        if len(inputs) != self._count or turn._is_owned():
            return None
        try:
            if not turn.acquire(False):
                return None
            # Another thread that changes the shape of an array after this check gets wrong outputs of this run.
            for index, dtype, shape, strides, upload in self._takes:
                value = inputs[index]
                # numpy has one dtype object for each built-in type and byte order, so `is` compares both.
                if (
                    type(value) is not _ARRAY
                    or value.dtype is not dtype
                    or value.shape != shape
                    or value.strides != strides
                ):
                    return None
                upload(value)
            self._run(self._inner_binding, options)
            return self._copy_outputs()
        finally:
            try:  # noqa: SIM105 - as in waiting.py
                turn.release()
            except RuntimeError:
                pass


class Capture:
    """The captured graphs of one session. Any number of threads and prepared models may call :meth:`run`."""

    def __init__(self, session: InferenceSession, ep: str, problem: str = "") -> None:
        """Use a session, the EP that captures, and the reason why the session cannot capture, if any."""
        self._session: InferenceSession = proxy(session)  # the session refers to this object
        self.generation = generation_of(session)
        self._problem = problem
        inputs, outputs = session.get_inputs(), session.get_outputs()
        memories = session.get_input_memory_infos() + session.get_output_memory_infos()
        self._on_cpu = eligibility.on_cpu(inputs + outputs, memories)  # no node reads the inputs among them
        self._types = {value.name: value.type for value in inputs}
        self._output_names = [value.name for value in outputs]
        # The inner session and every graph ever begun, which ORT may have captured.
        self._owned = GPU.own(session)
        self._device_id = int(session.get_provider_options()[ep].get("device_id", 0))
        self._on_webgpu = ep == WEBGPU
        self._run_graph = GPU.run_alone if self._on_webgpu else GPU.run
        # TensorRT captures one graph, in the second run of the session, whatever the id.
        self._once = ep == TENSORRT
        self._of_thread = local()  # its graphs by key, None if the worker runs for the thread, and its last graph
        # The graphs of the worker, or those of all threads on WebGPU. The worker itself keeps none: the lock alone
        # releases graphs, because a release breaks the capture of another thread.
        self._shared: dict[tuple, Graph] = {}
        self._threads = count(MOST_THREADS if self._once else 0)
        self._worker = Worker(partial(_set_device, self._device_id))
        self._turn: Any = RLock()  # the graphs share memory, so one replay follows another

    def run(self, feeds: _Feeds, call: RunSettings) -> Outputs:
        """Return the outputs. The options can end the wait for other runs, and a run without capture."""
        graphs = self._graphs_of_thread()
        if graphs is not None:
            return self._run(graphs, feeds, call)
        return self._worker.call(call.options, self._run, self._shared, feeds, call)

    def _graphs_of_thread(self) -> dict[tuple, Graph] | None:
        """Return the graphs of the calling thread, ``None`` if the worker runs for it."""
        if self._on_webgpu:
            return self._shared
        if self._device_id or GPU.other_devices:
            return None
        own = vars(self._of_thread)
        if "graphs" not in own:
            own["graphs"] = {} if next(self._threads) < MOST_THREADS else None
        return own["graphs"]

    def _run(self, graphs: dict[tuple, Graph], feeds: _Feeds, call: RunSettings) -> Outputs:
        graph_id = call.entries.get(GRAPH_ID)
        if graph_id == ORDINARY and not self._once:
            # Alone: ORT may give the run memory into which graphs replay.
            return GPU.run_alone(call.options, self._ordinary, feeds, call)
        if self._problem:
            raise RuntimeError(f"{self._problem}. {_WAY_OUT}")
        feeds = self._checked(feeds)
        key = (graph_id, *map(tensors.shape, feeds.values()))
        graph = graphs.get(key)
        if graph is not None:
            waiting, options = call.options, graph.options(call)
            self._of_thread.last = waiting, graph.replay_arrays, options
            return self._run_graph(waiting, graph.replay, waiting, feeds.values(), options)
        graph, outputs, wanted = GPU.run_alone(call.options, self._capture, feeds, call)
        if graph is not None:
            self._compare(outputs, wanted)
            graphs[key] = graph
        return outputs

    def _compare(self, outputs: Outputs, wanted: Outputs) -> None:
        for name, got, want in zip(self._output_names, outputs, wanted, strict=True):
            if not comparison.agree(got, want):
                self._problem = (
                    f"graph capture returns wrong values for output {name!a}: a replay differs from a run without "
                    "capture of the same inputs"
                )
                raise RuntimeError(f"{self._problem}. {_WAY_OUT}")

    def fast_run(self, prepared: RunSettings) -> FastRun:
        """Return a function that replays the graph of the last run of a thread, or returns ``None`` for :meth:`run`."""
        # Local names take less time.
        names = list(self._types)
        prepared_options = prepared.options
        of_thread = self._of_thread
        run_graph = self._run_graph

        def fast_run(inputs: Any, options: RunOptions) -> Outputs | None:
            kind = type(inputs)
            if kind is dict:
                if len(inputs) != len(names):
                    return None
                inputs = [inputs.get(name) for name in names]
            elif kind is not list and kind is not tuple:
                inputs = (inputs,)
            last = getattr(of_thread, "last", None)
            if last is None or last[0] is not prepared_options or options is not prepared_options or GPU.other_devices:
                return None
            return run_graph(None, last[1], inputs, last[2])

        return fast_run

    def _checked(self, feeds: _Feeds) -> _Feeds:
        """Return the feeds in the model's order, of its types."""
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

    def _ordinary(self, feeds: _Feeds, call: RunSettings) -> Outputs:
        if call.entries.get(GRAPH_ID) != ORDINARY:
            call = _with_id(call, ORDINARY)
        return self._session.run(self._output_names, feeds, call.options)

    def _capture(self, feeds: _Feeds, call: RunSettings) -> tuple[Graph | None, Outputs, Outputs]:
        """Capture a graph, if the session may have one more. Return it, its outputs, and those of a run without it."""
        number = len(self._owned) - 1
        if self._once and (number or GRAPH_ID in call.entries):
            raise RuntimeError(_ONE_GRAPH)
        # Before the capture: ORT checks the inputs, and the outputs have the shapes of the graph's outputs.
        wanted = self._ordinary(feeds, call)
        if number >= MOST_GRAPHS:
            if number == MOST_GRAPHS:
                self._owned.append(None)  # so that one run warns
                warn(
                    f"This session has captured {MOST_GRAPHS} graphs, one for each thread, set of input shapes and id, "
                    "and ORT never frees a graph. Other runs of this session do not capture"
                )
            return None, wanted, wanted
        other = {name: comparison.other_data(value, not self._on_webgpu) for name, value in feeds.items()}
        likes = dict(zip(self._output_names, wanted, strict=True))
        graph = Graph(self._session, self._turn, str(_FIRST_ID + number), other, likes, self._buffer)
        self._owned.append(graph)
        options = graph.options(call)
        try:
            graph.replay(None, other.values(), options)  # ORT captures
            return graph, graph.replay(None, feeds.values(), options), wanted
        except Exception as error:
            self._check_usable(error)
            raise

    def _buffer(self, name: str, array: np.ndarray) -> OrtValue:
        """Return a new buffer for an input or output of the shape and type of an array."""
        shape, kind = list(array.shape), array.dtype.type
        if self._on_webgpu:  # ORT accepts only device memory
            return self._session.create_ortvalue_from_shape_and_type(shape, kind, "webgpu")
        device = "cpu" if name in self._on_cpu else "cuda"
        return OrtValue.ortvalue_from_shape_and_type(shape, kind, device, self._device_id)

    def _check_usable(self, error: Exception) -> None:
        """Check whether a failed capture goes on. If so, all CUDA calls of this process fail: raise, now and later."""
        if self._on_webgpu:
            return
        try:
            OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32), "cuda", self._device_id)
        except Exception:  # ORT's own, of several classes
            GPU.failure = _BROKEN
            raise RuntimeError(_BROKEN) from error


def _set_device(device_id: int) -> None:
    """Set CUDA's current device of the calling thread: ORT sets it permanently in the thread that creates a session."""
    if device_id:
        with suppress(Exception):  # then the runs fail, too
            GPU.run(None, _create_session, device_id)


def _create_session(device_id: int) -> None:
    """Create a session on a CUDA device, and release it."""
    copy = '<ir_version: 8, opset_import: ["": 17]> copy (float[1] X) => (float[1] Y) { Y = Identity (X) }'
    model = parser.parse_model(copy).SerializeToString()
    InferenceSession(model, None, [(CUDA, {"device_id": device_id})])
