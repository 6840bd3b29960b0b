# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Latency and the comparison of outputs, as the ``run`` command measures them."""

from __future__ import annotations

import json
import unittest
import warnings

import numpy as np

from onnxruntime.backend.command_line import measure


class MeasureTest(unittest.TestCase):
    def test_difference(self):
        nan, inf = np.nan, np.inf
        for ours, theirs, within, absolute, relative, note in (
            ([1.0, nan, inf], [1.5, nan, inf], False, 0.5, 1 / 3, False),
            ([1.0, nan, inf], [1.0, nan, inf], True, 0.0, 0.0, False),
            ([0.001], [0.0], False, 0.001, 0.0, False),
            ([1e-6], [0.0], True, 1e-6, 0.0, False),
            ([nan], [1.0], False, None, None, True),
            ([inf], [-inf], False, None, None, True),
            ([1], [1, 2], False, None, None, True),
            ([], [], True, 0.0, 0.0, False),
            ([1 + 1j], [1.0 + 0j], False, 1.0, 1.0, False),
            (np.array(["a"], object), np.array(["a"], object), True, 0.0, 0.0, False),
            (np.array([255], np.uint8), np.array([0], np.uint8), False, 255.0, 0.0, False),
        ):
            with self.subTest(ours=ours, theirs=theirs):
                found = measure.difference(np.asarray(ours), np.asarray(theirs), 1e-3, 1e-5)
                self.assertEqual(bool(found["note"]), note)
                expected = {"within": within, "absolute": absolute, "relative": relative}
                self.assertEqual({name: found[name] for name in expected}, expected)
        for ours, theirs, within in (
            ({"a": np.ones(2), "b": np.zeros(2)}, {"a": np.zeros(2), "b": np.zeros(2)}, False),
            ([np.ones(2)], [], False),
            (np.array([1e308]), np.array([-1e308]), False),
            (np.array([1.0]), np.array([5e-324]), False),
            ([{"a": 1.0}], [{"a": 1.0}], True),
            ([{"a": 1.0}], [{"b": 1.0}], False),
        ):
            with self.subTest(ours=ours, theirs=theirs):
                with warnings.catch_warnings(action="error"):
                    found = measure.difference(ours, theirs, 1e-3, 1e-5)
                self.assertEqual(found["within"], within)
                json.dumps(found, allow_nan=False)

    def test_the_largest_difference(self):
        nan, inf, none = np.nan, np.inf, (None, None, None)
        ours = np.array([[1.0, 2.0], [3.0, 4.0]])
        for value, expected, place, beyond in (
            (ours, ours, none, 0),
            (ours, np.array([[1.0, 2.5], [3.75, 4.0]]), ([1, 0], 3.0, 3.75), 0.5),
            (ours, ours * (1 + 2**-30), ([1, 1], 4.0, 4 + 2**-28), 0),
            (np.array(1, np.int8), np.array(3, np.int8), ([], 1, 3), 1),
            (np.array([2**62 + 1]), np.array([2**61]), ([0], 2**62 + 1, 2**61), 1),
            (np.array([1.0, nan, 2.0]), np.array([1.5, 3.0, inf]), ([1], "nan", 3.0), 1),
            (np.array([True, False]), np.array([True, True]), ([1], False, True), 0.5),
            (np.array([1j]), np.array([2j]), ([0], "1j", "2j"), 1),
            (np.array(["1", "2"], object), np.array(["1", "3"], object), ([1], "2", "3"), 0.5),
            ([{"a": 1.0}, {"a": 2.0}], [{"a": 1.0}, {"a": 4.0}], ([1, "a"], 2.0, 4.0), 0.5),
            ([np.ones(3), np.ones(2)], [np.ones(3), np.array([1.0, 9.0])], ([1, 1], 1.0, 9.0), 0.2),
            (np.ones(2), np.ones(3), none, None),
        ):
            with self.subTest(value=value, expected=expected):
                found = measure.difference(value, expected, 1e-3, 1e-5)
                self.assertEqual((found["index"], found["value"], found["reference"]), place)
                self.assertEqual(found["beyond"], beyond)
                self.assertEqual(json.loads(json.dumps(found, allow_nan=False)), found)

    def test_percentiles(self):
        figures = measure.percentiles([count / 1000 for count in range(100, 0, -1)])
        self.assertEqual({name: round(value, 6) for name, value in figures.items()}, {"p50": 50, "p90": 90, "p99": 99})
        self.assertEqual(measure.percentiles([0.002]), {"p50": 2.0, "p90": 2.0, "p99": 2.0})


if __name__ == "__main__":
    unittest.main()
