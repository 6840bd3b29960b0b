# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Sessions that capture CUDA graphs, and replay them.

A replay uses the addresses of the captured run, and ORT keeps a graph for the thread that captured it. So one thread
creates and runs a session, and each graph has its own buffers in device memory: a run copies its inputs into them,
replays the graph, and copies the outputs. A graph belongs to one set of input shapes.

A replay repeats the work on the device only. ORT itself captures no model with control flow, or with a node on the CPU
EP between others. :func:`check` refuses what ORT does not see. As a second line, the first replay of each graph is
compared with a run without capture.
"""

from __future__ import annotations

import os
from _thread import start_new_thread
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import onnx

from onnxruntime import InferenceSession, IOBinding, OrtValue, RunOptions
from onnxruntime.backend import cuda_calls
from onnxruntime.backend.allowlist import check_capture
from onnxruntime.backend.allowlist_tables import CAPTURE, CUDA, GRAPH_ID, SHRINKAGE
from onnxruntime.backend.errors import Place, reject

_ORDINARY = "-1"  # ORT's graph id for a run without capture
_MOST_GRAPHS = 32  # ORT keeps each graph as long as the session
_DATA_DEPENDENT = frozenset({"Compress", "NonMaxSuppression", "NonZero"})
_RANDOM = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Sampling",
    }
)
_NAMES = {"float": "float32", "double": "float64"}


class Graph(NamedTuple):
    """A captured graph with its buffers."""

    number: str  # ORT's graph id
    binding: IOBinding
    inputs: dict[str, OrtValue]


class GraphSession(InferenceSession):
    """A session whose runs replay graphs. Any number of threads can call :meth:`run`.

    The first run with certain shapes captures a graph, and takes longer. Beyond 32 graphs, runs do not capture.
    """

    def __init__(self, thread: SimpleQueue, *arguments, **keywords) -> None:
        super().__init__(*arguments, **keywords)
        self._thread = thread
        self._process = os.getpid()
        self._graphs: dict[tuple, Graph] = {}
        self._begun: list[Graph] = []  # ORT may replay into the buffers of each graph that it began to capture
        cuda_calls.keep(self, [self._graphs, self._begun], thread)
        self._dtypes = {value.name: _dtype(value.type) for value in self.get_inputs()}
        self._on_cpu = _names_on_cpu(self)  # those among the inputs are not read
        self._device_id = int(self.get_provider_options().get(CUDA, {}).get("device_id", 0))

    def run(self, output_names, input_feed, run_options=None):
        """Return the outputs, as :meth:`onnxruntime.InferenceSession.run` does.

        The run config entry ``gpu_graph_id`` tells graphs apart, and ``-1`` runs without capture. ORT receives a number
        of this class instead: it would replay a graph for inputs of other shapes, too.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "A forked process cannot use CUDA sessions of its parent. Prepare the model after the fork"
            )
        return cuda_calls.call(self._thread, self._run, output_names, input_feed, run_options or RunOptions())

    def _run(self, output_names, feeds, options: RunOptions) -> list:
        if _entry(options, SHRINKAGE):
            check_capture([SHRINKAGE])
        graph_id = _entry(options, GRAPH_ID)
        if graph_id == _ORDINARY or output_names is not None or not self._can_copy(feeds):
            return self._run_ordinary(output_names, feeds, options)
        key = (graph_id, *(feeds[name].shape for name in self._dtypes))
        if key in self._graphs:
            return cuda_calls.beside(self._replay, self._graphs[key], feeds, options)
        outputs = self._run_ordinary(None, feeds, options)
        if len(self._begun) < _MOST_GRAPHS:
            try:
                graph = cuda_calls.alone(self._capture, feeds, outputs, options)
            except Exception as error:
                advice = f"If CUDA fails in this process now, restart it, and prepare the model without {CAPTURE}"
                raise RuntimeError(f"ORT could not capture a graph. {advice}") from error
            replayed = cuda_calls.beside(self._replay, graph, feeds, options)
            for value, got, want in zip(self.get_outputs(), replayed, outputs, strict=True):
                if not _agree(got, want):
                    problem = f"a replay returns wrong values for output {value.name!a}"
                    raise RuntimeError(f"{problem}. Run with run_config={{'{GRAPH_ID}': {_ORDINARY}}}")
            self._graphs[key] = graph
        return outputs

    def _can_copy(self, feeds) -> bool:
        """Return whether these are arrays of the types of the inputs: a copy into a buffer compares only sizes."""
        if feeds.keys() != self._dtypes.keys():
            return False
        return all(type(array) is np.ndarray and array.dtype == self._dtypes[name] for name, array in feeds.items())

    def _run_ordinary(self, output_names, feeds, options: RunOptions) -> list:
        return cuda_calls.beside(super().run, output_names, feeds, _with_graph(options, _ORDINARY))

    def _capture(self, feeds, outputs: list[np.ndarray], options: RunOptions) -> Graph:
        """Capture a graph for inputs and outputs of these shapes."""
        graph = Graph(str(len(self._begun) + 1), self.io_binding(), {})
        self._begun.append(graph)
        other = {}
        for name, array in feeds.items():
            graph.inputs[name] = self._buffer(name, array)
            graph.binding.bind_ortvalue_input(name, graph.inputs[name])
            # Other floats, so that a replay shows stale values. They are closer to 0, because Cast may make indices.
            other[name] = array * array.dtype.type(0.75) if array.dtype.kind == "f" else array
        for value, array in zip(self.get_outputs(), outputs, strict=True):
            graph.binding.bind_ortvalue_output(value.name, self._buffer(value.name, array))
        self._replay(graph, other, options)  # the first run of the binding captures
        return graph

    def _buffer(self, name: str, array: np.ndarray) -> OrtValue:
        device = "cpu" if name in self._on_cpu else "cuda"
        return OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype.type, device, self._device_id)

    def _replay(self, graph: Graph, feeds, options: RunOptions) -> list[np.ndarray]:
        for name, buffer in graph.inputs.items():
            buffer.update_inplace(np.require(feeds[name], requirements="C"))
        self.run_with_iobinding(graph.binding, _with_graph(options, graph.number))
        return graph.binding.copy_outputs_to_cpu()


def create(*arguments, **keywords) -> GraphSession:
    """Create a session in a thread of its own: CUDA's current device is a property of the thread that does so."""
    thread = SimpleQueue()
    start_new_thread(cuda_calls.serve, (thread,))
    try:
        return cuda_calls.call(thread, cuda_calls.create, GraphSession, thread, *arguments, **keywords)
    except BaseException:
        thread.put(None)
        raise


def run_of(session):
    """Return a function that runs a session. On CUDA, it waits for the captures of other sessions."""
    if not isinstance(session, InferenceSession) or isinstance(session, GraphSession):
        return session.run
    return partial(cuda_calls.beside, session.run) if CUDA in session.get_providers() else session.run


def check(session: GraphSession, model: str | bytes) -> None:
    """Raise an error if replays of a model can return other outputs than its runs, or a capture can fail."""
    subgraphs = session.get_provider_graph_assignment_info()
    operators = {node.op_type for subgraph in subgraphs for node in subgraph.get_nodes()}
    problem = _problem_of_types(session) or _problem_of_operators(operators)
    if not problem:
        load = onnx.load_from_string if isinstance(model, bytes) else partial(onnx.load, load_external_data=False)
        problem = _problem_of_values(session, load(model, format="protobuf").graph)
    if problem:
        reject(Place("provider_options", CUDA, CAPTURE), f"{problem}. Otherwise, prepare the model without it")


def _problem_of_types(session: GraphSession) -> str:
    for value in session.get_inputs() + session.get_outputs():
        if _dtype(value.type) is None:
            return f"requires tensors of numbers that numpy has, and {value.name!a} is {value.type}"
    return ""


def _problem_of_operators(operators: set[str]) -> str:
    if not operators:
        return "requires a model in ONNX format: ORT does not record the nodes of other models"
    for operator in operators & _RANDOM:
        return f"{operator} draws random numbers, and a replay repeats them"
    for operator in operators & _DATA_DEPENDENT:
        return f"the shape of an output of {operator} depends on data, and a replay repeats it"
    return ""


def _problem_of_values(session: GraphSession, graph: onnx.GraphProto) -> str:
    read = set()
    varying = set(session._dtypes)  # values that depend on the data of an input
    for node in graph.node:
        read.update(node.input)
        if node.op_type != "Shape" and not varying.isdisjoint(node.input):
            varying.update(node.output)
    for name in session._dtypes.keys() & session._on_cpu & read:
        return f"input {name!a} is in CPU memory, as a shape or an index is, and a replay does not read it"
    outputs = [value.name for value in session.get_outputs()]
    for name in outputs:
        if name in session._dtypes or outputs.count(name) > 1:
            return f"output {name!a} is an input, or is listed twice"
        if name in read - varying:
            return f"output {name!a} is a constant that nodes read, and CUDA does not permit its copy in a capture"
    return ""


def _dtype(value_type: str) -> np.dtype | None:
    """Return the dtype of a tensor's type such as ``tensor(float)``, or ``None`` if numpy lacks it."""
    name = value_type.removeprefix("tensor(").removesuffix(")")
    try:
        dtype = np.dtype(_NAMES.get(name, name))
    except TypeError:
        return None
    return dtype if dtype.kind in "biuf" else None


def _names_on_cpu(session: InferenceSession) -> set[str]:
    values = session.get_inputs() + session.get_outputs()
    memories = session.get_input_memory_infos() + session.get_output_memory_infos()
    return {value.name for value, memory in zip(values, memories, strict=True) if memory.name == "Cpu"}


def _entry(options: RunOptions, key: str) -> str | None:
    try:
        return options.get_run_config_entry(key)
    except RuntimeError:  # the options do not have the key
        return None


def _with_graph(options: RunOptions, graph_id: str) -> RunOptions:
    """Return a copy of a run's options with another graph id."""
    copied = RunOptions()
    for name in ("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"):
        setattr(copied, name, getattr(options, name))
    copied.add_run_config_entry(GRAPH_ID, graph_id)
    return copied


def _agree(got: np.ndarray, want: np.ndarray) -> bool:
    """Return whether two runs of the same kernels can return these arrays: they can add terms in another order."""
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    tolerance = float(np.finfo(got.dtype).eps) ** 0.5
    got, want = got.astype(np.float64), want.astype(np.float64)
    sizes = np.abs(want[np.isfinite(want)])
    return np.allclose(got, want, rtol=tolerance, atol=tolerance * sizes.mean() if sizes.size else 0, equal_nan=True)
