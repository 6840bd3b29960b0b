# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests graph capture and device values on the WebGPU plugin EP (onnxruntime-ep-webgpu).

The tests run on a GPU, or under ``with_software_gpu.sh``.
"""

from __future__ import annotations

import gc
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
from backend_captured_operators import on_device
from backend_test_capture import CaptureBehaviour, Expected, chain, two_inputs
from backend_test_captured_models import resident_bytes
from backend_test_execution_providers import set_up_webgpu_plugin
from backend_test_models import parsed, reads_linux
from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, OrtValue, SessionOptions
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.runs import locks

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

    def ordinary(self, made: ModelProto):
        return prepare(made, capture=False)

    def prepare(self, made: ModelProto, **keywords):
        return prepare(made, **keywords)

    def test_it_captures(self) -> None:
        rep = self.prepare(chain())
        self.assertEqual(rep.node_assignment[EP], 6)
        self.assertIn("enableGraphCapture", rep.unconfirmed[EP])  # ORT repeats whatever a plugin is given
        # ORT refuses session.run on this session.
        with self.assertRaisesRegex(ValueError, "graph capture"):
            rep.session.run(None, {"X": self.data(0, 3, 4)})

    def test_outputs_of_shapes_and_constants(self) -> None:
        constant = "<float[2] k = {-3, -3}> { S = Shape (X) Y = Neg (X) C = Abs (k) }"
        made = parsed(f"(float[N,4] X) => (int64[2] S, float[N,4] Y, float[2] C) {constant}")
        rep, expected = self.prepare(made), Expected(made)
        for i in range(6):
            self.check_run(rep, expected, self.data(i, 1 + i % 2, 4))

    def test_a_session_that_the_caller_opened(self) -> None:
        # Its graph was not checked: it runs without capture, or with a binding of the caller.
        rep, expected = onnxruntime.backend.prepare(open_session(chain())), Expected(chain())
        for i in range(10):
            x = self.data(i, 1 + i % 2, 4)
            with self.assertRaisesRegex(RuntimeError, "only models that prepare opens.*gpu_graph_id.*rep.run_options"):
                rep.run([x])
            self.check(rep.run([x], run_config={"gpu_graph_id": -1}), expected(x))
        rep.run_options()

    def test_opening_beside_running(self) -> None:
        rep, expected = self.prepare(chain(20)), Expected(chain(20))
        ordinary = prepare(chain(20), capture=False)
        stop = threading.Event()

        def run(which) -> None:
            i = 0
            while not stop.is_set():
                i += 1
                self.check_run(which, expected, self.data(i, 3, 4))

        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(run, which) for which in (rep, ordinary)]
            try:
                for _ in range(10):
                    prepare(chain(20), capture=False).run([self.data(0, 3, 4)])
                    gc.collect()
            finally:
                stop.set()
            for done in runs:
                done.result()

    def test_opened_under_the_lock(self) -> None:
        lock, seen = locks.WEBGPU._alone, []

        def look() -> None:
            seen.append(not lock.acquire(blocking=False))
            if not seen[-1]:
                lock.release()

        def watched(*arguments, **keywords):
            # From another thread: the lock is re-entrant.
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            return create(*arguments, **keywords)

        create = eligibility.open_session
        with mock.patch.object(eligibility, "open_session", watched):
            prepare(chain())
        self.assertEqual(seen, [True])

    def test_requirements(self) -> None:
        one = "then_branch = a () => (float[2] A) { A = Neg (X) }"
        other = "else_branch = b () => (float[2] B) { B = Abs (X) }"
        branching = f"(float[2] X, bool C) => (float[2] Y) {{ Y = If (C) <{one}, {other}> }}"
        reshaping = "(float[2,4] X, int64[2] S) => (float[M,N] Y) { T = Reshape (X, S) Y = Neg (T) }"
        for graph, refused in (
            (branching, "cannot be captured.*control flow nodes"),
            ("(float[2,2] X) => (float Y) { Y = Det (X) }", "cannot be captured"),
            (reshaping, "enableGraphCapture'.: input 'S' is read on the CPU"),
        ):
            with self.assertRaisesRegex(RuntimeError, refused):
                self.prepare(parsed(graph))

    @reads_linux
    def test_memory_stays(self) -> None:
        rep = self.prepare(chain(10, (64, 64)))
        x = self.data(0, 64, 64)
        for i in range(2000):
            if i == 200:
                before = resident_bytes()
            rep.run([x])
        self.assertLessEqual(resident_bytes() - before, 4 * 2**20)


class DeviceValueTest(unittest.TestCase):
    """OrtValues as inputs of rep.run, and a caller's IO binding with the run config."""

    def setUp(self) -> None:
        self.a, self.b = (np.random.default_rng(i).standard_normal(5).astype(np.float32) for i in range(2))
        self.right = [self.a * self.b, self.a - self.b]

    def check(self, outputs) -> None:
        for got, want in zip(outputs, self.right, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)

    def test_inputs_of_run(self) -> None:
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

    # On a session that captures, ORT refuses each of these bindings unless it receives -1.

    def bound(self):
        rep = prepare(two_inputs(), run_config={"gpu_graph_id": -1})
        return rep, rep.session.io_binding()

    def run_bound(self, rep, binding) -> None:
        with self.assertRaisesRegex(ValueError, "graph capture"):
            rep.session.run_with_iobinding(binding, onnxruntime.RunOptions())
        rep.session.run_with_iobinding(binding, rep.run_options())

    def test_indices_on_the_device(self) -> None:
        """The data of a capture is read from device memory into an array that owns its bytes."""
        made = parsed("(float[K] A, float[N] X, int32[M] I) => (float[M] Y) { G = Gather (X, I) Y = Div (G, G) }")
        for _ in range(3):
            rep = prepare(made)
            index = on_device(rep.session, np.zeros(1, np.int32))
            one = np.ones(1, np.float32)
            self.assertEqual(rep.run({"A": one, "X": one, "I": index})[0].tolist(), [1])

    def bind(self, rep, binding, outputs: list[OrtValue] | None = None, device: str = "cpu") -> None:
        """Bind inputs in device memory, and values for the outputs, or a device on which ORT allocates outputs."""
        for name, array in (("A", self.a), ("B", self.b)):
            binding.bind_ortvalue_input(name, on_device(rep.session, array))
        for i, name in enumerate(("Y", "Z")):
            if outputs is None:
                binding.bind_output(name, device)
            else:
                binding.bind_ortvalue_output(name, outputs[i])

    def test_input_copied_to_the_device(self) -> None:
        rep, binding = self.bound()
        binding.bind_cpu_input("A", self.a)
        binding.bind_cpu_input("B", self.b)
        for name in ("Y", "Z"):
            binding.bind_output(name)
        self.run_bound(rep, binding)
        self.check(binding.copy_outputs_to_cpu())

    def test_input_on_the_device(self) -> None:
        rep, binding = self.bound()
        self.bind(rep, binding)
        self.run_bound(rep, binding)
        self.check(binding.copy_outputs_to_cpu())

    def test_input_and_output_on_the_device(self) -> None:
        rep, binding = self.bound()
        outputs = [on_device(rep.session, np.zeros(5, np.float32)) for _ in range(2)]
        self.bind(rep, binding, outputs)
        rep.session.run_with_iobinding(binding, rep.run_options())
        self.check(binding.copy_outputs_to_cpu())
        # With -1, nothing was captured: id 0 accepts other buffers, and id 7 of this run pins them.
        other = rep.session.io_binding()
        self.bind(rep, other, outputs)
        rep.session.run_with_iobinding(other, rep.run_options({"gpu_graph_id": 7}))
        self.check(other.copy_outputs_to_cpu())
        with self.assertRaisesRegex(ValueError, "graph 7"):
            rep.session.run_with_iobinding(binding, rep.run_options({"gpu_graph_id": 7}))

    def test_output_allocated_on_the_device(self) -> None:
        rep, binding = self.bound()
        self.bind(rep, binding, device="webgpu")
        self.run_bound(rep, binding)
        self.assertEqual([value.device_name() for value in binding.get_outputs()], ["webgpu", "webgpu"])
        # The outputs are the inputs of the next run, without a copy to the CPU.
        product, difference = binding.get_outputs()
        again = rep.run([product, difference])
        np.testing.assert_allclose(again[0], self.right[0] * self.right[1], rtol=1e-5)

    def test_ortvalues_directly(self) -> None:
        rep, _ = self.bound()
        feeds = {"A": on_device(rep.session, self.a), "B": on_device(rep.session, self.b)}
        with self.assertRaisesRegex(ValueError, "graph capture"):
            rep.session.run_with_ort_values(None, feeds)
        outputs = rep.session.run_with_ort_values(None, feeds, rep.run_options())
        self.check([value.numpy() for value in outputs])


if __name__ == "__main__":
    unittest.main()
