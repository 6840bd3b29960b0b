# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs random small graphs on the OpenVINO EP in one thread, and then in several, and checks memory.

    python backend_openvino_graphs.py [--count 5000] [--seed 0] [--threads 4] [--runs 10]

No run may change an input, an earlier output, or memory that the caller released, or terminate the process. Otherwise,
the exit status is 1. The program also lists wrong values with the operators of the model, models that terminate the
process when the EP compiles them, and models that the backend refuses, but whose few runs without it are right. It
requires Linux, and the EP, built-in or plugin.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import os
import random
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from backend_openvino_children import in_children
from backend_openvino_random_graphs import Graph, random_graph
from backend_test_execution_providers import OPENVINO, register_openvino_plugin

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, SessionOptions

MEMORY, REFUSED_RIGHT, WRONG = "changed memory", "refused though right", "wrong values"
NO_SESSION, RIGHT, IN_A_RUN = "no session", "right", "process terminated in a run"
_Run = Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]]


def session_without_backend(graph: Graph) -> InferenceSession:
    options = SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, graph.level)
    for name, size in graph.overrides.items():
        options.add_free_dimension_override_by_name(name, size)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]
    if devices:  # of the plugin
        options.add_provider_for_devices(devices[:1], graph.options)
    else:
        options.add_provider(OPENVINO, graph.options)
    return InferenceSession(graph.model.SerializeToString(), options)


def check(threads: int, runs: int, seed: int) -> str:
    """Return the result of the graph of a seed."""
    graph = random_graph(seed)
    options = SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        oracle = InferenceSession(graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # such as an operator that is not defined for a type
        return NO_SESSION
    try:
        rep = onnxruntime.backend.prepare(
            graph.model.SerializeToString(),
            provider_options={OPENVINO: graph.options},
            session_options={"graph_optimization_level": graph.level},
            free_dimension_overrides=graph.overrides,
        )
    except Exception as error:
        if "or use CPUExecutionProvider" not in str(error):
            return NO_SESSION
        session = session_without_backend(graph)
        result = problem(functools.partial(session.run, None), oracle, graph, seed, runs)
        return REFUSED_RIGHT if result == RIGHT else f"refused, {result}"
    if not rep.node_assignment or not rep.node_assignment[OPENVINO]:
        return NO_SESSION
    return problem(rep.run, oracle, graph, seed, runs, threads)


def prepared(seed: int) -> str:
    """Return whether the process lives after the session of a graph was created."""
    with contextlib.suppress(Exception):
        session_without_backend(random_graph(seed))
    return IN_A_RUN


def problem(run: _Run, oracle: InferenceSession, graph: Graph, seed: int, runs: int, threads: int = 0) -> str:
    """Return what is wrong with the runs of one thread and of several ones."""
    found = {client(run, oracle, graph, runs, seed)}
    together = threading.Barrier(threads + 1)

    def work(number: int) -> None:
        together.wait()
        found.add(client(run, oracle, graph, runs, seed + number))

    works = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for each in works:
        each.start()
    together.wait()
    for each in works:
        each.join()
    return min(found, key=[MEMORY, WRONG, "failed run", RIGHT].index)


def client(run: _Run, oracle: InferenceSession, graph: Graph, runs: int, seed: int) -> str:
    draw = random.Random(seed)
    kept: list[tuple[np.ndarray, bytes]] = []  # arrays that no run may change
    result = RIGHT
    for _ in range(runs):
        arrays = graph.arrays(draw)
        try:
            expected = oracle.run(None, arrays)
        except Exception:  # such as a Reshape that does not fit
            continue
        mode = draw.choice(("kept", "released", "read-only"))
        if mode == "read-only":
            arrays = {name: mapped(array) for name, array in arrays.items()}
        for _ in range(2):
            try:
                outputs = run(arrays)
            except Exception:
                result = "failed run"
                continue
            kept += [(output, output.tobytes()) for output in outputs]
            for output, wanted in zip(outputs, expected, strict=True):
                if output.shape != wanted.shape or not np.allclose(output, wanted, 0.01, 0.02, equal_nan=True):
                    result = WRONG
        shapes = [(array.shape, array.dtype) for array in arrays.values()]
        if mode != "released":
            kept += [(array, array.tobytes()) for array in arrays.values()]
        arrays = outputs = None
        if mode == "released":  # numpy gives these arrays the memory of the released ones
            victims = [np.zeros(shape, dtype) for shape, dtype in shapes]
            kept += [(victim, victim.tobytes()) for victim in victims]
        if any(array.tobytes() != before for array, before in kept):
            return MEMORY
    return result


def mapped(array: np.ndarray) -> np.ndarray:
    """Return a copy in memory that cannot be written: a write terminates the process."""
    if not array.size:
        return array
    with tempfile.TemporaryFile() as file:
        file.write(array.tobytes())
        file.flush()
        return np.asarray(np.memmap(file, array.dtype, "r", shape=array.shape))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="number of graphs (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph (default: 0)")
    parser.add_argument("--threads", type=int, default=4, help="threads that run a graph (default: 4)")
    parser.add_argument("--runs", type=int, default=10, help="pairs of runs of each thread (default: 10)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    register_openvino_plugin()
    found: collections.Counter[str] = collections.Counter()
    operators: collections.Counter[str] = collections.Counter()  # of models with wrong values
    seeds = range(given.seed, given.seed + given.count)
    for seed, answer in in_children(functools.partial(check, given.threads, given.runs), seeds):
        result = answer or next(in_children(prepared, [seed]))[1] or "process terminated by the model"
        found[result] += 1
        names = sorted({node.op_type for node in random_graph(seed).model.graph.node})
        if result.endswith(WRONG):
            operators.update(names)
        if result not in (NO_SESSION, RIGHT) and not result.startswith("refused,"):
            print(f"graph {seed}: {result}: {' '.join(names)}", flush=True)
    print(
        f"{given.count} graphs: {dict(found)}; operators of models with wrong values: {dict(operators.most_common())}"
    )
    return int(found[MEMORY] + found[IN_A_RUN] > 0)


if __name__ == "__main__":
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    sys.exit(main())
