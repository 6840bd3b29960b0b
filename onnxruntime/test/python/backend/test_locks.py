# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the locks of sessions that may not be created, run or released at the same time."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import unittest
import weakref
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.children import run_code
from helpers.locks import LATE, SOON, Held, check, check_free, in_alone, in_block, in_replay, in_run, nothing
from helpers.models import two_nodes
from helpers.threads import in_threads, needs_global_lock

import onnxruntime.backend
from onnxruntime import RunOptions
from onnxruntime.backend import locks
from onnxruntime.backend.locks import SessionLock
from onnxruntime.backend.session import state
from onnxruntime.backend.session.construction import Construction


@needs_global_lock
class WaitingTest(unittest.TestCase):
    def test_side_by_side(self):
        lock = SessionLock(side_by_side=True)
        check(in_run(lock), in_run(lock), waits=False)
        check(in_run(lock), in_alone(lock), waits=True)
        check(in_alone(lock), in_run(lock), waits=True)
        check(in_alone(lock), in_alone(lock), waits=True)
        check(in_replay(lock), in_run(lock), waits=False)
        check(in_replay(lock), in_alone(lock), waits=True)
        check(in_block(lock), in_replay(lock), waits=True)
        check(in_replay(lock), in_block(lock), waits=True)

    def test_one_after_the_other(self):
        lock = SessionLock(side_by_side=False)
        kinds = (in_run, in_alone, in_block, in_replay)
        for first in kinds:
            for second in kinds:
                check(first(lock), second(lock), waits=True)

    def test_alone_waits_for_every_thread_that_ever_ran(self):
        lock = SessionLock(side_by_side=True)
        holders = [Held(in_run(lock)).__enter__() for _ in range(5)]
        alone = Held(in_alone(lock))
        for holder in holders:
            self.assertFalse(alone.entered.wait(SOON / 10))
            holder.let_go()
        with alone:
            pass

    def test_a_terminated_run_stops_waiting(self):
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

    def test_a_process_that_cannot_run_sessions(self):
        lock = SessionLock(side_by_side=True)
        lock.failure = "CUDA is broken"
        for call in (lock.run, lock.run_unnested, lock.run_alone):
            with self.assertRaisesRegex(RuntimeError, "CUDA is broken"):
                call(None, nothing)
        with self.assertRaisesRegex(RuntimeError, "CUDA is broken"), lock.alone():
            pass

    def test_a_block_in_a_block(self):
        """The end of the inner one does not release the lock."""
        lock = SessionLock(side_by_side=True)
        with lock.alone():
            with lock.alone():
                pass
            lock.run_alone(None, nothing)
            other = Held(in_run(lock))
            self.assertFalse(other.entered.wait(SOON))
        with other:
            pass

    def test_a_thread_that_is_alone_cannot_wait_for_a_worker(self):
        """The worker would wait for this thread."""
        lock = SessionLock(side_by_side=True)
        lock.check_waits()
        with lock.alone(), self.assertRaisesRegex(RuntimeError, "in a block of device_lock"):
            lock.check_waits()
        lock.check_waits()

    def test_threads_that_ended_leave_nothing(self):
        lock = SessionLock(side_by_side=True)
        for _ in range(20):
            Held(in_run(lock)).let_go()
        self.assertFalse(lock._running)

    def test_many_threads(self):
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


@needs_global_lock
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

    def test_each_pair(self):
        """A plain run goes on in the middle of a call that is not alone. A block is not a call."""
        for side_by_side in (True, False):
            kinds = self.kinds(side_by_side)
            for outer, inner in itertools.product(kinds, repeat=2):
                beside = side_by_side and inner == "run" and outer != "alone"
                with self.subTest(side_by_side=side_by_side, outer=outer, inner=inner):
                    self.assertEqual(self.goes_on(kinds[outer], kinds[inner]), beside or outer == "block")

    def test_a_call_after_an_error(self):
        for side_by_side in (True, False):
            kinds = self.kinds(side_by_side)
            for outer, inner in itertools.product(kinds, repeat=2):
                self.goes_on(kinds[outer], kinds[inner])
                for call in kinds.values():
                    call(nothing)
                check_free(*kinds.values())

    def test_in_the_middle_of_calls_of_two_threads(self):
        kinds = self.kinds(side_by_side=True)
        for names in itertools.product(kinds, repeat=4):
            with self.subTest(names):
                outer, inner, other_outer, other_inner = map(kinds.get, names)
                in_threads(partial(self.goes_on, outer, inner), partial(self.goes_on, other_outer, other_inner))

    def test_in_a_worker(self):
        """A finalizer cannot use sessions in a worker, whose own calls are replays and calls that are alone."""
        kinds, got = self.kinds(side_by_side=True), []
        lock = kinds["run"].func.__self__

        def work() -> None:
            lock.workers.add(threading.get_ident())
            try:
                for call in (lambda function: function(), kinds["replay"], kinds["alone"]):
                    got.extend(self.goes_on(call, kinds[inner]) for inner in ("run", "block"))
            finally:
                lock.workers.clear()

        in_threads(work)
        self.assertEqual(got, [False] * 6)


class Session:
    """A stub of a session on a device."""

    def __init__(self, providers: list[str]) -> None:
        self._sess = np.empty(0)
        self.get_providers = lambda: providers

    def get_provider_options(self) -> dict:
        return {}


@unittest.skipUnless(hasattr(os, "fork"), "this system does not fork")
@needs_global_lock
class ForkTest(unittest.TestCase):
    def test_a_forked_process(self):
        """It has no thread of its parent, and cannot use the device of its parent's sessions."""
        ran = run_code("""
import os, signal
from helpers.locks import Held, in_alone, in_run
from test_locks import Session
from onnxruntime.backend import locks
def in_child():
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(20)
    try:
        for call in (locks.CUDA.run, locks.CUDA.run_alone):
            call(None, bool)
    except RuntimeError as error:
        os._exit(1 if "forked" in str(error) else 2)
    os._exit(0)
results = [in_child()]
with Held(in_run(locks.CUDA)):
    results.append(in_child())
with Held(in_alone(locks.CUDA)):
    results.append(in_child())
locks.CUDA._owner = 0
results.append(in_child())
session = Session(["CUDAExecutionProvider"])
locks.lock_of(session)
results.append(in_child())
print(results)
""")
        self.assertEqual(ran.stdout, "[0, 1, 1, 0, 1]\n", ran.stderr)


@needs_global_lock
class WhichTest(unittest.TestCase):
    """The lock of each session."""

    def create(self, providers: list[str], function: Callable[[], object], device_id: str = "0") -> Session:
        """Call a function that creates a session with these EPs."""
        session = Session(providers)

        def constructor() -> Session:
            function()
            return session

        settings = {"device_id": SimpleNamespace(text=device_id)}
        permit = SimpleNamespace(providers=dict.fromkeys(providers, settings))
        wanted = Construction(b"", permit, RunOptions())
        wanted.create = lambda: wanted.call(constructor)
        created = locks.LockPart().create(wanted)
        self.assertIs(created, session)
        return session

    def test_providers(self):
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

    def test_the_device_of_a_thread_is_known_before_the_creation(self):
        """A creation that fails can leave another device current in its thread."""
        self.addCleanup(setattr, locks.CUDA, "other_devices", locks.CUDA.other_devices)
        for eps in (["CUDAExecutionProvider"], ["WebGpuExecutionProvider", "CUDAExecutionProvider"]):
            locks.CUDA.other_devices = False
            for device_id in ("0", "1"):
                with self.assertRaises(ZeroDivisionError):
                    self.create(eps, lambda: divmod(1, 0), device_id)
                self.assertEqual(locks.CUDA.other_devices, device_id == "1")

    def test_a_new_session_belongs_to_the_lock(self):
        lock = SessionLock(side_by_side=True)
        with mock.patch.object(locks, "of", return_value=lock):
            session = self.create(["CUDAExecutionProvider"], nothing)
        self.assertIs(state.of(session).owned, *lock._owned.values())

    def test_a_failed_creation_leaves_nothing_in_its_frames(self):
        """The program can keep the error. ORT's second attempt has the error of the first as its cause."""
        ended = []

        def attempt(lock: SessionLock) -> None:
            inner = np.empty(0)
            weakref.finalize(inner, lambda: ended.append(len(lock._running)))
            raise ValueError

        def both(lock: SessionLock) -> None:
            try:
                attempt(lock)
            except ValueError as first:
                try:
                    attempt(lock)
                except ValueError as second:
                    raise second from first

        for side_by_side in (True, False):
            lock = SessionLock(side_by_side)
            with mock.patch.object(locks, "of", return_value=lock):
                try:
                    self.create(["CUDAExecutionProvider"], partial(both, lock))
                except ValueError as error:
                    kept = error
            self.assertEqual(ended, [1, 1])
            ended.clear()
            del kept

    def test_of_a_prepared_model(self):
        with onnxruntime.backend.prepare(two_nodes(), provider_options={}) as rep:
            with rep.device_lock():  # the CPU needs none
                pass
            lock = SessionLock(side_by_side=False)
            lock.own(rep.session)
            with rep.device_lock():
                self.assertTrue(lock._owner)


if __name__ == "__main__":
    unittest.main()
