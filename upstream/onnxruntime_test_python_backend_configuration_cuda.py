# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests provider_options of the CUDA EP. The tests are skipped in a build without the EP."""

from __future__ import annotations

import unittest

import numpy as np
from onnxruntime_test_python_backend_configuration import MODEL, ON_CUDA, SHRINKAGE, X, samples

import onnxruntime
from onnxruntime import backend
from onnxruntime.backend.allowlist.cuda import OPTIONS
from onnxruntime.backend.allowlist.providers import CPU, CUDA

IS_BUILT = CUDA in onnxruntime.get_available_providers()


def works() -> bool:
    """Return whether ORT can create a session on CUDA."""
    if not IS_BUILT:
        return False
    serialized = MODEL.SerializeToString()
    session = onnxruntime.InferenceSession(serialized, providers=[CUDA])
    return CUDA in session.get_providers()


WORKS = works()


@unittest.skipUnless(WORKS, "ORT cannot create a session on CUDA")
class CudaTest(unittest.TestCase):
    def test_each_option(self) -> None:
        for option, rule in OPTIONS.items():
            for value, text in samples(rule.kind).items():
                if option == "device_id" and text != "0":
                    continue
                with self.subTest(option, value=value):
                    options = {option: value}
                    rep = backend.prepare(MODEL, "CUDA", provider_options={CUDA: options})
                    session = rep._session
                    self.assertEqual(session.get_providers(), [CUDA, CPU])
                    reported = session.get_provider_options()[CUDA]
                    self.assertEqual(reported[option], text)
                    (y,) = rep.run([X])
                    np.testing.assert_array_equal(y, -X)

    def test_a_device_that_does_not_exist(self) -> None:
        options = {"device_id": 63}
        with self.assertRaisesRegex(Exception, "device"):
            backend.prepare(MODEL, provider_options={CUDA: options})

    def test_run_config(self) -> None:
        rep = backend.prepare(MODEL, provider_options=ON_CUDA)
        entries = {SHRINKAGE: "gpu:0"}
        (y,) = rep.run([X], run_config=entries)
        np.testing.assert_array_equal(y, -X)

    def test_the_order(self) -> None:
        specified = {CPU: {}, CUDA: {"use_tf32": 0}}
        words = f"No node of this model is assigned to {CUDA}"
        with self.assertWarnsRegex(RuntimeWarning, words):
            rep = backend.prepare(MODEL, provider_options=specified)
        providers = rep._session.get_providers()
        self.assertEqual(providers, [CPU, CUDA])

    def test_only_the_cpu(self) -> None:
        rep = backend.prepare(MODEL, provider_options={})
        providers = rep._session.get_providers()
        self.assertEqual(providers, [CPU])


@unittest.skipUnless(IS_BUILT and not WORKS, "requires a build for CUDA on a machine without CUDA")
class NoFallbackTest(unittest.TestCase):
    def test_the_execution_provider_is_specified(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "CUDA") as caught:
            backend.prepare(MODEL, provider_options=ON_CUDA)
        self.assertNotIsInstance(caught.exception, backend.NotPermittedError)


if __name__ == "__main__":
    unittest.main()
