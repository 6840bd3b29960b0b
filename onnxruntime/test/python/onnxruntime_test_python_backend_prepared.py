# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A prepared model besides its runs: closing, ``with``, ``repr``, pickling."""

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
from backend_test_models import slow, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.runs.limits import Cancellation, RunCancelledError

CPU = "CPUExecutionProvider"
SPINNING = "session.intra_op.allow_spinning"
SHRINKING = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
X = np.ones((2, 3), np.float32)


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


if __name__ == "__main__":
    unittest.main()
