# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of creating a session: the API that attaches each EP, and the EPs of the session."""

from __future__ import annotations

import contextlib
import os
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np
from backend_test_children import run_code
from backend_test_execution_providers import CPU, NO_CPU
from backend_test_models import no_session_opens
from backend_test_processes import (
    AZURE,
    CUDA,
    OPENVINO,
    QNN,
    TENSORRT,
    UNKNOWN,
    device_of,
    opened,
    permit,
    prepare,
    process_with,
)

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist.rules import Permit
from onnxruntime.backend.session import failures, opening, presence, verification
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument


class AttachTest(unittest.TestCase):
    def test_bundled(self) -> None:
        """Uses both APIs of built-in EPs, entries first: one API alone loses options of OpenVINO or of WebGPU."""
        with process_with(bundled=(CUDA, OPENVINO)):
            noted, keywords = opened({OPENVINO: {"num_of_threads": 2}, CUDA: {"use_tf32": False}})
        self.assertEqual(
            noted.of("add_session_config_entry", "add_provider", "add_provider_for_devices")[-4:],
            [
                ("add_session_config_entry", "ep.openvinoexecutionprovider.num_of_threads", "2"),
                ("add_provider", OPENVINO, {"num_of_threads": "2"}),
                ("add_session_config_entry", "ep.cudaexecutionprovider.use_tf32", "0"),
                ("add_provider", CUDA, {"use_tf32": "0"}),
            ],
        )
        self.assertEqual(keywords, {"providers": None, "enable_fallback": 0})

    def test_plugin(self) -> None:
        with process_with(plugins=(QNN, QNN)) as devices:
            noted, keywords = opened({QNN: {"backend_type": "htp", "device_id": 1}})
            self.assertEqual(
                noted.of("add_provider", "add_provider_for_devices"),
                [("add_provider_for_devices", [devices[1]], {"backend_type": "htp"})],
            )
            self.assertEqual(keywords, {"providers": None, "enable_fallback": 0})
            noted, _ = opened({QNN: {}})
            self.assertEqual(noted.of("add_provider_for_devices"), [("add_provider_for_devices", [devices[0]], {})])
            with self.assertRaisesRegex(RuntimeError, f"{QNN}.*'device_id'.* value 2. Expected an integer below 2"):
                opened({QNN: {"device_id": 2}})

    def test_options_of_a_plugin_can_travel_in_another_one(self) -> None:
        with process_with(plugins=(OPENVINO,)):
            noted, _ = opened({OPENVINO: {"num_of_threads": 2, "precision": "FP32"}})
        ((_, _, texts),) = noted.of("add_provider_for_devices")
        self.assertEqual(
            texts, {"load_config": '{"CPU": {"INFERENCE_NUM_THREADS": "2", "INFERENCE_PRECISION_HINT": "f32"}}'}
        )

    def test_options_that_only_one_kind_of_device_reads(self) -> None:
        with process_with(devices=[device_of(OPENVINO), device_of(OPENVINO, hardware="GPU")]):
            for option, value in {"num_of_threads": 2, "num_streams": 1, "precision": "FP32"}.items():
                opened({OPENVINO: {"device_id": 0, option: value}})
                with self.assertRaisesRegex(RuntimeError, f"'{option}'.* device 1 .*GPU. .* CPU"):
                    opened({OPENVINO: {"device_id": 1, option: value}})
            opened({OPENVINO: {"device_id": 1}})

    def test_a_bundled_ep_with_devices_is_no_plugin(self) -> None:
        name = "WebGpuExecutionProvider"
        with process_with(bundled=(name,), devices=[device_of(name, plugin=False)]):
            noted, _ = opened({name: {}})
        self.assertEqual(noted.of("add_provider", "add_provider_for_devices"), [("add_provider", name, {})])

    def test_tensorrt_comes_in_by_the_argument(self) -> None:
        with process_with(bundled=(TENSORRT, CUDA)):
            noted, keywords = opened({TENSORRT: {"trt_fp16_enable": True}, CUDA: {"device_id": 0}})
        self.assertEqual(noted.of("add_provider", "add_provider_for_devices"), [])
        self.assertEqual(
            keywords,
            {
                "providers": [(TENSORRT, {"trt_fp16_enable": "True"}), (CUDA, {"device_id": "0"})],
                "enable_fallback": 0,
            },
        )

    def test_tensorrt_and_a_plugin_exclude_each_other(self) -> None:
        with (
            process_with(bundled=(TENSORRT,), plugins=(QNN,)),
            self.assertRaisesRegex(RuntimeError, f"{TENSORRT}.* combined with {QNN}: ORT ignores plugin EPs"),
        ):
            opened({TENSORRT: {}, QNN: {}})

    def test_a_machine_without_tensorrt(self) -> None:
        """A build with TensorRT's EP, and a caller who specifies nothing."""
        tried = []

        def without_libraries(model: bytes, options: onnxruntime.SessionOptions, providers: list[str], **_):
            tried.append(providers)
            if TENSORRT in providers:
                raise RuntimeError("no libnvinfer")
            return onnxruntime.InferenceSession(model, options, providers=[CPU])

        with (
            mock.patch.object(presence, "stock_list", return_value=[TENSORRT, CUDA, CPU]),
            mock.patch.object(opening, "InferenceSession", without_libraries),
            self.assertWarns(RuntimeWarning),
        ):
            rep = prepare(None)
        self.assertEqual(tried, [[TENSORRT, CUDA, CPU], [CUDA, CPU]])
        self.assertFalse(rep.session._enable_fallback)

    def test_an_ep_that_did_not_come_up_is_an_error(self) -> None:
        with process_with(bundled=(CUDA, OPENVINO)):
            for options, got in (
                ({CUDA: {}}, [CPU]),
                ({CUDA: {}, OPENVINO: {}}, [OPENVINO, CPU]),
                ({CUDA: {}, OPENVINO: {}}, [OPENVINO, CUDA, CPU]),
            ):
                message = f"{', '.join(got)}, but .*{', '.join(options)}, in this order"
                with self.subTest(got), self.assertRaisesRegex(RuntimeError, message):
                    opened(options, got)

    def test_an_ep_that_cannot_be_attached_is_an_error(self) -> None:
        """ORT lists CUDA here, but has none: what adds it to the session options raises."""
        with process_with(bundled=(CUDA,)), self.assertRaisesRegex(RuntimeError, f"{CUDA}.*could not be attached"):
            opening.create(b"", permit({CUDA: {}}), (), opening.SessionOptions())

    def test_an_absent_device_of_openvino(self) -> None:
        """Only an error that concerns the device is the caller's: another one concerns the machine."""
        for attached, options, blamed in (
            (("CPU",), {"device_type": "GPU"}, True),
            (("CPU",), {"device_type": "HETERO:GPU,CPU", "precision": "ACCURACY"}, True),
            ((), {"device_type": "GPU"}, False),
            ((), {"device_type": "CPU"}, False),
            ((), {}, False),
        ):

            def add_provider(name: str, texts: dict[str, str], attached: tuple[str, ...] = attached) -> None:
                if texts.get("device_type") not in attached:
                    raise InvalidArgument("the configuration is not supported")

            made = mock.Mock(add_provider=add_provider)
            with self.subTest(options, attached=attached):
                with (
                    process_with(bundled=(OPENVINO,)),
                    mock.patch.object(failures, "SessionOptions", lambda made=made: made),
                    self.assertRaises(RuntimeError) as caught,
                ):
                    opening.create(b"", permit({OPENVINO: options}), (), made)
                self.assertEqual(getattr(caught.exception, "key", None), "device_type" if blamed else None)


class CaptureTest(unittest.TestCase):
    def test_a_session_on_the_cpu_imports_nothing_of_capture(self) -> None:
        code = f"""if True:
            import sys, onnxruntime.backend
            from backend_test_models import two_nodes
            onnxruntime.backend.prepare(two_nodes(), provider_options={{{CPU!r}: {{}}}})
            print([name for name in sys.modules if name.startswith("onnxruntime.backend.capture")])
        """
        self.assertEqual(run_code(code).stdout, "[]\n")


class WhichTest(unittest.TestCase):
    def test_the_named_ones_in_order_then_the_cpu(self) -> None:
        for names, want in (
            ((), (CPU,)),
            ((CPU,), (CPU,)),
            ((AZURE,), (AZURE, CPU)),
            ((AZURE, CPU), (AZURE, CPU)),
            ((CPU, AZURE), (CPU, AZURE)),
        ):
            with self.subTest(names):
                expected = self.assertWarns(RuntimeWarning) if AZURE in names else contextlib.nullcontext()
                with expected:
                    rep = prepare({name: {} for name in names})
                self.assertEqual((rep.providers, dict(rep.unconfirmed)), (want, {}))
                self.assertEqual(dict(rep.node_assignment), {CPU: 2} | ({AZURE: 0} if AZURE in names else {}))
                np.testing.assert_array_equal(rep.run([np.float32([[-1, 2, 3]] * 2)])[0], [[1, 2, 3]] * 2)

    def test_none_named_is_every_one(self) -> None:
        rep = prepare(None)
        self.assertEqual(list(rep.providers), onnxruntime.get_available_providers())
        self.assertIsNone(rep.node_assignment)

    def test_no_node_is_a_warning_or_an_error(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, f"{AZURE}.*runs on {CPU}. Check .*cpu_ep_fallback") as caught:
            prepare({AZURE: {}})
        self.assertEqual(os.path.basename(caught.filename), "backend_test_processes.py")  # where prepare is called
        with self.assertWarnsRegex(RuntimeWarning, "No node of this model") as caught:
            prepare({AZURE: {}, CPU: {}})
        self.assertNotIn("disable_cpu_ep_fallback", str(caught.warning))
        with self.assertRaisesRegex(Exception, "fallback to CPU EP has been explicitly disabled"):
            prepare({AZURE: {}}, session_config=NO_CPU)

    def test_who_switches_the_record_off_has_none(self) -> None:
        key = "session.record_ep_graph_assignment_info"
        rep = prepare({AZURE: {}}, session_config={key: False})
        self.assertEqual(dict(rep.session_config), {key: "0"})
        self.assertIsNone(rep.node_assignment)

    def test_memory_of_its_own_is_proof_of_work(self) -> None:
        name = "WebGpuExecutionProvider"
        for memory, warns in (("WebGPU_Buf", False), ("Cpu", True)):
            session = SimpleNamespace(
                get_providers=lambda: [name, CPU],
                get_provider_graph_assignment_info=list,
                get_input_memory_infos=lambda memory=memory: [SimpleNamespace(name=memory)],
                get_output_memory_infos=list,
            )
            self.assertEqual(bool([*verification._without_nodes(session, Permit("", True, {name: {}}))]), warns)

    def test_nodes_of_an_ep_that_the_session_does_not_list(self) -> None:
        """As a plugin's that assigns them to a part of itself."""
        subgraphs = [
            SimpleNamespace(ep_name=name, get_nodes=lambda n=n: [None] * n) for name, n in ((UNKNOWN, 2), (CPU, 1))
        ]
        session = SimpleNamespace(
            get_providers=lambda: [CUDA, CPU], get_provider_graph_assignment_info=lambda: [*subgraphs, subgraphs[0]]
        )
        self.assertEqual(verification.node_assignment(session), {CUDA: 0, CPU: 1, UNKNOWN: 4})

    def test_the_cpu_ep_may_be_idle(self) -> None:
        """The CPU EP comes last, and callers expect the other EPs to run the whole model."""
        session = SimpleNamespace(
            get_providers=lambda: [CUDA, CPU],
            get_provider_graph_assignment_info=lambda: [SimpleNamespace(ep_name=CUDA, get_nodes=lambda: [None])],
            get_input_memory_infos=list,
            get_output_memory_infos=list,
        )
        self.assertEqual([*verification._without_nodes(session, Permit("", True, {CUDA: {}, CPU: {}}))], [])

    def test_excluded(self) -> None:
        with mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": f"{CUDA},{AZURE}"}):
            self.assertEqual(prepare(None).providers, (CPU,))
            for name in (AZURE, CUDA):
                with no_session_opens(), self.assertRaisesRegex(RuntimeError, f"{name}.*EXCLUDE_PROVIDERS"):
                    prepare({name: {}})

    def test_missing(self) -> None:
        with no_session_opens(), self.assertRaisesRegex(RuntimeError, f"{CUDA}.*not available.*{CPU}"):
            prepare({CUDA: {}})
        with no_session_opens(), self.assertRaisesRegex(RuntimeError, "not permitted.*unknown execution provider"):
            prepare({UNKNOWN: {}})

    def test_a_plugin_of_another_name_attaches_only_when_named(self) -> None:
        """ORT's own list would put it behind the CPU EP."""
        with process_with(bundled=(AZURE,), plugins=(QNN, UNKNOWN)):
            self.assertEqual(presence.stock_list(onnxruntime.get_available_providers()), [AZURE, CPU])

    def test_an_unknown_plugin_is_named_without_options_but_which_device(self) -> None:
        with process_with(plugins=(UNKNOWN, UNKNOWN)) as devices:
            noted, _ = opened({UNKNOWN: {"device_id": 1}})
            self.assertEqual(noted.of("add_provider_for_devices"), [("add_provider_for_devices", [devices[1]], {})])
            self.assertEqual(noted.of("add_provider"), [])


if __name__ == "__main__":
    unittest.main()
