# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the outputs of runs: every element type to ORT and back, and that each output is an array of its own."""

import ast
import pathlib
import pickle
import unittest
from collections.abc import Callable
from functools import partial
from unittest import mock

import _above
import numpy as np
from helpers.inputs import LIMITS, X
from helpers.models import BFLOAT16, NARROW, needs_narrow_types, on_cpu, parsed, same_array, two_nodes
from onnx import ModelProto, TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import locks, parts
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.runs import tensors
from onnxruntime.backend.session.state import state_of
from onnxruntime.capi import onnxruntime_inference_collection

W = np.full((2, 3), 7, np.float32)
HAS_OWNERS = hasattr(onnxruntime_inference_collection, "_validate_ortvalue_session_compatibility")
# The types that numpy does not have, and that ORT's CPU EP can cast.
CAST = ("bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "int4", "uint4")
NAMES = ("X", "W", "N", "M", "R", "I", "B")
EXPECTED = (X, W, -X, -X, X, X, X.astype(BFLOAT16))


def cast(source: str, target: str) -> OnnxRuntimeBackendRep:
    """Prepare a model that converts its input to another type."""
    to = TensorProto.DataType.Value(target.upper())
    return on_cpu(f"({source}[] X) => ({target}[] Y) {{ Y = Cast <to = {to}> (X) }}")


def sharing(narrow: bool) -> ModelProto:
    """Return a model whose outputs can share memory: an input, an initializer, and copies of another output.

    :param narrow: whether the model also has an output of bfloat16, which a run returns as an ``OrtValue``.
    """
    more = ", bfloat16[2, 3] B", "B = Cast <to = 16> (X)"
    also, cast_too = more if narrow else ("", "")
    return parsed(f"""(float[2, 3] X) => ({", ".join(f"float[2, 3] {name}" for name in NAMES[:-1])}{also})
    <float[2, 3] W = {{7, 7, 7, 7, 7, 7}}, int64[2] shape = {{2, 3}}, bool yes = {{1}}> {{
        N = Neg (X)
        M = Identity (N)
        R = Reshape (X, shape)
        I = If (yes) <then_branch = a () => (float[2, 3] i) {{ i = Identity (X) }},
                      else_branch = b () => (float[2, 3] j) {{ j = Identity (W) }}>
        {cast_too}
    }}""")


class ElementTypesTest(unittest.TestCase):
    @needs_narrow_types
    def test_every_type_to_ort_and_back(self):
        tried = set()
        for name, element in TensorProto.DataType.items():
            # ORT has no complex tensors, its Python API cannot convert text, and float6 is newer than this ORT.
            if name in ("UNDEFINED", "STRING") or name.startswith(("COMPLEX", "FLOAT6")):
                continue
            dtype = helper.tensor_dtype_to_np_dtype(element)
            for shape in ((), (0,), (1,), (3,), (2, 3), (3, 3, 3)):
                with self.subTest(name, shape=shape):
                    array = np.asarray(np.arange(np.prod(shape)).reshape(shape) % 2).astype(dtype)
                    try:
                        value = tensors.to_ort_value(array, element)
                    except RuntimeError as error:
                        # No release before 1.25 has this type.
                        self.assertEqual((name, str(error)), ("FLOAT8E8M0", "tensor type 24 is not supported"))
                        continue
                    tried.add(name)
                    self.assertEqual(value.element_type(), element)
                    self.assertEqual(value.data_type(), f"tensor({name.lower()})")
                    same_array(tensors.to_array(value), array)
                    same_array(tensors.to_array(tensors.to_ort_value(array.T, element)), array.T)
        self.assertGreaterEqual(len(tried), 21)

    @needs_narrow_types
    def test_in_and_out_of_a_model(self):
        numbers = np.array([[0, 1, 1], [0, 1, 0], [1, 1, 1]])
        for name in CAST:
            array = numbers.astype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name.upper())))
            for given in (array, array.T, array[::-1, ::2], array[0, 0], array[:0]):
                with self.subTest(name, shape=given.shape):
                    floats = cast(name, "float").run([given])[0]
                    same_array(floats, given.astype(np.float32))
                    same_array(cast("float", name).run([floats])[0], np.array(given, order="C"))

    def test_numpy_types(self):
        """An unpickled array has a dtype that equals numpy's own, and is another object."""
        for dtype in map(np.dtype, "?bhilBHILefd"):
            name = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype)).lower()
            rep = cast(name, name)
            array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
            for given in (array, array.astype(dtype.newbyteorder()), array.T, pickle.loads(pickle.dumps(array))):
                with self.subTest(given.dtype.str, shape=given.shape):
                    same_array(rep.run([given])[0], given.astype(dtype, order="C"))

    def test_a_type_of_a_later_release(self):
        self.assertTrue(tensors.numpy_has_types("tensor(of_a_later_release)"))
        self.assertIsNone(tensors.number_dtype("tensor(of_a_later_release)"))
        self.assertEqual(tensors.readable("seq(tensor(of_a_later_release))"), "seq(tensor(of_a_later_release))")

    @needs_narrow_types
    def test_outputs_of_both_kinds(self):
        rep = on_cpu("""(float[2, 3] X) => (int4[2, 3] I, float[2, 3] N, string[2, 3] T) {
            I = Cast <to = 22> (X)
            N = Neg (X)
            T = Cast <to = 8> (N)
        }""")
        four_bits, negative, text = rep.run([X])
        same_array(four_bits, X.astype(helper.tensor_dtype_to_np_dtype(TensorProto.INT4)))
        same_array(negative, -X)
        self.assertEqual(text.tolist(), [["-1", "2", "-3"], ["4", "-5", "6"]])

    @needs_narrow_types
    def test_a_patched_run_with_ort_values_is_seen(self):
        rep, value = cast("bfloat16", "bfloat16"), X.astype(BFLOAT16)
        for target in (onnxruntime.InferenceSession, rep._session):
            with mock.patch.object(target, "run_with_ort_values", return_value=[]):
                self.assertEqual(rep.run([value]), [])
        np.testing.assert_array_equal(rep.run([value])[0], value)

    def test_views_are_copied(self):
        """ORT 1.24 returns views of a caller's arrays."""
        own = np.arange(6)
        same, first, nothing, (second,) = tensors.owned([own, own[1:], None, [own[2:]]])
        self.assertTrue(same is own and nothing is None)
        for output, expected in ((first, own[1:]), (second, own[2:])):
            np.testing.assert_array_equal(output, expected)
            self.assertTrue(output.flags.owndata)

    def test_an_output_that_is_an_input_is_copied(self):
        rep = on_cpu("(float[2, 3] X) => (float[2, 3] N, float[2, 3] X) { N = Neg (X) }")
        views = (-X[:], X[:])
        with mock.patch.object(rep.session, "run", return_value=views):
            first, second = rep.run([X])
        self.assertIs(first, views[0])
        np.testing.assert_array_equal(second, X)
        self.assertFalse(np.shares_memory(second, X))

    def test_only_one_function_calls_numpy(self):
        """``tensors.to_array`` copies. ``OrtValue.numpy`` returns a view of memory that nothing keeps alive."""
        folder = pathlib.Path(onnxruntime.backend.__file__).parent
        calling = {
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute) and node.attr == "numpy"
        }
        self.assertEqual(calling, {"runs/tensors.py"})


class OwnedOutputsTest(unittest.TestCase):
    def check(self, run: Callable[[object], list], given: Callable[[], object]) -> None:
        """Run twice, write to every output, and run again: nothing but that output may change."""

        def look(value: object) -> np.ndarray:
            value = value["X"] if isinstance(value, dict) else value[0] if isinstance(value, list) else value
            return value.numpy() if isinstance(value, onnxruntime.OrtValue) else np.asarray(value)

        inputs = given()
        first = run(inputs)
        for name, output, right in zip(NAMES, first, EXPECTED, strict=False):
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
        for output, right in zip(run(given()), EXPECTED, strict=False):
            np.testing.assert_array_equal(output, right)  # nor an initializer
        # An output stays as it is after its inputs are gone.
        kept = run(given())
        for value in range(20):
            run([np.full((2, 3), value, np.float32)])
        for output, right in zip(kept, EXPECTED, strict=False):
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

    def test_every_route(self):
        for narrow in (False, True) if NARROW else (False,):
            rep = on_cpu(sharing(narrow))
            for limits in LIMITS:
                self.check_every_input(partial(rep.run, **limits))

    def test_under_a_lock(self):
        for narrow in (False, True) if NARROW else (False,):
            with mock.patch.object(parts, "for_session", return_value=[locks.LockPart()]):
                locked = on_cpu(sharing(narrow))
                locked._current_plan()
                self.assertIs(state_of(locked.session).owned.lock, locks.GPU)
                self.check_every_input(locked.run)

    def test_sequences_and_optionals(self):
        """An output that is an input, of types that are not tensors."""
        for kind in ("seq", "optional"):
            rep = on_cpu(f"({kind}(float[2, 3]) X) => ({kind}(float[2, 3]) X) {{ }}")
            for limits in LIMITS:
                arrays = [X.copy(), X.copy()] if kind == "seq" else [X.copy()]
                (output,) = rep.run([arrays] if kind == "seq" else arrays, **limits)
                for array, own in zip(arrays, output if kind == "seq" else [output], strict=True):
                    np.testing.assert_array_equal(own, X)
                    own[...] = 0
                    np.testing.assert_array_equal(array, X)

    def test_an_initializer_that_a_caller_overrides(self):
        graph = "(float[2, 3] X, float[2, 3] W) => (float[2, 3] Y, float[2, 3] W) { Y = Mul (X, W) }"
        rep = on_cpu(parsed(graph, W=W))
        given = X.copy()
        _, returned = rep.run({"X": X, "W": given})
        returned[...] = 0
        np.testing.assert_array_equal(given, X)
        for _ in range(2):
            _, returned = rep.run([X])
            np.testing.assert_array_equal(returned, W)
            returned[...] = 0

    @unittest.skipUnless(HAS_OWNERS, "requires a release whose OrtValues can belong to a session")
    def test_a_value_of_another_session(self):
        for made in (two_nodes(), *([sharing(True)] if NARROW else [])):
            rep, other = (on_cpu(made) for _ in range(2))
            value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
            value._session = rep.session._sess
            rep.run([value])
            value._session = other.session._sess
            with self.assertRaises(ValueError):
                rep.run([value])

    @needs_narrow_types
    def test_subclass_of_inference_session(self):
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
