# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests which parts a session has, when their modules are imported, and Python without a global interpreter lock."""

import unittest
import warnings
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy as np
from helpers.children import run_code
from helpers.locks import SOON, Held, check, check_free, in_alone
from helpers.models import caught, open_session, two_nodes
from helpers.threads import needs_global_lock

import onnxruntime.backend
from onnxruntime.backend import NotPermittedError, backend, locks, parts
from onnxruntime.backend.allowlist import conditions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NO_SETTINGS
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.locks import GPU
from onnxruntime.backend.provider_names import AZURE, CPU, CUDA, OPENVINO, OPENVINO_AUTO, TENSORRT, WEBGPU
from onnxruntime.backend.session import presence
from onnxruntime.backend.session.creation import Construction, SessionPart
from onnxruntime.backend.session.state import state_of
from onnxruntime.backend.waiting import call_holding

X = np.ones((2, 3), np.float32)
CAPTURING = {"enable_cuda_graph": "1"}
# The modules that no program needs whose sessions run on the CPU EP.
RARE = ("capture", "locks", "openvino")


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
                self.assertEqual(names(parts.for_session(session)), expected)

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
    """A session on OpenVINO and on a device waits for the lock of the device, and inside it for its own."""

    def test_runs_wait_for_each(self):
        for eps in ((OPENVINO, CUDA), (CUDA, OPENVINO), (OPENVINO, WEBGPU)):
            rep = backend.prepare(session_on(*eps))
            self.assertEqual(len(rep.run([X])), 1)
            one = state_of(rep.session).keep("openvino", object)._lock

            def run(hold: Callable, rep=rep) -> None:
                rep.run([X])
                hold()

            for holding in (in_alone(GPU), partial(call_holding, one, None)):
                with self.subTest(eps, device=holding == in_alone(GPU)):
                    check(holding, run, waits=True)
            with Held(in_alone(GPU)):
                waiting = Held(run)
                self.assertFalse(waiting.entered.wait(SOON))
                check_free(partial(call_holding, one, None))
            waiting.let_go()

    def test_a_run_can_replace_its_inner_session(self):
        """The guard of the run holds the lock already."""
        wanted = Construction(b"", Permit("", True, {WEBGPU: NO_SETTINGS}), onnxruntime.SessionOptions())
        session = GPU.run_alone(None, locks.LockPart().create, wanted, lambda: wanted.call(open_session))
        self.assertIs(state_of(session).owned.lock, GPU)

    def test_a_session_on_several_devices_captures_nothing(self):
        for other in (WEBGPU, OPENVINO):
            session = session_on(CUDA, other, CUDAExecutionProvider=CAPTURING)
            with self.subTest(other):
                self.assertIn("on one device", eligibility.problem(session, [CUDA], two_nodes()))


class WithoutGlobalLockTest(unittest.TestCase):
    """The locks of sessions do not work. A session on CUDA that does not capture needs none."""

    def setUp(self):
        self.enterContext(mock.patch.object(conditions, "has_global_lock", lambda: False))

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


if __name__ == "__main__":
    unittest.main()
