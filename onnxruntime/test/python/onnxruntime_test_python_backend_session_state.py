# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the state that the backend keeps for a session, and of its release under the lock of the device."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

import numpy as np
from backend_test_capture import chain
from backend_test_locks import Held, in_alone, in_run
from backend_test_threads import FREE_THREADED, is_held, wait_for_release

import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend import locks
from onnxruntime.backend.capture import graphs, sessions
from onnxruntime.backend.locks import SessionLock
from onnxruntime.backend.session import parts, state


class Session:
    """A stub of a session on a device. It notes the thread that releases it, if a thread holds the lock."""

    def __init__(self, released: list, lock: SessionLock) -> None:
        # Like ORT's inner session, an array ends with its last reference: the garbage collector does not track it.
        self._sess = np.empty(0)

        def note() -> None:
            released.append(threading.get_ident() if is_held(lock._alone) else "without the lock")

        weakref.finalize(self._sess, note)

    def get_providers(self) -> list[str]:
        return ["CUDAExecutionProvider"]

    def get_provider_options(self) -> dict:
        return {}

    def io_binding(self) -> SimpleNamespace:
        return SimpleNamespace(_iobinding=np.empty(0))


class ReleaseTest(unittest.TestCase):
    """Sessions are released under the lock, and no thread waits for the release."""

    def setUp(self) -> None:
        self.released: list[int | str] = []

    def session_of(self, lock: SessionLock) -> Session:
        session = Session(self.released, lock)
        with mock.patch.object(locks, "of", return_value=lock):
            for _ in range(2):
                self.assertIs(locks.lock_of(session), lock)
        return session

    def test_which_thread_releases(self) -> None:
        """The thread that is alone, or the one that ends the session, which may be the garbage collector's."""
        for side_by_side, cycle, call in itertools.product((True, False), (False, True), (None, in_run, in_alone)):
            lock = SessionLock(side_by_side)
            session = self.session_of(lock)
            if cycle:
                session.me, session.method = [session], session.__init__
            ended, releases = weakref.ref(session), threading.get_ident()
            with (
                self.subTest(side_by_side=side_by_side, cycle=cycle, call=call),
                Held(call(lock)) if call else contextlib.nullcontext() as holder,
            ):
                del session
                if cycle:
                    self.assertEqual(self.released, [])
                    gc.collect()
                if call is in_alone or (call is in_run and not side_by_side):
                    self.assertEqual(self.released, [])
                    releases = holder.thread.ident
                elif not FREE_THREADED:
                    self.assertEqual(self.released, [releases])
            gc.collect()
            self.assertIsNone(ended())
            wait_for_release(lambda: self.released)
            if FREE_THREADED:  # another thread releases it if a garbage collection goes on
                releases = self.released[0]
            self.assertEqual(self.released, [releases])
            self.assertIsInstance(releases, int)
            self.released.clear()

    def test_not_in_the_middle_of_being_alone(self) -> None:
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        with lock.alone():
            with lock.alone():
                del session
            self.assertEqual(self.released, [])
        self.assertEqual(self.released, [threading.get_ident()])

    def test_a_thread_releases_what_ended_while_it_held_the_lock(self) -> None:
        sessions = []

        class Lock(SessionLock):
            owner = 0

            @property
            def _owner(self) -> int:
                return self.owner

            @_owner.setter
            def _owner(self, thread: int) -> None:
                self.owner = thread
                if sessions:  # under the lock, for which the thread has waited
                    ends = threading.Thread(target=sessions.clear)
                    ends.start()
                    ends.join()

        lock = Lock(side_by_side=True)
        sessions.append(self.session_of(lock))
        lock.owner = -1  # another thread was alone last
        lock.run(None, list)
        self.assertEqual(sessions, [])
        self.assertEqual(self.released, [threading.get_ident()])

    def test_a_thread_that_waited_leaves_nothing(self) -> None:
        lock = SessionLock(side_by_side=True)
        with Held(in_alone(lock)):
            waiting = [Held(in_run(lock)) for _ in range(3)]
            session = self.session_of(lock)
            del session
        for held in waiting:
            held.let_go()
        self.assertEqual(len(self.released), 1)
        self.assertIsInstance(self.released[0], int)

    def test_a_thread_that_has_not_created_the_session(self) -> None:
        """Without a global lock, the thread that created an object ends it, unless a garbage collection does."""
        for cycle, waits in itertools.product((False, True), (False, True)):
            lock = SessionLock(side_by_side=True)
            sessions = [self.session_of(lock)]
            if cycle:
                sessions[0].me = sessions[0]
            with Held(in_alone(lock)) if waits else contextlib.nullcontext():
                thread = threading.Thread(target=lambda sessions=sessions: (sessions.clear(), gc.collect()))
                thread.start()
                thread.join()
            wait_for_release(lambda: self.released)
            with self.subTest(cycle=cycle, waits=waits):
                self.assertEqual(len(self.released), 1)
                self.assertIsInstance(self.released[0], int)
            self.released.clear()

    def test_the_inner_session_ends_after_its_graphs(self) -> None:
        for cycle in (False, True):
            lock, ended = SessionLock(side_by_side=True), []
            session = self.session_of(lock)
            graph = graphs.Graph("0", session, lock)

            def end(lock=lock, ended=ended) -> None:
                ended.append(([*self.released], is_held(lock._alone)))

            weakref.finalize(graph.inner_binding, end)
            state.of(session).keep("capture", lambda graph=graph: [graph])
            if cycle:
                session.me = session
            del graph, session
            gc.collect()
            wait_for_release(lambda: self.released)
            self.assertEqual(ended, [([], True)])
            self.assertNotEqual(self.released, ["without the lock"])
            self.assertEqual(len(self.released), 1)
            self.released.clear()


class StateTest(unittest.TestCase):
    def session(self) -> InferenceSession:
        return InferenceSession(chain().SerializeToString(), providers=["CPUExecutionProvider"])

    def test_one_state_for_all_threads(self) -> None:
        for _ in range(20):
            session, start = self.session(), threading.Barrier(4)
            with ThreadPoolExecutor(4) as pool:
                found = [pool.submit(lambda s=session, b=start: (b.wait(), state.of(s))[1]) for _ in range(4)]
            self.assertEqual(len({id(each.result()) for each in found}), 1)

    def test_one_attribute(self) -> None:
        before = {*vars(self.session())}
        rep = onnxruntime.backend.prepare(chain(), provider_options={})
        rep.run([np.ones((3, 4), np.float32)])
        self.assertEqual(len({*vars(rep.session)} - before), 1)

    def test_set_providers_ends_a_check(self) -> None:
        session = self.session()
        with (
            mock.patch.object(session, "get_providers", lambda: ["CUDAExecutionProvider"]),
            mock.patch.object(parts, "capturing", return_value=["CUDAExecutionProvider"]),
            mock.patch.object(sessions, "Capture", lambda *_: SimpleNamespace(inner=session._providers, checked=_[-1])),
        ):
            for checked in (True, False):
                self.assertTrue(sessions.capture_of(session, checked).checked)
            session.set_providers(["CPUExecutionProvider"])
            self.assertFalse(sessions.capture_of(session).checked)

    def test_a_session_goes_with_its_last_user(self) -> None:
        session = self.session()
        with mock.patch.object(session, "get_providers", lambda: ["CUDAExecutionProvider"]):
            locks.lock_of(session)
        gone = weakref.ref(session)
        del session
        gc.collect()
        self.assertIsNone(gone())

    def test_other_devices_is_not_lost(self) -> None:
        """A thread whose session is on device 0 does not undo the finding of another thread."""
        lock, beside = SessionLock(side_by_side=True), self.session()

        def options(index: str) -> dict:
            if index == "0":
                self.find(lock, beside, lambda: options("1"))
            return {"CUDAExecutionProvider": {"device_id": index}}

        self.find(lock, self.session(), lambda: options("0"))
        self.assertTrue(lock.other_devices)

    def find(self, lock: SessionLock, session: InferenceSession, options) -> None:
        with (
            mock.patch.object(locks, "of", return_value=lock),
            mock.patch.object(session, "get_provider_options", options),
        ):
            locks.lock_of(session)


if __name__ == "__main__":
    unittest.main()
