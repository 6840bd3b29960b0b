# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Comparisons: blocks of runs, ratios with intervals, differences of outputs, random inputs, and ``compare``."""

import itertools
import json
import time
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.command_line import CommandTest
from helpers.models import parsed

from onnxruntime.backend.comparison import compare, inputs, latency
from onnxruntime.backend.comparison.outputs import difference
from onnxruntime.backend.comparison.side import Side


class Runs:
    """Stands for a session: each run takes a time of a fake clock, which a pause also moves."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.begun: list[float] = []

    def run(self, feeds: list) -> list:
        self.begun.append(self.clock[0])
        self.clock[0] += self.seconds
        return feeds


class LatencyTest(unittest.TestCase):
    def measure(self, repeat: int | None, *seconds: float) -> list[Side]:
        """Measure sides whose runs take these times."""
        clock = [0.0]
        sides = [Side("m", "{}", {}) for _ in seconds]
        for side, of_run in zip(sides, seconds, strict=True):
            side.rep = Runs(clock, of_run)

        def sleep(pause: float) -> None:
            clock[0] += pause

        with mock.patch.object(time, "perf_counter", lambda: clock[0]), mock.patch.object(time, "sleep", sleep):
            latency.measure(sides, [], repeat)
        return sides

    def test_blocks(self):
        for repeat, seconds, blocks, runs in ((None, 0.001, 20, 2000), (None, 1.0, 10, 10), (50, 0.001, 20, 50)):
            with self.subTest(repeat=repeat, seconds=seconds):
                for side in self.measure(repeat, seconds, seconds):
                    self.assertEqual(len(side.blocks), blocks)
                    self.assertAlmostEqual(sum(map(len, side.blocks)), runs, delta=runs // 50)
                    np.testing.assert_allclose(np.concatenate(side.blocks), seconds)

    def test_a_block_begins_after_a_pause_and_runs_that_are_not_measured(self):
        sides = self.measure(40, 0.001, 0.001)
        begun = sorted([(at, side) for side in (0, 1) for at in sides[side].rep.begun])
        turns = [(side, list(group)) for side, group in itertools.groupby(begun, key=lambda run: run[1])]
        # The order is reversed after each round, so that two blocks of one side follow each other.
        self.assertEqual([side for side, _ in turns], [0, *[1, 0] * 10][: len(turns)])
        for (_, before), (_, after) in itertools.pairwise(turns):
            self.assertGreater(after[0][0] - before[-1][0], 0.05)
        self.assertGreaterEqual(len(sides[0].rep.begun), 40 + 20 * 10)  # 10 ms of each block
        (alone,) = self.measure(40, 0.001)
        self.assertLess(len(alone.rep.begun), 40 + 20)

    def test_a_side_that_fails_is_not_run_again(self):
        failing = Side("m", "{}", {})
        failing.rep = mock.Mock(**{"run.side_effect": [*[[]] * 5, RuntimeError("e")]})
        with mock.patch.object(latency, "_SETTLING", 0):
            latency.measure([failing], [], 9)
        self.assertEqual((str(failing.error), failing.rep.run.call_count, failing.blocks), ("e", 6, []))

    def test_the_interval_contains_the_true_ratio(self):
        """As often as promised, also with outliers, which a loaded machine makes."""
        generator = np.random.default_rng(0)
        for rounds in (6, 10, 20):
            inside = 0
            for _ in range(400):
                noise = np.exp(0.02 * generator.standard_normal((2, rounds)))
                noise *= np.where(generator.random((2, rounds)) < 0.1, 5, 1)
                ours, theirs = ([[value] for value in row] for row in noise * [[1.2], [1]])
                low, high = latency.latency(ours, theirs)["ratio_interval"]
                inside += low <= 1.2 <= high
            self.assertGreater(inside / 400, 0.93)

    def test_the_verdict(self):
        for ratios, interval, verdict in (
            ([1.0] * 5, None, None),
            ([1.0] * 6, [1.0, 1.0], "equal"),
            ([0.5, *[0.9] * 8, 2.0], [0.9, 0.9], "faster"),
            ([1.1] * 10, [1.1, 1.1], "slower"),
            ([0.98] * 10, [0.98, 0.98], "equal"),  # as two sessions with one configuration
            ([0.9] * 8 + [0.98] * 2, [0.9, 0.98], ""),  # not precise enough
            ([1.0] * 8 + [1.1] * 2, [1.0, 1.1], ""),
        ):
            with self.subTest(ratios):
                found = latency.latency([[ratio] for ratio in ratios], [[1.0]] * len(ratios))
                self.assertEqual((found["ratio_interval"], found["verdict"]), (interval, verdict))
                self.assertEqual(found["ratio_to_first"], np.median(ratios))
        found = latency.latency([[count / 1000 for count in range(100, 0, -1)]], [])
        self.assertEqual([round(found[name], 6) for name in ("p50", "p90", "p99", "runs")], [50, 90, 99, 100])


class DifferenceTest(unittest.TestCase):
    def test_difference(self):
        nan, inf = np.nan, np.inf
        largest = np.finfo(np.float64).max  # JSON has no infinity
        zeros, ones = np.zeros(2), np.ones(2)
        for ours, theirs, within, absolute in (
            (np.array([1.0, nan, inf]), np.array([1.5, nan, inf]), False, 0.5),
            (np.array([1e-6, nan]), np.array([0.0, nan]), True, 1e-6),
            (np.array(nan), np.array(1.0), False, 0),
            (np.array(inf), np.array(-inf), False, largest),
            (np.array(1.0), ones, False, 0),
            (np.array("a"), np.array("b"), False, 0),
            (np.uint8([255]), np.uint8([0]), False, 255),
            ({"a": ones, "b": zeros}, {"a": zeros, "b": zeros}, False, 1),
            ([{"a": 1.0}], [{"b": 1.0}], False, 0),
        ):
            with self.subTest(ours=ours, theirs=theirs), warnings.catch_warnings(action="error"):
                found = difference(ours, theirs, 1e-3, 1e-5)
                self.assertEqual((found["within"], found["absolute"]), (within, absolute))
                self.assertEqual(bool(found["note"]), not within)
                json.dumps(found, allow_nan=False)
        self.assertIn("Mismatched elements: 1 / 2", difference(ones, np.array([1.0, 2]), 0, 0)["note"])
        self.assertIn("(2,)", difference(ones, np.ones(3), 0, 0)["note"])
        self.assertIn("1 arrays", difference([ones], [], 0, 0)["note"])


class InputsTest(unittest.TestCase):
    def feeds(self, given: dict, shapes: dict, nodes: dict, works: object = None) -> list:
        """Return the inputs for nodes with these types and shapes."""
        made = [SimpleNamespace(name=name, type=kind, shape=shape) for name, (kind, shape) in nodes.items()]
        side = Side("m", "{}", {})
        side.rep = mock.Mock(**{"run.side_effect": works, "session.get_inputs.return_value": made})
        found = inputs.feeds(side, given, shapes)
        self.assertIsNone(side.error)
        return found

    def test_values(self):
        kinds = {"a": ("tensor(float)", [8]), "b": ("tensor(float)", [8]), "c": ("tensor(int64)", [64])}
        kinds |= {"d": ("tensor(string)", []), "e": ("tensor(double)", ["n", 3]), "f": ("seq(tensor(float))", [])}
        a, b, c, d, e, f = self.feeds({"f": []}, {"e": [5, 3]}, kinds)
        np.testing.assert_array_equal(a, self.feeds({}, {}, {"a": kinds["a"]})[0])
        self.assertFalse(np.array_equal(a, b))
        self.assertEqual([each.dtype.name for each in (a, c, d, e)], ["float32", "int64", "object", "float64"])
        self.assertEqual(({*c.tolist()}, d.item(), e.shape, f), ({0, 1}, "text", (5, 3), []))

    def test_free_dimensions(self):
        kinds = {"A": ("tensor(float)", ["batch", None, 3, "w"]), "B": ("tensor(float)", ["?", "w"])}
        for fails, shape, other in ((0, "1x1x3x1", "1x1"), (1, "1x32x3x32", "1x32"), (4, "1x1x3x1", "1x1")):
            works = [RuntimeError()] * fails + [[]] * (4 - fails)
            with self.subTest(fails), self.assertWarnsRegex(RuntimeWarning, f"--shape A={shape} --shape B={other}$"):
                found = self.feeds({}, {}, kinds, works)
            self.assertEqual("x".join(map(str, found[0].shape)), shape)

    def test_inputs_that_cannot_be_random(self):
        for node in (("seq(tensor(float))", []), ("tensor(float)", [10**7, 10**10]), ("tensor(float)", [10**20])):
            with self.subTest(node), self.assertRaisesRegex(RuntimeError, "^Input X: .*--input"):
                self.feeds({}, {}, {"X": node})


class CompareTest(CommandTest):
    def test_compare(self):
        other = str(self.put("other.onnx", parsed("(float[2, 3] X) => (float[2, 3] Y) { Y = Neg (X) }")))
        path, ones = str(self.path), [np.ones((2, 3), "f")]
        configs = [{}, {"session_config": {"x": 1}}]
        first, second, refused = compare(path, configs, feeds=ones, reference=other, repeat=6)
        labels = [f"{other} {{}}", f"{path} {{}}", f'{path} {{"session_config": {{"x": 1}}}}']
        self.assertEqual([one["configuration"] for one in (first, second, refused)], labels)
        found = second["outputs"][0]["difference"]
        self.assertEqual((found["within"], found["absolute"]), (False, 2.0))
        self.assertLessEqual(*second["latency_ms"]["ratio_interval"])
        self.assertEqual((refused["error"]["keyword"], refused["error"]["key"]), ("session_config", "x"))
        (wrong,) = compare(path, [{}], feeds=[np.ones(3, "f")], repeat=1)
        self.assertEqual((wrong["error"]["input"], wrong["error"]["expected"]), ("X", "float32[2, 3]"))
        with self.assertRaisesRegex(ValueError, "'x' is not a part"):
            compare(path, [{"x": {}}])
        self.assertEqual(compare(path, [{}], repeat=1)[0]["outputs"][0]["shape"], [2, 3])


if __name__ == "__main__":
    unittest.main()
