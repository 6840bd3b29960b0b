# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Captures operators on the WebGPU EP, replays them on other data, and compares outputs with runs without capture.

This is the evidence for ``capture/operators.py``. Run it again for a new release of ORT or of the plugin EP, or to
permit another operator.

    with_software_gpu.sh python -m campaigns.captured_operators [OPERATOR ...]

Outputs agree if all their bits do. The program prints a line for each operator, with four numbers of graphs: captured,
stale, right but refused by the rule, and without a change of outputs. The last number proves nothing. The exit status
is 1 if a graph that the rule permits was stale. Each operator runs in its own process, because some variants terminate
it. The program uses only the rule of the backend.
"""

from __future__ import annotations

import collections
import gc
import itertools
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, load_model

import onnxruntime
from campaigns.captured_variants import Variant, node_tests, variants
from onnxruntime import GraphOptimizationLevel, InferenceSession, OrtValue, RunOptions, SessionOptions
from onnxruntime.backend import provider_names
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.operators import OPERATORS
from onnxruntime.capi import onnxruntime_pybind11_state

EP = provider_names.WEBGPU
LEVELS = (GraphOptimizationLevel.ORT_DISABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL)
COPIES = ("ScatterND", "ScatterElements", "LSTM", "GRU")
# The errors of ORT for a variant that it does not capture or run.
ORT_ERRORS = (
    RuntimeError,
    onnxruntime_pybind11_state.Fail,
    onnxruntime_pybind11_state.InvalidArgument,
    onnxruntime_pybind11_state.InvalidGraph,
    onnxruntime_pybind11_state.NotImplemented,
    onnxruntime_pybind11_state.RuntimeException,
)
# The content of a buffer before a replay: it shows an output that is not written, even if its value is the same.
_POISON = 77
_GRAPH_ID = 5
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Seen(NamedTuple):
    """The result of one captured graph."""

    stale: list[str]
    moved: bool
    problem: str
    operators: set[tuple[str, str]]


# --- sessions ---------------------------------------------------------------------------------------------------------


def open_session(
    made: ModelProto, level: GraphOptimizationLevel, attributes: dict | None = None
) -> tuple[InferenceSession, ModelProto]:
    """Create a session that captures, without the backend; return it and its final graph."""
    options = SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    for name, value in (attributes or {}).items():
        setattr(options, name, value)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP]
    options.add_provider_for_devices(devices[:1], {"enableGraphCapture": "1"})
    with eligibility.written(options) as path:
        session = InferenceSession(made.SerializeToString(), options, enable_fallback=0)
        return session, load_model(path, load_external_data=False)


def _run_options(graph_id: int) -> RunOptions:
    options = RunOptions()
    options.log_severity_level = 4
    options.add_run_config_entry("gpu_graph_id", str(graph_id))
    return options


def on_device(session: InferenceSession, array: np.ndarray) -> OrtValue:
    value = session.create_ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "webgpu")
    value.update_inplace(np.ascontiguousarray(array))
    return value


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(_BITS[array.dtype.itemsize]).reshape(array.shape)


def _is_same(have: np.ndarray, want: np.ndarray) -> bool:
    return have.shape == want.shape and np.array_equal(bits(have), bits(want))


def _poison(array: np.ndarray) -> np.ndarray:
    return np.full(array.shape, _POISON, array.dtype)


def replay(session: InferenceSession, final: ModelProto, sets: list[dict[str, np.ndarray]]) -> Seen:
    """Capture with the first set of inputs, and replay with the others."""
    names = [value.name for value in session.get_outputs()]
    on_cpu = [memory.name == "Cpu" for memory in session.get_output_memory_infos()]
    right = [session.run(names, feeds, _run_options(-1)) for feeds in sets]
    binding = session.io_binding()
    buffers: dict[str, OrtValue] = {}
    for name, array in sets[0].items():
        buffers[name] = on_device(session, array)
        binding.bind_ortvalue_input(name, buffers[name])
    targets = []
    for name, want in zip(names, right[0], strict=True):
        target = on_device(session, _poison(want))
        targets.append(target)
        binding.bind_ortvalue_output(name, target)
    stale: set[str] = set()
    moved = False
    for i, (feeds, wants) in enumerate(zip(sets, right, strict=True)):
        for name, buffer in buffers.items():
            buffer.update_inplace(np.ascontiguousarray(feeds[name]))
        for target, want, stays in zip(targets, wants, on_cpu, strict=True):
            if i and not stays:  # an output computed on the CPU, from shapes alone, is right if it stays
                target.update_inplace(_poison(want))
        session.run_with_iobinding(binding, _run_options(_GRAPH_ID))
        outputs = binding.copy_outputs_to_cpu()
        for name, have, want, first in zip(names, outputs, wants, right[0], strict=True):
            if not _is_same(have, want):
                stale.add(name)
            if want.shape == first.shape and not _is_same(want, first):
                moved = True
    operators = {(node.domain, node.op_type) for node in final.graph.node}
    return Seen(sorted(stale), moved, eligibility._unknown(final), operators)


def data_sets(feeds: dict[str, np.ndarray], count: int = 4) -> list[dict[str, np.ndarray]]:
    """Return these inputs, and others. Integers may be indices, so they are only exchanged."""
    rng = np.random.default_rng(1)

    def other(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "f":
            return np.asarray(rng.standard_normal(array.shape) * 2, array.dtype)
        if array.dtype.kind == "b":
            return np.asarray(rng.random(array.shape) < 0.5)
        if not array.size:
            return array
        return np.asarray(rng.choice(array.ravel(), array.shape), array.dtype)

    found = [feeds]
    while len(found) < count:
        found.append({name: other(array) for name, array in feeds.items()})
    return found


# --- where an operator stands -----------------------------------------------------------------------------------------

_AROUND = {TensorProto.FLOAT: "Neg", TensorProto.BOOL: "Not"}


def placed(variant: Variant, *, shared: bool) -> ModelProto | None:
    """Put the operator between two others; if ``shared``, its inputs and outputs are outputs of the graph, too."""
    made = ModelProto()
    made.CopyFrom(variant.model)
    graph = made.graph
    constants = {tensor.name for tensor in graph.initializer}
    before: list[NodeProto] = []
    after: list[NodeProto] = []
    also = []
    renamed: dict[str, str] = {}
    for values, nodes in ((graph.input, before), (graph.output, after)):
        for value in values:
            kind = value.type.tensor_type.elem_type
            around = _AROUND.get(kind)
            if around is None or value.name in constants:
                continue
            inner = f"{value.name}_inner"
            renamed[value.name] = inner
            if nodes is before:
                nodes.append(helper.make_node(around, [value.name], [inner]))
            else:
                nodes.append(helper.make_node(around, [inner], [value.name]))
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


def captures(variant: Variant) -> Iterator[Seen]:
    """Capture a variant in every position, without and with the optimizers; skip graphs that ORT does not capture."""
    models = [variant.model, placed(variant, shared=False), placed(variant, shared=True)]
    for made, level in itertools.product(filter(None, models), LEVELS):
        try:
            session, final = open_session(made, level)
            if any(memory.name == "Cpu" for memory in session.get_input_memory_infos()):
                continue
            yield replay(session, final, data_sets(variant.feeds))
        except ORT_ERRORS:
            continue
        finally:
            session = None
            gc.collect()


# --- the command ------------------------------------------------------------------------------------------------------


def register() -> None:
    import onnxruntime_ep_webgpu  # noqa: PLC0415

    onnxruntime.set_default_logger_severity(4)
    onnxruntime.register_execution_provider_library(EP, onnxruntime_ep_webgpu.get_library_path())


def _child() -> None:
    register()
    for operator, name, made, feeds in pickle.load(sys.stdin.buffer):
        print(json.dumps({"begin": name}), flush=True)
        for seen in captures(Variant(operator, name, made, feeds)):
            found = seen._asdict()
            found["variant"] = name
            found["operators"] = operator in [found for _, found in seen.operators]
            print(json.dumps(found), flush=True)


def main(names: list[str]) -> int:
    tried = sorted({name for _, name in OPERATORS} | set(COPIES))
    print(f"onnxruntime {onnxruntime.__version__}")
    wrong = 0
    everything = list(variants())
    everything += node_tests()  # ONNX takes ten seconds to make its tests
    for operator in names or tried:
        given = [tuple(variant) for variant in everything if variant.operator == operator]
        done = subprocess.run(
            [sys.executable, __file__, "--child"], input=pickle.dumps(given), stdout=subprocess.PIPE, check=False
        )
        lines = done.stdout.splitlines()
        counts: collections.Counter = collections.Counter()
        for line in lines:
            seen = json.loads(line)
            if "begin" in seen:
                counts["variants"] += 1
                continue
            if not seen["stale"]:
                counts["right"] += 1
                counts["right, refused"] += bool(seen["problem"])
            else:
                counts["stale"] += 1
                if not seen["problem"]:
                    wrong += 1
                    print(f"WRONG {operator} {seen['variant']}: {seen['stale']} permitted and stale")
            counts["elsewhere"] += not seen["operators"]
            counts["unmoved"] += not seen["moved"]
        parts = [f"{count} {what}" for what, count in counts.items() if count]
        if done.returncode:
            parts.append(f"died with {done.returncode} after {lines[-1:]}")
        print(f"{operator}: {', '.join(parts)}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child()
    else:
        sys.exit(main(sys.argv[1:]))
