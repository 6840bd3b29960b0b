# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the state that the backend keeps for a session, and of its release under the lock of the device."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import threading
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.capture import chain
from helpers.locks import Held, Interrupter, in_alone, in_run
from helpers.models import two_nodes
from helpers.threads import needs_global_lock

import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend import locks
from onnxruntime.backend.capture import graphs, sessions
from onnxruntime.backend.locks import SessionLock
from onnxruntime.backend.openvino.replacement import Origin
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.runs.settings import RunSettings
from onnxruntime.backend.session import capturing, state


class Session:
    """A stub of a session on a device. It notes whether the lock is held when the inner session ends."""

    def __init__(self, released: list, lock: SessionLock) -> None:
        # Like ORT's inner session, an array ends with its last reference: the garbage collector does not track it.
        self._sess = np.empty(0)
        weakref.finalize(self._sess, lambda: released.append(lock._alone._is_owned()))

    def get_providers(self) -> list[str]:
        return ["CUDAExecutionProvider"]

    def get_provider_options(self) -> dict:
        return {}


def graph_on_the_cpu() -> graphs.Graph:
    """Return a graph of another session, which has an inner session and a binding of ORT."""
    session = InferenceSession(two_nodes().SerializeToString(), providers=[CPU])
    return graphs.Graph("0", session)


class GraphTest(unittest.TestCase):
    def test_options_are_those_of_the_settings(self):
        graph = graph_on_the_cpu()
        first, second = (RunSettings({"logid": logid}, {}) for logid in "ab")
        for settings in (first, first, second, first):
            self.assertEqual(graph.options(settings).logid, settings.options.logid)
        self.assertIs(graph.options(first), graph.options(first))


@needs_global_lock
class ReleaseTest(unittest.TestCase):
    """Sessions are released under the lock, and no thread waits for the release."""

    def setUp(self):
        self.released: list[bool] = []

    def session_of(self, lock: SessionLock) -> Session:
        session = Session(self.released, lock)
        with mock.patch.object(locks, "of", return_value=lock):
            for _ in range(2):
                self.assertIs(locks.lock_of(session), lock)
        return session

    def test_the_next_call_releases(self):
        """The session ends in the garbage collector or in any thread, while another one is in a call or not."""
        for side_by_side, cycle, call in itertools.product((True, False), (False, True), (None, in_run, in_alone)):
            lock = SessionLock(side_by_side)
            sessions = [self.session_of(lock)]
            if cycle:
                sessions[0].me, sessions[0].method = sessions[0], sessions[0].__init__
            with (
                self.subTest(side_by_side=side_by_side, cycle=cycle, call=call),
                Held(call(lock)) if call else contextlib.nullcontext(),
            ):
                ends = threading.Thread(target=sessions.clear)
                ends.start()
                ends.join()
                gc.collect()
                self.assertEqual(self.released, [])
                lock.release_ended()
                is_alone = call is in_alone or (call is in_run and not side_by_side)
                self.assertEqual(self.released, [] if is_alone else [True])
            self.assertEqual(self.released, [True])
            self.assertFalse(lock._owned)
            self.released.clear()

    def test_a_run_beside_others_releases(self):
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        del session
        lock.run(None, bool)
        self.assertEqual(self.released, [True])

    def test_not_in_the_middle_of_being_alone(self):
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        with lock.alone():
            with lock.alone():
                del session
            self.assertEqual(self.released, [])
        self.assertEqual(self.released, [True])

    def test_other_references(self):
        """An error that the program keeps can refer to the inner session, or to a graph."""
        lock = SessionLock(side_by_side=True)
        for is_graph in (False, True):
            session = self.session_of(lock)
            kept = session._sess
            if is_graph:
                kept = graph_on_the_cpu()
                lock.own(session).graphs.append(kept)
            other = self.session_of(lock)
            del session, other
            lock.release_ended()
            self.assertEqual(self.released, [True])
            del kept
            self.assertEqual(self.released, [True])
            lock.release_ended()
            self.assertEqual(self.released, [True, True])
            self.released.clear()

    def test_a_replaced_inner_session(self):
        lock = SessionLock(side_by_side=True)
        session = self.session_of(lock)
        session._sess = np.empty(0)
        lock.own(session)
        lock.release_ended()
        self.assertEqual(self.released, [True])
        self.assertEqual(len(lock._owned), 1)

    def test_the_inner_session_ends_after_its_graphs(self):
        for cycle in (False, True):
            lock, ended = SessionLock(side_by_side=True), []
            session = self.session_of(lock)
            graph = graph_on_the_cpu()

            def end(lock=lock, ended=ended) -> None:
                ended.append(([*self.released], lock._alone._is_owned()))

            weakref.finalize(graph, end)
            lock.own(session).graphs.append(graph)
            if cycle:
                session.me = session
            del graph, session
            gc.collect()
            lock.release_ended()
            self.assertEqual(ended, [([], True)])
            self.assertEqual(self.released, [True])
            self.released.clear()

    def test_close_and_the_end_of_a_prepared_model(self):
        """Only ``close`` runs no Python code in a finalizer, which would lose an interrupt."""
        for close in (True, False):
            rep, lock = (onnxruntime.backend.prepare(chain(), provider_options={}), SessionLock(side_by_side=True))
            lock.own(rep.session)
            weakref.finalize(rep.session._sess, lambda lock=lock: self.released.append(lock._alone._is_owned()))
            copy = rep.with_run_config({})
            if close:
                rep.close()
                copy.close()
            else:
                del rep, copy
            self.assertEqual(self.released, [True])
            self.released.clear()

    def test_an_interrupt_during_close_is_not_lost(self):
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool is in use")
        for moment in range(400):
            rep, lock = (onnxruntime.backend.prepare(chain(), provider_options={}), SessionLock(side_by_side=True))
            lock.own(rep.session)
            with Interrupter(moment) as interrupter:
                rep.close()
            self.assertEqual(interrupter.interrupted, interrupter.reached_the_program)
            if not interrupter.interrupted:
                break
        self.assertGreater(moment, 5)


class StateTest(unittest.TestCase):
    def session(self) -> InferenceSession:
        return InferenceSession(chain().SerializeToString(), providers=["CPUExecutionProvider"])

    def test_one_state_for_all_threads(self):
        for _ in range(20):
            session, start = self.session(), threading.Barrier(4)
            with ThreadPoolExecutor(4) as pool:
                found = [pool.submit(lambda s=session, b=start: (b.wait(), state.of(s))[1]) for _ in range(4)]
            self.assertEqual(len({id(each.result()) for each in found}), 1)

    def test_one_attribute(self):
        before = {*vars(self.session())}
        rep = onnxruntime.backend.prepare(chain(), provider_options={})
        rep.run([np.ones((3, 4), np.float32)])
        self.assertEqual(len({*vars(rep.session)} - before), 1)

    def test_set_providers_ends_a_check(self):
        session = self.session()
        with (
            mock.patch.object(session, "get_providers", lambda: ["CUDAExecutionProvider"]),
            mock.patch.object(capturing, "of_session", return_value=["CUDAExecutionProvider"]),
            mock.patch.object(sessions, "Capture", lambda *_: SimpleNamespace(inner=session._providers, checked=_[-1])),
        ):
            for checked in (True, False):
                self.assertTrue(sessions.capture_of(session, checked).checked)
            session.set_providers(["CPUExecutionProvider"])
            self.assertFalse(sessions.capture_of(session).checked)

    def test_a_session_goes_with_its_last_user(self):
        session = self.session()
        with mock.patch.object(session, "get_providers", lambda: ["CUDAExecutionProvider"]):
            locks.lock_of(session)
        gone = weakref.ref(session)
        del session
        gc.collect()
        self.assertIsNone(gone())


@needs_global_lock
class ReplacedTest(unittest.TestCase):
    def test_a_replaced_session_on_a_shared_device(self):
        """The lock of the device releases each inner session once."""
        lock = SessionLock(side_by_side=True)
        content = two_nodes().SerializeToString()
        session, fresh = (InferenceSession(content, providers=[CPU]) for _ in range(2))
        gone = []
        for one in (session, fresh):
            lock.own(one)
            weakref.finalize(one._sess, gone.append, one is fresh)
        origin = Origin(content, [fresh].pop)
        origin.renew(session)
        del one, fresh, origin
        lock.own(session)
        lock.release_ended()
        self.assertEqual(gone, [False])
        del session
        lock.release_ended()
        self.assertEqual(gone, [False, True])


if __name__ == "__main__":
    unittest.main()
