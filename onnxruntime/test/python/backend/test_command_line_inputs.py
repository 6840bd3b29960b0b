# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The inputs of the ``run`` command: random values, values from arguments and files, and shapes."""

from __future__ import annotations

import os
import tracemalloc
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.command_line import CommandTest
from helpers.models import identity, tensor, three_inputs, two_nodes
from onnx import TensorProto, helper

import onnxruntime
from onnxruntime.backend.command_line import inputs
from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.runs.errors import InputError

# ORT's names of types that have another name in numpy.
KINDS = {"float32": "float", "float64": "double"}


class InputsTest(CommandTest):
    def test_random_inputs_of_every_type(self):
        for element in (
            TensorProto.FLOAT16,
            TensorProto.DOUBLE,
            TensorProto.BFLOAT16,
            TensorProto.INT8,
            TensorProto.UINT64,
            TensorProto.BOOL,
            TensorProto.STRING,
            TensorProto.FLOAT8E4M3FN,
        ):
            dtype = helper.tensor_dtype_to_np_dtype(element)
            with self.subTest(TensorProto.DataType.Name(element)):
                if dtype == np.float32:
                    self.skipTest("needs onnx 1.19, whose arrays of the types that numpy lacks are ml_dtypes")
                path = self.put("identity.onnx", identity(tensor(element, [64])))
                (output,) = self.run_one(path)["outputs"]
                name = "string" if element == TensorProto.STRING else dtype.name
                self.assertEqual((output["type"], output["shape"]), (name, [64]))
                if dtype.kind in "iub":
                    (values,) = inputs.values(onnxruntime.InferenceSession(path).get_inputs(), [], [])
                    self.assertEqual({*values.tolist()}, {0, 1})

    def test_random_inputs_are_the_same_every_time(self):
        nodes = onnxruntime.InferenceSession(three_inputs().SerializeToString()).get_inputs()
        first, second = (inputs.values(nodes, [], []) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        self.assertFalse(np.array_equal(first[0], first[1]))
        self.assertTrue(all(((value > 0) & (value < 1)).all() for value in first))

    def test_scalars_and_texts(self):
        nodes = [SimpleNamespace(name="X", type="tensor(string)", shape=[])]
        for shapes in ([], ["X="]):
            (value,) = inputs.values(nodes, [], shapes)
            self.assertEqual((value.shape, value.item()), ((), "text"))

    def test_memory_of_random_inputs(self):
        for name in ("float32", "float64", "int64"):
            size = 1 << 21
            nodes = [SimpleNamespace(name="X", type=f"tensor({KINDS.get(name, name)})", shape=[size])]
            with self.subTest(name):
                tracemalloc.start()
                (value,) = inputs.values(nodes, [], [])
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                self.assertEqual(value.dtype.name, name)
                self.assertLess(peak, 1.5 * value.nbytes)

    def test_random_inputs_without_memory(self):
        node = SimpleNamespace(name="X", type="tensor(float)", shape=["batch", 3, 32, 32])
        expected = "--shape X: random values with 12,288,000,000 bytes do not fit into memory"
        too_small = mock.patch.object(os, "sysconf", return_value=1000, create=True)
        not_available = mock.patch.object(os, "sysconf", side_effect=ValueError, create=True)
        no_memory = mock.Mock()
        no_memory.random.side_effect = MemoryError
        numpy = mock.patch.object(np.random, "default_rng", return_value=no_memory)
        for system, calls in ((too_small, 0), (not_available, 1)):
            with system, numpy, self.assertRaises(MistakeError) as raised:
                inputs.values([node], [], ["X=1000000x3x32x32"])
            self.assertEqual(str(raised.exception), expected)
            self.assertEqual(no_memory.random.call_count, calls)

    def test_keys_of_maps(self):
        for keys, expected in (("int64", [{1: 2, -3: 4}]), ("string", [{"1": 2, "-3": 4}])):
            node = SimpleNamespace(name="X", type=f"seq(map({keys},tensor(float)))", shape=[])
            self.assertEqual(inputs.values([node], ['X=[{"1": 2, "-3": 4}]'], []), [expected])
        with self.assertRaisesRegex(InputError, "'a'"):
            inputs.values([SimpleNamespace(name="X", type="map(int64,tensor(float))", shape=[])], ['X={"a": 1}'], [])

    def test_a_value_that_is_not_an_array(self):
        node = SimpleNamespace(name="z")
        self.assertEqual(inputs.described(node, [1]), {"name": "z", "type": "list", "shape": None})

    def test_free_shapes(self):
        path = self.put("open.onnx", two_nodes((None, 3)))
        self.assertIn(
            "(X: float32[?, 3]). Specify their shapes, for example --shape X=1x3\n", self.mistake("run", path)
        )
        free = self.put("free.onnx", two_nodes((None, None)))
        # Too much memory, too many items, and too many digits.
        for shape in (f"{10**10}x{10**7}", f"{10**10}x{10**10}", f"{10**11}x0"):
            self.assertIn("--shape X: ", self.mistake("run", free, "--shape", f"X={shape}"))
        self.assertEqual(self.run_one(path, "--shape", "X=5x3")["outputs"][0]["shape"], [5, 3])
        self.assertEqual(self.run_one(path, "--shape", "X=0x3")["outputs"][0]["shape"], [0, 3])
        np.save(self.folder / "x.npy", np.zeros((7, 3), np.float32))
        told = self.run_one(path, "--input", f"X={self.folder}/x.npy")
        self.assertEqual(told["outputs"][0]["shape"], [7, 3])

    def test_sizes_of_open_dimensions(self):
        shapes = {"A": ["batch", None, 3, "width"], "B": ["width", None]}
        nodes = [SimpleNamespace(name=name, type="tensor(float)", shape=shape) for name, shape in shapes.items()]
        with self.assertRaises(MistakeError) as raised:
            inputs.values(nodes, [], [])
        self.assertIn("(A: float32[batch, ?, 3, width]; B: float32[width, ?])", str(raised.exception))
        self.assertTrue(str(raised.exception).endswith(" --shape A=1x1x3x1 --shape B=1x1"))
        self.assertEqual(inputs.free_shapes(nodes), ["A=1x1x3x1", "B=1x1"])
        self.assertEqual(inputs.free_shapes(nodes, 9), ["A=1x1x3x9", "B=9x9"])
        self.assertEqual(inputs.free_shapes(nodes, 9, only_last=False), ["A=1x9x3x9", "B=9x9"])


if __name__ == "__main__":
    unittest.main()
