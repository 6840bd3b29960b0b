# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the locks of sessions that may not be created, run or released at the same time."""

from __future__ import annotations

import _thread
import gc
import signal
import sys
import threading
import time
import unittest
import weakref
from unittest import mock

import numpy as np
from backend_test_capture import chain

import onnxruntime.backend
from onnxruntime import InferenceSession, RunOptions
from onnxruntime.backend.capture import locks
from onnxruntime.backend.capture.locks import SessionLock

SOON, LATE = 0.2, 30


class Held:
    """Holds a lock in another thread."""

    def __init__(self, context) -> None:
        self._context = context
        self.entered, self._go_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._hold, daemon=True)
        self.thread.start()

    def _hold(self) -> None:
        with self._context():
            self.entered.set()
            self._go_on.wait(LATE)

    def let_go(self) -> None:
        self._go_on.set()
        self.thread.join(LATE)


class WaitingTest(unittest.TestCase):
    def check(self, first, second, waits: bool) -> None:
        holder = Held(first)
        self.assertTrue(holder.entered.wait(LATE))
        other = Held(second)
        self.assertEqual(other.entered.wait(SOON if waits else LATE), not waits)
        holder.let_go()
        self.assertTrue(other.entered.wait(LATE))
        other.let_go()

    def test_side_by_side(self) -> None:
        lock = SessionLock(side_by_side=True)
        self.check(lock.for_a_run, lock.for_a_run, waits=False)
        self.check(lock.for_a_run, lock.alone, waits=True)
        self.check(lock.alone, lock.for_a_run, waits=True)
        self.check(lock.alone, lock.alone, waits=True)

    def test_one_after_the_other(self) -> None:
        lock = SessionLock(side_by_side=False)
        for first in (lock.for_a_run, lock.alone):
            for second in (lock.for_a_run, lock.alone):
                self.check(first, second, waits=True)

    def test_alone_waits_for_every_thread_that_ever_ran(self) -> None:
        lock = SessionLock(side_by_side=True)
        holders = [Held(lock.for_a_run) for _ in range(5)]
        for holder in holders:
            self.assertTrue(holder.entered.wait(LATE))
        alone = Held(lock.alone)
        for holder in holders:
            self.assertFalse(alone.entered.wait(SOON / 10))
            holder.let_go()
        self.assertTrue(alone.entered.wait(LATE))
        alone.let_go()

    def test_re_entrant(self) -> None:
        for side_by_side in (True, False):
            lock = SessionLock(side_by_side)
            with lock.for_a_run(), lock.for_a_run():
                pass
            with lock.alone(), lock.for_a_run(), lock.alone():
                pass
            with Lasting(lock), lock.for_a_run():
                pass

    def test_a_terminated_run_stops_waiting(self) -> None:
        for side_by_side in (True, False):
            lock = SessionLock(side_by_side)
            for wait in (lock.for_a_run, lock.alone):
                options = RunOptions()
                with wait(options), wait(options):  # without another thread, they are as before
                    pass
                holder, results = Held(lock.alone), []

                def run(wait=wait, options=options, results=results) -> None:
                    try:
                        with wait(options):
                            results.append("inside")
                    except RuntimeError:
                        results.append("terminated")

                self.assertTrue(holder.entered.wait(LATE))
                other = threading.Thread(target=run)
                other.start()
                other.join(SOON)
                self.assertTrue(other.is_alive())
                options.terminate = True
                other.join(LATE)
                self.assertEqual(results, ["terminated"])
                holder.let_go()
                check = Held(lock.alone)  # nothing is left taken
                self.assertTrue(check.entered.wait(LATE))
                check.let_go()

    def test_a_terminated_run_stops_waiting_for_runs(self) -> None:
        lock, options = SessionLock(side_by_side=True), RunOptions()
        holder = Held(lock.for_a_run)
        self.assertTrue(holder.entered.wait(LATE))
        timer = threading.Timer(SOON, setattr, (options, "terminate", True))
        timer.start()
        with self.assertRaises(RuntimeError), lock.alone(options):
            pass
        timer.join()
        self.assertFalse(lock._taken)
        self.check(lock.for_a_run, lock.for_a_run, waits=False)
        holder.let_go()

    def test_a_process_that_cannot_run_sessions(self) -> None:
        lock = SessionLock(side_by_side=True)
        lock.failure = "CUDA is broken"
        with self.assertRaisesRegex(RuntimeError, "CUDA is broken"):
            lock.for_a_run()
        with lock.alone():
            pass

    def test_threads_that_ended_leave_nothing(self) -> None:
        lock = SessionLock(side_by_side=True)
        for _ in range(20):
            Held(lock.for_a_run).let_go()
        gc.collect()
        self.assertLessEqual(len(lock._run_locks), 1)

    def test_counters_are_kept_apart(self) -> None:
        # No thread is inside together with a thread that is alone.
        lock, inside, wrong = SessionLock(side_by_side=True), [], []

        def run() -> None:
            for i in range(300):
                with lock.alone() if i % 7 == 0 else lock.for_a_run():
                    inside.append(i % 7 == 0)
                    if inside[-1] and len(inside) > 1:
                        wrong.append([*inside])
                    if i % 5 == 0:
                        time.sleep(0)
                    inside.remove(i % 7 == 0)

        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LATE)
        self.assertEqual(wrong, [])


class Lasting:
    """A run of another thread, which ends by itself."""

    def __init__(self, lock: SessionLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._holder = Held(self._lock.for_a_run)
        self._holder.entered.wait(LATE)
        threading.Timer(SOON, self._holder.let_go).start()

    def __exit__(self, *_) -> None:
        self._holder.thread.join(LATE)


class InterruptTest(unittest.TestCase):
    """Ctrl-C at any moment leaves no lock taken."""

    def test_at_random_moments(self) -> None:
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool would be interrupted too, and keep its own lock")
        lock = SessionLock(side_by_side=True)
        holders = [Held(lock.for_a_run) for _ in range(3)]  # so that there are locks to take
        for holder in holders:
            holder.entered.wait(LATE)
            holder.let_go()
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, previous)
        caught = 0
        for i in range(300):
            timer = threading.Timer(0.0003 + i * 2e-6, _thread.interrupt_main)
            try:
                timer.start()
                while True:
                    with lock.alone():
                        pass
                    with lock.for_a_run():
                        pass
            except KeyboardInterrupt:
                caught += 1
            timer.join()
        self.assertEqual(caught, 300)
        other = Held(lock.alone)
        self.assertTrue(other.entered.wait(LATE))
        other.let_go()

    @unittest.skipUnless(
        hasattr(signal, "pthread_kill"),
        "requires signal.pthread_kill: elsewhere, Ctrl-C does not end the wait for a lock",
    )
    def test_while_it_waits(self) -> None:
        lock = SessionLock(side_by_side=True)
        free, busy = Held(lock.for_a_run), Held(lock.for_a_run)
        free.entered.wait(LATE)
        busy.entered.wait(LATE)
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, previous)
        free.let_go()
        threading.Timer(SOON, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt), lock.alone():
            self.fail("not alone")
        again = Held(lock.for_a_run)
        self.assertTrue(again.entered.wait(LATE))
        again.let_go()
        busy.let_go()


_references: list[weakref.ref] = []


def inner_session(released: list, lock: SessionLock) -> object:
    """Return a stub of an inner session that notes the thread that releases it, if the thread holds the lock."""

    def note(reference: weakref.ref) -> None:
        _references.remove(reference)
        released.append(threading.get_ident() if lock._alone._is_owned() else "without the lock")

    # Like ORT's inner session, an array ends with its last reference: the garbage collector does not track it.
    inner = np.empty(0)
    _references.append(weakref.ref(inner, note))
    return inner


class Session:
    def __init__(self, released: list, lock: SessionLock) -> None:
        self._sess = inner_session(released, lock)


class ReleaseTest(unittest.TestCase):
    """Sessions are released under the lock, and no thread waits for the release."""

    def setUp(self) -> None:
        self.released: list[int | str] = []

    def session_of(self, lock: SessionLock) -> Session:
        session = Session(self.released, lock)
        lock.release_of(session)
        lock.release_of(session)  # once only
        return session

    def test_at_once_where_the_lock_is_free(self) -> None:
        for side_by_side in (True, False):
            session = self.session_of(SessionLock(side_by_side))
            del session
            self.assertEqual(self.released.pop(), threading.get_ident())

    def test_by_whoever_is_alone(self) -> None:
        for side_by_side in (True, False):
            lock = SessionLock(side_by_side)
            session = self.session_of(lock)
            holder = Held(lock.alone)
            holder.entered.wait(LATE)
            del session
            self.assertEqual(self.released, [])
            ident = holder.thread.ident
            holder.let_go()
            self.assertEqual(self.released.pop(), ident)

    def test_a_session_that_refers_to_itself(self) -> None:
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        session.me = [session]
        session.method = session.__init__
        del session
        self.assertEqual(self.released, [])
        gc.collect()
        self.assertEqual(self.released, [threading.get_ident()])

    def test_a_session_that_refers_to_itself_beside_another_thread(self) -> None:
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        session.me, ended = session, weakref.ref(session)
        holder = Held(lock.alone)
        holder.entered.wait(LATE)
        del session
        gc.collect()
        self.assertEqual(self.released, [])
        ident = holder.thread.ident
        holder.let_go()
        gc.collect()
        self.assertEqual(self.released, [ident])
        self.assertIsNone(ended())

    def test_not_in_the_middle_of_being_alone(self) -> None:
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        with lock.alone():
            with lock.alone():
                del session
            self.assertEqual(self.released, [])
        self.assertEqual(self.released, [threading.get_ident()])

    def test_beside_runs(self) -> None:
        lock = SessionLock(side_by_side=True)
        holder = Held(lock.for_a_run)
        holder.entered.wait(LATE)
        session = self.session_of(lock)
        del session
        self.assertEqual(self.released, [threading.get_ident()])
        holder.let_go()

    def test_nothing_is_left_by_a_thread_that_comes_first(self) -> None:
        # A thread's first run takes the lock for a moment, in which other threads may put a session aside.
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        add = lock._run_locks.add

        def add_and_drop(made) -> None:
            nonlocal session
            dropper = threading.Thread(target=drop)
            dropper.start()
            dropper.join(LATE)
            add(made)

        def drop() -> None:
            nonlocal session
            session = None

        with mock.patch.object(lock, "_run_locks", mock.Mock(add=add_and_drop)):
            Held(lock.for_a_run).let_go()
        self.assertEqual(len(self.released), 1)
        self.assertIsInstance(self.released[0], int)


class WhichTest(unittest.TestCase):
    """The lock of each session."""

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
                session = InferenceSession(chain().SerializeToString(), providers=["CPUExecutionProvider"])
                with mock.patch.object(session, "get_providers", lambda providers=providers: providers):
                    self.assertIs(locks.of(session), lock)
                with locks.while_opening(providers):
                    alone = Held(lock.alone if lock else threading.Lock)
                    self.assertEqual(alone.entered.wait(SOON if lock else LATE), lock is None)
                self.assertTrue(alone.entered.wait(LATE))
                alone.let_go()

    def test_of_a_prepared_model(self) -> None:
        with onnxruntime.backend.prepare(chain(2), provider_options={}) as rep:
            with rep.device_lock():  # the CPU needs none
                pass
            lock = SessionLock(side_by_side=False)
            with mock.patch.object(rep._runs, "lock", lock), rep.device_lock():
                self.assertTrue(lock._taken)

    def test_a_session_goes_with_its_last_user(self) -> None:
        session = InferenceSession(chain().SerializeToString(), providers=["CPUExecutionProvider"])
        with mock.patch.object(session, "get_providers", lambda: ["CUDAExecutionProvider"]):
            locks.of(session)
        gone = weakref.ref(session._sess) if hasattr(type(session._sess), "__weakref__") else weakref.ref(session)
        del session
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
