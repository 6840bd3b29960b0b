# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The request of issue 28209: callers specify provider options, session config entries and run config entries."""

from __future__ import annotations

import unittest

import numpy as np
from helpers.models import two_nodes

import onnxruntime
import onnxruntime.backend

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
MODEL = two_nodes((2, 3))
X = np.float32([[1, -2, 3], [-4, 5, -6]])
SPINNING = "session.intra_op.allow_spinning"
SHRINKAGE = "memory.enable_memory_arena_shrinkage"


class ConfiguredTest(unittest.TestCase):
    """Each setting is applied, and reported as ORT has stored it."""

    device, ep = None, CPU  # a build with CUDA does not support the device "CPU"
    options, reported = {}, {}
    arena = "cpu:0"

    def configuration(self) -> dict:
        return {
            "provider_options": {self.ep: self.options},
            "session_config": {SPINNING: False},
            "run_config": {SHRINKAGE: self.arena},
        }

    def test_prepare_and_run(self):
        rep = onnxruntime.backend.prepare(MODEL, self.device, **self.configuration())
        (y,) = rep.run([X])
        np.testing.assert_array_equal(y, np.abs(X))
        self.assertEqual(rep.providers, tuple(dict.fromkeys([self.ep, CPU])))
        self.assertEqual(dict(rep.provider_options[self.ep]), self.reported)
        self.assertEqual(dict(rep.session_config), {SPINNING: "0"})
        self.assertEqual(dict(rep.run_config), {SHRINKAGE: self.arena})
        self.assertEqual(dict(rep.unconfirmed), {})
        self.assertEqual(rep.node_assignment[self.ep], 2)

    def test_run_config_of_one_run(self):
        rep = onnxruntime.backend.prepare(MODEL, self.device, provider_options={self.ep: {}})
        (y,) = rep.run([X], run_config={SHRINKAGE: self.arena})
        np.testing.assert_array_equal(y, np.abs(X))
        self.assertEqual(dict(rep.run_config), {})

    def test_one_shot_run(self):
        (y,) = onnxruntime.backend.run(MODEL, [X], self.device, **self.configuration())
        np.testing.assert_array_equal(y, np.abs(X))

    def test_settings_that_are_not_permitted(self):
        for keyword, settings in (
            ("provider_options", {self.ep: {"user_compute_stream": "1"}}),
            ("session_config", {"session.collect_node_memory_stats_to_file": "file.csv"}),
            ("run_config", {"gpu_graph_id": "a"}),
        ):
            with self.subTest(keyword), self.assertRaises(RuntimeError) as raised:
                onnxruntime.backend.prepare(MODEL, self.device, **{keyword: settings})
            self.assertEqual(raised.exception.keyword, keyword)
        with self.assertRaisesRegex(RuntimeError, "not permitted via the backend API"):
            onnxruntime.backend.prepare(MODEL, self.device, session_config={"session.no_such_key": 1})


@unittest.skipUnless(CUDA in onnxruntime.get_available_providers(), "requires the CUDA EP")
class ConfiguredCudaTest(ConfiguredTest):
    device, ep = "CUDA", CUDA
    options = {"use_tf32": False, "gpu_mem_limit": 2**30}  # noqa: RUF012
    reported = {"device_id": "0", "use_tf32": "0", "gpu_mem_limit": str(2**30)}  # noqa: RUF012
    arena = "gpu:0"


if __name__ == "__main__":
    unittest.main()
