# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the replacement of an OpenVINO session after a failed run.

The environment variable ``ORT_BACKEND_MIXED_RUNS`` sets the number of runs for each device and number of threads.
"""

from __future__ import annotations

import itertools
import operator
import os
import random
import sys
import tempfile
import threading
import time
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
from backend_test_execution_providers import OPENVINO, register_openvino_plugin
from backend_test_models import model
from onnx import helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.session import state
from onnxruntime.backend.session.replacement import Replacement

MIXED_RUNS = int(os.environ.get("ORT_BACKEND_MIXED_RUNS", "60"))
WIDTH = 8
# Messages of errors that ORT raises outside of the EP.
INVALID_SHAPE = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: x"
TERMINATED = "[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true."


class FakeSession(onnxruntime.InferenceSession):
    """A session whose inner session is a list of EPs."""

    def __init__(self) -> None:
        self._providers = [object()]

    def set_providers(self) -> None:
        self._providers = [object()]


class ReplacementTest(unittest.TestCase):
    """Runs without an EP."""

    def setUp(self) -> None:
        self.session = FakeSession()
        self.first = self.session._providers
        self.replacement = Replacement(FakeSession.set_providers)

    def test_other_eps_have_none(self) -> None:
        session = onnxruntime.InferenceSession(two_rows().SerializeToString(), providers=["CPUExecutionProvider"])
        self.assertIsNone(state.of(session).replacement_of(session))

    def run_one(self, compute, options=None) -> object:
        """Return the outputs of ``compute``, a function of the inner session."""
        return self.replacement.run(self.session, options, lambda: compute(self.session._providers))

    def computed_by(self, inner: object) -> object:
        return inner

    def fail(self, inner: object) -> None:
        raise ValueError("failed")

    def assert_replaced(self) -> None:
        inner = self.run_one(self.computed_by)
        self.assertIsNot(inner, self.first)
        self.assertIs(inner, self.session._providers)
        self.assertIs(self.run_one(self.computed_by), inner)

    def test_a_run_after_a_failed_run_has_a_new_inner_session(self) -> None:
        for _ in range(2):
            self.first = self.session._providers
            self.assertIs(self.run_one(self.computed_by), self.first)
            with self.assertRaises(ValueError):
                self.run_one(self.fail)
            self.assert_replaced()

    def test_an_error_outside_of_the_ep_keeps_the_inner_session(self) -> None:
        for text in (INVALID_SHAPE, TERMINATED):

            def refuse(inner: object, text=text) -> None:
                raise RuntimeError(text)

            with self.assertRaises(RuntimeError):
                self.run_one(refuse)
            self.assertIs(self.run_one(self.computed_by), self.first)

    def test_an_error_that_quotes_such_an_error_does_not(self) -> None:
        for text in (INVALID_SHAPE, TERMINATED):
            self.first = self.session._providers

            def fail(inner: object, text=text) -> None:
                raise RuntimeError(f"Non-zero status code returned while running {text}")

            with self.assertRaises(RuntimeError):
                self.run_one(fail)
            self.assert_replaced()

    def test_an_interrupt_beside_a_right_run_keeps_the_inner_session(self) -> None:
        def interrupt(inner: object) -> None:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.run_one(interrupt)
        self.assertIs(self.run_one(self.computed_by), self.first)

    def test_an_interrupt_after_an_error_counts_as_a_failed_run(self) -> None:
        def interrupt(inner: object) -> None:
            try:
                raise RuntimeError(TERMINATED)
            except RuntimeError:
                raise KeyboardInterrupt(TERMINATED) from None

        with self.assertRaises(KeyboardInterrupt):
            self.run_one(interrupt)
        self.assert_replaced()

    def test_an_interrupt_hides_no_failed_run(self) -> None:
        for moment in range(200):
            self.setUp()
            failed, calls = [], itertools.count()

            def interrupt(
                frame: object, event: str, function: object, failed=failed, calls=calls, moment=moment
            ) -> None:
                if event == "c_exception" and function is operator.index:
                    failed.append(self.first)
                # Python calls no signal handler at other events.
                elif event in ("call", "c_call", "c_return") and function is not sys.setprofile:
                    if next(calls) == moment:
                        raise KeyboardInterrupt

            sys.setprofile(interrupt)
            ended = False
            try:
                self.run_one(operator.index)  # a TypeError
            except KeyboardInterrupt:
                pass
            except TypeError:
                ended = True
            sys.setprofile(None)
            with ThreadPoolExecutor(1) as pool:  # another thread, for which the lock must be free
                self.assertNotIn(pool.submit(self.run_one, self.computed_by).result(20), failed)
            if ended:
                return
        self.fail("200 moments were not enough")

    def test_runs_of_several_threads_follow_one_another(self) -> None:
        computing, most = [], []

        def compute(inner: object) -> None:
            computing.append(inner)
            most.append(len(computing))
            time.sleep(0.001)
            computing.pop()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.run_one, [compute] * 40))
        self.assertEqual(set(most), {1})

    def test_a_run_that_waits_can_be_canceled(self) -> None:
        begun, may_end, options = threading.Event(), threading.Event(), onnxruntime.RunOptions()

        def compute(inner: object) -> bool:
            begun.set()
            return may_end.wait(20)

        with ThreadPoolExecutor(2) as pool:
            other = pool.submit(self.run_one, compute)
            self.assertTrue(begun.wait(20))
            waiting = pool.submit(self.run_one, self.computed_by, options)
            options.terminate = True
            self.assertIsInstance(waiting.exception(20), RuntimeError)
            may_end.set()
            self.assertTrue(other.result(20))
        self.assertIs(self.run_one(self.computed_by), self.first)

    def test_a_run_inside_a_run(self) -> None:
        """A signal handler or a finalizer can start a run in a thread that runs the session."""
        self.assertIs(self.run_one(lambda inner: self.run_one(self.computed_by)), self.first)

        def fail_inside(inner: object) -> object:
            if inner is self.first:
                with self.assertRaises(ValueError):
                    self.run_one(self.fail)
            return inner

        def fail_because_of_it(inner: object) -> object:
            if fail_inside(inner) is self.first:
                raise ValueError("because of the other run")
            return inner

        for compute in (fail_inside, fail_because_of_it):
            self.first = self.session._providers
            self.assertIsNot(self.run_one(compute), self.first)

        def interrupt_after_it(inner: object) -> None:
            if fail_inside(inner) is self.first:
                raise KeyboardInterrupt

        self.first = self.session._providers
        with self.assertRaises(KeyboardInterrupt):
            self.run_one(interrupt_after_it)
        self.assert_replaced()

    def test_a_session_that_cannot_be_replaced_raises_from_then_on(self) -> None:
        self.replacement = Replacement(self.fail)
        for _ in range(3):
            with self.assertRaises(ValueError):
                self.run_one(self.fail)
        with self.assertRaises(ValueError):
            self.run_one(self.computed_by)

    def test_an_inner_session_of_the_caller_is_used(self) -> None:
        self.replacement = Replacement(self.fail)
        with self.assertRaises(ValueError):
            self.run_one(self.fail)
        self.session.set_providers()
        self.assert_replaced()

    def test_a_replacement_that_fails_is_tried_again(self) -> None:
        calls = itertools.count()

        def fail_once(session: FakeSession) -> None:
            if next(calls) == 0:
                raise RuntimeError("no file")
            session.set_providers()

        self.replacement = Replacement(fail_once)
        for error in (ValueError, RuntimeError):
            with self.assertRaises(error):
                self.run_one(self.fail if error is ValueError else self.computed_by)
        self.assert_replaced()


BUILT_IN = OPENVINO in onnxruntime.get_available_providers()
DEVICES = [{OPENVINO: {}}, {OPENVINO: {"num_of_threads": 2, "num_streams": 2}}]
if BUILT_IN:
    DEVICES += [{OPENVINO: {"device_type": device}} for device in ("AUTO:CPU", "HETERO:CPU")]
else:
    DEVICES.append({f"{OPENVINO}.AUTO": {}})


def two_rows(name: str = "N") -> object:
    """``y = x + s``. ORT finds out in the run whether ``x`` and ``s`` have the same number of rows."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "s"], ["y"])]
    inputs = {"x": [name, WIDTH], "s": ["M", WIDTH]}
    return model(nodes, inputs, {"y": ["K", WIDTH]}, {"w": np.eye(WIDTH, dtype=np.float32)})


def rows(count: int, value: float) -> np.ndarray:
    return np.full((count, WIDTH), value, np.float32)


def fail_once(test: unittest.TestCase, rep) -> None:
    with test.assertRaises(Exception):  # noqa: B017 # ORT's own Fail or RuntimeException
        rep.run([rows(3, 1000), rows(5, 777)])


@unittest.skipUnless(BUILT_IN or register_openvino_plugin(), f"needs {OPENVINO}, built-in or plugin")
class OpenVinoTest(unittest.TestCase):
    def prepare(self, device: dict = DEVICES[0], made=None):
        # In bfloat16, which is a default of OpenVINO, small integers are exact.
        return onnxruntime.backend.prepare(made or two_rows(), provider_options=device)

    def assert_right(self, rep, count: int = 1, value: float = 2) -> None:
        np.testing.assert_array_equal(rep.run([rows(count, value), rows(count, 1)])[0], rows(count, value + 1))

    def test_mixed_runs(self) -> None:
        for device, threads in itertools.product(DEVICES, (1, 6)):
            rep, wrong = self.prepare(device), []

            def run_some(seed: int, rep=rep, threads=threads, wrong=wrong) -> None:
                choose = random.Random(seed)
                for _ in range(MIXED_RUNS // threads):
                    x, s = choose.randint(1, 4), choose.randint(1, 4)
                    s = x if s == 1 else s
                    a, b = choose.randint(0, 60), choose.randint(0, 60)
                    fails = x != s and 1 not in (x, s)
                    try:
                        (y,) = rep.run([rows(x, a), rows(s, b)])
                    except Exception as error:
                        if not fails:
                            wrong.append(f"({x}, {s}): {error}")
                    else:
                        if fails or y.shape != (max(x, s), WIDTH) or (y != a + b).any():
                            wrong.append(f"({x}, {s}): {y}, expected {a + b}")

            with self.subTest(device=device, threads=threads), ThreadPoolExecutor(threads) as pool:
                list(pool.map(run_some, range(threads)))
                self.assertEqual(wrong, [])

    def test_reports_stay(self) -> None:
        rep = self.prepare({OPENVINO: {"num_of_threads": 2}})
        same = rep.session

        def reported() -> list:
            return [rep.providers, rep.provider_options, rep.unconfirmed, rep.node_assignment, repr(rep)]

        before = reported()
        inner = rep.session._sess
        fail_once(self, rep)
        self.assert_right(rep)
        self.assertIsNot(rep.session._sess, inner)
        self.assertIs(rep.session, same)
        self.assertEqual(reported(), before)

    def test_each_rep_of_a_session_knows_of_a_failure(self) -> None:
        rep = self.prepare()
        for other in (
            rep.with_run_config({"memory.enable_memory_arena_shrinkage": "cpu:0"}),
            onnxruntime.backend.prepare(rep.session),
            onnxruntime.backend.prepare(rep),
        ):
            for failing, right in ((rep, other), (other, rep)):
                fail_once(self, failing)
                self.assert_right(right)

    def test_eps_that_nobody_specified(self) -> None:
        rep = onnxruntime.backend.prepare(two_rows())
        if OPENVINO not in rep.providers:
            self.skipTest("a plugin EP must be specified")
        fail_once(self, rep)
        self.assert_right(rep)
        self.assertIn(OPENVINO, rep.providers)

    def test_all_routes(self) -> None:
        rep = self.prepare()
        x, s = rows(1, 2), rows(1, 1)
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        for run in (
            lambda: rep.run({"x": x, "s": s}),
            lambda: rep.run([x.tolist(), s.tolist()]),
            lambda: rep.run([value(x), value(s)]),
            lambda: rep.run([x, s], timeout=60),
            lambda: rep.run([x, s], log_severity_level=3),
        ):
            fail_once(self, rep)
            np.testing.assert_array_equal(run()[0], 3)

    def test_free_dimensions(self) -> None:
        options = {"provider_options": {OPENVINO: {}}, "free_dimension_overrides": {"rows": 3}}
        rep = onnxruntime.backend.prepare(two_rows("rows"), **options)
        inner = rep.session._sess
        fail_once(self, rep)
        self.assert_right(rep, 3)
        self.assertIsNot(rep.session._sess, inner)
        self.assertEqual(rep.session.get_inputs()[0].shape, [3, WIDTH])

    def test_inputs_that_ort_rejects_keep_the_session(self) -> None:
        rep = self.prepare()
        inner = rep.session._sess
        for inputs in ([rows(1, 1)], [rows(1, 1)[:, :7], rows(1, 1)], [rows(1, 1)[0], rows(1, 1)], {"x": rows(1, 1)}):
            with self.assertRaises(Exception):  # noqa: B017 # some are ORT's own
                rep.run(inputs)
        self.assert_right(rep)
        self.assertIs(rep.session._sess, inner)

    def test_canceled_runs_keep_the_session(self) -> None:
        rep = self.prepare()
        inner, cancellation = rep.session._sess, onnxruntime.backend.Cancellation()
        cancellation.cancel()
        for value in range(20):
            with self.assertRaises(onnxruntime.backend.RunCancelledError):
                rep.run([rows(3, 1000), rows(3, 777)], cancellation=cancellation)
            self.assert_right(rep, 2, value)
        self.assertIs(rep.session._sess, inner)

    def test_a_session_whose_providers_the_caller_set_is_not_replaced(self) -> None:
        rep = self.prepare()
        fail_once(self, rep)
        rep.session.set_providers(["CPUExecutionProvider"])
        self.assert_right(rep)
        self.assertEqual(rep.session.get_providers(), ["CPUExecutionProvider"])

    def test_a_session_of_the_caller_is_not_replaced(self) -> None:
        options = onnxruntime.SessionOptions()
        if BUILT_IN:
            options.add_provider(OPENVINO, {})
        else:
            devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]
            options.add_provider_for_devices(devices[:1], {})
        session = onnxruntime.InferenceSession(two_rows().SerializeToString(), options)
        session.disable_fallback()
        rep, other = onnxruntime.backend.prepare(session), onnxruntime.backend.prepare(session)
        self.assert_right(rep)
        fail_once(self, rep)
        for each in (rep, other, onnxruntime.backend.prepare(session)):
            with self.assertRaisesRegex(RuntimeError, "cannot replace"):
                each.run([rows(1, 2), rows(1, 1)])

    def test_a_changed_file_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(two_rows().SerializeToString())
            rep = self.prepare(made=path)
            fail_once(self, rep)
            self.assert_right(rep)
            path.write_bytes(two_rows("other").SerializeToString())
            self.assert_right(rep)
            fail_once(self, rep)
            for _ in range(2):
                with self.assertRaises(RuntimeError):
                    rep.run([rows(1, 2), rows(1, 1)])

    def test_changed_external_data_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            made, path = two_rows(), Path(folder, "model.onnx")
            weights = Path(folder, "sub", "w" * 150 + ".bin")
            weights.parent.mkdir()
            location = weights.relative_to(folder).as_posix()
            onnx.save(made, path, save_as_external_data=True, location=location, size_threshold=0)
            rep = self.prepare(made=path)
            fail_once(self, rep)
            self.assert_right(rep)
            content = weights.read_bytes()
            weights.unlink()
            weights.write_bytes(bytes(len(content)))
            self.assert_right(rep)
            fail_once(self, rep)
            with self.assertRaises(RuntimeError):
                rep.run([rows(1, 2), rows(1, 1)])

    def test_a_file_that_changes_while_it_is_read_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(two_rows().SerializeToString())
            rep, replace = self.prepare(made=path), onnxruntime.InferenceSession

            def opened(*arguments, **keywords) -> onnxruntime.InferenceSession:
                session = replace(*arguments, **keywords)
                path.write_bytes(two_rows("other").SerializeToString())
                return session

            fail_once(self, rep)
            with mock.patch.object(eligibility, "InferenceSession", opened), self.assertRaises(RuntimeError):
                rep.run([rows(1, 2), rows(1, 1)])

    def test_an_io_binding_outlives_its_inner_session(self) -> None:
        rep = self.prepare()
        for _ in range(5):
            binding = rep.session.io_binding()
            binding.bind_cpu_input("x", rows(1, 2))
            fail_once(self, rep)
            self.assert_right(rep)
            binding.bind_cpu_input("s", rows(1, 1))
            binding.bind_output("y")
            try:
                rep.session.run_with_iobinding(binding, rep.run_options())
            except ValueError as error:  # from ORT 1.31 on
                self.assertIn("must be used with the session that created it", str(error))
                continue
            np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 3)

    def test_the_session_ends_with_its_last_owner(self) -> None:
        rep = self.prepare()
        rep.session.io_binding()
        ended = threading.Event()
        weakref.finalize(rep.session, ended.set)
        rep.close()
        self.assertTrue(ended.is_set(), "a cycle keeps the session")


if __name__ == "__main__":
    unittest.main()
