# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the inputs of captured runs for every execution provider, which a class for each EP inherits."""

from __future__ import annotations

from unittest import mock

import numpy as np
from onnx import numpy_helper

import onnxruntime
import onnxruntime.backend
from helpers.capture import Checks, Expected, capture_of, captured_ids, chain, two_inputs
from helpers.models import parsed
from onnxruntime import OrtValue
from onnxruntime.backend.capture import graphs
from onnxruntime.backend.runs.settings import RunSettings


class CaptureInputs(Checks):
    """The tests. ``CaptureBehaviour`` has the others, and states the methods of the class that inherits them."""

    def test_array_likes(self):
        class Like:
            """An array of another library."""

            def __init__(self, data: np.ndarray, shape: object) -> None:
                self.data, self.shape, self.dtype = data, shape, data.dtype

            def __array__(self, dtype=None, copy=None) -> np.ndarray:
                return self.data

        rep, expected = self.prepare(chain()), Expected(chain())
        for i, shape in enumerate(([3, 4], (3, 4), np.array([3, 4]), (5,), {})):
            for seed in (i, i + 20):
                x = self.data(seed, 3, 4)
                self.check(rep.run([Like(x, shape)]), expected(x))
                self.check(rep.run([x]), expected(x))

    def test_several_inputs_and_outputs(self):
        rep, expected = self.prepare(two_inputs()), Expected(two_inputs())
        self.check_run(rep, expected, self.data(0, 5), self.data(1, 5))
        with mock.patch.object(graphs.Capture, "run", side_effect=AssertionError("not the fast path")):
            for i in range(8):
                a, b = self.data(2 * i, 5), self.data(2 * i + 1, 5)
                self.check(rep.run(({"A": a, "B": b}, {"B": b, "A": a}, [a, b], (a, b))[i % 4]), expected(a, b))

    def test_an_input_that_no_node_reads(self):
        made = parsed("(float[3] U, float[N,4] X) => (float[N,4] Y) { Y = Neg (X) }")
        rep, expected = self.prepare(made), Expected(made)
        with captured_ids(rep) as ids:
            for i in range(6):
                unread, x = self.data(9 + i, 3), self.data(i, 1 + i % 2, 4)
                self.check(rep.run([unread, x]), expected(unread, x))
        self.assertEqual(set(ids), {1024, 1025})
        with self.assertRaisesRegex(onnxruntime.backend.InputError, "U"):
            rep.run([unread[:2], x])

    def test_an_input_that_is_an_output(self):
        x = "float[2] X"  # whether a node reads it or not, and at any position
        for inputs, first, second in ((x, "X", "Y"), (x, "Y", "X"), (f"float[2] U, {x}", "U", "Y")):
            made = parsed(f"({inputs}) => (float[2] {first}, float[2] {second}) {{ Y = Neg (X) }}")
            with self.assertRaisesRegex(RuntimeError, "'[UX]' is an input, .*Prepare the model without graph capture"):
                self.prepare(made)
        made = chain()
        made.graph.output.append(made.graph.output[0])
        with self.assertRaisesRegex(RuntimeError, "'Y' is an input, or is listed twice"):
            self.prepare(made)

    def test_scalars_and_no_elements(self):
        rep = self.prepare(parsed("(float X) => (float Y) { Y = Neg (X) }"))
        for i in range(3):
            self.check(rep.run([np.array(i, np.float32)]), [np.array(-i, np.float32)])
        rep = self.prepare(chain())
        for _ in range(3):
            self.assertEqual(rep.run([np.zeros((0, 4), np.float32)])[0].shape, (0, 4))

    def test_what_is_uploaded_is_what_was_given(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        for i in range(3):
            x = self.data(i, 4, 4)
            backwards = self.data(i, 8, 4)[::-2]
            self.check(rep.run([np.asfortranarray(x)]), expected(x))
            self.check(rep.run([x.astype(">f4")]), expected(x))
            self.check(rep.run([backwards]), expected(np.ascontiguousarray(backwards)))
            self.check(rep.run([x.tolist()]), expected(x))
            with self.assertRaisesRegex(onnxruntime.backend.InputError, "X"):
                rep.run([x.astype(np.float64)])
            # The same number of bytes: an upload checks nothing else.
            with self.assertRaisesRegex(onnxruntime.backend.InputError, "X"):
                rep.run([x.astype(np.int32)])
            self.check(rep.run([x.reshape(-1, 4)]), expected(x))

    def test_inputs_missing_or_unknown(self):
        rep = self.prepare(two_inputs())
        a = self.data(0, 3)
        for feeds, name in (({"A": a}, "B"), ({"A": a, "B": a, "C": a}, "C")):
            with self.assertRaisesRegex(onnxruntime.backend.InputError, name):
                rep.run(feeds)
        # Of the same number of bytes: an upload checks nothing else.
        wrong = OrtValue.ortvalue_from_numpy(a.astype(np.int32))
        with self.assertRaisesRegex(RuntimeError, r"'B' takes tensor\(float\), got tensor\(int32\)"):
            capture_of(rep.session).run({"A": a, "B": wrong}, RunSettings({}, {}))
        with self.assertRaisesRegex(onnxruntime.backend.InputError, "B"):
            rep.run({"A": a, "B": wrong})

    def test_an_initializer_that_could_be_overridden(self):
        made = two_inputs()
        made.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "B"))
        rep, expected = self.prepare(made), Expected(two_inputs())
        a, b = self.data(0, 3), self.data(1, 3)
        for _ in range(2):
            self.check(rep.run({"A": a}), expected(a, np.ones(3, np.float32)))
        with self.assertRaisesRegex(RuntimeError, "takes the model's inputs only"):
            rep.run({"A": a, "B": b})
        self.check(rep.run({"A": a, "B": b}, run_config={"gpu_graph_id": -1}), expected(a, b))

    def test_a_shape_that_the_model_refuses(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        for _ in range(2):
            with self.assertRaisesRegex(onnxruntime.backend.InputError, "X"):
                rep.run([self.data(0, 4, 3)])
        self.check_run(rep, expected, self.data(0, 4, 4))

    def test_integers(self):
        picked = (
            "(int64[N] I, float[4] X) => (float[N,4] Y) <float[3,4] W = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121}>"
        )
        made = parsed(f"{picked} {{ G = Gather (W, I) Y = Add (G, X) }}")
        rep, expected = self.prepare(made), Expected(made)
        x = self.data(0, 4)
        for rows in np.array([[1, 1], [0, 2], [2, 1], [0, 0], [-1, 1]]):
            self.check(rep.run([rows, x]), expected(rows, x))
