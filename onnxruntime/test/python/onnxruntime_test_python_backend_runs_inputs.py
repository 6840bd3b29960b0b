# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the inputs of runs: every kind of value that a caller can pass, and the errors for values that do not fit."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import pathlib
import pickle
import reprlib
import sys
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import numpy as np
from backend_test_children import run_code
from backend_test_models import (
    BFLOAT16,
    NARROW,
    model,
    needs_narrow_types,
    on_cpu,
    parsed,
    reads_linux,
    three_inputs,
    two_nodes,
)
from onnx import TensorProto, helper

from onnxruntime import OrtValue
from onnxruntime.backend import InputError
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.runs import fast_path, tensors
from onnxruntime.backend.runs.inputs import ModelInputs, _value, _with_type
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
RAGGED = "a list of lists of different lengths"


@functools.cache
def identity(of: str) -> OnnxRuntimeBackendRep:
    """Prepare a model that returns its input, of a type such as ``float[2]``; of any shape without dimensions."""
    of = of if of.endswith((")", "]")) else f"{of}[]"
    return on_cpu(f"({of} X) => ({of} Y) {{ Y = Identity (X) }}")


@functools.cache
def cast(source: str) -> OnnxRuntimeBackendRep:
    return on_cpu(f"({source}[] X) => (float[] Y) {{ Y = Cast <to = 1> (X) }}")


def vectorizer(key: str, vocabulary: str) -> OnnxRuntimeBackendRep:
    made = f"Y = ai.onnx.ml.DictVectorizer <{key}_vocabulary = [{vocabulary}]> (X)"
    return on_cpu(f"(map({key}, float[]) X) => (float[] Y) {{ {made} }}")


class InputTestCase(unittest.TestCase):
    def refused(
        self,
        rep: OnnxRuntimeBackendRep,
        inputs: object,
        got: str,
        name: str | None = "X",
        expected: str | None = None,
        **keywords: object,
    ) -> InputError:
        """Check that a run raises an ``InputError`` for this input, with this description of its value."""
        with self.assertRaises(InputError) as caught:
            rep.run(inputs, **keywords)
        error = caught.exception
        self.assertEqual((error.input, error.got), (name, got))
        if expected is not None:
            self.assertEqual(error.expected, expected)
        return error


class Wrapped:
    def __array__(self, dtype=None, copy=None):
        return X


def frozen() -> np.ndarray:
    array = X.copy()
    array.flags.writeable = False
    return array


LARGE = 2**53 + 1  # not a float64
NUMBERS = [float("inf"), -float("inf"), float("nan"), 3.4028234e38, 1e-300, 0, True, 2**64]
TEXTS = ["a", "bé", ""]
OTHER_OBJECTS = (
    decimal.Decimal("1.50"),
    pathlib.PurePosixPath("a/b"),
    datetime.date(2026, 11, 22),
    datetime.datetime(2026, 11, 22, 1, 2, 3),
)
# The type of an input, its value, and the array that the model receives.
ACCEPTED = (
    *(("float", value, 1.5) for value in (np.float32(1.5), 1.5, np.array(1.5, np.float32), np.array(1.5, ">f4"))),
    ("float", 2, 2),
    *(("int64", value, -3) for value in (np.int64(-3), np.longlong(-3), -3, -3.0)),
    ("int64", True, 1),
    ("uint64", True, 1),
    ("bool", True, True),
    ("bool", 1, True),
    ("bool", np.bool_(False), False),
    *(("bfloat16", value, 1.5) for value in ((1.5, BFLOAT16.type(1.5)) if NARROW else ())),
    *(("float", value, value) for value in (X, X.T, X[::-1], X[:, ::2], np.asfortranarray(X), frozen())),
    *(("float", value, X) for value in (X.astype(">f4"), Wrapped(), memoryview(X), OrtValue.ortvalue_from_numpy(X))),
    ("float", X.astype(">f4").T, X.T),
    ("float", np.frombuffer(b"\0" + X.tobytes(), np.float32, offset=1).reshape(X.shape), X),
    ("float", NUMBERS, np.array(NUMBERS, np.float64)),
    ("float", [[1, 2.5], [3, 4]], [[1, 2.5], [3, 4]]),
    ("float", [], []),
    ("float", [range(2), (2, 3)], [[0, 1], [2, 3]]),
    ("float", [np.array([0, 1]), [2, 3.0]], [[0, 1], [2, 3]]),
    ("float", [memoryview(b"\0\1"), [2, 3]], [[0, 1], [2, 3]]),
    ("float", ["1.5", b"-inf", 2, np.array(3)], [1.5, -np.inf, 2, 3]),
    ("int64", (1, 2), [1, 2]),
    ("int64", [1.0, np.float32(2), True, np.array(3.0)], [1, 2, 1, 3]),
    ("int64", [[LARGE, 1.0], [np.uint64(LARGE), -1]], [[LARGE, 1], [LARGE, -1]]),
    ("int64", [[1, 2], np.array([3.0, 4.0])], [[1, 2], [3, 4]]),
    ("int64", ["7", b" -8 ", np.str_(LARGE), 9.0], [7, -8, LARGE, 9]),
    ("int64", [np.array(["7"])], [[7]]),
    ("uint64", [2.0**63, str(2**64 - 1)], np.array([2**63, 2**64 - 1], np.uint64)),
    ("uint64", [0, 2**64 - 1], np.array([0, 2**64 - 1], np.uint64)),
    ("bool", [1, 0.0, np.int8(1), False], [True, False, True, False]),
    # ORT crashes on text in foreign byte order.
    *(("string", np.array(TEXTS, kind), TEXTS) for kind in (object, None, ">U2")),
    ("string", np.array([text.encode() for text in TEXTS]), TEXTS),
    ("string", np.array(["a", "bé".encode(), b""], object), TEXTS),
    ("string", pickle.loads(pickle.dumps(np.array(TEXTS, object))), TEXTS),
    ("string", ["a", "bé".encode(), ""], TEXTS),
    *(("string", value, "a\0b") for value in ("a\0b", np.str_("a\0b"), np.array("a\0b", object), b"a\0b")),
    ("string", np.void(b"a\0b"), "a\0b"),
    ("string", np.array([b"a", b"bc"], "V2"), ["a\0", "bc"]),
    ("string", [np.array(1), np.array("a"), np.array(b"b")], ["1", "a", "b"]),
    # ORT uses str() of other values, such as those in a table column with missing values.
    ("string", ["a", 1, 1.5, None], ["a", "1", "1.5", "None"]),
    ("string", np.array(["a", np.int64(1), np.float32(1.5), None], object), ["a", "1", "1.5", "None"]),
    *(("string", [value, "text"], [str(value), "text"]) for value in OTHER_OBJECTS),
    *(("string", np.array([value, "text"], object), [str(value), "text"]) for value in OTHER_OBJECTS),
)


class AcceptedTest(InputTestCase):
    def test_tensors(self) -> None:
        for of, value, expected in ACCEPTED:
            bare = () if isinstance(value, (list, tuple)) else (value,)
            dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(of.upper()))
            for inputs in ([value], (value,), {"X": value}, *bare):
                with self.subTest(of, inputs=repr(inputs)):
                    got = identity(of).run(inputs)[0]
                    np.testing.assert_array_equal(got, np.array(expected, dtype))
                    self.assertEqual((got.dtype, got.shape), (dtype, np.shape(expected)))

    def test_sequences(self) -> None:
        given = [X, X.astype(">f4"), X.T, np.float32(1), 2.5, [1, 2]]
        for inputs in ([given], [tuple(given)], {"X": given}):
            for one, expected in zip(identity("seq(float[])").run(inputs)[0], given, strict=True):
                np.testing.assert_array_equal(one, np.asarray(expected, np.float32))
        self.assertEqual(identity("seq(float[])").run([[]]), [[]])
        self.refused(identity("seq(float[])"), [None], "None", expected="seq(float32)")

    def test_optionals(self) -> None:
        rep = on_cpu("(optional(float[]) X) => (bool Y) { Y = OptionalHasElement (X) }")
        for inputs, expected in (([X], True), ([1.5], True), ([None], False), ([], False), ({}, False), (None, False)):
            self.assertEqual(rep.run(inputs)[0], expected)
        self.assertIsNone(identity("optional(float[])").run([None])[0])
        np.testing.assert_array_equal(identity("optional(float[])").run([X.astype(">f4")])[0], X)

    def test_an_optional_that_is_left_out_is_not_missing(self) -> None:
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

    def test_maps(self) -> None:
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

    @needs_narrow_types
    def test_narrow_types(self) -> None:
        halves = tensors.to_ort_value(X.astype(BFLOAT16), TensorProto.BFLOAT16)
        np.testing.assert_array_equal(identity("bfloat16").run(halves)[0], X.astype(BFLOAT16))
        np.testing.assert_array_equal(cast("bfloat16").run([[1.0, float("inf")]])[0], [1, np.inf])
        self.refused(identity("float"), [halves], "OrtValue bfloat16[2, 3]")
        four_bits = helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT4E2M1)  # it has no infinity and no NaN
        self.assertEqual(tensors.as_array([0.5, -6.0], four_bits).tolist(), [0.5, -6.0])
        with self.assertRaises(ValueError):
            tensors.as_array([0.5, 100.0], four_bits)


class Asked:
    """An object beside a list, which is not asked for its dimensions."""

    @property
    def ndim(self) -> int:
        raise KeyError


ENDLESS: list = []
ENDLESS.append(ENDLESS)
DOUBLED: list = [1.0]
for _ in range(100):
    DOUBLED = [DOUBLED, DOUBLED]
SECONDS = np.timedelta64(5, "s")
ARRAYS = [np.ones(2, np.float32), np.ones(3, np.float32)]
# numpy alone detects arrays of different lengths, from 1.24 on.
OLD_NUMPY = np.lib.NumpyVersion(np.__version__) < "1.24.0"
NARROW_RANGES = (("bfloat16", 1e39), ("float8e4m3fn", 1e5), ("float8e5m2", -1e6), ("int4", 8), ("uint4", 16))
NARROW_RANGES = NARROW_RANGES if NARROW else ()
# The type of an input, a value that does not fit, and its description.
REFUSED = (
    ("float", np.float64(1), "float64[]"),
    ("float", np.array([1]), "int64[1]"),
    ("float", np.array(["1"]), "str32[1]"),
    ("float", np.array([1, None]), "object[2]"),
    ("float", None, "None"),
    ("float", "1", "'1' (str)"),
    ("float", {}, "a value of type dict"),
    ("float", 1j, "a value of type complex"),
    ("double", Wrapped(), "float32[2, 3]"),
    ("int64", 1.5, "1.5 (float)"),
    ("int64", "1", "'1' (str)"),
    ("int64", np.uint64(1), "uint64[]"),
    ("float", [1.0, None], "a list that contains None"),
    ("float", [[1.0], ["a"]], "a list that contains 'a' (str)"),
    ("float", [b"a"], "a list that contains b'a' (bytes)"),
    ("float", [np.array(["a"])], "a list that contains 'a' (str)"),
    ("int64", ["7.0"], "a list that contains '7.0' (str)"),
    ("float", ["1e400"], "a list that contains '1e400' (str)"),
    ("double", [b"-1e400"], "a list that contains b'-1e400' (bytes)"),
    ("float", [{}], "a list that contains a value of type dict"),
    ("float", [1j], "a list that contains a value of type complex"),
    ("float", [decimal.Decimal(1)], "a list that contains a value of type Decimal"),
    ("int64", [1, 2.5], "a list that contains 2.5 (float)"),
    ("int64", [np.float32(2.5)], "a list that contains float32[]"),
    ("int64", [np.array([2.5]), [1]], "a list that contains 2.5 (float)"),
    ("int64", [float("nan")], "a list that contains nan (float)"),
    ("int64", [float("inf")], "a list that contains inf (float)"),
    ("bool", [True, 0.5], "a list that contains 0.5 (float)"),
    ("bool", ["1"], "a list that contains '1' (str)"),
    # numpy counts durations among the integers.
    *(
        (of, value, "a list that contains timedelta64[s][]")
        for value in ([SECONDS], [1, SECONDS], [SECONDS, 1.5])
        for of in ("int64", "float")
    ),
    ("int64", [np.array(["NaT"], "m8[s]")], "a list that contains None"),
    ("string", 1, "1 (int)"),
    ("string", None, "None"),
    ("string", {}, "a value of type dict"),
    ("string", np.array([1]), "int64[1]"),
    ("string", np.zeros(1, "i4,f4"), "void64[1]"),
    ("string", np.array([{}]), "text that contains a value of type dict"),
    ("string", np.array(["a", {}], object), "text that contains a value of type dict"),
    *(("string", [value], f"text that contains a value of type {type(value).__name__}") for value in ({}, {1})),
    ("string", [b"\xff"], "bytes that are not UTF-8 text"),
    *((of, value, RAGGED) for value in ([[1], [2, 3]], [[1], 2]) for of in ("float", "string")),
    ("string", [["a"], ["b", "c"]], RAGGED),
    ("string", [["a"], Asked()], RAGGED),
    # numpy 2.4 crashes if it converts such a list, which contains a list twice.
    *(
        ("string", value, RAGGED)
        for twice in (range(2), (1, 2), ["a", "b"])
        for value in ([["a", twice], twice], [[["a", twice], twice]], [["a", twice], twice, ["a", twice]])
    ),
    ("float", ARRAYS, "a list" if OLD_NUMPY else RAGGED),
    *((of, value, "a list that is nested too deeply") for value in (ENDLESS, DOUBLED) for of in ("float", "string")),
    ("seq(float[])", X, "float32[2, 3]"),
    ("seq(float[])", [X.astype(np.float64)], "a list that contains float64[2, 3]"),
    ("seq(float[])", [None], "a list that contains None"),
    ("seq(float[])", True, "True (bool)"),
    ("seq(float[])", 1 << 200, "an integer of 201 bits"),
    ("seq(float[])", {"a": 1}, "a value of type dict"),
    ("seq(string[])", True, "True (bool)"),
    ("optional(float[])", X.astype(np.float64), "float64[2, 3]"),
    *(
        (of, value, f"a list that contains {number}, which is out of range")
        for of, value, number in (
            ("int8", [1, 300], "300"),
            ("uint8", [[-1]], "-1"),
            ("int64", [-1, 2**63], str(2**63)),
            ("uint64", [-1, 2**63], "-1"),
            ("uint64", [2.0**64], str(2.0**64)),
            ("int64", [2.0**63], str(2.0**63)),
            ("int64", [np.uint64(2**63)], str(2**63)),
            ("int64", ["7", str(2**63)], str(2**63)),
            ("bool", [1, 2], "2"),
            ("float", [1.0, 1e300], "1e+300"),
            ("float", [10**39], "an integer of 130 bits"),
            ("float", [10**400], "an integer of 1329 bits"),
            ("float16", [float("inf"), -70000.0], "-70000.0"),
            ("float16", [70000], "70000"),
            *((of, [0, value], value) for of, value in NARROW_RANGES),
        )
    ),
    *(
        (of, value, f"{value}, which is out of range")
        for of, value in (
            *(("int8", 128), ("uint8", -1), ("int64", 2**63), ("bool", 2), ("float", -1e39)),
            *NARROW_RANGES,
        )
    ),
    *((("int4", np.int8(1), "int8[]"), ("float", np.array([1], BFLOAT16), "bfloat16[1]")) if NARROW else ()),
)


class RefusedTest(InputTestCase):
    """Lists whose elements do not fit the type are refused before numpy makes an array of them."""

    def test_values(self) -> None:
        for of, value, got in REFUSED:
            rep = identity(of) if of.endswith(")") else cast(of)
            for inputs in ([value], {"X": value}):
                with self.subTest(of, inputs=reprlib.repr(inputs)):
                    error = self.refused(rep, inputs, got)
                    self.assertIsInstance(error, Fail if value is None else InvalidArgument)

    def test_text_that_utf_8_cannot_represent(self) -> None:
        text = "\ud800"
        concat = on_cpu("(string[] A, string[] X) => (string[] Y) { Y = StringConcat (A, X) }")
        described, words = "text that UTF-8 cannot represent", vectorizer("string", '"a"')
        for rep, inputs, got in (
            *((identity("string"), [value], described) for value in ([text], text, np.array(["a", text]))),
            (identity("string"), [np.array([text], object)], described),
            (identity("string"), {"X": [text]}, described),
            (identity("string[2]"), [[text]], "string[1]"),
            (concat, [["a"], [text]], described),
            (words, [{"a": 1.0, text: 1.0}], described),
            (identity("seq(string[])"), [[["a"], [text]]], described),
        ):
            for keywords in ({}, {"timeout": 60}):
                with self.subTest(inputs=ascii(inputs), **keywords):
                    self.refused(rep, inputs, got, **keywords)

    @reads_linux
    def test_long_text_takes_no_memory(self) -> None:
        code = """if True:
            import resource
            import numpy as np
            from onnxruntime.backend.runs import tensors
            texts = ["A" * 200_000, *[""] * 2000]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            numbers = [texts[0], *[0] * 2000]
            arrays = [np.array([text]) for text in texts]
            for value in (texts, numbers, [[text] for text in texts], arrays):
                for dtype in (np.float32, np.int64, np.bool_):
                    try:
                        tensors.as_array(value, np.dtype(dtype))
                    except ValueError:
                        continue
                    raise AssertionError(dtype)
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        """
        self.assertLess(int(run_code(code).stdout), 64)


class InputsTest(InputTestCase):
    def setUp(self) -> None:
        self.rep = on_cpu(three_inputs())
        self.a, self.b, self.c = (np.full(4, value, np.float32) for value in (1, 2, 5))

    def test_right(self) -> None:
        a, b, c = self.a, self.b, self.c
        value = OrtValue.ortvalue_from_numpy(b)
        for inputs in ([a, b, c], (a, b, c), {"C": c, "A": a, "B": b}, [a, value, c], [a, [2, 2, 2, 2], c]):
            np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)

    def test_wrong(self) -> None:
        a, b, c = self.a, self.b, self.c
        fewer, integers = map(OrtValue.ortvalue_from_numpy, (c[:3], c.astype(int)))
        vector, both = "float32[4]", "B: float32[4], C: float32[4]"
        signature = f"A: float32[4], {both}"
        # The stock backend passes a mapping to ORT as the value of the only input, and ORT reads it as a map.
        one, texts = identity("float[N]"), identity("seq(string[])")
        for rep, inputs, kind, name, expected, got in (
            (self.rep, [a, b], RuntimeError, "C", vector, "nothing"),
            (self.rep, a, RuntimeError, None, both, "nothing, nothing"),
            (self.rep, [], RuntimeError, None, signature, "nothing, nothing, nothing"),
            (self.rep, {"A": a, "C": c}, RuntimeError, "B", vector, "nothing"),
            (self.rep, {"A": a[:3], "C": c}, RuntimeError, None, f"B: {vector}, A: {vector}", "nothing, float32[3]"),
            (self.rep, {"A": a, "B": b, "C": c, "D": a}, Fail, "D", signature, "'D'"),
            (self.rep, {"A": a, "B": b, 0: c}, Fail, None, signature, "0"),
            (self.rep, {"A": a, "B": b, "c": 1}, Fail, "c", signature, "'c'"),
            (self.rep, [a, b, c.astype(np.float64)], InvalidArgument, "C", vector, "float64[4]"),
            (self.rep, [a, b, None], Fail, "C", vector, "None"),
            (self.rep, [a, b[None], c[:3]], InvalidArgument, None, both, "float32[1, 4], float32[3]"),
            (self.rep, [a, b, fewer], InvalidArgument, "C", vector, "OrtValue float32[3]"),
            (self.rep, [a, b, integers], InvalidArgument, "C", vector, "OrtValue int64[4]"),
            (one, {"nope": 1}, InvalidArgument, "nope", "X: float32[N]", "'nope'"),
            (one, {"nope": X[0]}, Fail, "nope", "X: float32[N]", "'nope'"),
            (one, [{"a": 1}], InvalidArgument, "X", "float32[N]", "a value of type dict"),
            (texts, {"X": True}, InvalidArgument, "X", "seq(string)", "True (bool)"),
            (texts, [{"a": 1}], InvalidArgument, "X", "seq(string)", "a value of type dict"),
        ):
            for limits in ({}, {"timeout": 60}):
                with self.subTest(inputs=repr(inputs), **limits):
                    error = self.refused(rep, inputs, got, name, expected, **limits)
                    self.assertIsInstance(error, kind)

    def test_surplus(self) -> None:
        a, b, c = self.a, self.b, self.c
        for inputs in ([a, b, c, a], (a, b, c, object(), None)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)
            self.assertEqual([(warning.category, warning.filename) for warning in caught], [(RuntimeWarning, __file__)])
            self.assertIn(str(len(inputs)), str(caught[0].message))

    def test_names_of_a_model_are_printable(self) -> None:
        proto = model([helper.make_node("Neg", ["x\x1b[2J"], ["Y"])], {"x\x1b[2J": ["n\r", 2]}, {"Y": None})
        for inputs in ([X[0]], [None], [], {"x": X}):
            with self.assertRaises(InputError) as caught:
                on_cpu(proto).run(inputs)
            for text in (str(caught.exception), caught.exception.expected, caught.exception.got):
                self.assertTrue(text.isprintable())
            self.assertIn(r"float32[n\r, 2]", caught.exception.expected)

    def test_open_dimensions_have_their_names(self) -> None:
        proto = parsed("(float[batch, ?] pixels) => (float[A, B] Y) { Y = Neg (pixels) }")
        self.refused(on_cpu(proto), [X[0]], "float32[3]", "pixels", "float32[batch, ?]")
        error = self.refused(on_cpu(proto), {"pixel": X}, "'pixel'", "pixel", "pixels: float32[batch, ?]")
        self.assertIn("Did you mean 'pixels'?", str(error))
        self.assertNotIn("Did you mean", str(self.refused(on_cpu(proto), {"mask": X}, "'mask'", "mask")))

    def test_many_inputs_are_not_all_listed(self) -> None:
        names = [f"input{i}" for i in range(100)]
        listed = ", ".join(f"{name}: float32[4]" for name in names[:16])
        for count, more in ((100, ", and 84 more"), (17, ", and 1 more"), (16, "")):
            node = helper.make_node("Sum", names[:count], ["Y"])
            rep = on_cpu(model([node], dict.fromkeys(names[:count], (4,)), {"Y": [4]}))
            for inputs, got in (([], "nothing"), ([self.a[:3]] * count, "float32[3]")):
                error = self.refused(rep, inputs, ", ".join([got] * 16), None, f"{listed}{more}")
                self.assertNotIn("input50", str(error))

    def test_errors_that_are_not_about_the_inputs_stay_as_they_are(self) -> None:
        rep = on_cpu("(float[N] A, float[M] B) => (float[] Y) { Y = Add (A, B) }")
        with self.assertRaises(Exception) as caught:
            rep.run([self.a, self.b[:3]])
        self.assertNotIsInstance(caught.exception, InputError)
        self.assertEqual(type(caught.exception).__module__, "onnxruntime.capi.onnxruntime_pybind11_state")

    def test_overridable_initializer(self) -> None:
        rep = on_cpu(parsed("(float[2] X, float[2] W) => (float[2] Y) { Y = Mul (X, W) }", W=X[0, :2]))
        np.testing.assert_array_equal(rep.run([X[1, :2]])[0], X[0, :2] * X[1, :2])
        np.testing.assert_array_equal(rep.run({"X": X[0, :2], "W": X[1, :2]})[0], X[0, :2] * X[1, :2])
        error = self.refused(rep, {"X": X[0, :2], "W": X[0]}, "float32[3]", "W", "float32[2]")
        self.assertIn("Model inputs: X: float32[2]. Overridable: W: float32[2]", str(error))
        self.refused(rep, {"Z": X}, "'Z'", "Z", "X: float32[2]. Overridable: W: float32[2]")
        self.assertEqual(ModelInputs(rep.session).returned_as(["Y", "X", "W"]), {1, 2})  # ORT 1.24 returns views
        with self.assertWarnsRegex(RuntimeWarning, "mapping by name"):
            np.testing.assert_array_equal(rep.run([X[1, :2], X[0, 1:]])[0], X[0, :2] * X[1, :2])

    def test_inputs_of_the_fast_path(self) -> None:
        rep = on_cpu(two_nodes())
        with mock.patch.object(ModelInputs, "feeds", side_effect=AssertionError):
            for given in (X, [X], (X,), {"X": X}, OrtValue.ortvalue_from_numpy(X)):
                np.testing.assert_array_equal(rep.run(given)[0], abs(X))
        lock = mock.Mock(run=mock.Mock(side_effect=lambda options, function, *arguments: function(*arguments)))
        slots, options = ModelInputs(rep.session).slots, rep.run_options()
        free, locked = (fast_path.of(rep.session, slots, ["Y"], one) for one in (None, lock))
        with mock.patch.object(rep.session, "run"):
            self.assertIsNone(free(X, options))
        np.testing.assert_array_equal(locked(X, options)[0], abs(X))
        lock.run.assert_called_once()
        inner = fast_path.inner_of(rep.session)
        rep.session.set_providers(["CPUExecutionProvider"])
        self.assertIsNone(free(X, options))
        self.assertIsNot(fast_path.inner_of(rep.session), inner)
        self.assertIsNone(fast_path.inner_of(mock.Mock()))

    def test_maps_become_builtin_types(self) -> None:
        class Text(str):
            __slots__ = ()
            __str__ = __repr__ = __getitem__ = None

        for value_type, fits, converted, misfits in (
            ("map(int64,tensor(float))", {np.int8(1): 2}, {1: 2.0}, {"a": 0.5}),
            ("map(int64,tensor(int64))", {True: np.uint8(2)}, {1: 2}, {1: 0.5}),
            ("map(string,tensor(string))", {Text("a"): np.str_("b")}, {"a": "b"}, {"a": 0.5}),
            ("seq(map(int64,tensor(double)))", ({1: 0.5}, {2: True}), [{1: 0.5}, {2: 1.0}], [{1: 0.5}, {"a": 1}]),
            ("seq(map(int64,tensor(string)))", [{1: "a"}], [{1: "a"}], {1: "a"}),
        ):
            got = _value(value_type, fits)
            self.assertEqual(repr(got), repr(converted))  # tells builtin types from others
            with self.assertRaises(ValueError):
                _value(value_type, misfits)
        for number in (True, 2, 1 << 70, np.float16(1), np.bool_(True), decimal.Decimal("0.5")):  # as in stock
            self.assertEqual(_value("map(string,tensor(float))", {"a": number}), {"a": float(number)})

    def test_a_map_with_a_wrong_value_keeps_its_references(self) -> None:
        class Number:
            def __float__(self) -> float:
                raise ArithmeticError

        for rep, several in (
            (vectorizer("string", '"a"'), ({"a": "x"}, {"a": None}, {"a": Number()}, {3: 1.0}, {})),
            (vectorizer("int64", "1"), ({1 << 70: 1.0}, {1: np.ones(2)}, {0.5: 1.0}, {1: 1 << 2000})),
        ):
            for wrong in several:
                owners = [wrong] * 20  # ORT 1.24 releases the map three times for three runs
                before = sys.getrefcount(wrong)
                for _ in range(3):
                    with contextlib.suppress(InputError):
                        rep.run([wrong])
                self.assertEqual(sys.getrefcount(wrong), before)
                self.assertEqual(len(owners), 20)

    def test_an_input_without_a_type(self) -> None:
        for facts in ({}, {"type": "tensor(float)"}, {"shape": [1]}, {"type": mock.Mock(), "shape": [1]}):
            expected = SimpleNamespace(name="X", type="optional()", shape=())
            self.assertEqual(_with_type(SimpleNamespace(name="X", **facts)), expected)

    def test_no_inputs(self) -> None:
        rep = on_cpu(parsed("() => (float[2, 3] Y) { Y = Identity (K) }", K=X))
        np.testing.assert_array_equal(rep.run([])[0], X)
        with self.assertWarns(RuntimeWarning):
            np.testing.assert_array_equal(rep.run([X])[0], X)
        self.refused(rep, {"X": X}, "'X'", "X", "")

    def test_arrays_of_the_right_type_pass_untouched(self) -> None:
        inputs = ModelInputs(on_cpu(two_nodes()).session)
        for given in (X, X.T):
            self.assertIs(inputs.feeds([given])["X"], given)
        self.assertIsNot(inputs.feeds([X.astype(">f4")])["X"], X)


if __name__ == "__main__":
    unittest.main()
