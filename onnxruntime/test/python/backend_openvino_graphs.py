# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs random small graphs on the OpenVINO EP, and compares values and memory.

    python backend_openvino_graphs.py [--count 5000] [--seed 0] [--threads 2] [--runs 40] [--log FILE]

The graphs consist of operators that copy, alias, or fold. The program runs each graph with several inputs and shapes,
in one thread and in several. It checks three conditions.

1. The outputs are those of the CPU EP without optimizations, also in equal runs.
2. No run changes an input, an earlier output, or memory that the caller released.
3. The backend refuses the graph, or conditions 1 and 2 are true.

The program also runs each graph that the backend refuses, without the backend, to count the refused graphs that are
right. Each process runs a batch of graphs, because a graph can terminate its process. The program requires the EP,
built-in or plugin. The exit status is 1 if a graph is wrong that the backend does not refuse.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from backend_openvino_random_graphs import Graph, random_graph
from backend_test_execution_providers import OPENVINO, register_openvino_plugin

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, SessionOptions

_BATCH = 100  # graphs of one process
_SECONDS = 60  # for one graph
_LAST_WORDS = 4000  # characters that a process wrote to its standard error stream before it ended
_MORE_RUNS = 20  # with new values, in one thread
RIGHT, WRONG, MEMORY = "right", "wrong values", "changed memory"
IN_PARALLEL = "in parallel"
REFUSED, NO_SESSION, FAILED = "refused", "no session", "failed run"


def check(graph: Graph, threads: int, runs: int) -> tuple[str, str]:
    """Return the result of one graph, and details."""
    options = dict(graph.options)
    if graph.seed % 2:  # as many runs can be parallel, also with free dimensions
        options["num_of_threads"] = str(max(threads, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            oracle = graph.session_of_the_oracle()
        except Exception as error:
            return NO_SESSION, f"CPU EP: {error}"
        try:
            rep = onnxruntime.backend.prepare(
                graph.model,
                provider_options={OPENVINO: options},
                session_options={"graph_optimization_level": graph.level},
                free_dimension_overrides=graph.overrides,
            )
        except Exception as error:
            if "would return wrong results" not in str(error):
                return NO_SESSION, str(error)
            return REFUSED, str(error)
    if not rep.node_assignment or not rep.node_assignment[OPENVINO]:
        return NO_SESSION, "no node on OpenVINO"
    kind, text = _problem(rep.run, oracle, graph, threads, runs)
    if not kind and not rep.why_serial:
        return RIGHT, IN_PARALLEL
    return kind or RIGHT, text


def check_without_backend(graph: Graph) -> tuple[str, str]:
    """Return the result of one graph that the backend refuses."""
    try:
        session = _session_without_backend(graph)
    except Exception as error:
        return NO_SESSION, str(error)
    names = [node.name for node in session.get_inputs()]

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        return session.run(None, dict(zip(names, arrays, strict=True)))

    kind, text = _problem(run, graph.session_of_the_oracle(), graph)
    return kind or RIGHT, text


def _session_without_backend(graph: Graph) -> InferenceSession:
    options = SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, graph.level)
    for name, size in graph.overrides.items():
        options.add_free_dimension_override_by_name(name, size)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]
    if devices:
        options.add_provider_for_devices(devices[:1], graph.options)
    else:
        options.add_provider(OPENVINO, graph.options)
    return InferenceSession(graph.model.SerializeToString(), options)


def _problem(
    run: Callable, oracle: InferenceSession, graph: Graph, threads: int = 2, runs: int = 10
) -> tuple[str, str]:
    """Return what is wrong with the runs of a graph, and details; two empty texts if nothing is wrong."""
    draw = random.Random(graph.seed)
    names = [node.name for node in oracle.get_inputs()]
    kept: list[tuple[np.ndarray, bytes, str]] = []  # arrays that no run may change
    try:
        for number, sizes in enumerate(graph.sizes):
            arrays = graph.arrays(sizes, draw)
            expected = oracle.run(None, dict(zip(names, arrays, strict=True)))
            mode = draw.choice(("kept", "released", "reused", "read-only", "shared"))
            if mode == "read-only":
                arrays = [_mapped(array) for array in arrays]
            for equal in range(3 if mode == "shared" else 2):
                copies = [array.copy() for array in arrays] if mode == "released" else arrays
                outputs = run(copies)
                where = f"run {number}, {mode}"
                if why := _difference(outputs, expected, graph):
                    return WRONG, f"{where}, equal run {equal}: {why}"
                kept += [(output, output.tobytes(), f"output of {where}") for output in outputs]
                if mode != "released":
                    kept += [(array, array.tobytes(), f"input of {where}") for array in copies]
                    continue
                shapes = [(array.shape, array.dtype) for array in copies]
                copies.clear()
                for shape, dtype in shapes:  # numpy gives them the memory of the released arrays
                    victim = np.zeros(shape, dtype)
                    kept.append((victim, victim.tobytes(), f"memory after {where}"))
            if mode == "reused":
                kept = [entry for entry in kept if all(entry[0] is not array for array in arrays)]
                again = graph.arrays(sizes, draw)
                for array, values in zip(arrays, again, strict=True):
                    array[...] = values
                expected = oracle.run(None, dict(zip(names, arrays, strict=True)))
                if why := _difference(run(arrays), expected, graph):
                    return WRONG, f"run {number}, reused: {why}"
            for array, before, what in kept:
                if array.tobytes() != before:
                    return MEMORY, f"{what} was changed until run {number}"
        for number in range(_MORE_RUNS):
            arrays = graph.arrays(draw.choice(graph.sizes), draw)
            expected = oracle.run(None, dict(zip(names, arrays, strict=True)))
            if why := _difference(run(arrays), expected, graph):
                return WRONG, f"later run {number}: {why}"
        return _problem_of_threads(run, oracle, graph, threads, runs)
    except Exception as error:
        return FAILED, f"{type(error).__name__}: {error}"


def _problem_of_threads(
    run: Callable, oracle: InferenceSession, graph: Graph, threads: int, runs: int
) -> tuple[str, str]:
    draw = random.Random(graph.seed + 1)
    names = [node.name for node in oracle.get_inputs()]
    problems: list[tuple[str, str]] = []
    together = threading.Barrier(threads)  # so that the EP needs a request for each thread at once

    def client(own: list[tuple[list[np.ndarray], list[np.ndarray]]]) -> None:
        try:
            together.wait()
            for number in range(runs):
                arrays, expected = own[number % len(own)]
                before = [array.tobytes() for array in arrays]
                outputs = run(arrays)
                if why := _difference(outputs, expected, graph):
                    problems.append((WRONG, f"in a thread: {why}"))
                if before != [array.tobytes() for array in arrays]:
                    problems.append((MEMORY, "an input was changed in a thread"))
                if problems:
                    return
        except Exception as error:
            problems.append((FAILED, f"in a thread: {type(error).__name__}: {error}"))

    works = []
    for _ in range(threads):
        own = []
        for sizes in graph.sizes:
            arrays = graph.arrays(sizes, draw)
            own.append((arrays, oracle.run(None, dict(zip(names, arrays, strict=True)))))
        works.append(threading.Thread(target=client, args=(own,)))
    for work in works:
        work.start()
    for work in works:
        work.join()
    return problems[0] if problems else ("", "")


def _mapped(array: np.ndarray) -> np.ndarray:
    """Return a copy in memory that cannot be written: a write terminates the process."""
    if not array.size:
        return array
    with tempfile.TemporaryFile() as file:
        file.write(array.tobytes())
        file.flush()
        return np.asarray(np.memmap(file, array.dtype, "r", shape=array.shape))


def _difference(outputs: list, expected: list, graph: Graph) -> str:
    for name, output, wanted in zip(graph.output_names, outputs, expected, strict=True):
        if output.shape != wanted.shape or output.dtype != wanted.dtype:
            return f"{name} is {output.dtype}{list(output.shape)}, not {wanted.dtype}{list(wanted.shape)}"
        same = np.allclose(output.astype(np.float64), wanted.astype(np.float64), rtol=0.01, atol=0.02, equal_nan=True)
        if not same:
            return f"{name} is {output.ravel()[:4]}, not {wanted.ravel()[:4]}"
    return ""


def _run_batch(threads: int, runs: int, *seeds: int) -> None:
    """Print each result. Without threads, run the graphs without the backend."""
    onnxruntime.set_default_logger_severity(4)
    register_openvino_plugin()
    for seed in seeds:
        graph = random_graph(seed)
        result = check(graph, threads, runs) if threads else check_without_backend(graph)
        print(json.dumps([seed, *result]), flush=True)
        del graph
        gc.collect()


def results(seeds: Sequence[int], threads: int, runs: int) -> Iterator[tuple[int, str, str]]:
    """Run graphs in processes, and return the seed, the result, and details of each graph."""
    left = list(seeds)
    while left:
        most = min(_BATCH, len(left))
        command = [sys.executable, "-X", "faulthandler", "-W", "ignore", __file__, "--batch", str(threads), str(runs)]
        command += map(str, left[:most])
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, stdout=out, stderr=errors)
            seconds = _SECONDS + most * 4
            try:
                status = child.wait(seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                status = f"{seconds} s"
                child.wait()
            out.seek(0)
            lines = [json.loads(line) for line in out if line.startswith("[") and line.endswith("]\n")]
            errors.seek(0)
            last_words = errors.read(_LAST_WORDS)
        yield from map(tuple, lines)
        del left[: len(lines)]
        if status:
            yield left.pop(0), MEMORY, f"the process ended with {status}: {last_words}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="number of graphs (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph (default: 0)")
    parser.add_argument("--threads", type=int, default=2, help="threads that run a graph (default: 2)")
    parser.add_argument("--runs", type=int, default=40, help="runs of each thread (default: 40)")
    parser.add_argument("--log", help="file to which the result of each graph is appended as one JSON line")
    parser.add_argument("--batch", type=int, nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.batch:
        _run_batch(*given.batch)
        return 0
    found: collections.Counter[str] = collections.Counter()
    started = time.monotonic()
    refused = []
    parallel_runs = 0

    def count(seed: int, result: str, text: str) -> None:
        found[result] += 1
        if given.log:
            with open(given.log, "a") as log:
                log.write(json.dumps([seed, result, text]) + "\n")

    for seed, result, text in results(range(given.seed, given.seed + given.count), given.threads, given.runs):
        count(seed, result, text)
        parallel_runs += given.threads * given.runs * (text == IN_PARALLEL)
        if result in (WRONG, MEMORY):
            print(f"graph {seed}: {result}: {text}", flush=True)
        if result == REFUSED:
            refused.append(seed)
    for seed, result, text in results(refused, 0, 0):
        count(seed, f"{REFUSED}, {result} without the backend", text)
    seconds = time.monotonic() - started
    print(f"{given.count} graphs in {seconds:.0f} s, {parallel_runs} runs in parallel: {dict(found)}")
    return bool(found[WRONG] + found[MEMORY])


if __name__ == "__main__":
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    sys.exit(main())
