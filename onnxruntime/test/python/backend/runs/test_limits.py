# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks runs with a time limit and runs that another thread or a signal handler cancels."""

import _thread
import ctypes
import os
import sys
import threading
import time
import unittest
from collections.abc import Callable
from typing import NoReturn
from unittest import mock

import _above
import numpy as np
from helpers.children import run_code
from helpers.hostile_values import Float, NumpyInt
from helpers.models import parsed, slow, two_nodes
from helpers.threads import at_every_moment, in_threads

import onnxruntime.backend
from onnxruntime import RunOptions
from onnxruntime.backend import Cancellation, NotPermittedError, RunCancelledError, backend_rep
from onnxruntime.backend.runs import limits

CPU = "CPUExecutionProvider"
X = np.ones((2, 3), np.float32)
# Durations, whose unit would be lost, and types whose own methods would run.
OTHERS = (np.timedelta64(50, "ns"), np.timedelta64(1, "Y"), np.timedelta64("NaT"), Float(1), NumpyInt(1))


class LimitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.values = np.eye(400, dtype=np.float32)
        cls.rep = onnxruntime.backend.prepare(slow(), provider_options={CPU: {}}, intra_op_num_threads=1)

    def test_a_run_that_takes_too_long(self):
        for timeout in (0.2, np.float32(0.2), *[1e-9] * 20):  # a deadline can pass before its thread knows it
            with self.assertRaises(TimeoutError):
                self.rep.run([self.values], timeout=timeout)

    def test_a_cancellation_after_the_timeout(self):
        for timeout, error in ((1e-9, TimeoutError), (60, RunCancelledError)):
            cancellation = Cancellation()
            with self.subTest(timeout), self.assertRaises(error):
                limits.Limits(timeout, cancellation).run(RunOptions(), cancellation.cancel)

    def test_a_run_that_ends_in_time_although_its_thread_is_late(self):
        with mock.patch.object(limits, "_deadlines"):
            np.testing.assert_array_equal(onnxruntime.backend.run(two_nodes(), [X], timeout=1e-9)[0], X)

    def test_the_prepared_model_is_usable_afterwards(self):
        body = "<body = once (int64 i, bool c, float[2] x) => (bool d, float[2] y) { d = Identity(c) y = Abs(x) }>"
        made = parsed(f"(int64 n, float[2] X) => (float[2] Y) <bool go = {{1}}> {{ Y = Loop {body}(n, go, X) }}")
        rep = onnxruntime.backend.prepare(made, provider_options={CPU: {}})
        value = np.full(2, -3, np.float32)
        with self.assertRaises(TimeoutError):
            rep.run([np.array(2**40), value], timeout=0.2)
        for keywords in ({}, {"timeout": 60}, {"cancellation": Cancellation()}):
            np.testing.assert_array_equal(rep.run([np.array(3), value], **keywords)[0], [3, 3])

    def test_another_thread_cancels_several_runs(self):
        cancellation, ended = Cancellation(), []

        def run() -> None:
            try:
                self.rep.run([self.values], cancellation=cancellation, timeout=60)
            except RunCancelledError:
                ended.append(1)

        threading.Timer(0.2, cancellation.cancel).start()
        in_threads(run, run, run)
        self.assertEqual((len(ended), len(cancellation._runs), cancellation.cancelled), (3, 0, True))
        with self.assertRaises(RunCancelledError):  # a cancellation is permanent
            onnxruntime.backend.run(two_nodes(), [X], timeout=60, cancellation=cancellation)

    def test_none_is_no_limit(self):
        with (
            onnxruntime.backend.prepare(two_nodes()) as rep,
            mock.patch.object(backend_rep, "Limits", side_effect=AssertionError("a limited run")),
        ):
            for keywords in ({"timeout": None}, {"cancellation": None}, {"timeout": None, "cancellation": None}):
                np.testing.assert_array_equal(rep.run([X], **keywords)[0], X)

    def test_invalid_limits(self):
        for timeout in (1e6, 10**6):  # the longest
            limits.Limits(timeout)
        longer = float("inf"), 10**6 + 1, 10**400
        for timeout in (0, -1, True, "1", float("nan"), [1], np.bool_(True), *longer, *OTHERS):
            with self.subTest(timeout=timeout), self.assertRaises(NotPermittedError) as caught:
                self.rep.run([self.values], timeout=timeout)
            self.assertEqual(caught.exception.keyword, "timeout")
        for cancellation in (True, "x", threading.Event()):
            with self.assertRaises(TypeError) as caught:
                self.rep.run([self.values], cancellation=cancellation)
            self.assertEqual(caught.exception.keyword, "cancellation")


class InterruptError(BaseException):
    """Represents ``KeyboardInterrupt``."""


class MomentTest(unittest.TestCase):
    """A profile function acts at every moment of a limited run at which Python calls signal handlers."""

    def setUp(self):
        self.rep = onnxruntime.backend.prepare(two_nodes(), provider_options={})
        self.rep.run([X])  # the first run has many more moments
        self.cancellation = Cancellation()

    def run_limited(self) -> list:
        return self.rep.run([X], timeout=3600, cancellation=self.cancellation)

    def test_interrupts(self):
        """They leave no lock taken: each later run has its limits, also in another thread."""

        def interrupt() -> NoReturn:
            raise InterruptError

        def check(seen: object) -> None:
            if seen is not InterruptError:
                np.testing.assert_array_equal(seen[0], X)
            self.assertLessEqual(len(self.cancellation._runs), 1)
            self.cancellation._runs.clear()
            self.assertEqual(self.run_limited()[0].tolist(), X.tolist())

        at_every_moment(interrupt, self.run_limited, check)
        with self.assertRaises(TimeoutError):
            run_until_terminated(0.01)

    def test_cancelling_never_waits(self):
        def cancel() -> None:
            self.cancellation.cancel()

        def check(seen: object) -> None:
            if seen is not RunCancelledError:
                np.testing.assert_array_equal(seen[0], X)
            self.cancellation = Cancellation()

        at_every_moment(cancel, self.run_limited, check)


def run_until_terminated(timeout: float, act: Callable = bool) -> None:
    """Call a function in a run with a time limit, and wait for the end of the run."""
    options = RunOptions()

    def wait() -> None:
        act()
        end = time.monotonic() + 60
        while not options.terminate and time.monotonic() < end:
            time.sleep(0.001)

    limits.Limits(timeout).run(options, wait)


class DeadlineTest(unittest.TestCase):
    """One thread keeps the deadlines of all runs."""

    def assert_late(self, timeout: float = 0.01, act: Callable = bool) -> None:
        started = time.monotonic()
        with self.assertRaises(TimeoutError):
            run_until_terminated(timeout, act)
        self.assertGreaterEqual(time.monotonic() - started, timeout)
        self.assertLess(time.monotonic() - started, 30)

    def test_many_runs_need_one_thread(self):
        self.assert_late()
        before, counts = _thread._count(), []

        def run() -> None:
            for _ in range(300):
                limits.Limits(3600).run(RunOptions(), lambda: counts.append(_thread._count()))

        in_threads(run, run, run)
        self.assertLessEqual(max(counts), before + 3)
        self.assertEqual(limits._deadlines.runs, set())

    def test_runs_with_several_deadlines(self):
        others = [RunOptions() for _ in range(2)]
        limits.Limits(3600).run(others[0], self.assert_late, 0.3, lambda: self.assert_late(0.1, self.assert_late))
        limits.Limits(3600).run(others[1], self.assert_late)
        self.assertFalse(others[0].terminate or others[1].terminate)

    def end_thread(self) -> None:
        """Send an exception to the thread that keeps deadlines. It ends at the next step of Python."""
        if sys.gettrace() is not None:
            self.skipTest("with a tracer such as a coverage tool, Python 3.11 waits for the thread indefinitely")
        found = []
        while not found:  # it can be starting, or in a function
            frames = sys._current_frames().items()
            found = [thread for thread, frame in frames if frame.f_code is limits._Deadlines._keep.__code__]
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(found[0]), ctypes.py_object(SystemExit))

    def test_a_thread_that_ends(self):
        """Its successor keeps the deadlines, also that of the run that woke the thread."""
        for _ in range(5):
            self.assert_late()
            self.end_thread()
            self.assert_late()
            self.assert_late(0.3, self.end_thread)

    @unittest.skipUnless(hasattr(os, "fork"), "this system does not fork")
    def test_a_forked_process(self):
        ran = run_code("""
import os, time
from onnxruntime import RunOptions
from onnxruntime.backend.runs.limits import Limits
def run_late():
    options = RunOptions()
    def wait():
        end = time.monotonic() + 10
        while not options.terminate and time.monotonic() < end:
            time.sleep(0.001)
    try:
        Limits(0.01).run(options, wait)
    except TimeoutError:
        return 0
    return 1
late = run_late()
child = os.fork()
if child == 0:
    os._exit(run_late())
print(late, os.waitpid(child, 0)[1])
""")
        self.assertEqual(ran.stdout, "0 0\n", ran.stderr)


if __name__ == "__main__":
    unittest.main()
