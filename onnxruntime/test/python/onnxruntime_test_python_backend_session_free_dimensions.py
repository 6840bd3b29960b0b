# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""free_dimension_overrides: sizes for dimensions that a model's inputs leave open."""

from __future__ import annotations

import pathlib
import tempfile
import unittest
from unittest import mock

import numpy as np
from backend_test_models import model, no_session_opens, two_nodes
from onnx import helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.errors import InputError, NotPermittedError
from onnxruntime.backend.session import free_dimensions


def open_model():
    """``Y = X + W`` with the dimensions N and M left open, and Z in the output only."""
    nodes = [helper.make_node("Add", ["X", "W"], ["S"]), helper.make_node("NonZero", ["S"], ["I"])]
    nodes.append(helper.make_node("Cast", ["I"], ["Y"], to=1))
    return model(nodes, {"X": ("N", "M"), "W": ("N", 1)}, {"Y": (2, "Z")})


class FreeDimensionOverridesTest(unittest.TestCase):
    def shapes(self, given: object, source=None) -> list[list]:
        rep = onnxruntime.backend.prepare(source or open_model(), free_dimension_overrides=given)
        return [node.shape for node in rep.session.get_inputs()]

    def test_sizes_become_shapes(self) -> None:
        self.assertEqual(self.shapes(None), [["N", "M"], ["N", 1]])
        self.assertEqual(self.shapes({}), [["N", "M"], ["N", 1]])
        self.assertEqual(self.shapes({"N": 5}), [[5, "M"], [5, 1]])
        self.assertEqual(self.shapes({"N": np.int64(5), "M": "3"}), [[5, 3], [5, 1]])
        self.assertEqual(self.shapes({"N": 2**24}), [[2**24, "M"], [2**24, 1]])

    def test_every_kind_of_model(self) -> None:
        serialized = open_model().SerializeToString()
        self.assertEqual(self.shapes({"N": 5}, serialized), [[5, "M"], [5, 1]])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.onnx")
            path.write_bytes(serialized)
            self.assertEqual(self.shapes({"N": 5}, path), [[5, "M"], [5, 1]])

    def test_a_run_has_the_size(self) -> None:
        inputs = [np.ones((5, 3), np.float32), np.ones((5, 1), np.float32)]
        onnxruntime.backend.run(open_model(), inputs, free_dimension_overrides={"N": 5})
        with self.assertRaises(InputError):
            onnxruntime.backend.run(open_model(), inputs, free_dimension_overrides={"N": 4})

    def test_names_that_no_input_has(self) -> None:
        for name in ("Z", "n", "N ", "Q"):
            with (
                self.subTest(name),
                no_session_opens(),
                self.assertRaisesRegex(RuntimeError, "dimensions: 'M', 'N'"),
            ):
                self.shapes({name: 5})
        with no_session_opens(), self.assertRaisesRegex(RuntimeError, "Named dimensions: none"):
            onnxruntime.backend.prepare(two_nodes(), free_dimension_overrides={"N": 1})

    def test_no_names(self) -> None:
        class Lying(str):
            __slots__ = ()

            def __eq__(self, other):
                return True

            __hash__ = str.__hash__

        for name in (None, 1, b"N", "", "N\0x", Lying("N")):
            with self.subTest(name), no_session_opens(), self.assertRaises(NotPermittedError):
                self.shapes({name: 5})

    def test_no_sizes(self) -> None:
        for size in (0, -1, 2**24 + 1, 2**31, 1.0, "", " 1", "+1", "0x1", None, [1], 10**1000):
            with self.subTest(size), no_session_opens(), self.assertRaisesRegex(RuntimeError, "from 1 to 16777216"):
                self.shapes({"N": size})
        with self.assertRaisesRegex(TypeError, "free_dimension_overrides .*must be a mapping"):
            self.shapes([("N", 1)])

    def test_an_input_that_becomes_too_large(self) -> None:
        self.assertEqual(self.shapes({"N": 2**24, "M": 2})[0], [2**24, 2])
        # What a model's own dimensions are counts as well, and one without elements does not hide the others.
        fixed = model([helper.make_node("Identity", ["X"], ["Y"])], {"X": (1025, "N")}, {"Y": (1025, "N")})
        empty = model([helper.make_node("Identity", ["X"], ["Y"])], {"X": (0, "N", "M")}, {"Y": (0, "N", "M")})
        self.assertEqual(self.shapes({"N": 2**15 - 32}, fixed), [[1025, 2**15 - 32]])
        for source, sizes in (
            (open_model(), {"N": 2**24, "M": 3}),
            (fixed, {"N": 2**15}),
            (empty, {"N": 2**13, "M": 2**13}),
        ):
            with self.subTest(sizes), no_session_opens(), self.assertRaises(RuntimeError) as refused:
                self.shapes(sizes, source)
            self.assertRegex(
                str(refused.exception),
                "input 'X' would have [0-9]+ elements. The maximum is 33554432",
            )

    def test_disagreeing_session(self) -> None:
        with (
            mock.patch.object(onnxruntime.SessionOptions, "add_free_dimension_override_by_name"),
            self.assertRaisesRegex(RuntimeError, "axis 0 of input 'X' to 5, but in the session it is 'N'"),
        ):
            self.shapes({"N": 5})

    def test_a_model_that_onnx_cannot_read(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "needs a model that onnx reads"):
            free_dimensions.apply(onnxruntime.SessionOptions(), {"N": 1}, b"\xff\xff")

    def test_an_open_session(self) -> None:
        rep = onnxruntime.backend.prepare(open_model())
        for opened in (rep, rep.session):
            with self.assertRaisesRegex(RuntimeError, "free_dimension_overrides: .*existing session"):
                onnxruntime.backend.prepare(opened, free_dimension_overrides={"N": 5})
            onnxruntime.backend.prepare(opened, free_dimension_overrides={})
        with self.assertRaises(NotPermittedError):
            rep.run([], free_dimension_overrides={"N": 5})

    def test_misspelt(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, "Did you mean free_dimension_overrides"):
            onnxruntime.backend.prepare(open_model(), free_dimension_override={"N": 5})


if __name__ == "__main__":
    unittest.main()
