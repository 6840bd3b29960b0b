# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""OpenVINO needs two CPU cores: otherwise, the EP is refused, or left out with a warning."""

from __future__ import annotations

import unittest
from unittest import mock

from backend_test_models import no_session_opens, two_nodes

import onnxruntime.backend
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CPU, OPENVINO
from onnxruntime.backend.session import presence


class TestOpenVinoOnOneCore(unittest.TestCase):
    """On one core, OpenVINO returns the outputs of another run instead of an error."""

    def setUp(self) -> None:
        patched = mock.patch.object(threads, "usable_cores", return_value=1)
        patched.start()
        self.addCleanup(patched.stop)

    def test_a_specified_ep_is_refused(self) -> None:
        for options in ({}, {"num_of_threads": 2}, {"device_type": "CPU"}, {"device_type": "HETERO:CPU"}):
            with self.subTest(options), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                onnxruntime.backend.prepare(two_nodes(), provider_options={OPENVINO: options})
            self.assertEqual(refused.exception.provider, OPENVINO)
            self.assertIn("two CPU cores", refused.exception.reason)

    def test_an_available_ep_is_omitted_with_a_warning(self) -> None:
        with (
            mock.patch.object(presence, "stock_list", return_value=[OPENVINO, CPU]),
            self.assertWarnsRegex(RuntimeWarning, f"{OPENVINO} is left out"),
        ):
            rep = onnxruntime.backend.prepare(two_nodes())
        self.assertEqual(rep.providers, (CPU,))


if __name__ == "__main__":
    unittest.main()
