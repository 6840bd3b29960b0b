# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The plugin EPs of OpenVINO (onnxruntime-ep-openvino) and Qualcomm (onnxruntime-qnn), for real, alone and together.

Qualcomm's EP computes on a simulator. The OpenVINO EP reports Intel hardware only. On
another CPU, these tests correct the vendor in ORT's record of the CPU, because OpenVINO supports this CPU, too.
"""

import json
import tempfile
import textwrap
import unittest
from pathlib import Path

import numpy as np
from helpers.execution_providers import (
    CPU,
    OPENVINO,
    EpTests,
    ThreadTests,
    convolutions,
    image,
    on_cpu,
    register_openvino_plugin,
    run_in_a_new_process,
    set_cpu_vendor,  # noqa: F401
)
from helpers.models import no_session_opens, skip_file, two_nodes

try:
    import onnxruntime_ep_openvino  # noqa: F401
    import onnxruntime_qnn
except ImportError as missing:
    skip_file(f"needs onnxruntime-ep-openvino and onnxruntime-qnn: {missing}")

import onnxruntime.backend
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.libraries import plugins  # noqa: F401

AUTO = "OpenVINOExecutionProvider.AUTO"
QNN = "QNNExecutionProvider"
HTP = {"backend_type": "htp"}
# Qualcomm's library takes any name for its EP: under this one nothing is known of it.
UNKNOWN = "UnheardOfExecutionProvider"
AMD = 0x1022


def setUpModule() -> None:
    register_openvino_plugin()
    onnxruntime.register_execution_provider_library(QNN, onnxruntime_qnn.get_library_path())
    onnxruntime.register_execution_provider_library(UNKNOWN, onnxruntime_qnn.get_library_path())


def prepare(options: dict, model=None, **keywords):
    return onnxruntime.backend.prepare(model or convolutions(), provider_options=options, **keywords)


class OpenVinoPluginTest(EpTests, ThreadTests, unittest.TestCase):
    EP = OPENVINO
    # Options that travel in another one are unconfirmed.
    OPTIONS = {"num_of_threads": 2, "precision": "FP32", "device_id": 0}  # noqa: RUF012
    UNCONFIRMED = {"num_of_threads": "2", "precision": "f32", "device_id": "0"}  # noqa: RUF012

    def test_precision_is_what_it_computes_in(self):
        made, array = convolutions(), image()
        about_cpu = Path("/proc/cpuinfo")
        if not about_cpu.exists() or "bf16" not in about_cpu.read_text():
            self.skipTest("only on a CPU with bfloat16, the default of the EP is not FP32")
        error = np.abs(prepare({OPENVINO: {}}, made).run([array])[0] - on_cpu(made, array)).max()
        self.assertGreater(error, EpTests.TOLERANCE * 10)

    def test_a_device_that_it_does_not_have_is_an_error(self):
        with no_session_opens(), self.assertRaises(NotPermittedError) as refused:
            prepare({OPENVINO: {"device_id": 7}})
        self.assertEqual((refused.exception.provider, refused.exception.key), (OPENVINO, "device_id"))

    def test_without_a_device_or_not_registered_it_is_unavailable(self):
        printed = run_in_a_new_process(
            "import test_plugin_eps as tests\n"
            "def attempt(name):\n"
            "    try: tests.prepare({name: {}})\n"
            "    except tests.NotPermittedError as error: print(error)\n"
            "attempt(tests.OPENVINO)\n"
            "attempt(tests.QNN)\n"
            "tests.set_cpu_vendor(tests.AMD)\n"
            "tests.plugins.register(['onnxruntime_ep_openvino'])\n"
            "attempt(tests.OPENVINO)\n"
        )
        self.assertRegex(printed, f"(?s){OPENVINO}.*not available.*{QNN}.*not available.*{OPENVINO}.*found no device")


class SecondNameTest(EpTests, unittest.TestCase):
    """The second EP of OpenVINO's library."""

    EP = AUTO
    OPTIONS = {"precision": "FP32"}  # noqa: RUF012
    UNCONFIRMED = {"precision": "f32"}  # noqa: RUF012

    def test_it_attaches_only_when_named(self):
        self.assertIn(AUTO, onnxruntime.get_available_providers())
        self.assertNotIn(AUTO, onnxruntime.backend.prepare(convolutions()).providers)


class QnnPluginTest(EpTests, unittest.TestCase):
    EP, OPTIONS, UNCONFIRMED, TOLERANCE = QNN, HTP, HTP, 1e-3

    def test_without_options_it_has_no_backend(self):
        with self.assertRaisesRegex(RuntimeError, f"{QNN}.*default backend path"):
            prepare({QNN: {}})

    def test_free_dimensions(self):
        made = two_nodes(("N", 4))
        with self.assertWarnsRegex(RuntimeWarning, f"{QNN}.*free dimensions"):
            prepare({QNN: HTP}, made)
        rep = prepare({QNN: HTP}, made, free_dimension_overrides={"N": 2})
        self.assertGreater(rep.node_assignment[QNN], 0)


class PluginsTest(unittest.TestCase):
    def test_the_caller_orders(self):
        for names in ((OPENVINO, QNN), (QNN, OPENVINO), (OPENVINO, "AzureExecutionProvider", QNN)):
            with self.subTest(names), self.assertWarnsRegex(RuntimeWarning, f"No node .*{names[-1]}"):
                rep = prepare({name: HTP if name == QNN else {} for name in names})
            self.assertEqual(rep.providers, (*names, CPU))
            self.assertGreaterEqual(rep.node_assignment[names[0]], 11)

    def test_an_unknown_one_is_named_without_options(self):
        with no_session_opens(), self.assertRaises(NotPermittedError):
            prepare({UNKNOWN: HTP})
        # The error for {} comes from the EP, which requires an option.
        with self.assertRaisesRegex(RuntimeError, f"{UNKNOWN}.*default backend path"):
            prepare({UNKNOWN: {}})


class VendorTest(unittest.TestCase):
    def test_onnx_tests_on_an_ep_whose_options_no_table_knows(self):
        config = {
            "plugins": [f"{UNKNOWN}={onnxruntime_qnn.get_library_path()}"],
            "provider_options": {UNKNOWN: {}},
            "trusted": {"provider_options": {UNKNOWN: HTP}},
        }
        suite = """
            import onnx.backend.test, onnxruntime.backend
            runner = onnx.backend.test.BackendTest(onnxruntime.backend, __name__)
            globals().update(runner.include("test_(relu|softmax_axis_1)_cpu").test_cases)
        """
        with tempfile.TemporaryDirectory() as folder:
            tests, report = Path(folder, "test_suite.py"), Path(folder, "report.jsonl")
            tests.write_text(textwrap.dedent(suite))
            variables = {"ORT_ONNX_BACKEND_CONFIG": json.dumps(config), "ORT_ONNX_BACKEND_REPORT": str(report)}
            run_in_a_new_process(
                f"import pytest, sys; sys.exit(pytest.main(['-p', 'onnxruntime.backend.conformance', {str(tests)!r}]))",
                **variables,
            )
            lines = list(map(json.loads, report.read_text().splitlines()))
        models = [model for line in lines for model in line["models"] if line["outcome"] == "passed"]
        self.assertEqual([model["unconfirmed"] for model in models], [{UNKNOWN: dict.fromkeys(HTP, "trusted")}] * 2)
        self.assertEqual(
            [model["operators"] for model in models], [{UNKNOWN: {op: 1}, CPU: {}} for op in ("Relu", "Softmax")]
        )
        run_in_a_new_process(
            "import sys; from onnxruntime.backend.command_line import main; "
            f"sys.exit(main.main(['check', {json.dumps(config)!r}]))"
        )


if __name__ == "__main__":
    unittest.main()
