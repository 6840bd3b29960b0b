# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the inputs of runs: the values that belong to each input, and the errors for inputs that do not match."""

import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import _above
import numpy as np
from helpers.inputs import LIMITS, InputTestCase, X, identity, vectorizer
from helpers.models import model, on_cpu, parsed, three_inputs, two_nodes
from onnx import helper

from onnxruntime import OrtValue
from onnxruntime.backend import InputError
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument


class InputsTest(InputTestCase):
    def setUp(self):
        self.rep = on_cpu(three_inputs())
        self.a, self.b, self.c = (np.full(4, value, np.float32) for value in (1, 2, 5))

    def test_right(self):
        a, b, c = self.a, self.b, self.c
        for inputs in ({"C": c, "A": a, "B": b}, [a, OrtValue.ortvalue_from_numpy(b), [5] * 4]):
            np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)

    def test_a_missing_input_beside_a_sequence(self):
        rep = on_cpu("(seq(float[N]) S, int64 I) => (float[N] Y) { Y = SequenceAt(S, I) }")
        with self.assertRaises(InputError) as caught:
            rep.run({"S": [np.float32([1])]})
        self.assertEqual((caught.exception.input, caught.exception.got), ("I", "nothing"))

    def test_wrong(self):
        a, b, c = self.a, self.b, self.c
        fewer, integers = map(OrtValue.ortvalue_from_numpy, (c[:3], c.astype(int)))
        vector, both = "float32[4]", "B: float32[4], C: float32[4]"
        signature = f"A: float32[4], {both}"
        # The stock backend passes a mapping to ORT as the value of the only input, and ORT reads it as a map.
        one, texts = identity("float[N]"), identity("seq(string[])")
        for rep, inputs, kind, name, expected, got in (
            (self.rep, [a, b], RuntimeError, "C", vector, "nothing"),
            (self.rep, [], RuntimeError, None, signature, "nothing, nothing, nothing"),
            (self.rep, {"A": a[:3], "C": c}, RuntimeError, None, f"B: {vector}, A: {vector}", "nothing, float32[3]"),
            (self.rep, {"A": a, "B": b, "C": c, "D": a}, Fail, "D", signature, "'D'"),
            (self.rep, {"A": a, "B": b, 0: c}, Fail, None, signature, "0"),
            (self.rep, [a, b, c.astype(np.float64)], InvalidArgument, "C", vector, "float64[4]"),
            (self.rep, [a, b, None], Fail, "C", vector, "None"),
            (self.rep, [a, b[None], c[:3]], InvalidArgument, None, both, "float32[1, 4], float32[3]"),
            (self.rep, [a, b, fewer], InvalidArgument, "C", vector, "OrtValue float32[3]"),
            (self.rep, [a, b, integers], InvalidArgument, "C", vector, "OrtValue int64[4]"),
            (one, {"nope": 1}, InvalidArgument, "nope", "X: float32[N]", "'nope'"),
            (one, {"nope": X[0]}, Fail, "nope", "X: float32[N]", "'nope'"),
            (one, [{"a": 1}], InvalidArgument, "X", "float32[N]", "a value of type dict"),
            (texts, {"X": True}, InvalidArgument, "X", "seq(string)", "True (bool)"),
        ):
            for limits in LIMITS:
                with self.subTest(inputs=repr(inputs), **limits):
                    error = self.refused(rep, inputs, got, name, expected, **limits)
                    self.assertIsInstance(error, kind)

    def test_text_that_utf_8_cannot_represent(self):
        text = "\ud800"
        concat = on_cpu("(string[] A, string[] X) => (string[] Y) { Y = StringConcat (A, X) }")
        for rep, inputs in (
            *((identity("string"), [value]) for value in (text, np.array(["a", text]))),
            (concat, [["a"], [text]]),
            (vectorizer("string", '"a"'), [{"a": 1.0, text: 1.0}]),
            (identity("seq(string[])"), [[["a"], [text]]]),
        ):
            for keywords in LIMITS:
                with self.subTest(inputs=ascii(inputs), **keywords), self.assertRaisesRegex(InputError, "UTF-8"):
                    rep.run(inputs, **keywords)

    def test_surplus(self):
        a, b, c = self.a, self.b, self.c
        for inputs in ([a, b, c, a], (a, b, c, object(), None)):
            with warnings.catch_warnings(record=True, action="always") as caught:
                np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)
            self.assertEqual([(warning.category, warning.filename) for warning in caught], [(RuntimeWarning, __file__)])
            self.assertIn(str(len(inputs)), str(caught[0].message))

    def test_names_of_a_model_are_printable(self):
        proto = model([helper.make_node("Neg", ["x\x1b[2J"], ["Y"])], {"x\x1b[2J": ["n\r", 2]}, {"Y": None})
        for inputs in ([X[0]], [None], [], {"x": X}):
            with self.assertRaises(InputError) as caught:
                on_cpu(proto).run(inputs)
            for text in (str(caught.exception), caught.exception.expected, caught.exception.got):
                self.assertTrue(text.isprintable())
            self.assertIn(r"float32[n\r, 2]", caught.exception.expected)

    def test_open_dimensions_have_their_names(self):
        proto = parsed("(float[batch, ?] pixels) => (float[A, B] Y) { Y = Neg (pixels) }")
        self.refused(on_cpu(proto), [X[0]], "float32[3]", "pixels", "float32[batch, ?]")
        error = self.refused(on_cpu(proto), {"pixel": X}, "'pixel'", "pixel", "pixels: float32[batch, ?]")
        self.assertIn("Did you mean 'pixels'?", str(error))
        self.assertNotIn("Did you mean", str(self.refused(on_cpu(proto), {"mask": X}, "'mask'", "mask")))

    def test_many_inputs_are_not_all_listed(self):
        names = [f"input{i}" for i in range(17)]
        rep = on_cpu(model([helper.make_node("Sum", names, ["Y"])], dict.fromkeys(names, (4,)), {"Y": [4]}))
        listed = ", ".join(f"{name}: float32[4]" for name in names[:16]) + ", and 1 more"
        for inputs, got in (([], "nothing"), ([self.a[:3]] * 17, "float32[3]")):
            error = self.refused(rep, inputs, ", ".join([got] * 16), None, listed)
            self.assertNotIn("input16", str(error))

    def test_errors_that_are_not_about_the_inputs_stay_as_they_are(self):
        rep = on_cpu("(float[N] A, float[M] B) => (float[] Y) { Y = Add (A, B) }")
        with self.assertRaises(Exception) as caught:
            rep.run([self.a, self.b[:3]])
        self.assertNotIsInstance(caught.exception, InputError)
        self.assertEqual(type(caught.exception).__module__, "onnxruntime.capi.onnxruntime_pybind11_state")

    def test_overridable_initializer(self):
        rep = on_cpu(parsed("(float[2] X, float[2] W) => (float[2] Y) { Y = Mul (X, W) }", W=X[0, :2]))
        np.testing.assert_array_equal(rep.run([X[1, :2]])[0], X[0, :2] * X[1, :2])
        np.testing.assert_array_equal(rep.run({"X": X[0, :2], "W": X[1, :2]})[0], X[0, :2] * X[1, :2])
        error = self.refused(rep, {"X": X[0, :2], "W": X[0]}, "float32[3]", "W", "float32[2]")
        self.assertIn("Model inputs: X: float32[2]. Overridable: W: float32[2]", str(error))
        self.refused(rep, {"Z": X}, "'Z'", "Z", "X: float32[2]. Overridable: W: float32[2]")
        inputs = ModelInputs(rep.session)
        self.assertIsNone(inputs.find("Y"))
        self.assertEqual([inputs.find(name).name for name in "XW"], ["X", "W"])
        with self.assertWarnsRegex(RuntimeWarning, "Overridable: W"):
            np.testing.assert_array_equal(rep.run([X[1, :2], X[0, 1:]])[0], X[0, :2] * X[1, :2])
        # OpenVINO would compute with the values in the model.
        with mock.patch.object(rep.session, "get_providers", return_value=[OPENVINO]):
            self.assertIsNone(ModelInputs(rep.session).find("W"))

    def test_inputs_of_the_fast_path(self):
        rep = on_cpu(two_nodes())
        with mock.patch.object(ModelInputs, "feeds", side_effect=AssertionError):
            for given in (X, [X], (X,), {"X": X}, OrtValue.ortvalue_from_numpy(X)):
                np.testing.assert_array_equal(rep.run(given)[0], abs(X))

    def test_an_input_without_a_type(self):
        for facts in ({}, {"type": "tensor(float)"}, {"shape": [1]}, {"type": mock.Mock(), "shape": [1]}):
            session = SimpleNamespace(get_inputs=lambda facts=facts: [SimpleNamespace(name="X", **facts)])
            self.assertEqual(ModelInputs(session).find("X"), ("X", "optional()", ()))

    def test_optionals(self):
        rep = on_cpu("(optional(float[]) X) => (bool Y) { Y = OptionalHasElement (X) }")
        for inputs, expected in (([1.5], True), ([None], False), ([], False), ({}, False), (None, False)):
            self.assertEqual(rep.run(inputs)[0], expected)
        np.testing.assert_array_equal(identity("optional(float[])").run([X.astype(">f4")])[0], X)

    def test_an_optional_that_is_left_out_is_not_missing(self):
        rep = on_cpu(
            "(float[2] X, optional(float) O) => (bool H, float[2] Y) { H = OptionalHasElement (O) Y = Neg (X) }"
        )
        for inputs in ([X[0, :2]], [X[0, :2], None], {"X": X[0, :2]}):
            has, negative = rep.run(inputs)
            self.assertFalse(has)
            np.testing.assert_array_equal(negative, -X[0, :2])
        for inputs in ([X[0]], [X[0], None]):
            self.refused(rep, inputs, "float32[3]")
        self.refused(rep, {"O": X[0]}, "nothing")

    def test_maps(self):
        rep = on_cpu('(map(int64, float[]) X) => (float[] Y) { Y = ai.onnx.ml.CastMap <map_form = "DENSE"> (X) }')
        for inputs in ({0: 1.5, 1: 2.0}, [{0: 1.5, 1: 2.0}], {"X": {0: 1.5, 1: 2.0}}):
            np.testing.assert_array_equal(rep.run(inputs)[0], np.array([[1.5, 2]], np.float32))
        self.refused(rep, {"X": {0: 1.5}, "Z": 1.0}, "'Z'", name="Z")
        for wrong, got in (
            (X, "float32[2, 3]"),
            (None, "None"),  # ORT crashes on it
            ([], "an empty list"),
            ([1], "a list"),
            (1, "1 (int)"),
            ("a", "'a' (str)"),
            *((wrong, "a value of type dict") for wrong in ({}, {"a": 1.0}, {0: "a"})),
        ):
            for inputs in ([wrong], *((wrong, {"X": wrong}) if isinstance(wrong, dict) else ())):
                self.refused(rep, inputs, got)
        rep = vectorizer("string", '"X", "b"')
        for inputs, expected in (({"X": {"b": 2.0}}, [0, 2]), ({"X": 1.0, "b": 2.0}, [1, 2]), ({"X": 1.0}, [1, 0])):
            self.assertEqual(rep.run(inputs)[0].tolist(), [expected])

    def test_no_inputs(self):
        rep = on_cpu(parsed("() => (float[2, 3] Y) { Y = Identity (K) }", K=X))
        np.testing.assert_array_equal(rep.run([])[0], X)
        self.refused(rep, {"X": X}, "'X'", "X", "")

    def test_arrays_of_the_right_type_pass_untouched(self):
        inputs = ModelInputs(on_cpu(two_nodes()).session)
        for given in (X, X.T):
            self.assertIs(inputs.feeds([given])["X"], given)
        self.assertIsNot(inputs.feeds([X.astype(">f4")])["X"], X)


if __name__ == "__main__":
    unittest.main()
