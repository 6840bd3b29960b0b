# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A prepared model besides its runs: closing, ``with``, ``repr``, pickling; runs with a time limit or cancelled."""

from __future__ import annotations

import copy
import gc
import pickle
import tempfile
import threading
import time
import unittest
import warnings
import weakref
from pathlib import Path
from unittest import mock

import numpy as np
from backend_test_models import model, two_nodes
from onnx import ModelProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.errors import InputError, NotPermittedError
from onnxruntime.backend.runs.limits import Cancellation, RunCancelledError

CPU = "CPUExecutionProvider"
SPINNING = "session.intra_op.allow_spinning"
SHRINKING = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
X = np.ones((2, 3), np.float32)


def slow() -> ModelProto:
    """A model that runs for seconds on one thread, of nodes that each take milliseconds: ``Y = X`` multiplied by W."""
    nodes = [
        helper.make_node("MatMul", ["X" if index == 0 else f"n{index}", "W"], [f"n{index + 1}"])
        for index in range(3000)
    ]
    nodes.append(helper.make_node("Identity", ["n3000"], ["Y"]))
    return model(nodes, {"X": (400, 400)}, {"Y": (400, 400)}, {"W": np.eye(400, dtype=np.float32)})


class ClosingTest(unittest.TestCase):
    def test_closing_lets_go_of_the_session(self) -> None:
        rep = onnxruntime.backend.prepare(two_nodes())
        gone = weakref.ref(rep.session)
        gc.disable()
        try:
            rep.close()
            self.assertIsNone(gone())
        finally:
            gc.enable()

    def test_a_closed_model_says_so(self) -> None:
        rep = onnxruntime.backend.prepare(two_nodes(), provider_options={CPU: {}})
        rep.run([X])
        rep.close()
        rep.close()
        for use in (
            lambda: rep.run([X]),
            lambda: rep.run("no input"),
            lambda: rep.run([X], run_config={"gpu_graph_id": 3}),
            lambda: rep.run([X], timeout=1),
            lambda: rep.providers,
            lambda: rep.node_assignment,
            lambda: rep.session,
            lambda: rep.with_run_config({}),
            rep.run_options,
            lambda: onnxruntime.backend.prepare(rep, run_config={"gpu_graph_id": 3}),
        ):
            with self.assertRaisesRegex(RuntimeError, "the prepared model is closed"):
                use()
        self.assertIn("closed", repr(rep))
        self.assertEqual(dict(rep.provider_options), {CPU: {}})  # what became of it stays to be read

    def test_others_on_the_same_session_stay_open(self) -> None:
        rep = onnxruntime.backend.prepare(two_nodes())
        other = rep.with_run_config({"gpu_graph_id": 3})
        rep.close()
        np.testing.assert_array_equal(other.run([X])[0], X)

    def test_with(self) -> None:
        with onnxruntime.backend.prepare(two_nodes()) as rep:
            rep.run([X])
        with self.assertRaisesRegex(RuntimeError, "closed"):
            rep.run([X])

    def test_a_run_under_way_ends_as_it_would(self) -> None:
        rep = onnxruntime.backend.prepare(slow(), provider_options={CPU: {}}, intra_op_num_threads=1)
        values = np.eye(400, dtype=np.float32)
        cancellation, ended = Cancellation(), []

        def run() -> None:
            try:
                rep.run([values], cancellation=cancellation)
            except RunCancelledError:
                ended.append("cancelled")

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.1)
        rep.close()
        cancellation.cancel()
        thread.join()
        self.assertEqual(ended, ["cancelled"])


class DescriptionTest(unittest.TestCase):
    def test_repr(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "some model\x1b.onnx")
            path.write_bytes(two_nodes().SerializeToString())
            rep = onnxruntime.backend.prepare(
                str(path),
                provider_options={CPU: {}},
                session_config={SPINNING: 0},
                run_config=SHRINKING,
                intra_op_num_threads=2,
            )
        self.assertEqual(
            repr(rep),
            f"<OnnxRuntimeBackendRep of 'some model\\x1b.onnx' on {CPU}, provider_options={{'{CPU}': {{}}}}, "
            f"session_options={{'intra_op_num_threads': 2}}, session_config={{'{SPINNING}': '0'}}, "
            f"run_config={SHRINKING}>",
        )
        plain = repr(onnxruntime.backend.prepare(two_nodes()))
        self.assertRegex(plain, rf"^<OnnxRuntimeBackendRep of graph 'test' on .*{CPU}>$")

    def test_attributes_are_read_back(self) -> None:
        named = {"intra_op_num_threads": 2, "logid": "mine", "enable_mem_reuse": False}
        rep = onnxruntime.backend.prepare(two_nodes(), session_options=named, execution_order="PRIORITY_BASED")
        order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        self.assertEqual(rep.session_options, {**named, "execution_order": order})
        self.assertEqual(rep.warnings, ())
        self.assertEqual(onnxruntime.backend.prepare(two_nodes()).session_options, {})

    def test_an_attribute_that_ort_changed_is_told(self) -> None:
        # As the EP of DirectML does, which has no memory patterns.
        changed = onnxruntime.SessionOptions()
        changed.enable_mem_pattern = False
        with (
            mock.patch.object(onnxruntime.InferenceSession, "get_session_options", lambda _: changed),
            self.assertWarnsRegex(RuntimeWarning, "enable_mem_pattern was set to True, and the session has False"),
        ):
            rep = onnxruntime.backend.prepare(two_nodes(), enable_mem_pattern=True)
        self.assertEqual(rep.session_options, {"enable_mem_pattern": False})
        self.assertEqual(rep.unconfirmed, {"session_options": ("enable_mem_pattern",)})

    def test_pickling_says_what_to_do_instead(self) -> None:
        rep = onnxruntime.backend.prepare(two_nodes())
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "prepare it there, from the model and its configuration"):
                attempt(rep)

    def test_warnings_are_kept(self) -> None:
        key = "session.intra_op.something_new"
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rep = onnxruntime.backend.prepare(two_nodes(), session_config={key: "1"})
            self.assertEqual(len(rep.warnings), 1)
            self.assertIn(key, rep.warnings[0])
        self.assertEqual(onnxruntime.backend.prepare(two_nodes()).warnings, ())


class LimitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.values = np.eye(400, dtype=np.float32)
        cls.rep = onnxruntime.backend.prepare(slow(), provider_options={CPU: {}}, intra_op_num_threads=1)

    def still_right(self) -> None:
        """A run of the same prepared model, made short by being cancelled at once, and one of another that ends."""
        with onnxruntime.backend.prepare(two_nodes()) as rep:
            np.testing.assert_array_equal(rep.run([X], timeout=60)[0], X)

    def test_a_run_that_takes_too_long(self) -> None:
        threads = threading.active_count()
        started = time.monotonic()
        with self.assertRaisesRegex(TimeoutError, "longer than 0.2 s"):
            self.rep.run([self.values], timeout=0.2)
        self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(threading.active_count(), threads)
        self.still_right()

    def test_the_prepared_model_is_usable_afterwards(self) -> None:
        nodes = [helper.make_node("Loop", ["n", "go", "X"], ["Y"], body=self.body())]
        looping = model(nodes, {"n": (), "X": (2,)}, {"Y": (2,)})
        looping.graph.input[0].type.tensor_type.elem_type = 7
        looping.graph.initializer.add(data_type=9, name="go", int32_data=[1])
        rep = onnxruntime.backend.prepare(looping, provider_options={CPU: {}})
        few = {"n": np.array(3, np.int64), "X": np.zeros(2, np.float32)}
        with self.assertRaises(TimeoutError):
            rep.run({**few, "n": np.array(2**40, np.int64)}, timeout=0.2)
        for limits in ({}, {"timeout": 60}, {"cancellation": Cancellation()}):
            np.testing.assert_array_equal(rep.run(few, **limits)[0], [3, 3])

    def body(self):
        inputs = [
            helper.make_tensor_value_info("i", 7, ()),
            helper.make_tensor_value_info("c", 9, ()),
            helper.make_tensor_value_info("x", 1, (2,)),
        ]
        outputs = [helper.make_tensor_value_info("d", 9, ()), helper.make_tensor_value_info("y", 1, (2,))]
        one = helper.make_tensor("one", 1, (), [1.0])
        nodes = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["x", "one"], ["y"])]
        return helper.make_graph(nodes, "body", inputs, outputs, [one])

    def test_a_run_that_another_thread_cancels(self) -> None:
        threads = threading.active_count()
        cancellation = Cancellation()
        timer = threading.Timer(0.2, cancellation.cancel)
        timer.start()
        with self.assertRaisesRegex(RunCancelledError, "cancelled"):
            self.rep.run([self.values], cancellation=cancellation)
        timer.join()
        self.assertEqual(threading.active_count(), threads)
        self.assertTrue(cancellation.cancelled)
        with self.assertRaises(RunCancelledError):  # it stays cancelled
            self.rep.run([self.values], cancellation=cancellation)
        self.still_right()

    def test_one_cancellation_for_several_runs(self) -> None:
        cancellation, ended = Cancellation(), []

        def run() -> None:
            try:
                self.rep.run([self.values], cancellation=cancellation, timeout=60)
            except RunCancelledError:
                ended.append(1)

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        cancellation.cancel()
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(ended), 3)
        self.assertEqual(cancellation._runs, [])

    def test_an_error_of_the_run_stays_what_it_is(self) -> None:
        with self.assertRaises(InputError):
            self.rep.run([X], timeout=60)
        with self.assertRaises(InputError):
            self.rep.run([X], cancellation=Cancellation())

    def test_one_shot_run(self) -> None:
        (y,) = onnxruntime.backend.run(two_nodes(), [X], timeout=60, cancellation=Cancellation())
        np.testing.assert_array_equal(y, X)
        cancelled = Cancellation()
        cancelled.cancel()
        with self.assertRaises(RunCancelledError):
            onnxruntime.backend.run(two_nodes(), [X], cancellation=cancelled)

    def test_with_a_run_config(self) -> None:
        with onnxruntime.backend.prepare(two_nodes()) as rep:
            rep.run([X], timeout=60, run_config={"memory.enable_memory_arena_shrinkage": "cpu:0"}, logid="a")
            with self.assertRaises(NotPermittedError):
                rep.run([X], timeout=60, run_config={"no.such": 1})

    def test_what_is_no_limit(self) -> None:
        for timeout in (0, -1, True, "1", float("nan"), float("inf"), 1e9, [1], 10**400):
            with self.subTest(timeout=timeout), self.assertRaisesRegex(NotPermittedError, "number of seconds"):
                self.rep.run([self.values], timeout=timeout)
        for cancellation in (True, "x", threading.Event()):
            with self.assertRaisesRegex(TypeError, "must be an onnxruntime.backend.Cancellation"):
                self.rep.run([self.values], cancellation=cancellation)


if __name__ == "__main__":
    unittest.main()
