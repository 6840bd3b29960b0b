# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the inputs of runs: every kind of value that a caller can pass, and the errors for values that do not fit."""

from __future__ import annotations

import contextlib
import copy
import datetime
import decimal
import pathlib
import pickle
import sys
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import backend_test_models as models
import numpy as np
from backend_test_children import run_code
from backend_test_models import model, one_node, parsed, reads_linux, tensor, three_inputs, two_nodes
from onnx import ModelProto, TensorProto, TypeProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import InputError
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.runs import fast_path, tensors
from onnxruntime.backend.runs.inputs import ModelInputs, _value, _with_type
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
# From onnx 1.19, arrays of the types that numpy does not have are of ml_dtypes.
NARROW = not tensors.numpy_has(BFLOAT16)
needs_narrow_types = unittest.skipUnless(NARROW, "needs onnx 1.19, whose arrays of these types are ml_dtypes")


def prepare(made: ModelProto | bytes) -> OnnxRuntimeBackendRep:
    """Prepare on the CPU EP. The model is serialized, because onnx's checker requires that all shapes are declared."""
    made = made if isinstance(made, bytes) else made.SerializeToString()
    return onnxruntime.backend.prepare(made, provider_options={})


def identity(of: TypeProto) -> OnnxRuntimeBackendRep:
    return prepare(models.identity(of))


def cast(source: int, target: int) -> OnnxRuntimeBackendRep:
    return prepare(models.cast(source, target))


def vectorizer(key: int, **vocabulary: list) -> OnnxRuntimeBackendRep:
    of = helper.make_map_type_proto(key, tensor(TensorProto.FLOAT))
    return prepare(one_node("DictVectorizer", {"X": of}, tensor(TensorProto.FLOAT), "ai.onnx.ml", **vocabulary))


class InputTestCase(unittest.TestCase):
    def refused(
        self,
        rep: OnnxRuntimeBackendRep,
        inputs: object,
        name: str | None = "X",
        got: str | None = None,
        expected: str | None = None,
        **keywords: object,
    ) -> InputError:
        """Check that a run raises an ``InputError`` for this input, with this description of its value."""
        with self.assertRaises(InputError) as caught:
            rep.run(inputs, **keywords)
        error = caught.exception
        self.assertEqual(error.input, name)
        for wanted, text in ((got, error.got), (expected, error.expected)):
            self.assertIsInstance(text, str)
            if wanted is not None:
                self.assertEqual(text, wanted)
        return error


class ValuesTest(InputTestCase):
    def setUp(self) -> None:
        self.float, self.int64, self.bool = map(
            identity, map(tensor, (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL))
        )

    def test_scalars(self) -> None:
        for rep, value, expected in (
            (self.float, np.float32(1.5), np.float32(1.5)),
            (self.float, 1.5, np.float32(1.5)),
            (self.float, 2, np.float32(2)),
            (self.float, np.array(1.5, np.float32), np.float32(1.5)),
            (self.float, np.array(1.5, ">f4"), np.float32(1.5)),
            (self.int64, np.int64(-3), np.int64(-3)),
            (self.int64, np.longlong(-3), np.int64(-3)),
            (self.int64, -3, np.int64(-3)),
            (self.int64, True, np.int64(1)),
            (self.int64, -3.0, np.int64(-3)),
            (identity(tensor(TensorProto.UINT64)), True, np.uint64(1)),
            (self.bool, True, np.bool_(True)),
            (self.bool, 1, np.bool_(True)),
            (self.bool, np.bool_(False), np.bool_(False)),
            *(
                (identity(tensor(TensorProto.BFLOAT16)), value, BFLOAT16.type(1.5))
                for value in ((1.5, BFLOAT16.type(1.5)) if NARROW else ())
            ),
        ):
            for inputs in (value, [value], (value,), {"X": value}):
                with self.subTest(value=repr(inputs)):
                    got = rep.run(inputs)[0]
                    self.assertEqual((got.shape, got.dtype, got[()]), ((), expected.dtype, expected))

    def test_any_layout(self) -> None:
        swapped = X.astype(">f4")
        unaligned = np.frombuffer(b"\0" + X.tobytes(), np.float32, offset=1).reshape(X.shape)
        frozen = X.copy()
        frozen.flags.writeable = False

        class Wrapped:
            def __array__(self, dtype=None, copy=None):
                return X

        protocols = Wrapped(), memoryview(X)
        for value in (X.T, X[::-1], X[:, ::2], np.asfortranarray(X), swapped, swapped.T, unaligned, frozen, *protocols):
            np.testing.assert_array_equal(self.float.run([value])[0], np.asarray(value, np.float32))
        self.refused(identity(tensor(TensorProto.DOUBLE)), [Wrapped()], got="float32[2, 3]")

    def test_arrays_from_another_process(self) -> None:
        """Unpickled arrays have a dtype that equals numpy's own, and is another object."""
        for name in ("BOOL", "INT8", "INT64", "FLOAT16", "FLOAT", "DOUBLE", "STRING"):
            element = getattr(TensorProto, name)
            array = np.array([0, 1, 1]).astype(str if name == "STRING" else helper.tensor_dtype_to_np_dtype(element))
            array = array.astype(object) if name == "STRING" else array
            with self.subTest(name):
                got = identity(tensor(element)).run([pickle.loads(pickle.dumps(array))])[0]
                self.assertEqual((got.dtype, got.tolist()), (array.dtype, array.tolist()))

    def test_strings(self) -> None:
        rep = identity(tensor(TensorProto.STRING))
        texts, encoded = ["a", "bé", ""], [b"a", "bé".encode(), b""]
        # ORT crashes on text in foreign byte order.
        arrays = (np.array(texts, object), np.array(texts), np.array(texts).astype(">U2"), np.array(encoded))
        for value in (*arrays, np.array(["a", *encoded[1:]], object), texts, ["a", encoded[1], ""]):
            with self.subTest(value=repr(value)):
                got = rep.run([value])[0]
                self.assertEqual((got.dtype, got.tolist()), (np.dtype(object), ["a", "bé", ""]))
        for value in ("a\0b", np.str_("a\0b"), np.array("a\0b", object), b"a\0b", np.void(b"a\0b")):
            got = rep.run([value])[0]
            self.assertEqual((got.shape, got[()]), ((), "a\0b"))
        # ORT uses str() of other values, such as those in a table column with missing values.
        for value in (["a", 1, 1.5, None], np.array(["a", np.int64(1), np.float32(1.5), None], object)):
            self.assertEqual(rep.run([value])[0].tolist(), ["a", "1", "1.5", "None"])
        day, second = datetime.date(2026, 11, 22), datetime.datetime(2026, 11, 22, 1, 2, 3)
        for value in (decimal.Decimal("1.50"), pathlib.PurePosixPath("a/b"), day, second):
            array = np.array([value, "text"], object)
            for inputs in ([array], {"X": array}, [[value, "text"]]):
                self.assertEqual(rep.run(inputs)[0].tolist(), [str(value), "text"])
        self.assertEqual(rep.run([np.array([b"a", b"bc"], "V2")])[0].tolist(), ["a\0", "bc"])
        fields = np.zeros(1, "i4,f4")
        for value in (1, np.array([1]), {}, None, [{}], np.array([{}]), [{1}], [["a"], ["b", "c"]], [b"\xff"], fields):
            with self.subTest(value=repr(value)):
                self.refused(rep, [value])
        self.refused(rep, [np.array(["a", {}], object)], got="text that contains a value of type dict")

    def test_text_that_utf_8_cannot_represent(self) -> None:
        text = "\ud800"
        rep = identity(tensor(TensorProto.STRING))
        for value in ([text], text, np.array(["a", text]), np.array([text], object)):
            for keywords in ({}, {"timeout": 60}):
                with self.subTest(value=ascii(value), **keywords):
                    self.refused(rep, [value], **keywords)
        self.refused(rep, {"X": [text]})
        self.refused(identity(tensor(TensorProto.STRING, [2])), [[text]], got="string[1]")
        strings = tensor(TensorProto.STRING)
        self.refused(prepare(one_node("StringConcat", {"A": strings, "X": strings}, strings)), [["a"], [text]])
        rep = vectorizer(TensorProto.STRING, string_vocabulary=["a"])
        self.refused(rep, [{"a": 1.0, text: 1.0}], got="text that UTF-8 cannot represent")
        self.refused(identity(helper.make_sequence_type_proto(tensor(TensorProto.STRING))), [[["a"], [text]]])

    def test_sequences(self) -> None:
        rep = identity(helper.make_sequence_type_proto(tensor(TensorProto.FLOAT)))
        given = [X, X.astype(">f4"), X.T, np.float32(1), 2.5, [1, 2]]
        for inputs in ([given], [tuple(given)], {"X": given}):
            got = rep.run(inputs)[0]
            self.assertEqual(len(got), len(given))
            for one, expected in zip(got, given, strict=True):
                np.testing.assert_array_equal(one, np.asarray(expected, np.float32))
        self.assertEqual(rep.run([[]]), [[]])
        for wrong, got in (
            (X, "float32[2, 3]"),
            ([X.astype(np.float64)], "a list that contains float64[2, 3]"),
            (None, "None"),
            ([None], "a list that contains None"),
            (True, "True (bool)"),
            (1 << 200, "an integer of 201 bits"),
            ({"a": 1}, "a value of type dict"),
        ):
            self.refused(rep, [wrong], got=got, expected="seq(float32)")

    def test_optionals(self) -> None:
        of = helper.make_optional_type_proto(tensor(TensorProto.FLOAT))
        rep = prepare(one_node("OptionalHasElement", {"X": of}, tensor(TensorProto.BOOL, [])))
        for inputs, expected in (([X], True), ([1.5], True), ([None], False), ([], False), ({}, False), (None, False)):
            self.assertEqual(rep.run(inputs)[0], expected)
        self.assertIsNone(identity(of).run([None])[0])
        np.testing.assert_array_equal(identity(of).run([X.astype(">f4")])[0], X)
        self.refused(rep, [X.astype(np.float64)], got="float64[2, 3]")

    def test_an_optional_that_is_left_out_is_not_missing(self) -> None:
        graph = "(float[2] X, optional(float) O) => (bool H, float[2] Y) { H = OptionalHasElement (O) Y = Neg (X) }"
        rep = prepare(parsed(graph))
        for inputs in ([X[0, :2]], [X[0, :2], None], {"X": X[0, :2]}):
            has, negative = rep.run(inputs)
            self.assertFalse(has)
            np.testing.assert_array_equal(negative, -X[0, :2])
        for inputs in ([X[0]], [X[0], None]):
            self.refused(rep, inputs, got="float32[3]")
        self.refused(rep, {"O": X[0]}, got="nothing")

    def test_maps(self) -> None:
        of = helper.make_map_type_proto(TensorProto.INT64, tensor(TensorProto.FLOAT))
        rep = prepare(one_node("CastMap", {"X": of}, tensor(TensorProto.FLOAT), "ai.onnx.ml", map_form="DENSE"))
        for inputs in ({0: 1.5, 1: 2.0}, [{0: 1.5, 1: 2.0}], {"X": {0: 1.5, 1: 2.0}}):
            np.testing.assert_array_equal(rep.run(inputs)[0], np.array([[1.5, 2]], np.float32))
        self.refused(rep, [X], got="float32[2, 3]")
        self.refused(rep, {"X": {0: 1.5}, "Z": 1.0}, name="Z")
        for inputs in (None, [None]):  # ORT crashes on it
            self.refused(rep, inputs, got="None")
        for wrong, got in (([], "an empty list"), ([1], "a list"), (1, "1 (int)"), ("a", "'a' (str)")):
            self.refused(rep, [wrong], got=got)
        for wrong in ({}, {"a": 1.0}, {0: "a"}):
            for inputs in (wrong, [wrong], {"X": wrong}):
                self.refused(rep, inputs, got="a value of type dict")
        rep = vectorizer(TensorProto.STRING, string_vocabulary=["X", "b"])
        for inputs, expected in (({"X": {"b": 2.0}}, [0, 2]), ({"X": 1.0, "b": 2.0}, [1, 2]), ({"X": 1.0}, [1, 0])):
            self.assertEqual(rep.run(inputs)[0].tolist(), [expected])

    def test_ort_values(self) -> None:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
        for inputs in (value, [value], {"X": value}):
            np.testing.assert_array_equal(self.float.run(inputs)[0], X)

    @needs_narrow_types
    def test_ort_values_of_narrow_types(self) -> None:
        halves = tensors.to_ort_value(X.astype(BFLOAT16), TensorProto.BFLOAT16)
        np.testing.assert_array_equal(identity(tensor(TensorProto.BFLOAT16)).run(halves)[0], X.astype(BFLOAT16))
        self.refused(self.float, [halves], got="OrtValue bfloat16[2, 3]")


class LeavesTest(InputTestCase):
    """Lists whose elements do not fit the type are refused before numpy makes an array of them."""

    def check(self, element: int, value: object, got: str) -> None:
        with self.subTest(value=repr(value)[:60]):
            error = self.refused(cast(element, TensorProto.FLOAT), [value], got=got)
            self.assertIsInstance(error, Fail if value is None else InvalidArgument)

    def test_values_of_a_wrong_type(self) -> None:
        for element, value, got in (
            (TensorProto.FLOAT, np.float64(1), "float64[]"),
            (TensorProto.FLOAT, np.array([1]), "int64[1]"),
            (TensorProto.FLOAT, np.array(["1"]), "str32[1]"),
            (TensorProto.FLOAT, np.array([1, None]), "object[2]"),
            (TensorProto.FLOAT, None, "None"),
            (TensorProto.FLOAT, "1", "'1' (str)"),
            (TensorProto.FLOAT, {}, "a value of type dict"),
            (TensorProto.FLOAT, 1j, "a value of type complex"),
            (TensorProto.INT64, 1.5, "1.5 (float)"),
            (TensorProto.INT64, "1", "'1' (str)"),
            (TensorProto.INT64, np.uint64(1), "uint64[]"),
            (TensorProto.FLOAT, [1.0, None], "a list that contains None"),
            (TensorProto.FLOAT, [[1.0], ["a"]], "a list that contains 'a' (str)"),
            (TensorProto.FLOAT, [b"a"], "a list that contains b'a' (bytes)"),
            (TensorProto.FLOAT, [np.array(["a"])], "a list that contains 'a' (str)"),
            (TensorProto.INT64, ["7.0"], "a list that contains '7.0' (str)"),
            (TensorProto.FLOAT, ["1e400"], "a list that contains '1e400' (str)"),
            (TensorProto.DOUBLE, [b"-1e400"], "a list that contains b'-1e400' (bytes)"),
            (TensorProto.FLOAT, [{}], "a list that contains a value of type dict"),
            (TensorProto.FLOAT, [1j], "a list that contains a value of type complex"),
            (TensorProto.FLOAT, [decimal.Decimal(1)], "a list that contains a value of type Decimal"),
            (TensorProto.INT64, [1, 2.5], "a list that contains 2.5 (float)"),
            (TensorProto.INT64, [np.float32(2.5)], "a list that contains float32[]"),
            (TensorProto.INT64, [np.array([2.5]), [1]], "a list that contains 2.5 (float)"),
            (TensorProto.INT64, [float("nan")], "a list that contains nan (float)"),
            (TensorProto.INT64, [float("inf")], "a list that contains inf (float)"),
            (TensorProto.BOOL, [True, 0.5], "a list that contains 0.5 (float)"),
            (TensorProto.BOOL, ["1"], "a list that contains '1' (str)"),
            # numpy counts durations among the integers.
            *(
                (of, value, "a list that contains timedelta64[s][]")
                for value in ([np.timedelta64(5, "s")], [1, np.timedelta64(5, "s")], [np.timedelta64(5, "s"), 1.5])
                for of in (TensorProto.INT64, TensorProto.FLOAT)
            ),
            (TensorProto.INT64, [np.array(["NaT"], "m8[s]")], "a list that contains None"),
        ):
            self.check(element, value, got)

    def test_elements_out_of_range(self) -> None:
        for element, value, number in (
            (TensorProto.INT8, [1, 300], "300"),
            (TensorProto.UINT8, [[-1]], "-1"),
            (TensorProto.INT64, [-1, 2**63], str(2**63)),
            (TensorProto.UINT64, [-1, 2**63], "-1"),
            (TensorProto.UINT64, [2.0**64], str(2.0**64)),
            (TensorProto.INT64, [2.0**63], str(2.0**63)),
            (TensorProto.INT64, [np.uint64(2**63)], str(2**63)),
            (TensorProto.INT64, ["7", str(2**63)], str(2**63)),
            (TensorProto.BOOL, [1, 2], "2"),
            (TensorProto.FLOAT, [1.0, 1e300], "1e+300"),
            (TensorProto.FLOAT, [10**39], "an integer of 130 bits"),
            (TensorProto.FLOAT, [10**400], "an integer of 1329 bits"),
            (TensorProto.FLOAT16, [float("inf"), -70000.0], "-70000.0"),
            (TensorProto.FLOAT16, [70000], "70000"),
        ):
            self.check(element, value, f"a list that contains {number}, which is out of range")
        for element, value in (("INT8", 128), ("UINT8", -1), ("INT64", 2**63), ("BOOL", 2), ("FLOAT", -1e39)):
            self.check(TensorProto.DataType.Value(element), value, f"{value}, which is out of range")

    @needs_narrow_types
    def test_elements_out_of_the_range_of_a_narrow_type(self) -> None:
        for name, value in (
            ("BFLOAT16", 1e39),
            ("FLOAT8E4M3FN", 1e5),
            ("FLOAT8E5M2", -1e6),
            ("INT4", 8),
            ("UINT4", 16),
        ):
            element = TensorProto.DataType.Value(name)
            self.check(element, [0, value], f"a list that contains {value}, which is out of range")
            self.check(element, value, f"{value}, which is out of range")
        self.check(TensorProto.INT4, np.int8(1), "int8[]")
        self.check(TensorProto.FLOAT, np.array([1], BFLOAT16), "bfloat16[1]")
        four_bits = helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT4E2M1)  # it has no infinity and no NaN
        self.assertEqual(tensors.as_array([0.5, -6.0], four_bits).tolist(), [0.5, -6.0])
        with self.assertRaises(ValueError):
            tensors.as_array([0.5, 100.0], four_bits)
        np.testing.assert_array_equal(
            cast(TensorProto.BFLOAT16, TensorProto.FLOAT).run([[1.0, float("inf")]])[0], [1, np.inf]
        )

    def test_numbers_that_the_type_has(self) -> None:
        numbers = [float("inf"), -float("inf"), float("nan"), 3.4028234e38, 1e-300, 0, True, 2**64]
        np.testing.assert_array_equal(
            identity(tensor(TensorProto.FLOAT)).run([numbers])[0], np.array(numbers, np.float64).astype(np.float32)
        )

    def test_numbers_of_another_kind(self) -> None:
        large = 2**53 + 1  # no float64
        for element, value, expected in (
            (TensorProto.FLOAT, [[1, 2.5], [3, 4]], [[1, 2.5], [3, 4]]),
            (TensorProto.FLOAT, [], []),
            *(
                (TensorProto.FLOAT, value, [[0, 1], [2, 3]])
                for value in ([range(2), (2, 3)], [np.array([0, 1]), [2, 3.0]], [memoryview(b"\0\1"), [2, 3]])
            ),
            (TensorProto.INT64, (1, 2), [1, 2]),
            (TensorProto.INT64, [1.0, np.float32(2), True, np.array(3.0)], [1, 2, 1, 3]),
            (TensorProto.INT64, [[large, 1.0], [np.uint64(large), -1]], [[large, 1], [large, -1]]),
            (TensorProto.INT64, [[1, 2], np.array([3.0, 4.0])], [[1, 2], [3, 4]]),
            (TensorProto.INT64, ["7", b" -8 ", np.str_(large), 9.0], [7, -8, large, 9]),
            (TensorProto.INT64, [np.array(["7"])], [[7]]),
            (TensorProto.UINT64, [2.0**63, str(2**64 - 1)], [2**63, 2**64 - 1]),
            (TensorProto.UINT64, [0, 2**64 - 1], [0, 2**64 - 1]),
            (TensorProto.BOOL, [1, 0.0, np.int8(1), False], [True, False, True, False]),
            (TensorProto.FLOAT, ["1.5", b"-inf", 2, np.array(3)], [1.5, -np.inf, 2, 3]),
            (TensorProto.STRING, [np.array(1), np.array("a"), np.array(b"b")], ["1", "a", "b"]),
        ):
            with self.subTest(value=repr(value)):
                got = identity(tensor(element)).run([value])[0]
                self.assertEqual((got.dtype, got.tolist()), (helper.tensor_dtype_to_np_dtype(element), expected))

    def test_lists_without_an_end(self) -> None:
        endless: list = []
        endless.append(endless)
        doubled: list = [1.0]
        for _ in range(100):
            doubled = [doubled, doubled]
        for value in (endless, doubled):
            for of in (TensorProto.FLOAT, TensorProto.STRING):
                self.refused(identity(tensor(of)), [value], got="a list that is nested too deeply")

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
        self.rep = prepare(three_inputs())
        self.a, self.b, self.c = (np.full(4, value, np.float32) for value in (1, 2, 5))

    def test_right(self) -> None:
        a, b, c = self.a, self.b, self.c
        value = onnxruntime.OrtValue.ortvalue_from_numpy(b)
        for inputs in ([a, b, c], (a, b, c), {"C": c, "A": a, "B": b}, [a, value, c], [a, [2, 2, 2, 2], c]):
            np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)

    def test_wrong(self) -> None:
        a, b, c = self.a, self.b, self.c
        vector = "float32[4]"
        for inputs, name, expected, got in (
            ([a, b], "C", vector, "nothing"),
            (a, None, f"B: {vector}, C: {vector}", "nothing, nothing"),
            ([], None, f"A: {vector}, B: {vector}, C: {vector}", "nothing, nothing, nothing"),
            ({"A": a, "C": c}, "B", vector, "nothing"),
            ({"A": a[:3], "C": c}, None, f"B: {vector}, A: {vector}", "nothing, float32[3]"),
            ({"A": a, "B": b, "C": c, "D": a}, "D", None, "'D'"),
            ({"A": a, "B": b, 0: c}, None, None, "0"),
            ([a, b, c.astype(np.float64)], "C", vector, "float64[4]"),
            ([a, b, None], "C", vector, "None"),
            ([a, b[None], c[:3]], None, f"B: {vector}, C: {vector}", "float32[1, 4], float32[3]"),
            ([a, b, onnxruntime.OrtValue.ortvalue_from_numpy(c[:3])], "C", vector, "OrtValue float32[3]"),
            ([a, b, onnxruntime.OrtValue.ortvalue_from_numpy(c.astype(int))], "C", vector, "OrtValue int64[4]"),
        ):
            for limits in ({}, {"timeout": 60}):
                with self.subTest(inputs=repr(inputs), **limits):
                    error = self.refused(self.rep, inputs, name, got, expected, **limits)
                for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
                    self.assertEqual((type(again), str(again), vars(again)), (type(error), str(error), vars(error)))

    def test_arguments_of_inference_session_run(self) -> None:
        feeds = {"A": self.a, "B": self.b, "C": self.c}
        for arguments in ((None, feeds), (["Y"], feeds), (None, feeds, onnxruntime.RunOptions())):
            with self.assertRaisesRegex(TypeError, r"rep\.run\("):
                self.rep.run(*arguments)

    def test_surplus(self) -> None:
        a, b, c = self.a, self.b, self.c
        for inputs in ([a, b, c, a], (a, b, c, object(), None)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)
            self.assertEqual([(warning.category, warning.filename) for warning in caught], [(RuntimeWarning, __file__)])
            self.assertIn(str(len(inputs)), str(caught[0].message))

    def test_errors_are_of_the_class_that_ort_raises(self) -> None:
        a, b, c = self.a, self.b, self.c
        # The stock backend passes a mapping to ORT as the value of the only input, and ORT reads it as a map.
        one = identity(tensor(TensorProto.FLOAT, ["N"]))
        texts = identity(helper.make_sequence_type_proto(tensor(TensorProto.STRING)))
        wrong = c.astype(np.int64), [[1], [2, 3]], "text", c[:3], c[None]
        for rep, inputs, kind, name in (
            *((self.rep, [a, b, value], InvalidArgument, "C") for value in wrong),
            (self.rep, [a, b, None], Fail, "C"),
            (self.rep, {"A": a, "B": b, "c": c}, Fail, "c"),
            (self.rep, {"A": a, "B": b, "c": 1}, Fail, "c"),
            (one, {"nope": 1}, InvalidArgument, "nope"),
            (one, {"nope": X[0]}, Fail, "nope"),
            (one, [{"a": 1}], InvalidArgument, "X"),
            (texts, {"X": True}, InvalidArgument, "X"),
            (texts, [{"a": 1}], InvalidArgument, "X"),
        ):
            with self.subTest(inputs=repr(inputs)):
                error = self.refused(rep, inputs, name)
                self.assertIsInstance(error, kind)
                self.assertIsInstance(error, RuntimeError)

    def test_a_ragged_list(self) -> None:
        class Asked:  # an object beside a list is not asked
            @property
            def ndim(self) -> int:
                raise KeyError

        ragged, arrays = "a list of lists of different lengths", [np.ones(2, np.float32), np.ones(3, np.float32)]
        # numpy alone detects arrays of different lengths, from 1.24 on.
        old = np.lib.NumpyVersion(np.__version__) < "1.24.0"
        for element, value, got in (
            (TensorProto.FLOAT, [[1], [2, 3]], ragged),
            (TensorProto.FLOAT, [[1], 2], ragged),
            (TensorProto.STRING, [[1], [2, 3]], ragged),
            (TensorProto.STRING, [[1], 2], ragged),
            (TensorProto.FLOAT, arrays, "a list" if old else ragged),
            (TensorProto.STRING, [["a"], Asked()], ragged),
        ):
            self.refused(identity(tensor(element)), [value], got=got)

    def test_a_ragged_list_that_contains_a_list_twice(self) -> None:
        # numpy 2.4 terminates the process with a segmentation fault if it converts such a list.
        code = """
import onnxruntime.backend
from backend_test_models import identity, tensor

rep = onnxruntime.backend.prepare(identity(tensor(8)), provider_options={})
for twice in (range(2), (1, 2), ["a", "b"]):
    for value in ([["a", twice], twice], [[["a", twice], twice]], [["a", twice], twice, ["a", twice]]):
        try:
            rep.run([value])
        except onnxruntime.backend.InputError as error:
            print(error.input)
"""
        ran = run_code(code)
        self.assertEqual((ran.returncode, ran.stdout.split()), (0, ["X"] * 9), ran.stderr)

    def test_names_of_a_model_are_printable(self) -> None:
        proto = model([helper.make_node("Neg", ["x\x1b[2J"], ["Y"])], {"x\x1b[2J": ["n\r", 2]}, {"Y": None})
        for inputs in ([X[0]], [None], [], {"x": X}):
            with self.assertRaises(InputError) as caught:
                prepare(proto).run(inputs)
            for text in (str(caught.exception), caught.exception.expected, caught.exception.got):
                self.assertTrue(text.isprintable())
            self.assertIn(r"float32[n\r, 2]", caught.exception.expected)

    def test_open_dimensions_have_their_names(self) -> None:
        proto = parsed("(float[batch, ?] pixels) => (float[A, B] Y) { Y = Neg (pixels) }")
        self.refused(prepare(proto), [X[0]], "pixels", "float32[3]", "float32[batch, ?]")
        error = self.refused(prepare(proto), {"pixel": X}, "pixel", "'pixel'", "pixels: float32[batch, ?]")
        self.assertIn("Did you mean 'pixels'?", str(error))
        self.assertNotIn("Did you mean", str(self.refused(prepare(proto), {"mask": X}, "mask")))

    def test_many_inputs_are_not_all_listed(self) -> None:
        names = [f"input{i}" for i in range(100)]
        listed = ", ".join(f"{name}: float32[4]" for name in names[:16])
        for count, more in ((100, ", and 84 more"), (17, ", and 1 more"), (16, "")):
            node = helper.make_node("Sum", names[:count], ["Y"])
            rep = prepare(model([node], dict.fromkeys(names[:count], (4,)), {"Y": [4]}))
            for inputs, got in (([], "nothing"), ([self.a[:3]] * count, "float32[3]")):
                error = self.refused(rep, inputs, None, ", ".join([got] * 16), f"{listed}{more}")
                self.assertNotIn("input50", str(error))

    def test_errors_that_are_not_about_the_inputs_stay_as_they_are(self) -> None:
        rep = prepare(one_node("Add", {"A": tensor(1, ["N"]), "B": tensor(1, ["M"])}, tensor(1)))
        with self.assertRaises(Exception) as caught:
            rep.run([self.a, self.b[:3]])
        self.assertNotIsInstance(caught.exception, InputError)
        self.assertEqual(type(caught.exception).__module__, "onnxruntime.capi.onnxruntime_pybind11_state")

    def test_overridable_initializer(self) -> None:
        rep = prepare(parsed("(float[2] X, float[2] W) => (float[2] Y) { Y = Mul (X, W) }", W=X[0, :2]))
        np.testing.assert_array_equal(rep.run([X[1, :2]])[0], X[0, :2] * X[1, :2])
        np.testing.assert_array_equal(rep.run({"X": X[0, :2], "W": X[1, :2]})[0], X[0, :2] * X[1, :2])
        error = self.refused(rep, {"X": X[0, :2], "W": X[0]}, "W", "float32[3]", "float32[2]")
        self.assertIn("Model inputs: X: float32[2]. Overridable: W: float32[2]", str(error))
        self.refused(rep, {"Z": X}, "Z", "'Z'", "X: float32[2]. Overridable: W: float32[2]")
        self.assertEqual(ModelInputs(rep.session).returned_as(["Y", "X", "W"]), {1, 2})
        with self.assertWarnsRegex(RuntimeWarning, "mapping by name"):
            np.testing.assert_array_equal(rep.run([X[1, :2], X[0, 1:]])[0], X[0, :2] * X[1, :2])

    def test_inputs_of_the_fast_path(self) -> None:
        rep = prepare(two_nodes())
        with mock.patch.object(ModelInputs, "feeds", side_effect=AssertionError):
            for given in (X, [X], (X,), {"X": X}, onnxruntime.OrtValue.ortvalue_from_numpy(X)):
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

        texts = vectorizer(TensorProto.STRING, string_vocabulary=["a"])
        numbers = vectorizer(TensorProto.INT64, int64_vocabulary=[1])
        for rep, several in (
            (texts, ({"a": "x"}, {"a": None}, {"a": Number()}, {3: 1.0}, {})),
            (numbers, ({1 << 70: 1.0}, {1: np.ones(2)}, {0.5: 1.0}, {1: 1 << 2000})),
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
        rep = prepare(parsed("() => (float[2, 3] Y) { Y = Identity (K) }", K=X))
        np.testing.assert_array_equal(rep.run([])[0], X)
        with self.assertWarns(RuntimeWarning):
            np.testing.assert_array_equal(rep.run([X])[0], X)
        self.refused(rep, {"X": X}, "X", "'X'", "")

    def test_arrays_of_the_right_type_pass_untouched(self) -> None:
        inputs = ModelInputs(prepare(two_nodes()).session)
        for given in (X, X.T):
            self.assertIs(inputs.feeds([given])["X"], given)
        self.assertIsNot(inputs.feeds([X.astype(">f4")])["X"], X)


if __name__ == "__main__":
    unittest.main()
