# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the outputs of runs: every tensor type, and that each output is an array that owns its memory."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from unittest import mock

import backend_test_models as models
import numpy as np
from backend_test_models import model, parsed, same_array, two_nodes
from onnx import ModelProto, TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.runs import locks, tensors
from onnxruntime.backend.session import state
from onnxruntime.capi import onnxruntime_inference_collection

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
W = np.full((2, 3), 7, np.float32)
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
# From onnx 1.19, arrays of the types that numpy does not have are of ml_dtypes.
needs_narrow_types = unittest.skipIf(
    tensors.numpy_has(BFLOAT16), "needs onnx 1.19, whose arrays of these types are ml_dtypes"
)
HAS_OWNERS = hasattr(onnxruntime_inference_collection, "_validate_ortvalue_session_compatibility")
# The types that numpy does not have, and that ORT's CPU EP can cast.
CAST = ("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "INT4", "UINT4")
NAMES = ("X", "W", "N", "M", "R", "I")


def cast(source: int, target: int) -> OnnxRuntimeBackendRep:
    """Prepare a model that converts its input to another type, or returns it."""
    made = models.identity(models.tensor(source)) if source == target else models.cast(source, target)
    return onnxruntime.backend.prepare(made, provider_options={})


def sharing(narrow: bool) -> ModelProto:
    """Return a model whose outputs can share memory: an input, an initializer, and copies of another output.

    :param narrow: whether the model also has an output of bfloat16, which a run returns as an ``OrtValue``.
    """
    more = ", bfloat16[2, 3] B", "B = Cast <to = 16> (X)"
    also, cast_too = more if narrow else ("", "")
    return parsed(f"""(float[2, 3] X) => ({", ".join(f"float[2, 3] {name}" for name in NAMES)}{also})
    <float[2, 3] W = {{7, 7, 7, 7, 7, 7}}, int64[2] shape = {{2, 3}}, bool yes = {{1}}> {{
        N = Neg (X)
        M = Identity (N)
        R = Reshape (X, shape)
        I = If (yes) <then_branch = a () => (float[2, 3] i) {{ i = Identity (X) }},
                      else_branch = b () => (float[2, 3] j) {{ j = Identity (W) }}>
        {cast_too}
    }}""")


@needs_narrow_types
class ElementTypesTest(unittest.TestCase):
    def test_in_and_out_of_a_model(self) -> None:
        numbers = np.array([[0, 1, 1], [0, 1, 0], [1, 1, 1]])
        for name in CAST:
            element = TensorProto.DataType.Value(name)
            array = numbers.astype(helper.tensor_dtype_to_np_dtype(element))
            for given in (array, array.T, array[::-1, ::2], array[0, 0], array[:0]):
                with self.subTest(name, shape=given.shape):
                    floats = cast(element, TensorProto.FLOAT).run([given])[0]
                    same_array(floats, given.astype(np.float32))
                    same_array(cast(TensorProto.FLOAT, element).run([floats])[0], np.array(given, order="C"))

    def test_numpy_types(self) -> None:
        for dtype in "?bhilBHILefd":
            dtype = np.dtype(dtype)  # noqa: PLW2901
            element = helper.np_dtype_to_tensor_dtype(dtype)
            rep = cast(element, element)
            array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
            for given in (array, array.astype(dtype.newbyteorder()), array.T):
                with self.subTest(given.dtype.str, shape=given.shape):
                    same_array(rep.run([given])[0], given.astype(dtype, order="C"))

    def test_outputs_of_narrow_types_are_the_callers(self) -> None:
        for element in (TensorProto.BFLOAT16, TensorProto.INT4):
            rep = cast(TensorProto.FLOAT, element)
            first = rep.run([X])[0]
            kept = first.copy()
            rep.run([X * 2])
            same_array(first, kept)
            first[:] = 0

    def test_outputs_of_both_kinds(self) -> None:
        proto = parsed("""(float[2, 3] X) => (bfloat16[2, 3] H, float[2, 3] N, string[2, 3] T) {
            H = Cast <to = 16> (X)
            N = Neg (X)
            T = Cast <to = 8> (N)
        }""")
        half, negative, text = onnxruntime.backend.prepare(proto.SerializeToString(), provider_options={}).run([X])
        same_array(half, X.astype(BFLOAT16))
        same_array(negative, -X)
        self.assertEqual(text.tolist(), [["-1", "2", "-3"], ["4", "-5", "6"]])

    def test_text_cannot_be_passed_beside_them(self) -> None:
        rep = cast(TensorProto.STRING, TensorProto.BFLOAT16)
        with self.assertRaises(RuntimeError):
            rep.run([["1"]])

    def test_a_patched_run_with_ort_values_is_seen(self) -> None:
        rep, value = cast(TensorProto.BFLOAT16, TensorProto.BFLOAT16), X.astype(BFLOAT16)
        for target in (onnxruntime.InferenceSession, rep._session):
            with mock.patch.object(target, "run_with_ort_values", return_value=[]):
                self.assertEqual(rep.run([value]), [])
        np.testing.assert_array_equal(rep.run([value])[0], value)


class OwnedOutputsTest(unittest.TestCase):
    def check(self, run: Callable[[object], list], given: Callable[[], object]) -> None:
        """Run twice, write to every output, and run again: nothing but that output may change."""

        def look(value: object) -> np.ndarray:
            value = value["X"] if isinstance(value, dict) else value[0] if isinstance(value, list) else value
            return value.numpy() if isinstance(value, onnxruntime.OrtValue) else np.asarray(value)

        expected = [X, W, -X, -X, X, X]
        inputs = given()
        first = run(inputs)
        for name, output, right in zip(NAMES, first, expected, strict=False):
            self.assertIs(type(output), np.ndarray)
            np.testing.assert_array_equal(output, right, name)
            self.assertTrue(output.flags.writeable)
            self.assertFalse(np.shares_memory(output, look(inputs)), name)
        second = run(inputs)
        both = [*first, *second]
        for i, one in enumerate(both):
            self.assertFalse(any(np.shares_memory(one, other) for other in both[:i]))
            before = [array.tobytes() for array in both[i + 1 :]]
            one[...] = 99
            self.assertEqual([array.tobytes() for array in both[i + 1 :]], before)
        np.testing.assert_array_equal(look(inputs), X)  # writing changed neither the input
        for output, right in zip(run(given()), expected, strict=False):
            np.testing.assert_array_equal(output, right)  # nor an initializer
        # An output stays as it is after its inputs are gone.
        kept = run(given())
        for value in range(20):
            run([np.full((2, 3), value, np.float32)])
        for output, right in zip(kept, expected, strict=False):
            np.testing.assert_array_equal(output, right)

    def check_every_input(self, run: Callable[[object], list]) -> None:
        for given in (
            X.copy,
            lambda: {"X": X.copy()},
            lambda: np.asfortranarray(X),
            lambda: [X.tolist()],
            lambda: onnxruntime.OrtValue.ortvalue_from_numpy(X.copy()),
        ):
            with self.subTest(inputs=repr(given())):
                self.check(run, given)

    def prepared(self, narrow: bool) -> OnnxRuntimeBackendRep:
        return onnxruntime.backend.prepare(sharing(narrow).SerializeToString(), provider_options={})

    def check_routes(self, narrow: bool) -> None:
        self.check_every_input(self.prepared(narrow).run)
        limited = self.prepared(narrow)
        self.check_every_input(lambda inputs: limited.run(inputs, timeout=60))
        with (
            mock.patch.object(state, "ON_ANY_DEVICE", frozenset()),
            mock.patch.object(locks, "of", return_value=locks.CUDA),
        ):
            locked = self.prepared(narrow)
            self.assertIs(locked._ready().lock, locks.CUDA)
            self.check_every_input(locked.run)

    def test_outputs_of_numpy_types(self) -> None:
        self.check_routes(narrow=False)

    @needs_narrow_types
    def test_outputs_beside_one_that_numpy_has_no_type_for(self) -> None:
        self.check_routes(narrow=True)

    def test_sequences_and_optionals(self) -> None:
        """An output that is an input, of types that are not tensors."""
        tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3))
        for kind, given in (
            (helper.make_sequence_type_proto(tensor), lambda: [X.copy(), X.copy()]),
            (helper.make_optional_type_proto(tensor), X.copy),
        ):
            proto = model([], {}, {})
            for values in (proto.graph.input, proto.graph.output):
                values.append(helper.make_value_info("X", kind))
            rep = onnxruntime.backend.prepare(proto.SerializeToString(), provider_options={})
            for limits in ({}, {"timeout": 60}):
                inputs = given()
                (output,) = rep.run([inputs], **limits)
                arrays, outputs = (inputs, output) if isinstance(inputs, list) else ([inputs], [output])
                self.assertEqual(len(outputs), len(arrays))
                for array, own in zip(arrays, outputs, strict=True):
                    np.testing.assert_array_equal(own, X)
                    own[...] = 0
                    np.testing.assert_array_equal(array, X)

    def test_an_initializer_that_a_caller_overrides(self) -> None:
        nodes = [helper.make_node("Mul", ["X", "W"], ["Y"])]
        proto = model(nodes, {"X": (2, 3), "W": (2, 3)}, {"Y": (2, 3), "W": (2, 3)}, {"W": W})
        rep = onnxruntime.backend.prepare(proto.SerializeToString(), provider_options={})
        given = X.copy()
        _, returned = rep.run({"X": X, "W": given})
        returned[...] = 0
        np.testing.assert_array_equal(given, X)
        for _ in range(2):
            _, returned = rep.run([X])
            np.testing.assert_array_equal(returned, W)
            returned[...] = 0

    @unittest.skipUnless(HAS_OWNERS, "requires a release whose OrtValues can belong to a session")
    def test_a_value_of_another_session(self) -> None:
        for made in (two_nodes(), *(() if tensors.numpy_has(BFLOAT16) else (sharing(True),))):
            rep, other = (onnxruntime.backend.prepare(made.SerializeToString(), provider_options={}) for _ in range(2))
            value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
            value._session = rep.session._sess
            rep.run([value])
            value._session = other.session._sess
            with self.assertRaises(ValueError):
                rep.run([value])

    @needs_narrow_types
    def test_subclass_of_inference_session(self) -> None:
        class Session(onnxruntime.InferenceSession):
            calls = 0

            def run_with_ort_values(self, *arguments: object) -> list:
                self.calls += 1
                return super().run_with_ort_values(*arguments)

        session = Session(sharing(True).SerializeToString(), providers=["CPUExecutionProvider"])
        self.check_every_input(onnxruntime.backend.prepare(session).run)
        self.assertGreater(session.calls, 0)


if __name__ == "__main__":
    unittest.main()
