# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture: fixed device buffers, one IO binding for each set of input shapes, capture and replay.

A captured graph replays fixed addresses, so a session that captures cannot be run the ordinary way: on CUDA that
returns ``[]`` from the second call on and replays freed host memory. Here inputs are copied into device buffers that
the graph was captured with, and outputs are copied out of others. Buffers alone are no proof either: WebGPU's capture
leaves out buffer copies, so that some models return what the first run computed. Every graph is therefore compared with
ordinary runs before its first answer is used, and further on for as long as nothing has shown that it follows its
inputs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import onnxruntime
from onnxruntime import InferenceSession, OrtValue, RunOptions
from onnxruntime.backend import request, tensor_values, webgpu_lock
from onnxruntime.backend.messages import warn

CUDA = "CUDAExecutionProvider"
WEBGPU = webgpu_lock.EP
# The run config entry that says which graph a run captures or replays; ORT takes 0 where it is absent.
GRAPH_ID = "gpu_graph_id"
ORDINARY = -1
# Callers' own ids end at 1023.
FIRST_AUTOMATIC_ID = 1024
# ORT never evicts a graph, and each holds device memory: 0.8 MiB for 50 nodes on tensors of 256 KiB.
MOST_GRAPHS = 32

# Switches of EPs that capture too, but on which nothing here was ever run.
_UNTRIED = {
    "TensorrtExecutionProvider": "trt_cuda_graph_enable",
    "ROCMExecutionProvider": "enable_hip_graph",
}
# Data sets that a new graph is compared on besides the caller's.
_PROBES = 3
_WAY_OUT = f"run with run_config={{'{GRAPH_ID}': {ORDINARY}}}, or prepare the model without graph capture"

_creating = threading.Lock()


def of(session: InferenceSession) -> Capture | None:
    """The capture state of a session, shared by all who run it; ``None`` when the session does not capture.

    :raises RuntimeError: when it captures and something that this needs is missing.
    """
    device = _device(session)
    if device is None:
        return None
    # Kept with the session and not in a table of ours: what it holds must go when and as the session goes.
    with _creating:
        state = getattr(session, "_graph_capture", None)
        if state is None:
            _check_means(session)
            state = session._graph_capture = Capture(session, *device)
    return state


def explain(error: Exception) -> str | None:
    """Say what to do when ORT refused to open a session because of graph capture; ``None`` for other errors."""
    if "graph capture feature" not in str(error):
        return None
    return (
        "graph capture was asked for, and this model cannot be captured: every node must run on the EP that captures, "
        f"and there may be no If, Loop or Scan. Prepare the model without it. ORT says: {error}"
    )


def _device(session: InferenceSession) -> tuple[str, int] | None:
    """The device that a session captures on, as ``OrtValue`` names it."""
    providers = session.get_providers()
    options = session.get_provider_options()
    for ep, option in _UNTRIED.items():
        if ep in providers and _on(options[ep].get(option)):
            raise RuntimeError(f"{ep} with {option} captures graphs, which this backend was never tested with there")
    if CUDA in providers and _on(options[CUDA].get("enable_cuda_graph")):
        return "cuda", int(options[CUDA].get("device_id", 0))
    if WEBGPU in providers:
        # ORT's own Python layer asks the inner session too; a provider option would not show what took effect.
        captures = getattr(session._sess, "is_webgpu_graph_capture_enabled", None)
        if captures is None and _webgpu_entry(session):
            raise RuntimeError(
                f"graph capture on WebGPU needs ORT 1.30 or newer: ORT {onnxruntime.__version__} cannot allocate "
                "device memory for inputs and outputs, and returns zeros from captured runs without it"
            )
        if captures is not None and captures():
            return "webgpu", 0
    return None


def _on(text: str | None) -> bool:
    return text in ("1", "true", "True")


def _webgpu_entry(session: InferenceSession) -> bool:
    try:
        return _on(session.get_session_options().get_session_config_entry(f"ep.{WEBGPU.lower()}.enableGraphCapture"))
    except RuntimeError:  # no such entry
        return False


def _check_means(session: InferenceSession) -> None:
    """Check that all inputs and outputs can be device buffers."""
    for what, values in (("input", session.get_inputs()), ("output", session.get_outputs())):
        for value in values:
            if _dtype(value.type) is None:
                raise RuntimeError(
                    f"graph capture needs tensors of numbers that numpy has; {what} '{value.name}' is {value.type}. "
                    "Prepare the model without it"
                )
    for value, memory in zip(session.get_inputs(), session.get_input_memory_infos(), strict=True):
        if memory.name == "Cpu":
            raise RuntimeError(
                f"graph capture needs every input in device memory; input '{value.name}' is read on the CPU (as a "
                "shape or a slice is), where a replay does not look again, or by no node. Make it a constant of the "
                "model, or prepare the model without graph capture"
            )


def _dtype(value_type: str) -> np.dtype | None:
    """The dtype of tensors that ORT copies between numpy and a device; ``None`` for all other types."""
    element = tensor_values.element_type(value_type)
    dtype = None if element is None else tensor_values.dtype_of(element)
    return dtype if dtype is not None and dtype.kind in "biuf" and tensor_values.numpy_has(dtype) else None


class _Call(NamedTuple):
    """One run: the session, the input values by name, and what the run options are to say."""

    session: InferenceSession
    feeds: Mapping[str, np.ndarray | OrtValue]
    attributes: Mapping[str, object]
    entries: Mapping[str, str]


class _Graph:
    """One captured graph: its buffers, the binding that holds them, and what is not proven of it yet."""

    def __init__(self, graph_id: int, shapes: tuple) -> None:
        self.id = graph_id
        self.shapes = shapes
        self.broken: str | None = f"the first run of graph {graph_id} (input shapes {shapes}) failed: {_WAY_OUT}"
        self.binding = None
        self.inputs: dict[str, OrtValue] = {}
        # The run options of the last run, and the entries they were made from.
        self.options: RunOptions | None = None
        self.entries: Mapping[str, str] | None = None
        # Inputs and outputs that were never other than in the run that captured, with their values then.
        self.same_inputs: dict[str, np.ndarray] = {}
        self.same_outputs: dict[int, np.ndarray] = {}


class Capture:
    """
    The captured graphs of one session, with their buffers, ids and lock.

    Any number of threads, and of prepared models on the same session, may call :meth:`run`: the graphs share buffers,
    so runs go one after the other. WebGPU sessions share one lock in the process. ORT keeps CUDA graphs for each
    thread, so there all runs of a session happen on one thread of its own.
    """

    def __init__(self, session: InferenceSession, device: str, device_id: int) -> None:
        self._device = device
        self._device_id = device_id
        self._inputs = {value.name: (_dtype(value.type), value.type) for value in session.get_inputs()}
        self._output_names = [value.name for value in session.get_outputs()]
        # What ORT computes on the CPU depends on shapes only: it does not capture a session with other nodes there.
        self._fixed = {i for i, memory in enumerate(session.get_output_memory_infos()) if memory.name == "Cpu"}
        # By the caller's id, or by input shapes where there is none.
        self._graphs: dict[int | tuple, _Graph] = {}
        # Ids that prepared models run with, and ids that callers bind by themselves.
        self._claimed: set[int] = set()
        self._lent: set[int] = set()
        self._warned = False
        self._state = threading.Lock()
        self._worker = None
        if device == "cuda":
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 # long to import, and seldom needed

            self._worker = ThreadPoolExecutor(1, "onnxruntime-graph-capture")

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
        ordinary = entries.get(GRAPH_ID) == str(ORDINARY)
        work = self._ordinary if ordinary else self._run
        call = _Call(session, feeds if ordinary else self._checked(feeds), attributes, entries)
        if self._worker is not None:
            return self._worker.submit(work, call).result()
        with webgpu_lock.WEBGPU:
            return work(call)

    def claim(self, entries: Mapping[str, str]) -> None:
        """Reserve the graph id in the run config that a model was prepared with, if there is one.

        :raises RuntimeError: when :meth:`lend` gave it away.
        """
        if GRAPH_ID in entries:
            with self._state:
                self._claim(int(entries[GRAPH_ID]))

    def _claim(self, graph_id: int) -> None:
        if graph_id in self._lent:
            raise RuntimeError(f"{GRAPH_ID}={graph_id} was given away by run_options() of this session: choose another")
        if graph_id != ORDINARY:
            self._claimed.add(graph_id)

    def lend(self, entries: Mapping[str, str]) -> None:
        """Give the graph id in a run config, 0 where there is none, to a caller who binds and runs the session himself.

        :raises RuntimeError: when runs through here use it.
        """
        graph_id = int(entries.get(GRAPH_ID, 0))
        with self._state:
            if graph_id in self._claimed:
                raise RuntimeError(
                    f"{GRAPH_ID}={graph_id} belongs to run() on this session: choose another for runs with a binding "
                    f"of your own, as in run_options({{'{GRAPH_ID}': 7}}), or {ORDINARY} for runs without capture"
                )
            if graph_id != ORDINARY:
                self._lent.add(graph_id)

    def _checked(self, feeds: Mapping[str, np.ndarray | OrtValue]) -> dict[str, np.ndarray | OrtValue]:
        """The feeds in the model's order, each looked at: an upload compares sizes and copies bytes as they lie."""
        if len(feeds) > len(self._inputs):
            raise RuntimeError("a captured run takes the model's inputs only, whose initializers it has captured")
        checked = {}
        for name, (dtype, kind) in self._inputs.items():
            if name not in feeds:
                raise RuntimeError(f"input '{name}' is missing")
            value = feeds[name]
            if isinstance(value, OrtValue) and value.device_name() == "cpu":
                value = value.numpy()
            if isinstance(value, OrtValue):
                if value.data_type() != kind:
                    raise RuntimeError(f"input '{name}' takes {kind}, got {value.data_type()}")
            elif value.dtype != dtype:  # byte order included
                raise RuntimeError(f"input '{name}' takes {kind}, got {value.dtype}")
            elif not value.flags.c_contiguous:
                value = np.require(value, requirements="C")
            checked[name] = value
        return checked

    def _run(self, call: _Call) -> list[np.ndarray]:
        graph_id = call.entries.get(GRAPH_ID)
        if graph_id is not None:
            graph_id = int(graph_id)
        shapes = tuple([_shape(value) for value in call.feeds.values()])
        graph = self._graphs.get(shapes if graph_id is None else graph_id)
        if graph is None:
            return self._capture(call, graph_id, shapes)
        if graph.shapes != shapes:
            raise RuntimeError(
                f"{GRAPH_ID}={graph_id} was captured with inputs of shape {graph.shapes}, and this run has {shapes}: "
                "give it another id, or none, which finds one for each set of shapes"
            )
        if graph.broken:
            raise RuntimeError(graph.broken)
        outputs = self._replay(graph, call)
        if graph.same_outputs or graph.same_inputs:
            self._doubt(graph, call, outputs)
        return outputs

    def _replay(self, graph: _Graph, call: _Call) -> list[np.ndarray]:
        """Run a graph; the first time, ORT captures it."""
        for name, buffer in graph.inputs.items():
            buffer.update_inplace(call.feeds[name])
        if call.attributes or graph.entries is not call.entries:
            graph.options = _options(call, graph.id)
            graph.entries = None if call.attributes else call.entries
        call.session.run_with_iobinding(graph.binding, graph.options)
        return graph.binding.copy_outputs_to_cpu()

    def _ordinary(self, call: _Call) -> list[np.ndarray]:
        return call.session.run(self._output_names, call.feeds, _options(call, ORDINARY))

    def _capture(self, call: _Call, graph_id: int | None, shapes: tuple) -> list[np.ndarray]:
        # Before anything is captured: ORT looks at the inputs, and this tells the shapes of the outputs.
        wanted = self._ordinary(call)
        with self._state:
            if len(self._graphs) >= MOST_GRAPHS:
                if not self._warned:
                    self._warned = True
                    warn(
                        f"this session has captured {MOST_GRAPHS} graphs, one for each set of input shapes and id, and "
                        "ORT never frees one: other shapes run without capture from here on"
                    )
                return wanted
            key = shapes if graph_id is None else graph_id
            if graph_id is None:
                graph_id = FIRST_AUTOMATIC_ID + len(self._graphs)
            self._claim(graph_id)
            # Kept whatever happens: ORT may have captured something, and would replay it into these buffers.
            graph = self._graphs[key] = _Graph(graph_id, shapes)
        graph.binding = call.session.io_binding()
        for (name, (dtype, _)), shape in zip(self._inputs.items(), shapes, strict=True):
            graph.inputs[name] = self._buffer(call.session, shape, dtype)
            graph.binding.bind_ortvalue_input(name, graph.inputs[name])
        for name, want in zip(self._output_names, wanted, strict=True):
            graph.binding.bind_ortvalue_output(name, self._buffer(call.session, want.shape, want.dtype))
        outputs = self._prove(graph, call, wanted)
        graph.broken = None
        return outputs

    def _prove(self, graph: _Graph, call: _Call, wanted: list[np.ndarray]) -> list[np.ndarray]:
        """Capture on other data, replay on more and on the caller's, and compare each with an ordinary run."""
        arrays = {name: self._on_host(value) for name, value in call.feeds.items()}
        rng = np.random.default_rng(0)
        for probe in range(_PROBES):
            other = call._replace(feeds={name: _vary(array, rng) for name, array in arrays.items()})
            right = self._ordinary(other)
            self._compare(graph, self._replay(graph, other), right)
            if probe == 0:
                graph.same_inputs = {name: array for name, array in other.feeds.items() if array.size}
                if graph.same_inputs:
                    graph.same_outputs = {i: want for i, want in enumerate(right) if i not in self._fixed and want.size}
            self._dispel(graph, other.feeds, right)
        outputs = self._replay(graph, call)
        self._compare(graph, outputs, wanted)
        self._dispel(graph, arrays, wanted)
        return outputs

    def _doubt(self, graph: _Graph, call: _Call, outputs: list[np.ndarray]) -> None:
        """Compare a run with an ordinary one while it may be that an output does not follow an input."""
        arrays = {name: self._on_host(call.feeds[name]) for name in graph.same_inputs}
        if graph.same_outputs or not all(np.array_equal(arrays[name], was) for name, was in graph.same_inputs.items()):
            right = self._ordinary(call)
            self._compare(graph, outputs, right)
            self._dispel(graph, arrays, right)

    def _compare(self, graph: _Graph, outputs: list[np.ndarray], right: list[np.ndarray]) -> None:
        wrong = [
            name for name, got, want in zip(self._output_names, outputs, right, strict=True) if not agree(got, want)
        ]
        if wrong:
            graph.broken = (
                f"graph capture returns wrong values for output {', '.join(map(repr, wrong))}: a replay differs from "
                "an ordinary run of the same inputs. Either the EP does not capture all that the model does (WebGPU "
                "leaves out the buffer copies of Reshape, Flatten, Squeeze, Unsqueeze, Identity and ScatterND), or the "
                f"model is random; {_WAY_OUT}"
            )
            raise RuntimeError(graph.broken)

    @staticmethod
    def _dispel(graph: _Graph, arrays: Mapping[str, np.ndarray], right: list[np.ndarray]) -> None:
        """What is not as it was at the capture, and came out right, is proven."""
        for name, was in [*graph.same_inputs.items()]:
            if not np.array_equal(arrays[name], was, equal_nan=was.dtype.kind == "f"):
                del graph.same_inputs[name]
        for i, was in [*graph.same_outputs.items()]:
            if not agree(right[i], was):
                del graph.same_outputs[i]

    def _buffer(self, session: InferenceSession, shape: tuple, dtype: np.dtype) -> OrtValue:
        if self._device == "webgpu":
            return session.create_ortvalue_from_shape_and_type(list(shape), dtype.type, "webgpu")
        return OrtValue.ortvalue_from_shape_and_type(list(shape), dtype.type, self._device, self._device_id)

    def _on_host(self, value: np.ndarray | OrtValue) -> np.ndarray:
        """A copy, because the caller may write into his array later."""
        if isinstance(value, np.ndarray):
            return value.copy()
        if self._device != "webgpu":
            return value.numpy()
        host = OrtValue.ortvalue_from_numpy(np.empty(value.shape(), _dtype(value.data_type())))
        onnxruntime.copy_tensors([value], [host])
        return host.numpy()


def _options(call: _Call, graph_id: int) -> RunOptions:
    return request.run_options(call.attributes, {**call.entries, GRAPH_ID: str(graph_id)})


def _shape(value: np.ndarray | OrtValue) -> tuple:
    return value.shape if isinstance(value, np.ndarray) else tuple(value.shape())


def _vary(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other data that a model takes as well as this: integers may be indices, so they only change places."""
    if array.dtype.kind == "f":
        scale, offset = rng.uniform(0.5, 1.0, (2, *array.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            other = array * scale + offset
    elif array.dtype.kind == "b":
        other = ~array
    else:
        other = rng.choice(array.ravel(), array.shape) if array.size else array
    return np.asarray(other, array.dtype)


def agree(got: np.ndarray, want: np.ndarray) -> bool:
    """Tell whether two runs of the same kernels on the same data can have returned these.

    Only the order in which a kernel adds up may differ, so floats agree when they do in half of their type's digits:
    relative to the value, or to a typical one of the tensor (the median, which a few values of a mask do not move)
    where terms cancel. Stale data differs in the first digit. NaN agrees with NaN, an infinity with itself, and all
    else exactly.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    tolerance = float(np.finfo(got.dtype).eps) ** 0.5
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if same.all():
        return True
    size = np.abs(want[np.isfinite(want) & (want != 0)])
    typical = np.median(size) if size.size else 0.0
    with np.errstate(invalid="ignore"):
        near = np.isfinite(want) & (np.abs(got - want) <= tolerance * (np.abs(want) + typical))
    return bool(np.all(same | near))
