# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the memory that runs on OpenVINO read and write: no run changes memory of another one, or of the caller."""

import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from random import Random

import _above
import numpy as np
from helpers.execution_providers import HAS_BUILT_IN_OPENVINO, OPENVINO, needs_openvino
from helpers.models import caught, on_cpu, parsed, same_array
from onnx import TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime import OrtValue
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.openvino.input_memory import InputMemory
from onnxruntime.backend.runs import tensors

ON_CPU = "ai.onnx.ml.Scaler<offset=[0.0], scale=[1.0]>"
# The EP returns outputs in the memory of an input, or in none. The last three have several parts.
MODELS = (
    "y = Cast<to=1>(x) z = Identity(x)",
    "y = Cast<to=1>(x) z = Neg(x)",
    "s = Shape(x) c = Cast<to=1>(x) y = Reshape(c, s) z = Abs(c)",
    f"y = Cast<to=1>(x) z = {ON_CPU}(x)",
    f"a = {ON_CPU}(x) y = Cast<to=1>(a) z = Neg(a)",
    f"a = {ON_CPU}(x) y = Identity(x) z = Identity(a)",
)


class InputMemoryTest(unittest.TestCase):
    def test_copies(self):
        """A copy has the values of the input, and all copies of an input have one address."""
        numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
        values = [numbers, numbers[::2, ::3], numbers.T, numbers[:0], np.array(5.0), np.array([True])]
        values += map(OrtValue.ortvalue_from_numpy, (numbers, np.array(5), numbers[:0].copy()))
        for element in (TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.FLOAT8E4M3FN):
            array = np.ones((3, 3), helper.tensor_dtype_to_np_dtype(element))
            if not tensors.numpy_has(array.dtype):  # before onnx 1.19, the dtype is another one
                values.append(tensors.to_ort_value(array, element))
        memory, addresses = InputMemory(), set()
        for value in values:
            copied = memory.copy("x", value)
            self.assertIs(type(copied), type(value))
            if isinstance(value, OrtValue):
                self.assertEqual(copied.element_type(), value.element_type())
                same_array(tensors.to_array(copied), tensors.to_array(value))
                addresses.add(copied.data_ptr() or copied.numpy().ctypes.data)
            else:
                same_array(copied, value)
                addresses.add(copied.ctypes.data)
        self.assertEqual(len(addresses), 1)
        self.assertNotEqual(memory.copy("y", numbers).ctypes.data, memory.copy("x", numbers).ctypes.data)

    def test_values_that_the_ep_does_not_support_stay(self):
        memory = InputMemory()
        for value in (np.array(["a"], object), [np.ones(2)], {"a": 1.0}, None):
            self.assertIs(memory.copy("x", value), value)

    def test_size(self):
        """The memory of inputs that grow is bounded, and stays where the EP can write into it."""
        memory = InputMemory()
        for size in range(1, 2000):
            memory.copy("x", np.ones(size, np.int8))
        kept = memory._memories["x"]
        self.assertGreater(len(kept), 1)
        self.assertLessEqual(sum(array.nbytes for array in kept), 4 * size)


@needs_openvino
class OpenVinoTest(unittest.TestCase):
    def prepare(self, text: str, **keywords):
        return onnxruntime.backend.prepare(parsed(text, "ai.onnx.ml"), provider_options={OPENVINO: {}}, **keywords)

    def models(self):
        """Return each model's text, whether its shapes are free, and a function that checks and returns outputs."""
        for is_free, body in product((True, False), MODELS):
            x, y, z, a = (f"float[{size},3]" for size in ("NABC" if is_free else "5555"))
            text = f"({x} x) => ({y} y, {z} z) <{a} a> {{ {body} }}"
            rep, cpu = self.prepare(text), on_cpu(text)

            def run(value: np.ndarray, convert: Callable = np.asarray, rep=rep, cpu=cpu) -> list[np.ndarray]:
                before = value.copy()
                outputs = rep.run([convert(value)])
                same_array(value, before)
                for got, expected in zip(outputs, cpu.run([before]), strict=True):
                    same_array(got, expected)
                return outputs

            yield text, is_free, run

    def test_memory_of_callers(self):
        for text, is_free, run in self.models():
            kept = []
            least = int("a =" in text)  # the EP fails if a part receives a value without elements
            for number, size in enumerate(3 * (5, 2, 2, 40, 1, 0, 300, 7), 1):
                given = np.full((max(size, least) if is_free else 5, 3), number, np.float32)
                with self.subTest(text, number=number):
                    outputs = run(given, np.asarray if number % 2 else OrtValue.ortvalue_from_numpy)
                    kept += [(array, array.copy()) for array in (given, *outputs)]
                    if number == 1:  # the second run is smaller than the first
                        continue
                    run(outputs[number % 2])
                    # numpy gives a new array the memory of one that ended.
                    ended = given.copy()
                    run(ended)
                    del ended
                    kept.append((np.zeros_like(given), np.zeros_like(given)))
            for array, before in kept:
                same_array(array, before)

    def test_a_part_that_returns_its_input(self):
        rep = self.prepare(
            "(float[N,3] x) => (float[A,3] p, float[B,3] q, float[C,3] r, float[D,3] t) { c = Cast<to=1>(x)"
            f"s = Shape(c) d = Reshape(c, s) p = {ON_CPU}(d) q = Cast<to=1>(p) r = {ON_CPU}(c) t = {ON_CPU}(c) }}"
        )
        draw = Random(0)
        for number in range(120):
            given = np.full((draw.choice((1, 3, 64, 300)), 3), number, np.float32)
            for output in rep.run([given]):
                same_array(output, given)

    def test_threads(self):
        for text, is_free, run in self.models():

            def run_some(thread: int, is_free=is_free, run=run):
                for number in range(40):
                    rows = 1 + (thread + number) % 7 if is_free else 5
                    run(np.full((rows, 3), 100 * thread + number + 1, np.float32))

            with self.subTest(text), ThreadPoolExecutor(4) as pool:
                list(pool.map(run_some, range(4)))

    def test_settings_that_release_memory(self):
        """They are refused if the graph has several parts on the EP, or parts on other EPs."""
        shrinkage = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
        x = np.ones((2, 3), np.float32)
        for body, expected in (("y = Abs(x)", type(None)), (f"a = {ON_CPU}(x) y = Abs(a)", NotPermittedError)):
            text = f"(float[N,3] x) => (float[A,3] y) <float[B,3] a> {{ {body} }}"
            rep = self.prepare(text)
            for call in (
                partial(self.prepare, text, enable_cpu_mem_arena=False),
                partial(self.prepare, text, enable_mem_pattern=True),
                partial(self.prepare, text, run_config=shrinkage),
                partial(rep.run, [x], run_config=shrinkage),
                partial(rep.with_run_config(shrinkage).run, [x]),
            ):
                with self.subTest(text, call=call):
                    self.assertIs(type(caught(call)), expected)

    @unittest.skipIf(HAS_BUILT_IN_OPENVINO, "a defect of the plugin EP")
    def test_settings_with_which_constant_text_is_not_folded(self):
        text = "(float[N] x) => (float[N] y) { y = Abs(x) }"
        for settings in (
            {"graph_optimization_level": "ORT_DISABLE_ALL"},
            {"session_config": {"optimization.disable_specified_optimizers": "ConstantFolding"}},
            {"session_config": {"optimization.constant_folding_max_output_size_in_bytes": 1}},
        ):
            with self.subTest(settings), self.assertRaisesRegex(NotPermittedError, "constant text"):
                self.prepare(text, **settings)
            onnxruntime.backend.prepare(parsed(text), provider_options={}, **settings)


if __name__ == "__main__":
    unittest.main()
