# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models, threads, and checks for tests of graph capture."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest import mock

import numpy as np
from onnx import ModelProto, helper

import onnxruntime
import onnxruntime.backend
from helpers.models import model, parsed
from onnxruntime import InferenceSession
from onnxruntime.backend.capture import graphs, sessions

_OPERATORS = ("Sigmoid", "Relu", "Tanh", "Neg", "Abs")


def chain(nodes: int = 6, shape: tuple = ("N", 4)) -> ModelProto:
    """Return a model of many small kernels."""
    names = ["X", *(f"t{i}" for i in range(nodes - 1))]
    steps = [helper.make_node(_OPERATORS[i % 5], [names[i]], [names[i + 1]]) for i in range(nodes - 1)]
    return model([*steps, helper.make_node("Add", [names[-1], "X"], ["Y"])], {"X": shape}, {"Y": shape})


def two_inputs() -> ModelProto:
    """Return ``Y = A * B``, ``Z = A - B``: exchanged inputs change Z."""
    return parsed("(float[N] A, float[N] B) => (float[N] Y, float[N] Z) { Y = Mul (A, B) Z = Sub (A, B) }")


def shapes_on_the_cpu() -> ModelProto:
    """Return a model that ORT captures only with a fixed size: nodes on the CPU EP compute a factor from a shape."""
    nodes = """
        S = Shape (X) E = Equal (S, M) W = Where (E, O, S) B = Expand (Z, W) T = Add (X, B)
        N = Gather (W, I) R = Reshape (N, K) F = Cast <to = 1> (R) U = Mul (T, F) Y = Tanh (U)
    """
    constants = (
        "int64[2] M = {-1,-1}, int64[2] O = {1,1}, int64[1] I = {0}, int64[1] K = {1}, float[1,4] Z = {1, 2, 3, 4}"
    )
    return parsed(f"(float[batch,4] X) => (float[batch,4] Y) <{constants}> {{ {nodes} }}")


class Expected:
    """The outputs of a model on the CPU EP."""

    def __init__(self, made: ModelProto) -> None:
        self._session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        self._names = [value.name for value in self._session.get_inputs()]

    def __call__(self, *inputs) -> list[np.ndarray]:
        return self._session.run(None, dict(zip(self._names, inputs, strict=True)))


@contextmanager
def captured_ids(rep, threads: set[int] | None = None) -> Iterator[list[int]]:
    """Collect the graph id of every run with an IO binding, and the ids of the threads in a set."""
    ids = []

    def watched(binding, options):
        if threads is not None:
            threads.add(threading.get_ident())
        ids.append(int(options.get_run_config_entry("gpu_graph_id")))
        return type(rep.session).run_with_iobinding(rep.session, binding, options)

    with mock.patch.object(rep.session, "run_with_iobinding", watched):
        yield ids


def capture_of(session: InferenceSession) -> graphs.Capture | None:
    """Return the captured graphs of a session."""
    return sessions.capture_of(session)


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Call ``work(i)`` in ``count`` threads that start together; raise the error of a thread."""
    start = threading.Barrier(count)

    def started(i: int) -> None:
        start.wait()
        work(i)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(started, i) for i in range(count)]:
            done.result()


class Checks:
    """Methods for tests that compare outputs with those of the CPU EP."""

    def check(self, got, expected) -> None:
        for have, want in zip(got, expected, strict=True):
            self.assertEqual((have.shape, have.dtype), (want.shape, want.dtype))
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)

    def data(self, seed: int, *shape: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)

    def check_run(self, rep, expected: Expected, *inputs: np.ndarray, **keywords) -> None:
        self.check(rep.run([*inputs], **keywords), expected(*inputs))
