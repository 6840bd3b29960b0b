# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the pytest plugin that reports the outcome and the EPs of each test, also if a test ends its process."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import onnx

import onnxruntime
from onnxruntime.backend import conformance

CPU = "CPUExecutionProvider"
# The suite is data: each method is one kind of test.
SUITE = """
import os, types, unittest, unittest.mock
import numpy as np
from helpers.models import open_session, two_nodes
import onnxruntime.backend as backend

class Kinds(unittest.TestCase):
    def test_cpu(self):
        backend.prepare(two_nodes(), provider_options={"CPUExecutionProvider": {}}).run([np.ones((2, 3), np.float32)])

    def test_two_models(self):
        for _ in range(2):
            with self.assertWarns(RuntimeWarning):
                backend.prepare(two_nodes(), session_config={"session.intra_op.allow_spinning": 0}, no_such_keyword=1)

    def test_own_session(self):
        backend.prepare(open_session())

    def test_layout(self):
        node = types.SimpleNamespace(domain="com.ms.internal.nhwc", op_type="Conv")
        recorded = "onnxruntime.backend.applied.nodes.recorded_nodes"
        with unittest.mock.patch(recorded, return_value={"A": [node]}):
            backend.prepare(two_nodes())

    def test_refused(self):
        backend.prepare(two_nodes(), session_config={"no.such.key": 1})

    def test_unreadable(self):
        backend.prepare(b"no model")

    def test_skip(self):
        self.skipTest("for a reason")

    def test_wrong(self):
        backend.prepare(two_nodes())
        self.fails()

    def test_without_a_model(self):
        pass

    def test_z_crash(self):
        os._exit(7)
"""


@unittest.skipUnless(importlib.util.find_spec("pytest"), "needs pytest")
class ConformanceTest(unittest.TestCase):
    def report(self, *arguments: str) -> list[dict]:
        """Run the suite without a line of code for the plugin, and return the lines."""
        with tempfile.TemporaryDirectory() as folder:
            suite, lines = Path(folder, "test_kinds.py"), Path(folder, "lines.jsonl")
            suite.write_text(SUITE)
            lines.write_text('{"earlier": 1}\n')
            paths = [os.path.dirname(os.path.abspath(__file__)), *filter(None, sys.path)]
            plugin = {"PYTEST_PLUGINS": "onnxruntime.backend.conformance", "ORT_ONNX_BACKEND_REPORT": str(lines)}
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
            environment |= plugin | {"PYTHONPATH": os.pathsep.join(paths)}
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(suite)]
            self.ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
            earlier, *found = map(json.loads, lines.read_text().splitlines())
            self.assertEqual(earlier, {"earlier": 1})
            return found

    def check(self, lines: list[dict]) -> None:
        found = {line["test"].removeprefix("Kinds::test_"): line for line in lines}
        self.assertEqual(len(found), len(lines))
        outcomes = {name: line["outcome"] for name, line in found.items() if name != "z_crash"}
        failed = dict.fromkeys(("refused", "unreadable", "wrong"), "failed")
        passed = dict.fromkeys(("cpu", "layout", "own_session", "two_models", "without_a_model"), "passed")
        self.assertEqual(outcomes, {**failed, **passed, "skip": "skipped"})
        self.assertEqual(found["cpu"]["reason"], "")
        # A traceback is as short as that of the stock backend.
        self.assertNotRegex(self.ran.stdout, r"backend/(capture|runs|session)/")
        self.assertIn("no.such.key", found["refused"]["reason"])
        self.assertRegex(found["unreadable"]["reason"], "^InvalidProtobuf: ")  # without the module of ORT's exceptions
        self.assertIn("for a reason", found["skip"]["reason"])
        counts = {name: len(line["models"]) for name, line in found.items() if line["models"]}
        self.assertEqual(counts, {"cpu": 1, "layout": 1, "own_session": 1, "two_models": 2, "wrong": 1})
        (cpu,) = found["cpu"]["models"]
        self.assertEqual((cpu["providers"], cpu["configuration"]), ([CPU], {"provider_options": {CPU: {}}}))
        if hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
            self.assertEqual(sum(cpu["operators"][CPU].values()), 2)
        # ORT's copy of an operator in another layout counts as the operator.
        self.assertEqual(found["layout"]["models"][0]["operators"], {"A": {"Conv": 1}})
        # The operators of the models, also if ORT has no record of the nodes, and if prepare fails.
        operators = {name: line["operators"] for name, line in found.items() if line["operators"]}
        both = {"Neg": 1, "Abs": 1}
        expected = dict.fromkeys(("cpu", "layout", "refused", "wrong"), both)
        self.assertEqual(operators, expected | {"two_models": {"Neg": 2, "Abs": 2}})
        (first, _) = found["two_models"]["models"]
        if "OpenVINOExecutionProvider" not in first["providers"]:  # whose nodes are recorded in each session
            self.assertEqual(first["operators"], {})
        self.assertEqual(first["configuration"], {"session_config": {"session.intra_op.allow_spinning": "0"}})
        for line in lines:
            self.assertEqual((line["onnxruntime"], line["onnx"]), (onnxruntime.__version__, onnx.__version__))
            self.assertEqual(line["backend"], onnxruntime.backend.__version__)

    def test_reasons_begin_with_the_message(self):
        start = "onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : "
        for before in ("", "Exception during initialization: ", "/src/onnx/core/x.cc:52 "):
            with self.subTest(before):
                self.assertEqual(conformance._reason(f"{start}{before}x(1) was false"), "Fail: x(1) was false")
        text = "Fail: Status Message: Exception from src/inference/a.cpp:75: in b.py:3 (c)"
        self.assertEqual(conformance._reason(text), "Fail: Status Message: in b.py:3 (c)")
        self.assertEqual(conformance._reason(("test.py", 3, "Skipped: s")), "Skipped: s")

    def test_a_crash_ends_the_process(self):
        self.check(self.report())

    @unittest.skipUnless(importlib.util.find_spec("xdist"), "needs pytest-xdist")
    def test_with_xdist_a_crash_is_one_failure(self):
        lines = self.report("-p", "xdist", "-n", "2")
        self.assertIn("4 failed, 5 passed, 1 skipped", self.ran.stdout)
        (crash,) = [line for line in lines if line["test"].endswith("crash")]
        self.assertEqual((crash["outcome"], crash["models"]), ("failed", []))
        self.assertIn("crash", crash["reason"])
        self.check(lines)


if __name__ == "__main__":
    unittest.main()
