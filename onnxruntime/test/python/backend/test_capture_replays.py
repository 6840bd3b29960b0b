# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests captures and replays on the CUDA EP during other CUDA calls of the process.

The tests run on a GPU, or on the software CUDA of ``make test-cuda``. Its settings ``SOFTCUDA_LAZY`` and
``SOFTCUDA_CAPTURE_US`` change the time of the work and the duration of a capture.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

from helpers.capture import Expected, capture_of, chain, in_threads
from helpers.capture_cuda import ORDINARY, OnCuda, needs_cuda
from helpers.locks import Held, in_run

from onnxruntime.backend import locks
from onnxruntime.backend.capture import graphs


@needs_cuda
class BesideOthersTest(OnCuda):
    """Captures during other CUDA calls of the process. SOFTCUDA_CAPTURE_US makes captures long."""

    def test_ordinary_runs_of_a_session_that_captures_are_alone(self):
        rep, x = self.prepare(chain()), self.data(0, 3, 4)
        rep.run([x])
        with ThreadPoolExecutor(1) as pool:
            with Held(in_run(locks.CUDA)):
                ordinary = pool.submit(rep.run, [x], run_config=ORDINARY)
                time.sleep(0.2)
                self.assertFalse(ordinary.done())
            self.check(ordinary.result(), Expected(chain())(x))

    def check_nobody_is_alone(self, inside: threading.Event, go_on: threading.Event, run) -> None:
        got = []

        def alone() -> None:
            inside.wait(20)
            with locks.CUDA.alone():
                got.append(go_on.is_set())

        other, later = threading.Thread(target=alone), threading.Timer(0.3, go_on.set)
        other.start()
        later.start()
        run()
        other.join()
        later.join()
        self.assertEqual(got, [True])

    def test_nobody_is_alone_during_a_replay(self):
        rep, x = self.prepare(chain()), self.data(0, 3, 4)
        rep.run([x])
        state, inside, go_on = rep._current_plan().route, threading.Event(), threading.Event()

        def wait(*_) -> list:
            inside.set()
            go_on.wait(20)
            return []

        with mock.patch.object(state, "_replay", wait):
            self.check_nobody_is_alone(inside, go_on, partial(rep.run, [x], logid="long"))
        inside.clear()
        go_on.clear()
        with mock.patch.object(state._begun[0], "_run", wait):
            self.check_nobody_is_alone(inside, go_on, partial(rep.run, [x]))
        self.assertTrue(inside.is_set())

    def test_replays_do_not_wait_for_other_sessions(self):
        first, second = self.prepare(chain()), self.prepare(chain())
        x = self.data(0, 3, 4)
        meet, met = threading.Barrier(2, timeout=20), []

        def run(i: int) -> None:
            rep = (first, second)[i]
            rep.run([x])
            replay = graphs.Capture._replay

            def both(*arguments):
                met.append(meet.wait())  # inside the run of one and of the other
                return replay(*arguments)

            meet.wait()
            with mock.patch.object(capture_of(rep.session), "_replay", both.__get__(capture_of(rep.session))):
                rep.run([x], logid="met")

        in_threads(2, run)
        self.assertEqual(sorted(met), [0, 1])

    def test_replays_of_one_session_follow_each_other(self):
        rep, x = self.prepare(chain()), self.data(0, 3, 4)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(rep.run, [x]).result()
            rep.run([x])  # so that two threads have captured
            for keywords in ({}, {"logid": "general"}):
                with self.subTest(keywords), capture_of(rep.session)._turn:
                    replay = pool.submit(rep.run, [x], **keywords)
                    time.sleep(0.2)
                    self.assertFalse(replay.done())
                self.check(replay.result(20), Expected(chain())(x))

    def test_each_pair_of_calls_of_one_thread(self):
        """In the middle of a run or a replay, only a run or the creation of a session without capture goes on."""
        rep, plain, expected = (self.prepare(chain()), self.ordinary(chain()), Expected(chain()))
        x, rows = self.data(0, 3, 4), iter(range(10, 100))
        rep.run([x])
        capture = capture_of(rep.session)

        def locked() -> None:
            with rep.device_lock():
                pass

        def captures() -> None:
            y = self.data(1, next(rows), 4)
            self.check(rep.run([y]), expected(y))

        calls = {
            "run": lambda: self.check(plain.run([x]), expected(x)),
            "prepare": lambda: self.ordinary(chain()),
            "replay": lambda: self.check(rep.run([x]), expected(x)),
            "general replay": lambda: self.check(rep.run([x], logid="general"), expected(x)),
            "ordinary": lambda: self.check(rep.run([x], run_config=ORDINARY), expected(x)),
            "capture": captures,
            "device_lock": locked,
        }
        outer_calls = {
            "run": (plain.session, "run"),
            "general replay": (capture, "_replay"),
            "ordinary": (capture, "_ordinary"),
            "capture": (capture, "_replay"),
        }
        for (outer, (owner, name)), inner in itertools.product(outer_calls.items(), calls):
            method, results = getattr(owner, name), []

            def middle(*arguments, inner=inner, method=method, results=results):
                if not results:
                    results.append("error")
                    with contextlib.suppress(RuntimeError):
                        calls[inner]()
                        results[0] = "outputs"
                return method(*arguments)

            with self.subTest(outer=outer, inner=inner), mock.patch.object(owner, name, middle):
                calls[outer]()
                goes_on = inner in ("run", "prepare") and outer in ("run", "general replay")
                self.assertEqual(results, ["outputs" if goes_on else "error"])
        for call in calls.values():
            call()

    @unittest.skipUnless(hasattr(signal, "setitimer"), "requires signals by a timer")
    def test_a_signal_handler_that_uses_the_session(self):
        """In the middle of a call, it gets an error. Between two calls, it gets outputs."""
        rep, expected, stop, handled = (self.prepare(chain()), Expected(chain()), threading.Event(), [])
        x, other = self.data(0, 3, 4), self.data(1, 3, 4)
        want, want_other = expected(x), expected(other)
        self.check(rep.run([x]), want)

        def handle(*_) -> None:
            number = len(handled)
            config = ORDINARY if number % 3 == 1 else {"gpu_graph_id": 5} if number == 2 else None
            try:
                self.check(rep.run([other], run_config=config), want_other)
                handled.append("outputs")
            except RuntimeError as error:
                self.assertIn("in the middle of a call", str(error))
                handled.append("error")
            if not stop.is_set():
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.00001 * (number % 50))

        def run_alone() -> None:
            while not stop.is_set():
                self.check(rep.run([other], run_config=ORDINARY), want_other)

        previous = signal.signal(signal.SIGALRM, handle)
        self.addCleanup(signal.signal, signal.SIGALRM, previous)
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(run_alone)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                end = time.monotonic() + 3
                while time.monotonic() < end:
                    self.check(rep.run([x]), want)
                    self.check(rep.run([x], logid="slow"), want)
            finally:
                stop.set()
                signal.setitimer(signal.ITIMER_REAL, 0)
            beside.result(30)
        self.assertGreater(len(handled), 10)
        self.assertIn("error", handled)


if __name__ == "__main__":
    unittest.main()
