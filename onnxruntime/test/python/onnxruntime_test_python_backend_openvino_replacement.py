# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the replacement of an OpenVINO session after a failed run.

The environment variable ``ORT_BACKEND_MIXED_RUNS`` sets the number of runs for each device and number of threads.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
import threading
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
from backend_test_execution_providers import OPENVINO, register_openvino_plugin
from backend_test_locks import Interrupter
from backend_test_models import parsed

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.openvino.replacement import Origin
from onnxruntime.backend.session import opening

MIXED_RUNS = int(os.environ.get("ORT_BACKEND_MIXED_RUNS", "60"))
WIDTH = 8


BUILT_IN = OPENVINO in onnxruntime.get_available_providers()
DEVICES = [{OPENVINO: {}}, {OPENVINO: {"num_of_threads": 2, "num_streams": 2}}]
if BUILT_IN:
    DEVICES += [{OPENVINO: {"device_type": device}} for device in ("AUTO:CPU", "MULTI:CPU", "HETERO:CPU")]
else:
    DEVICES.append({f"{OPENVINO}.AUTO": {}})


def two_rows(name: str = "N") -> object:
    """``y = x + s``. ORT finds out in the run whether ``x`` and ``s`` have the same number of rows."""
    values = f"(float[{name}, {WIDTH}] x, float[M, {WIDTH}] s) => (float[K, {WIDTH}] y)"
    return parsed(f"{values} {{ a = MatMul (x, w) y = Add (a, s) }}", w=np.eye(WIDTH, dtype=np.float32))


def rows(count: int, value: float) -> np.ndarray:
    return np.full((count, WIDTH), value, np.float32)


def fail_once(test: unittest.TestCase, rep) -> None:
    with test.assertRaises(Exception):  # noqa: B017 # ORT's own Fail or RuntimeException
        rep.run([rows(3, 1000), rows(5, 777)])


class InterruptTest(unittest.TestCase):
    """Ctrl-C in the middle of a replacement, with sessions of the CPU EP."""

    def test_at_each_step(self) -> None:
        """The next replacement succeeds, and an interrupt replaces the whole session or nothing."""
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool is in use")
        content = two_rows().SerializeToString()

        def create() -> onnxruntime.InferenceSession:
            return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

        for moment in range(1000):
            session, fresh = create(), create()
            origin = Origin(content, lambda fresh=fresh: fresh)
            origin.created = session._providers
            with Interrupter(moment) as interrupter:
                origin.renew(session)
            self.assertEqual(session._sess is fresh._sess, session._providers is fresh._providers)
            Origin.renew(origin, session)
            self.assertIs(session._sess, fresh._sess)
            if not interrupter.interrupted:
                break
        self.assertFalse(interrupter.interrupted)
        self.assertGreater(moment, 5)


@unittest.skipUnless(BUILT_IN or register_openvino_plugin(), f"needs {OPENVINO}, built-in or plugin")
class OpenVinoTest(unittest.TestCase):
    def test_whether_runs_are_parallel_is_reported(self) -> None:
        fixed, free = (f"(float[{size}] X) => (float[{size}] Y) {{ Y = Relu (X) }}" for size in (2, "N"))
        two, sizes = {"provider_options": {OPENVINO: {"num_of_threads": 2}}}, {"free_dimension_overrides": {"N": 4}}
        for text, keywords, why in (
            (fixed, two, "^$"),
            (fixed, {}, "^$"),
            (free, two, r"free_dimension_overrides=\{'N': "),
            (free, two | sizes, "^$"),
            ("(string[1] X) => (string[1] Y) { Y = StringConcat (X, X) }", {}, "^$"),
        ):
            with self.subTest(text, keywords=keywords):
                rep = onnxruntime.backend.prepare(parsed(text), **keywords)
                self.assertRegex(rep.why_serial, why)
        unnamed = parsed(free)
        for value in (*unnamed.graph.input, *unnamed.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = "?"
        rep = onnxruntime.backend.prepare(unnamed, provider_options={OPENVINO: {}})
        self.assertRegex(rep.why_serial, "Give the model fixed shapes")
        self.assertNotIn("free_dimension_overrides", rep.why_serial)

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

    def test_reports_and_free_dimensions_stay(self) -> None:
        options = {"provider_options": {OPENVINO: {"num_of_threads": 2}}, "free_dimension_overrides": {"rows": 3}}
        rep = onnxruntime.backend.prepare(two_rows("rows"), **options)
        same = rep.session

        def reported() -> list:
            shapes = [node.shape for node in rep.session.get_inputs()]
            return [rep.providers, rep.provider_options, rep.unconfirmed, rep.node_assignment, repr(rep), shapes]

        before = reported()
        self.assertIn([3, WIDTH], before[-1])
        inner = rep.session._sess
        fail_once(self, rep)
        self.assert_right(rep, 3)
        self.assertIsNot(rep.session._sess, inner)
        self.assertIs(rep.session, same)
        self.assertEqual(reported(), before)

    def test_each_rep_of_a_session_knows_of_a_failure(self) -> None:
        rep = self.prepare()
        for other in (
            rep.with_run_config({}),
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
        self.assertIn("application", rep.why_serial)
        self.assert_right(rep)
        fail_once(self, rep)
        for each in (rep, other, onnxruntime.backend.prepare(session)):
            with self.assertRaisesRegex(RuntimeError, "cannot replace"):
                each.run([rows(1, 2), rows(1, 1)])

    def test_a_changed_file_is_an_error(self) -> None:
        """The file of the model, before or while the replacement reads it, or its external data."""
        create = onnxruntime.InferenceSession
        for external, while_read in ((False, False), (False, True), (True, False)):
            with self.subTest(external=external, while_read=while_read), tempfile.TemporaryDirectory() as folder:
                path, weights = Path(folder, "model.onnx"), Path(folder, "sub", "w" * 150 + ".bin")
                weights.parent.mkdir()
                location = weights.relative_to(folder).as_posix()
                onnx.save(two_rows(), path, save_as_external_data=external, location=location, size_threshold=0)
                rep = self.prepare(made=path)
                fail_once(self, rep)
                self.assert_right(rep)

                def change(external=external, path=path, weights=weights) -> None:
                    if external:
                        content = bytes(weights.stat().st_size)
                        weights.unlink()
                        weights.write_bytes(content)
                    else:
                        path.write_bytes(two_rows("other").SerializeToString())

                def create_and_change(*arguments, change=change, **keywords) -> onnxruntime.InferenceSession:
                    session = create(*arguments, **keywords)
                    change()
                    return session

                if not while_read:
                    change()
                    self.assert_right(rep)
                fail_once(self, rep)
                opened = create_and_change if while_read else create
                with mock.patch.object(opening, "InferenceSession", opened):
                    for _ in range(2):
                        with self.assertRaises(RuntimeError):
                            rep.run([rows(1, 2), rows(1, 1)])

    def test_a_file_that_ort_cannot_read_has_the_error_of_ort(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            empty, absent, unreadable = (Path(folder, name) for name in ("empty", "absent", "unreadable"))
            empty.touch()
            unreadable.touch(0o000)
            for path in (empty, absent, unreadable, folder):
                errors = []
                for options in ({"CPUExecutionProvider": {}}, DEVICES[0]):
                    with self.subTest(path), self.assertRaises(Exception) as raised:
                        self.prepare(options, path)
                    errors.append(type(raised.exception))
                self.assertIs(*errors)

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
