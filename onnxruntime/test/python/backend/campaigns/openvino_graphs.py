# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs random small graphs on the OpenVINO EP in one thread, and then in several, and checks memory.

    python -m campaigns.openvino_graphs [--count 5000] [--seed 0]

No run may change an input, an earlier output, or memory that the caller released, or terminate the process. Otherwise,
the exit status is 1. The program also lists wrong values with the operators of the model, models that terminate the
process when the EP compiles them, and models that the backend refuses, but whose few runs without it are right. It
requires Linux, and the EP, built-in or plugin.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
from helpers.execution_providers import OPENVINO, add_openvino, register_openvino_plugin

import onnxruntime
import onnxruntime.backend
from campaigns.children import in_children
from campaigns.openvino_random_graphs import Graph, random_graph
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

MEMORY, REFUSED_RIGHT, WRONG = "changed memory", "refused though right", "wrong values"
NO_SESSION, RIGHT, IN_A_RUN = "no session", "right", "process terminated in a run"
THREADS = 4  # that run a graph
RUNS = 10  # pairs of runs of each thread
RUNS_OF_REFUSED = 150  # few runs can be right by chance
_Run = Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]]


def bare_session(graph: Graph) -> InferenceSession:
    options = SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, graph.level)
    for name, size in graph.overrides.items():
        options.add_free_dimension_override_by_name(name, size)
    add_openvino(options, graph.options)
    return InferenceSession(graph.model.SerializeToString(), options)


def prepare(graph: Graph):
    return onnxruntime.backend.prepare(
        graph.model.SerializeToString(),
        provider_options={OPENVINO: graph.options},
        session_options={"graph_optimization_level": graph.level},
        free_dimension_overrides=graph.overrides,
    )


def check(seed: int) -> str:
    """Return the result of the graph of a seed."""
    graph = random_graph(seed)
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        oracle = InferenceSession(graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        rep = prepare(graph)
    except Exception as error:  # such as an operator that is not defined for a type
        if "or use CPUExecutionProvider" not in str(error):
            return NO_SESSION
        result = problem(partial(bare_session(graph).run, None), oracle, graph, RUNS_OF_REFUSED, seed)
        return REFUSED_RIGHT if result == RIGHT else f"refused, {result}"
    if not rep.node_assignment or not rep.node_assignment[OPENVINO]:
        return NO_SESSION
    return problem(rep.run, oracle, graph, RUNS, seed, THREADS)


def after_the_end(seed: int) -> str:
    """Return what terminated the process of a graph, unless the creation of a session does."""
    try:
        prepare(random_graph(seed))
    except Exception:
        return "refused, process terminated"
    return IN_A_RUN


def problem(run: _Run, oracle: InferenceSession, graph: Graph, runs: int, seed: int, threads: int = 1) -> str:
    """Return what is wrong with the runs of one thread, and then of several ones."""
    work = partial(client, run, oracle, graph, runs)
    found = {work(seed)}
    with ThreadPoolExecutor(threads, initializer=Barrier(threads).wait) as pool:
        found.update(pool.map(work, range(seed, seed + threads)))
    return min(found, key=[MEMORY, WRONG, "failed run", RIGHT].index)


def client(run: _Run, oracle: InferenceSession, graph: Graph, runs: int, seed: int) -> str:
    draw = random.Random(seed)
    kept: list[tuple[np.ndarray, bytes]] = []  # arrays that no run may change

    def keep(arrays: Iterable[np.ndarray]) -> None:
        kept.extend((array, array.tobytes()) for array in arrays)

    result = RIGHT
    for _ in range(runs):
        arrays = graph.arrays(draw)
        try:
            expected = oracle.run(None, arrays)
        except Exception:  # such as a Reshape that does not fit
            continue
        for _ in range(2):
            try:
                outputs = run(arrays)
            except Exception:
                result = "failed run"
                continue
            keep(outputs)
            for output, wanted in zip(outputs, expected, strict=True):
                if output.shape != wanted.shape or not np.allclose(output, wanted, 0.01, 0.02, equal_nan=True):
                    result = WRONG
        if draw.random() < 0.5:  # numpy gives these arrays the memory of the released ones
            shapes = [(array.shape, array.dtype) for array in arrays.values()]
            arrays = outputs = None
            keep([np.zeros(shape, dtype) for shape, dtype in shapes])
        else:
            keep(arrays.values())
        if any(array.tobytes() != before for array, before in kept):
            return MEMORY
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="number of graphs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph (default: %(default)s)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    register_openvino_plugin()
    found: Counter[str] = Counter()
    wrong: Counter[str] = Counter()  # operators of models with wrong values
    seeds = range(given.seed, given.seed + given.count)
    for seed, answer in in_children(check, seeds):
        result = answer or next(in_children(after_the_end, [seed]))[1] or "process terminated by the model"
        found[result] += 1
        names = sorted({node.op_type for node in random_graph(seed).model.graph.node})
        if result.endswith(WRONG):
            wrong.update(names)
        if result not in (NO_SESSION, RIGHT) and not result.startswith("refused,"):
            print(f"graph {seed}: {result}: {' '.join(names)}", flush=True)
    print(f"{given.count} graphs: {dict(found)}; operators of models with wrong values: {dict(wrong.most_common())}")
    return int(found[MEMORY] + found[IN_A_RUN] > 0)


if __name__ == "__main__":
    sys.exit(main())
