# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The plugin EPs of OpenVINO (onnxruntime-ep-openvino) and Qualcomm (onnxruntime-qnn), for real, alone and together.

Qualcomm's EP computes on a simulator. The OpenVINO EP reports Intel hardware only. On
another CPU, these tests correct the vendor in ORT's record of the CPU, because OpenVINO supports this CPU, too.
"""

from __future__ import annotations

import unittest
from pathlib import Path

import numpy as np
from backend_test_execution_providers import (
    CPU,
    NO_CPU,
    OPENVINO,
    convolutions,
    doubled_text,
    image,
    on_cpu,
    register_openvino_plugin,
    run_in_a_new_process,
    set_cpu_vendor,  # noqa: F401
    share_of_busiest_thread,
)
from backend_test_models import no_session_opens, skip_file, two_nodes

try:
    import onnxruntime_ep_openvino  # noqa: F401
    import onnxruntime_qnn
except ImportError as missing:
    skip_file(f"needs onnxruntime-ep-openvino and onnxruntime-qnn: {missing}")

import onnxruntime.backend
from onnxruntime.backend import NotPermittedError

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


class OpenVinoPluginTest(unittest.TestCase):
    def test_it_takes_every_node_and_computes_right(self) -> None:
        made, array = convolutions(), image()
        rep = prepare({OPENVINO: {"precision": "FP32"}}, made)
        self.assertEqual(rep.providers, (OPENVINO, CPU))
        self.assertEqual(dict(rep.node_assignment), {OPENVINO: 11, CPU: 0})
        np.testing.assert_allclose(rep.run([array])[0], on_cpu(made, array), atol=1e-4)

    def test_precision_is_what_it_computes_in(self) -> None:
        made, array = convolutions(), image()
        want = on_cpu(made, array)
        error = {}
        for precision in ("FP32", None):
            options = {} if precision is None else {"precision": precision}
            (got,) = onnxruntime.backend.run(made, [array], provider_options={OPENVINO: options})
            error[precision] = np.abs(got - want).max()
        self.assertLess(error["FP32"], 1e-4)
        about_cpu = Path("/proc/cpuinfo")
        if about_cpu.exists() and "bf16" in about_cpu.read_text():
            self.assertGreater(error[None], 1e-3, "its default is bfloat16 where the CPU has it")

    def test_num_of_threads_is_how_many_threads_work(self) -> None:
        made, array = convolutions(16, 112), image(16, 112)
        options = onnxruntime.SessionOptions()
        devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO][:1]
        one = '{"CPU": {"INFERENCE_NUM_THREADS": "1"}}'  # which the backend refuses
        options.add_provider_for_devices(devices, {"load_config": one})
        for model_or_session, named, low, high in (
            (onnxruntime.InferenceSession(made.SerializeToString(), options), None, 0.95, 1),
            (made, {OPENVINO: {"num_of_threads": 2}}, 0, 0.92),
        ):
            rep = onnxruntime.backend.prepare(model_or_session, provider_options=named)
            for _ in range(3):  # a busy machine blurs it
                share = share_of_busiest_thread(lambda rep=rep: rep.run([array]))
                if low <= share <= high:
                    break
            self.assertTrue(low <= share <= high, f"{share}: this needs a machine with two cores or more")

    def test_options_that_travel_in_another_one_are_unconfirmed(self) -> None:
        rep = prepare({OPENVINO: {"num_of_threads": 2, "precision": "FP32", "device_id": 0}})
        self.assertEqual(dict(rep.provider_options[OPENVINO]), {})
        self.assertEqual(rep.unconfirmed[OPENVINO], {"num_of_threads": "2", "precision": "f32", "device_id": "0"})

    def test_bad_values_open_no_session(self) -> None:
        for options in (
            {"num_of_threads": "abc"},
            {"num_of_threads": 0},
            {"num_of_threads": 1},
            {"precision": "FP16"},
            {"load_config": '{"CPU": {"INFERENCE_NUM_THREADS": "1"}}'},
            {"device_type": "CPU"},
            {"model_priority": "HIGH"},
            {"ep.cuda.dump_subgraphs": "here"},
        ):
            with self.subTest(options), no_session_opens(), self.assertRaises(NotPermittedError):
                prepare({OPENVINO: options})

    def test_a_device_that_it_does_not_have_is_an_error(self) -> None:
        with (
            no_session_opens(),
            self.assertRaises(NotPermittedError) as refused,
        ):
            prepare({OPENVINO: {"device_id": 7}})
        self.assertEqual((refused.exception.provider, refused.exception.key), (OPENVINO, "device_id"))

    def test_registered_without_a_device_it_is_unavailable(self) -> None:
        printed = run_in_a_new_process(
            "import onnxruntime_test_python_backend_plugins as tests\n"
            "tests.set_cpu_vendor(tests.AMD)\n"
            "path = tests.onnxruntime_ep_openvino.get_library_path()\n"
            "tests.onnxruntime.register_execution_provider_library(tests.OPENVINO, path)\n"
            "try: tests.prepare({tests.OPENVINO: {}})\n"
            "except tests.NotPermittedError as error: print(error.provider)\n"
        )
        self.assertIn(f"{OPENVINO}\n", printed)

    def test_not_registered_it_is_unavailable(self) -> None:
        printed = run_in_a_new_process(
            "import onnxruntime_test_python_backend_plugins as tests\n"
            "for name in (tests.OPENVINO, tests.QNN):\n"
            "    try: tests.prepare({name: {}})\n"
            "    except RuntimeError as error: print(error)\n"
        )
        self.assertRegex(printed, f"{OPENVINO}.*not available")
        self.assertRegex(printed, f"{QNN}.*not available")

    def test_its_second_name_attaches_only_when_named(self) -> None:
        self.assertIn(AUTO, onnxruntime.get_available_providers())
        rep = onnxruntime.backend.prepare(convolutions())
        self.assertNotIn(AUTO, rep.providers)
        made, array = convolutions(), image()
        rep = prepare({AUTO: {"precision": "FP32"}}, made)
        self.assertEqual(dict(rep.node_assignment), {AUTO: 11, CPU: 0})
        np.testing.assert_allclose(rep.run([array])[0], on_cpu(made, array), atol=1e-4)


class QnnPluginTest(unittest.TestCase):
    def test_backend_type_makes_it_compute(self) -> None:
        made, array = convolutions(), image()
        rep = prepare({QNN: HTP}, made, session_config=NO_CPU)
        self.assertEqual(dict(rep.provider_options[QNN]), {})
        self.assertEqual(rep.unconfirmed[QNN], HTP)
        self.assertGreaterEqual(rep.node_assignment[QNN], 11)
        self.assertEqual(rep.node_assignment[CPU], 0)
        np.testing.assert_allclose(rep.run([array])[0], on_cpu(made, array), atol=1e-3)
        with self.assertRaisesRegex(RuntimeError, f"{QNN}.*default backend path"):
            prepare({QNN: {}}, made)

    def test_a_single_run_takes_the_same_options(self) -> None:
        made, array = convolutions(), image()
        (got,) = onnxruntime.backend.run(made, [array], provider_options={QNN: HTP})
        np.testing.assert_allclose(got, on_cpu(made, array), atol=1e-3)

    def test_bad_values_open_no_session(self) -> None:
        for options in (
            {"backend_type": "saver"},
            {"backend_type": "nope"},
            HTP | {"rpc_control_latency": "abc"},
            HTP | {"qnn_context_priority": "zzz"},
            HTP | {"backend_path": "libQnnHtp.so"},
            HTP | {"no_such_option": "1"},
        ):
            with self.subTest(options), no_session_opens(), self.assertRaises(NotPermittedError):
                prepare({QNN: options})

    def test_the_advice_contains_the_free_dimensions(self) -> None:
        made = two_nodes(("N", 4))
        with self.assertWarnsRegex(RuntimeWarning, f"{QNN}.*free_dimension_overrides={{'N': ...}}"):
            prepare({QNN: HTP}, made)
        rep = prepare({QNN: HTP}, made, free_dimension_overrides={"N": 2})
        self.assertGreater(rep.node_assignment[QNN], 0)

    def test_no_node_is_a_warning_or_an_error(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, f"No node .*{QNN}.*disable_cpu_ep_fallback"):
            rep = prepare({QNN: HTP}, doubled_text())
        self.assertEqual(dict(rep.node_assignment), {QNN: 0, CPU: 1})
        with self.assertRaisesRegex(Exception, "fallback to CPU EP has been explicitly disabled"):
            prepare({QNN: HTP}, doubled_text(), session_config=NO_CPU)


class PluginsTest(unittest.TestCase):
    def test_registered_and_not_specified(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, "provider_options.*'(OpenVINO|QNN)ExecutionProvider'"):
            rep = onnxruntime.backend.prepare(convolutions())
        self.assertEqual(rep.providers[-1], CPU)

    def test_the_caller_orders(self) -> None:
        for names in ((OPENVINO, QNN), (QNN, OPENVINO), (OPENVINO, "AzureExecutionProvider", QNN)):
            with self.subTest(names), self.assertWarnsRegex(RuntimeWarning, f"No node .*{names[-1]}"):
                rep = prepare({name: HTP if name == QNN else {} for name in names})
            self.assertEqual(rep.providers, (*names, CPU))
            self.assertGreaterEqual(rep.node_assignment[names[0]], 11)

    def test_an_unknown_one_is_named_without_options(self) -> None:
        with no_session_opens(), self.assertRaises(NotPermittedError):
            prepare({UNKNOWN: HTP})
        # The error for {} comes from the EP, which requires an option.
        with self.assertRaisesRegex(RuntimeError, f"{UNKNOWN}.*default backend path"):
            prepare({UNKNOWN: {}})


if __name__ == "__main__":
    unittest.main()
