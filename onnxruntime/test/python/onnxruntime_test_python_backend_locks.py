# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the locks of sessions that may not be created, run or released at the same time."""

from __future__ import annotations

import _thread
import gc
import importlib
import inspect
import itertools
import signal
import sys
import threading
import time
import unittest
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Self
from unittest import mock

from backend_test_capture import chain

import onnxruntime.backend
from onnxruntime import RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.locks import SessionLock, Turn

SOON, LATE = 0.2, 30


def in_run(lock: SessionLock, options: RunOptions | None = None) -> Callable:
    """Return a function that calls another as a run of a session."""
    return partial(lock.run, options)


def in_alone(lock: SessionLock, options: RunOptions | None = None) -> Callable:
    """Return a function that calls another alone."""

    def call(function: Callable) -> object:
        with lock.alone(options):
            return function()

    return call


def in_replay(lock: SessionLock, turn: Turn | None = None) -> Callable:
    """Return a function that calls another as a replay of a graph."""
    replay = lock.replayer(turn or Turn(), lambda function, _: function())
    return lambda function: replay(function, None)


def in_replay_of_the_only_thread(lock: SessionLock, turn: Turn) -> Callable:
    """Return a function that calls another as a replay of a graph, of which the calling thread has captured all."""
    replay = in_replay(lock, turn)

    def call(function: Callable) -> object:
        turn.only = threading.get_ident()
        return replay(function)

    return call


def nothing() -> None:
    pass


class Held:
    """Holds a lock in another thread. A ``with`` block begins when the lock is held, and its end lets go."""

    def __init__(self, call: Callable, within: Callable = nothing) -> None:
        self._within = within
        self.entered, self._go_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=call, args=(self._hold,), daemon=True)
        self.thread.start()

    def _hold(self) -> None:
        self.entered.set()
        self._go_on.wait(LATE)
        self._within()

    def let_go(self, wait: bool = True) -> None:
        self._go_on.set()
        if wait:
            self.thread.join(LATE)

    def __enter__(self) -> Self:
        assert self.entered.wait(LATE), "a lock is left taken"
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()


def check_free(*calls: Callable) -> None:
    for call in calls:
        with Held(call):
            pass


def check(first: Callable, second: Callable, waits: bool) -> None:
    """Check whether the second call waits for the end of the first."""
    with Held(first):
        other = Held(second)
        assert other.entered.wait(SOON if waits else LATE) is not waits
    with other:
        pass


def in_threads(*functions: Callable) -> None:
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LATE)
        assert not thread.is_alive(), "the threads wait for each other"


class WaitingTest(unittest.TestCase):
    def test_side_by_side(self) -> None:
        lock = SessionLock(side_by_side=True)
        check(in_run(lock), in_run(lock), waits=False)
        check(in_run(lock), in_alone(lock), waits=True)
        check(in_alone(lock), in_run(lock), waits=True)
        check(in_alone(lock), in_alone(lock), waits=True)

    def test_one_after_the_other(self) -> None:
        lock = SessionLock(side_by_side=False)
        for first in (in_run, in_alone):
            for second in (in_run, in_alone):
                check(first(lock), second(lock), waits=True)

    def test_replays_of_one_session_take_turns(self) -> None:
        lock, turn = SessionLock(side_by_side=True), Turn()
        check(in_replay(lock, turn), in_replay(lock, turn), waits=True)
        check(in_replay(lock, turn), in_replay(lock), waits=False)
        check(in_replay(lock, turn), in_run(lock), waits=False)
        check(in_replay(lock, turn), in_alone(lock), waits=True)
        check(in_alone(lock), in_replay(lock, turn), waits=True)

    def test_replays_of_the_only_thread_take_no_lock(self) -> None:
        lock, turn = SessionLock(side_by_side=True), Turn()
        with turn.lock, Held(in_replay_of_the_only_thread(lock, turn)):
            pass
        check(in_replay_of_the_only_thread(lock, turn), in_alone(lock), waits=True)
        check(in_alone(lock), in_replay_of_the_only_thread(lock, turn), waits=True)

    def test_alone_waits_for_every_thread_that_ever_ran(self) -> None:
        lock = SessionLock(side_by_side=True)
        holders = [Held(in_run(lock)).__enter__() for _ in range(5)]
        alone = Held(in_alone(lock))
        for holder in holders:
            self.assertFalse(alone.entered.wait(SOON / 10))
            holder.let_go()
        with alone:
            pass

    def test_a_terminated_run_stops_waiting(self) -> None:
        for side_by_side, wait, holds in itertools.product((True, False), (in_run, in_alone), (in_run, in_alone)):
            if not (side_by_side and wait is holds is in_run):
                with self.subTest(side_by_side=side_by_side, wait=wait, holds=holds):
                    self.check_terminated(SessionLock(side_by_side), wait, holds)

    def check_terminated(self, lock: SessionLock, wait: Callable, holds: Callable) -> None:
        options, results = RunOptions(), []
        wait(lock, options)(partial(wait(lock, options), nothing))  # without another thread, they are as before

        def run() -> None:
            try:
                wait(lock, options)(partial(results.append, "inside"))
            except RuntimeError:
                results.append("terminated")

        with Held(holds(lock)):
            other = threading.Thread(target=run)
            other.start()
            other.join(SOON)
            self.assertTrue(other.is_alive())
            options.terminate = True
            other.join(LATE)
            self.assertEqual(results, ["terminated"])
        check(in_alone(lock), in_run(lock), waits=True)  # nothing is left taken

    def test_a_process_that_cannot_run_sessions(self) -> None:
        lock = SessionLock(side_by_side=True)
        lock.failure = "CUDA is broken"
        with self.assertRaisesRegex(RuntimeError, "CUDA is broken"):
            lock.run(None, nothing)
        with lock.alone():
            pass

    def test_threads_that_ended_leave_nothing(self) -> None:
        lock = SessionLock(side_by_side=True)
        for _ in range(20):
            Held(in_run(lock)).let_go()
        self.assertFalse(lock._running)

    def test_many_threads(self) -> None:
        """No thread is inside together with one that is alone, and replays of a second thread take turns."""
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-5)
        for _ in range(20):
            lock, turn, inside, wrong = SessionLock(side_by_side=True), Turn(), [], []
            both = threading.Barrier(2, timeout=LATE)

            def step(kind: str, inside=inside, wrong=wrong) -> None:
                inside.append(kind)
                if len(inside) > 1 and ("alone" in inside or inside.count("replay") > 1):
                    wrong.append([*inside])
                time.sleep(0)  # another thread runs
                inside.remove(kind)

            def run(lock=lock, turn=turn, step=step, both=both) -> None:
                with lock.alone():
                    turn.begin_capture(threading.get_ident())
                for _ in range(100):
                    in_replay(lock, turn)(partial(step, "replay"))
                    in_run(lock)(partial(step, "run"))
                    in_alone(lock)(partial(step, "alone"))
                both.wait()  # a later thread can have the identifier of one that has ended

            in_threads(run, run)
            self.assertEqual((turn.only, wrong), (0, []))


class MiddleTest(unittest.TestCase):
    """Code in the middle of a call, such as a signal handler, uses sessions itself."""

    def setUp(self) -> None:
        self.lock = SessionLock(side_by_side=True)
        turn, other = Turn(), Turn()
        self.kinds = {
            "a run": in_run(self.lock),
            "alone": in_alone(self.lock),
            "a replay": in_replay(self.lock, turn),
            "another replay": in_replay(self.lock, other),
            "a replay of the only thread": in_replay_of_the_only_thread(self.lock, Turn()),
        }

    def tearDown(self) -> None:
        check_free(in_alone(self.lock))

    def test_in_each_call_without_another_thread(self) -> None:
        for side_by_side in (True, False):
            self.lock = SessionLock(side_by_side)
            for outer, inner in itertools.product((in_run(self.lock), in_alone(self.lock)), repeat=2):
                done = []
                outer(partial(inner, partial(outer, partial(done.append, 1))))
                self.assertEqual(done, [1])
                check_free(in_alone(self.lock))

    def test_in_the_middle_of_calls_of_two_threads(self) -> None:
        for names in itertools.product(self.kinds, repeat=4):
            begin, call, begin_other, call_other = map(self.kinds.get, names)
            with self.subTest(names):
                both = Held(begin, partial(call, nothing)), Held(begin_other, partial(call_other, nothing))
                for held in both:
                    held.let_go(wait=False)
                for held in both:
                    held.thread.join(LATE)
                    self.assertFalse(held.thread.is_alive(), "both wait for each other")

    def test_two_runs_whose_middle_must_be_alone(self) -> None:
        inside, both = [], threading.Barrier(2, timeout=LATE)

        def alone() -> None:
            inside.append(1)
            time.sleep(0.01)
            self.assertEqual(len(inside), 1)
            inside.pop()

        def middle() -> None:
            both.wait()
            in_alone(self.lock)(alone)

        in_threads(*[partial(in_run(self.lock), middle)] * 2)

    def test_alone_in_the_middle_of_replays_without_a_lock(self) -> None:
        turn, interrupts = Turn(), []

        def look() -> None:
            interrupts.append(self.lock.interrupts(turn))

        with Held(in_replay_of_the_only_thread(self.lock, turn), partial(in_alone(self.lock), look)) as call:
            other = Held(in_alone(self.lock), look)
            call.let_go(wait=False)
            with other:
                pass
        in_alone(self.lock)(look)
        self.assertEqual(interrupts, [True, False, False])

    def test_an_interrupted_call_goes_on_when_no_other_thread_is_alone(self) -> None:
        options, gone_on = RunOptions(), threading.Event()

        def middle() -> None:
            with self.assertRaises(RuntimeError):
                in_alone(self.lock, options)(nothing)

        with Held(lambda hold: in_run(self.lock)(lambda: (hold(), gone_on.set())), middle) as call:
            other = Held(in_alone(self.lock))
            self.assertFalse(other.entered.wait(SOON))
            call.let_go(wait=False)
            with other:  # the interrupted call does not keep it out
                options.terminate = True
                self.assertFalse(gone_on.wait(SOON), "a call runs while another thread is alone")
            self.assertTrue(gone_on.wait(LATE))


def deep(levels: int, function: Callable) -> object:
    return deep(levels - 1, function) if levels else function()


class ErrorTest(unittest.TestCase):
    """No error leaves a lock taken."""

    def setUp(self) -> None:
        lock, options, lock_of_one = SessionLock(side_by_side=True), RunOptions(), threading.RLock()
        # Each function exists before a test: Python 3.12 crashes if there is no memory for a new one.
        self.calls = (
            in_run(lock, options),
            in_alone(lock),
            partial(locks.call_holding, lock_of_one, options),
            in_run(lock),
            in_alone(lock, options),
            in_replay(lock),
            in_replay_of_the_only_thread(lock, Turn()),
            partial(lambda run, alone, function: run(partial(alone, function)), in_run(lock), in_alone(lock)),
        )
        self.free = in_alone(lock), partial(locks.call_holding, lock_of_one, None)

    def test_recursion(self) -> None:
        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        used = len(inspect.stack())
        for number, call in enumerate(self.calls):
            call(nothing)
            raised = 0
            for levels in range(150 - 60, 150):
                sys.setrecursionlimit(used + 150)
                try:
                    deep(levels, partial(call, nothing))
                except RecursionError:
                    raised += 1
                sys.setrecursionlimit(limit)
                with self.subTest(call=number, levels=levels):
                    check_free(*self.free)
            self.assertGreater(raised, 0)  # from Python 3.12 on, calls of C code do not count

    @unittest.skipUnless(sys.implementation.name == "cpython", "makes allocations of CPython fail")
    def test_memory(self) -> None:
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool allocates memory, too, between any two lines")
        try:
            _testcapi = importlib.import_module("_testcapi")
        except ImportError:
            self.skipTest("this Python has no _testcapi")
        self.addCleanup(gc.enable)
        gc.disable()
        for call in self.calls:
            call(nothing)
            raised = 0
            for number in range(60):
                try:
                    _testcapi.set_nomemory(number, number + 1)
                    call(nothing)
                except MemoryError:
                    raised += 1
                finally:
                    _testcapi.remove_mem_hooks()
                check_free(*self.free)
            self.assertGreater(raised, 0)


class InterruptTest(unittest.TestCase):
    """Ctrl-C at any moment leaves no lock taken."""

    def setUp(self) -> None:
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, previous)

    def test_at_random_moments(self) -> None:
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool would be interrupted too, and keep its own lock")
        lock = SessionLock(side_by_side=True)
        calls = in_run(lock), in_replay(lock), in_replay_of_the_only_thread(lock, Turn())
        check_free(*[in_run(lock)] * 3)
        caught = 0
        for i in range(300):
            timer = threading.Timer(0.0003 + i * 2e-6, _thread.interrupt_main)
            try:
                timer.start()
                while True:
                    with lock.alone():
                        pass
                    for call in calls:
                        call(nothing)
            except KeyboardInterrupt:
                caught += 1
            timer.join()
        self.assertEqual(caught, 300)
        check_free(in_alone(lock))

    @unittest.skipUnless(
        hasattr(signal, "pthread_kill"),
        "requires signal.pthread_kill: elsewhere, Ctrl-C does not end the wait for a lock",
    )
    def test_while_it_waits(self) -> None:
        lock = SessionLock(side_by_side=True)
        with Held(in_run(lock)):
            check_free(in_run(lock))
            threading.Timer(SOON, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt), lock.alone():
                self.fail("not alone")
            check_free(in_run(lock))


class WhichTest(unittest.TestCase):
    """The lock of each session."""

    def create(self, providers: list[str], function: Callable[[], object]) -> None:
        """Call a function that creates a session with these EPs."""
        session = SimpleNamespace(get_providers=list)

        def create_session() -> SimpleNamespace:
            function()
            return session

        self.assertIs(locks.create(create_session, None, None, SimpleNamespace(providers=providers)), session)

    def test_providers(self) -> None:
        for providers, lock in (
            (["CPUExecutionProvider"], None),
            (["OpenVINOExecutionProvider", "CPUExecutionProvider"], None),
            (["WebGpuExecutionProvider", "CPUExecutionProvider"], locks.WEBGPU),
            (["CUDAExecutionProvider", "CPUExecutionProvider"], locks.CUDA),
            (["TensorrtExecutionProvider", "CUDAExecutionProvider"], locks.CUDA),
            (["NvTensorRTRTXExecutionProvider"], locks.CUDA),
        ):
            with self.subTest(providers):
                self.assertIs(locks.of(providers), lock)
                if lock is not None:
                    check(partial(self.create, providers), in_alone(lock), waits=True)

    def test_of_a_prepared_model(self) -> None:
        with onnxruntime.backend.prepare(chain(2), provider_options={}) as rep:
            with rep.device_lock():  # the CPU needs none
                pass
            lock = SessionLock(side_by_side=False)
            with mock.patch.object(rep._runs, "device_lock", lock), rep.device_lock():
                self.assertTrue(lock._owner)


if __name__ == "__main__":
    unittest.main()
