# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the memory that runs on OpenVINO read and write: no run changes memory of another one, or of the caller."""

from __future__ import annotations

import itertools
import unittest
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from backend_test_execution_providers import OPENVINO, register_openvino_plugin
from backend_test_models import caught, on_cpu, parsed, same_array
from onnx import TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime import OrtValue
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.openvino.input_memory import InputMemory
from onnxruntime.backend.runs import tensors

BUILT_IN = OPENVINO in onnxruntime.get_available_providers()
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
    def test_copies(self) -> None:
        """A copy has the values of the input, and all copies of an input have one address."""
        numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
        values = [numbers, numbers[::2, ::3], numbers.T, numbers[:0], np.array(5.0), np.array([True])]
        values += [OrtValue.ortvalue_from_numpy(value) for value in (numbers, np.array(5), numbers[:0].copy())]
        for element in (TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.FLOAT8E4M3FN):
            array = np.ones((3, 3), helper.tensor_dtype_to_np_dtype(element))
            if not tensors.numpy_has(array.dtype):  # before onnx 1.19, the dtype is another one
                values.append(tensors.to_ort_value(array, element))
        memory, addresses = InputMemory(), set()
        for value in values:
            copied = memory.copy("x", value)
            self.assertIs(type(copied), type(value))
            if isinstance(value, OrtValue):
                if value.tensor_size_in_bytes():
                    addresses.add(copied.data_ptr())
                self.assertEqual(copied.element_type(), value.element_type())
                copied, value = tensors.to_array(copied), tensors.to_array(value)  # noqa: PLW2901
            else:
                addresses.add(copied.ctypes.data)
            same_array(copied, value)
        self.assertEqual(len(addresses), 1)
        self.assertNotEqual(memory.copy("y", numbers).ctypes.data, memory.copy("x", numbers).ctypes.data)

    def test_values_that_the_ep_does_not_support_stay(self) -> None:
        memory = InputMemory()
        for value in (np.array(["a"], object), [np.ones(2)], {"a": 1.0}, None):
            self.assertIs(memory.copy("x", value), value)

    def test_size(self) -> None:
        """The memory of inputs that grow is bounded, and stays where the EP can write into it."""
        memory = InputMemory()
        for size in range(1, 2000):
            memory.copy("x", np.ones(size, np.int8))
        kept = [*memory._outgrown, memory._current["x"][1]]
        self.assertLessEqual(sum(array.nbytes for array in kept), 4 * size)


@unittest.skipUnless(BUILT_IN or register_openvino_plugin(), f"needs {OPENVINO}, built-in or plugin")
class OpenVinoTest(unittest.TestCase):
    def models(self, rows: int | str):
        """Return for each model its text, a prepared model, and the model on the CPU EP."""
        for body in MODELS:
            shape = [f"float[{name}, 3]" for name in (rows, *(("A", "B", "C") if type(rows) is str else [rows] * 3))]
            text = f"({shape[0]} x) => ({shape[1]} y, {shape[2]} z) <{shape[3]} a> {{ {body} }}"
            made = parsed(text, "ai.onnx.ml")
            yield text, onnxruntime.backend.prepare(made, provider_options={OPENVINO: {}}), on_cpu(made)

    def test_memory_of_callers(self) -> None:
        sizes = (5, 2, 2, 40, 1, 0, 300, 7)
        for text, rep, cpu in itertools.chain(self.models("N"), self.models(5)):
            kept = []
            is_free = "[N" in text
            least = int("a =" in text)  # the EP fails if a part receives a value without elements
            for run, size in enumerate(3 * sizes):
                given = np.full((max(size, least) if is_free else 5, 3), run + 1, np.float32)
                with self.subTest(text, run=run):
                    if run % 2:
                        outputs = rep.run([OrtValue.ortvalue_from_numpy(given)])
                    else:
                        outputs = rep.run([given])
                    for got, expected in zip(outputs, cpu.run([given]), strict=True):
                        same_array(got, expected)
                kept += [(array, array.copy()) for array in (given, *outputs)]
                if run == 0:  # the second run is smaller than the first
                    continue
                # numpy gives a new array the memory of one that ended.
                ended = given.copy()
                rep.run([ended])
                del ended
                kept.append((np.zeros_like(given), np.zeros_like(given)))
            for array, before in kept:
                same_array(array, before)

    def test_outputs_as_inputs(self) -> None:
        for text, rep, cpu in itertools.chain(self.models("N"), self.models(5)):
            value = np.ones((5, 3), np.float32)
            for run in range(8):
                before = value.copy()
                with self.subTest(text, run=run):
                    outputs = rep.run([value])
                    for got, expected in zip(outputs, cpu.run([before]), strict=True):
                        same_array(got, expected)
                    same_array(value, before)
                value = outputs[run % 2]

    def test_threads(self) -> None:
        for text, rep, cpu in itertools.chain(self.models("N"), self.models(5)):

            def run_some(thread: int, text=text, rep=rep, cpu=cpu) -> None:
                for run in range(40):
                    rows = 1 + (thread + run) % 7 if "[N" in text else 5
                    given = np.full((rows, 3), 100 * thread + run + 1, np.float32)
                    before = given.copy()
                    outputs = rep.run([given])
                    same_array(given, before)
                    for got, expected in zip(outputs, cpu.run([given]), strict=True):
                        same_array(got, expected)

            with self.subTest(text), ThreadPoolExecutor(4) as pool:
                list(pool.map(run_some, range(4)))

    def test_failed_runs_of_fixed_shapes(self) -> None:
        """They leave nothing behind, also for runs that are parallel."""
        made = parsed(
            """(float[5,4] x, int64[5,4] i) => (float[5,4] y) {
            a = Abs(x) b = GatherElements(a, i) y = MatMul(b, w) }""",
            w=np.eye(4, dtype=np.float32),
        )
        rep = onnxruntime.backend.prepare(made, provider_options={OPENVINO: {"precision": "FP32"}})
        self.assertEqual(rep.why_serial, "")

        def run_some(thread: int) -> None:
            for run in range(100):
                x = np.full((5, 4), run + thread, np.float32)
                index = 7 if run % 3 == 0 else run % 5
                try:
                    (y,) = rep.run([x, np.full((5, 4), index)])
                except Exception:  # ORT's Fail or RuntimeException
                    self.assertEqual(index, 7)
                else:
                    self.assertNotEqual(index, 7)
                    same_array(y, x)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(run_some, range(4)))

    def test_settings_that_release_memory(self) -> None:
        """They are refused if the graph has several parts on the EP, or parts on other EPs."""
        whole, parts = (
            f"(float[N,3] x) => (float[A,3] y) <float[B,3] a> {{ {body} }}"
            for body in ("y = Abs(x)", f"a = {ON_CPU}(x) y = Abs(a)")
        )
        shrinkage = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
        x = np.ones((2, 3), np.float32)
        for text, refused in ((whole, False), (parts, True)):
            made, specified = parsed(text, "ai.onnx.ml"), {"provider_options": {OPENVINO: {}}}
            rep = onnxruntime.backend.prepare(made, **specified)
            for call in (
                partial(onnxruntime.backend.prepare, made, enable_cpu_mem_arena=False, **specified),
                partial(onnxruntime.backend.prepare, made, run_config=shrinkage, **specified),
                partial(rep.run, [x], run_config=shrinkage),
                partial(rep.with_run_config(shrinkage).run, [x]),
            ):
                with self.subTest(text, call=call):
                    error = caught(call)
                    self.assertIs(type(error), NotPermittedError if refused else type(None))

    @unittest.skipIf(BUILT_IN, "a defect of the plugin EP")
    def test_settings_with_which_constant_text_is_not_folded(self) -> None:
        made = parsed("(float[N] x) => (float[N] y) { y = Abs(x) }")
        folding = {"optimization.disable_specified_optimizers": "ConstantFolding"}
        cap = {"optimization.constant_folding_max_output_size_in_bytes": 1}
        for settings in (
            {"graph_optimization_level": "ORT_DISABLE_ALL"},
            {"session_config": folding},
            {"session_config": cap},
        ):
            with self.subTest(settings), self.assertRaisesRegex(NotPermittedError, "constant text"):
                onnxruntime.backend.prepare(made, provider_options={OPENVINO: {}}, **settings)
            onnxruntime.backend.prepare(made, provider_options={}, **settings)


if __name__ == "__main__":
    unittest.main()
