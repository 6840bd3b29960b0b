# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture: fixed device buffers, one IO binding for each graph, capture and replay, and which sessions may.

A captured graph replays fixed addresses, so a session that captures cannot be run the ordinary way: on CUDA that
returns ``[]`` from the second call on and replays freed host memory. Here inputs are copied into buffers that the graph
was captured with, and outputs are copied out of others. That a replay computes what the model does follows from this:

- every input is in device memory, so no value that a caller gives is read by a node on the CPU;
- ORT captures no session with copies between host and device among its nodes (``inference_session.cc``:
  ``HasMemcpyNodes``), so what nodes on the CPU compute follows from shapes, which are the same for one graph; those of
  its outputs are kept with the graph;
- nobody else does anything in CUDA while a graph is captured (:mod:`onnxruntime.backend.session_lock`);
- what a graph computes on its way lies in memory that other runs of the session are given too. Its replays go over one
  stream, one after the other, whichever thread they are of. Its ordinary runs, whose inputs and outputs lie in that
  memory, are made alone, and no value stays there after one.

Before its first answer each graph is compared with an ordinary run all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

import onnxruntime
from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend import captured_graph, replay_check, request, session_lock, tensor_values
from onnxruntime.backend.messages import warn
from onnxruntime.backend.provider_names import CUDA, TENSORRT, WEBGPU

# The run config entry that says which graph a run captures or replays; ORT takes 0 where it is absent.
GRAPH_ID = "gpu_graph_id"
ORDINARY = "-1"
# Callers' own ids end at 1023.
FIRST_AUTOMATIC_ID = 1024
# ORT never evicts a graph, and each holds device memory: 0.8 MiB for 50 nodes on tensors of 256 KiB.
MOST_GRAPHS = 32
# Of CUDA, for each of which ORT keeps cuBLAS and cuDNN handles as long as the session lives, whatever they run.
MOST_THREADS = 8

# EPs that capture by a provider option.
_SWITCHES = {
    CUDA: "enable_cuda_graph",
    TENSORRT: "trt_cuda_graph_enable",
    "ROCMExecutionProvider": "enable_hip_graph",
}
_WAY_OUT = f"run with run_config={{'{GRAPH_ID}': {ORDINARY}}}, or prepare the model without graph capture"
_OTHER_SESSION = "it keeps one graph for a session. Prepare the model once more for other runs"
_OVERWRITTEN = (
    "on CUDA, a replay overwrites outputs that ORT allocated for runs with a binding of your own. Bind allocated "
    "values and a graph id that rep.run does not use, or prepare the model without graph capture for such runs"
)

_NO_GRAPHS: Mapping = MappingProxyType({})
_RUN_WITH_IOBINDING = InferenceSession.run_with_iobinding

_creating = threading.Lock()


def of(session: InferenceSession) -> Capture | None:
    """The capture state of a session, shared by all who run it; ``None`` when the session does not capture."""
    switched_on = _switched_on(session)
    if not switched_on:
        return None
    # Kept with the session and not in a table of ours: what it holds must go when and as the session goes.
    with _creating:
        state = getattr(session, "_graph_capture", None)
        if state is None:
            state = session._graph_capture = Capture(session, switched_on)
    return state


def require(session: InferenceSession) -> None:
    """Check that runs of a session that captures can be made right here.

    :raises RuntimeError: when they cannot. For a session that its caller opened, that is left to :meth:`Capture.run`.
    """
    state = of(session)
    if state is not None and state.problem:
        raise RuntimeError(f"{state.problem}. Prepare the model without graph capture")


def _switched_on(session: InferenceSession) -> list[str]:
    """The EPs of a session that were told to capture."""
    providers, options = session.get_providers(), session.get_provider_options()
    found = [ep for ep, option in _SWITCHES.items() if ep in providers and _on(options[ep].get(option))]
    if WEBGPU in providers:
        # ORT's own Python layer asks the inner session too; a provider option would not show what took effect.
        captures = getattr(session._sess, "is_webgpu_graph_capture_enabled", None)
        if captures() if captures else _on(_entry(session, f"ep.{WEBGPU.lower()}.enableGraphCapture")):
            found.append(WEBGPU)
    return found


def _on(text: str | None) -> bool:
    return text in ("1", "true", "True")


def _entry(session: InferenceSession, key: str) -> str | None:
    try:
        return session.get_session_options().get_session_config_entry(key)
    except RuntimeError:  # no such entry
        return None


def _problem(session: InferenceSession, switched_on: list[str]) -> str | None:
    """Why runs of a session that captures cannot be made right here; ``None`` when they can."""
    ep = switched_on[0]
    if len(switched_on) > 1:
        return f"{' and '.join(switched_on)} both capture, and ORT replays the graph of one: leave it to one of them"
    if ep not in (CUDA, TENSORRT, WEBGPU):
        return f"{ep} with {_SWITCHES[ep]} captures graphs, which this backend was never tested with there"
    if ep == WEBGPU and not hasattr(session._sess, "is_webgpu_graph_capture_enabled"):
        return (
            f"graph capture on WebGPU needs ORT 1.30 or newer: ORT {onnxruntime.__version__} cannot allocate device "
            "memory for inputs and outputs, and returns zeros from captured runs without it"
        )
    if _on(_entry(session, "session.use_env_allocators")):
        return "graph capture needs device memory that no other session uses: leave out session.use_env_allocators"
    for what, values in (("input", session.get_inputs()), ("output", session.get_outputs())):
        for value in values:
            if _dtype(value.type) is None:
                return f"graph capture needs tensors of numbers that numpy has; {what} {value.name!a} is {value.type}"
    unread = captured_graph.unread(session)
    if ep == WEBGPU and unread is None:
        return "graph capture on WebGPU leaves out some operators, and only models that prepare opens are looked at"
    for value, memory in zip(session.get_inputs(), session.get_input_memory_infos(), strict=True):
        if memory.name == "Cpu" and value.name not in (unread or ()):
            return (
                f"graph capture needs every input in device memory; input {value.name!a} is read on the CPU (as a "
                "shape or a slice is), where a replay does not look again. It can be a constant of the model"
            )
    return None


def _dtype(value_type: str) -> np.dtype | None:
    """The dtype of tensors that ORT copies between numpy and a device; ``None`` for all other types."""
    element = tensor_values.element_type(value_type)
    dtype = None if element is None else tensor_values.dtype_of(element)
    return dtype if dtype is not None and dtype.kind in "biuf" and tensor_values.numpy_has(dtype) else None


class _Unlocked:
    """In place of a lock that the calling thread, or nobody, needs to hold."""

    for_a_run = alone = staticmethod(nullcontext)
    other_devices = False

    @staticmethod
    def held_here() -> bool:
        return False


class _Call(NamedTuple):
    """One run: the session, the input values by name, and what the run options are to say."""

    session: InferenceSession
    feeds: Mapping[str, np.ndarray | OrtValue]
    attributes: Mapping[str, object]
    entries: Mapping[str, str]


class _Graph:
    """One captured graph: its buffers, and the binding that holds them."""

    def __init__(self, graph_id: str, session: InferenceSession) -> None:
        self.id = graph_id
        self.binding = session.io_binding()
        # The inner session that captured it, which set_providers replaces, and its binding.
        self.inner, self.inner_binding = session._sess, self.binding._iobinding
        self.inputs: list[tuple[str, OrtValue]] = []
        # The outputs that are computed on the CPU: position and buffer.
        self.fixed: list[tuple[int, OrtValue]] = []
        # The run options of the last run, and the entries they were made from.
        self.options: RunOptions | None = None
        self.entries: Mapping[str, str] | None = None

    def bind_input(self, name: str, buffer: OrtValue) -> None:
        self.inputs.append((name, buffer))
        self.binding.bind_ortvalue_input(name, buffer)

    def outputs(self) -> list[np.ndarray]:
        """The outputs of the last run, in arrays of their own."""
        outputs = self.inner_binding.copy_outputs_to_cpu()
        for i, buffer in self.fixed:
            outputs[i] = buffer.numpy().copy()  # the array there is the buffer itself
        return outputs


class _Replays(threading.local):
    """The graphs that a thread replays by the short way, by input shapes, and the last of them."""

    def __init__(self) -> None:
        self.replays: dict[tuple, Callable[[Sequence[object]], list | None]] = {}
        self.last: Callable[[Sequence[object]], list | None] = _never


def _never(inputs: Sequence[object]) -> None:
    """Before there is a graph."""


class Capture:
    """
    The captured graphs of one session, with their buffers, ids and lock.

    Any number of threads, and of prepared models on the same session, may call :meth:`run`: runs go one after the
    other. ORT keeps CUDA graphs by thread. So each of the first ``MOST_THREADS`` threads has graphs of its own there,
    and one thread more makes the runs of all others.
    """

    def __init__(self, session: InferenceSession, switched_on: list[str]) -> None:
        """
        :param session: the session that this will belong to.
        :param switched_on: those of its EPs that were told to capture.
        """
        ep = switched_on[0]
        self._lock = session_lock.of(session) or _Unlocked
        self._on_webgpu = ep == WEBGPU
        self._unread = captured_graph.unread(session) or frozenset()
        # TensorRT captures one graph, in the second run of the session, whatever the id.
        self._once = ep == TENSORRT
        self._device_id = int(session.get_provider_options()[ep].get("device_id", 0))
        self._slots = [(value.name, _dtype(value.type), value.type) for value in session.get_inputs()]
        self._output_names = [value.name for value in session.get_outputs()]
        memories = [memory.name for memory in session.get_output_memory_infos()]
        # ORT takes nothing but device memory for outputs on WebGPU.
        self._on_cpu = {i for i, name in enumerate(memories) if name == "Cpu" and not self._on_webgpu}
        # Where all is on the CPU, there is nothing to capture.
        self._nothing = {"Cpu"}.issuperset([*memories, *(info.name for info in session.get_input_memory_infos())])
        self.problem = None if self._nothing else _problem(session, switched_on)
        # Each thread's graphs by the caller's id, if any, and the input shapes; those of the worker are _shared.
        self._thread = threading.local()
        self._threads = 0
        self._shared: dict[tuple, _Graph] = {}
        self._worker = None
        # Every graph ever begun: ORT may have captured it, and keeps it as long as the session lives.
        self._begun: list[_Graph] = []
        # Why a model with these inputs, or with this id, is not captured.
        self._refused: dict[tuple, str] = {}
        # The input shapes of each id of the caller's.
        self._shapes: dict[str, tuple] = {}
        # Ids that prepared models run with, and ids that callers bind by themselves.
        self._claimed: set[str] = set()
        self._lent: set[str] = set()
        self._warned = False
        self._state = threading.Lock()
        # Graphs of a session share the arena that they were captured in: one's values may lie where another's do.
        self._running = threading.RLock()

    def run(
        self,
        session: InferenceSession,
        feeds: Mapping[str, np.ndarray | OrtValue],
        attributes: Mapping[str, object],
        entries: Mapping[str, str],
    ) -> list[np.ndarray]:
        """Compute the outputs, by capture and replay unless the run config says ``gpu_graph_id=-1``.

        :param session: the session that this belongs to.
        :param feeds: input name to array or :class:`onnxruntime.OrtValue`.
        :param attributes: attributes of :class:`onnxruntime.RunOptions`.
        :param entries: the run config entries of this run.
        :return: the outputs, in arrays of their own.
        """
        graphs = self._graphs()
        if graphs is None:
            return self._run_on_worker(session, feeds, attributes, entries)
        return self._run(self._lock, graphs, session, feeds, attributes, entries)

    def short_way(
        self, session: InferenceSession, entries: Mapping[str, str], options: RunOptions
    ) -> Callable[[object, RunOptions], list[np.ndarray] | None]:
        """The way of most runs: plain arrays, of shapes that the calling thread has captured a graph for.

        :param session: the session that this belongs to, exactly an :class:`InferenceSession`.
        :param entries: the run config entries of these runs, always the same object.
        :param options: run options that stand for them.
        :return: a function of the inputs and the run options; it returns the outputs, or ``None`` for all that is to
            go through :meth:`run`. It leaves out what ``InferenceSession`` looks at first, while its method is ORT's.
        """
        own, mine = vars(session), _Replays()
        graph_id = entries.get(GRAPH_ID)

        def run(inputs: object, run_options: RunOptions) -> list[np.ndarray] | None:
            if (
                run_options is not options
                or InferenceSession.run_with_iobinding is not _RUN_WITH_IOBINDING
                or "run_with_iobinding" in own
            ):
                return None
            kind = type(inputs)
            if kind is not list and kind is not tuple:
                inputs = (inputs,)
            outputs = mine.last(inputs)
            return other(inputs) if outputs is None else outputs

        def other(inputs: Sequence[object]) -> list[np.ndarray] | None:
            """The same with another graph than the thread's last."""
            shapes = tuple([getattr(value, "shape", None) for value in inputs])
            if shapes not in mine.replays:
                graph = (self._graphs() or _NO_GRAPHS).get((graph_id, *shapes))
                if graph is None or graph.entries is not entries:
                    return None
                mine.replays[shapes] = self._replays(graph, own)
            mine.last = mine.replays[shapes]
            return mine.last(inputs)

        return run

    def _replays(self, graph: _Graph, own: Mapping[str, object]) -> Callable[[Sequence[object]], list | None]:
        """A function that replays a graph for plain arrays of its shapes, and returns ``None`` for all others.

        Its names are local, as each look-up in an object takes a hundredth of the time that a replay does.

        :param own: the attributes of the session.
        """
        lock, running, array, count = self._lock, self._running, np.ndarray, len(self._slots)
        beside = None if self._on_webgpu else lock.for_a_run()  # the calling thread's, for every run
        takes = [
            (dtype, buffer.shape(), buffer._ortvalue.update_inplace)
            for (_, dtype, _), (_, buffer) in zip(self._slots, graph.inputs, strict=True)
        ]
        takes = [(dtype, tuple(shape), np.empty(shape, dtype).strides, upload) for dtype, shape, upload in takes]
        inner, replay, binding, options = (
            graph.inner,
            graph.inner.run_with_iobinding,
            graph.inner_binding,
            graph.options,
        )
        copy = graph.outputs if graph.fixed else binding.copy_outputs_to_cpu

        def run(inputs: Sequence[object]) -> list[np.ndarray] | None:
            if len(inputs) != count or own["_sess"] is not inner or lock.other_devices:
                return None
            with beside or lock.alone(), running:
                for value, (dtype, shape, strides, upload) in zip(inputs, takes):  # noqa: B905 # strict= costs time
                    # numpy keeps one dtype object for each of its types, so `is` tells them apart, byte order included.
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

    def claim(self, entries: Mapping[str, str]) -> None:
        """Reserve the graph id in the run config that a model was prepared with, if there is one.

        :raises RuntimeError: when :meth:`lend` gave it away.
        """
        if GRAPH_ID in entries:
            with self._state:
                self._claim(entries[GRAPH_ID])

    def _claim(self, graph_id: str) -> None:
        if graph_id in self._lent:
            raise RuntimeError(f"{GRAPH_ID}={graph_id} was given away by run_options() of this session: choose another")
        if graph_id != ORDINARY:
            self._claimed.add(graph_id)

    def lend(self, entries: Mapping[str, str]) -> None:
        """Give the graph id in a run config, 0 where there is none, to a caller who binds and runs the session himself.

        :raises RuntimeError: when runs through here use it, or would overwrite what such runs return.
        """
        graph_id = entries.get(GRAPH_ID, "0")
        with self._state:
            if graph_id in self._claimed or (self._once and self._begun):
                raise RuntimeError(
                    f"{GRAPH_ID}={graph_id} belongs to run() on this session: choose another for runs with a binding "
                    f"of your own, as in run_options({{'{GRAPH_ID}': 7}}), or {ORDINARY} for runs without capture"
                )
            if graph_id == ORDINARY and not self._on_webgpu and self._begun:
                raise RuntimeError(f"run_options({{'{GRAPH_ID}': {ORDINARY}}}) comes too late: {_OVERWRITTEN}")
            self._lent.add(graph_id)

    def _graphs(self) -> dict[tuple, _Graph] | None:
        """The graphs that the calling thread replays itself, ``None`` for a thread that has none of its own."""
        if self._on_webgpu:
            return self._shared
        if self._lock.other_devices:
            # ORT does not set CUDA's current device for the run of a session that captures (seen in 1.31.1).
            return None
        try:
            return self._thread.graphs
        except AttributeError:
            with self._state:
                if self._threads == MOST_THREADS or self._once:
                    graphs = None
                else:
                    graphs, self._threads = {}, self._threads + 1
            self._thread.graphs = graphs
            return graphs

    def _run_on_worker(self, *arguments) -> list[np.ndarray]:
        lock = _Unlocked if self._lock.held_here() else self._lock
        with self._state:
            if self._worker is None:
                from concurrent.futures import ThreadPoolExecutor  # long to import, and seldom needed

                # ORT sets CUDA's current device at a session's first run of a thread only.
                start = self._lock.bury_elsewhere
                self._worker = ThreadPoolExecutor(1, "onnxruntime-graph-capture", initializer=start)
                if self._device_id:
                    self._worker.submit(_make_current, lock, self._device_id)
        future = self._worker.submit(self._run, lock, self._shared, *arguments)
        try:
            return future.result()
        finally:
            future.exception()  # after Ctrl-C too, a run that reads the caller's arrays comes to its end
            self._lock.bury()

    def _run(self, lock, graphs, session, feeds, attributes, entries) -> list[np.ndarray]:
        graph_id = entries.get(GRAPH_ID)
        if graph_id == ORDINARY or self._nothing or self.problem:
            self._check_ordinary(graph_id)
            with lock.alone():  # it may be given memory that the graphs replay into
                return self._ordinary(_Call(session, feeds, attributes, entries))
        shapes = []
        for name, dtype, _ in self._slots:
            value = feeds.get(name)
            # numpy keeps one dtype object for each of its types, so `is` tells them apart, byte order included.
            if type(value) is not np.ndarray or value.dtype is not dtype or not value.flags.c_contiguous:
                feeds = self._checked(feeds)
                shapes = map(_shape, feeds.values())
                break
            shapes.append(value.shape)
        key = (graph_id, *shapes)
        if key not in graphs or len(feeds) != len(self._slots):
            call = _Call(session, self._checked(feeds), attributes, entries)
            with lock.alone():
                if key not in graphs:  # on WebGPU, all threads share them
                    return self._capture(graphs, key, call)
        graph = graphs[key]
        with lock.for_a_run(), self._running:
            return self._replay(graph, session, feeds, attributes, entries)

    def _check_ordinary(self, graph_id: str | None) -> None:
        """Check that a run that is not to be captured can be right."""
        if self._once and not self._nothing:
            raise RuntimeError(self.problem or f"{GRAPH_ID}={ORDINARY} has no effect on {TENSORRT}: {_OTHER_SESSION}")
        if self.problem and graph_id != ORDINARY:
            raise RuntimeError(f"{self.problem}: {_WAY_OUT}, or bind and run rep.session with rep.run_options()")

    def _checked(self, feeds: Mapping[str, np.ndarray | OrtValue]) -> dict[str, np.ndarray | OrtValue]:
        """The feeds in the model's order, each looked at: an upload compares sizes and copies bytes as they lie."""
        if len(feeds) > len(self._slots):
            raise RuntimeError("a captured run takes the model's inputs only, whose initializers it has captured")
        checked = {}
        for name, dtype, kind in self._slots:
            if name not in feeds:
                raise RuntimeError(f"input {name!a} is missing")
            value = feeds[name]
            if isinstance(value, OrtValue) and value.device_name() == "cpu":
                value = value.numpy()
            if isinstance(value, OrtValue):
                if value.data_type() != kind:
                    raise RuntimeError(f"input {name!a} takes {kind}, got {value.data_type()}")
            elif value.dtype != dtype:  # byte order included
                raise RuntimeError(f"input {name!a} takes {kind}, got {value.dtype}")
            elif not value.flags.c_contiguous:
                value = np.require(value, requirements="C")
            checked[name] = value
        return checked

    def _replay(self, graph, session, feeds, attributes, entries) -> list[np.ndarray]:
        """Run a graph; the first time, ORT captures it."""
        for name, buffer in graph.inputs:
            buffer.update_inplace(feeds[name])
        if attributes or graph.entries is not entries:
            graph.options = request.run_options(attributes, {**entries, GRAPH_ID: graph.id})
            graph.entries = None if attributes else entries
        session.run_with_iobinding(graph.binding, graph.options)
        return graph.outputs()

    def _ordinary(self, call: _Call) -> list[np.ndarray]:
        options = request.run_options(call.attributes, {**call.entries, GRAPH_ID: ORDINARY})
        return call.session.run(self._output_names, call.feeds, options)

    def _capture(self, graphs: dict[tuple, _Graph], key: tuple, call: _Call) -> list[np.ndarray]:
        """Make and prove the graph of some input shapes. Whatever fails or interrupts this, no replay comes of it."""
        self._check_new(key)
        # Before anything is captured: ORT looks at the inputs, and this tells the shapes of the outputs.
        wanted = self._ordinary(call)
        graph = self._begin(key, call.session)
        if graph is None:
            return wanted
        for (name, dtype, _), shape in zip(self._slots, key[1:], strict=True):
            graph.bind_input(name, self._buffer(call.session, shape, dtype, on_cpu=name in self._unread))
        for i, (name, want) in enumerate(zip(self._output_names, wanted, strict=True)):
            buffer = self._buffer(call.session, want.shape, want.dtype, on_cpu=i in self._on_cpu)
            graph.binding.bind_ortvalue_output(name, buffer)
            if i in self._on_cpu:
                graph.fixed.append((i, buffer))
        other = replay_check.other_data({name: self._on_host(value) for name, value in call.feeds.items()})
        self._replay(graph, call.session, other, call.attributes, call.entries)
        outputs = self._replay(graph, *call)
        wrong = replay_check.differing(outputs, wanted, None if self._once else lambda: self._ordinary(call))
        if wrong:
            names = ", ".join(ascii(self._output_names[i]) for i in wrong)
            self._refused[key] = (
                f"graph capture returns wrong values for output {names}: a replay differs from an ordinary run of the "
                f"same inputs. The model is random, or the EP does not capture all that it does; {_WAY_OUT}"
            )
            raise RuntimeError(self._refused[key])
        self._refused.pop(key, None)
        graphs[key] = graph
        return outputs

    def _check_new(self, key: tuple) -> None:
        """Check that a graph may be captured."""
        graph_id, *shapes = key
        if self._once and graph_id is not None:
            raise RuntimeError(f"{GRAPH_ID}={graph_id} has no effect on {TENSORRT}: {_OTHER_SESSION}")
        if self._once and self._begun:
            raise RuntimeError(f"{TENSORRT} has captured other input shapes, or failed to: {_OTHER_SESSION}")
        captured = self._shapes.get(graph_id, shapes)
        if captured != shapes:
            raise RuntimeError(
                f"{GRAPH_ID}={graph_id} was captured with inputs of shape {_listed(captured)}, and this run has "
                f"{_listed(shapes)}: give it another id, or none, which finds one for each set of shapes"
            )
        if key in self._refused:
            raise RuntimeError(self._refused[key])

    def _begin(self, key: tuple, session: InferenceSession) -> _Graph | None:
        """A new graph, or ``None`` where there are enough."""
        graph_id, *shapes = key
        with self._state:
            if ORDINARY in self._lent and not self._on_webgpu:
                raise RuntimeError(f"run_options({{'{GRAPH_ID}': {ORDINARY}}}) was asked for: {_OVERWRITTEN}")
            if len(self._begun) >= MOST_GRAPHS:
                if not self._warned:
                    self._warned = True
                    warn(
                        f"this session has captured {MOST_GRAPHS} graphs, one for each thread, set of input shapes and "
                        "id, and ORT never frees one: all others run without capture from here on"
                    )
                return None
            if graph_id is None:
                graph_id = str(0 if self._once else FIRST_AUTOMATIC_ID + len(self._begun))
            else:
                # ORT may have captured something even if this fails. An automatic id is never used again.
                self._refused[key] = f"the first run with {GRAPH_ID}={graph_id} failed: choose another id, or none"
                self._shapes[graph_id] = shapes
            self._claim(graph_id)
            graph = _Graph(graph_id, session)
            # Its buffers stay too, whatever happens, for ORT to replay into.
            self._begun.append(graph)
        return graph

    def _buffer(self, session: InferenceSession, shape: tuple, dtype: np.dtype, on_cpu: bool = False) -> OrtValue:
        if self._on_webgpu:
            return session.create_ortvalue_from_shape_and_type(list(shape), dtype.type, "webgpu")
        device = ("cpu", 0) if on_cpu else ("cuda", self._device_id)
        return OrtValue.ortvalue_from_shape_and_type(list(shape), dtype.type, *device)

    def _on_host(self, value: np.ndarray | OrtValue) -> np.ndarray:
        if isinstance(value, np.ndarray) or not self._on_webgpu:
            return value if isinstance(value, np.ndarray) else value.numpy()
        host = OrtValue.ortvalue_from_numpy(np.empty(value.shape(), _dtype(value.data_type())))
        onnxruntime.copy_tensors([value], [host])
        return host.numpy()


def _make_current(lock: session_lock.SessionLock, device_id: int) -> None:
    """Have CUDA use a device for what the calling thread does from now on.

    ORT's EP does that for its thread when it is made (``cuda_execution_provider.cc``), but not when a session that
    captures is run.
    """
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "", [value], [value])
    graph.output[0].name = "y"
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    with lock.for_a_run():
        InferenceSession(made.SerializeToString(), providers=[(CUDA, {"device_id": device_id})])


def _shape(value: np.ndarray | OrtValue) -> tuple:
    return value.shape if isinstance(value, np.ndarray) else tuple(value.shape())


def _listed(shapes: list) -> str:
    return ", ".join(map(str, shapes))
