# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What graph capture gains on the WebGPU plugin EP, and what our path costs over a hand-written IO binding loop.

with_software_gpu.sh python -m benchmarks graph_capture
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxruntime
import onnxruntime.backend
from benchmarks.comparison import BACKEND, BY_HAND, Comparison
from benchmarks.sampling import timed

EP = "WebGpuExecutionProvider"
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


def _sides(model: ModelProto, other: str) -> Mapping[str, Callable[[], float]]:
    """Captured runs through the backend beside another way to run the same model."""
    import onnxruntime_ep_webgpu  # only the process that measures needs it

    onnxruntime.register_execution_provider_library(EP, onnxruntime_ep_webgpu.get_library_path())
    x = np.random.default_rng(1).standard_normal(_shape(model)).astype(np.float32)
    off = onnxruntime.backend.prepare(model, provider_options={EP: {}})
    on = onnxruntime.backend.prepare(model, provider_options={EP: {"enableGraphCapture": "1"}})
    ways = {BACKEND: partial(on.run, [x])}
    ways[BY_HAND] = _by_hand(on, x) if other == "loop" else partial(off.run, [x])
    right = off.run([x])[0]
    for name, way in ways.items():
        np.testing.assert_allclose(way()[0], right, rtol=1e-4, atol=1e-5, err_msg=name)
    namespace = {"ours": ways[BACKEND], "other": ways[BY_HAND]}
    return timed(namespace, backend="ours()", by_hand="other()")


def _by_hand(rep, x: np.ndarray):
    """The loop that ORT's documents describe, on the same session with buffers and a graph of its own."""
    session = rep.session
    options = rep.run_options({"gpu_graph_id": 7})
    binding = session.io_binding()
    source = session.create_ortvalue_from_shape_and_type(x.shape, np.float32, "webgpu")
    binding.bind_ortvalue_input("X", source)
    target = session.create_ortvalue_from_shape_and_type(rep.run([x])[0].shape, np.float32, "webgpu")
    binding.bind_ortvalue_output("Y", target)

    def run() -> list[np.ndarray]:
        source.update_inplace(x)
        session.run_with_iobinding(binding, options)
        return binding.copy_outputs_to_cpu()

    return run


def _shape(model: ModelProto) -> list[int]:
    return [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]


_ELEMENTWISE, _PERCEPTRON = elementwise(), perceptron()
COMPARISONS = (
    Comparison("captured, 50 nodes, over a binding loop", partial(_sides, _ELEMENTWISE, "loop"), 1.10, stock=False),
    Comparison("captured, perceptron, over a binding loop", partial(_sides, _PERCEPTRON, "loop"), None, stock=False),
    Comparison("captured, 50 nodes, over capture off", partial(_sides, _ELEMENTWISE, "off"), None, stock=False),
    Comparison("captured, perceptron, over capture off", partial(_sides, _PERCEPTRON, "off"), None, stock=False),
)
