# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Captures operators on the WebGPU EP, replays them on other data, and compares outputs with runs without capture.

This is the evidence for ``capture/operators.py``. Run it again for a new release of ORT or of the plugin EP, or to
permit another operator.

    with_software_gpu.sh python -m campaigns.captured_operators [OPERATOR ...]

Outputs agree if all their bits do. The program prints a line for each operator with the numbers of its graphs. A graph
without a change of outputs (*unmoved*) proves nothing. The exit status is 1 if a permitted graph was stale.
Each operator runs in its own process, because some variants terminate it.
"""

import collections
import itertools
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from helpers.execution_providers import register_webgpu_plugin
from onnx import ModelProto, TensorProto, helper

import onnxruntime
from campaigns.captured_variants import Variant, node_tests, variants
from onnxruntime import GraphOptimizationLevel, InferenceSession, OrtValue, RunOptions, SessionOptions
from onnxruntime.backend.applied import nodes
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.operators import OPERATORS
from onnxruntime.backend.errors import ORT_ERRORS
from onnxruntime.backend.provider_names import WEBGPU

LEVELS = (GraphOptimizationLevel.ORT_DISABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL)
COPIES = ("ScatterND", "ScatterElements", "LSTM", "GRU")
_ERRORS = (*ORT_ERRORS, RuntimeError)  # for a variant that ORT does not capture or run


class Seen(NamedTuple):
    """The result of one captured graph: its stale outputs, whether outputs changed, and why the table refuses it."""

    stale: list[str]
    moved: bool
    problem: str


def _open_session(made: ModelProto, level: GraphOptimizationLevel) -> InferenceSession:
    """Create a session that captures, without the backend."""
    options = SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == WEBGPU]
    options.add_provider_for_devices(devices[:1], {"enableGraphCapture": "1"})
    return InferenceSession(made.SerializeToString(), options, enable_fallback=0)


def _run_options(graph_id: int) -> RunOptions:
    options = RunOptions()
    options.log_severity_level = 4
    options.add_run_config_entry("gpu_graph_id", str(graph_id))
    return options


def _on_device(session: InferenceSession, array: np.ndarray) -> OrtValue:
    value = session.create_ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "webgpu")
    value.update_inplace(np.ascontiguousarray(array))
    return value


def _poison(array: np.ndarray) -> np.ndarray:
    """Return the content of a buffer before a replay: it shows an output that is not written."""
    return np.full(array.shape, 77, array.dtype)


def _same(have: np.ndarray, want: np.ndarray) -> bool:
    return have.shape == want.shape and have.tobytes() == want.tobytes()


def _replay(session: InferenceSession, sets: list[dict[str, np.ndarray]]) -> tuple[list[str], bool]:
    """Capture with the first set of inputs, replay with the others. Return the stale outputs, and whether any moved."""
    names = [value.name for value in session.get_outputs()]
    on_cpu = [memory.name == "Cpu" for memory in session.get_output_memory_infos()]
    right = [session.run(names, feeds, _run_options(-1)) for feeds in sets]
    binding = session.io_binding()
    buffers = {name: _on_device(session, array) for name, array in sets[0].items()}
    targets = [_on_device(session, _poison(want)) for want in right[0]]
    for name, buffer in buffers.items():
        binding.bind_ortvalue_input(name, buffer)
    for name, target in zip(names, targets, strict=True):
        binding.bind_ortvalue_output(name, target)
    stale, moved = set(), False
    for i, (feeds, wants) in enumerate(zip(sets, right, strict=True)):
        for name, buffer in buffers.items():
            buffer.update_inplace(np.ascontiguousarray(feeds[name]))
        for target, want, stays in zip(targets, wants, on_cpu, strict=True):
            if i and not stays:  # an output computed on the CPU, from shapes alone, is right if it stays
                target.update_inplace(_poison(want))
        session.run_with_iobinding(binding, _run_options(5))
        for name, have, want, first in zip(names, binding.copy_outputs_to_cpu(), wants, right[0], strict=True):
            if not _same(have, want):
                stale.add(name)
            moved |= want.shape == first.shape and not _same(want, first)
    return sorted(stale), moved


def data_sets(feeds: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Return these inputs, and three others. Integers may be indices, so they are only exchanged."""
    rng = np.random.default_rng(1)

    def other(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "f":
            return np.asarray(rng.standard_normal(array.shape) * 2, array.dtype)
        if array.dtype.kind == "b":
            return np.asarray(rng.random(array.shape) < 0.5)
        return np.asarray(rng.choice(array.ravel(), array.shape), array.dtype) if array.size else array

    return [feeds, *({name: other(array) for name, array in feeds.items()} for _ in range(3))]


def see(variant: Variant, made: ModelProto | None = None, level: GraphOptimizationLevel = LEVELS[0]) -> Seen | None:
    """Return the result of a captured variant, or of another model with its inputs, ``None`` if ORT does not run it."""
    made = made or variant.model
    try:
        session = _open_session(made, level)
        if any(memory.name == "Cpu" for memory in session.get_input_memory_infos()):
            return None
        stale, moved = _replay(session, data_sets(variant.feeds))
    except _ERRORS:
        return None
    return Seen(stale, moved, eligibility.unknown(nodes.recorded_nodes(session)[WEBGPU], made))


def placed(variant: Variant, *, shared: bool) -> ModelProto | None:
    """Put the operator between two others; if ``shared``, its inputs and outputs are outputs of the graph, too."""
    made = ModelProto()
    made.CopyFrom(variant.model)
    graph = made.graph
    constants = {tensor.name for tensor in graph.initializer}
    around = {TensorProto.FLOAT: "Neg", TensorProto.BOOL: "Not"}
    before, after, also, renamed = [], [], [], {}
    for values, added in ((graph.input, before), (graph.output, after)):
        for value in values:
            kind = value.type.tensor_type.elem_type
            if kind not in around or value.name in constants:
                continue
            inner = renamed[value.name] = f"{value.name}_inner"
            ends = [value.name], [inner]
            added.append(helper.make_node(around[kind], *(ends if added is before else ends[::-1])))
            also.append(helper.make_tensor_value_info(inner, kind, None))
    if not renamed:
        return None
    if shared:
        graph.output.extend(also)
    middle = list(graph.node)
    for node in middle:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    del graph.node[:]
    graph.node.extend(before + middle + after)
    return made


def _captures(variant: Variant) -> Iterator[Seen]:
    """Capture a variant in every position, without and with the optimizers; skip graphs that ORT does not capture."""
    models = [variant.model, placed(variant, shared=False), placed(variant, shared=True)]
    for made, level in itertools.product(filter(None, models), LEVELS):
        seen = see(variant, made, level)
        if seen is not None:
            yield seen


def _check(operator: str) -> int:
    """Capture all variants of an operator, and print the numbers. Return whether a permitted graph was stale."""
    onnxruntime.set_default_logger_severity(4)
    register_webgpu_plugin()
    counts: collections.Counter = collections.Counter()
    for variant in itertools.chain(variants(), node_tests()):
        if variant.operator != operator:
            continue
        print(f"\r{operator} {variant.name}", end="", file=sys.stderr, flush=True)  # the last one if the process ends
        for seen in _captures(variant):
            kind = "stale" if seen.stale else "right"
            counts[f"{kind}, refused" if seen.problem else kind] += 1
            counts["unmoved"] += not seen.moved
            if seen.stale and not seen.problem:
                print(f"WRONG {operator} {variant.name}: {seen.stale} permitted and stale")
    print(f"{operator}: {dict(counts)}", flush=True)
    return int(counts["stale"] > 0)


def main(names: list[str]) -> int:
    print(f"onnxruntime {onnxruntime.__version__}", flush=True)
    tried = names or sorted({name for _, name in OPERATORS} | set(COPIES))
    return max(subprocess.run([sys.executable, __file__, "--one", name], check=False).returncode for name in tried)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.exit(_check(sys.argv[2]))
    sys.exit(main(sys.argv[1:]))
