# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests graph capture on ORT's built-in CUDA EP, and the parts of it that need no device.

The tests run on a GPU, or on the software CUDA of ``make test-cuda``. Its settings ``SOFTCUDA_LAZY`` and
``SOFTCUDA_CAPTURE_US`` change the time of the work and the duration of a capture.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from unittest import mock

import numpy as np
import onnx
from backend_test_capture import (
    CaptureBehaviour,
    Expected,
    captured_ids,
    chain,
    shape_arithmetic,
    two_inputs,
)
from backend_test_models import model
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, OrtValue, RunOptions, SessionOptions
from onnxruntime.backend.capture import comparison, eligibility, graphs, locks, replays
from onnxruntime.backend.capture import threads as capture_threads
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.session import failures

CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"
INT64 = TensorProto.INT64
ORDINARY = {"gpu_graph_id": -1}


def _devices() -> int:
    """Return the number of CUDA devices that this process can use, at most 2."""
    if CUDA not in onnxruntime.get_available_providers():
        return 0
    found = 0
    for index in range(2):
        try:
            OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32), "cuda", index)
        except Exception:  # ORT's own, of which there are several
            break
        found += 1
    return found


DEVICES = _devices()
needs_cuda = unittest.skipUnless(DEVICES, "there is no CUDA device, nor the software CUDA of make test-cuda")


def typed(made: ModelProto, elem_type: int, *outputs: int) -> ModelProto:
    """Set the element type of some outputs."""
    for index in outputs:
        made.graph.output[index].type.tensor_type.elem_type = elem_type
    return made


def open_session(made: ModelProto, options: dict | None = None, config: dict | None = None) -> InferenceSession:
    """Create a session as a caller does, without the backend."""
    asked = SessionOptions()
    for key, value in (config or {}).items():
        asked.add_session_config_entry(key, value)
    options = {"enable_cuda_graph": "1"} if options is None else options
    with locks.CUDA.alone():
        return InferenceSession(made.SerializeToString(), asked, providers=[(CUDA, options)])


class OnCuda(unittest.TestCase):
    """Methods that the classes for CUDA share."""

    def prepare(self, made: ModelProto, device_id: int = 0, **keywords):
        options = {"enable_cuda_graph": True, "device_id": device_id}
        return onnxruntime.backend.prepare(made, provider_options={CUDA: options}, **keywords)

    def ordinary(self, made: ModelProto):
        return onnxruntime.backend.prepare(made, provider_options={CUDA: {}})

    def data(self, seed: int, *shape: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)

    def close(self, got: np.ndarray, want: np.ndarray) -> None:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def same(self, got, want) -> None:
        self.assertEqual(len(got), len(want))
        for have, wanted in zip(got, want, strict=True):
            self.assertEqual((have.shape, have.dtype), (wanted.shape, wanted.dtype))
            np.testing.assert_array_equal(have, wanted)


@needs_cuda
class CudaCaptureTest(CaptureBehaviour, OnCuda):
    """The tests of every EP that captures."""

    by_thread = True
    lock = locks.CUDA

    def ordinary(self, made: ModelProto):
        return OnCuda.ordinary(self, made)

    def prepare(self, made: ModelProto, **keywords):
        return OnCuda.prepare(self, made, **keywords)

    def test_it_captures(self) -> None:
        rep = self.prepare(chain())
        x = self.data(0, 3, 4)
        rep.run([x])
        # From its second call on, ``session.run`` returns nothing on this session.
        with locks.CUDA.alone():
            self.assertEqual(len(rep.session.run(None, {"X": x})), 1)
            self.assertEqual(rep.session.run(None, {"X": x}), [])


@needs_cuda
class OutputsOnTheCpuTest(OnCuda):
    """ORT computes shapes on the CPU, and a replay does not compute them again."""

    def check_shapes(self, made: ModelProto, *shapes: tuple[int, ...]) -> None:
        rep, expected = self.prepare(made), Expected(made)
        for i in range(3):
            for j, shape in enumerate((*shapes, shapes[0])):
                x = self.data(10 * i + j, *shape)
                self.same(rep.run([x]), expected(x))

    def test_shapes_sizes_and_constants(self) -> None:
        relu = helper.make_node("Relu", ["X"], ["R"])
        for operator, shape in (("Shape", (2,)), ("Size", ())):
            with self.subTest(operator):
                nodes = [relu, helper.make_node(operator, ["X"], ["Y"])]
                made = typed(model(nodes, {"X": ("N", 4)}, {"R": ("N", 4), "Y": shape}), INT64, 1)
                self.check_shapes(made, (2, 4), (3, 4), (2, 4), (5, 4))
        constant = {"K": np.array([5, 6], np.float32)}
        nodes = [relu, helper.make_node("Identity", ["K"], ["Z"])]
        self.check_shapes(model(nodes, {"X": ("N", 4)}, {"R": ("N", 4), "Z": (2,)}, constant), (2, 4), (3, 4))

    def test_nothing_but_the_cpu(self) -> None:
        made = typed(model([helper.make_node("Shape", ["X"], ["Y"])], {"X": ("N", 4)}, {"Y": (2,)}), INT64, 0)
        self.check_shapes(made, (2, 4), (3, 4))

    def test_inputs_that_no_node_reads_stay_there(self) -> None:
        # From the device, ORT copies them to the CPU while it captures, to memory that is released before the replay.
        rep = self.prepare(model([helper.make_node("Neg", ["X"], ["Y"])], {"U": (3,), "X": (2, 4)}, {"Y": (2, 4)}))
        rep.run([self.data(0, 3), self.data(1, 2, 4)])
        buffers = graphs.of(rep.session)._begun[0].inputs
        self.assertEqual([(name, value.device_name()) for name, value in buffers], [("U", "cpu"), ("X", "cuda")])

    def test_they_are_the_callers(self) -> None:
        nodes = [helper.make_node("Relu", ["X"], ["R"]), helper.make_node("Shape", ["X"], ["Y"])]
        rep = self.prepare(typed(model(nodes, {"X": ("N", 4)}, {"R": ("N", 4), "Y": (2,)}), INT64, 1))
        x = self.data(0, 3, 4)
        kept = [rep.run([x])[1] for _ in range(4)]
        for output in kept:
            np.testing.assert_array_equal(output, [3, 4])
            output[:] = 77
        np.testing.assert_array_equal(rep.run([x])[1], [3, 4])

    def test_what_follows_from_shapes_holds_for_other_data(self) -> None:
        made = shape_arithmetic()
        rep = self.prepare(made)
        kinds = {node.op_type for node in made.graph.node}
        self.assertLessEqual({"Shape", "Gather", "Concat", "Reshape", "Expand", "ConstantOfShape"}, kinds)
        assignment = rep.node_assignment
        self.assertGreater(assignment[CPU], 0)  # it is about nodes on the CPU
        expected = Expected(made)
        for i in range(20):
            x = self.data(i, (2, 5, 3)[i % 3], 6)
            for have, want in zip(rep.run([x]), expected(x), strict=True):
                self.close(have, want)

    def test_values_that_the_cpu_reads_are_refused(self) -> None:
        def integers(made: ModelProto, *inputs: int) -> ModelProto:
            for index in inputs:
                made.graph.input[index].type.tensor_type.elem_type = INT64
            return made

        reshape = model([helper.make_node("Reshape", ["X", "S"], ["Y"])], {"X": (2, 4), "S": (2,)}, {"Y": ("M", "N")})
        cut = model(
            [helper.make_node("Slice", ["X", "B", "E"], ["Y"])], {"X": (8,), "B": (1,), "E": (1,)}, {"Y": ("N",)}
        )
        for made, inputs, name in ((reshape, (1,), "S"), (cut, (1, 2), "B")):
            with self.assertRaisesRegex(RuntimeError, f"'{name}' is read on the CPU"):
                self.prepare(integers(made, *inputs))
        # Values that the device computes must be copied to the CPU. ORT captures no session with copies.
        nodes = [
            helper.make_node("Cast", ["X"], ["I"], to=INT64),
            helper.make_node("ConstantOfShape", ["I"], ["Z"]),
            helper.make_node("Add", ["Z", "X"], ["Y"]),
        ]
        with self.assertRaisesRegex(RuntimeError, "cannot be captured"):
            self.prepare(model(nodes, {"X": (1,)}, {"Y": ("N",)}))


@needs_cuda
class ThreadTest(OnCuda):
    """Graphs belong to threads."""

    def in_threads(self, count: int, work) -> None:
        with ThreadPoolExecutor(count) as pool:
            start = threading.Barrier(count)
            for done in [pool.submit(lambda k=k: (start.wait(), work(k))) for k in range(count)]:
                done.result()

    def test_runs_go_straight(self) -> None:
        rep, threads = self.prepare(chain()), set()
        x = self.data(0, 3, 4)
        inner = type(rep.session).run_with_iobinding

        def watched(*arguments):
            threads.add(threading.get_ident())
            return inner(rep.session, *arguments)

        with mock.patch.object(rep.session, "run_with_iobinding", watched):
            rep.run([x])
            rep.run([x])
        self.assertEqual(threads, {threading.get_ident()})

    def test_more_threads_than_have_graphs_of_their_own(self) -> None:
        rep, expected = self.prepare(chain(10)), Expected(chain(10))
        watch, threads = captured_ids(rep), set()

        def work(k: int) -> None:
            for i in range(10):
                x = self.data(100 * k + i, 1 + k % 2, 4)
                self.close(rep.run([x])[0], expected(x)[0])
                config = {"gpu_graph_id": 3 + k % 2}
                self.close(rep.run([x], run_config=config)[0], expected(x)[0])
            threads.add(threading.get_ident())

        with watch:
            self.in_threads(20, work)
        self.assertEqual(len(threads), 20)
        # Each of the first eight threads has two graphs, the others together have four.
        self.assertEqual(len(graphs.of(rep.session)._begun), 2 * capture_threads.MOST_THREADS + 4)

    def test_threads_that_end_take_nothing_along(self) -> None:
        rep, expected = self.prepare(chain()), Expected(chain())
        failed = []

        def work(i: int) -> None:
            x = self.data(i, 3, 4)
            try:
                for config in (None, {"gpu_graph_id": 5}, ORDINARY):
                    self.close(rep.run([x], run_config=config)[0], expected(x)[0])
            except BaseException as error:
                failed.append(error)

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the bound on graphs is not reached, however many threads come
            for i in range(40):
                thread = threading.Thread(target=work, args=(i,))
                thread.start()
                thread.join()
        self.assertEqual(failed, [])
        self.assertLessEqual(len(graphs.of(rep.session)._begun), 2 * capture_threads.MOST_THREADS + 2)

    def test_an_id_has_the_same_shapes_in_all_threads(self) -> None:
        rep = self.prepare(chain())
        rep.run([self.data(0, 3, 4)], run_config={"gpu_graph_id": 5})
        refused = self.assertRaisesRegex(RuntimeError, r"gpu_graph_id=5 was captured with .*\(3, 4\).*\(2, 4\)")
        with ThreadPoolExecutor(1) as pool, refused:
            pool.submit(rep.run, [self.data(0, 2, 4)], run_config={"gpu_graph_id": 5}).result()

    def test_errors_of_the_common_thread(self) -> None:
        with mock.patch.object(capture_threads, "MOST_THREADS", 0):
            rep = self.prepare(chain())
            with self.assertRaisesRegex(onnxruntime.backend.InputError, "X"):
                rep.run([self.data(0, 4, 3)])
            expected, x = Expected(chain()), self.data(0, 3, 4)
            for config in (None, None, ORDINARY):
                self.close(rep.run([x], run_config=config)[0], expected(x)[0])

    def test_the_session_goes_with_its_last_user(self) -> None:
        rep = self.prepare(chain())
        run = partial(rep.run, [self.data(0, 3, 4)])
        self.in_threads(capture_threads.MOST_THREADS + 2, lambda _, run=run: run())
        gone = weakref.ref(rep.session)
        del run
        del rep
        gc.collect()
        self.assertIsNone(gone())
        # The worker ends, too.
        for thread in threading.enumerate():
            if thread.name.startswith("onnxruntime-graph-capture"):
                thread.join(10)
                self.assertFalse(thread.is_alive())

    def test_the_common_thread_releases_no_session(self) -> None:
        # Otherwise, the device of the released session becomes CUDA's current device of the worker.
        with mock.patch.object(capture_threads, "MOST_THREADS", 0):
            rep = self.prepare(chain())
            rep.run([self.data(0, 3, 4)])
        worker, lock, threads = rep._runs.capture._threads.worker, locks.CUDA, []

        class Inner:
            def __del__(self) -> None:
                threads.append(threading.current_thread())

        worker.submit(lambda: lock.put_aside([Inner()])).result()
        self.assertEqual(threads, [])
        lock.release_dead()
        self.assertEqual(threads, [threading.current_thread()])

    def test_whoever_holds_the_lock_can_run(self) -> None:
        rep, expected = self.prepare(chain()), Expected(chain())
        x = self.data(0, 3, 4)

        def work(_: int) -> None:
            with locks.CUDA.alone():
                for config in (None, ORDINARY, {"gpu_graph_id": 5}):
                    self.close(rep.run([x], run_config=config)[0], expected(x)[0])

        self.in_threads(capture_threads.MOST_THREADS + 4, work)

    def test_whoever_holds_the_lock_beside_others_on_the_common_thread(self) -> None:
        with mock.patch.object(capture_threads, "MOST_THREADS", 0):
            rep, expected = self.prepare(chain()), Expected(chain())
            x = self.data(0, 3, 4)

            def work(k: int) -> None:
                for _ in range(30):
                    with locks.CUDA.alone() if k % 2 else nullcontext():
                        self.close(rep.run([x])[0], expected(x)[0])

            threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertFalse(any(thread.is_alive() for thread in threads))


@needs_cuda
class BesideOthersTest(OnCuda):
    """Captures during other CUDA calls of the process. SOFTCUDA_CAPTURE_US makes captures long."""

    def beside_captures(self, work) -> None:
        """Capture in two threads, each in its own session, while a third thread calls ``work``."""
        until = time.monotonic() + 1.0
        expected = Expected(chain())

        def capture(seed: int) -> None:
            while time.monotonic() < until:
                rep = self.prepare(chain())
                for rows in (1, 2, 1, 500):
                    x = self.data(seed + rows, rows, 4)
                    self.close(rep.run([x])[0], expected(x)[0])

        def other() -> None:
            while time.monotonic() < until:
                work()

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(capture, 0), pool.submit(capture, 9), pool.submit(other)]:
                done.result()

    def test_ordinary_runs(self) -> None:
        rep, expected, rows = self.ordinary(chain()), Expected(chain()), 0

        def work() -> None:
            nonlocal rows
            rows = rows % 400 + 7  # other sizes, so that memory is allocated
            x = self.data(rows, rows, 4)
            self.close(rep.run([x])[0], expected(x)[0])

        self.beside_captures(work)

    def test_preparing_and_releasing(self) -> None:
        self.beside_captures(lambda: self.ordinary(chain()).run([self.data(0, 3, 4)]))

    def test_a_session_that_the_caller_opened(self) -> None:
        def work() -> None:
            onnxruntime.backend.prepare(open_session(chain(), {})).run([self.data(0, 3, 4)])

        self.beside_captures(work)

    def test_values_and_bindings_of_the_callers_own(self) -> None:
        rep, expected = self.ordinary(chain()), Expected(chain())

        def work() -> None:
            x = self.data(0, 300, 4)
            with locks.CUDA.alone():
                value = OrtValue.ortvalue_from_numpy(x, "cuda", 0)
                binding = rep.session.io_binding()
                binding.bind_ortvalue_input("X", value)
                binding.bind_output("Y", "cuda", 0)
                rep.session.run_with_iobinding(binding, rep.run_options())
                got = binding.copy_outputs_to_cpu()[0]
                del value, binding
            self.close(got, expected(x)[0])

        self.beside_captures(work)

    def test_replays_of_other_sessions(self) -> None:
        rep, expected = self.prepare(chain()), Expected(chain())

        def work() -> None:
            x = self.data(0, 3, 4)
            self.close(rep.run([x])[0], expected(x)[0])

        self.beside_captures(work)

    def test_ordinary_runs_of_a_session_that_captures_are_alone(self) -> None:
        rep, x = self.prepare(chain()), self.data(0, 3, 4)
        rep.run([x])
        inside, go_on = threading.Event(), threading.Event()

        def run() -> None:
            with locks.CUDA.for_a_run():
                inside.set()
                go_on.wait(20)

        with ThreadPoolExecutor(2) as pool:
            running = pool.submit(run)
            inside.wait(20)
            ordinary = pool.submit(rep.run, [x], run_config=ORDINARY)
            time.sleep(0.2)
            self.assertFalse(ordinary.done())
            go_on.set()
            running.result()
            self.close(ordinary.result()[0], Expected(chain())(x)[0])

    def check_nobody_is_alone(self, inside: threading.Event, go_on: threading.Event, run) -> None:
        got = []

        def alone() -> None:
            inside.wait(20)
            with locks.CUDA.alone():
                got.append(go_on.is_set())

        other, later = threading.Thread(target=alone), threading.Timer(0.3, go_on.set)
        other.start()
        later.start()
        run()
        other.join()
        later.join()
        self.assertEqual(got, [True])

    def test_nobody_is_alone_during_a_replay(self) -> None:
        rep, x = self.prepare(chain()), self.data(0, 3, 4)
        rep.run([x])
        state, inside, go_on = rep._runs.capture, threading.Event(), threading.Event()

        def wait(*_) -> list:
            inside.set()
            go_on.wait(20)
            return []

        with mock.patch.object(state, "_compute", wait):
            self.check_nobody_is_alone(inside, go_on, partial(rep.run, [x], logid="long"))
        inside.clear()
        go_on.clear()
        graph = state._begun[0]
        graph.inner = mock.Mock(run_with_iobinding=wait)
        replay = replays.replay_of(graph, {"_sess": graph.inner}, state._slots, state._lock, state._replay_lock)
        self.check_nobody_is_alone(inside, go_on, partial(replay, [x]))

    def test_replays_do_not_wait_for_other_sessions(self) -> None:
        first, second = self.prepare(chain()), self.prepare(chain())
        x = self.data(0, 3, 4)
        meet, met = threading.Barrier(2, timeout=20), []

        def run(rep) -> None:
            rep.run([x])
            replay = graphs.Capture._replay

            def both(*arguments):
                met.append(meet.wait())  # inside the run of one and of the other
                return replay(*arguments)

            meet.wait()
            with mock.patch.object(graphs.of(rep.session), "_replay", both.__get__(graphs.of(rep.session))):
                rep.run([x], logid="met")

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(run, rep) for rep in (first, second)]:
                done.result()
        self.assertEqual(sorted(met), [0, 1])


@needs_cuda
class OwnRunsTest(OnCuda):
    """Values and bindings of a caller."""

    def test_inputs_on_the_device(self) -> None:
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

    def test_a_binding_of_allocated_values(self) -> None:
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
            self.close(target.numpy(), expected(x)[0])

    def test_ordinary_bindings_and_captures_exclude_each_other(self) -> None:
        x = self.data(0, 2, 4)
        rep = self.prepare(chain())
        rep.run([x], run_config=ORDINARY)
        rep.run_options(ORDINARY)  # nothing was captured so far
        with self.assertRaisesRegex(RuntimeError, "run_options.*overwrites outputs.*Bind allocated values"):
            rep.run([x])
        rep.run([x], run_config=ORDINARY)
        rep = self.prepare(chain())
        rep.run([x])
        with self.assertRaisesRegex(RuntimeError, "before captures only.*overwrites outputs"):
            rep.run_options(ORDINARY)
        rep.run([x])

    def test_a_session_that_the_caller_opened(self) -> None:
        session = open_session(chain())
        rep, expected = onnxruntime.backend.prepare(session), Expected(chain())
        for i in range(10):
            x = self.data(i, 1 + i % 2, 4)
            self.close(rep.run([x])[0], expected(x)[0])

    def test_a_callers_session_is_taken_whatever_it_captures(self) -> None:
        shared = open_session(chain(), config={"session.use_env_allocators": "1"})
        reshape = model([helper.make_node("Reshape", ["X", "S"], ["Y"])], {"X": (2, 4), "S": (2,)}, {"Y": ("M", "N")})
        reshape.graph.input[1].type.tensor_type.elem_type = INT64
        x, shape = self.data(0, 2, 4), np.array([4, 2], np.int64)
        for session, inputs, why in (
            (shared, [x], "session.use_env_allocators"),
            (open_session(reshape), [x, shape], "'S' is read on the CPU"),
        ):
            rep = onnxruntime.backend.prepare(session)
            for config in (None, {"gpu_graph_id": 7}):
                with self.assertRaisesRegex(RuntimeError, f"{why}.*rep.session with rep.run_options"):
                    rep.run(inputs, run_config=config)
            for _ in range(3):
                self.assertEqual(len(rep.run(inputs, run_config=ORDINARY)), 1)
            rep.run_options()

    @unittest.skipUnless(DEVICES > 1, "there is one CUDA device only")
    def test_two_devices(self) -> None:
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
            self.close(rep.run([x])[0], expected(x)[0])
            with locks.CUDA.alone():
                value = OrtValue.ortvalue_from_numpy(x, "cuda", (i + 1) % 2)
            self.close(rep.run([value])[0], expected(x)[0])
            self.close(rep.run([x], run_config=ORDINARY)[0], expected(x)[0])


@needs_cuda
@unittest.skipUnless(DEVICES > 1, "there is one CUDA device only")
class OtherDeviceTest(OnCuda):
    """A thread begins on device 0, and ORT does not set another device for a session that captures."""

    def setUp(self) -> None:
        self.addCleanup(setattr, locks.CUDA, "other_devices", locks.CUDA.other_devices)

    def test_in_any_thread(self) -> None:
        nodes = [helper.make_node("Add", ["X", "K"], ["Y"])]
        made = model(nodes, {"X": ("N", 4)}, {"Y": ("N", 4)}, {"K": np.eye(1, 4, dtype=np.float32)})
        for _ in range(5):
            rep, expected = self.prepare(made, 1), Expected(made)
            self.assertTrue(locks.CUDA.other_devices)
            x = self.data(0, 3, 4)
            with ThreadPoolExecutor(3) as pool:
                for done in [pool.submit(rep.run, [x], run_config=config) for config in (ORDINARY, None, None)]:
                    self.close(done.result()[0], expected(x)[0])

    def test_the_thread_is_put_on_the_device(self) -> None:
        opened = []

        def watched(*arguments, **keywords) -> InferenceSession:
            opened.append((threading.current_thread().name[:26], keywords["providers"]))
            return InferenceSession(*arguments, **keywords)

        rep = self.prepare(chain(), 1)
        with mock.patch.object(capture_threads, "InferenceSession", mock.Mock(side_effect=watched)):
            rep.run([self.data(0, 3, 4)])
        self.assertEqual(opened, [("onnxruntime-graph-capture_", [(CUDA, {"device_id": 1})])])

    def test_whoever_holds_the_lock(self) -> None:
        rep, x = self.prepare(chain(), 1), self.data(0, 3, 4)
        with locks.CUDA.alone():
            self.close(rep.run([x])[0], Expected(chain())(x)[0])


@needs_cuda
class ShrinkingTest(OnCuda):
    """Arena shrinkage after a run releases memory of a graph."""

    SHRINK = "memory.enable_memory_arena_shrinkage"

    def test_it_is_refused_wherever_it_is_named(self) -> None:
        shrink = {self.SHRINK: "gpu:0"}
        refused = partial(self.assertRaises, NotPermittedError)
        with refused():
            self.prepare(chain(), run_config=shrink)
        rep, x = self.prepare(chain()), self.data(0, 1000, 4)
        own = onnxruntime.backend.prepare(open_session(chain()))
        for made in (rep, own):
            made.run([x])
            for name in (shrink, {self.SHRINK: "cpu:0;gpu:0"}, {**shrink, **ORDINARY}):
                for call in (partial(made.run, [x], run_config=name), partial(made.run_options, name)):
                    with refused():
                        call()
                with refused():
                    made.with_run_config(name)
                with refused():
                    onnxruntime.backend.prepare(made.session, run_config=name)
            self.close(made.run([x], run_config={self.SHRINK: "cpu:0"})[0], Expected(chain())(x)[0])
        ordinary = self.ordinary(chain())
        ordinary.run([x], run_config=shrink)


def with_random_numbers() -> ModelProto:
    """``Y = X * random``."""
    nodes = [helper.make_node("RandomNormalLike", ["X"], ["R"]), helper.make_node("Mul", ["X", "R"], ["Y"])]
    return model(nodes, {"X": ("N", 4)}, {"Y": ("N", 4)})


@needs_cuda
class RandomTest(OnCuda):
    """A replay repeats the random numbers of the run that captured, and an input of zeros hides them."""

    ONE = (np.ones((2, 4), np.float32),)

    def test_the_comparison_alone_does_not_see_it(self) -> None:
        with mock.patch.object(eligibility, "_not_repeatable", lambda _: ""):
            rep = self.prepare(with_random_numbers())
            rep.run([0 * self.ONE[0]])
            first, second = rep.run(self.ONE), rep.run(self.ONE)
        self.same(first, second)

    def test_it_is_refused(self) -> None:
        for operator in ("RandomNormal", "RandomUniform"):
            for like in ("", "Like"):
                made = with_random_numbers()
                noise = helper.make_node(operator, ["X"], ["R"]) if like else helper.make_node(operator, [], ["R"])
                noise.op_type += like
                if not like:
                    noise.attribute.append(helper.make_attribute("shape", [2, 4]))
                made.graph.node[0].CopyFrom(noise)
                with self.assertRaisesRegex(NotPermittedError, f"{operator}{like}, .*random"):
                    self.prepare(made)
                first, second = (self.ordinary(made).run(self.ONE)[0] for _ in range(2))
                self.assertFalse((first == second).any())

    def test_dropout(self) -> None:
        made = model([helper.make_node("Dropout", ["X", "R", "T"], ["Y"])], {"X": ("N", 4)}, {"Y": ("N", 4)})
        made.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "R"))
        made.graph.initializer.append(numpy_helper.from_array(np.array(True), "T"))
        with self.assertRaisesRegex(NotPermittedError, "Dropout, .*random"):
            self.prepare(made)
        made.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.array(False), "T"))
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
            rep = self.prepare(made, graph_optimization_level=level)
            for i in range(3):
                x = self.data(i, 2, 4)
                self.same(rep.run([x]), [x])

    def test_a_session_that_the_caller_opened(self) -> None:
        made = with_random_numbers()
        rep = onnxruntime.backend.prepare(open_session(made))
        with self.assertRaisesRegex(RuntimeError, "RandomNormalLike, .*random"):
            rep.run(self.ONE)
        self.assertEqual(len(rep.run(self.ONE, run_config=ORDINARY)), 1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(made, path)
            with locks.CUDA.alone():
                session = InferenceSession(path, providers=[(CUDA, {"enable_cuda_graph": "1"})])
            with self.assertRaisesRegex(RuntimeError, "RandomNormalLike, .*random"):
                onnxruntime.backend.prepare(session).run(self.ONE)


@needs_cuda
class TrialDataTest(OnCuda):
    def test_pairs_of_indices(self) -> None:
        """If the indices of a pair are exchanged, they are out of range, and the process crashes."""
        made = model([helper.make_node("GatherND", ["D", "I"], ["Y"])], {"D": ("A", "B"), "I": ("N", 2)}, {"Y": ("N",)})
        made.graph.input[1].type.tensor_type.elem_type = INT64
        rep, data = self.prepare(made), self.data(0, 2, 1000000)
        pairs = np.array([[0, 999999], [1, 999998], [0, 5], [1, 777777]])
        for _ in range(3):
            self.same(rep.run([data, pairs]), [data[pairs[:, 0], pairs[:, 1]]])

    def test_indices_that_are_floats(self) -> None:
        nodes = [helper.make_node("Cast", ["F"], ["I"], to=INT64), helper.make_node("GatherND", ["D", "I"], ["Y"])]
        rep = self.prepare(model(nodes, {"D": ("A",), "F": ("N", 1)}, {"Y": ("N",)}))
        data = self.data(0, 1000000)
        places = np.array([[0], [999999], [7], [0]], np.float32)
        for _ in range(3):
            self.same(rep.run([data, places]), [data[places[:, 0].astype(int)]])


@needs_cuda
class SetProvidersTest(OnCuda):
    """The capture state follows the inner session, which set_providers replaces."""

    def test_set_providers(self) -> None:
        capturing, plain, expected = (CUDA, {"enable_cuda_graph": "1"}), (CUDA, {}), Expected(chain())
        on_cpu = lambda made: onnxruntime.backend.prepare(made, provider_options={})  # noqa: E731
        for prepare, providers in (
            (self.ordinary, [capturing]),
            (on_cpu, [capturing]),
            (self.prepare, [plain]),
            (self.prepare, [CPU]),
            (self.prepare, [capturing]),
            (self.ordinary, [CPU]),
        ):
            for config in (None, ORDINARY):
                rep = prepare(chain())
                other = rep.with_run_config({})
                for i in range(12):
                    if i in (3, 9):
                        with locks.CUDA.alone():
                            rep.session.set_providers(providers)
                    x = self.data(i, 3, 4)
                    self.close(rep.run([x])[0], expected(x)[0])
                    self.close(other.run([x], run_config=config)[0], expected(x)[0])
                captures = capturing in providers
                self.assertEqual(graphs.of(rep.session) is not None, captures)
                self.assertEqual(rep._runs.capture is not None, captures)

    def test_it_ends_what_the_session_was_checked_for(self) -> None:
        rep = onnxruntime.backend.prepare(with_random_numbers(), provider_options={CUDA: {}})
        x = [np.ones((2, 4), np.float32)]
        rep.run(x)
        with locks.CUDA.alone():
            rep.session.set_providers([(CUDA, {"enable_cuda_graph": "1"})])
        with self.assertRaisesRegex(RuntimeError, "random"):
            rep.run(x)

    def test_graphs_of_the_old_inner_session_are_released_under_the_lock(self) -> None:
        rep = self.prepare(chain())
        rep.run([self.data(0, 3, 4)])
        owned = []

        class Buffer:
            def __del__(self) -> None:
                owned.append(locks.CUDA._alone._is_owned())

        graphs.of(rep.session)._begun[0].buffer = Buffer()
        with locks.CUDA.alone():
            rep.session.set_providers([(CUDA, {})])
        self.assertEqual(owned, [])
        rep.run([self.data(0, 3, 4)])
        gc.collect()
        self.assertEqual(owned, [True])


def folded_output() -> ModelProto:
    """``Y = X + V`` and ``V = -W``: ORT folds V to an initializer, which is an output that a node reads."""
    nodes = [helper.make_node("Neg", ["W"], ["V"]), helper.make_node("Add", ["X", "V"], ["Y"])]
    return model(nodes, {"X": (3,)}, {"Y": (3,), "V": (3,)}, {"W": np.ones(3, np.float32)})


@needs_cuda
class FailingCaptureTest(OnCuda):
    """A capture that fails inside ORT."""

    def test_an_initializer_that_is_an_output_is_refused(self) -> None:
        added = model([helper.make_node("Add", ["X", "W"], ["Y"])], {"X": (3,)}, {"Y": (3,), "W": (3,)})
        added.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "W"))
        for made, name in ((added, "W"), (folded_output(), "V")):
            with self.assertRaisesRegex(NotPermittedError, f"output '{name}' is a constant that nodes read"):
                self.prepare(made)
        session = open_session(added)
        with self.assertRaisesRegex(RuntimeError, "output 'W' is a constant that nodes read"):
            onnxruntime.backend.prepare(session).run([np.ones(3, np.float32)])

    def test_one_that_goes_on_is_reported_by_every_session(self) -> None:
        """ORT folds the initializer, so that the model of a caller's session does not show it."""
        program = """
            import numpy as np, onnxruntime, onnxruntime.backend
            from onnxruntime_test_python_backend_capture_graphs import CUDA, OnCuda, chain, folded_output, open_session
            x, small = [np.ones((2, 4), np.float32)], [np.ones(3, np.float32)]
            others = [OnCuda().prepare(chain()), OnCuda().ordinary(chain())]
            for rep in others:
                rep.run(x)
            calls = [lambda rep=rep: rep.run(x) for rep in others]
            calls.append(lambda: onnxruntime.backend.prepare(chain(), provider_options={CUDA: {}}))
            rep = onnxruntime.backend.prepare(open_session(folded_output()))
            for call in (lambda: rep.run(small), lambda: rep.run(small), *calls):
                try:
                    call()
                    print("right", flush=True)
                except RuntimeError as error:
                    print(type(error).__name__, "Restart the process" in str(error), flush=True)
            import os
            os._exit(0)  # ORT itself fails as it ends
        """
        folder = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        if "right" in done.stdout:  # a GPU may permit the copy
            self.assertEqual(done.stdout.split(), ["right"] * 5, done.stderr)
        else:
            self.assertEqual(done.stdout.splitlines(), ["RuntimeError True"] * 5, done.stderr)

    def test_it_is_made_anew(self) -> None:
        rep, expected = self.prepare(chain()), Expected(chain())
        x = self.data(0, 3, 4)
        run = type(rep.session).run_with_iobinding

        def failing(binding, options):
            run(rep.session, binding, options)
            raise RuntimeError("CUDA failure 901")

        for config, again in ((None, None), ({"gpu_graph_id": 5}, {"gpu_graph_id": 6})):
            with (
                mock.patch.object(rep.session, "run_with_iobinding", failing),
                self.assertRaisesRegex(RuntimeError, "901"),
            ):
                rep.run([x], run_config=config)
            for _ in range(3):
                self.close(rep.run([x], run_config=again)[0], expected(x)[0])
        with self.assertRaisesRegex(RuntimeError, "first run with gpu_graph_id=5 failed. Choose another id"):
            rep.run([x], run_config={"gpu_graph_id": 5})


def as_tensorrt(session: InferenceSession) -> InferenceSession:
    """Make a session of the CUDA EP that captures look like a session of TensorRT, which the tests cannot create."""
    session.get_providers = lambda: [TENSORRT, CPU]
    session.get_provider_options = lambda: {TENSORRT: {"trt_cuda_graph_enable": "1", "device_id": "0"}, CPU: {}}
    return session


@needs_cuda
class TensorrtTest(OnCuda):
    """The rules for TensorRT, which keeps one graph whatever the id; on the CUDA EP."""

    def test_one_graph_by_one_thread(self) -> None:
        rep, expected = onnxruntime.backend.prepare(as_tensorrt(open_session(chain()))), Expected(chain())
        options, threads = [], set()
        run = type(rep.session).run_with_iobinding
        plain = []
        run_plain = type(rep.session).run

        def watched(binding, run_options):
            threads.add(threading.get_ident())
            options.append(run_options.get_run_config_entry("gpu_graph_id"))
            return run(rep.session, binding, run_options)

        def watched_plain(*arguments):
            plain.append(arguments[2].get_run_config_entry("gpu_graph_id"))
            return run_plain(rep.session, *arguments)

        with (
            mock.patch.object(rep.session, "run_with_iobinding", watched),
            mock.patch.object(rep.session, "run", watched_plain),
            mock.patch.object(comparison, "_same", lambda *_: False),  # so that another run would be wanted
            ThreadPoolExecutor(2) as pool,
        ):
            for i in range(6):
                x = self.data(i, 3, 4)
                which = rep.run if i % 2 else lambda inputs: pool.submit(rep.run, inputs).result()
                self.close(which([x])[0], expected(x)[0])
        self.assertEqual(plain, ["-1"])  # a second would be captured, in memory that is gone after it
        self.assertEqual(set(options), {"0"})
        self.assertEqual(len(threads), 1)
        with self.assertRaisesRegex(RuntimeError, "one graph for a session"):
            rep.run([self.data(0, 2, 4)])
        for config in (ORDINARY, {"gpu_graph_id": 7}):
            with self.assertRaisesRegex(RuntimeError, "gpu_graph_id=.* has no effect on Tensorrt"):
                rep.run([x], run_config=config)
        with self.assertRaisesRegex(RuntimeError, r"is used by run\(\)"):
            rep.run_options({"gpu_graph_id": 7})

    def test_a_run_of_the_callers_own_comes_first(self) -> None:
        rep = onnxruntime.backend.prepare(as_tensorrt(open_session(chain())))
        rep.run_options()
        with self.assertRaisesRegex(RuntimeError, "is used by run_options"):
            rep.run([self.data(0, 3, 4)])

    def test_a_failed_first_run(self) -> None:
        rep = onnxruntime.backend.prepare(as_tensorrt(open_session(chain())))
        failing = mock.patch.object(graphs.Capture, "_replay", side_effect=MemoryError)
        with failing, self.assertRaises(MemoryError):
            rep.run([self.data(0, 3, 4)])
        with self.assertRaisesRegex(RuntimeError, "failed to: it keeps one graph for a session"):
            rep.run([self.data(0, 3, 4)])


class RequirementsTest(unittest.TestCase):
    """Which sessions capture, and which cannot capture correctly. Needs no device."""

    def session(self, options: dict, made: ModelProto | None = None, memory: str = "Cuda") -> InferenceSession:
        session = InferenceSession((made or chain()).SerializeToString(), providers=[CPU])
        session.get_providers = lambda: [*options, CPU]
        session.get_provider_options = lambda: {**options, CPU: {}}
        info = mock.Mock()
        info.name = memory
        session.get_input_memory_infos = lambda: [info] * len(session.get_inputs())
        session.get_output_memory_infos = lambda: [info] * len(session.get_outputs())
        return session

    def check_problem(self, problem: str, *arguments) -> None:
        """``prepare`` refuses a session that it created; of a caller's session, the run raises the error."""
        session = self.session(*arguments)
        with self.assertRaisesRegex(RuntimeError, f"{problem}.*Prepare the model without graph capture"):
            graphs.require(session)
        onnxruntime.backend.prepare(session)
        x = {"X": np.zeros((2, 4), np.float32)}
        with self.assertRaisesRegex(RuntimeError, f"{problem}.*rep.session with rep.run_options"):
            graphs.of(session).run(session, x, {}, {})

    def test_only_capturing_sessions_are_different(self) -> None:
        self.assertIsNone(graphs.of(InferenceSession(chain().SerializeToString(), providers=[CPU])))
        for options in (
            {CUDA: {}},
            {CUDA: {"enable_cuda_graph": "0"}},
            {TENSORRT: {"trt_cuda_graph_enable": "0"}},
            # It captures inside TensorRT-RTX: ORT neither captures nor replays.
            {"NvTensorRTRTXExecutionProvider": {"enable_cuda_graph": "1"}},
        ):
            self.assertIsNone(graphs.of(self.session(options)))
            graphs.require(self.session(options))

    def test_one_state_for_a_session(self) -> None:
        options = {CUDA: {"enable_cuda_graph": "1"}}
        session = self.session(options)
        self.assertIs(graphs.of(session), graphs.of(session))
        self.assertIsNot(graphs.of(session), graphs.of(self.session(options)))

    def test_inputs_in_cpu_memory(self) -> None:
        session = self.session({CUDA: {"enable_cuda_graph": "1"}}, two_inputs())
        on_cpu, on_device = mock.Mock(), mock.Mock()
        on_cpu.name, on_device.name = "Cpu", "Cuda"
        session.get_input_memory_infos = lambda: [on_device, on_cpu]
        with self.assertRaisesRegex(RuntimeError, "'B' is read on the CPU"):
            graphs.require(session)

    def test_all_on_the_cpu_is_run_the_ordinary_way(self) -> None:
        for options in ({CUDA: {"enable_cuda_graph": "1"}}, {TENSORRT: {"trt_cuda_graph_enable": "1"}}):
            rep = onnxruntime.backend.prepare(self.session(options, memory="Cpu"))
            x = np.ones((2, 4), np.float32)
            for _ in range(3):
                np.testing.assert_array_equal(rep.run([x])[0], Expected(chain())(x)[0])

    def test_tensors_only(self) -> None:
        options = {CUDA: {"enable_cuda_graph": "1"}}
        strings = model(
            [helper.make_node("Identity", ["X"], ["Y"])], {"X": (1,)}, {"Y": (1,)}, elem_type=TensorProto.STRING
        )
        self.check_problem(r"input 'X' is tensor\(string\)", options, strings)
        sequence = model([helper.make_node("SequenceConstruct", ["X"], ["Y"])], {"X": (2, 4)}, {"Y": None})
        sequence.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("Y", TensorProto.FLOAT, None))
        self.check_problem(r"output 'Y' is seq\(tensor\(float\)\)", options, sequence)

    def test_two_eps_that_capture(self) -> None:
        self.check_problem("both capture", {TENSORRT: {"trt_cuda_graph_enable": "1"}, CUDA: {"enable_cuda_graph": "1"}})

    def test_webgpu_of_an_ort_without_the_means(self) -> None:
        class OldInner:
            pass

        asked = SessionOptions()
        session = self.session({"WebGpuExecutionProvider": {}})
        with (
            mock.patch.object(session, "_sess", OldInner()),
            mock.patch.object(session, "get_session_options", lambda: asked),
        ):
            self.assertIsNone(graphs.of(session))
            asked.add_session_config_entry("ep.webgpuexecutionprovider.enableGraphCapture", "1")
            with self.assertRaisesRegex(RuntimeError, "needs ORT 1.30 or newer.*device memory"):
                graphs.require(session)

    def test_refusals_of_ort(self) -> None:
        error = ValueError("This session cannot use the graph capture feature: the model has control flow nodes")
        self.assertRegex(failures.explain(error), "If, Loop or Scan.*control flow nodes")
        self.assertIsNone(failures.explain(ValueError("other")))

    def test_a_refusal_of_ort_is_explained_to_the_caller(self) -> None:
        for error, explained in (
            (RuntimeError("This session cannot use the graph capture feature as requested by the user"), True),
            (RuntimeError("out of memory"), False),
        ):
            for options in (None, {"CPUExecutionProvider": {}}):
                with (
                    mock.patch.object(onnxruntime.InferenceSession, "__init__", side_effect=error),
                    self.assertRaises(RuntimeError) as raised,
                ):
                    onnxruntime.backend.prepare(chain(), provider_options=options)
                self.assertIn(str(error), str(raised.exception))
                self.assertEqual("Prepare the model without graph capture" in str(raised.exception), explained)


class ReleaseTest(unittest.TestCase):
    """Captured graphs end with their session."""

    def test_a_session_that_refers_to_itself(self) -> None:
        for change in (lambda session: None, lambda session: vars(session).update(run=session.run)):
            session = InferenceSession(chain().SerializeToString(), providers=[CPU])
            session.get_providers = lambda: [CUDA, CPU]
            session.get_provider_options = lambda: {CUDA: {}, CPU: {}}
            change(session)
            gone, rep = weakref.ref(session), onnxruntime.backend.prepare(session)
            rep.run([np.ones((2, 4), np.float32)])
            del session, rep
            gc.collect()
            self.assertIsNone(gone())


class DeviceValueTest(unittest.TestCase):
    """OrtValues next to arrays, on a session that does not capture."""

    def test_inputs(self) -> None:
        rep = onnxruntime.backend.prepare(two_inputs())
        a, b = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
        got = rep.run([OrtValue.ortvalue_from_numpy(a), b])
        np.testing.assert_array_equal(got, [a * b, a - b])

    def test_run_options_are_fresh(self) -> None:
        shrink = "memory.enable_memory_arena_shrinkage"
        rep = onnxruntime.backend.prepare(two_inputs(), run_config={"gpu_graph_id": -1})
        first, second = rep.run_options({shrink: "cpu:0"}), rep.run_options()
        self.assertEqual(first.get_run_config_entry(shrink), "cpu:0")
        self.assertEqual(second.get_run_config_entry("gpu_graph_id"), "-1")
        self.assertIsNot(second, rep.run_options())
        with self.assertRaisesRegex(RuntimeError, "not permitted via the backend API"):
            rep.run_options({"bogus": 1})
        self.assertIsInstance(rep.session, InferenceSession)
        self.assertIsInstance(first, RunOptions)


if __name__ == "__main__":
    unittest.main()
