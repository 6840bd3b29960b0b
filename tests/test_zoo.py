# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of ``zoo.py``: which models it finds, and which results make it fail."""

from __future__ import annotations

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

    def run_all(self, *results: dict, ep: str = zoo.OPENVINO) -> tuple[int, str]:
        """Run all models with the results of their processes, and return the number of failures and the text."""
        printed = io.StringIO()
        by_kind = dict(zip((True, False), results, strict=True))
        with (
            mock.patch.object(zoo, "in_child", lambda path, ep, bare: by_kind[bare]),
            contextlib.redirect_stdout(printed),
        ):
            return zoo.run_all(self.folder, ep), printed.getvalue()

    def test_the_models(self):
        archived = self.put("b.onnx")
        with tarfile.open(self.folder / "a.txz", "w:xz") as archive:
            archive.add(archived, "b.onnx")
            archive.add(archived, "note.txt")
        self.put("model.onnx")
        found = []
        for path in zoo.models(self.folder):
            found.append(path.name)
            self.assertTrue(path.is_file())
        self.assertEqual(found, ["b.onnx", "model.onnx", "b.onnx"])
        self.assertFalse(path.exists())

    def test_the_archive_of_this_repository(self):
        with tarfile.open(Path(zoo.__file__).with_suffix("") / "twenty_smallest.txz") as archive:
            self.assertEqual(sum(name.endswith(".onnx") for name in archive.getnames()), 20)

    def test_what_fails(self):
        self.put("model.onnx")
        right, wrong, refused = ({"distance": 1e-6}, {"distance": 0.5}, {"error": "RuntimeError: refused"})
        for bare, ours, failures, text in (
            (right, right, 0, "1 right"),
            (right, refused, 1, "model: refused: RuntimeError"),
            (right, wrong, 1, "model: wrong"),
            (wrong, refused, 0, "wrong in a bare session"),
            (refused, refused, 0, "fails in a bare session"),
        ):
            with self.subTest(text):
                got, printed = self.run_all(bare, ours)
                self.assertEqual(got, failures, printed)
                self.assertIn(text, printed)
        # On the CPU EP, any other bit is wrong.
        self.assertEqual(self.run_all(right, right, ep=CPU)[0], 1)
        self.assertEqual(self.run_all(right, {"distance": 0.0}, ep=CPU)[0], 0)
        (self.folder / "model.onnx").unlink()
        self.assertEqual(self.run_all(right, right)[0], 1)

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
        self.assertEqual(zoo.distance(np.array([True]), np.array([False])), 1 / 1e-6)

    def test_a_process(self):
        path = self.put("model.onnx")
        for bare in (False, True):
            self.assertEqual(zoo.in_child(path, CPU, bare), {"distance": 0.0})
        path.write_bytes(b"no model")
        self.assertRegex(zoo.in_child(path, CPU, False)["error"], "(?s)status 1: .*INVALID_PROTOBUF")

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
