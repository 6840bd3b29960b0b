# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks that every output is an array that owns its memory, whichever way a run takes."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from unittest import mock

import numpy as np
from backend_test_models import model
from onnx import ModelProto, TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import backend_rep
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.capture import locks
from onnxruntime.backend.runs import tensors

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
W = np.full((2, 3), 7, np.float32)
NARROW = not tensors.numpy_has(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))
NAMES = ("X", "W", "N", "M", "R", "I")


def sharing(narrow: bool) -> ModelProto:
    """Return a model whose outputs can share memory: an input, an initializer, and copies of another output.

    :param narrow: whether the model also has an output of bfloat16, which a run returns as an ``OrtValue``.
    """
    nodes = [
        helper.make_node("Neg", ["X"], ["N"]),
        helper.make_node("Identity", ["N"], ["M"]),
        helper.make_node("Reshape", ["X", "shape"], ["R"]),
        helper.make_node("If", ["yes"], ["I"], then_branch=_outer("X"), else_branch=_outer("W")),
    ]
    constants = {"W": W, "shape": np.array([2, 3]), "yes": np.array(True)}
    outputs = dict.fromkeys(NAMES, (2, 3))
    if narrow:
        nodes.append(helper.make_node("Cast", ["X"], ["B"], to=TensorProto.BFLOAT16))
        outputs["B"] = (2, 3)
    proto = model(nodes, {"X": (2, 3)}, outputs, constants)
    if narrow:
        proto.graph.output[-1].type.tensor_type.elem_type = TensorProto.BFLOAT16
    return proto


def _outer(name: str):
    """Return a graph whose only output is a value of the outer graph."""
    output = helper.make_tensor_value_info("i", TensorProto.FLOAT, (2, 3))
    return helper.make_graph([helper.make_node("Identity", [name], ["i"])], "branch", [], [output])


class OwnedOutputsTest(unittest.TestCase):
    def check(self, run: Callable[[object], list], given: Callable[[], object], look: Callable[[object], np.ndarray]):
        """Run twice, write to every output, and run again: nothing but that output may change."""
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
        for given, look in (
            (lambda: [X.copy()], lambda inputs: inputs[0]),
            (lambda: {"X": X.copy()}, lambda inputs: inputs["X"]),
            (lambda: [np.asfortranarray(X)], lambda inputs: inputs[0]),
            (lambda: [X.tolist()], lambda inputs: np.array(inputs[0], np.float32)),
            (lambda: [onnxruntime.OrtValue.ortvalue_from_numpy(X.copy())], lambda inputs: inputs[0].numpy()),
        ):
            with self.subTest(inputs=repr(given())):
                self.check(run, given, look)

    def prepared(self, narrow: bool) -> OnnxRuntimeBackendRep:
        return onnxruntime.backend.prepare(sharing(narrow).SerializeToString(), provider_options={})

    def check_routes(self, narrow: bool) -> None:
        self.check_every_input(self.prepared(narrow).run)
        limited = self.prepared(narrow)
        self.check_every_input(lambda inputs: limited.run(inputs, timeout=60))
        with (
            mock.patch.object(backend_rep, "ON_ANY_DEVICE", frozenset()),
            mock.patch.object(locks, "of", return_value=locks.CUDA),
        ):
            locked = self.prepared(narrow)
            self.assertIs(locked._lock, locks.CUDA)
            self.check_every_input(locked.run)

    def test_outputs_of_numpy_types(self) -> None:
        self.check_routes(narrow=False)

    @unittest.skipUnless(NARROW, "needs onnx 1.19, whose arrays of bfloat16 are ml_dtypes")
    def test_outputs_beside_one_that_numpy_has_no_type_for(self) -> None:
        self.check_routes(narrow=True)

    @unittest.skipUnless(NARROW, "needs onnx 1.19, whose arrays of bfloat16 are ml_dtypes")
    def test_subclass_of_inference_session(self) -> None:
        class Session(onnxruntime.InferenceSession):
            pass

        session = Session(sharing(True).SerializeToString(), providers=["CPUExecutionProvider"])
        self.check_every_input(onnxruntime.backend.prepare(session).run)


if __name__ == "__main__":
    unittest.main()
