# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The example of a service answers errors of clients with 4xx, and never with 500."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import _paths  # noqa: F401
import numpy as np
from helpers.models import parsed, two_nodes

from examples import service
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

GOOD = [[1, 2, 3], [4, 5, 6]]


def array(values: object, **changed: object) -> dict:
    values = np.asarray(values, np.float32)
    made = {"dtype": "float32", "shape": list(values.shape), "base64": base64.b64encode(values.tobytes()).decode()}
    return made | changed


def request(inputs: object = ..., settings: object = ...) -> bytes:
    parts = {"inputs": {"X": GOOD} if inputs is ... else inputs}
    if settings is not ...:
        parts["settings"] = settings
    return json.dumps(parts).encode()


def session(**config: object) -> dict:
    return {"session_config": config}


BAD_SETTINGS = {
    "file": session(**{"session.collect_node_memory_stats_to_file": "/tmp/x"}),
    "list of EPs": {"provider_options": ["CPUExecutionProvider"]},
    "unknown dimension": {"free_dimension_overrides": {"batch": 1}},
    "device": {"device": "CUDA"},
    "list": [],
}
BAD_BODIES = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"inputs": "\xff"}',
    "array": b"[]",
    "unknown key": b'{"inputs": {}, "x": 1}',
    "duplicate key": b'{"inputs": {}, "inputs": {}}',
    "NaN": b'{"inputs": {"X": [[NaN, 1, 1], [1, 1, 1]]}}',
    "infinite number": b'{"inputs": {"X": [[1e999, 1, 1], [1, 1, 1]]}}',
    "deep": b'{"inputs": ' + b"[" * 200_000,
    "deep and complete": b"[" * 100_000 + b"]" * 100_000,
    "deep input": b'{"inputs": {"X": ' + b"[" * 500 + b"]" * 500 + b"}}",
    "deep objects": b'{"inputs": {"X": ' + b'{"a": ' * 500 + b"1" + b"}" * 500 + b"}}",
    "long number": b'{"inputs": {"X": ' + b"1" * 10_000 + b"}}",
}
BAD_INPUTS = {
    "missing": {},
    "null": {"X": None},
    "shape": {"X": [[1, 2], [3, 4]]},
    "deep": {"X": json.loads("[" * 60 + "]" * 60)},
    "many dimensions": {"X": array(GOOD, shape=[1] * 65)},
    "object": {"X": {"a": 1}},
    "surrogate as a name": {"\ud800": GOOD},
    "list": [GOOD],
    "dtype": {"X": array(GOOD, dtype="object")},
    "dtype as a list": {"X": array(GOOD, dtype=["float32"])},
    "other dtype": {"X": array(GOOD, dtype="int32")},
    "not base64": {"X": array(GOOD, base64="*")},
    "base64 is a number": {"X": array(GOOD, base64=1)},
    "too short": {"X": array(GOOD, base64="AAAA")},
    "other shape": {"X": array(GOOD, shape=[5, 5])},
    "negative shape": {"X": array(GOOD, shape=[-7, 3])},
    "huge shape": {"X": array(GOOD, shape=[10**30])},
    "no shape": {"X": array(GOOD, shape=None)},
}


class TestService(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.folder = made
        path = Path(made, "model.onnx")
        path.write_bytes(two_nodes((2, 3)).SerializeToString())
        cls.service = service.Service(str(path))

    def test_with_the_stock_backend_the_service_does_not_start(self):
        stock = os.environ.get("ORT_STOCK_PYTHON")
        become_stock = "" if stock else "import onnxruntime.backend as of_us; del of_us.NotPermittedError; "
        program = f"{become_stock}import runpy; runpy.run_path({service.__file__!r}, run_name='__main__')"
        environment = {name: value for name, value in os.environ.items() if not (stock and name == "PYTHONPATH")}
        command = [stock or sys.executable, "-c", program]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"\nImportError: .* contains the stock backend, .* Install the package again\n\Z")

    def start(self, *arguments: object, **environment: str) -> str:
        """Return what the service prints before it ends."""
        command = [sys.executable, service.__file__, self.service._model, *map(str, arguments)]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=os.environ | environment
        )
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertNotIn("Traceback", ran.stderr)
        return ran.stderr

    def test_a_broken_configuration_ends_the_program(self):
        text = self.start(0, ORT_ONNX_BACKEND_CONFIG="{bad")
        self.assertRegex(text, r"\ARuntimeError: .*ORT_ONNX_BACKEND_CONFIG")

    def test_a_port_that_is_not_free_ends_the_program(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.assertIn("OSError: [Errno", self.start(taken.getsockname()[1]))
        self.assertIn("ValueError: ", self.start("x"))

    def test_a_setting_without_effect_is_reported(self):
        settings = {"provider_options": {}, "run_config": {"gpu_graph_id": 1}}
        for _ in range(2):  # the second time with the same prepared model
            status, answer = self.service.answer(request(settings=settings))
            self.assertEqual((status, answer["outputs"]), (200, {"Y": GOOD}))
            (warning,) = json.loads(json.dumps(answer))["warnings"]
            self.assertIn("run_config['gpu_graph_id'] has no effect", warning)

    def test_an_attribute_among_the_settings(self):
        _, answer = self.service.answer(request(settings={"intra_op_num_threads": 1}))
        self.assertTrue(answer["error"].endswith("Attributes belong in session_options"))

    def service_of(self, graph: str) -> service.Service:
        path = Path(self.folder, "other.onnx")
        path.write_bytes(parsed(graph, "ai.onnx.ml").SerializeToString())
        return service.Service(str(path))

    def assert_status(self, expected: int, bodies: dict[str, bytes]) -> None:
        for name, body in bodies.items():
            with self.subTest(name):
                status, answer = self.service.answer(body)
                json.dumps(answer)
                self.assertEqual(status, expected, answer)

    def test_bad_requests(self):
        self.assert_status(400, {name: request(settings=bad) for name, bad in BAD_SETTINGS.items()} | BAD_BODIES)
        self.assert_status(413, {"long": b" " * (service.LONGEST_BODY + 1)})
        self.assert_status(422, {name: request(bad) for name, bad in BAD_INPUTS.items()})

    def test_values_and_sizes_that_an_operator_rejects(self):
        resized, vector = {"free_dimension_overrides": {"N": 5}}, {"X": [1.0, 2.0, 3.0]}
        product = {"A": GOOD, "B": np.transpose(GOOD).tolist()}
        wrong = product | {"B": GOOD}
        for graph, rejected, status, accepted in (
            ("(float[a, b] A, float[c, d] B) => (float[a, d] Y) { Y = MatMul(A, B) }", [wrong], 422, product),
            # ORT's RuntimeException
            ("(string[1] X) => (float[1] Y) { Y = Cast<to = 1>(X) }", [{"X": ["abc"]}], 422, {"X": ["1.5"]}),
            ("(float[N] X) => (float[M] Y) <float[3] C = {1, 1, 1}> { Y = Add(X, C) }", [vector, resized], 400, vector),
        ):
            with self.subTest(graph), contextlib.redirect_stderr(io.StringIO()) as log:
                made = self.service_of(graph)
                self.assertEqual(made.answer(request(*rejected))[0], status)
                self.assertIn(re.search(r"Y = (\w+)", graph)[1], log.getvalue())
                self.assertEqual(made.answer(request(accepted))[0], 200)

    def test_inputs_without_elements(self):
        """ORT's Concat would return memory of earlier runs, which are of other clients."""
        made = self.service_of("(float[N, A] X, float[N, B] Y) => (float[N, C] Z) { Z = Concat<axis = 1>(X, Y) }")
        self.assertEqual(made.answer(request({"X": GOOD, "Y": array(GOOD)}))[0], 200)
        for empty in ([], [[], []], array(np.empty((0, 3))), array(np.empty((2, 0)))):
            with self.subTest(empty):
                self.assertEqual(made.answer(request({"X": GOOD, "Y": empty}))[0], 422)

    def test_a_model_that_cannot_be_prepared_is_500(self):
        for kind in (Fail, InvalidArgument, RuntimeError):
            log = io.StringIO()
            failing = mock.patch.object(service.onnxruntime.backend, "prepare", side_effect=kind("a problem"))
            with self.subTest(kind.__name__), failing, contextlib.redirect_stderr(log):
                self.assertEqual(service.Service("").answer(request())[0], 500)
                self.assertIn("a problem", log.getvalue())

    def test_slow_runs_are_504(self):
        slow = service.Service("")
        slow._rep = lambda settings: mock.Mock(**{"run.side_effect": TimeoutError})
        self.assertEqual(slow.answer(request())[0], 504)

    def test_without_memory_the_service_answers_503(self):
        filled = "(int64[1] S) => (float Y) { E = ConstantOfShape(S) Y = ReduceSum<keepdims = 0>(E) }"
        made = self.service_of(filled)
        on_cpu = {"provider_options": {}}
        with contextlib.redirect_stderr(io.StringIO()) as log:
            self.assertEqual(made.answer(request({"S": [10**14]}, on_cpu))[0], 503)  # more than an address space
        self.assertIn("allocate", log.getvalue())
        self.assertEqual(made.answer(request({"S": [10]}, on_cpu))[0], 200)
        for failing in (MemoryError(), Fail("CUDA failure 2: out of memory"), RuntimeError("std::bad_alloc")):
            made._prepared.clear()
            prepare = mock.patch.object(service.onnxruntime.backend, "prepare", side_effect=failing)
            with self.subTest(repr(failing)), prepare, contextlib.redirect_stderr(io.StringIO()):
                sizes = {"free_dimension_overrides": {"N": 2**30}}
                self.assertEqual(made.answer(request({"S": [10]}, sizes))[0], 503)

    def test_the_audit_log_contains_each_refused_value(self):
        key = "session.intra_op.allow_spinning"
        with self.assertLogs("service.audit") as log:
            self.service.answer(request(settings=session(**{key: "a\nb" * 1000})))
        (record,) = log.records
        entry = json.loads(record.getMessage())
        value = entry.pop("value")
        self.assertEqual(entry, {"keyword": "session_config", "provider": "", "key": key})
        self.assertTrue(value.startswith("'a\\nb") and len(value) == 80, value)

    def test_a_busy_service_is_503(self):
        busy = service.Service(self.service._model)
        for _ in range(service.MOST_RUNS):
            busy._runs.acquire()
        with mock.patch.object(service, "SECONDS", 0.01):
            self.assertEqual(busy.answer(request())[0], 503)

    def test_values(self):
        special = {"X": array([[np.nan, np.inf, 1], [0, 0, -2]])}
        graph = """(float[2, 3] X) => (seq(map(int64, float)) Y) {
            Y = ai.onnx.ml.ZipMap<classlabels_int64s = [7, 8, 9]>(X)
        }"""
        maps = [{"7": "NaN", "8": "Infinity", "9": 1.0}, {"7": 0.0, "8": 0.0, "9": -2.0}]
        for made, inputs, expected in (
            (self.service, {"X": GOOD}, GOOD),
            (self.service, special, [["NaN", "Infinity", 1.0], [0.0, 0.0, 2.0]]),
            (self.service_of(graph), special, maps),
        ):
            status, answer = made.answer(request(inputs))
            json.dumps(answer, allow_nan=False)
            self.assertEqual((status, answer), (200, {"outputs": {"Y": expected}}))

    def test_the_message_about_base64(self):
        wrongs = {"not base64": "base64: expected", "too short": "24 bytes", "other shape": "100 bytes"}
        for name, wrong in wrongs.items():
            with self.subTest(name):
                self.assertIn(wrong, self.service.answer(request(BAD_INPUTS[name]))[1]["error"])

    def test_a_slow_model_delays_only_requests_with_its_settings(self):
        slow = {"session_options": {"intra_op_num_threads": 1}}
        made, started, go_on = (service.Service(self.service._model), threading.Event(), threading.Event())
        self.addCleanup(go_on.set)
        prepare, prepared = service.onnxruntime.backend.prepare, []

        def waiting(model: str, **settings: object):
            prepared.append(settings)
            if settings == slow:
                started.set()
                go_on.wait(60)
            return prepare(model, **settings)

        with mock.patch.object(service.onnxruntime.backend, "prepare", waiting), ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(made.answer, request(settings=slow)) for _ in range(2)]
            self.assertTrue(started.wait(60))
            self.assertEqual(made.answer(request())[0], 200)
            self.assertFalse(any(run.done() for run in runs))
            go_on.set()
            self.assertEqual([run.result()[0] for run in runs], [200, 200])
        self.assertEqual(prepared.count(slow), 1)
        self.assertEqual(made._preparing, {})

    def test_prepares_in_progress_are_limited(self):
        made, going, most = service.Service(self.service._model), [], []
        prepare = service.onnxruntime.backend.prepare

        def slow(model: str, **settings: object):
            going.append(None)
            most.append(len(going))
            time.sleep(0.02)
            going.pop()
            return prepare(model, **settings)

        bodies = [request(settings={"session_options": {"logid": f"client{number}"}}) for number in range(8)]
        with mock.patch.object(service.onnxruntime.backend, "prepare", slow), ThreadPoolExecutor(8) as pool:
            self.assertEqual({status for status, _ in pool.map(made.answer, bodies)}, {200})
        self.assertEqual(max(most), service.MOST_PREPARES)

    def test_the_order_of_eps_is_a_part_of_the_settings(self):
        one, two = ({"provider_options": {"A": {}, "B": {}}}, {"provider_options": {"B": {}, "A": {}}})
        self.assertNotEqual(service.key(one), service.key(two))
        self.assertEqual(service.key(session(a=1, b=2)), service.key(session(b=2, a=1)))

    def test_models_are_kept_and_limited(self):
        spinning = [self.service._rep(session(**{"session.intra_op.allow_spinning": off})) for off in (False, 0, "0")]
        self.assertIs(spinning[0], spinning[1])
        self.assertIs(spinning[0], spinning[2])
        self.assertIsNot(spinning[0], self.service._rep({}))
        for threads in range(1, 10):
            settings = session(**{"session.intra_op.allow_spinning": False})
            self.service._rep({**settings, "session_options": {"intra_op_num_threads": threads}})
        self.assertLessEqual(len(self.service._prepared), service.MOST_MODELS)

    def test_over_http(self):
        handler = type("Handler", (service.Handler,), {"service": self.service, "log_message": lambda *_: None})
        with service.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.shutdown)
            address = f"http://127.0.0.1:{server.server_port}"
            with urllib.request.urlopen(urllib.request.Request(address, request()), timeout=60) as response:
                self.assertEqual(json.load(response), {"outputs": {"Y": GOOD}})
            for body, headers, expected in (
                (request({}), {}, 422),
                (b"", {"Content-Length": str(service.LONGEST_BODY + 1)}, 413),
                (b"", {"Content-Length": "-1"}, 411),
            ):
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=60)
                self.assertEqual(caught.exception.code, expected)
            self.addCleanup(setattr, service, "SECONDS", service.SECONDS)
            service.SECONDS = 0.2
            for unfinished in (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", b"POST / HTTP/1.1\r\nContent-"):
                with self.subTest(unfinished), socket.create_connection(server.server_address, timeout=60) as client:
                    client.sendall(unfinished)
                    with client.makefile("rb") as answer:
                        self.assertEqual(
                            answer.read().partition(b"\r\n")[0].split()[1:2], [b"408"] if b"{" in unfinished else []
                        )
            server.shutdown()


if __name__ == "__main__":
    unittest.main()
