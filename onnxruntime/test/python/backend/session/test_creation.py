# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of creating a session: the API that attaches each EP, and the EPs of the session."""

import os
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import _above
import numpy as np
from helpers.execution_providers import CPU, NO_CPU, WEBGPU
from helpers.models import no_session_opens
from helpers.processes import (
    AZURE,
    CUDA,
    IDLE,
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
from onnxruntime.backend import backend
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.applied.nodes import about_idle_providers, node_assignment
from onnxruntime.backend.explanations import failures
from onnxruntime.backend.session import creation, presence
from onnxruntime.backend.session.creation import Construction
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

EXCLUDE = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"


class AttachTest(unittest.TestCase):
    def check_attached(self, options: dict, *expected: tuple, argument: list | None = None, **process) -> None:
        """Check ``providers=`` and the calls: (key, text), (EP, options), or (index of a device, options)."""
        with self.subTest(options, **process), process_with(**process) as devices:
            noted, keywords = opened(options)
            calls = [arguments for name, arguments, _ in noted.mock_calls if "provider" in f"{name}{arguments[0]}"]
            places = {id(device): index for index, device in enumerate(devices)}  # equal devices differ by their index
            found = [(places[id(*to)] if type(to) is list else to, texts) for to, texts in calls]
            self.assertEqual(found, [*expected])
            self.assertEqual(keywords, {"providers": argument, "enable_fallback": 0})

    def test_the_api_for_each_ep(self):
        # OpenVINO reads entries and the call, and WebGPU entries. ORT logs the value of an entry that the call repeats.
        self.check_attached(
            {OPENVINO: {"num_of_threads": 2}, CUDA: {"use_tf32": False}},
            ("ep.openvinoexecutionprovider.num_of_threads", "2"),
            (OPENVINO, {"num_of_threads": "2"}),
            (CUDA, {"use_tf32": "0"}),
            bundled=(CUDA, OPENVINO),
        )
        entry = "ep.webgpuexecutionprovider.preferredLayout"
        self.check_attached({WEBGPU: {"preferredLayout": "NCHW"}}, (entry, "NCHW"), (WEBGPU, {}), bundled=(WEBGPU,))
        # A built-in EP can have devices, too.
        self.check_attached({WEBGPU: {}}, (WEBGPU, {}), bundled=(WEBGPU,), devices=[device_of(WEBGPU, plugin=False)])
        htp = {"backend_type": "htp"}
        self.check_attached({QNN: htp | {"device_id": 1}}, (1, htp), plugins=(QNN, QNN))
        self.check_attached({QNN: {}}, (0, {}), plugins=(QNN, QNN))
        self.check_attached({UNKNOWN: {"device_id": 1}}, (1, {}), plugins=(UNKNOWN, UNKNOWN))
        self.check_attached({TENSORRT: {}}, (0, {}), plugins=(TENSORRT,))
        inside = '{"CPU": {"INFERENCE_NUM_THREADS": "2", "INFERENCE_PRECISION_HINT": "f32"}}'
        options = {"num_of_threads": 2, "precision": "FP32"}
        self.check_attached({OPENVINO: options}, (0, {"load_config": inside}), plugins=(OPENVINO,))
        self.check_attached(
            {TENSORRT: {"trt_fp16_enable": True}, CUDA: {"device_id": 0}},
            argument=[(TENSORRT, {"trt_fp16_enable": "True"}), (CUDA, {"device_id": "0"})],
            bundled=(TENSORRT, CUDA),
        )

    def check_error(self, options: dict, message: str, got: list[str] | None = None, **process) -> None:
        with self.subTest(options), process_with(**process), self.assertRaisesRegex(RuntimeError, message):
            opened(options, got)

    def test_options_that_no_api_can_attach(self):
        message = f"{QNN}.*'device_id'.* value 2. Expected an integer below 2"
        self.check_error({QNN: {"device_id": 2}}, message, plugins=(QNN, QNN))
        message = f"{TENSORRT}.* combined with {QNN}: ORT ignores plugin EPs"
        self.check_error({TENSORRT: {}, QNN: {}}, message, bundled=(TENSORRT,), plugins=(QNN,))
        devices = [device_of(OPENVINO), device_of(OPENVINO, hardware="GPU")]
        of_a_cpu = {"num_of_threads": 2, "num_streams": 1, "precision": "FP32"}
        for name, value in of_a_cpu.items():
            message = f"'{name}'.* device 1 .*GPU. .* CPU"
            self.check_error({OPENVINO: {"device_id": 1, name: value}}, message, devices=devices)
        with process_with(devices=devices):
            opened({OPENVINO: {"device_id": 0} | of_a_cpu})
            opened({OPENVINO: {"device_id": 1}})

    def test_an_ep_that_did_not_come_up(self):
        for eps, got in (
            ([CUDA], [CPU]),
            ([CUDA, OPENVINO], [OPENVINO, CPU]),
            ([CUDA, OPENVINO], [OPENVINO, CUDA, CPU]),
        ):
            message = f"{', '.join(got)}, but .*{', '.join(eps)}, in this order"
            self.check_error({ep: {} for ep in eps}, message, got, bundled=(CUDA, OPENVINO))

    def test_options_that_only_the_ep_rejects(self):
        """The error is the caller's if ORT attaches the EP without options. Otherwise, it concerns the machine."""
        for ep, options, key in (
            (OPENVINO, {"device_type": "GPU"}, "device_type"),
            (OPENVINO, {"device_type": "CPU", "precision": "FP32"}, ""),
            (CUDA, {"device_id": 2}, "device_id"),
            (TENSORRT, {"device_id": 2}, "device_id"),
        ):
            for attaches in (True, False):

                def add_provider(name: str, texts: dict[str, str], attaches: bool = attaches) -> None:
                    if texts or not attaches:
                        raise InvalidArgument("the configuration is not supported")

                made = mock.Mock(add_provider=add_provider)
                fails = mock.Mock(side_effect=RuntimeError("invalid option"))
                with (
                    self.subTest(options, attaches=attaches),
                    process_with(bundled=(ep,)),
                    mock.patch.object(failures, "SessionOptions", lambda made=made: made),
                    self.assertRaises(RuntimeError) as caught,
                ):
                    creation.create(b"", permit({ep: options}), made, [], session_class=fails)
                found = [getattr(caught.exception, name, None) for name in ("keyword", "provider", "key")]
                self.assertEqual(found, ["provider_options", ep, key] if attaches else [None] * 3)


class AvailableTest(unittest.TestCase):
    """A caller who specifies no EP, on a machine without a library that an EP of this build needs."""

    def prepared(self, listed: list[str], failing: dict[str, str], **keywords) -> tuple[list, object]:
        """Return the attempts to create a session, as EPs and fallback, and the prepared model or the refusal."""
        tried = []

        class Session(onnxruntime.InferenceSession):
            def __init__(
                self,
                model: bytes,
                sess_options: onnxruntime.SessionOptions,
                *,
                providers: list[str],
                enable_fallback: int,
            ) -> None:
                tried.append((providers, enable_fallback))
                for name, error in failing.items() if not enable_fallback else ():
                    if name in providers:
                        raise RuntimeError(error)
                # Not with the options: this process has no global thread pools.
                super().__init__(model, providers=[CPU])

        with (
            mock.patch.object(presence, "default_providers", return_value=listed),
            mock.patch.object(backend, "InferenceSession", Session),
        ):
            try:
                return tried, prepare(None, **keywords)
            except onnxruntime.backend.NotPermittedError as refusal:
                return tried, refusal

    def test_the_attempts(self):
        needs = "an EP's library is missing"
        for listed, failing, tried in (
            ([CUDA, CPU], {}, [([CUDA, CPU], 0)]),
            ([TENSORRT, CUDA, CPU], {TENSORRT: needs}, [([TENSORRT, CUDA, CPU], 0), ([CUDA, CPU], 0)]),
            ([CUDA, CPU], {CUDA: needs}, [([CUDA, CPU], 0), ([CUDA, CPU], 1)]),
        ):
            with self.subTest(failing), self.assertWarnsRegex(RuntimeWarning, f"runs on the CPU.*{CUDA}"):
                found, rep = self.prepared(listed, failing)
            self.assertEqual((found, rep.providers, len(rep.warnings)), (tried, (CPU,), 1))
            self.assertFalse(rep.session._enable_fallback)
            np.testing.assert_array_equal(rep.run([np.ones((2, 3), np.float32)])[0], 1)

    def test_without_global_thread_pools(self):
        """The refusal comes before ORT's own fallback, which prints."""
        failing = {TENSORRT: "no libnvinfer", CPU: "EnvCreatedWithGlobalThreadPools"}
        tried, refusal = self.prepared([TENSORRT, CPU], failing, use_per_session_threads=False)
        self.assertEqual(refusal.keyword, "use_per_session_threads")
        self.assertEqual(tried, [([TENSORRT, CPU], 0), ([CPU], 0)])

    def test_a_registered_plugin_that_is_not_specified(self):
        """ORT 1.32 would attach some of them after the CPU EP, if ``providers=`` contained them."""
        for name in (QNN, UNKNOWN):
            with (
                self.subTest(name),
                process_with(bundled=IDLE, plugins=(name,)),
                self.assertWarnsRegex(RuntimeWarning, f"provider_options.*'{name}'"),
                mock.patch.object(
                    Construction, "_construct", autospec=True, side_effect=Construction._construct
                ) as created,
            ):
                rep = prepare(None)
            self.assertEqual(created.call_args.args[1], [*IDLE, CPU])
            self.assertEqual(len(rep.warnings), 1)
            excluded = mock.patch.dict("os.environ", {EXCLUDE: name})
            with self.subTest(excluded=name), process_with(plugins=(name,)), excluded:
                self.assertEqual(prepare(None).warnings, ())


class WhichTest(unittest.TestCase):
    def test_the_named_ones_in_order_then_the_cpu(self):
        for names, want in (((), (CPU,)), (IDLE, (*IDLE, CPU)), ((CPU, *IDLE), (CPU, *IDLE))):
            with self.subTest(names), warnings.catch_warnings(record=True, action="always") as given:
                rep = prepare({name: {} for name in names})
            self.assertEqual(len(given), AZURE in names)
            self.assertEqual((rep.providers, dict(rep.unconfirmed)), (want, {}))
            self.assertEqual(dict(rep.node_assignment), {CPU: 2} | ({AZURE: 0} if AZURE in names else {}))

    @unittest.skipUnless(IDLE, f"this ORT was built without {AZURE}")
    def test_no_node_is_a_warning_or_an_error(self):
        with self.assertWarnsRegex(RuntimeWarning, f"{AZURE}.*runs on {CPU}. Check .*cpu_ep_fallback") as caught:
            prepare({AZURE: {}})
        self.assertEqual(os.path.basename(caught.filename), "processes.py")  # where prepare is called
        with self.assertWarnsRegex(RuntimeWarning, "No node of this model") as caught:
            prepare({AZURE: {}, CPU: {}})
        with self.assertRaisesRegex(Exception, "fallback to CPU EP has been explicitly disabled"):
            prepare({AZURE: {}}, session_config=NO_CPU)

    def test_who_switches_the_record_off_has_none(self):
        key = "session.record_ep_graph_assignment_info"
        rep = prepare({CPU: {}}, session_config={key: False})
        self.assertEqual(dict(rep.session_config), {key: "0"})
        self.assertIsNone(rep.node_assignment)

    def test_the_record_of_nodes(self):
        # A plugin EP can assign nodes to a part of itself, which the session does not list. Memory of an EP is proof of
        # work. The CPU EP comes last, and callers expect the other EPs to run the whole model.
        for names, nodes, memory, counts, warns in (
            ([CUDA, CPU], [(UNKNOWN, 2), (CPU, 1), (UNKNOWN, 2)], "", {CUDA: 0, CPU: 1, UNKNOWN: 4}, True),
            ([CUDA, CPU], [(CUDA, 1)], "", {CUDA: 1, CPU: 0}, False),
            ([WEBGPU, CPU], [], "WebGPU_Buf", None, False),
            ([WEBGPU, CPU], [], "Cpu", None, True),
        ):
            session = SimpleNamespace(
                get_providers=lambda names=names: names,
                get_provider_graph_assignment_info=lambda nodes=nodes: [
                    SimpleNamespace(ep_name=name, get_nodes=lambda count=count: [None] * count) for name, count in nodes
                ],
                get_input_memory_infos=lambda memory=memory: [SimpleNamespace(name=memory)],
                get_output_memory_infos=list,
                get_inputs=list,
            )
            with self.subTest(nodes, memory=memory):
                self.assertEqual(node_assignment(session), counts)
                specified = Permit("", True, {name: {} for name in names})
                self.assertEqual(bool(about_idle_providers(session, specified)), warns)

    def test_specified_and_excluded(self):
        for name in (AZURE, CUDA):
            excluding = mock.patch.dict(os.environ, {EXCLUDE: f"{AZURE},{CUDA}"})
            with excluding, no_session_opens(), self.assertRaisesRegex(RuntimeError, f"{name}.*EXCLUDE_PROVIDERS"):
                prepare({name: {}})


if __name__ == "__main__":
    unittest.main()
