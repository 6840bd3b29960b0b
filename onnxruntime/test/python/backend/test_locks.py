# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the lock of sessions on CUDA and WebGPU: who waits, who does not, and calls in the middle of a call."""

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
from helpers.locks import LATE, SOON, Held, check, check_free, in_alone, in_block, in_run, nothing
from helpers.threads import in_threads, needs_global_lock

from onnxruntime import RunOptions
from onnxruntime.backend import locks, waiting
from onnxruntime.backend.locks import SessionLock
from onnxruntime.backend.provider_names import CPU, CUDA, TENSORRT, WEBGPU
from onnxruntime.backend.session.creation import Construction

KINDS = (in_run, in_alone, in_block)


@needs_global_lock
class WaitingTest(unittest.TestCase):
    def test_each_pair(self):
        lock = SessionLock()
        for first, second in itertools.product(KINDS, repeat=2):
            with self.subTest(first=first.__name__, second=second.__name__):
                check(first(lock), second(lock), waits=not first is second is in_run)

    def test_a_terminated_run_stops_waiting(self):
        for wait, holds in ((in_run, in_alone), (in_alone, in_run), (in_alone, in_alone)):
            lock, options, results = SessionLock(), RunOptions(), []

            def run(call: Callable, results: list = results) -> None:
                try:
                    call(nothing)
                except RuntimeError as error:
                    results.append(str(error))

            run(wait(lock, options))
            with Held(holds(lock)):
                other = threading.Thread(target=run, args=(wait(lock, options),))
                other.start()
                other.join(SOON)
                self.assertTrue(other.is_alive())
                options.terminate = True
                other.join(LATE)
            self.assertRegex(*results, "terminated while it waited")
            check(in_alone(lock), in_run(lock), waits=True)  # nothing is left taken

    def test_a_process_that_cannot_run_sessions(self):
        lock = SessionLock()
        lock.failure = "CUDA is broken"
        for call in (in_run(lock), in_alone(lock), in_block(lock), lambda _: lock.check_waits()):
            with self.assertRaisesRegex(RuntimeError, "CUDA is broken"):
                call(nothing)

    def test_many_threads(self):
        """No thread is inside together with one that is alone."""
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-5)
        for _ in range(20):
            lock, inside, wrong = SessionLock(), [], []

            def step(kind: str, inside=inside, wrong=wrong) -> None:
                inside.append(kind)
                if len(inside) > 1 and "alone" in inside:
                    wrong.append([*inside])
                time.sleep(0)  # another thread runs
                inside.remove(kind)

            def run(lock=lock, step=step) -> None:
                for _ in range(100):
                    in_run(lock)(partial(step, "beside"))
                    for call in (in_alone(lock), in_block(lock)):
                        call(partial(step, "alone"))

            in_threads(run, run, run)
            self.assertEqual((wrong, lock._running, lock._owner), ([], {}, 0))


@needs_global_lock
class MiddleTest(unittest.TestCase):
    """Code in the middle of a call, such as a signal handler, uses sessions itself."""

    def test_each_pair(self):
        """The inner call goes on, unless it would wait for the end of the outer one."""
        for outer, inner in itertools.product(KINDS, repeat=2):
            lock, done = SessionLock(), []
            with self.subTest(outer=outer.__name__, inner=inner.__name__):
                try:
                    outer(lock)(lambda: inner(lock)(partial(done.append, 1)))  # noqa: B023
                except RuntimeError as error:
                    self.assertEqual(str(error), waiting.WAITS_FOR_ITSELF)
                self.assertEqual(done == [], outer is in_run and inner is not in_run)
                check_free(*(kind(lock) for kind in KINDS))

    def test_an_inner_call_does_not_end_the_outer_one(self):
        for outer, inner in itertools.product((in_alone, in_block), KINDS):
            lock = SessionLock()

            def middle(lock: SessionLock = lock, inner: Callable = inner) -> bool:
                inner(lock)(nothing)
                other = Held(in_run(lock))
                self.addCleanup(other.let_go)
                return other.entered.wait(SOON / 10)

            self.assertFalse(outer(lock)(middle))

    def test_alone_in_a_run_of_a_block(self):
        """The thread does not wait for itself."""
        lock = SessionLock()
        in_block(lock)(partial(in_run(lock), partial(in_alone(lock), nothing)))

    def test_who_cannot_wait_for_a_worker(self):
        lock = SessionLock()
        lock.check_waits()
        for kind in KINDS:
            with self.assertRaises(RuntimeError):
                kind(lock)(lock.check_waits)
        lock.workers.add(threading.get_ident())
        with self.assertRaises(RuntimeError):
            lock.check_waits()

    def test_a_lock_of_one(self):
        lock = threading.RLock()
        with self.assertRaises(RuntimeError):
            waiting.call_holding(lock, None, waiting.call_holding, lock, None, nothing)
        check_free(partial(waiting.call_holding, lock, None))


@unittest.skipUnless(hasattr(os, "fork"), "this system does not fork")
@needs_global_lock
class ForkTest(unittest.TestCase):
    def test_a_forked_process(self):
        """It has no thread of its parent, and cannot use the device of its parent's sessions."""
        ran = run_code("""
import os, signal
from helpers.locks import Held, in_alone, in_run
from test_locks import Session
from onnxruntime.backend.locks import GPU
def in_child():
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(20)
    try:
        for call in (GPU.run, GPU.run_alone):
            call(None, bool)
    except RuntimeError as error:
        os._exit(1 if "forked" in str(error) else 2)
    os._exit(0)
results = [in_child()]
for kind in (in_run, in_alone):
    with Held(kind(GPU)):
        results.append(in_child())
results.append(in_child())
session = Session(["CUDAExecutionProvider"])
GPU.own(session)
results.append(in_child())
print(results)
""")
        self.assertEqual(ran.stdout, "[0, 1, 1, 0, 1]\n", ran.stderr)


class Session:
    """A stub of a session on a device."""

    def __init__(self, providers: list[str]) -> None:
        self._sess = np.empty(0)
        self.get_providers = lambda: providers
        self.get_provider_options = dict


def create(providers: list[str], function: Callable[[], object], device_id: str = "0") -> Session:
    """Create a session with these EPs by its part, and call a function in the constructor."""
    session = Session(providers)

    def constructor() -> Session:
        function()
        return session

    settings = SimpleNamespace(texts={"device_id": device_id})
    wanted = Construction(b"", SimpleNamespace(providers=dict.fromkeys(providers, settings)), RunOptions())
    return locks.LockPart().create(wanted, lambda: wanted.call(constructor))


@needs_global_lock
class PartTest(unittest.TestCase):
    """The creation and the runs of sessions on a device."""

    def test_who_is_alone(self):
        for providers, alone in (([CUDA, CPU], False), ([TENSORRT, CUDA], False), ([WEBGPU, CPU], True)):
            guard = locks.LockPart().guard(Session(providers), None)
            for call in (partial(create, providers), partial(guard, None)):
                with self.subTest(providers):
                    check(call, call, waits=alone)
                    check(in_alone(locks.GPU), call, waits=True)

    def test_a_process_that_cannot_create_sessions(self):
        """ORT is not asked: its error would be explained as one of the EP."""
        wanted, constructor = Construction(b"", SimpleNamespace(providers={}), RunOptions()), mock.Mock()
        with mock.patch.object(locks.GPU, "failure", "forked"), self.assertRaisesRegex(RuntimeError, "^forked$"):
            locks.LockPart().create(wanted, constructor)
        constructor.assert_not_called()

    def test_a_new_session_belongs_to_the_lock(self):
        session = create([CUDA], nothing)
        self.assertEqual(locks.GPU.own(session), [session._sess])

    def test_the_device_of_a_thread_is_known(self):
        """A creation that fails can leave another device current in its thread. So can a session of the caller."""
        self.addCleanup(setattr, locks.GPU, "other_devices", locks.GPU.other_devices)
        for device_id in ("0", "1"):
            locks.GPU.other_devices = False
            with self.assertRaises(ZeroDivisionError):
                create([CUDA], lambda: divmod(1, 0), device_id)
            self.assertEqual(locks.GPU.other_devices, device_id == "1")
            locks.GPU.other_devices = False
            own = Session([CUDA])
            own.get_provider_options = lambda device_id=device_id: {CUDA: {"device_id": device_id}}
            locks.LockPart().guard(own, None)
            self.assertEqual(locks.GPU.other_devices, device_id == "1")

    def test_a_failed_call_leaves_nothing_in_its_frames(self):
        """The program can keep the error. ORT's second attempt has the error of the first as its cause."""
        ended = []

        def attempt() -> None:
            inner = np.empty(0)
            weakref.finalize(inner, ended.append, 1)
            raise ValueError

        def both() -> None:
            try:
                attempt()
            except ValueError as first:
                try:
                    attempt()
                except ValueError as second:
                    raise second from first

        for call in (partial(create, [CUDA]), partial(create, [WEBGPU]), partial(locks.GPU.run_alone, None)):
            try:
                call(both)
            except ValueError:  # assertRaises clears all frames
                self.assertEqual(ended, [1, 1])
            ended.clear()


if __name__ == "__main__":
    unittest.main()
