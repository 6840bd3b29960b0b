# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests graph capture on ORT's built-in CUDA EP, and the parts of it that need no device.

The tests that are the same for each EP, such as the comparison of a replay, are in ``helpers/capture.py``.
The tests run on a GPU, or on the software CUDA of ``make test-cuda``. Its settings ``SOFTCUDA_LAZY`` and
``SOFTCUDA_CAPTURE_US`` change the time of the work and the duration of a capture.
"""

from __future__ import annotations

import textwrap
import unittest
import weakref
from functools import partial
from unittest import mock

import numpy as np
from helpers.capture import Expected, capture_of, chain, two_inputs
from helpers.capture_behaviour import CaptureBehaviour
from helpers.capture_cuda import CPU, CUDA, ORDINARY, OnCuda, needs_cuda, open_session
from helpers.children import run_code
from helpers.models import parsed
from helpers.threads import needs_global_lock
from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession, RunOptions, SessionOptions
from onnxruntime.backend import locks
from onnxruntime.backend.capture import graphs
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.runs.settings import RunSettings

TENSORRT = "TensorrtExecutionProvider"


@needs_cuda
class CudaCaptureTest(OnCuda, CaptureBehaviour):
    """The tests of every EP that captures."""

    by_thread = True
    lock = locks.CUDA


@needs_cuda
class ValuesOnTheCpuTest(OnCuda):
    """Inputs and outputs that ORT keeps on the CPU."""

    def test_limits_where_everything_is_on_the_cpu(self):
        rep = self.prepare(parsed("(float[2] X) => (float[2] Z) <float[2] K = {5, 6}> { Z = Identity (K) }"))
        x, cancellation, ends, run = ([self.data(0, 2)], onnxruntime.backend.Cancellation(), [], rep.session.run)
        for limits in ({"timeout": 30}, {"cancellation": cancellation}, {}):
            self.same(rep.run(x, **limits), [np.array([5, 6], np.float32)])

        def canceled(names: list[str], feeds: dict, options: onnxruntime.RunOptions) -> list:
            cancellation.cancel()
            ends.append((options.terminate, options.get_run_config_entry("gpu_graph_id")))
            return run(names, feeds, options)

        with mock.patch.object(rep.session, "run", canceled), self.assertRaises(onnxruntime.backend.RunCancelledError):
            rep.run(x, cancellation=cancellation)
        self.assertEqual(ends, [(True, "-1")])

    def test_inputs_that_no_node_reads_stay_there(self):
        # From the device, ORT copies them to the CPU while it captures, to memory that is released before the replay.
        rep = self.prepare(parsed("(float[3] U, float[2,4] X) => (float[2,4] Y) { Y = Neg (X) }"))
        rep.run([self.data(0, 3), self.data(1, 2, 4)])
        buffers = capture_of(rep.session)._begun[0].inputs
        self.assertEqual([(name, value.device_name()) for name, value in buffers], [("U", "cpu"), ("X", "cuda")])


@needs_cuda
class ShrinkingTest(OnCuda):
    """Arena shrinkage after a run releases memory of a graph."""

    SHRINK = "memory.enable_memory_arena_shrinkage"

    def test_it_is_refused_wherever_it_is_named(self):
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
            self.check(made.run([x], run_config={self.SHRINK: "cpu:0"}), Expected(chain())(x))
        ordinary = self.ordinary(chain())
        ordinary.run([x], run_config=shrink)


@needs_cuda
class SetProvidersTest(OnCuda):
    """The capture state follows the inner session, which set_providers replaces."""

    def test_set_providers(self):
        capturing, plain, expected = ((CUDA, {"enable_cuda_graph": "1"}), (CUDA, {}), Expected(chain()))
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
                    self.check(rep.run([x]), expected(x))
                    self.check(other.run([x], run_config=config), expected(x))
                captures = capturing in providers
                self.assertEqual(capture_of(rep.session) is not None, captures)
                self.assertEqual(isinstance(rep._current_plan().route, graphs.Capture), captures)

    def test_graphs_of_the_old_inner_session_are_released_under_the_lock(self):
        owned = []

        def note() -> None:
            owned.append(locks.CUDA._alone._is_owned())

        for providers in ([(CUDA, {})], [CPU]):
            rep = self.prepare(chain())
            rep.run([self.data(0, 3, 4)])
            # Like a buffer, an array ends with its last reference: the garbage collector does not track it.
            buffer = capture_of(rep.session)._begun[0].buffer = np.empty(0)
            weakref.finalize(buffer, note)
            del buffer
            with locks.CUDA.alone():
                rep.session.set_providers(providers)
            self.assertEqual(owned, [])
            rep.run([self.data(0, 3, 4)])  # on CUDA, this run releases them already
            locks.CUDA.release_ended()
            self.assertEqual(owned, [True])
            owned.clear()


def folded_output() -> ModelProto:
    """``Y = X + V`` and ``V = -W``: ORT folds V to an initializer, which is an output that a node reads."""
    return parsed("(float[3] X) => (float[3] Y, float[3] V) <float[3] W = {1, 1, 1}> { V = Neg (W) Y = Add (X, V) }")


@needs_cuda
class FailingCaptureTest(OnCuda):
    """A capture that fails inside ORT."""

    def test_graphs_that_are_refused(self):
        added = parsed("(float[3] X) => (float[3] Y, float[3] W) <float[3] W = {1, 1, 1}> { Y = Add (X, W) }")
        random = parsed("(float[3] X) => (float[3] Y) { R = RandomNormalLike (X) Y = Mul (X, R) }")
        constant = "output '{}' is a constant that nodes read".format
        repeated = "RandomNormalLike, .*draws random numbers"
        for made, reason in ((added, constant("W")), (folded_output(), constant("V")), (random, repeated)):
            with self.assertRaisesRegex(NotPermittedError, reason):
                self.prepare(made)
        for made, reason in ((added, constant("W")), (random, repeated)):
            with self.assertRaisesRegex(RuntimeError, reason):
                onnxruntime.backend.prepare(open_session(made)).run([np.ones(3, np.float32)])

    def test_one_that_goes_on_is_reported_by_every_session(self):
        """ORT folds the initializer, so that the model of a caller's session does not show it."""
        program = """
            import numpy as np, onnxruntime, onnxruntime.backend
            from test_capture_graphs import CUDA, OnCuda, chain, folded_output, open_session
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
        done = run_code(textwrap.dedent(program))
        if "right" in done.stdout:  # a GPU may permit the copy
            self.assertEqual(done.stdout.split(), ["right"] * 5, done.stderr)
        else:
            self.assertEqual(done.stdout.splitlines(), ["RuntimeError True"] * 5, done.stderr)

    def test_it_is_made_anew(self):
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
                self.check(rep.run([x], run_config=again), expected(x))
        with self.assertRaisesRegex(RuntimeError, "first run with gpu_graph_id=5 failed. Choose another id"):
            rep.run([x], run_config={"gpu_graph_id": 5})


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
        """Of a caller's session, the run raises the error."""
        session = self.session(*arguments)
        self.assertRegex(capture_of(session).problem, problem)
        onnxruntime.backend.prepare(session)
        x = {"X": np.zeros((2, 4), np.float32)}
        with self.assertRaisesRegex(RuntimeError, f"{problem}.*without graph capture$"):
            capture_of(session).run(x, RunSettings({}, {}))

    def test_only_capturing_sessions_are_different(self):
        self.assertIsNone(capture_of(InferenceSession(chain().SerializeToString(), providers=[CPU])))
        for options in (
            {CUDA: {}},
            {CUDA: {"enable_cuda_graph": "0"}},
            {TENSORRT: {"trt_cuda_graph_enable": "0"}},
            # It captures inside TensorRT-RTX: ORT neither captures nor replays.
            {"NvTensorRTRTXExecutionProvider": {"enable_cuda_graph": "1"}},
        ):
            self.assertIsNone(capture_of(self.session(options)))

    @needs_global_lock
    def test_all_on_the_cpu_is_run_the_ordinary_way(self):
        for options in ({CUDA: {"enable_cuda_graph": "1"}}, {TENSORRT: {"trt_cuda_graph_enable": "1"}}):
            rep = onnxruntime.backend.prepare(self.session(options, memory="Cpu"))
            x = np.ones((2, 4), np.float32)
            for _ in range(3):
                np.testing.assert_array_equal(rep.run([x])[0], Expected(chain())(x)[0])

    def test_sessions_that_cannot_capture(self):
        cuda = {CUDA: {"enable_cuda_graph": "1"}}
        for problem, options, graph in (
            (r"'X' is tensor\(string\)", cuda, "(string[1] X) => (string[1] Y) { Y = Identity (X) }"),
            (
                r"'Y' is seq\(tensor\(float\)\)",
                cuda,
                "(float[2,4] X) => (seq(float[]) Y) { Y = SequenceConstruct (X) }",
            ),
            (
                "both capture",
                {TENSORRT: {"trt_cuda_graph_enable": "1"}, **cuda},
                "(float[2,4] X) => (float[2,4] Y) { Y = Neg (X) }",
            ),
        ):
            self.check_problem(problem, options, parsed(graph))

    def test_webgpu_of_an_ort_without_the_means(self):
        class OldInner:
            pass

        asked = SessionOptions()
        session = self.session({"WebGpuExecutionProvider": {}})
        with (
            mock.patch.object(session, "_sess", OldInner()),
            mock.patch.object(session, "get_session_options", lambda: asked),
        ):
            self.assertIsNone(capture_of(session))
            asked.add_session_config_entry("ep.webgpuexecutionprovider.enableGraphCapture", "1")
            self.assertRegex(capture_of(session).problem, "only models that prepare opens are checked")


class RunOptionsTest(unittest.TestCase):
    """Run options for a caller's IO binding, on a session that does not capture."""

    def test_run_options_are_fresh(self):
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
