# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests which parts a session has, when their modules are imported, and Python without a global interpreter lock."""

from __future__ import annotations

import unittest
import warnings
from unittest import mock

import numpy as np
from helpers.children import run_code
from helpers.models import caught, open_session, two_nodes
from helpers.threads import needs_global_lock

import onnxruntime
from onnxruntime.backend import NotPermittedError, backend
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.provider_names import AZURE, CPU, CUDA, OPENVINO, OPENVINO_AUTO, TENSORRT, WEBGPU
from onnxruntime.backend.session import presence, selection
from onnxruntime.backend.session.part import SessionPart

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
    def test_of_each_ep(self) -> None:
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

    def test_modules_that_are_not_imported(self) -> None:
        ran = run_code("""if True:
            import sys
            import onnxruntime.backend
            from helpers.models import two_nodes
            import numpy as np
            onnxruntime.backend.prepare(two_nodes()).run([np.ones((2, 3), np.float32)])
            print(*sys.modules)
        """)
        own = [name.split(".")[2:] for name in ran.stdout.split() if name.startswith("onnxruntime.backend.")]
        imported = {name[0] for name in own}
        self.assertIn("session", imported, ran.stderr)
        self.assertEqual(imported & {*RARE}, set())


class WithoutGlobalLockTest(unittest.TestCase):
    """The locks of sessions do not work. A session on CUDA that does not capture needs none."""

    def setUp(self) -> None:
        patch = mock.patch.object(threads, "has_global_lock", lambda: False)
        patch.start()
        self.addCleanup(patch.stop)

    def test_specified(self) -> None:
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

    def test_available(self) -> None:
        for ep in (OPENVINO, WEBGPU):
            with (
                self.subTest(ep),
                mock.patch.object(backend, "get_available_providers", lambda: [ep, CPU]),  # noqa: B023
                mock.patch.object(presence, "kinds", lambda: dict.fromkeys((ep, CPU), "built-in")),  # noqa: B023
                warnings.catch_warnings(record=True) as given,
            ):
                warnings.simplefilter("always")
                backend.prepare(two_nodes())
                left_out = [warning for warning in given if "interpreter lock" in str(warning.message)]
                self.assertEqual(len(left_out), 1)

    def test_sessions_of_the_caller(self) -> None:
        for session in (
            session_on(WEBGPU),
            session_on(OPENVINO),
            session_on(CUDA, CUDAExecutionProvider=CAPTURING),
        ):
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
