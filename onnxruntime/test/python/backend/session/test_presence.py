# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the EPs and devices of a process."""

import os
import unittest
import warnings
from unittest import mock

import _above
from helpers.execution_providers import CPU
from helpers.models import no_session_opens
from helpers.processes import CUDA, IDLE, OPENVINO, TENSORRT, permit, prepare, process_with

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist.tables import PROVIDERS
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.request import split_device
from onnxruntime.backend.session import presence
from onnxruntime.backend.session.attaching import option_texts


class DeviceTest(unittest.TestCase):
    def test_supported(self):
        self.assertEqual(split_device("C" * 1000), ("C" * 100, None))
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

    def test_an_object_that_claims_to_be_text(self):
        lying = mock.Mock(__class__=str)
        self.assertIsInstance(lying, str)
        self.assertFalse(onnxruntime.backend.supports_device(lying))
        with self.assertRaises(NotPermittedError) as caught:
            prepare(None, lying)
        self.assertEqual(caught.exception.keyword, "device")

    def settled(self, device: str, options: dict | None) -> dict[str, dict[str, str]] | str:
        """Return the texts of each EP's options, or the keyword of the refusal."""
        with process_with(bundled=(TENSORRT, CUDA, OPENVINO), build="GPU"):
            try:
                eps = permit(options, device).providers
            except NotPermittedError as refusal:
                return refusal.keyword
            return {name: option_texts(name, "built-in", options) for name, options in eps.items()}

    def test_an_index_is_the_device_id(self):
        one, zero = {"device_id": "1"}, {"device_id": "0"}
        for device, options, expected in (
            ("CUDA:1", None, {CUDA: one}),
            ("CUDA:1", {CUDA: {}}, {CUDA: one}),
            ("CUDA:1", {CUDA: {"use_tf32": 0}}, {CUDA: one | {"use_tf32": "0"}}),
            ("CUDA:1", {TENSORRT: {}, CUDA: {}}, {TENSORRT: one, CUDA: one}),
            ("CUDA:1", {OPENVINO: {}, CUDA: {}}, {OPENVINO: {}, CUDA: one}),
            ("CUDA", {CUDA: {}}, {CUDA: {}}),
            ("CUDA:0", {CUDA: {"device_id": 0}}, {CUDA: zero}),
            ("GPU:0", {CUDA: {"device_id": 0}}, {CUDA: zero}),
            # A contradiction is an error.
            ("CUDA:1", {TENSORRT: {"device_id": 0}, CUDA: {"device_id": 1}}, "device"),
            ("CUDA:1", {CUDA: {"device_id": 0}}, "device"),
            ("CUDA:1", {}, "device"),
            ("CUDA", {OPENVINO: {}}, "device"),
            ("GPU", {CPU: {}}, "device"),
        ):
            with self.subTest(device=device, options=options):
                self.assertEqual(self.settled(device, options), expected)

    def test_a_session_on_the_cpu_alone_has_no_other_device(self):
        """ORT creates it without a warning, for example if CUDA's libraries are missing."""
        unspecified = "provider_options specifies no EP of this device"
        for build, device, options, cause in (
            ("GPU", "CUDA", None, "EXCLUDE_PROVIDERS"),
            ("CPU-OPENVINO_CPU", "OPENVINO_CPU", None, "EXCLUDE_PROVIDERS"),
            ("CPU-OPENVINO_CPU", "OPENVINO", {CPU: {}}, unspecified),
        ):
            message = f"'{device}': .*runs on the CPU.*{cause}"
            with self.subTest(device, options=options), process_with(bundled=IDLE, build=build):
                with self.assertRaisesRegex(RuntimeError, message):
                    prepare(options, device)
                self.assertEqual(prepare({CPU: {}}).providers, (CPU,))
        with process_with():
            self.assertEqual(prepare({CPU: {}}, "CPU").providers, (CPU,))

    def test_an_unsupported_one_opens_no_session(self):
        for device in ("CUDA", "CUDA:0", "CPU:1", "NPU", "", "cpu", b"CPU"):
            for options in (None, {CPU: {}}):
                with (
                    process_with(),
                    no_session_opens(),
                    self.assertRaisesRegex(RuntimeError, "not supported") as raised,
                ):
                    prepare(options, device)
                self.assertEqual(CUDA in str(raised.exception), device in ("CUDA", "CUDA:0"))


class RegistrationTest(unittest.TestCase):
    def test_the_devices_of_plugins(self):
        """Before ORT 1.24.4, the metadata of a device does not contain the library of a plugin, but its version."""
        devices = [
            mock.Mock(ep_name=name, ep_metadata={"version": version})
            for name, version in ((CPU, "1.24.1"), (OPENVINO, "1.8.1+95d534b.ci.79"))
        ]
        for release, plugins in (("1.24.1", devices[1:]), ("1.24.4", [])):
            with process_with(devices=devices), mock.patch.object(onnxruntime, "__version__", release):
                self.assertEqual(presence.plugin_devices(OPENVINO), plugins)
                self.assertEqual(presence.kinds(), {CPU: "built-in"} | ({OPENVINO: "plugin"} if plugins else {}))


class ExcludedTest(unittest.TestCase):
    def test_names_that_cause_a_warning(self):
        """Each warning contains a part of the environment variable."""
        later = "OfALaterReleaseExecutionProvider"
        known = [*onnxruntime.get_all_providers(), later]
        for excluded, *named in (
            (f"{CUDA}, TensorRTExecutionProvider", "'TensorRTExecutionProvider'"),  # it is Tensorrt...
            ("x,y", "'x'", "'y'"),
            ("",),
            (f" {CUDA} ,{TENSORRT},",),
            (",".join({*known, *PROVIDERS} - {CPU}),),
        ):
            with (
                self.subTest(excluded),
                process_with(),
                mock.patch.object(onnxruntime, "get_all_providers", lambda: known),
                mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": excluded}),
                warnings.catch_warnings(record=True, action="always") as given,
            ):
                prepare({CPU: {}})
                self.assertEqual(len(given), len(named))
                for name, warning in zip(named, given, strict=True):
                    self.assertIn(name, str(warning.message))


if __name__ == "__main__":
    unittest.main()
