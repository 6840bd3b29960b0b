# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the locks of sessions that may not be created, run or released at the same time."""

from __future__ import annotations

import itertools
import sys
import threading
import time
import unittest
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from unittest import mock

from backend_test_locks import (
    LATE,
    SOON,
    Held,
    check,
    check_free,
    in_alone,
    in_block,
    in_replay,
    in_run,
    nothing,
)
from backend_test_models import two_nodes
from backend_test_threads import in_threads

import onnxruntime.backend
from onnxruntime import RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.locks import SessionLock


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
