# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What graph capture gains on the WebGPU plugin EP, and what our path costs over a hand-written IO binding loop.

    with_software_gpu.sh python benchmarks/graph_capture.py [ROUNDS]

One process, one model at a time; the ways of running it take turns in every round, in an order that rotates.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import numpy as np
import onnxruntime_ep_webgpu
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxruntime
import onnxruntime.backend

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


CASES = {"50 elementwise nodes, 2x4": elementwise(), "4-layer perceptron, 64": perceptron()}


def measure(model: ModelProto, rounds: int = 31, seconds: float = 0.05) -> dict[str, list[float]]:
    """Seconds per run of each way to run a model, one number for each round.

    :param seconds: for which each way runs in a round, about.
    """
    x = np.random.default_rng(1).standard_normal(_shape(model)).astype(np.float32)
    off = onnxruntime.backend.prepare(model, provider_options={EP: {}})
    on = onnxruntime.backend.prepare(model, provider_options={EP: {"enableGraphCapture": "1"}})
    ways = {"off": lambda: off.run([x]), "on": lambda: on.run([x]), "by hand": _by_hand(on, x)}
    right = off.run([x])[0]
    for name, way in ways.items():
        np.testing.assert_allclose(way()[0], right, rtol=1e-4, atol=1e-5, err_msg=name)
    started = time.perf_counter()
    ways["off"]()
    once = time.perf_counter() - started
    runs = max(1, int(seconds / once))
    taken = {name: [] for name in ways}
    order = list(ways)
    for _ in range(rounds):
        order.append(order.pop(0))
        for name in order:
            way = ways[name]
            started = time.perf_counter()
            for _ in range(runs):
                way()
            taken[name].append((time.perf_counter() - started) / runs)
    return taken


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


def ratios(taken: dict[str, list[float]]) -> dict[str, float]:
    """The medians over rounds of the two ratios that are judged."""
    by_round = list(zip(taken["off"], taken["on"], taken["by hand"], strict=True))
    return {
        "runs per second, on / off": statistics.median(off / on for off, on, _ in by_round),
        "ours / by hand": statistics.median(on / hand for _, on, hand in by_round),
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    onnxruntime.register_execution_provider_library(EP, onnxruntime_ep_webgpu.get_library_path())
    results = {}
    for name, model in CASES.items():
        taken = measure(model, rounds)
        print(name)
        for way, times in taken.items():
            low, _, high = statistics.quantiles(times, n=4)
            middle = statistics.median(times)
            print(f"  {way:8s} {1 / middle:9.0f} runs/s  {middle * 1e6:8.1f} us ({low * 1e6:.1f} to {high * 1e6:.1f})")
        results[name] = ratios(taken)
        for what, ratio in results[name].items():
            print(f"  {what}: {ratio:.3f}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
