# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the graph ids of captures and of callers' own runs on the CUDA EP, and TensorRT's only graph.

The tests run on a GPU, or on the software CUDA of ``make test-cuda``. Its settings ``SOFTCUDA_LAZY`` and
``SOFTCUDA_CAPTURE_US`` change the time of the work and the duration of a capture.
"""

from __future__ import annotations

import gc
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
from helpers.capture import Expected, captured_ids, chain, two_inputs
from helpers.capture_cuda import CPU, DEVICES, ORDINARY, OnCuda, needs_cuda, open_session
from helpers.models import parsed

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, OrtValue
from onnxruntime.backend import locks
from onnxruntime.backend.capture import comparison, graphs
from onnxruntime.backend.capture.graph_ids import GraphIds

TENSORRT = "TensorrtExecutionProvider"


@needs_cuda
class OwnRunsTest(OnCuda):
    """Values and bindings of a caller."""

    def test_inputs_on_the_device(self):
        rep, expected = self.prepare(two_inputs()), Expected(two_inputs())
        for i in range(3):
            a, b = self.data(i, 3), self.data(i + 9, 3)
            with locks.CUDA.alone():
                values = [OrtValue.ortvalue_from_numpy(a, device, 0) for device in ("cuda", "cpu")]
            for value in values:
                self.same(rep.run([value, b]), expected(a, b))
                self.same(rep.run([b, value]), expected(b, a))
                self.same(rep.run([value, b], run_config=ORDINARY), expected(a, b))
        wrong = OrtValue.ortvalue_from_numpy(a.astype(np.int32), "cuda", 0)
        with self.assertRaisesRegex(onnxruntime.backend.InputError, "A"):
            rep.run([wrong, b])

    def test_a_binding_of_allocated_values(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        rep.run([self.data(0, 2, 4)])
        options = rep.run_options({"gpu_graph_id": 7})
        with locks.CUDA.alone():
            source, target = (OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32, "cuda", 0) for _ in range(2))
            binding = rep.session.io_binding()
            binding.bind_ortvalue_input("X", source)
            binding.bind_ortvalue_output("Y", target)
        for i in range(5):
            x = self.data(i, 2, 4)
            with locks.CUDA.alone():
                source.update_inplace(x)
                rep.session.run_with_iobinding(binding, options)
            rep.run([self.data(50 + i, 2, 4)])
            self.check([target.numpy()], expected(x))

    def test_own_runs_with_wrong_values_are_errors(self):
        expected, first = Expected(chain()), self.data(0, 2, 4)
        own = open_session(chain())
        for rep in (self.prepare(chain()), onnxruntime.backend.prepare(own)):
            rep.run([first])
            session, options = rep.session, rep.run_options()
            value = OrtValue.ortvalue_from_numpy(first)
            for name, arguments in (
                ("run", (["Y"], {"X": first})),
                ("run_async", (["Y"], {"X": first}, print, None)),
                ("run_with_ort_values", (["Y"], {"X": value})),
            ):
                for given in ({}, {"run_options": options}):
                    with self.subTest(name, given=given), self.assertRaisesRegex(RuntimeError, f"^{name}: .*rep.run, "):
                        getattr(session, name)(*arguments, **given)
            for i in range(1, 4):
                self.check(rep.run([self.data(i, 2, 4)]), expected(self.data(i, 2, 4)))
            ordinary = onnxruntime.RunOptions()
            ordinary.add_run_config_entry("gpu_graph_id", "-1")
            self.check(session.run(["Y"], {"X": first}, ordinary), expected(first))
        own.set_providers([CPU])
        self.check(own.run(["Y"], {"X": first}), expected(first))

    def test_a_second_binding_of_a_graph_is_an_error(self):
        rep, x = self.prepare(chain()), self.data(0, 2, 4)
        for graph_id in ({}, {"gpu_graph_id": 7}):
            options = rep.run_options(graph_id)
            for i in range(3):
                with locks.CUDA.alone():
                    source, target = (OrtValue.ortvalue_from_numpy(x, "cuda", 0) for _ in range(2))
                    binding = rep.session.io_binding()
                    binding.bind_ortvalue_input("X", source)
                    binding.bind_ortvalue_output("Y", target)
                    if i:
                        with self.assertRaisesRegex(RuntimeError, "another IO binding.*update_inplace.*another id"):
                            rep.session.run_with_iobinding(binding, options)
                    else:
                        rep.session.run_with_iobinding(iobinding=binding, run_options=options)
                        self.check([target.numpy()], Expected(chain())(x))
                del binding

    def test_a_run_with_the_id_of_an_own_binding_is_an_error(self):
        rep, x = self.prepare(chain()), self.data(0, 2, 4)
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("gpu_graph_id", "1")
        with locks.CUDA.alone():
            source, target = (OrtValue.ortvalue_from_numpy(x, "cuda", 0) for _ in range(2))
            binding = rep.session.io_binding()
            binding.bind_ortvalue_input("X", source)
            binding.bind_ortvalue_output("Y", target)
            rep.session.run_with_iobinding(binding, options)
        with self.assertRaisesRegex(RuntimeError, "^rep.run: gpu_graph_id=1 is used by an IO binding.*another id$"):
            rep.run([x], run_config={"gpu_graph_id": 1})
        self.check(rep.run([x], run_config={"gpu_graph_id": 2}), Expected(chain())(x))
        del rep, binding
        gc.collect()  # in this thread, and not in the worker of another test

    def test_ordinary_bindings_and_captures_exclude_each_other(self):
        x = self.data(0, 2, 4)
        rep = self.prepare(chain())
        rep.run([x], run_config=ORDINARY)
        rep.run_options(ORDINARY)  # nothing was captured so far
        with self.assertRaisesRegex(RuntimeError, "run_options.*exclude each other.*overwrites outputs.*Bind"):
            rep.run([x])
        rep.run([x], run_config=ORDINARY)
        self.same(rep.with_run_config(ORDINARY).run([x]), rep.run([x], run_config=ORDINARY))
        rep = self.prepare(chain())
        rep.run([x])
        with self.assertRaisesRegex(RuntimeError, "exclude each other.*overwrites outputs"):
            rep.run_options(ORDINARY)
        rep.run([x])

    def test_a_session_that_the_caller_opened(self):
        session = open_session(chain())
        rep, expected = onnxruntime.backend.prepare(session), Expected(chain())
        for i in range(10):
            self.check_run(rep, expected, self.data(i, 1 + i % 2, 4))

    def test_a_subclass_receives_each_replay(self):
        received = []

        class Own(InferenceSession):
            def run_with_iobinding(self, *arguments) -> None:
                received.append(arguments)
                super().run_with_iobinding(*arguments)

        session = open_session(chain())
        session.__class__ = Own
        rep, expected = onnxruntime.backend.prepare(session), Expected(chain())
        for i in range(5):
            self.check_run(rep, expected, self.data(i, 3, 4))
        self.assertEqual(len(received), 1 + 5)  # the first run captures and replays

    def test_a_callers_session_is_taken_whatever_it_captures(self):
        shared = open_session(chain(), config={"session.use_env_allocators": "1"})
        reshape = parsed("(float[2,4] X, int64[2] S) => (float[M,N] Y) { Y = Reshape (X, S) }")
        x, shape = self.data(0, 2, 4), np.array([4, 2], np.int64)
        for session, inputs, why in (
            (shared, [x], "session.use_env_allocators"),
            (open_session(reshape), [x, shape], "'S' is read on the CPU"),
        ):
            rep = onnxruntime.backend.prepare(session)
            for config in (None, {"gpu_graph_id": 7}):
                with self.assertRaisesRegex(RuntimeError, f"{why}.*gpu_graph_id.*without graph capture$"):
                    rep.run(inputs, run_config=config)
            for _ in range(3):
                self.assertEqual(len(rep.run(inputs, run_config=ORDINARY)), 1)
            rep.run_options()

    @unittest.skipUnless(DEVICES > 1, "requires two CUDA devices, which with_software_cuda.sh has")
    def test_two_devices(self):
        # Each thread has a current device, which ORT does not set for a session that captures.
        expected, lock = Expected(chain()), locks.CUDA
        self.addCleanup(setattr, lock, "other_devices", lock.other_devices)
        lock.other_devices = False
        reps = [self.prepare(chain(), 0)]
        reps[0].run([self.data(0, 3, 4)])
        reps += [self.prepare(chain(), 1), onnxruntime.backend.prepare(chain(), "CUDA:1")]
        for i in range(18):
            x = self.data(i, 1 + i % 4, 4)
            rep = reps[i % 3]
            self.check(rep.run([x]), expected(x))
            with locks.CUDA.alone():
                value = OrtValue.ortvalue_from_numpy(x, "cuda", (i + 1) % 2)
            self.check(rep.run([value]), expected(x))
            self.check(rep.run([x], run_config=ORDINARY), expected(x))


class WebgpuIdsTest(unittest.TestCase):
    """On WebGPU, a replay overwrites nothing of a run without capture. Needs no device."""

    def test_own_runs_without_capture(self):
        ids, own = GraphIds(once=False, on_webgpu=True), {"gpu_graph_id": "-1"}
        ids.reserve_for_binding(own)
        self.assertEqual(ids.begin((None, (2, 3))), "1024")
        ids.reserve_for_binding(own)


def as_tensorrt(session: InferenceSession) -> InferenceSession:
    """Make a session of the CUDA EP that captures look like a session of TensorRT, which the tests cannot create."""
    session.get_providers = lambda: [TENSORRT, CPU]
    session.get_provider_options = lambda: {TENSORRT: {"trt_cuda_graph_enable": "1", "device_id": "0"}, CPU: {}}
    return session


@needs_cuda
class TensorrtTest(OnCuda):
    """The rules for TensorRT, which keeps one graph whatever the id; on the CUDA EP."""

    def test_one_graph_by_one_thread(self):
        rep, expected = (onnxruntime.backend.prepare(as_tensorrt(open_session(chain()))), Expected(chain()))
        threads, plain, run_plain = set(), [], type(rep.session).run

        def watched_plain(*arguments):
            plain.append(arguments[2].get_run_config_entry("gpu_graph_id"))
            return run_plain(rep.session, *arguments)

        with (
            captured_ids(rep, threads) as ids,
            mock.patch.object(rep.session, "run", watched_plain),
            mock.patch.object(comparison, "_same", lambda *_: False),  # so that another run would be wanted
            ThreadPoolExecutor(2) as pool,
        ):
            for i in range(6):
                x = self.data(i, 3, 4)
                which = rep.run if i % 2 else lambda inputs: pool.submit(rep.run, inputs).result()
                self.check(which([x]), expected(x))
        self.assertEqual(plain, ["-1"])  # a second would be captured, in memory that is gone after it
        self.assertEqual(set(ids), {0})
        self.assertEqual(len(threads), 1)
        with self.assertRaisesRegex(RuntimeError, "one graph for a session"):
            rep.run([self.data(0, 2, 4)])
        for config in (ORDINARY, {"gpu_graph_id": 7}):
            with self.assertRaisesRegex(RuntimeError, "Tensorrt.* gpu_graph_id has no effect"):
                rep.run([x], run_config=config)
        with self.assertRaisesRegex(RuntimeError, r"is used by run\(\)"):
            rep.run_options({"gpu_graph_id": 7})

    def test_a_run_of_the_callers_own_comes_first(self):
        for config in (None, {"gpu_graph_id": 7}):
            rep = onnxruntime.backend.prepare(as_tensorrt(open_session(chain())))
            rep.run_options(config)
            with self.subTest(config), self.assertRaisesRegex(RuntimeError, "is used by run_options"):
                rep.run([self.data(0, 3, 4)])

    def test_a_failed_first_run(self):
        rep = onnxruntime.backend.prepare(as_tensorrt(open_session(chain())))
        failing = mock.patch.object(graphs.Capture, "_replay", side_effect=MemoryError)
        with failing, self.assertRaises(MemoryError):
            rep.run([self.data(0, 3, 4)])
        with self.assertRaisesRegex(RuntimeError, "one graph for a session"):
            rep.run([self.data(0, 3, 4)])


if __name__ == "__main__":
    unittest.main()
