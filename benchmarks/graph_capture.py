# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Measures graph capture, and compares it with a hand-written IO binding loop: on CUDA, else on WebGPU.

To use a software device, run ``with_software_cuda.sh python -m benchmarks graph_capture``, or the same command with
``with_software_gpu.sh``.

On the software CUDA, the benchmark measures the time of the host, which graphs reduce. The time of a GPU is not
included.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from onnx import ModelProto, numpy_helper, parser

import onnxruntime
import onnxruntime.backend
from benchmarks.comparison import Comparison
from benchmarks.sampling import timed, together
from onnxruntime import OrtValue
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CUDA, WEBGPU

EP = WEBGPU
if CUDA in onnxruntime.get_available_providers():
    EP = CUDA
_HEADER = '<ir_version: 10, opset_import: ["": 21]> bench'
_OPERATORS = ("Sigmoid", "Relu", "Tanh", "Neg", "Abs")


def elementwise(count: int = 50) -> ModelProto:
    """Many small kernels, where launching them is most of the work."""
    last = count - 1
    nodes = ""
    for i in range(last):
        nodes += f"t{i + 1} = {_OPERATORS[i % 5]}(t{i})\n"
    return parser.parse_model(f"{_HEADER} (float[2, 4] t0) => (float[2, 4] y) {{ {nodes} y = Add(t{last}, t0) }}")


def perceptron(width: int = 64, layers: int = 4) -> ModelProto:
    """A small network of matrix products."""
    rng = np.random.default_rng(0)
    nodes = ""
    weights = []
    for i in range(layers):
        matrix = (rng.standard_normal((width, width)) / width**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{i}"))
        nodes += f"m{i} = MatMul(r{i}, w{i}) r{i + 1} = Tanh(m{i})\n"
    shape = f"float[1, {width}]"
    model = parser.parse_model(f"{_HEADER} ({shape} r0) => ({shape} r{layers}) {{ {nodes} }}")
    model.graph.initializer.extend(weights)
    return model


def _prepare(model: ModelProto, capture: bool) -> OnnxRuntimeBackendRep:
    if EP not in onnxruntime.get_available_providers():
        import onnxruntime_ep_webgpu  # only the process that measures needs it  # noqa: PLC0415

        onnxruntime.register_execution_provider_library(EP, onnxruntime_ep_webgpu.get_library_path())
    return onnxruntime.backend.prepare(model, provider_options={EP: {CAPTURE_SWITCHES[EP]: capture}})


def _device_value(session: onnxruntime.InferenceSession, shape: tuple[int, ...]) -> OrtValue:
    if EP == WEBGPU:
        return session.create_ortvalue_from_shape_and_type(shape, np.float32, "webgpu")
    return OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "cuda", 0)


def _sides(model: ModelProto, ours: str, other: str, threads: int = 1) -> Mapping[str, Callable[[], float]]:
    """Two ways to run a model: ``captured`` and ``ordinary`` through the backend, ``loop`` and ``raw`` by hand."""
    off = _prepare(model, False)
    declared = off.session.get_inputs()[0]
    x = np.random.default_rng(1).standard_normal(declared.shape).astype(np.float32)
    right = off.run([x])[0]
    ways = {"ordinary": partial(off.run, [x]), "raw": partial(off.session.run, None, {declared.name: x})}
    if {ours, other} & {"captured", "loop"}:
        on = _prepare(model, True)
        # The software CUDA finds the first of all values faster than the others: so it is nobody's.
        first = _device_value(on.session, x.shape)
        ways["captured"] = partial(on.run, [x])
        ways["loop"] = _by_hand(on, x, right.shape, first)
    for name, way in ways.items():
        np.testing.assert_allclose(way()[0], right, rtol=1e-4, atol=1e-5, err_msg=name)
    if threads > 1:
        return together([ways[ours]] * threads, [ways[other]] * threads)
    return timed({"ours": ways[ours], "other": ways[other]}, backend="ours()", by_hand="other()")


def _by_hand(
    rep: OnnxRuntimeBackendRep, x: np.ndarray, output_shape: tuple[int, ...], kept: OrtValue
) -> Callable[[], list[np.ndarray]]:
    """The loop that ORT's documents describe, on the same session with its own buffers and graph."""
    session = rep.session
    options = rep.run_options({"gpu_graph_id": 7})
    binding = session.io_binding()
    source = _device_value(session, x.shape)
    target = _device_value(session, output_shape)
    binding.bind_ortvalue_input(session.get_inputs()[0].name, source)
    binding.bind_ortvalue_output(session.get_outputs()[0].name, target)

    def run() -> list[np.ndarray]:
        source.update_inplace(x)
        session.run_with_iobinding(binding, options)
        return binding.copy_outputs_to_cpu()

    run.kept = kept
    return run


def _comparisons() -> Iterator[Comparison]:
    models = {"3 nodes": elementwise(3), "50 nodes": elementwise(50), "perceptron": perceptron()}
    for what, ours, other, threads, limits in (
        ("captured, over a binding loop", "captured", "loop", 1, {CUDA: 1.15, WEBGPU: 1.03}),
        ("captured, over capture off", "captured", "ordinary", 1, {}),
        # In a process in which no session captures.
        ("capture off, over the session's run", "ordinary", "raw", 1, {CUDA: 1.02}),
        ("capture off, 2 threads, over the session's run", "ordinary", "raw", 2, {}),
    ):
        if threads > 1 and EP == WEBGPU:
            continue  # two bare sessions on WebGPU crash
        for name, model in models.items():
            sides = partial(_sides, model, ours, other, threads)
            yield Comparison(f"{name}, {what}", sides, limits.get(EP), stock=False)


COMPARISONS = tuple(_comparisons())
