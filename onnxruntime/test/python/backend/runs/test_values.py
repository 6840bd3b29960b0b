# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the values of inputs: every kind of value that a caller can pass, and values that do not fit the type."""

import contextlib
import datetime
import decimal
import enum
import pathlib
import pickle
import reprlib
import sys
import unittest

import _above
import numpy as np
from helpers.children import run_code
from helpers.inputs import InputTestCase, X, cast, identity, vectorizer
from helpers.models import BFLOAT16, NARROW, needs_narrow_types, reads_linux
from onnx import TensorProto, helper

from onnxruntime.backend import InputError
from onnxruntime.backend.runs import tensors, values
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

RAGGED = "a list of lists of different lengths"


class Wrapped:
    def __array__(self, dtype=None, copy=None):
        return X


class TextOfEnum(str, enum.Enum):  # noqa: UP042
    A = "a"  # whose str() is "TextOfEnum.A"


class Faulty(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError


Misleading = type("Misleading", (), {"__str__": lambda self: 1})
Incomparable = type("Incomparable", (), {"__eq__": lambda self, other: np.array([True, False])})


LARGE = 2**53 + 1  # not a float64
NUMBERS = [float("inf"), -float("inf"), float("nan"), 3.4028234e38, 1e-300, 0, True, 2**64]
TEXTS = ["a", "bé", ""]
# The types of inputs, with values, and the arrays that the model receives.
ACCEPTED = {
    "float": [
        (np.float32(1.5), 1.5),
        (X[::-1, ::2], X[::-1, ::2]),
        (X.astype(">f4").T, X.T),
        (Wrapped(), X),
        (np.frombuffer(b"\0" + X.tobytes(), np.float32, offset=1).reshape(X.shape), X),
        (NUMBERS, np.array(NUMBERS, np.float64)),
        ([], []),
        ([range(2), (2, 3)], [[0, 1], [2, 3]]),
        ([memoryview(b"\0\1"), [2, 3]], [[0, 1], [2, 3]]),
        (["1.5", b"-inf", 2, np.array(3)], [1.5, -np.inf, 2, 3]),
    ],
    "int64": [
        (np.longlong(-3), -3),
        (-3.0, -3),
        ([1.0, np.float32(2), True, np.array(3.0)], [1, 2, 1, 3]),
        ([[LARGE, 1.0], (np.uint64(LARGE), -1)], [[LARGE, 1], [LARGE, -1]]),
        (["7", b" -8 ", np.str_(LARGE), 9.0], [7, -8, LARGE, 9]),
        ([np.array(["7"])], [[7]]),
    ],
    "double": [([float("inf"), 1e305], [np.inf, 1e305])],
    "uint64": [([2.0**63, str(2**64 - 1)], np.array([2**63, 2**64 - 1], np.uint64))],
    "bool": [(1, True), ([1, 0.0, np.int8(1), False], [True, False, True, False])],
    "string": [
        (np.array(TEXTS, ">U2"), TEXTS),  # ORT crashes on text in foreign byte order
        (np.array([text.encode() for text in TEXTS]), TEXTS),
        (pickle.loads(pickle.dumps(np.array(["a", "bé".encode(), b""], object))), TEXTS),
        *((text, "a\0b") for text in ("a\0b", b"a\0b", np.str_("a\0b"), np.array("a\0b", object), np.void(b"a\0b"))),
        (np.array([b"a", b"bc"], "V2"), ["a\0", "bc"]),
        ([np.array(1), np.array("a"), np.array(b"b")], ["1", "a", "b"]),
        (["a", 1, 1.5, True, np.str_("b")], ["a", "1", "1.5", "True", "b"]),
        ([np.array(["a", "b"]), ["c", 1]], [["a", "b"], ["c", "1"]]),
        ([TextOfEnum.A], ["TextOfEnum.A"]),
    ],
}
if NARROW:
    ACCEPTED["bfloat16"] = [(1.5, 1.5), (BFLOAT16.type(1.5), 1.5)]
for other in (decimal.Decimal("1.50"), pathlib.PurePosixPath("a/b"), datetime.datetime(2026, 11, 22, 1, 2, 3)):
    ACCEPTED["string"].append(([other, "text"], [str(other), "text"]))
    ACCEPTED["string"].append((np.array([other, "text"], object), [str(other), "text"]))


class AcceptedTest(InputTestCase):
    def test_tensors(self):
        for of, cases in ACCEPTED.items():
            rep = identity(of)
            dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(of.upper()))
            for value, expected in cases:
                forms = [[value], (value,), {"X": value}]
                if not isinstance(value, (list, tuple)):
                    forms.append(value)
                for inputs in forms:
                    with self.subTest(of, inputs=repr(inputs)):
                        got = rep.run(inputs)[0]
                        np.testing.assert_array_equal(got, np.array(expected, dtype))
                        self.assertEqual((got.dtype, got.shape), (dtype, np.shape(expected)))

    def test_sequences(self):
        given = [X, X.astype(">f4"), X.T, np.float32(1), 2.5, [1, 2]]
        for inputs in ([given], [tuple(given)], {"X": given}):
            for one, expected in zip(identity("seq(float[])").run(inputs)[0], given, strict=True):
                np.testing.assert_array_equal(one, np.asarray(expected, np.float32))
        self.assertEqual(identity("seq(float[])").run([[]]), [[]])
        self.refused(identity("seq(float[])"), [None], "None", expected="seq(float32)")

    @needs_narrow_types
    def test_narrow_types(self):
        halves = tensors.to_ort_value(X.astype(BFLOAT16), TensorProto.BFLOAT16)
        np.testing.assert_array_equal(identity("bfloat16").run(halves)[0], X.astype(BFLOAT16))
        np.testing.assert_array_equal(cast("bfloat16").run([[1.0, float("inf")]])[0], [1, np.inf])
        self.refused(identity("float"), [halves], "OrtValue bfloat16[2, 3]")
        four_bits = helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT4E2M1)  # it has no infinity and no NaN
        self.assertEqual(values.as_array([0.5, -6.0], four_bits).tolist(), [0.5, -6.0])
        for too_large in (6.5, -100.0):
            with self.assertRaises(ValueError):
                values.as_array([0.5, too_large], four_bits)


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
TOO_DEEP = "a list that is nested too deeply"
DURATION = "a list that contains timedelta64[s][]"
# The types of inputs, with values that do not fit, and their descriptions.
REFUSED = {
    "float": [
        (np.float64(1), "float64[]"),
        (np.array([1, None]), "object[2]"),
        (None, "None"),
        ("1", "'1' (str)"),
        ({}, "a value of type dict"),
        (1j, "a value of type complex"),
        (10**400, "an integer of 1329 bits, which is out of range"),
        ([1.0, None], "a list that contains None"),
        ([np.array(["a"])], "a list that contains str32[]"),
        (["1e400"], "a list that contains '1e400' (str)"),
        ([1j], "a list that contains a value of type complex"),
        ([decimal.Decimal(1)], "a list that contains a value of type Decimal"),
        # numpy counts durations among the integers.
        ([1, SECONDS], DURATION),
        ([[1], [2, 3]], RAGGED),
        ([[1], 2], RAGGED),
        (ENDLESS, TOO_DEEP),
        (DOUBLED, TOO_DEEP),
    ],
    "double": [(Wrapped(), "float32[2, 3]"), ([b"-1e400"], "a list that contains b'-1e400' (bytes)")],
    "int64": [
        (1.5, "1.5 (float)"),
        ("1", "'1' (str)"),
        (np.uint64(1), "uint64[]"),
        (["7.0"], "a list that contains '7.0' (str)"),
        ([1, 2.5], "a list that contains 2.5 (float)"),
        ([np.array([2.5]), [1]], "a list that contains float64[]"),
        ([float("nan")], "a list that contains nan (float)"),
        ([SECONDS, 1.5], DURATION),
        ([np.array(["NaT"], "m8[s]")], DURATION),
    ],
    "bool": [([True, 0.5], "a list that contains 0.5 (float)"), (["1"], "a list that contains '1' (str)")],
    "string": [
        (1, "1 (int)"),
        (None, "None"),
        ({}, "a value of type dict"),
        (np.array([1]), "int64[1]"),
        (np.zeros(1, "i4,f4"), "void64[1]"),
        (np.array(["a", {}], object), "text that contains a value of type dict"),
        ([{1}], "text that contains a value of type set"),
        ([b"\xff"], "bytes that are not UTF-8 text"),
        ([[1], [2, 3]], RAGGED),
        ([[1], 2], RAGGED),
        ([["a"], Asked()], RAGGED),
        (ENDLESS, TOO_DEEP),
        (DOUBLED, TOO_DEEP),
    ],
    "seq(float[])": [
        (X, "float32[2, 3]"),
        ([X.astype(np.float64)], "a list that contains float64[2, 3]"),
        ([None], "a list that contains None"),
        (1 << 200, "an integer of 201 bits"),
    ],
    "seq(string[])": [(True, "True (bool)")],
    "optional(float[])": [(X.astype(np.float64), "float64[2, 3]")],
}
REFUSED["float"].append((ARRAYS, RAGGED))
# numpy 2.4 crashes if it converts such a list, which contains a list twice.
for twice in (range(2), (1, 2), ["a", "b"]):
    inner = ["a", twice]
    for value in ([inner, twice], [[inner, twice]], [inner, twice, ["a", twice]]):
        REFUSED["string"].append((value, RAGGED))
# Missing values of a table column, whose str() is not a value of the column.
for missing, got in (
    (None, "None"),
    (float("nan"), "nan (float)"),
    (np.datetime64("NaT"), "datetime64[]"),
    (decimal.Decimal("nan"), "a value of type Decimal"),
):
    REFUSED["string"].append((["a", missing], f"text that contains {got}"))
    REFUSED["string"].append((np.array(["a", missing], object), f"text that contains {got}"))
# ORT terminates the process if str() of an object fails.
for faulty in (Faulty("a"), Misleading(), Incomparable(), decimal.Decimal("snan")):
    got = f"text that contains a value of type {type(faulty).__name__}"
    for value in ([faulty], ["a", faulty], np.array([faulty], object), np.array(faulty, object)):
        REFUSED["string"].append((value, got))
# The types of inputs, with values that are out of range, and the number in their descriptions.
OUT_OF_RANGE = [
    ("int8", 128, "128"),
    ("uint8", [[-1]], "-1"),
    ("int64", [-1, 2**63], str(2**63)),
    ("uint64", [-1, 2**63], "-1"),
    ("int64", [2.0**63], str(2**63)),
    ("int64", [np.uint64(2**63)], str(2**63)),
    ("int64", ["7", str(2**63)], str(2**63)),
    ("bool", [1, 2], "2"),
    ("float", [1.0, 1e300], "1e+300"),
    ("float", [10**39], "1e+39"),
    ("float", [10**400], "an integer of 1329 bits"),
    ("float16", [float("inf"), -70000.0], "-70000.0"),
]
if NARROW:
    for of, value in (("bfloat16", 1e39), ("float8e4m3fn", 1e5), ("float8e5m2", -1e6), ("int4", 8), ("uint4", 16)):
        OUT_OF_RANGE.append((of, value, str(value)))
        OUT_OF_RANGE.append((of, [0, value], str(value)))
    REFUSED["int4"] = [(np.int8(1), "int8[]")]
    REFUSED["float"].append((np.array([1], BFLOAT16), "bfloat16[1]"))
for of, value, number in OUT_OF_RANGE:
    prefix = ""
    if isinstance(value, list):
        prefix = "a list that contains "
    REFUSED.setdefault(of, []).append((value, f"{prefix}{number}, which is out of range"))


class RefusedTest(InputTestCase):
    """Lists whose elements do not fit the type are refused before numpy makes an array of them."""

    def test_values(self):
        for of, cases in REFUSED.items():
            model = cast
            if of.endswith(")"):
                model = identity
            rep = model(of)
            for value, got in cases:
                for inputs in ([value], {"X": value}):
                    with self.subTest(of, inputs=reprlib.repr(inputs)):
                        error = self.refused(rep, inputs, got)
                        kind = InvalidArgument
                        if value is None:
                            kind = Fail
                        self.assertIsInstance(error, kind)

    @reads_linux
    def test_long_text_takes_no_memory(self):
        code = """if True:
            import resource
            import numpy as np
            from onnxruntime.backend.runs import values
            texts = ["A" * 200_000, *[""] * 2000]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            numbers = [texts[0], *[0] * 2000]
            arrays = [np.array([text]) for text in texts]
            for value in (texts, numbers, [[text] for text in texts], arrays):
                for dtype in (np.float32, np.int64, np.bool_):
                    try:
                        values.as_array(value, np.dtype(dtype))
                    except ValueError:
                        continue
                    raise AssertionError(dtype)
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        """
        self.assertLess(int(run_code(code).stdout), 64)


class MapsTest(InputTestCase):
    def test_maps_become_builtin_types(self):
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
            got = values.convert(value_type, fits)
            self.assertEqual(repr(got), repr(converted))  # tells builtin types from others
            with self.assertRaises(ValueError):
                values.convert(value_type, misfits)
        for number in (True, 2, 1 << 70, np.float16(1), np.bool_(True), decimal.Decimal("0.5")):  # as in stock
            got = values.convert("map(string,tensor(float))", {"a": number})
            self.assertEqual(got, {"a": float(number)})

    def test_a_map_with_a_wrong_value_keeps_its_references(self):
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


if __name__ == "__main__":
    unittest.main()
