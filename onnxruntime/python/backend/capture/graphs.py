# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture: fixed device buffers, one IO binding for each graph, capture and replay.

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
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

import onnxruntime
from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend.capture import comparison, eligibility, locks
from onnxruntime.backend.errors import warn
from onnxruntime.backend.provider_names import CUDA, TENSORRT, WEBGPU
from onnxruntime.backend.runs import run_options

# The run config entry that says which graph a run captures or replays; ORT takes 0 where it is absent.
GRAPH_ID = "gpu_graph_id"
ORDINARY = "-1"
# Callers' own ids end at 1023.
FIRST_AUTOMATIC_ID = 1024
# ORT never evicts a graph, and each holds device memory: 0.8 MiB for 50 nodes on tensors of 256 KiB.
MOST_GRAPHS = 32
# Of CUDA, for each of which ORT keeps cuBLAS and cuDNN handles as long as the session lives, whatever they run.
MOST_THREADS = 8

_WAY_OUT = f"run with run_config={{'{GRAPH_ID}': {ORDINARY}}}, or prepare the model without graph capture"
_OTHER_SESSION = "it keeps one graph for a session. Prepare the model once more for other runs"
_OVERWRITTEN = (
    "on CUDA, a replay overwrites outputs that ORT allocated for runs with a binding of your own. Bind allocated "
    "values and a graph id that rep.run does not use, or prepare the model without graph capture for such runs"
)

_NO_GRAPHS: Mapping = MappingProxyType({})
_RUN_WITH_IOBINDING = InferenceSession.run_with_iobinding


def of(session: InferenceSession) -> Capture | None:
    """The capture state of a session, shared by all who run it; ``None`` when the session does not capture."""
    switched_on = eligibility.switched_on(session)
    if not switched_on:
        return None
    # Kept with the session and not in a table of ours: what it holds must go when and as the session goes.
    kept = vars(session)
    return kept.get("_graph_capture") or kept.setdefault("_graph_capture", Capture(session, switched_on))


def require(session: InferenceSession) -> None:
    """Check that runs of a session that captures can be made right here.

    :raises RuntimeError: when they cannot. For a session that its caller opened, that is left to :meth:`Capture.run`.
    """
    state = of(session)
    if state is not None and state.problem:
        raise RuntimeError(f"{state.problem}. Prepare the model without graph capture")


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
        # The run options of the last run, and the entries they were made from.
        self.options: RunOptions | None = None
        self.entries: Mapping[str, str] | None = None

    def bind_input(self, name: str, buffer: OrtValue) -> None:
        self.inputs.append((name, buffer))
        self.binding.bind_ortvalue_input(name, buffer)


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
        self._lock = locks.of(session)
        self._on_webgpu = ep == WEBGPU
        self._unread = eligibility.unread(session) or frozenset()
        # TensorRT captures one graph, in the second run of the session, whatever the id.
        self._once = ep == TENSORRT
        self._device_id = int(session.get_provider_options()[ep].get("device_id", 0))
        self._slots = [(value.name, eligibility.dtype(value.type), value.type) for value in session.get_inputs()]
        self._output_names = [value.name for value in session.get_outputs()]
        memories = [memory.name for memory in session.get_output_memory_infos()]
        # ORT takes nothing but device memory for outputs on WebGPU.
        self._on_cpu = {i for i, name in enumerate(memories) if name == "Cpu" and not self._on_webgpu}
        # Where all is on the CPU, there is nothing to capture.
        self._nothing = {"Cpu"}.issuperset([*memories, *(info.name for info in session.get_input_memory_infos())])
        self.problem = "" if self._nothing else eligibility.problem(session, switched_on)
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
        # What a replay holds, in place of its thread's own lock: graphs of a session share the arena that they were
        # captured in, so that one's values may lie where another's do. On WebGPU every run is alone.
        self._running = None if self._on_webgpu else self._lock.new_lock()

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
        graphs, do = self._graphs(), _here
        if graphs is None:
            graphs, do = self._shared, self._on_worker
        graph_id = entries.get(GRAPH_ID)
        if graph_id == ORDINARY or self._nothing or self.problem:
            self._check_ordinary(graph_id)
            with self._lock.alone():  # it may be given memory that the graphs replay into
                return do(self._ordinary, _Call(session, feeds, attributes, entries))
        call = _Call(session, self._checked(feeds), attributes, entries)
        key = (graph_id, *map(_shape, call.feeds.values()))
        with self._running if self._running and key in graphs else self._lock.alone():
            return do(self._compute, graphs, key, call)

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
        own, mine, graph_id = vars(session), _Replays(), entries.get(GRAPH_ID)
        names = [name for name, _, _ in self._slots]

        def run(inputs: object, run_options: RunOptions) -> list[np.ndarray] | None:
            if (
                run_options is not options
                or InferenceSession.run_with_iobinding is not _RUN_WITH_IOBINDING
                or "run_with_iobinding" in own
            ):
                return None
            kind = type(inputs)
            if kind is dict:
                inputs = [inputs.get(name) for name in names] if len(inputs) == len(names) else ()
            elif kind is not list and kind is not tuple:
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

        Its names are local, and it goes by index, as a look-up in an object or a ``zip`` takes a hundredth and more of
        the time that a replay does.

        :param own: the attributes of the session.
        """
        lock, running, array, count = self._lock, self._running, np.ndarray, len(self._slots)
        takes = []
        for i, ((_, dtype, _), (_, buffer)) in enumerate(zip(self._slots, graph.inputs, strict=True)):
            like = np.empty(buffer.shape(), dtype)
            takes.append((i, dtype, like.shape, like.strides, buffer._ortvalue.update_inplace))
        inner, binding, options = graph.inner, graph.inner_binding, graph.options
        replay, copy = inner.run_with_iobinding, binding.copy_outputs_to_cpu

        def run(inputs: Sequence[object]) -> list[np.ndarray] | None:
            if len(inputs) != count or own["_sess"] is not inner or lock.other_devices:
                return None
            with running or lock.alone():
                for i, dtype, shape, strides, upload in takes:
                    value = inputs[i]
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

    def _on_worker(self, function: Callable, *arguments: object) -> list[np.ndarray]:
        """Have the thread that runs for others do something, under the lock that the calling thread holds."""
        if self._worker is None:  # the first of its runs is alone
            from concurrent.futures import ThreadPoolExecutor  # long to import, and seldom needed  # noqa: PLC0415

            start = partial(_become_worker, self._lock, self._device_id)
            self._worker = ThreadPoolExecutor(1, "onnxruntime-graph-capture", initializer=start)
        future = self._worker.submit(function, *arguments)
        try:
            return future.result()
        finally:
            future.exception()  # after Ctrl-C too, a run that reads the caller's arrays comes to its end
            self._lock.bury()

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

    def _compute(self, graphs: dict[tuple, _Graph], key: tuple, call: _Call) -> list[np.ndarray]:
        # On WebGPU, where all threads share them, another may have captured this one meanwhile.
        return self._replay(graphs[key], call) if key in graphs else self._capture(graphs, key, call)

    def _replay(self, graph: _Graph, call: _Call) -> list[np.ndarray]:
        """Run a graph; the first time, ORT captures it."""
        for name, buffer in graph.inputs:
            buffer.update_inplace(call.feeds[name])
        if call.attributes or graph.entries is not call.entries:
            graph.options = run_options.make(call.attributes, {**call.entries, GRAPH_ID: graph.id})
            graph.entries = None if call.attributes else call.entries
        call.session.run_with_iobinding(graph.binding, graph.options)
        return graph.inner_binding.copy_outputs_to_cpu()  # copies of those that are on the CPU, too

    def _ordinary(self, call: _Call) -> list[np.ndarray]:
        options = run_options.make(call.attributes, {**call.entries, GRAPH_ID: ORDINARY})
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
        other = comparison.other_data({name: self._on_host(value) for name, value in call.feeds.items()})
        self._replay(graph, call._replace(feeds=other))
        outputs = self._replay(graph, call)
        wrong = comparison.differing(outputs, wanted, None if self._once else lambda: self._ordinary(call))
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
        host = OrtValue.ortvalue_from_numpy(np.empty(value.shape(), eligibility.dtype(value.data_type())))
        onnxruntime.copy_tensors([value], [host])
        return host.numpy()


def _here(function: Callable, *arguments: object) -> list[np.ndarray]:
    return function(*arguments)


def _become_worker(lock: locks.SessionLock, device_id: int) -> None:
    """Put the calling thread on a device for good: CUDA's current device is a thread's.

    ORT's EP sets it in the thread that opens a session (``cuda_execution_provider.cc``), but not where a session that
    captures is run. Releasing a session sets it too.
    """
    lock.bury_elsewhere()
    if device_id:
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "", [value], [value])
        graph.output[0].name = "y"
        made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
        InferenceSession(made.SerializeToString(), providers=[(CUDA, {"device_id": device_id})])


def _shape(value: np.ndarray | OrtValue) -> tuple:
    return value.shape if isinstance(value, np.ndarray) else tuple(value.shape())


def _listed(shapes: list) -> str:
    return ", ".join(map(str, shapes))
