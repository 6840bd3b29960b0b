# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of ``zoo.py``: which models it finds, and which results make it fail."""

import contextlib
import io
import math
import tarfile
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import zoo
from helpers.models import two_nodes

import onnxruntime

CPU = "CPUExecutionProvider"


class ZooTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def put(self, name: str, shape: tuple = ("N", 3)) -> Path:
        path = self.folder / name
        path.write_bytes(two_nodes(shape).SerializeToString())
        return path

    def test_the_models(self):
        archived = self.put("b.onnx")
        with tarfile.open(self.folder / "a.txz", "w:xz") as archive:
            archive.add(archived, "b.onnx")
            archive.add(archived, "note.txt")
        found = []
        for path in zoo.models(self.folder):
            found.append(path.name)
            self.assertTrue(path.is_file())
        self.assertEqual(found, ["b.onnx", "b.onnx"])
        self.assertFalse(path.exists())
        with tarfile.open(Path(zoo.__file__).with_suffix("") / "twenty_smallest.txz") as archive:
            self.assertEqual(sum(name.endswith(".onnx") for name in archive.getnames()), 20)

    def test_results(self):
        same, right, wrong, refused = {"distance": 0.0}, {"distance": 1e-6}, {"distance": 0.5}, {"error": "why"}
        for bare, ours, tolerance, result in (
            (right, right, 0.01, "right"),
            (right, refused, 0.01, "refused"),
            (right, wrong, 0.01, "wrong"),
            (wrong, refused, 0.01, "wrong in a bare session"),
            (refused, refused, 0.01, "fails in a bare session"),
            (same, right, 0.0, "wrong"),  # on the CPU EP, any other bit
            (same, same, 0.0, "right"),
        ):
            with self.subTest(result, bare=bare, ours=ours):
                self.assertEqual(zoo.judge(bare, ours, tolerance)[0], result)

    def test_distances(self):
        array = np.array([1, 4, np.nan], np.float32)
        for got, expected in (
            (array, 0.0),
            (array.astype(np.float64), math.inf),
            (array[:2], math.inf),
            (np.array([1, 5, np.nan], np.float32), math.inf),
        ):
            self.assertEqual(zoo.distance(got, array), expected)
        self.assertAlmostEqual(zoo.distance(array[:2] + np.float32(1), array[:2]), 0.25, 3)

    def test_a_folder(self):
        self.assertTrue(zoo.run_all(self.folder, CPU), "no model is a failure")
        self.put("model.onnx")
        (self.folder / "broken.onnx").write_bytes(b"no model")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(zoo.run_all(self.folder, CPU), 1)
        self.assertRegex(printed.getvalue(), "(?s)^broken: refused: .*INVALID_PROTOBUF.*1 refused, 1 right, 1 failures")
        self.assertEqual(zoo.in_child(self.folder / "model.onnx", CPU, True), {"distance": 0.0})

    def test_a_run_that_changes_an_input(self):
        path = str(self.put("model.onnx", (2, 3)))

        def run(feed: dict) -> list:
            outputs = onnxruntime.InferenceSession(path, providers=[CPU]).run(None, feed)
            feed["X"][0] = 7
            return outputs

        with mock.patch.object(zoo, "_run_of", lambda *_: run):
            self.assertEqual(zoo.measure(path, CPU, False), {"error": "a run changed an input"})


if __name__ == "__main__":
    unittest.main()
