# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the EPs and devices of a process."""

from __future__ import annotations

import os
import unittest
import warnings
from unittest import mock

from backend_test_execution_providers import CPU
from backend_test_models import no_session_opens, two_nodes
from backend_test_processes import (
    AZURE,
    CUDA,
    OPENVINO,
    TENSORRT,
    permit,
    prepare,
    process_with,
)

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import request
from onnxruntime.backend.allowlist.providers import option_texts
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.session import presence

KNOWN = CUDA


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

    def test_an_object_that_claims_to_be_text(self) -> None:
        lying = mock.Mock(__class__=str)
        self.assertIsInstance(lying, str)
        self.assertFalse(onnxruntime.backend.supports_device(lying))
        with self.assertRaises(NotPermittedError) as caught:
            onnxruntime.backend.prepare(two_nodes(), lying)
        self.assertEqual(caught.exception.keyword, "device")

    def settled(self, device: str, options: dict | None) -> dict[str, dict[str, str]]:
        with process_with(bundled=(TENSORRT, CUDA, OPENVINO), build="GPU"):
            return {
                name: option_texts(name, "built-in", options)
                for name, options in permit(options, device).providers.items()
            }

    def test_an_index_is_the_device_id(self) -> None:
        one, zero = {"device_id": "1"}, {"device_id": "0"}
        for device, options, expected in (
            ("CUDA:1", None, {CUDA: one}),
            ("CUDA:1", {CUDA: {}}, {CUDA: one}),
            ("CUDA:1", {CUDA: {"device_id": 1}}, {CUDA: one}),
            ("CUDA:1", {CUDA: {"use_tf32": 0}}, {CUDA: one | {"use_tf32": "0"}}),
            ("CUDA:1", {TENSORRT: {}, CUDA: {}}, {TENSORRT: one, CUDA: one}),
            ("CUDA:1", {OPENVINO: {}, CUDA: {}}, {OPENVINO: {}, CUDA: one}),
            ("CUDA", {CUDA: {"device_id": 1}}, {CUDA: one}),
            ("CUDA", {CUDA: {}}, {CUDA: {}}),
            ("CUDA:0", {CUDA: {"device_id": 0}}, {CUDA: zero}),
            ("GPU:0", {CUDA: {"device_id": 0}}, {CUDA: zero}),
        ):
            with self.subTest(device=device, options=options):
                self.assertEqual(self.settled(device, options), expected)

    def test_a_contradiction_is_an_error(self) -> None:
        for device, options in (
            ("CUDA:0", {CUDA: {"device_id": 1}}),
            ("CUDA:1", {TENSORRT: {"device_id": 0}, CUDA: {"device_id": 1}}),
            ("CUDA:1", {CUDA: {"device_id": 0}}),
            ("GPU:0", {CUDA: {"device_id": 1}}),
            ("CUDA:1", {}),
            ("CUDA", {OPENVINO: {}}),
            ("GPU", {CPU: {}}),
        ):
            with self.subTest(device=device, options=options), self.assertRaises(NotPermittedError) as refused:
                self.settled(device, options)
            self.assertEqual(refused.exception.keyword, "device")

    def test_a_device_alone_names_no_ep(self) -> None:
        for device in ("CPU", "CPU:0", "CUDA", "GPU", None):
            self.assertEqual(request.of_call({}, device=device).settings, {})

    def test_a_session_on_the_cpu_alone_is_no_session_on_a_gpu(self) -> None:
        """As ORT opens it without a word where CUDA's libraries are missing."""
        with process_with(bundled=(AZURE,), build="GPU"):
            for device in ("CUDA", "GPU"):
                with self.assertRaisesRegex(RuntimeError, f"'{device}': .*runs on the CPU.*EXCLUDE_PROVIDERS"):
                    prepare(None, device)
            self.assertEqual(prepare({CPU: {}}).providers, (CPU,))

    def test_an_unsupported_one_opens_no_session(self) -> None:
        for device in ("CUDA", "CUDA:0", "CPU:1", "NPU", "", "cpu", b"CPU"):
            for options in (None, {CPU: {}}):
                with no_session_opens(), self.assertRaisesRegex(RuntimeError, "not supported"):
                    prepare(options, device)


class TestPluginsBefore1244(unittest.TestCase):
    """Device records of those releases do not say where a plugin's library is."""

    def test_recognised_by_the_version(self):
        def device(name, **metadata):
            return mock.Mock(ep_name=name, ep_metadata=metadata)

        devices = [
            device(CPU, version="1.24.1"),
            device(OPENVINO, version="1.8.1+95d534b.ci.79"),
        ]
        with (
            mock.patch.object(onnxruntime, "__version__", "1.24.1"),
            mock.patch.object(onnxruntime, "get_ep_devices", return_value=devices, create=True),
        ):
            self.assertEqual(presence.plugin_devices(OPENVINO), devices[1:])
            self.assertEqual(presence.kinds()[OPENVINO], "plugin")
            self.assertEqual(presence.kinds()[CPU], "built-in")
        with (
            mock.patch.object(onnxruntime, "get_ep_devices", return_value=devices, create=True),
            mock.patch.object(onnxruntime, "__version__", "1.24.4"),
        ):
            self.assertEqual(presence.plugin_devices(OPENVINO), [])


class AdviceTest(unittest.TestCase):
    def test_advice_on_a_device(self) -> None:
        for available, given, advised in (
            ([CPU], "CUDA", True),
            ([CPU], "cuda:1", True),
            ([CPU], "GPU", True),
            ([CPU], "TPU", False),
            ([CPU], 1, False),
            ([CUDA, CPU], "cuda", False),
            ([OPENVINO, CPU], "CUDA", True),
        ):
            with (
                self.subTest(given, available=available),
                mock.patch.object(onnxruntime, "get_available_providers", return_value=available),
                mock.patch.object(onnxruntime, "get_ep_devices", return_value=[], create=True),
            ):
                advice = presence.advice_on_device(given)
                self.assertEqual((bool(advice), "device_type" in advice), (advised, OPENVINO in available))


class RegistrationTest(unittest.TestCase):
    def test_a_registered_library_without_a_device(self) -> None:
        with mock.patch.object(presence, "_pybind_state", Registered):
            presence.check_devices(["", "\0", "\ud800", "NoDevice\0", "x" * 10**6])  # ORT receives none of them
            reasons = []
            for name in ("NoDevice", "NeverRegistered"):
                with self.assertRaises(NotPermittedError) as caught:
                    onnxruntime.backend.prepare(two_nodes(), provider_options={name: {}})
                reasons.append(caught.exception.reason)
        self.assertIn("device", reasons[0])
        self.assertTrue(reasons[1].endswith(presence.advice("NeverRegistered")))

    def test_ort_knows_the_registered_libraries(self) -> None:
        self.assertFalse(presence._is_registered("NeverRegistered"))
        has_function = hasattr(presence._pybind_state, "get_hardware_device_ep_incompatibility_details")
        self.assertEqual(presence._is_registered(CPU), has_function)  # ORT 1.24 does not have it


class Registered:
    InvalidArgument = LookupError

    @staticmethod
    def get_hardware_device_ep_incompatibility_details(name: str, device: object) -> dict:
        if name != "NoDevice":
            raise Registered.InvalidArgument
        return {}


class ExcludedTest(unittest.TestCase):
    def warnings_of(self, excluded: str, **keywords) -> list[str]:
        with (
            mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": excluded}),
            warnings.catch_warnings(record=True) as given,
        ):
            warnings.simplefilter("always")
            onnxruntime.backend.prepare(two_nodes(), **keywords)
        return [str(warning.message) for warning in given]

    def test_an_unknown_name_causes_a_warning(self) -> None:
        for keywords in ({}, {"provider_options": {}}):
            for excluded, unknown in (
                ("CUDAExecutionProvidr", ["CUDAExecutionProvidr"]),
                (f"{KNOWN}, TensorRTExecutionProvider", ["TensorRTExecutionProvider"]),  # it is Tensorrt...
                ("x,y", ["x", "y"]),
            ):
                given = self.warnings_of(excluded, **keywords)
                with self.subTest(excluded, keywords=keywords):
                    self.assertEqual(len(given), len(unknown))
                    for name, text in zip(unknown, given, strict=True):
                        self.assertIn(repr(name), text)

    def test_the_cpu_ep_cannot_be_excluded(self) -> None:
        for keywords in ({}, {"provider_options": {CPU: {}}}):
            self.assertEqual(len(self.warnings_of(CPU, **keywords)), 1)

    def test_a_known_name_causes_no_warning(self) -> None:
        for excluded in ("", ",", KNOWN, f" {KNOWN} ,TensorrtExecutionProvider,", *onnxruntime.get_all_providers()):
            with self.subTest(excluded):
                if excluded != "CPUExecutionProvider":
                    self.assertEqual(self.warnings_of(excluded), [])
        with mock.patch.object(onnxruntime, "get_all_providers", lambda: ["OfALaterReleaseExecutionProvider"]):
            self.assertEqual(self.warnings_of("OfALaterReleaseExecutionProvider"), [])
        with (
            mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": "OwnPluginExecutionProvider"}),
            warnings.catch_warnings(action="error"),
        ):
            self.assertEqual(presence.stock_list(["OwnPluginExecutionProvider", CPU]), [CPU])


if __name__ == "__main__":
    unittest.main()
