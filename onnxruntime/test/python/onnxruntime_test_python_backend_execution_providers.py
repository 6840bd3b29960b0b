# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Which execution providers a session gets, through which doors: what any build shows, and doors that need no hardware
behind them to be tried. The EPs themselves are tested for real where they can be had, in files named after them.
"""

from __future__ import annotations

import contextlib
import os
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np
from backend_test_execution_providers import CPU, NO_CPU
from backend_test_models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime import SessionOptions
from onnxruntime.backend import request
from onnxruntime.backend.allowlist import circumstances, look_up, permits, providers
from onnxruntime.backend.allowlist.circumstances import Circumstances
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.session import failures, opening, presence, verification
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

AZURE = "AzureExecutionProvider"  # in every build for the desktop; it takes no node that an ordinary model has
CUDA = "CUDAExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
QNN = "QNNExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
UNKNOWN = "UnheardOfExecutionProvider"


def prepare(options: object, device: str | None = None, **keywords):
    return onnxruntime.backend.prepare(two_nodes(), device, provider_options=options, **keywords)


def device_of(name: str, plugin: bool = True, hardware: str = "CPU") -> SimpleNamespace:
    return SimpleNamespace(
        ep_name=name,
        ep_metadata={"library_path": "lib.so"} if plugin else {"version": "1"},
        device=SimpleNamespace(type=getattr(onnxruntime.OrtHardwareDeviceType, hardware)),
    )


@contextlib.contextmanager
def process_with(bundled: tuple[str, ...] = (), plugins: tuple[str, ...] = (), build: str = "CPU", devices=()):
    """A process whose ORT has these EPs, as far as it can be asked. A name among plugins twice has two devices."""
    here = [*(device_of(name) for name in plugins), *devices]
    available = [*bundled, CPU, *dict.fromkeys(plugins)]
    with (
        mock.patch.object(onnxruntime, "get_available_providers", lambda: available),
        mock.patch.object(onnxruntime, "get_ep_devices", lambda: here),
        mock.patch.object(onnxruntime, "get_device", lambda: build),
        mock.patch.object(providers, "usable_cores", lambda: 2),
    ):
        yield here


def permit(options: dict | None, device: str | None = None) -> permits.Permit:
    asked = request.of_call({"provider_options": options}, device=device)
    permitted = look_up.permit(asked, circumstances.expected(()), presence.kind_of)
    presence.check_available(permitted)
    return permitted


def granted(options: dict) -> dict:
    return permit(options).providers


class Opened(SimpleNamespace):
    """What stands in for an open session: unlike its base it can be referred to weakly."""


class Options:
    """Session options that only note what is done to them."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __getattr__(self, name: str):
        return lambda *arguments: self.calls.append((name, *arguments))

    def of(self, *names: str) -> list[tuple]:
        return [call for call in self.calls if call[0] in names]


def opened(options: dict, got: list[str] | None = None) -> tuple[Options, dict]:
    """Open a session that comes up with the EPs it ``got``, and tell what ORT was given."""
    noted, keywords = Options(), {}

    def session(_model, _options, **given):
        keywords.update(given)
        providers = [*options, CPU] if got is None else got
        return Opened(
            get_providers=lambda: providers,
            get_provider_options=lambda: {name: {} for name in providers},
            _sess=SimpleNamespace(is_webgpu_graph_capture_enabled=lambda: False),
        )

    permitted = permit(options)
    with (
        mock.patch.object(opening, "InferenceSession", session),
        mock.patch.object(opening, "SessionOptions", lambda: noted),
        mock.patch.object(eligibility, "InferenceSession", session),
    ):
        opening.create(b"", permitted, ())
    return noted, keywords


class DoorTest(unittest.TestCase):
    def test_bundled(self) -> None:
        """By both doors of bundled EPs, entries first: one alone loses options of OpenVINO or of WebGPU."""
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
            with self.assertRaisesRegex(RuntimeError, "'device_id'.* value 2. Expected an integer below 2"):
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

    def test_an_ep_that_did_not_come_up_is_an_error(self) -> None:
        with process_with(bundled=(CUDA, OPENVINO)):
            for options, got, message in (
                ({CUDA: {}}, [CPU], f"names {CUDA}, but ORT opened the session with {CPU} alone"),
                ({CUDA: {}, OPENVINO: {}}, [OPENVINO, CPU], f"names {CUDA}, but"),
                ({CUDA: {}, OPENVINO: {}}, [OPENVINO, CUDA, CPU], "in this order"),
            ):
                with self.subTest(got), self.assertRaisesRegex(RuntimeError, message):
                    opened(options, got)

    def test_an_ep_that_cannot_be_attached_is_an_error(self) -> None:
        """ORT lists CUDA here, but has none: what adds it to the session options raises."""
        with process_with(bundled=(CUDA,)), self.assertRaisesRegex(RuntimeError, f"{CUDA}.*could not be attached"):
            opening.create(b"", permit({CUDA: {}}), ())


class ReadBackTest(unittest.TestCase):
    def session(self, **reported: dict) -> SimpleNamespace:
        return SimpleNamespace(
            get_provider_options=lambda: reported,
            get_provider_graph_assignment_info=mock.Mock(side_effect=Fail),
            get_session_options=SessionOptions,
        )

    def test_another_value_than_was_sent_is_an_error(self) -> None:
        with process_with(bundled=(CUDA,)):
            permitted = permit({CUDA: {"use_tf32": False, "device_id": 0}})
        texts = {"use_tf32": "0", "device_id": "0", "gpu_mem_limit": "1", "user_compute_stream": "0"}
        applied = verification.read_back(self.session(**{CUDA: texts}), permitted)
        self.assertEqual(applied.provider_options, {CUDA: {"use_tf32": "0", "device_id": "0"}})
        self.assertEqual(applied.unconfirmed, {})
        for wrong in ("1", "", "perhaps"):
            with self.assertRaisesRegex(RuntimeError, "'use_tf32'.* was sent as '0', but ORT reports"):
                verification.read_back(self.session(**{CUDA: texts | {"use_tf32": wrong}}), permitted)

    def test_another_spelling_of_the_same_value_is_none(self) -> None:
        with process_with(bundled=(CUDA,)):
            permitted = permit({CUDA: {"use_tf32": False, "gpu_mem_limit": 1 << 30}})
        for flag, size in (("False", "1073741824"), ("0", "01073741824"), ("false", "1073741824")):
            read = self.session(**{CUDA: {"use_tf32": flag, "gpu_mem_limit": size}})
            applied = verification.read_back(read, permitted)
            self.assertEqual(applied.provider_options, {CUDA: {"use_tf32": flag, "gpu_mem_limit": size}})

    def test_what_is_not_reported_is_compared_as_it_was_sent(self) -> None:
        """Where an EP gives its text back all the same, any other text is not what was sent."""
        option = "enable_skip_layer_norm_strict_mode"
        there = Circumstances((1, 27), "x86_64", system="Linux")
        with process_with(bundled=(CUDA,)), mock.patch.object(circumstances, "_this_machine", lambda: there):
            permitted = permit({CUDA: {option: True}})
        applied = verification.read_back(self.session(**{CUDA: {option: "1"}}), permitted)
        self.assertEqual((applied.provider_options, applied.unconfirmed), ({CUDA: {}}, {CUDA: {option: "1"}}))
        with self.assertRaisesRegex(RuntimeError, "was sent as '1', but ORT reports 'true'"):
            verification.read_back(self.session(**{CUDA: {option: "true"}}), permitted)

    def test_text_that_carries_options_is_compared_and_not_shown(self) -> None:
        with process_with(plugins=(OPENVINO,)):
            permitted = permit({OPENVINO: {"num_of_threads": 2}})
        carried = {"load_config": '{"CPU": {"INFERENCE_NUM_THREADS": "2"}}'}
        # Even an ORT that repeats the option does not show that the EP, which ignores it there, knows of it.
        applied = verification.read_back(self.session(**{OPENVINO: carried | {"num_of_threads": "2"}}), permitted)
        self.assertEqual(applied.provider_options, {OPENVINO: {}})
        self.assertEqual(applied.unconfirmed, {OPENVINO: {"num_of_threads": "2"}})
        with self.assertRaisesRegex(RuntimeError, "'load_config'.*but ORT reports '{}'"):
            verification.read_back(self.session(**{OPENVINO: {"load_config": "{}"}}), permitted)


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
                self.assertEqual(rep.providers, want)
                self.assertEqual(dict(rep.node_assignment), {CPU: 2} | ({AZURE: 0} if AZURE in names else {}))
                np.testing.assert_array_equal(rep.run([np.float32([[-1, 2, 3]] * 2)])[0], [[1, 2, 3]] * 2)

    def test_none_named_is_every_one(self) -> None:
        rep = prepare(None)
        self.assertEqual(list(rep.providers), onnxruntime.get_available_providers())
        self.assertIsNone(rep.node_assignment)

    def test_no_node_is_a_warning_or_an_error(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, f"{AZURE} .*runs on {CPU}.*disable_cpu_ep_fallback") as caught:
            prepare({AZURE: {}})
        self.assertEqual(caught.filename, __file__)
        with self.assertWarnsRegex(RuntimeWarning, "took no node") as caught:
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
            self.assertEqual(bool([*verification._without_nodes(session, [name])]), warns)

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
        """It is named to stand last, and a model that runs elsewhere altogether is what its caller hopes for."""
        session = SimpleNamespace(
            get_providers=lambda: [CUDA, CPU],
            get_provider_graph_assignment_info=lambda: [SimpleNamespace(ep_name=CUDA, get_nodes=lambda: [None])],
            get_input_memory_infos=list,
            get_output_memory_infos=list,
        )
        self.assertEqual([*verification._without_nodes(session, [CUDA, CPU])], [])

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
            self.assertEqual(presence.stock_list(), [AZURE, CPU, QNN])

    def test_an_unknown_plugin_is_named_without_options_but_which_device(self) -> None:
        with process_with(plugins=(UNKNOWN, UNKNOWN)) as devices:
            noted, _ = opened({UNKNOWN: {"device_id": 1}})
            self.assertEqual(noted.of("add_provider_for_devices"), [("add_provider_for_devices", [devices[1]], {})])
            self.assertEqual(noted.of("add_provider"), [])
            for option in ("anything", "shared_lib_path"):
                with self.assertRaisesRegex(RuntimeError, "not permitted"):
                    granted({UNKNOWN: {option: "1"}})

    def test_the_table_is_that_of_the_door(self) -> None:
        with process_with(plugins=(OPENVINO,)), self.assertRaisesRegex(RuntimeError, "'device_type'.*not permitted"):
            granted({OPENVINO: {"device_type": "CPU"}})
        with process_with(bundled=(OPENVINO,)):
            self.assertEqual(granted({OPENVINO: {"device_type": "CPU"}})[OPENVINO]["device_type"].text, "CPU")


class MissingTest(unittest.TestCase):
    def test_what_the_system_says_comes_first(self) -> None:
        with mock.patch.object(failures, "missing_library", {CUDA: "The system says: no such thing."}.get):
            self.assertEqual(failures.missing([CPU, CUDA]), "The system says: no such thing.")
            self.assertIn("the EP needs such as CUDA", failures.missing([TENSORRT]))


class DeviceTest(unittest.TestCase):
    def test_supported(self) -> None:
        never = ("cpu", "CPU:", "CPU:0 ", "CUDA:100", "CUDA:-1", "CUDA:\u0661", None, 0)
        for build, plugins, yes, no in (
            ("CPU", (), "CPU CPU:0", "CUDA CUDA:0 GPU CPU:1"),
            ("GPU", (), "GPU CUDA CUDA:0 CUDA:63 GPU:1", "CPU"),
            ("CPU-OPENVINO_CPU", (), "CPU OPENVINO OPENVINO_CPU CPU-OPENVINO_CPU CPU:0", "CPU- VINO_CPU CPU:1 NPU"),
            ("CPU", (CUDA, CUDA), "CUDA CUDA:1 GPU", "CUDA:2"),
            ("CPU", (CUDA,), "CUDA CUDA:0 GPU", "CUDA:1"),
        ):
            with process_with(plugins=plugins, build=build):
                for device in yes.split():
                    self.assertTrue(onnxruntime.backend.supports_device(device), (build, device))
                for device in [*no.split(), *never]:
                    self.assertFalse(onnxruntime.backend.supports_device(device), (build, device))

    def settled(self, device: str, options: dict | None) -> dict[str, dict[str, str]]:
        with process_with(bundled=(TENSORRT, CUDA, OPENVINO), build="GPU"):
            return {name: permits.sent(options) for name, options in permit(options, device).providers.items()}

    def test_an_index_is_the_device_id(self) -> None:
        one = {"device_id": "1"}
        self.assertEqual(self.settled("CUDA:1", None), {CUDA: one})
        self.assertEqual(self.settled("CUDA:1", {CUDA: {}}), {CUDA: one})
        self.assertEqual(self.settled("CUDA:1", {CUDA: {"device_id": 1}}), {CUDA: one})
        self.assertEqual(self.settled("CUDA:1", {CUDA: {"use_tf32": 0}}), {CUDA: one | {"use_tf32": "0"}})
        self.assertEqual(self.settled("CUDA:1", {TENSORRT: {}, CUDA: {}}), {TENSORRT: one, CUDA: one})
        self.assertEqual(self.settled("CUDA:1", {OPENVINO: {}, CUDA: {}}), {OPENVINO: {}, CUDA: one})
        self.assertEqual(self.settled("CUDA", {CUDA: {"device_id": 1}}), {CUDA: one})

    def test_a_contradiction_is_an_error(self) -> None:
        for device, options in (
            ("CUDA:0", {CUDA: {"device_id": 1}}),
            ("CUDA:1", {TENSORRT: {"device_id": 0}, CUDA: {"device_id": 1}}),
            ("CUDA:1", {}),
            ("CUDA", {OPENVINO: {}}),
            ("GPU", {CPU: {}}),
        ):
            with self.subTest(device=device, options=options), self.assertRaisesRegex(RuntimeError, "contradicts"):
                self.settled(device, options)

    def test_a_device_alone_names_no_ep(self) -> None:
        for device in ("CPU", "CPU:0", "CUDA", "GPU", None):
            self.assertIsNone(request.of_call({}, device=device).provider_options)

    def test_a_session_on_the_cpu_alone_is_no_session_on_a_gpu(self) -> None:
        """As ORT opens it without a word where CUDA's libraries are missing."""
        with mock.patch.object(onnxruntime, "get_device", lambda: "GPU"):
            for device in ("CUDA", "GPU"):
                with self.assertRaisesRegex(RuntimeError, f"'{device}' was asked for.*{CPU} alone"):
                    prepare(None, device)
            self.assertEqual(prepare({CPU: {}}).providers, (CPU,))

    def test_an_unsupported_one_opens_no_session(self) -> None:
        for device in ("CUDA", "CUDA:0", "CPU:1", "NPU", "", "cpu", b"CPU"):
            for options in (None, {CPU: {}}):
                with no_session_opens(), self.assertRaisesRegex(RuntimeError, "not supported"):
                    prepare(options, device)


if __name__ == "__main__":
    unittest.main()
