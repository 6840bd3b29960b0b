# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the replacement of an OpenVINO session after a failed run."""

import random
import tempfile
import unittest
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from unittest import mock

import _above
import numpy as np
import onnx
from helpers.execution_providers import HAS_BUILT_IN_OPENVINO, OPENVINO, add_openvino, needs_openvino
from helpers.locks import at_each_step
from helpers.models import caught, parsed

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend.openvino.replacement import Origin
from onnxruntime.backend.provider_names import CPU
from onnxruntime.backend.session.creation import Construction

CONSTRUCT = Construction._construct
MIXED_RUNS = 60  # for each device and number of threads

DEVICES = [{}, {"num_of_threads": 2, "num_streams": 2}]
if HAS_BUILT_IN_OPENVINO:
    DEVICES += [{"device_type": device} for device in ("AUTO:CPU", "MULTI:CPU", "HETERO:CPU")]


def two_rows(name: str = "N") -> onnx.ModelProto:
    """``y = x + s``. ORT finds out in the run whether ``x`` and ``s`` have the same number of rows."""
    text = f"(float[{name}, 8] x, float[M, 8] s) => (float[K, 8] y) {{ a = MatMul (x, w) y = Add (a, s) }}"
    return parsed(text, w=np.eye(8, dtype=np.float32))


def rows(count: int, value: float) -> np.ndarray:
    return np.full((count, 8), value, np.float32)


def write_again(path: Path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


class InterruptTest(unittest.TestCase):
    """Ctrl-C in the middle of a replacement, with sessions of the CPU EP."""

    def test_at_each_step(self):
        """The next replacement succeeds, and an interrupt replaces the whole session or nothing."""
        content = two_rows().SerializeToString()
        for interrupter in at_each_step():
            session, fresh = (InferenceSession(content, providers=[CPU]) for _ in range(2))
            origin = Origin(content, lambda fresh=fresh: fresh)
            origin.created = session._providers
            with interrupter:
                origin.renew(session)
            self.assertEqual(session._sess is fresh._sess, session._providers is fresh._providers)
            origin.renew(session)
            self.assertIs(session._sess, fresh._sess)


@needs_openvino
class OpenVinoTest(unittest.TestCase):
    def prepare(self, made=None, options: dict | None = None, ep: str = OPENVINO, **keywords):
        # In bfloat16, which is a default of OpenVINO, small integers are exact.
        return onnxruntime.backend.prepare(made or two_rows(), provider_options={ep: options or {}}, **keywords)

    def fail_once(self, rep):
        with self.assertRaises(Exception):  # noqa: B017 # ORT's own Fail or RuntimeException
            rep.run([rows(3, 1000), rows(5, 777)])

    def assert_right(self, rep, count: int = 1):
        np.testing.assert_array_equal(rep.run([rows(count, 2), rows(count, 1)])[0], rows(count, 3))

    def assert_replaced(self, rep, right=None):
        self.fail_once(rep)
        self.assert_right(right or rep)

    def run_mixed(self, rep, threads: int, draw: Callable):
        """Run inputs from ``draw``, which returns them with the output, ``None`` for a run that must fail."""

        def run_some(seed: int):
            choose = random.Random(seed)
            for _ in range(MIXED_RUNS // threads):
                inputs, expected = draw(choose)
                try:
                    (y,) = rep.run(inputs)
                except Exception as error:
                    self.assertIsNone(expected, error)
                else:
                    np.testing.assert_array_equal(y, expected)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run_some, range(threads)))

    def test_mixed_runs(self):
        def draw(choose: random.Random) -> tuple:
            x, s, a, b = (choose.randint(1, most) for most in (4, 4, 60, 60))
            s = x if s == 1 else s
            expected = rows(max(x, s), a + b) if x in (1, s) else None
            return [rows(x, a), rows(s, b)], expected

        reps = [self.prepare(options=options) for options in DEVICES]
        # Nobody specified an EP, or the EP is another one of the plugin.
        other = None if HAS_BUILT_IN_OPENVINO else {f"{OPENVINO}.AUTO": {}}
        reps.append(onnxruntime.backend.prepare(two_rows(), provider_options=other))
        for rep, threads in product(reps, (1, 6)):
            with self.subTest(rep, threads=threads):
                self.assertIn(OPENVINO, rep.providers[0])
                self.run_mixed(rep, threads, draw)

    def test_mixed_runs_of_fixed_shapes(self):
        """Failed runs leave nothing behind, also for runs that are parallel."""

        def draw(choose: random.Random) -> tuple:
            x, index = np.full(5, choose.random(), np.float32), choose.randint(0, 9)
            return [x, np.full(5, index)], x if index < 5 else None

        text = "(float[5] x, int64[5] i) => (float[5] y) { a = Abs(x) b = GatherElements(a, i) y = Abs(b) }"
        rep = self.prepare(parsed(text), {"precision": "FP32"})
        self.assertEqual(rep.why_serial, "")
        for _ in range(5):
            self.run_mixed(rep, 4, draw)

    def test_reports_and_free_dimensions_stay(self):
        rep = self.prepare(two_rows("rows"), DEVICES[1], free_dimension_overrides={"rows": 3})
        session, inner, before = rep.session, rep.session._sess, (repr(rep), rep.provider_options, rep.unconfirmed)
        self.assertRegex(rep.why_serial, r"free_dimension_overrides=\{'M': \.\.\.\}")
        self.fail_once(rep)
        self.assert_right(rep, 3)
        self.assertIsNot(rep.session._sess, inner)
        self.assertIs(rep.session, session)
        self.assertEqual((repr(rep), rep.provider_options, rep.unconfirmed), before)
        self.assertEqual(session.get_inputs()[0].shape, [3, 8])

    def test_each_rep_of_a_session_knows_of_a_failure(self):
        rep = self.prepare()
        for other in (
            rep.with_run_config({}),
            onnxruntime.backend.prepare(rep.session),
            onnxruntime.backend.prepare(rep),
        ):
            self.assert_replaced(rep, other)
            self.assert_replaced(other, rep)

    def test_a_model_in_orts_own_format(self):
        """ORT has no record of its nodes."""
        with tempfile.TemporaryDirectory() as folder:
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = path = str(Path(folder, "model.ort"))
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            InferenceSession(two_rows().SerializeToString(), options, providers=[CPU])
            rep = self.prepare(path)
            self.assertRegex(rep.why_serial, "with free dimensions")
            self.assert_replaced(rep)

    def test_a_session_of_the_caller_is_not_replaced(self):
        options = onnxruntime.SessionOptions()
        add_openvino(options, {})
        session = InferenceSession(two_rows().SerializeToString(), options)
        session.disable_fallback()
        rep = onnxruntime.backend.prepare(session)
        self.assertIn("application", rep.why_serial)
        self.assert_right(rep)
        self.fail_once(rep)
        for each in (rep, onnxruntime.backend.prepare(session)):
            with self.assertRaisesRegex(RuntimeError, "cannot replace"):
                self.assert_right(each)

    def test_a_changed_file_is_an_error(self):
        """Before the replacement, or while the replacement reads it."""
        for while_read in (False, True):
            with self.subTest(while_read=while_read), tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.onnx")
                onnx.save(two_rows(), path)
                rep = self.prepare(path)
                self.assert_replaced(rep)

                def construct(*arguments, path=path, while_read=while_read) -> InferenceSession:
                    session = CONSTRUCT(*arguments)
                    if while_read:
                        write_again(path)
                    return session

                if not while_read:
                    write_again(path)
                    self.assert_right(rep)
                self.fail_once(rep)
                with mock.patch.object(Construction, "_construct", construct):
                    for _ in range(2):
                        with self.assertRaisesRegex(RuntimeError, "file has changed"):
                            self.assert_right(rep)

    def test_a_file_that_ort_cannot_read_has_the_error_of_ort(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (Path(folder, "absent"), folder):
                expected, got = (caught(partial(self.prepare, path, ep=ep)) for ep in (CPU, OPENVINO))
                self.assertIsInstance(expected, Exception)
                self.assertIs(type(got), type(expected), path)

    def test_an_io_binding_outlives_its_inner_session(self):
        rep = self.prepare()
        for _ in range(5):
            binding = rep.session.io_binding()
            binding.bind_cpu_input("x", rows(1, 2))
            self.assert_replaced(rep)
            binding.bind_cpu_input("s", rows(1, 1))
            binding.bind_output("y")
            try:
                rep.session.run_with_iobinding(binding, rep.run_options())
            except ValueError as error:  # from ORT 1.31 on
                self.assertIn("must be used with the session that created it", str(error))
                continue
            np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 3)

    def test_the_session_ends_with_its_last_owner(self):
        rep = self.prepare()
        rep.session.io_binding()
        session = weakref.ref(rep.session)
        rep.close()
        self.assertIsNone(session(), "a cycle keeps the session")


if __name__ == "__main__":
    unittest.main()
