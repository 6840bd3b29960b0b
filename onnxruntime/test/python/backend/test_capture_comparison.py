# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests when a replay agrees with a run without capture, and the data with which a graph is captured.

No device is needed. The tests of the CUDA EP and the WebGPU EP compare real replays.
"""

from __future__ import annotations

import unittest

import numpy as np

from onnxruntime.backend.capture import comparison


class AgreeTest(unittest.TestCase):
    """When two outputs agree."""

    def differing(self, got, want, *again) -> list[int]:
        arrays = [[np.array(one, np.float32)] for one in (got, want, *again)]
        return comparison.differing(arrays[0], arrays[1], (lambda: arrays[2]) if again else None)

    def test_bit_for_bit_where_ordinary_runs_are(self):
        near = np.nextafter(np.float32(1), np.float32(2))
        nan = np.nan
        self.assertEqual(self.differing([1, nan], [1, nan], [2, 2]), [])
        self.assertEqual(self.differing([1, near], [1, 1], [1, 1]), [0])
        self.assertEqual(self.differing([0.0], [-0.0], [-0.0]), [0])
        # Two runs without capture differ, so a replay may differ, too, but not in the first digits.
        self.assertEqual(self.differing([1, near], [1, 1], [near, 1]), [])
        self.assertEqual(self.differing([1, 1.1], [1, 1], [near, 1]), [0])
        # Without another run.
        self.assertEqual(self.differing([1, near], [1, 1]), [])
        self.assertEqual(self.differing([1, 1.1], [1, 1]), [0])

    def test_other_data(self):
        feeds = {
            "f": np.arange(12, dtype=np.float32).reshape(3, 4),
            "h": np.ones((3,), np.float16),
            "i": np.array([3, 0, 7]),
            "b": np.array([True, False]),
            "none": np.zeros((0, 2), np.int32),
            "scalar": np.float32(3.0).reshape(()),
        }
        other = comparison.other_data(feeds)
        for name, array in feeds.items():
            self.assertEqual((other[name].shape, other[name].dtype), (array.shape, array.dtype))
        for name in ("f", "h", "b", "scalar"):
            self.assertTrue((other[name] != feeds[name]).all(), name)
        # An index, or a float that becomes an index, stays in the range of the caller's values.
        np.testing.assert_array_equal(other["i"], feeds["i"])
        mixed = np.array([0, 1, -3, 7e5, 1e-3, np.inf, -np.inf, np.nan], np.float32)
        made = comparison.other_data({"m": mixed})["m"]
        self.assertTrue(0 < made[0] < 0.5)
        np.testing.assert_array_equal(np.sign(made[1:]), np.sign(mixed[1:]))
        self.assertTrue((np.abs(made[1:5]) < np.abs(mixed[1:5])).all())
        np.testing.assert_array_equal(made[5:], mixed[5:])
        np.testing.assert_array_equal(comparison.other_data({"m": mixed})["m"], made)

    def test_agree(self):
        nan, inf, masked = np.nan, np.inf, np.finfo(np.float32).min
        for dtype, got, want, agrees in (
            (np.float32, [nan, inf, -inf, 0.0], [nan, inf, -inf, -0.0], True),
            (np.float32, [nan, 1], [0, 1], False),
            (np.float32, [0, 1], [nan, 1], False),
            (np.float32, [inf, 1], [-inf, 1], False),
            (np.float32, [3e38, 1], [inf, 1], False),
            (np.float32, [inf, 1], [3e38, 1], False),
            (np.float32, [], [], True),
            # The order of summation.
            (np.float32, [1.00001, 1000.01, 1e-5], [1, 1000, 0], True),
            (np.float32, [1.01, 1, 1, 1000, 0], [1, 1, 1, 1000, 0], False),
            (np.float16, [1.002, 5], [1, 5], True),
            (np.float16, [1.2, 5], [1, 5], False),
            # Masks hide nothing.
            (np.float32, [1, 2, 3, masked], [1, 2, 4, masked], False),
            (np.int64, [1, 2], [1, 2], True),
            (np.int64, [1, 2], [1, 3], False),
            (np.bool_, [True], [False], False),
        ):
            with self.subTest(got=got, want=want):
                self.assertEqual(comparison.agree(np.array(got, dtype), np.array(want, dtype)), agrees)


if __name__ == "__main__":
    unittest.main()
