# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests which parts a session has, when their modules are imported, and Python without a global interpreter lock."""

from __future__ import annotations

import unittest
import warnings
import weakref
from collections.abc import Callable
from unittest import mock

import numpy as np
from helpers.children import run_code
from helpers.execution_providers import HAS_BUILT_IN_OPENVINO
from helpers.locks import SOON, Held, check, check_free, in_alone
from helpers.models import caught, open_session, parsed, two_nodes
from helpers.threads import needs_global_lock

import onnxruntime.backend
from onnxruntime.backend import NotPermittedError, backend, locks
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.locks import SessionLock
from onnxruntime.backend.provider_names import AZURE, CPU, CUDA, OPENVINO, OPENVINO_AUTO, TENSORRT, WEBGPU
from onnxruntime.backend.session import presence, selection, state
from onnxruntime.backend.session.construction import Construction, SessionPart

X = np.ones((2, 3), np.float32)
CAPTURING = {"enable_cuda_graph": "1"}
# The modules that no program needs whose sessions run on the CPU EP.
RARE = ("capture", "environment", "free_dimensions", "locks", "openvino")


def session_on(*eps: str, **options: dict[str, str]) -> onnxruntime.InferenceSession:
    """Return a session of a caller that reports these EPs and options."""
    session = open_session()
    session.get_providers = lambda: [*eps, CPU]
    session.get_provider_options = lambda: {ep: {} for ep in (*eps, CPU)} | options
    return session


def names(parts: list[SessionPart]) -> list[str]:
    return [part.name for part in parts]


class PartsTest(unittest.TestCase):
    @needs_global_lock
    def test_of_each_ep(self):
        for session, expected in (
            (session_on(), []),
            (session_on(AZURE), []),
            (session_on(CUDA), ["locks"]),
            (session_on(TENSORRT), ["locks"]),
            (session_on(WEBGPU), ["locks"]),
            (session_on(OPENVINO), ["openvino"]),
            (session_on(OPENVINO_AUTO), ["openvino"]),
            (session_on(CUDA, CUDAExecutionProvider=CAPTURING), ["capture", "locks"]),
        ):
            with self.subTest(session.get_providers()):
                self.assertEqual(names(selection.for_session(session)), expected)

    def test_modules_that_are_not_imported(self):
        ran = run_code("""if True:
            import sys
            import onnxruntime.backend
            from helpers.models import two_nodes
            import numpy as np
            onnxruntime.backend.prepare(two_nodes(), provider_options={}).run([np.ones((2, 3), np.float32)])
            print(*sys.modules)
        """)
        own = [name.split(".")[2:] for name in ran.stdout.split() if name.startswith("onnxruntime.backend.")]
        imported = {name[0] for name in own}
        self.assertIn("session", imported, ran.stderr)
        self.assertEqual(imported & {*RARE}, set())


@needs_global_lock
class SeveralGuardsTest(unittest.TestCase):
    """A session on several devices waits for the lock of each, in the same order."""

    def guards(self, *eps: str) -> tuple[object, list[SessionLock]]:
        """Return a prepared model on these EPs, and the locks that its runs take, from the first to the last."""
        rep = backend.prepare(session_on(*eps))
        self.assertEqual(len(rep.run([X])), 1)
        order = state.of(rep.session).keep("openvino", object)
        of_eps = {WEBGPU: locks.WEBGPU, CUDA: locks.CUDA, OPENVINO: getattr(order, "_lock", None)}
        return rep, [of_eps[ep] for ep in (WEBGPU, CUDA, OPENVINO) if ep in eps]

    def test_runs_wait_for_each(self):
        for eps in (
            (OPENVINO, CUDA),
            (CUDA, OPENVINO),
            (CUDA, WEBGPU),
            (WEBGPU, CUDA),
            (OPENVINO, WEBGPU),
            (OPENVINO, WEBGPU, CUDA),
        ):
            rep, taken = self.guards(*eps)
            for lock in taken:
                for inputs in ([X], [X.tolist()]):
                    with self.subTest(eps, lock=taken.index(lock), fast=inputs[0] is X):
                        check(in_alone(lock), lambda hold: (rep.run(inputs), hold()), waits=True)  # noqa: B023

    def test_no_lock_is_held_while_a_run_waits_for_the_first(self):
        for eps in ((OPENVINO, CUDA), (CUDA, WEBGPU), (OPENVINO, WEBGPU, CUDA)):
            rep, (first, *others) = self.guards(*eps)
            with self.subTest(eps), Held(in_alone(first)):
                waiting = Held(lambda hold: (rep.run([X]), hold()))  # noqa: B023
                self.assertFalse(waiting.entered.wait(SOON))
                check_free(*map(in_alone, others))
            waiting.let_go()

    def test_the_lock_of_both_devices(self):
        rep, both = self.guards(CUDA, WEBGPU)
        for lock in both:
            with self.subTest(both.index(lock)), rep.device_lock():
                waiting = Held(in_alone(lock))
                self.assertFalse(waiting.entered.wait(SOON))
                self.assertEqual(len(rep.run([X])), 1)
            waiting.let_go()

    def test_a_session_on_both_devices_is_released_under_both_locks(self):
        for lock in (locks.WEBGPU, locks.CUDA):
            rep, _ = self.guards(CUDA, WEBGPU)
            gone = []
            weakref.finalize(rep.session._sess, gone.append, lock)
            with Held(in_alone(lock)):
                rep.close()
                self.assertEqual(gone, [])
            locks.of([CUDA, WEBGPU]).release_ended()
            self.assertEqual(gone, [lock])

    def test_a_creation_waits_for_each(self):
        permit = Permit("", True, {CUDA: {}, WEBGPU: {}})
        for lock in (locks.WEBGPU, locks.CUDA):

            def create(hold: Callable) -> None:
                def construct() -> onnxruntime.InferenceSession:
                    hold()
                    return open_session()

                wanted = Construction(b"", permit, onnxruntime.SessionOptions())
                wanted.create = lambda: wanted.call(construct)
                locks.LockPart().create(wanted)

            check(in_alone(lock), create, waits=True)
            check(create, in_alone(lock), waits=True)

    def test_a_run_can_replace_its_inner_session(self):
        """The guard of the run holds the lock already. A signal handler in the middle of the run creates no session."""
        permit = Permit("", True, {WEBGPU: {}})
        wanted = Construction(b"", permit, onnxruntime.SessionOptions())
        wanted.create = lambda: None
        locks.LockPart().create(wanted)
        session = locks.WEBGPU.run(None, wanted.call, open_session)
        self.assertIs(state.of(session).owned.owner, locks.WEBGPU)
        with self.assertRaisesRegex(RuntimeError, "in the middle of a call"):
            locks.WEBGPU.run(None, locks.LockPart().create, wanted)

    def test_a_session_on_several_devices_captures_nothing(self):
        for other in (WEBGPU, OPENVINO):
            session = session_on(CUDA, other, CUDAExecutionProvider=CAPTURING)
            with self.subTest(other):
                self.assertIn("on one device", eligibility.problem(session, [CUDA], checked=True))


class WithoutGlobalLockTest(unittest.TestCase):
    """The locks of sessions do not work. A session on CUDA that does not capture needs none."""

    def setUp(self):
        self.enterContext(mock.patch.object(threads, "has_global_lock", lambda: False))

    def test_specified(self):
        for ep, options in (
            (WEBGPU, {}),
            (OPENVINO, {}),
            (OPENVINO_AUTO, {}),
            (CUDA, {"enable_cuda_graph": True}),
            (TENSORRT, {"trt_cuda_graph_enable": True}),
        ):
            with self.subTest(ep):
                error = caught(lambda: backend.prepare(two_nodes(), provider_options={ep: options}))  # noqa: B023
                self.assertIs(type(error), NotPermittedError)
                self.assertIn("global interpreter lock", str(error))
                self.assertEqual((error.keyword, error.provider), ("provider_options", ep))
        error = caught(lambda: backend.prepare(two_nodes(), provider_options={CUDA: {"enable_cuda_graph": False}}))
        self.assertNotIn("global interpreter lock", str(error))

    def test_available(self):
        for ep in (OPENVINO, WEBGPU):
            with (
                self.subTest(ep),
                mock.patch.object(backend, "get_available_providers", lambda: [ep, CPU]),  # noqa: B023
                mock.patch.object(presence, "kinds", lambda: dict.fromkeys((ep, CPU), "built-in")),  # noqa: B023
                warnings.catch_warnings(record=True, action="always") as given,
            ):
                backend.prepare(two_nodes())
                left_out = [warning for warning in given if "interpreter lock" in str(warning.message)]
                self.assertEqual(len(left_out), 1)

    def test_sessions_of_the_caller(self):
        for session in (session_on(WEBGPU), session_on(OPENVINO), session_on(CUDA, CUDAExecutionProvider=CAPTURING)):
            rep = backend.prepare(session)
            for call in (lambda: rep.run([X]), rep.run_options):  # noqa: B023
                with self.subTest(session.get_providers()), self.assertRaisesRegex(RuntimeError, "interpreter lock"):
                    call()
        rep = backend.prepare(session_on(CUDA))
        self.assertEqual(len(rep.run([X])), 1)
        with rep.device_lock():
            pass


@needs_global_lock
class LeftOutTest(unittest.TestCase):
    @unittest.skipUnless(HAS_BUILT_IN_OPENVINO, "needs OpenVINO's built-in EP")
    def test_openvino_is_left_out_of_a_session_that_does_not_specify_it(self):
        model = parsed(
            """(float[2] h, float[2] m, float[2] o, int64 n) => (float[2] y, float[2] z) {
            y, z = Loop(n, , h, m) <body = b (int64 i, bool c, float[2] h0, float[2] m0) =>
            (bool d, float[2] t, float[2] m0) { d = Identity(c) h1 = Add(h0, o) t = Tanh(h1) }> }"""
        )
        with self.assertWarnsRegex(RuntimeWarning, f"{OPENVINO} is left out: .* terminates the process"):
            rep = onnxruntime.backend.prepare(model)
        self.assertNotIn(OPENVINO, rep.providers)


if __name__ == "__main__":
    unittest.main()
