# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the state that the backend keeps for a session, and of its release under the lock of the device."""

import contextlib
import gc
import itertools
import threading
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor

import _above
import numpy as np
from helpers.locks import Held, at_each_step, in_alone, in_run
from helpers.models import open_session, two_nodes
from helpers.threads import needs_global_lock

import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend.locks import SessionLock
from onnxruntime.backend.openvino.replacement import Origin
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.session.state import state_of


class Session:
    """A stub of a session on a device. It notes when its inner session ends, and whether the lock is held."""

    def __init__(self, released: list, lock: SessionLock) -> None:
        # Like ORT's inner session, an array ends with its last reference: the garbage collector does not track it.
        self._sess = np.empty(0)
        weakref.finalize(self._sess, lambda: released.append(lock._alone._is_owned()))
        lock.own(self)


@needs_global_lock
class ReleaseTest(unittest.TestCase):
    """Sessions are released under the lock, and no thread waits for the release."""

    def setUp(self):
        self.released: list[bool] = []
        self.lock = SessionLock()

    def test_the_next_call_releases(self):
        """The session ends in the garbage collector or in any thread, while another one is in a call or not."""
        for cycle, call in itertools.product((False, True), (None, in_run, in_alone)):
            sessions = [Session(self.released, self.lock)]
            if cycle:
                sessions[0].me, sessions[0].method = sessions[0], sessions[0].__init__
            with self.subTest(cycle=cycle, call=call), Held(call(self.lock)) if call else contextlib.nullcontext():
                ends = threading.Thread(target=sessions.clear)
                ends.start()
                ends.join()
                gc.collect()
                self.assertEqual(self.released, [])
                self.lock.release_ended()
                self.assertEqual(self.released, [] if call is in_alone else [True])
            self.assertEqual(self.released, [True])
            self.assertFalse(self.lock._owned)
            self.released.clear()

    def test_any_call_releases(self):
        for call in (in_run, in_alone):
            Session(self.released, self.lock)
            call(self.lock)(int)
            self.assertEqual(self.released.pop(), True)

    def test_not_in_the_middle_of_being_alone(self):
        session = Session(self.released, self.lock)
        with self.lock.alone():
            with self.lock.alone():
                del session
            self.assertEqual(self.released, [])
        self.assertEqual(self.released, [True])

    def test_not_in_a_worker(self):
        self.lock.workers.add(threading.get_ident())
        Session(self.released, self.lock)
        self.lock.run_alone(None, self.lock.release_ended)
        self.assertEqual(self.released, [])

    def test_a_replaced_inner_session(self):
        session = Session(self.released, self.lock)
        session._sess = np.empty(0)
        self.lock.own(session)
        self.lock.release_ended()
        self.assertEqual(self.released, [True])
        self.assertEqual(len(self.lock._owned), 1)

    def test_the_inner_session_ends_after_its_graphs(self):
        session, graph = Session(self.released, self.lock), np.empty(0)
        weakref.finalize(graph, self.released.append, "graph")
        self.lock.own(session).append(graph)
        del session, graph
        self.lock.release_ended()
        self.assertEqual(self.released, ["graph", True])

    def test_close_and_the_end_of_a_prepared_model(self):
        """Only ``close`` runs no Python code in a finalizer, which would lose an interrupt."""
        for close in (True, False):
            rep = onnxruntime.backend.prepare(two_nodes(), provider_options={})
            self.lock.own(rep.session)
            weakref.finalize(rep.session._sess, lambda: self.released.append(self.lock._alone._is_owned()))
            copy = rep.with_run_config({})
            if close:
                rep.close()
                copy.close()
            else:
                del rep, copy
            self.assertEqual(self.released.pop(), True)

    def test_an_interrupt_during_close_is_not_lost(self):
        for interrupter in at_each_step():
            rep = onnxruntime.backend.prepare(two_nodes(), provider_options={})
            self.lock.own(rep.session)
            with interrupter:
                rep.close()
            self.assertEqual(interrupter.interrupted, interrupter.reached_the_program)

    def test_the_lock_of_a_prepared_model(self):
        with onnxruntime.backend.prepare(two_nodes(), provider_options={}) as rep:
            with rep.device_lock():  # the CPU needs none
                pass
            self.lock.own(rep.session)
            with rep.device_lock():
                self.assertTrue(self.lock._alone._is_owned())

    def test_a_replaced_session_on_a_shared_device(self):
        """The lock of the device releases each inner session once."""
        session, fresh = open_session(), open_session()
        for one in (session, fresh):
            self.lock.own(one)
            weakref.finalize(one._sess, self.released.append, one is fresh)
        origin = Origin(two_nodes().SerializeToString(), [fresh].pop)
        origin.renew(session)
        del one, fresh, origin
        self.lock.own(session)
        self.lock.release_ended()
        self.assertEqual(self.released, [False])
        del session
        self.lock.release_ended()
        self.assertEqual(self.released, [False, True])


class StateTest(unittest.TestCase):
    def test_one_state_for_all_threads(self):
        for _ in range(20):
            session, start = open_session(), threading.Barrier(4)
            with ThreadPoolExecutor(4) as pool:
                found = [pool.submit(lambda s=session, b=start: (b.wait(), state_of(s))[1]) for _ in range(4)]
            self.assertEqual(len({id(each.result()) for each in found}), 1)

    def test_one_attribute(self):
        before = {*vars(open_session())}
        rep = onnxruntime.backend.prepare(two_nodes(), provider_options={})
        rep.run([np.ones((2, 3), np.float32)])
        self.assertEqual(len({*vars(rep.session)} - before), 1)

    def test_a_session_goes_with_its_last_user(self):
        session = InferenceSession(two_nodes().SerializeToString(), providers=[CPU])
        SessionLock().own(session)
        gone = weakref.ref(session)
        del session
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
