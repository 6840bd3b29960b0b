# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Inputs as people pass them, every ONNX tensor type in and out, and models that are too new for this ORT."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import numpy as np
from backend_test_models import IR_VERSION, model, three_inputs, two_nodes
from onnx import ModelProto, TensorProto, TypeProto, helper, numpy_helper

import onnxruntime
from onnxruntime.backend import backend
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.runs.inputs import ModelInputs
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
# What ORT's CPU EP has a Cast for, beside the types that numpy has.
CAST = ("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "INT4", "UINT4")
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
# Since onnx 1.19 its arrays of the types that numpy lacks are of ml_dtypes.
NARROW = not tensors.numpy_has(BFLOAT16)
needs_narrow_types = unittest.skipUnless(NARROW, "needs onnx 1.19, whose arrays of these types are ml_dtypes")


def tensor(element: int, shape: list | None = None) -> TypeProto:
    return helper.make_tensor_type_proto(element, shape)


def one_node(op: str, takes: dict[str, TypeProto], gives: TypeProto, domain: str = "", **attributes) -> ModelProto:
    """A model of one node, whose output is ``Y``."""
    graph = helper.make_graph(
        [helper.make_node(op, list(takes), ["Y"], domain=domain, **attributes)],
        "test",
        [helper.make_value_info(name, of) for name, of in takes.items()],
        [helper.make_value_info("Y", gives)],
    )
    opsets = [helper.make_opsetid("", 21)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def prepare(proto: ModelProto) -> OnnxRuntimeBackendRep:
    """Prepare on the CPU EP, which every base has. Serialized, because onnx's checker wants all shapes declared."""
    return onnxruntime.backend.prepare(proto.SerializeToString(), provider_options={})


def identity(of: TypeProto) -> OnnxRuntimeBackendRep:
    return prepare(one_node("Identity", {"X": of}, of))


def cast(source: int, target: int) -> OnnxRuntimeBackendRep:
    return prepare(one_node("Cast", {"X": tensor(source)}, tensor(target), to=target))


@needs_narrow_types
class ElementTypesTest(unittest.TestCase):
    def check(self, got: np.ndarray, expected: np.ndarray) -> None:
        self.assertIs(type(got), np.ndarray)
        self.assertEqual(got.dtype, expected.dtype)
        self.assertEqual(got.shape, expected.shape)
        self.assertEqual(got.tobytes(), expected.tobytes())

    def test_in_and_out_of_a_model(self) -> None:
        numbers = np.array([[0, 1, 1], [0, 1, 0], [1, 1, 1]])
        for name in CAST:
            element = TensorProto.DataType.Value(name)
            array = numbers.astype(helper.tensor_dtype_to_np_dtype(element))
            for given in (array, array.T, array[::-1, ::2], array[0, 0], array[:0]):
                with self.subTest(name, shape=given.shape):
                    floats = cast(element, TensorProto.FLOAT).run([given])[0]
                    self.check(floats, given.astype(np.float32))
                    self.check(cast(TensorProto.FLOAT, element).run([floats])[0], np.array(given, order="C"))

    def test_numpy_types(self) -> None:
        for dtype in "?bhilBHILefd":
            dtype = np.dtype(dtype)  # noqa: PLW2901
            rep = identity(tensor(helper.np_dtype_to_tensor_dtype(dtype)))
            array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
            for given in (array, array.astype(dtype.newbyteorder()), array.T):
                with self.subTest(given.dtype.str, shape=given.shape):
                    self.check(rep.run([given])[0], given.astype(dtype, order="C"))

    def test_outputs_are_the_callers(self) -> None:
        for element in (TensorProto.BFLOAT16, TensorProto.INT4):
            rep = cast(TensorProto.FLOAT, element)
            first = rep.run([X])[0]
            kept = first.copy()
            rep.run([X * 2])
            self.check(first, kept)
            first[:] = 0

    def test_outputs_of_both_kinds(self) -> None:
        nodes = [
            helper.make_node("Cast", ["X"], ["H"], to=TensorProto.BFLOAT16),
            helper.make_node("Neg", ["X"], ["N"]),
            helper.make_node("Cast", ["N"], ["T"], to=TensorProto.STRING),
        ]
        proto = model(nodes, {"X": [2, 3]}, {"H": [2, 3], "N": [2, 3], "T": [2, 3]})
        proto.graph.output[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
        proto.graph.output[2].type.tensor_type.elem_type = TensorProto.STRING
        half, negative, text = prepare(proto).run([X])
        self.check(half, X.astype(BFLOAT16))
        self.check(negative, -X)
        self.assertEqual(text.tolist(), [["-1", "2", "-3"], ["4", "-5", "6"]])

    def test_what_ort_cannot_put_beside_them(self) -> None:
        rep = prepare(one_node("Cast", {"X": tensor(TensorProto.STRING)}, tensor(TensorProto.BFLOAT16), to=16))
        with self.assertRaisesRegex(RuntimeError, r"cannot pass object\[1\] to a model with outputs of element types"):
            rep.run([["1"]])


class ValuesTest(unittest.TestCase):
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
            (self.bool, True, np.bool_(True)),
            (self.bool, np.bool_(False), np.bool_(False)),
        ):
            self.check_scalar(rep, value, expected)

    @needs_narrow_types
    def test_scalars_of_narrow_types(self) -> None:
        rep = identity(tensor(TensorProto.BFLOAT16))
        for value in (1.5, BFLOAT16.type(1.5)):
            self.check_scalar(rep, value, BFLOAT16.type(1.5))

    def check_scalar(self, rep: OnnxRuntimeBackendRep, value: object, expected: np.generic) -> None:
        for inputs in (value, [value], (value,), {"X": value}):
            with self.subTest(value=repr(inputs)):
                got = rep.run(inputs)[0]
                self.assertEqual((got.shape, got.dtype, got[()]), ((), expected.dtype, expected))

    def test_lists(self) -> None:
        np.testing.assert_array_equal(self.float.run([[[1, 2.5], [3, 4]]])[0], np.array([[1, 2.5], [3, 4]], np.float32))
        np.testing.assert_array_equal(self.int64.run([(1, 2)])[0], np.array([1, 2]))
        self.assertEqual(self.float.run([[]])[0].shape, (0,))

    def test_what_does_not_fit_the_type(self) -> None:
        rep = {"int64": self.int64, "bool": self.bool, "float": self.float}
        rep |= {name.lower(): cast(TensorProto.DataType.Value(name), 1) for name in ("INT8", "UINT8")}
        for name, value in (
            ("float", np.float64(1)),
            ("float", np.array([1])),
            ("float", np.array(["1"])),
            ("float", np.array([1, None])),
            ("float", "1"),
            ("float", None),
            ("float", {}),
            ("float", [[1], [2, 3]]),
            ("float", 1j),
            ("int64", 1.0),
            ("int64", [1.5]),
            ("int64", 2**63),
            ("int64", np.uint64(1)),
            ("bool", 1),
            ("int8", 128),
            ("uint8", -1),
        ):
            self.check_misfit(rep[name], value)

    @needs_narrow_types
    def test_what_does_not_fit_a_narrow_type(self) -> None:
        int4, uint4 = cast(TensorProto.INT4, TensorProto.FLOAT), cast(TensorProto.UINT4, TensorProto.FLOAT)
        for rep, value in ((int4, 8), (uint4, [3, 16]), (int4, np.int8(1)), (self.float, np.array([1], BFLOAT16))):
            self.check_misfit(rep, value)

    def check_misfit(self, rep: OnnxRuntimeBackendRep, value: object) -> None:
        with self.subTest(value=repr(value)), self.assertRaisesRegex(RuntimeError, r"^input 'X' got .*X: tens"):
            rep.run([value])

    def test_any_layout(self) -> None:
        swapped = X.astype(">f4")
        unaligned = np.frombuffer(b"\0" + X.tobytes(), np.float32, offset=1).reshape(X.shape)
        frozen = X.copy()
        frozen.flags.writeable = False
        for value in (X.T, X[::-1], X[:, ::2], np.asfortranarray(X), swapped, swapped.T, unaligned, frozen):
            np.testing.assert_array_equal(self.float.run([value])[0], np.asarray(value, np.float32))

    def test_array_protocol(self) -> None:
        class Wrapped:
            def __array__(self, dtype=None, copy=None):
                return X

        np.testing.assert_array_equal(self.float.run([Wrapped()])[0], X)
        np.testing.assert_array_equal(self.float.run([memoryview(X)])[0], X)

    def test_strings(self) -> None:
        rep = identity(tensor(TensorProto.STRING))
        for value in (
            np.array(["a", "bé", ""], object),
            np.array(["a", "bé", ""]),
            # ORT crashes on this one.
            np.array(["a", "bé", ""]).astype(">U2"),
            np.array(["a", "bé".encode(), b""], object),
            np.array([b"a", "bé".encode(), b""]),
            ["a", "bé", ""],
            ["a", "bé".encode(), ""],
        ):
            with self.subTest(value=repr(value)):
                got = rep.run([value])[0]
                self.assertEqual((got.dtype, got.tolist()), (np.dtype(object), ["a", "bé", ""]))
        for value in ("a\0b", np.str_("a\0b"), np.array("a\0b", object), b"a\0b"):
            got = rep.run([value])[0]
            self.assertEqual((got.shape, got[()]), ((), "a\0b"))
        # ORT spells what stands among text, as a column of a table with missing values has it.
        for value in (["a", 1, 1.5, None], np.array(["a", np.int64(1), np.float32(1.5), None], object)):
            self.assertEqual(rep.run([value])[0].tolist(), ["a", "1", "1.5", "None"])
        for value in (1, np.array([1]), {}, None, [{}], np.array([{}]), [["a"], ["b", "c"]]):
            with self.subTest(value=repr(value)), self.assertRaisesRegex(RuntimeError, "input 'X' got"):
                rep.run([value])

    def test_sequences(self) -> None:
        rep = identity(helper.make_sequence_type_proto(tensor(TensorProto.FLOAT)))
        given = [X, X.astype(">f4"), X.T, np.float32(1), 2.5, [1, 2]]
        for inputs in ([given], [tuple(given)], {"X": given}):
            got = rep.run(inputs)[0]
            self.assertEqual(len(got), len(given))
            for one, expected in zip(got, given, strict=True):
                np.testing.assert_array_equal(one, np.asarray(expected, np.float32))
        self.assertEqual(rep.run([[]]), [[]])
        for wrong in (X, [X.astype(np.float64)], None, [None]):
            with self.assertRaisesRegex(RuntimeError, r"input 'X' got .*takes 1 input \(X: seq\(tensor\(float\)\)\)"):
                rep.run([wrong])

    def test_optionals(self) -> None:
        of = helper.make_optional_type_proto(tensor(TensorProto.FLOAT))
        rep = prepare(one_node("OptionalHasElement", {"X": of}, tensor(TensorProto.BOOL, [])))
        for inputs, expected in (([X], True), ([1.5], True), ([None], False), ([], False), ({}, False), (None, False)):
            self.assertEqual(rep.run(inputs)[0], expected)
        self.assertIsNone(identity(of).run([None])[0])
        np.testing.assert_array_equal(identity(of).run([X.astype(">f4")])[0], X)
        with self.assertRaisesRegex(RuntimeError, "input 'X' got float64"):
            rep.run([X.astype(np.float64)])

    def test_an_optional_that_is_left_out_is_not_missing(self) -> None:
        of = helper.make_optional_type_proto(tensor(TensorProto.FLOAT))
        graph = helper.make_graph(
            [helper.make_node("OptionalHasElement", ["O"], ["H"]), helper.make_node("Neg", ["X"], ["Y"])],
            "test",
            [helper.make_value_info("X", tensor(TensorProto.FLOAT, [2])), helper.make_value_info("O", of)],
            [helper.make_value_info("H", tensor(TensorProto.BOOL, [])), helper.make_value_info("Y", tensor(1, [2]))],
        )
        rep = prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
        for inputs in ([X[0, :2]], [X[0, :2], None], {"X": X[0, :2]}):
            has, negative = rep.run(inputs)
            self.assertFalse(has)
            np.testing.assert_array_equal(negative, -X[0, :2])
        # Nor is it blamed for what is wrong with another one.
        for inputs, wrong in (([X[0]], r"input 'X' got float32\[3\]"), ({"O": X[0]}, "input 'X' is missing")):
            with self.assertRaisesRegex(RuntimeError, f"^{wrong}; the model takes 2 inputs"):
                rep.run(inputs)

    def test_maps(self) -> None:
        of = helper.make_map_type_proto(TensorProto.INT64, tensor(TensorProto.FLOAT))
        rep = prepare(one_node("CastMap", {"X": of}, tensor(TensorProto.FLOAT), "ai.onnx.ml", map_form="DENSE"))
        for inputs in ({0: 1.5, 1: 2.0}, [{0: 1.5, 1: 2.0}]):
            np.testing.assert_array_equal(rep.run(inputs)[0], np.array([[1.5, 2]], np.float32))
        with self.assertRaisesRegex(RuntimeError, r"input 'X' got float32\[2, 3\]"):
            rep.run([X])

    def test_ort_values(self) -> None:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
        for inputs in (value, [value], {"X": value}):
            np.testing.assert_array_equal(self.float.run(inputs)[0], X)

    @needs_narrow_types
    def test_a_patched_run_with_ort_values_is_seen(self) -> None:
        rep, value = identity(tensor(TensorProto.BFLOAT16)), X.astype(BFLOAT16)
        for target in (onnxruntime.InferenceSession, rep._session):
            with mock.patch.object(target, "run_with_ort_values", return_value=[]):
                self.assertEqual(rep.run([value]), [])
        np.testing.assert_array_equal(rep.run([value])[0], value)

    @needs_narrow_types
    def test_ort_values_of_narrow_types(self) -> None:
        halves = tensors.to_ort_value(X.astype(BFLOAT16), TensorProto.BFLOAT16)
        np.testing.assert_array_equal(identity(tensor(TensorProto.BFLOAT16)).run(halves)[0], X.astype(BFLOAT16))
        with self.assertRaisesRegex(RuntimeError, r"got OrtValue tensor\(bfloat16\)\[2, 3\]; the model takes 1 input"):
            self.float.run([halves])


class InputsTest(unittest.TestCase):
    TAKES = r"; the model takes 3 inputs \(A: tensor\(float\)\[4\]; B: tensor\(float\)\[4\]; C: tensor\(float\)\[4\]\)$"

    def setUp(self) -> None:
        self.rep = prepare(three_inputs())
        self.a, self.b, self.c = (np.full(4, value, np.float32) for value in (1, 2, 5))

    def fails(self, rep: OnnxRuntimeBackendRep, inputs: object, message: str) -> None:
        with self.subTest(message), self.assertRaisesRegex(RuntimeError, message):
            rep.run(inputs)

    def test_right(self) -> None:
        a, b, c = self.a, self.b, self.c
        value = onnxruntime.OrtValue.ortvalue_from_numpy(b)
        for inputs in ([a, b, c], (a, b, c), {"C": c, "A": a, "B": b}, [a, value, c], [a, [2, 2, 2, 2], c]):
            np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)

    def test_wrong(self) -> None:
        a, b, c = self.a, self.b, self.c
        for inputs, message in (
            ([a, b], "^input 'C' is missing"),
            (a, "^input 'B' is missing, input 'C' is missing"),
            ([], "^input 'A' is missing, input 'B' is missing, input 'C' is missing"),
            ({"A": a, "C": c}, "^input 'B' is missing"),
            ({"A": a, "B": b, "C": c, "D": a}, "^got an input named 'D'"),
            ({"A": a, "B": b, 0: c}, "^got an input named 0"),
            ([a, b, c.astype(np.float64)], r"^input 'C' got float64\[4\]"),
            ([a, b, None], "^input 'C' got None"),
            ([a, b[None], c[:3]], r"^input 'B' got float32\[1, 4\], input 'C' got float32\[3\]"),
            ([a, b, onnxruntime.OrtValue.ortvalue_from_numpy(c[:3])], r"^input 'C' got OrtValue tensor\(float\)\[3\]"),
        ):
            self.fails(self.rep, inputs, message + self.TAKES)

    def test_surplus(self) -> None:
        a, b, c = self.a, self.b, self.c
        for inputs in ([a, b, c, a], (a, b, c, object(), None)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                np.testing.assert_array_equal(self.rep.run(inputs)[0], a + b - c)
            self.assertEqual([(warning.category, warning.filename) for warning in caught], [(RuntimeWarning, __file__)])
            self.assertRegex(
                str(caught[0].message), f"^got {len(inputs)} inputs, of which the first 3 are used{self.TAKES}"
            )

    def test_errors_are_of_the_class_that_ort_raises(self) -> None:
        a, b, c = self.a, self.b, self.c
        for inputs, kind in (
            ([a, b, c.astype(np.int64)], InvalidArgument),
            ([a, b, [[1], [2, 3]]], InvalidArgument),
            ([a, b, "text"], InvalidArgument),
            ([a, b, c[:3]], InvalidArgument),
            ([a, b, c[None]], InvalidArgument),
            ([a, b, None], Fail),
            ({"A": a, "B": b, "c": c}, Fail),
        ):
            with self.assertRaises(kind) as caught:
                self.rep.run(inputs)
            self.assertIsInstance(caught.exception, RuntimeError)
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((type(again), str(again)), (type(caught.exception), str(caught.exception)))

    def test_a_ragged_list_in_plain_words(self) -> None:
        for of in (TensorProto.FLOAT, TensorProto.STRING):
            self.fails(identity(tensor(of)), [[[1], [2, 3]]], "^input 'X' got lists of different lengths in one list; ")

    def test_names_of_a_model_are_printable(self) -> None:
        proto = model([helper.make_node("Neg", ["x\x1b[2J"], ["Y"])], {"x\x1b[2J": ["n\r", 2]}, {"Y": None})
        for inputs in ([X[0]], [None], [], {"x": X}):
            with self.assertRaises(RuntimeError) as caught:
                onnxruntime.backend.prepare(proto.SerializeToString(), provider_options={}).run(inputs)
            self.assertTrue(str(caught.exception).isprintable())
            self.assertIn(r"(x\x1b[2J: tensor(float)[n\r, 2])", str(caught.exception))

    def test_near_name(self) -> None:
        proto = model([helper.make_node("Neg", ["pixels"], ["Y"])], {"pixels": ["N", None]}, {"Y": None})
        takes = r"; the model takes 1 input \(pixels: tensor\(float\)\[N, \?\]\)$"
        self.fails(prepare(proto), {"pixel": X}, r"named 'pixel' \(did you mean 'pixels'\?\)" + takes)
        self.fails(prepare(proto), [X[0]], r"input 'pixels' got float32\[3\]" + takes)

    def test_errors_that_are_not_about_the_inputs_stay_as_they_are(self) -> None:
        rep = prepare(one_node("Add", {"A": tensor(1, ["N"]), "B": tensor(1, ["M"])}, tensor(1)))
        with self.assertRaisesRegex(Exception, "Non-zero status code returned while running Add") as caught:
            rep.run([self.a, self.b[:3]])
        self.assertEqual(type(caught.exception).__module__, "onnxruntime.capi.onnxruntime_pybind11_state")

    def test_overridable_initializer(self) -> None:
        proto = model([helper.make_node("Mul", ["X", "W"], ["Y"])], {"X": [2], "W": [2]}, {"Y": [2]}, {"W": X[0, :2]})
        rep = prepare(proto)
        np.testing.assert_array_equal(rep.run([X[1, :2]])[0], X[0, :2] * X[1, :2])
        np.testing.assert_array_equal(rep.run({"X": X[0, :2], "W": X[1, :2]})[0], X[0, :2] * X[1, :2])
        takes = r"takes 1 input \(X: tensor\(float\)\[2\]\), and lets be overridden \(W: tensor\(float\)\[2\]\)$"
        self.fails(rep, {"X": X[0, :2], "W": X[0]}, r"input 'W' got float32\[3\]; the model " + takes)
        message = "got 2 inputs, of which the first 1 are used; to override an initializer, pass a mapping by name; "
        with self.assertWarnsRegex(RuntimeWarning, message + "the model " + takes):
            np.testing.assert_array_equal(rep.run([X[1, :2], X[0, 1:]])[0], X[0, :2] * X[1, :2])

    def test_no_inputs(self) -> None:
        value = numpy_helper.from_array(X)
        rep = prepare(model([helper.make_node("Constant", [], ["Y"], value=value)], {}, {"Y": X.shape}))
        np.testing.assert_array_equal(rep.run([])[0], X)
        with self.assertWarnsRegex(
            RuntimeWarning, "^got 1 inputs, of which the first 0 are used; the model takes 0 inp"
        ):
            np.testing.assert_array_equal(rep.run([X])[0], X)

    def test_arrays_of_the_right_type_pass_untouched(self) -> None:
        inputs = ModelInputs(prepare(two_nodes()).session)
        for given in (X, X.T):
            self.assertIs(inputs.feeds([given])["X"], given)
        self.assertIsNot(inputs.feeds([X.astype(">f4")])["X"], X)


class VersionsTest(unittest.TestCase):
    """Models that are too new: a skip for ONNX's test runner where onnx says so, a plain error where ORT does."""

    def check_error(self, source: ModelProto | bytes, reason: str) -> None:
        for arguments in ({}, {"provider_options": {}}):
            with self.assertRaisesRegex(RuntimeError, reason) as caught:
                onnxruntime.backend.prepare(source, **arguments)
            self.assertIsInstance(caught.exception, Fail)  # what ORT raises

    def test_ir_version(self) -> None:
        proto = two_nodes()
        proto.ir_version = 99
        reason = f"model has IR version 99, and ONNX Runtime {onnxruntime.__version__} reads IR versions up to 1"
        self.assertRegex(OnnxRuntimeBackend.is_opset_supported(proto)[1], reason)
        with mock.patch.object(backend, "check_model"):  # onnx's checker refuses what onnx does not know
            self.check_error(proto, reason)
        serialized = proto.SerializeToString()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as file:
                file.write(serialized)
            for source in (path, serialized):
                self.check_error(source, reason)

    def test_unreleased_opset(self) -> None:
        proto = two_nodes()
        for domain, version in (("", 9999), ("ai.onnx.ml", 9999), ("ai.onnx.unheard.of", 1)):
            del proto.opset_import[1:]
            (proto.opset_import.add(domain=domain) if domain else proto.opset_import[0]).version = version
            reason = (
                f"imports {domain or 'ai.onnx'} opset {version}, which the installed onnx does not know as released"
            )
            self.assertRegex(OnnxRuntimeBackend.is_opset_supported(proto)[1], reason)
            with self.assertRaisesRegex(unittest.SkipTest, reason):
                onnxruntime.backend.prepare(proto)
            proto.opset_import[0].version = 21

    def test_opset_that_ort_does_not_support(self) -> None:
        proto = two_nodes()
        proto.opset_import[0].version = 9999
        reason = f"imports ai.onnx opset 9999, and ONNX Runtime {onnxruntime.__version__} supports opsets up to "
        self.check_error(proto.SerializeToString(), reason)
        # What onnx has released, ORT may not support yet: no skip, as the caller's own test would pass by unseen.
        proto.opset_import[0].version = max(
            version for domain, version in helper.OP_SET_ID_VERSION_MAP if domain == "ai.onnx"
        )
        self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
        with mock.patch.object(helper, "OP_SET_ID_VERSION_MAP", {("ai.onnx", 9999): IR_VERSION}):
            proto.opset_import[0].version = 9999
            self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
            self.check_error(proto, reason)

    def test_other_domains_are_not_held_against_a_model(self) -> None:
        proto = model([helper.make_node("Gelu", ["X"], ["Y"], domain="com.microsoft")], {"X": [2, 3]}, {"Y": [2, 3]})
        proto.opset_import.add(domain="com.microsoft", version=1)
        proto.opset_import.add(domain="example.org", version=9999)
        self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
        self.assertEqual(prepare(proto).run([X])[0].shape, X.shape)

    def test_unreleased_opsets_on_request(self) -> None:
        code = """if True:
            import unittest, onnxruntime.backend
            from backend_test_models import two_nodes
            model = two_nodes()
            model.opset_import[0].version = 9999
            try:
                onnxruntime.backend.prepare(model)
            except unittest.SkipTest:
                print("skipped")
            except Exception as error:
                print("tried:", error)
        """
        for value, printed in (
            ("0", "tried: .*No Op registered for Neg with domain_version of 9999"),
            ("1", "skipped"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "ALLOW_RELEASED_ONNX_OPSET_ONLY": value},
                cwd=os.path.dirname(__file__),
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertRegex(done.stdout, printed, done.stderr)


if __name__ == "__main__":
    unittest.main()
