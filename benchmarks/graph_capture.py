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

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxruntime
import onnxruntime.backend
from benchmarks.comparison import Comparison
from benchmarks.sampling import timed, together
from onnxruntime import OrtValue
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CUDA, WEBGPU

EP = CUDA if CUDA in onnxruntime.get_available_providers() else WEBGPU
_OPERATORS = ("Sigmoid", "Relu", "Tanh", "Neg", "Abs")


def _model(nodes, shape_in, shape_out, weights=()) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "bench",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, shape_in)],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape_out)],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def elementwise(count: int = 50, shape: tuple[int, int] = (2, 4)) -> ModelProto:
    """Many small kernels, where launching them is most of the work."""
    names = ["X", *(f"t{i}" for i in range(count - 1))]
    nodes = [helper.make_node(_OPERATORS[i % 5], [names[i]], [names[i + 1]]) for i in range(count - 1)]
    return _model([*nodes, helper.make_node("Add", [names[-1], "X"], ["Y"])], shape, shape)


def perceptron(width: int = 64, layers: int = 4) -> ModelProto:
    """A small network of matrix products."""
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "X"
    for i in range(layers):
        matrix = (rng.standard_normal((width, width)) / width**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
        value = "Y" if i == layers - 1 else f"r{i}"
        nodes.append(helper.make_node("Tanh", [f"m{i}"], [value]))
    return _model(nodes, (1, width), (1, width), weights)


def _prepare(model: ModelProto, capture: bool):
    if EP == WEBGPU and EP not in onnxruntime.get_available_providers():
        import onnxruntime_ep_webgpu  # only the process that measures needs it  # noqa: PLC0415

        onnxruntime.register_execution_provider_library(EP, onnxruntime_ep_webgpu.get_library_path())
    return onnxruntime.backend.prepare(model, provider_options={EP: {CAPTURE_SWITCHES[EP]: capture}})


def _device_value(session: onnxruntime.InferenceSession, shape: tuple[int, ...]) -> OrtValue:
    if EP == WEBGPU:
        return session.create_ortvalue_from_shape_and_type(shape, np.float32, "webgpu")
    return OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "cuda", 0)


def _sides(model: ModelProto, ours: str, other: str, threads: int = 1) -> Mapping[str, Callable[[], float]]:
    """Two ways to run a model: ``captured`` and ``ordinary`` through the backend, ``loop`` and ``raw`` by hand."""
    x = np.random.default_rng(1).standard_normal(_shape(model)).astype(np.float32)
    off = _prepare(model, False)
    right = off.run([x])[0]
    ways = {"ordinary": partial(off.run, [x]), "raw": partial(off.session.run, None, {"X": x})}
    if {ours, other} & {"captured", "loop"}:
        on = _prepare(model, True)
        # The software CUDA finds the first of all values faster than the others: so it is nobody's.
        first = _device_value(on.session, x.shape)
        ways |= {"captured": partial(on.run, [x]), "loop": _by_hand(on, x, right.shape, first)}
    for name, way in ways.items():
        np.testing.assert_allclose(way()[0], right, rtol=1e-4, atol=1e-5, err_msg=name)
    if threads > 1:
        return together([ways[ours]] * threads, [ways[other]] * threads)
    return timed({"ours": ways[ours], "other": ways[other]}, backend="ours()", by_hand="other()")


def _by_hand(rep, x: np.ndarray, output_shape: tuple[int, ...], *kept: OrtValue) -> Callable[[], list[np.ndarray]]:
    """The loop that ORT's documents describe, on the same session with its own buffers and graph."""
    session = rep.session
    # ORT's own method, without the check of the backend.
    run_with_iobinding = partial(onnxruntime.InferenceSession.run_with_iobinding, session)
    options = rep.run_options({"gpu_graph_id": 7})
    binding = session.io_binding()
    source, target = _device_value(session, x.shape), _device_value(session, output_shape)
    binding.bind_ortvalue_input("X", source)
    binding.bind_ortvalue_output("Y", target)

    def run() -> list[np.ndarray]:
        source.update_inplace(x)
        run_with_iobinding(binding, options)
        return binding.copy_outputs_to_cpu()

    run.kept = kept
    return run


def _shape(model: ModelProto) -> list[int]:
    return [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]


_LIMIT = 1.15 if EP == CUDA else 1.03
_MODELS = {"3 nodes": elementwise(3), "50 nodes": elementwise(50), "perceptron": perceptron()}
COMPARISONS = tuple(
    Comparison(f"{name}, {what}", partial(_sides, model, *sides), limit, stock=False)
    for what, sides, limit in (
        ("captured, over a binding loop", ("captured", "loop"), _LIMIT),
        ("captured, over capture off", ("captured", "ordinary"), None),
        # In a process in which no session captures.
        ("capture off, over the session's run", ("ordinary", "raw"), 1.02 if EP == CUDA else None),
        # Two bare sessions on WebGPU crash.
        *((("capture off, 2 threads, over the session's run", ("ordinary", "raw", 2), None),) if EP == CUDA else ()),
    )
    for name, model in _MODELS.items()
)
