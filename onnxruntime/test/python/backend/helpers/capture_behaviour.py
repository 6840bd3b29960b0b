# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of graph capture for every execution provider, which a class for each EP inherits."""

from __future__ import annotations

import gc
import json
import pickle
import shlex
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import onnx

import onnxruntime
import onnxruntime.backend
from helpers.capture import Expected, captured_ids, chain, in_threads, shapes_on_the_cpu, two_inputs
from helpers.capture_inputs import CaptureInputs
from helpers.models import parsed
from onnxruntime.backend import locks
from onnxruntime.backend.capture import graph_ids, graphs
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES


class CaptureBehaviour(CaptureInputs):
    """The tests. A class inherits them together with ``unittest.TestCase``.

    It has a method ``prepare``, which prepares a model with graph capture, and ``ordinary``, which does without.
    """

    # Whether each thread has its own graphs.
    by_thread = False

    # Of the command line, to register a plugin EP.
    flags = ()

    # The lock of the EP's sessions.
    lock: locks.SessionLock

    def test_every_run_has_its_own_inputs(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        with captured_ids(rep) as ids:
            for i in range(200):
                self.check_run(rep, expected, self.data(i, (1, 3, 2)[i % 3], 4))
        self.assertEqual(set(ids), {1024, 1025, 1026})
        self.assertLess(len(ids), 210)

    def test_outputs_of_shapes_and_constants(self):
        constant = "<float[2] k = {-3, -3}> { S = Shape (X) Y = Neg (X) C = Abs (k) }"
        made = parsed(f"(float[N,4] X) => (int64[2] S, float[N,4] Y, float[2] C) {constant}")
        rep, expected = self.prepare(made), Expected(made)
        for i in range(6):
            x = self.data(i, 1 + i % 2, 4)
            got = rep.run([x])
            self.check(got, expected(x))
            for output in got:  # which are the caller's
                output[:] = 77

    def interrupt(self, rep, x: np.ndarray, error: type[BaseException] = KeyboardInterrupt, **keywords) -> None:
        """Interrupt a run while ORT captures, or immediately afterwards."""
        with mock.patch.object(graphs.Capture, "_replay", side_effect=error), self.assertRaises(error):
            rep.run([x], **keywords)

    def test_an_interrupted_first_run(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        x = self.data(0, 3, 4)
        self.interrupt(rep, x)
        with captured_ids(rep) as ids:
            for model in (rep, onnxruntime.backend.prepare(rep.session)):
                self.check(model.run([x]), expected(x))
        self.assertEqual(set(ids), {1025})  # a graph captured under the first id is never replayed
        self.interrupt(rep, x, run_config={"gpu_graph_id": 5})
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "first run with gpu_graph_id=5 failed. Choose another id"):
                rep.run([x], run_config={"gpu_graph_id": 5})
        self.check(rep.run([x], run_config={"gpu_graph_id": 6}), expected(x))

    def test_failing_for_ever_is_bounded(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        x = self.data(0, 3, 4)
        with mock.patch.object(graph_ids, "MOST_GRAPHS", 3):
            for error in (KeyboardInterrupt, OSError, OSError):
                self.interrupt(rep, x, error)
            with self.assertWarnsRegex(RuntimeWarning, "3 graphs"):
                self.check(rep.run([x]), expected(x))

    def test_a_replay_that_differs(self):
        # Returns the outputs of the first run of a binding for all its runs.
        class Stale:
            def __init__(self, inner) -> None:
                self.inner, self.first = inner, None

            def copy_outputs_to_cpu(self):
                self.first = self.first or self.inner.copy_outputs_to_cpu()
                return [*self.first]

        rep, expected = self.prepare(two_inputs()), Expected(two_inputs())

        Graph = graphs.Graph  # noqa: N806

        def begin_stale(*arguments):
            graph = Graph(*arguments)
            graph.inner_binding = Stale(graph.inner_binding)
            return graph

        a, b = self.data(0, 5), self.data(1, 5)
        with mock.patch.object(graphs, "Graph", begin_stale):
            for _ in range(2):
                with self.assertRaisesRegex(RuntimeError, "wrong values for output 'Y', 'Z':.*'gpu_graph_id': -1"):
                    rep.run([a, b])
        self.check(rep.run([a, b], run_config={"gpu_graph_id": -1}), expected(a, b))

    def test_disabled_optimizers(self):
        key = "optimization.disable_specified_optimizers"
        for text in ("", "ConstantFolding"):
            rep = self.prepare(chain(), session_config={key: text})
            self.assertEqual(rep.session_config, {key: text})

    def test_limits(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        cancellation = onnxruntime.backend.Cancellation()
        without_capture = {"run_config": {"gpu_graph_id": -1}}
        x = self.data(0, 3, 4)
        for _ in range(2):
            for limits in ({"timeout": 30}, {"cancellation": cancellation}):
                with self.assertRaises(onnxruntime.backend.NotPermittedError) as raised:
                    rep.run([x], **limits)
                self.assertEqual(raised.exception.keyword, *limits)
                self.check(rep.run([x], **limits, **without_capture), expected(x))
            with mock.patch("onnxruntime.backend.backend_rep.Limits", side_effect=AssertionError("not limited")):
                for limits in ({}, {"timeout": None}, {"timeout": None, "cancellation": None}):
                    self.check(rep.run([x], **limits), expected(x))
        cancellation.cancel()
        with self.assertRaises(onnxruntime.backend.RunCancelledError):
            rep.run([x], cancellation=cancellation, **without_capture)
        self.check(rep.run([x], **without_capture), expected(x))

    def test_limits_cover_the_wait_for_other_sessions(self):
        rep, plain, lock = self.prepare(chain()), self.ordinary(chain()), self.lock
        x, inside, go_on = self.data(0, 3, 4), threading.Event(), threading.Event()
        rep.run([x])

        def other() -> None:
            with lock.alone():
                inside.set()
                go_on.wait(60)

        thread = threading.Thread(target=other)
        thread.start()
        self.assertTrue(inside.wait(60))
        try:
            with self.assertRaises(TimeoutError):
                rep.run([x], timeout=0.1, run_config={"gpu_graph_id": -1})
            with self.assertRaises(TimeoutError):
                plain.run([x], timeout=0.1)
        finally:
            go_on.set()
            thread.join()

    def test_sizes_of_free_dimensions(self):
        """ORT does not capture the model with a free dimension. Two sizes have one prepared model each."""
        made = shapes_on_the_cpu()
        with self.assertRaises(onnxruntime.backend.NotPermittedError) as raised:
            self.prepare(made)
        error = raised.exception
        self.assertEqual(pickle.loads(pickle.dumps(error)).reason, error.reason)
        self.assertEqual(CAPTURE_SWITCHES[error.provider], error.key)
        self.assertIn(error.value, ("True", "'1'"))
        self.assertRegex(str(error), r"Equal 1, Where 1.*With free_dimension_overrides=\{'batch': 1\}.*ORT error")
        sizes = (1, 3)
        reps = [self.prepare(made, free_dimension_overrides={"batch": size}) for size in sizes]
        expected = Expected(made)
        for i in range(6):
            for size, rep in zip(sizes, reps, strict=True):
                x = self.data(i, size, 4)
                self.check(rep.run([x]), expected(x))

    def test_inspect(self):
        """The command line proposes the sizes, and a command that works."""
        with self.assertRaises(onnxruntime.backend.NotPermittedError) as raised:
            self.prepare(shapes_on_the_cpu())
        error = raised.exception
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            onnx.save(shapes_on_the_cpu(), path)
            command = [sys.executable, "-m", "onnxruntime.backend", "inspect", path, "--json", *self.flags]
            command += ["--provider-option", f"{error.provider}.{error.key}=1"]
            ran = subprocess.run(command, capture_output=True, check=True)
            found = json.loads(ran.stdout)
            providers = {one["name"]: one for one in found["providers"]}
            self.assertIs(providers[error.provider]["captures"], True)
            self.assertEqual(found["run"]["free_dimensions"], {"batch": 1})
            words = shlex.split(found["run"]["command"])
            subprocess.run([sys.executable, *words[1:], "--compare"], capture_output=True, check=True)

    def test_several_graph_ids(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        with captured_ids(rep) as ids:
            for i in range(30):
                graph_id = (0, 1, 7, 1023, None)[i % 5]
                x = self.data(i, 2 if graph_id == 7 else 3, 4)
                config = {} if graph_id is None else {"gpu_graph_id": graph_id}
                self.check(rep.run([x], run_config=config), expected(x))
        self.assertEqual(set(ids), {0, 1, 7, 1023, 1028})

    def test_without_capture(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        with captured_ids(rep) as ids:
            for i in range(12):
                self.check_run(rep, expected, self.data(i, 3, 4), run_config={"gpu_graph_id": -1})
            self.assertEqual(ids, [])
            for i in range(12):
                self.check_run(rep, expected, self.data(i, 3, 4), run_config={"gpu_graph_id": -1} if i % 2 else None)
        self.check_run(self.prepare(chain(), run_config={"gpu_graph_id": -1}), expected, self.data(0, 3, 4))

    def test_eight_threads(self):
        rep, expected = self.prepare(chain(20)), Expected(chain(20))

        def work(thread: int) -> None:
            for i in range(25):
                self.check_run(rep, expected, self.data(100 * thread + i, 1 + thread % 2, 4))

        with captured_ids(rep) as ids:
            in_threads(8, work)
        # Two shapes make two graphs, or each thread has one.
        self.assertEqual(set(ids), set(range(1024, 1032 if self.by_thread else 1026)))

    def test_two_prepared_models_on_one_session(self):
        first, expected = self.prepare(chain(20)), Expected(chain(20))
        second = onnxruntime.backend.prepare(first.session, run_config={"gpu_graph_id": 9})
        third = onnxruntime.backend.prepare(first.session)
        reps = ((first, 0), (second, 1000), (third, 2001))

        def work(thread: int) -> None:
            rep, seed = reps[thread]
            for i in range(30):
                # Each model has the shapes in another order: automatic ids must be counted for the session.
                x = self.data(seed + i, 1 + (seed + i) % 3, 4)
                if rep is second:
                    x = x[:1]
                self.check(rep.run([x]), expected(x))

        with captured_ids(first) as ids:
            in_threads(3, work)
        self.assertEqual(len(set(ids)), 7 if self.by_thread else 4)
        self.assertIn(9, ids)

    def test_two_sessions_in_two_threads(self):
        expected = Expected(chain(20))

        def work(thread: int) -> None:
            for _ in range(3):
                rep = self.prepare(chain(20))
                for i in range(40):
                    self.check_run(rep, expected, self.data(100 * thread + i, 3, 4))
                del rep
                gc.collect()

        in_threads(2, work)

    def test_outputs_are_the_callers(self):
        rep = self.prepare(chain())
        outputs = [rep.run([self.data(i, 3, 4)])[0] for i in range(20)]
        copies = [output.copy() for output in outputs]
        for i in range(20):
            rep.run([self.data(50 + i, 3, 4)])
        for output, copy in zip(outputs, copies, strict=True):
            np.testing.assert_array_equal(output, copy)
        self.assertTrue(all(output.flags.writeable for output in outputs))
        self.assertFalse(any(np.shares_memory(a, b) for i, a in enumerate(outputs) for b in outputs[:i]))

    def test_live_graphs_are_bounded(self):
        rep, expected = self.prepare(chain()), Expected(chain())
        most, recording = (
            mock.patch.object(graph_ids, "MOST_GRAPHS", 3),
            warnings.catch_warnings(record=True, action="always"),
        )
        with most, captured_ids(rep) as ids, recording as caught:
            for i in range(24):
                x = self.data(i, 1 + i % 6, 4)
                config = {"gpu_graph_id": 40} if i % 6 == 5 else None
                self.check(rep.run([x], run_config=config), expected(x))
        self.assertEqual(set(ids), {1024, 1025, 1026})
        self.assertEqual([warning.category for warning in caught], [RuntimeWarning])
        self.assertIn("3 graphs", str(caught[0].message))

    def test_the_run_carries_its_configuration(self):
        rep = self.prepare(chain())
        x = self.data(0, 3, 4)
        rep.run([x])
        with mock.patch.object(rep.session, "run_with_iobinding", wraps=rep.session.run_with_iobinding) as ran:
            rep.run([x], logid="captured", run_config={"gpu_graph_id": 11})
            rep.run([x])
        first, last = ran.call_args_list[0].args[1], ran.call_args_list[-1].args[1]
        self.assertEqual((first.logid, first.get_run_config_entry("gpu_graph_id")), ("captured", "11"))
        self.assertEqual((last.logid, last.get_run_config_entry("gpu_graph_id")), ("", "1024"))

    def test_a_graph_id_of_the_callers_own(self):
        rep = self.prepare(chain(), run_config={"gpu_graph_id": 5})
        x = self.data(0, 3, 4)
        # The prepared id is reserved before the first run.
        with self.assertRaisesRegex(RuntimeError, r"gpu_graph_id=5 is used by run\(\)"):
            rep.run_options()
        rep.run([x], run_config={"gpu_graph_id": 6})
        with self.assertRaisesRegex(RuntimeError, r"gpu_graph_id=6 is used by run\(\)"):
            rep.run_options({"gpu_graph_id": 6})
        self.assertEqual(rep.run_options({"gpu_graph_id": 8}).get_run_config_entry("gpu_graph_id"), "8")
        with self.assertRaisesRegex(RuntimeError, "gpu_graph_id=8 is used by run_options"):
            rep.run([x], run_config={"gpu_graph_id": 8})
        with self.assertRaisesRegex(RuntimeError, "gpu_graph_id=8 is used by run_options"):
            rep.with_run_config({"gpu_graph_id": 8})
        with self.assertRaisesRegex(RuntimeError, "gpu_graph_id=8 is used by run_options"):
            rep.run([x], run_config={"gpu_graph_id": 8})
        # Without an id, ORT uses 0.
        plain = onnxruntime.backend.prepare(rep.session)
        plain.run_options()
        with self.assertRaisesRegex(RuntimeError, "gpu_graph_id=0 is used by run_options"):
            plain.run([x], run_config={"gpu_graph_id": 0})
