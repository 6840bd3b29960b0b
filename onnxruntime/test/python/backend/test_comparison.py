# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Comparisons: blocks of runs, ratios with intervals, differences of outputs, random inputs, and ``compare``."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.environment import environment
from helpers.models import parsed, two_nodes

from onnxruntime.backend import InputError
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
            latency.measure(sides, [], repeat, str)
        return sides

    def test_blocks(self):
        for repeat, seconds, blocks, runs in (
            (None, 0.001, 20, 2000),
            (None, 1.0, 10, 10),
            (1, 0.001, 1, 1),
            (50, 0.001, 20, 50),
        ):
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
        failing.rep = mock.Mock(**{"run.side_effect": [[], RuntimeError("e")]})
        other = Side("m", "{}", {})
        other.rep = Runs([0.0], 0.0)
        latency.measure([failing, other], [], 3, str)
        self.assertEqual((str(failing.error), failing.rep.run.call_count, failing.blocks), ("e", 2, []))
        self.assertEqual(len(other.blocks), 3)
        self.assertIsNone(latency.latency(other.blocks, [])["ratio_to_first"])

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
            ([0.9, 0.9, *[1.0] * 8], [0.9, 1.0], ""),  # not precise enough
            ([0.98] * 10, [0.98, 0.98], "equal"),  # as two sessions with one configuration
            ([0.9] * 8 + [0.98] * 2, [0.9, 0.98], ""),
            ([1.0] * 8 + [1.1] * 2, [1.0, 1.1], ""),
        ):
            with self.subTest(ratios):
                blocks = [[ratio] for ratio in ratios]
                found = latency.latency(blocks, [[1.0]] * len(ratios))
                self.assertEqual((found["ratio_interval"], found["verdict"]), (interval, verdict))
                self.assertEqual(found["ratio_to_first"], np.median(ratios))
        found = latency.latency([[count / 1000 for count in range(100, 0, -1)]], [])
        self.assertEqual([round(found[name], 6) for name in ("p50", "p90", "p99", "runs")], [50, 90, 99, 100])


class DifferenceTest(unittest.TestCase):
    def test_difference(self):
        nan, inf = np.nan, np.inf
        for ours, theirs, within, absolute in (
            ([1.0, nan, inf], [1.5, nan, inf], False, 0.5),
            ([1e-6, nan, inf], [0.0, nan, inf], True, 1e-6),
            ([nan], [1.0], False, 0),
            ([inf], [-inf], False, None),
            ([1e308], [-1e308], False, None),
            ([1], [1, 2], False, 0),
            ([], [], True, 0),
            ([1.0], [1 + 1e-9j], True, 1e-9),
            (["a"], ["b"], False, 0),
            (np.array([255], np.uint8), np.array([0], np.uint8), False, 255),
            ({"a": np.ones(2), "b": np.zeros(2)}, {"a": np.zeros(2), "b": np.zeros(2)}, False, 1),
            ([{"a": 1.0}], [{"b": 1.0}], False, 0),
            ({"a": np.ones(2)}, {}, False, 0),
        ):
            with self.subTest(ours=ours, theirs=theirs), warnings.catch_warnings(action="error"):
                if isinstance(ours, list) and not (ours and isinstance(ours[0], dict)):
                    ours, theirs = np.asarray(ours), np.asarray(theirs)  # noqa: PLW2901
                found = difference(ours, theirs, 1e-3, 1e-5)
                self.assertEqual((found["within"], found["absolute"]), (within, absolute))
                self.assertEqual(bool(found["note"]), not within)
                json.dumps(found, allow_nan=False)
        self.assertIn("Mismatched elements: 1 / 2", difference(np.ones(2), np.array([1.0, 2]), 0, 0)["note"])
        self.assertIn("(2,)", difference(np.ones(2), np.ones(3), 0, 0)["note"])


class InputsTest(unittest.TestCase):
    def feeds(self, given: dict | None = None, shapes: dict | None = None, works: object = True, **nodes) -> list:
        """Return the inputs for nodes with these types and shapes."""
        made = [SimpleNamespace(name=name, type=kind, shape=shape) for name, (kind, shape) in nodes.items()]
        session = SimpleNamespace(get_inputs=lambda: made)
        side = SimpleNamespace(rep=SimpleNamespace(session=session), works=mock.Mock(side_effect=works))
        return inputs.feeds(side, given or {}, shapes or {})

    def test_values(self):
        kinds = {"a": ("tensor(float)", [8]), "b": ("tensor(float)", [8]), "c": ("tensor(int64)", [64])}
        kinds |= {"d": ("tensor(string)", []), "e": ("tensor(double)", ["n", 3]), "f": ("seq(tensor(float))", [])}
        first, second = (self.feeds({"f": []}, {"e": [5, 3]}, **kinds) for _ in range(2))
        for value, again in zip(first, second, strict=True):
            np.testing.assert_array_equal(value, again)
        a, b, c, d, e, f = first
        self.assertFalse(np.array_equal(a, b))
        self.assertEqual([each.dtype.name for each in (a, c, d, e)], ["float32", "int64", "object", "float64"])
        self.assertEqual(({*c.tolist()}, d.item(), e.shape, f), ({0, 1}, "text", (5, 3), []))

    def test_free_dimensions(self):
        kinds = {"A": ("tensor(float)", ["batch", None, 3, "w"]), "B": ("tensor(float)", ["?", "w"])}
        for fails, shapes in (
            (0, "A=1x1x3x1 --shape B=1x1"),
            (1, "A=1x32x3x32 --shape B=1x32"),
            (2, "A=1x224x3x224 --shape B=1x224"),
            (4, "A=1x1x3x1 --shape B=1x1"),
        ):
            works = [False] * fails + [True] * (4 - fails)
            with self.subTest(fails), self.assertWarnsRegex(RuntimeWarning, f"--shape {shapes}$"):
                found = self.feeds(works=works, **kinds)
            self.assertEqual("x".join(map(str, found[0].shape)), shapes.partition(" ")[0].removeprefix("A="))

    def test_inputs_that_cannot_be_random(self):
        for kind, shape in (
            ("seq(tensor(float))", []),
            ("tensor(float)", [10**7, 10**10]),
            ("tensor(float)", [10**20]),
        ):
            with self.subTest(kind), self.assertRaisesRegex(InputError, "^Input X: .*--input") as raised:
                self.feeds(X=(kind, shape))
            self.assertEqual(raised.exception.input, "X")


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(environment({}))

    def put(self, model, name: str = "model.onnx") -> str:
        (self.folder / name).write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return str(self.folder / name)

    def test_compare(self):
        other = self.put(parsed("(float[2, 3] X) => (float[2, 3] Y) { Y = Neg (X) }"), "other.onnx")
        path, ones = self.put(two_nodes()), [np.ones((2, 3), "f")]
        configs = [{}, {"session_config": {"x": 1}}]
        first, second, refused = compare(path, configs, feeds=ones, reference=other, repeat=6, tolerance=(0, 2))
        labels = [f"{other} {{}}", *map(json.dumps, configs)]
        self.assertEqual([one["configuration"] for one in (first, second, refused)], labels)
        self.assertEqual(second["outputs"][0]["difference"], {"within": True, "absolute": 2.0, "note": ""})
        self.assertLessEqual(*second["latency_ms"]["ratio_interval"])
        self.assertEqual((refused["error"]["keyword"], refused["error"]["key"]), ("session_config", "x"))
        (wrong,) = compare(path, feeds=[np.ones(3, "f")], repeat=1)
        self.assertEqual((wrong["error"]["input"], wrong["error"]["expected"]), ("X", "float32[2, 3]"))
        with self.assertRaisesRegex(ValueError, "'x' is not a part"):
            compare(path, [{"x": {}}])
        self.assertEqual(compare(path, repeat=1)[0]["outputs"][0]["shape"], [2, 3])


if __name__ == "__main__":
    unittest.main()
