# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The example of a service answers errors of clients with 4xx, and never with 500."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import _paths
from helpers.models import parsed, two_nodes

from examples import service
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

GOOD = [[1, 2, 3], [4, 5, 6]]
ONE_THREAD = {"session_options": {"intra_op_num_threads": 1}}
TWO_THREADS = {"session_options": {"intra_op_num_threads": 2}}


def request(inputs: object = None, settings: object = None) -> bytes:
    parts = {"inputs": {"X": GOOD} if inputs is None else inputs}
    if settings is not None:
        parts["settings"] = settings
    return json.dumps(parts).encode()


BAD_SETTINGS = {
    "file": {"session_config": {"session.collect_node_memory_stats_to_file": "/tmp/x"}},
    "list of EPs": {"provider_options": ["CPUExecutionProvider"]},
    "unknown dimension": {"free_dimension_overrides": {"batch": 1}},
    "device": {"device": "CUDA"},
    "attribute": {"intra_op_num_threads": 1},
    "extensions": {"extensions": ["os"]},
    "permit": {"permit": {}},
    "list": [],
}
BAD_BODIES = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"inputs": "\xff"}',
    "unknown key": b'{"inputs": {}, "x": 1}',
    "list of inputs": b'{"inputs": [1]}',
    "deep": b'{"inputs": ' + b"[" * 200_000,
    "deep and complete": b"[" * 100_000 + b"]" * 100_000,
    "long number": b'{"inputs": {"X": ' + b"1" * 10_000 + b"}}",
}
BAD_INPUTS = {
    "missing": {},
    "null": {"X": None},
    "null in a list": {"X": [[None, 2, 3], [4, 5, 6]]},
    "shape": {"X": [[1, 2], [3, 4]]},
    "ragged": {"X": [[1, 2, 3], [4]]},
    "deep": {"X": json.loads("[" * 60 + "1" + "]" * 60)},
    "object": {"X": {"a": 1}},
    "surrogate as a name": {"\ud800": GOOD},
}


class ServiceTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.model = str(self.folder / "model.onnx")
        Path(self.model).write_bytes(two_nodes((2, 3)).SerializeToString())
        self.enterContext(mock.patch.dict(os.environ))
        os.environ.pop(service.CONFIGURATION, None)
        self.log = self.enterContext(self.assertLogs("service", logging.WARNING))
        logging.getLogger("service").warning("assertLogs requires a record")

    def service_of(self, graph: str) -> service.Service:
        Path(self.model).write_bytes(parsed(graph, "ai.onnx.ml").SerializeToString())
        return service.Service(self.model)

    def audited(self) -> list[dict]:
        return [json.loads(record.getMessage()) for record in self.log.records if record.name == "service.audit"]


class TestAnswers(ServiceTest):
    def assert_status(self, expected: int, bodies: dict[str, bytes]) -> None:
        made = service.Service(self.model)
        for name, body in bodies.items():
            with self.subTest(name):
                before = len(self.audited())
                status, answer = made.answer(body)
                self.assertEqual(status, expected, answer)
                self.assertEqual(self.audited()[before:], [answer] * (expected == 400))

    def test_bad_requests(self):
        self.assert_status(400, {name: request(settings=bad) for name, bad in BAD_SETTINGS.items()} | BAD_BODIES)
        self.assert_status(413, {"long": b" " * (service.LONGEST_BODY + 1)})
        self.assert_status(422, {name: request(bad) for name, bad in BAD_INPUTS.items()})

    def test_the_audit_log_contains_the_refused_setting(self):
        key = "session.intra_op.allow_spinning"
        service.Service(self.model).answer(request(settings={"session_config": {key: "a\nb" * 1000}}))
        (entry,) = self.audited()
        self.assertEqual((entry["keyword"], entry["provider"], entry["key"]), ("session_config", "", key))
        self.assertTrue(entry["value"].startswith("'a\\nb") and len(entry["value"]) == 80, entry)

    def test_inputs_without_elements(self):
        """ORT's Concat would return memory of earlier runs, which can be of other clients."""
        made = self.service_of("(float[N, A] X, float[N, B] Y) => (float[N, C] Z) { Z = Concat<axis = 1>(X, Y) }")
        self.assertEqual(made.answer(request({"X": GOOD, "Y": GOOD}))[0], 200)
        for empty in ([], [[], []], [[1], []]):
            self.assertEqual(made.answer(request({"X": GOOD, "Y": empty}))[0], 422, empty)

    def test_values_and_sizes_that_an_operator_rejects(self):
        resized, vector = {"free_dimension_overrides": {"N": 5}}, {"X": [1.0, 2.0, 3.0]}
        for graph, rejected, accepted in (
            # ORT's Fail, and its RuntimeException
            ("(float[a, b] A, float[c, d] B) => (float[a, d] Y) { Y = MatMul(A, B) }", [{"A": GOOD, "B": GOOD}], None),
            ("(string[1] X) => (float[1] Y) { Y = Cast<to = 1>(X) }", [{"X": ["abc"]}], {"X": ["1.5"]}),
            ("(float[N] X) => (float[M] Y) <float[3] C = {1, 1, 1}> { Y = Add(X, C) }", [vector, resized], vector),
        ):
            with self.subTest(graph):
                made = self.service_of(graph)
                status, answer = made.answer(request(*rejected))
                self.assertEqual((status, list(answer)), (422, ["error"]))
                self.assertNotIn("node", answer["error"])
                if accepted:
                    self.assertEqual(made.answer(request(accepted))[0], 200)

    def test_problems_of_the_machine(self):
        made, prepare = service.Service(self.model), service.onnxruntime.backend.prepare
        for settings, error, status in (
            (ONE_THREAD, RuntimeError("a problem"), 500),
            (ONE_THREAD, MemoryError(), 503),
            (TWO_THREADS, Fail("CUDA failure 2: out of memory"), 503),
            (TWO_THREADS, Fail("OpenVINO's error: Failed to allocate 2000000000 bytes of memory"), 503),
            ({}, TimeoutError(), 504),
        ):
            with self.subTest(repr(error)):
                failing = mock.Mock(side_effect=error)
                if not settings:
                    made._prepared = {"{}": mock.Mock(run=failing)}
                with mock.patch.object(service.onnxruntime.backend, "prepare", failing):
                    status_now, answer = made.answer(request(settings=settings))
                self.assertEqual(status_now, status)
                self.assertNotIn("problem", answer["error"])
        self.assertIs(service.onnxruntime.backend.prepare, prepare)
        with mock.patch.object(service, "SECONDS", 0.01), contextlib.ExitStack() as stack:
            for _ in range(service.MOST_RUNS):
                stack.enter_context(service.taken(made._runs))
            self.assertEqual(made.answer(request())[0], 503)

    def test_an_array_that_is_too_large_for_the_machine(self):
        made = self.service_of("(int64[1] S) => (float Y) { E = ConstantOfShape(S) Y = ReduceSum<keepdims = 0>(E) }")
        self.assertEqual(made.answer(request({"S": [10**14]}, {"provider_options": {}}))[0], 503)
        self.assertEqual(made.answer(request({"S": [10]}, {"provider_options": {}}))[0], 200)

    def test_outputs(self):
        graph = "(float[N] X) => (float[N] Y, seq(map(int64, float)) Z) {"
        maps = "R = Reshape<allowzero = 0>(Y, S) Z = ai.onnx.ml.ZipMap<classlabels_int64s = [7, 8, 9]>(R) }"
        for body, expected in (
            (f"{graph} Y = Log(X) S = Constant<value_ints = [1, -1]>() {maps}", ["-Infinity", "NaN", 0.0]),
            (f"{graph} Y = Neg(X) S = Constant<value_ints = [1, -1]>() {maps}", [0.0, 1.0, -1.0]),
        ):
            status, answer = self.service_of(body).answer(request({"X": [0, -1, 1]}))
            self.assertEqual((status, answer["warnings"]), (200, ()))
            json.dumps(answer, allow_nan=False)
            names = dict(zip("789", expected, strict=True))
            self.assertEqual(answer["outputs"], {"Y": expected, "Z": [names]})

    def test_a_setting_without_effect_is_reported(self):
        made = service.Service(self.model)
        for _ in range(2):  # the second time with the same prepared model
            status, answer = made.answer(request(settings={"run_config": {"gpu_graph_id": 1}}))
            self.assertEqual((status, answer["outputs"]), (200, {"Y": GOOD}))
            (warning,) = answer["warnings"]
            self.assertIn("run_config['gpu_graph_id'] has no effect", warning)


class TestPreparedModels(ServiceTest):
    def test_they_are_kept_and_limited(self):
        made = service.Service(self.model)
        self.assertIs(made._rep(ONE_THREAD), made._rep(dict(ONE_THREAD)))
        prepacked, plain = ({"session_config": {"session.disable_prepacking": value}} for value in ("0", "1"))
        self.assertIsNot(made._rep(prepacked), made._rep(plain))
        for threads in range(1, 10):
            made._rep({"session_options": {"intra_op_num_threads": threads}})
            self.assertLessEqual(len(made._prepared), service.MOST_MODELS)

    def test_a_slow_model_delays_only_requests_that_prepare(self):
        made, started, go_on = service.Service(self.model), threading.Event(), threading.Event()
        self.addCleanup(go_on.set)
        prepare, prepared = service.onnxruntime.backend.prepare, []

        def slow(model: str, **settings: object):
            prepared.append(settings)
            started.set()
            go_on.wait(60)
            return prepare(model, **settings)

        with mock.patch.object(service.onnxruntime.backend, "prepare", slow), ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(made.answer, request(settings=ONE_THREAD)) for _ in range(2)]
            self.assertTrue(started.wait(60))
            self.assertEqual(made.answer(request())[0], 200)
            self.assertFalse(any(run.done() for run in runs))
            go_on.set()
            self.assertEqual([run.result()[0] for run in runs], [200, 200])
        self.assertEqual(prepared, [ONE_THREAD])


class TestConfiguration(ServiceTest):
    def test_the_last_valid_configuration_stays_until_another_is_valid(self):
        policy = self.folder / "policy.json"
        os.environ[service.CONFIGURATION] = f"@{policy}"
        with self.assertRaises(OSError):  # the file does not exist
            service.Service(self.model)
        policy.write_text(json.dumps({"permit": ONE_THREAD | {"session_options": {"intra_op_num_threads": [1]}}}))
        made = service.Service(self.model)

        def statuses() -> list[int]:
            return [made.answer(request(settings=settings))[0] for settings in (ONE_THREAD, TWO_THREADS)]

        self.assertEqual(statuses(), [200, 400])
        for broken in ("{bad", '{"permit": {"session_config": {"x": true}}}', "\udcff"):
            policy.write_text(broken, errors="surrogateescape")
            self.assertEqual(statuses(), [200, 400])
            with self.assertRaises((RuntimeError, ValueError)):
                made.reload()
            made._prepared.pop(json.dumps(ONE_THREAD))
            self.assertEqual(statuses(), [200, 400])
        policy.write_text(json.dumps({"permit": {"session_options": {"intra_op_num_threads": [2]}}}))
        made.reload()
        self.assertEqual(statuses(), [400, 200])

    def run_python(self, *arguments: str, **environment: str) -> str:
        """Return what the service prints before it fails to start."""
        command = [sys.executable, *arguments]
        ran = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60, env=os.environ | environment
        )
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        return ran.stderr.splitlines()[-1]

    def test_with_a_broken_configuration_the_service_does_not_start(self):
        for broken in (
            "",
            "{bad",
            '{"trusted": {"session_options": {"optimized_model_filepath": "/no/such/folder/file"}}}',
        ):
            last = self.run_python(service.__file__, self.model, "0", ORT_ONNX_BACKEND_CONFIG=broken)
            self.assertRegex(last, r"\ARuntimeError: .*ORT_ONNX_BACKEND_CONFIG")

    def test_with_the_stock_backend_the_service_does_not_start(self):
        become_stock = "import onnxruntime.backend as of_us; del of_us.NotPermittedError"
        code = f"{become_stock}; import runpy; runpy.run_path({service.__file__!r}, run_name='__main__')"
        self.assertRegex(self.run_python("-c", code), r"\AImportError: cannot import name 'NotPermittedError'")


class TestHttp(ServiceTest):
    def test_over_http(self):
        command = [sys.executable, service.__file__, self.model, "0"]
        popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with popen as process, contextlib.ExitStack() as stack:
            stack.callback(process.kill)  # also after a failure, before the process is awaited
            address = process.stdout.readline().split()[-1]
            if hasattr(signal, "SIGHUP"):
                process.send_signal(signal.SIGHUP)
            with urllib.request.urlopen(urllib.request.Request(address, request()), timeout=60) as response:
                self.assertEqual(json.load(response)["outputs"], {"Y": GOOD})
            too_long = {"Content-Length": str(10 * service.LONGEST_BODY)}
            cases = [(request(), {"Content-Length": length}, 400) for length in ("x", "-1", "9" * 5000)]
            cases += (request({}), {}, 422), (b"", {}, 400), (b" " * 2**21, too_long, 413)
            for body, headers, expected in cases:
                with self.subTest(expected, headers=headers), self.assertRaises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=60)
                self.assertEqual(caught.exception.code, expected)


if __name__ == "__main__":
    unittest.main()
