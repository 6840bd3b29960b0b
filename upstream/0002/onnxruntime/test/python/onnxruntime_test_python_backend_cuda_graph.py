# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests enable_cuda_graph and gpu_graph_id of the backend API: a run returns the outputs of a run without capture."""

from __future__ import annotations

import _thread
import gc
import itertools
import os
import signal
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from unittest import mock

import numpy as np
import onnx
import onnx.parser

import onnxruntime
from onnxruntime import InferenceSession, backend
from onnxruntime.backend import NotPermittedError, cuda_calls, cuda_graphs
from onnxruntime.backend.allowlist_tables import CUDA, RECORD_ASSIGNMENT, SHRINKAGE

CAPTURE = {CUDA: {"enable_cuda_graph": True}}
SHRINK = {SHRINKAGE: "gpu:0"}


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')


MODEL = model("(float[N, 3] X) => (float[N, 3] Y, int64[2] S) { A = Mul(X, X) Y = Sub(X, A) S = Shape(X) }")


def data(seed: int, rows: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, 3), np.float32)


def cuda_works() -> bool:
    """Return whether ORT can create a session on CUDA."""
    if CUDA not in onnxruntime.get_available_providers():
        return False
    return CUDA in InferenceSession(MODEL.SerializeToString(), providers=[CUDA]).get_providers()


needs_cuda = unittest.skipUnless(cuda_works(), "requires a CUDA device and a build for it")


class Inner:
    """The part of a session that owns memory. It records its end."""

    def __init__(self, ended: list[bool]) -> None:
        self._ended = ended

    def __del__(self) -> None:
        self._ended.append(True)


class PermitTest(unittest.TestCase):
    """These settings are refused before ORT receives any setting."""

    def assert_refused(self, words: str, call=backend.prepare, *positional, **keywords) -> None:
        with (
            mock.patch.object(backend.backend, "get_available_providers", return_value=[CUDA]),
            mock.patch.object(backend.backend, "SessionOptions") as options,
            self.assertRaisesRegex(NotPermittedError, words),
        ):
            call(MODEL, provider_options=CAPTURE, **keywords)
        options.assert_not_called()

    def test_settings_of_the_session(self) -> None:
        self.assert_refused("enable_cuda_graph'.: requires", session_config={RECORD_ASSIGNMENT: 0})
        self.assert_refused("would release the memory into which", run_config=SHRINK)

    def test_a_graph_id_without_capture(self) -> None:
        rep = backend.prepare(MODEL, provider_options={}, run_config={"gpu_graph_id": 3})
        np.testing.assert_array_equal(rep.run([data(0)])[0], data(0) - data(0) ** 2)


class CallsTest(unittest.TestCase):
    """No other thread is in a call while a thread captures. These tests need no device."""

    def setUp(self) -> None:
        self.thread: SimpleQueue = SimpleQueue()
        _thread.start_new_thread(cuda_calls.serve, (self.thread,))
        self.addCleanup(self.thread.put, None)
        self.running: set[object] = set()  # calls that the tests make
        self.mixed = 0  # captures beside such a call

    def plain(self, seconds: float = 0.0001) -> None:
        call = object()
        self.running.add(call)
        try:
            time.sleep(seconds)
        finally:
            self.running.discard(call)

    def capture(self) -> None:
        for _ in range(3):
            self.mixed += bool(self.running)
            time.sleep(0.0001)

    def test_threads(self) -> None:
        def work(number: int) -> None:
            for _ in range(100):
                if number:
                    cuda_calls.beside(self.plain)
                else:
                    cuda_calls.call(self.thread, cuda_calls.alone, self.capture)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        self.assertEqual(self.mixed, 0)

    def test_calls_run_side_by_side(self) -> None:
        barrier = threading.Barrier(2, timeout=30)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: cuda_calls.beside(barrier.wait), range(2)))

    def test_an_error_leaves_nothing(self) -> None:
        for function in (cuda_calls.beside, cuda_calls.alone):
            with self.assertRaises(ZeroDivisionError):
                cuda_calls.call(self.thread, function, divmod, 1, 0)
        cuda_calls.call(self.thread, cuda_calls.alone, self.capture)
        cuda_calls.beside(self.plain)

    def test_calls_that_would_wait_for_themselves(self) -> None:
        """A signal handler or a finalizer makes them in the middle of a call."""
        call, alone, beside = cuda_calls.call, cuda_calls.alone, cuda_calls.beside
        beside(beside, self.plain)
        for nested in (
            lambda: beside(call, self.thread, self.plain),
            lambda: call(self.thread, call, self.thread, self.plain),
            lambda: call(self.thread, alone, beside, self.plain),
        ):
            with self.assertRaisesRegex(RuntimeError, "in the middle of a call"):
                nested()

    @unittest.skipUnless(hasattr(signal, "setitimer"), "requires POSIX signals")
    def test_interrupts(self) -> None:
        class Interrupt(BaseException):
            pass

        def interrupt(*_) -> None:
            raise Interrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for number in range(500):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00001 + 0.000002 * (number % 100))
                cuda_calls.beside(self.plain)
                cuda_calls.call(self.thread, cuda_calls.alone, self.capture)
                signal.pause()
            except Interrupt:
                pass
        self.assertNotIn(threading.get_ident(), cuda_calls._running)
        cuda_calls.call(self.thread, cuda_calls.alone, self.capture)

    def test_a_session_ends_while_a_thread_captures(self) -> None:
        class Session:
            def __init__(self) -> None:
                self._sess = Inner(ended)

            def get_providers(self) -> list[str]:
                return [CUDA]

        ended: list[bool] = []
        sessions = [cuda_calls.create(Session)]

        def end() -> None:
            sessions.clear()
            gc.collect()
            self.assertEqual(ended, [])

        cuda_calls.call(self.thread, cuda_calls.alone, end)
        cuda_calls.beside(self.plain)
        self.assertEqual(ended, [True])

    def test_a_session_that_fails_ends_at_once(self) -> None:
        def fail() -> None:
            inner = Inner(ended)
            raise RuntimeError(f"{inner} fails")

        ended: list[bool] = []
        try:
            cuda_calls.create(fail)
        except RuntimeError as error:
            self.assertEqual(ended, [True], error)


@needs_cuda
class GraphTest(unittest.TestCase):
    def check(self, rep, x: np.ndarray, **run_config) -> None:
        y, shape = rep.run([x], run_config=run_config or None)
        np.testing.assert_array_equal(y, x - x * x)
        self.assertEqual(tuple(shape), x.shape)

    def graphs(self, rep) -> int:
        return len(rep._session._begun)

    def test_each_run(self) -> None:
        """The example of the request: a bare session returns right outputs once."""
        rep = backend.prepare(MODEL, "CUDA", provider_options=CAPTURE)
        for seed in range(5):
            self.check(rep, data(seed))
        self.assertEqual(self.graphs(rep), 1)
        self.assertEqual(rep._session.get_provider_options()[CUDA]["enable_cuda_graph"], "1")
        y, _ = backend.run(MODEL, [data(9)], "CUDA", provider_options=CAPTURE)
        np.testing.assert_array_equal(y, data(9) - data(9) ** 2)

    def test_off(self) -> None:
        rep = backend.prepare(MODEL, provider_options={CUDA: {"enable_cuda_graph": 0}})
        self.assertIs(type(rep._session), InferenceSession)
        self.check(rep, data(0))

    def test_shapes(self) -> None:
        rep = backend.prepare(MODEL, provider_options=CAPTURE)
        for seed, rows in enumerate((1, 2, 0, 3, 2, 1, 0, 3)):
            self.check(rep, data(seed, rows))
        self.check(rep, np.asfortranarray(data(9, 3)))
        self.check(rep, data(9, 6)[::2])
        self.assertEqual(self.graphs(rep), 4)

    def test_more_shapes_than_graphs(self) -> None:
        rep = backend.prepare(MODEL, provider_options=CAPTURE)
        with mock.patch.object(cuda_graphs, "_MOST_GRAPHS", 3):
            for rows in (*range(1, 6), *range(1, 6)):
                self.check(rep, data(rows, rows))
        self.assertEqual(self.graphs(rep), 3)

    def test_graph_ids(self) -> None:
        rep = backend.prepare(MODEL, provider_options=CAPTURE, run_config={"gpu_graph_id": 7})
        for seed in range(6):
            self.check(rep, data(seed), gpu_graph_id=seed % 3)
            self.check(rep, data(seed, 3))
            self.check(rep, data(seed), gpu_graph_id=-1)
        self.assertEqual(self.graphs(rep), 4)

    def test_inputs_that_are_not_copied(self) -> None:
        rep = backend.prepare(MODEL, provider_options=CAPTURE)
        self.check(rep, data(0))
        for wrong in (data(1).astype(np.float64), data(1)[:, :2], "text"):
            with self.assertRaises(Exception):  # noqa: B017 - ORT's own error, as without capture
                rep.run([wrong])
        np.testing.assert_array_equal(rep._session.run(["S"], {"X": data(2)})[0], [2, 3])
        self.check(rep, data(3))

    def test_threads(self) -> None:
        reps = [backend.prepare(MODEL, provider_options=options) for options in (CAPTURE, CAPTURE, {CUDA: {}})]

        def work(number: int) -> None:
            for seed in range(20):
                self.check(reps[(number + seed) % 3], data(seed, 1 + seed % 4))
                if seed % 5 == number % 5:
                    self.check(backend.prepare(MODEL, provider_options=CAPTURE), data(seed))
                    self.check(backend.prepare(MODEL, provider_options={CUDA: {}}), data(seed))

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))

    def test_stale_values_are_an_error(self) -> None:
        rep = backend.prepare(MODEL, provider_options=CAPTURE)
        stale = mock.patch.object(onnxruntime.OrtValue, "update_inplace")
        with stale, self.assertRaisesRegex(RuntimeError, "a replay returns wrong values for output 'Y'"):
            rep.run([data(0)])
        self.check(rep, data(1))

    def test_another_device(self) -> None:
        options = {CUDA: {"enable_cuda_graph": True, "device_id": 1}}
        try:
            rep = backend.prepare(MODEL, provider_options=options)
        except Exception as error:
            self.skipTest(f"requires two devices: {error}")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda seed: self.check(rep, data(seed)), range(8)))

    def test_a_run_that_would_release_memory(self) -> None:
        rep = backend.prepare(MODEL, provider_options=CAPTURE)
        with self.assertRaisesRegex(NotPermittedError, "would release the memory"):
            rep.run([data(0)], run_config=SHRINK)

    def test_threads_of_sessions_end(self) -> None:
        def wait_for(number: int) -> None:
            until = time.monotonic() + 30
            while len(cuda_calls._workers) != number and time.monotonic() < until:
                gc.collect()
                cuda_calls.beside(time.sleep, 0.01)
            self.assertEqual(len(cuda_calls._workers), number)

        wait_for(0)
        rep = backend.prepare(MODEL, provider_options=CAPTURE)
        self.check(rep, data(0))
        with self.assertRaisesRegex(Exception, "control flow"):  # ORT's own error
            backend.prepare(CONTROL_FLOW, provider_options=CAPTURE)
        wait_for(1)
        rep = None
        wait_for(0)

    @unittest.skipUnless(hasattr(os, "fork"), "requires fork")
    def test_a_forked_process(self) -> None:
        rep = backend.prepare(MODEL, provider_options=CAPTURE)
        with mock.patch.object(os, "getpid", return_value=0), self.assertRaisesRegex(RuntimeError, "A forked process"):
            rep.run([data(0)])


CONTROL_FLOW = model(
    "(bool C, float[3] X) => (float[3] Y) { Y = If(C) <"
    "then_branch = t () => (float[3] A) { A = Neg(X) }, else_branch = e () => (float[3] B) { B = Abs(X) }> }"
)
# Models whose replays could return other outputs than their runs, or whose capture fails. ORT does not refuse them.
REFUSED = {
    "input 'S' is in CPU memory": "(float[6] X, int64[2] S) => (float[A,B] Y) { Y = Reshape(X, S) }",
    "output 'X' is an input": "(float[3] X) => (float[3] Y, float[3] X) { Y = Neg(X) }",
    "output 'Y' is an input, or is listed twice": "(float[3] X) => (float[3] Y, float[3] Y) { Y = Neg(X) }",
    "output 'W' is a constant": "(float[3] X) => (float[3] Y, float[3] W) <float[3] W = {1, 2, 3}> { Y = Add(X, W) }",
    "'Y' is tensor.bfloat16": "(float[3] X) => (bfloat16[3] Y) { Y = Cast<to=16>(X) }",
    "RandomUniformLike draws": "(float[3] X) => (float[3] Y) { Z = RandomUniformLike(X) Y = Add(X, Z) }",
    "an output of Compress": "(float[3] X, bool[3] C) => (float[N] Y) { Y = Compress(X, C) }",
}
# Models that look alike, and are right.
PERMITTED = (
    "(float[3] X, int64[2] S) => (float[3] Y) { Y = Neg(X) }",
    "(float[3] X) => (float[3] Y, float[3] W) <float[3] W = {1, 2, 3}> { Y = Neg(X) }",
    "(float[3] X) => (float[3] Y) { Z = Dropout(X) Y = Neg(Z) }",
)


@needs_cuda
class CheckTest(unittest.TestCase):
    def test_refused(self) -> None:
        for words, text in REFUSED.items():
            with self.subTest(text), self.assertRaisesRegex(NotPermittedError, words) as caught:
                backend.prepare(model(text), provider_options=CAPTURE)
            self.assertEqual(caught.exception.key, "enable_cuda_graph")

    def test_permitted(self) -> None:
        for text, seed in itertools.product(PERMITTED, range(3)):
            with self.subTest(text):
                rep = backend.prepare(model(text), provider_options=CAPTURE)
                x = np.float32([1, -2, seed])
                inputs = [x, np.int64([1, 3])][: len(rep._session.get_inputs())]
                np.testing.assert_array_equal(rep.run(inputs)[0], -x)


if __name__ == "__main__":
    unittest.main()
