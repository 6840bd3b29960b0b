# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the locks of sessions that may not be created, run or released at the same time."""

from __future__ import annotations

import _thread
import contextlib
import dis
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
from types import FrameType, SimpleNamespace
from typing import Self
from unittest import mock

from backend_test_models import two_nodes
from backend_test_threads import in_threads

import onnxruntime.backend
from onnxruntime import RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.locks import SessionLock

SOON, LATE = 0.2, 30


def in_run(lock: SessionLock, options: RunOptions | None = None) -> Callable:
    """Return a function that calls another as a run of a session."""
    return partial(lock.run, options)


def in_alone(lock: SessionLock, options: RunOptions | None = None) -> Callable:
    """Return a function that calls another as a run that is alone."""
    return partial(lock.run_alone, options)


def in_block(lock: SessionLock) -> Callable:
    """Return a function that calls another in a block of ``device_lock``."""

    def call(function: Callable) -> object:
        with lock.alone():
            return function()

    return call


def in_replay(lock: SessionLock) -> Callable:
    """Return a function that calls another as a replay of a graph."""
    return partial(lock.run_unnested, None)


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


class WaitingTest(unittest.TestCase):
    def test_side_by_side(self) -> None:
        lock = SessionLock(side_by_side=True)
        check(in_run(lock), in_run(lock), waits=False)
        check(in_run(lock), in_alone(lock), waits=True)
        check(in_alone(lock), in_run(lock), waits=True)
        check(in_alone(lock), in_alone(lock), waits=True)
        check(in_replay(lock), in_run(lock), waits=False)
        check(in_replay(lock), in_alone(lock), waits=True)
        check(in_block(lock), in_replay(lock), waits=True)
        check(in_replay(lock), in_block(lock), waits=True)

    def test_one_after_the_other(self) -> None:
        lock = SessionLock(side_by_side=False)
        kinds = (in_run, in_alone, in_block, in_replay)
        for first in kinds:
            for second in kinds:
                check(first(lock), second(lock), waits=True)

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
        wait(lock, options)(nothing)

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
        for call in (lock.run, lock.run_unnested, lock.run_alone):
            with self.assertRaisesRegex(RuntimeError, "CUDA is broken"):
                call(None, nothing)
        with lock.alone():
            pass

    def test_threads_that_ended_leave_nothing(self) -> None:
        lock = SessionLock(side_by_side=True)
        for _ in range(20):
            Held(in_run(lock)).let_go()
        self.assertFalse(lock._running)

    def test_many_threads(self) -> None:
        """No thread is inside together with one that is alone."""
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-5)
        for _ in range(20):
            lock, inside, wrong = SessionLock(side_by_side=True), [], []

            def step(kind: str, inside=inside, wrong=wrong) -> None:
                inside.append(kind)
                if len(inside) > 1 and "alone" in inside:
                    wrong.append([*inside])
                time.sleep(0)  # another thread runs
                inside.remove(kind)

            def run(lock=lock, step=step) -> None:
                for _ in range(100):
                    for call in (in_replay(lock), in_run(lock)):
                        call(partial(step, "beside"))
                    for call in (in_alone(lock), in_block(lock)):
                        call(partial(step, "alone"))

            in_threads(run, run)
            self.assertEqual(wrong, [])


class MiddleTest(unittest.TestCase):
    """Code in the middle of a call, such as a signal handler, uses sessions itself."""

    def kinds(self, side_by_side: bool) -> dict[str, Callable]:
        lock = SessionLock(side_by_side)
        self.addCleanup(check_free, in_alone(lock))
        return {
            "run": in_run(lock),
            "replay": in_replay(lock),
            "alone": in_alone(lock),
            "block": in_block(lock),
            "run in a block": lambda function: in_block(lock)(partial(in_run(lock), function)),
        }

    def goes_on(self, outer: Callable, inner: Callable) -> bool:
        """Return whether a call in the middle of another one goes on. Otherwise, it raises the error of the rule."""
        done = []

        def middle() -> None:
            try:
                inner(partial(done.append, 1))
            except RuntimeError as error:
                self.assertEqual(str(error), locks._IN_A_CALL)

        outer(middle)
        return done == [1]

    def test_each_pair(self) -> None:
        """A plain run goes on in the middle of a call that is not alone. A block is not a call."""
        for side_by_side in (True, False):
            kinds = self.kinds(side_by_side)
            for outer, inner in itertools.product(kinds, repeat=2):
                beside = side_by_side and inner == "run" and outer != "alone"
                with self.subTest(side_by_side=side_by_side, outer=outer, inner=inner):
                    self.assertEqual(self.goes_on(kinds[outer], kinds[inner]), beside or outer == "block")

    def test_a_call_after_an_error(self) -> None:
        for side_by_side in (True, False):
            kinds = self.kinds(side_by_side)
            for outer, inner in itertools.product(kinds, repeat=2):
                self.goes_on(kinds[outer], kinds[inner])
                for call in kinds.values():
                    call(nothing)
                check_free(*kinds.values())

    def test_in_the_middle_of_calls_of_two_threads(self) -> None:
        kinds = self.kinds(side_by_side=True)
        for names in itertools.product(kinds, repeat=4):
            with self.subTest(names):
                outer, inner, other_outer, other_inner = map(kinds.get, names)
                in_threads(partial(self.goes_on, outer, inner), partial(self.goes_on, other_outer, other_inner))

    def test_in_a_worker(self) -> None:
        """Code in a worker cannot wait for the thread that waits for the worker."""
        for kind in ("run", "replay", "alone", "block"):
            kinds, got = self.kinds(side_by_side=True), []
            lock = kinds["run"].func.__self__

            def work(kinds=kinds, kind=kind, got=got) -> None:
                got.append(self.goes_on(partial(lock.run_for_other_thread), kinds[kind]))  # noqa: B023

            for outer in (in_alone(lock), in_run(lock)):
                outer(partial(in_threads, work))
            self.assertEqual(got, [False, False])


class Interrupter:
    """Raises ``KeyboardInterrupt`` at one of the steps after which Python calls a signal handler.

    These are the start of a Python function, a jump to the start of a loop, and the end of a call of a C function.
    """

    JUMPS = frozenset(code for name, code in dis.opmap.items() if name.startswith("JUMP_BACKWARD"))

    def __init__(self, moment: int) -> None:
        self._moment, self._steps = moment, 0
        self.interrupted = False

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.setprofile(None)
        sys.settrace(None)
        return kind is KeyboardInterrupt

    def _step(self) -> None:
        if self.interrupted:
            return
        self._steps += 1
        if self._steps > self._moment:
            self.interrupted = True
            raise KeyboardInterrupt

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable | None:
        if frame.f_code.co_filename == __file__:
            return None
        # In this order: Python 3.14 ignores f_trace_opcodes of a frame without f_trace, and if nothing changes.
        frame.f_trace, frame.f_trace_lines = self._trace, False
        if event == "call":
            frame.f_trace_opcodes = False
            frame.f_trace_opcodes = True
        if event == "call" or (event == "opcode" and frame.f_code.co_code[frame.f_lasti] in self.JUMPS):
            self._step()
        return self._trace

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "c_return" and frame.f_code.co_filename != __file__:
            self._step()


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
            partial(locks.call_holding, lock_of_one),
            in_run(lock),
            in_alone(lock, options),
            in_replay(lock),
            in_block(lock),
            partial(lambda block, alone, function: block(partial(alone, function)), in_block(lock), in_alone(lock)),
            partial(lambda run, inner, function: run(partial(inner, function)), in_run(lock), in_run(lock)),
        )
        self.free = in_alone(lock), in_run(lock), partial(locks.call_holding, lock_of_one)

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

    def test_at_each_step(self) -> None:
        """Of a call that waits for nothing, that waits for another one, and of a call that releases a session."""
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool is in use")
        for side_by_side in (True, False):
            lock, lock_of_one, options = SessionLock(side_by_side), threading.RLock(), RunOptions()
            calls = {
                "run": in_run(lock),
                "replay": in_replay(lock),
                "alone": in_alone(lock, options),
                "block": in_block(lock),
                "nested": partial(lambda run, function: run(partial(run, function)), in_run(lock)),
                "alone in a block": partial(
                    lambda f, g, function: f(partial(g, function)), in_block(lock), in_alone(lock)
                ),
                "one": partial(locks.call_holding, lock_of_one),
                "release": lambda _, lock=lock: lock.put_aside({"inner": []}, []),
            }
            free = calls["run"], calls["alone"], calls["block"], calls["one"]
            for name, call in calls.items():
                for moment in range(400):
                    lock._owner = moment % 2 * -1  # another thread was alone last, or none
                    with Interrupter(moment) as interrupter, contextlib.suppress(RuntimeError):
                        call(nothing)
                    with self.subTest(side_by_side=side_by_side, call=name, moment=moment):
                        self.assertEqual(lock._running, {})
                        self.assertFalse(lock._alone._is_owned() or lock_of_one._is_owned())
                    if not interrupter.interrupted:
                        break
                self.assertGreater(moment, 2)
                self.assertFalse(interrupter.interrupted)
                check_free(*free)

    def test_at_random_moments(self) -> None:
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool would be interrupted too, and keep its own lock")
        lock = SessionLock(side_by_side=True)
        calls = in_run(lock), in_replay(lock), in_alone(lock), in_block(lock)
        check_free(*[in_run(lock)] * 3)
        caught = 0
        for i in range(300):
            timer = threading.Timer(0.0003 + i * 2e-6, _thread.interrupt_main)
            try:
                timer.start()
                while True:
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
        with onnxruntime.backend.prepare(two_nodes(), provider_options={}) as rep:
            with rep.device_lock():  # the CPU needs none
                pass
            lock = SessionLock(side_by_side=False)
            with mock.patch.object(rep._runs, "device_lock", lock), rep.device_lock():
                self.assertTrue(lock._owner)


if __name__ == "__main__":
    unittest.main()
