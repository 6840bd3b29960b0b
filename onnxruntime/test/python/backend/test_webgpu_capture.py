# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests graph capture and device values on the WebGPU plugin EP (onnxruntime-ep-webgpu).

The tests run on a GPU, or under ``with_software_gpu.sh``.
"""

from __future__ import annotations

import unittest

import numpy as np
from campaigns.captured_operators import on_device
from helpers.capture import Expected, chain, two_inputs
from helpers.capture_behaviour import CaptureBehaviour
from helpers.captured_models import resident_bytes
from helpers.execution_providers import set_up_webgpu_plugin
from helpers.models import parsed, reads_linux
from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, IOBinding, OrtValue, SessionOptions
from onnxruntime.backend import locks

EP = "WebGpuExecutionProvider"


setUpModule = set_up_webgpu_plugin


def prepare(made: ModelProto, capture: bool = True, **keywords):
    options = {"enableGraphCapture": "1"} if capture else {}
    return onnxruntime.backend.prepare(made, provider_options={EP: options}, **keywords)


def open_session(made: ModelProto, capture: bool = True) -> InferenceSession:
    """Create a session as a caller does, without the backend."""
    options = SessionOptions()
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == EP)
    options.add_provider_for_devices([device], {"enableGraphCapture": str(int(capture))})
    with locks.WEBGPU.alone():
        return InferenceSession(made.SerializeToString(), options, enable_fallback=0)


class WebGpuCaptureTest(CaptureBehaviour, unittest.TestCase):
    """The backend on the real EP."""

    lock = locks.WEBGPU
    flags = ("--plugin", "onnxruntime_ep_webgpu")

    def ordinary(self, made: ModelProto):
        return prepare(made, capture=False)

    def prepare(self, made: ModelProto, **keywords):
        return prepare(made, **keywords)

    def test_it_captures(self):
        rep = self.prepare(chain())
        self.assertEqual(rep.node_assignment[EP], 6)
        self.assertIn("enableGraphCapture", rep.unconfirmed[EP])  # ORT repeats whatever a plugin is given
        # ORT refuses session.run on this session.
        with self.assertRaisesRegex(ValueError, "graph capture"):
            rep.session.run(None, {"X": self.data(0, 3, 4)})

    def test_a_session_that_the_caller_opened(self):
        # Its graph was not checked: it runs without capture, or with a binding of the caller.
        rep, expected = (onnxruntime.backend.prepare(open_session(chain())), Expected(chain()))
        for i in range(10):
            x = self.data(i, 1 + i % 2, 4)
            with self.assertRaisesRegex(
                RuntimeError, "only models that prepare opens.*gpu_graph_id.*without graph capture$"
            ):
                rep.run([x])
            self.check(rep.run([x], run_config={"gpu_graph_id": -1}), expected(x))
        rep.run_options()

    def test_requirements(self):
        one = "then_branch = a () => (float[2] A) { A = Neg (X) }"
        other = "else_branch = b () => (float[2] B) { B = Abs (X) }"
        branching = f"(float[2] X, bool C) => (float[2] Y) {{ Y = If (C) <{one}, {other}> }}"
        reshaping = "(float[2,4] X, int64[2] S) => (float[M,N] Y) { T = Reshape (X, S) Y = Neg (T) }"
        for graph, refused in (
            (branching, "enableGraphCapture'.: ORT does not capture.*If, Loop, or Scan.*control flow nodes"),
            ("(float[2,2] X) => (float Y) { Y = Det (X) }", "ORT does not capture.*Det 1.*Prepare the model without"),
            (reshaping, "enableGraphCapture'.: input 'S' is read on the CPU"),
        ):
            with self.assertRaisesRegex(RuntimeError, refused):
                self.prepare(parsed(graph))

    @reads_linux
    def test_memory_stays(self):
        rep = self.prepare(chain(10, (64, 64)))
        x = self.data(0, 64, 64)
        for i in range(2000):
            if i == 200:
                before = resident_bytes()
            rep.run([x])
        self.assertLessEqual(resident_bytes() - before, 4 * 2**20)


class DeviceValueTest(unittest.TestCase):
    """OrtValues as inputs of rep.run, and a caller's IO binding with the run config."""

    def setUp(self):
        self.a, self.b = (np.random.default_rng(i).standard_normal(5).astype(np.float32) for i in range(2))
        self.right = [self.a * self.b, self.a - self.b]

    def check(self, outputs) -> None:
        for got, want in zip(outputs, self.right, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)

    def test_inputs_of_run(self):
        for capture in (False, True):
            rep = prepare(two_inputs(), capture)
            on_cpu = OrtValue.ortvalue_from_numpy
            for _ in range(3):
                a, b = on_device(rep.session, self.a), on_device(rep.session, self.b)
                for inputs in ([a, b], [self.a, b], [a, on_cpu(self.b)], [on_cpu(self.a), self.b]):
                    with self.subTest(capture=capture):
                        self.check(rep.run(inputs))
            self.check(rep.run([a, b], run_config={"gpu_graph_id": -1}))
        with self.assertRaisesRegex(onnxruntime.backend.InputError, "A"):
            rep.run([on_device(rep.session, self.a.astype(np.int32)), b])

    def test_indices_on_the_device(self):
        """The data of a capture is read from device memory into an array that owns its bytes."""
        made = parsed("(float[K] A, float[N] X, int32[M] I) => (float[M] Y) { G = Gather (X, I) Y = Div (G, G) }")
        for _ in range(3):
            rep = prepare(made)
            index = on_device(rep.session, np.zeros(1, np.int32))
            one = np.ones(1, np.float32)
            self.assertEqual(rep.run({"A": one, "X": one, "I": index})[0].tolist(), [1])

    def test_bindings_without_capture(self):
        """On a session that captures, ORT refuses a binding of other memory than the device's unless it receives -1."""
        rep = prepare(two_inputs(), run_config={"gpu_graph_id": -1})
        targets = [on_device(rep.session, np.zeros(5, np.float32)) for _ in range(2)]

        def bind(inputs_on_device: bool, outputs: str | list[OrtValue]) -> IOBinding:
            binding = rep.session.io_binding()
            for name, array in (("A", self.a), ("B", self.b)):
                if inputs_on_device:
                    binding.bind_ortvalue_input(name, on_device(rep.session, array))
                else:
                    binding.bind_cpu_input(name, array)
            for i, name in enumerate(("Y", "Z")):
                if isinstance(outputs, str):
                    binding.bind_output(name, outputs)
                else:
                    binding.bind_ortvalue_output(name, outputs[i])
            return binding

        for inputs_on_device, outputs in ((False, "cpu"), (True, "cpu"), (True, "webgpu"), (True, targets)):
            with self.subTest(outputs=outputs, inputs_on_device=inputs_on_device):
                binding = bind(inputs_on_device, outputs)
                if outputs is not targets:
                    with self.assertRaisesRegex(ValueError, "graph capture"):
                        rep.session.run_with_iobinding(binding, onnxruntime.RunOptions())
                rep.session.run_with_iobinding(binding, rep.run_options())
                self.check(binding.copy_outputs_to_cpu())
                if outputs == "webgpu":
                    self.assertEqual([value.device_name() for value in binding.get_outputs()], ["webgpu", "webgpu"])
                    # The outputs are the inputs of the next run, without a copy to the CPU.
                    again = rep.run(binding.get_outputs())
                    np.testing.assert_allclose(again[0], self.right[0] * self.right[1], rtol=1e-5)
        # With -1, nothing was captured. Id 7 of this run pins its buffers.
        other = bind(True, targets)
        rep.session.run_with_iobinding(other, rep.run_options({"gpu_graph_id": 7}))
        self.check(other.copy_outputs_to_cpu())
        with self.assertRaisesRegex(ValueError, "graph 7"):
            rep.session.run_with_iobinding(binding, rep.run_options({"gpu_graph_id": 7}))


if __name__ == "__main__":
    unittest.main()
