# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Checks the conversion of every ONNX element type from numpy to an ``OrtValue`` and back."""

from __future__ import annotations

import ast
import pathlib
import unittest

import numpy as np
from backend_test_models import same_array
from onnx import TensorProto, helper

import onnxruntime.backend
from onnxruntime import OrtValue
from onnxruntime.backend.runs import tensors


@unittest.skipIf(
    helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16) == np.dtype(np.float32),
    "needs onnx 1.19, whose arrays of the types that numpy lacks are ml_dtypes",
)
class ElementTypesTest(unittest.TestCase):
    def test_every_type_to_ort_and_back(self) -> None:
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


class OtherTypesTest(unittest.TestCase):
    def test_a_type_of_a_later_release(self) -> None:
        self.assertTrue(tensors.is_plain("tensor(of_a_later_release)"))
        self.assertIsNone(tensors.number_dtype("tensor(of_a_later_release)"))
        self.assertEqual(tensors.readable("seq(tensor(of_a_later_release))"), "seq(tensor(of_a_later_release))")


class OwnMemoryTest(unittest.TestCase):
    def test_an_array_owns_its_memory(self) -> None:
        own = np.arange(6)
        array = tensors.to_array(OrtValue.ortvalue_from_numpy(own))
        np.testing.assert_array_equal(array, own)
        self.assertTrue(array.flags.owndata)
        self.assertFalse(np.shares_memory(array, own))
        outputs = tensors.owned([own, own[1:], None, [own[2:]]])
        self.assertIs(outputs[0], own)
        self.assertIsNone(outputs[2])
        for output, expected in ((outputs[1], own[1:]), (outputs[3][0], own[2:])):
            np.testing.assert_array_equal(output, expected)
            self.assertTrue(output.flags.owndata)

    def test_no_other_function_calls_numpy(self) -> None:
        folder = pathlib.Path(onnxruntime.backend.__file__).parent
        calling = set()
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy":
                    calling.add(path.relative_to(folder).as_posix())
        self.assertEqual(calling, {"runs/tensors.py"})


if __name__ == "__main__":
    unittest.main()
