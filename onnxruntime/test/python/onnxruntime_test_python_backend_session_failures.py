# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the explanations for a session that ORT did not create as requested."""

from __future__ import annotations

import os
import re
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from backend_test_execution_providers import CPU
from backend_test_models import two_nodes
from backend_test_processes import (
    CUDA,
    OPENVINO,
    TENSORRT,
    UNKNOWN,
    permit,
    prepare,
    process_with,
)

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.provider_names import QNN
from onnxruntime.backend.session import failures, opening, presence, verification
from onnxruntime.capi import onnxruntime_pybind11_state
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument


class MissingTest(unittest.TestCase):
    """The messages for a CUDA EP that ORT cannot use: the missing part first, then the next step."""

    def missing(self, names: list[str], driver: str = "", libraries: dict[str, str] | None = None) -> str:
        errors = {failures._library(name): error for name, error in (libraries or {}).items()}
        with (
            mock.patch.object(failures, "_load_error", lambda path: errors.get(path, driver)),
            mock.patch.object(failures.os.path, "isfile", errors.__contains__),
        ):
            return failures.missing(names)

    def test_the_driver_is_first(self) -> None:
        found = self.missing([CUDA], "no driver", {CUDA: "no library"})
        self.assertRegex(found, r"driver is missing .*\(no driver\)")
        for name in (OPENVINO, "MIGraphXExecutionProvider"):  # MIGraphX runs on AMD's GPUs
            found = self.missing([name], "no driver")
            self.assertFalse(re.search("no driver|NVIDIA|CUDA", found), found)

    def test_the_files_of_each_system(self) -> None:
        for system, driver, library in (
            ("linux", "libcuda.so.1", "libonnxruntime_providers_cuda.so"),
            ("darwin", "libcuda.so.1", "libonnxruntime_providers_cuda.dylib"),
            ("win32", "nvcuda.dll", "onnxruntime_providers_cuda.dll"),
        ):
            with (
                mock.patch.object(failures.sys, "platform", system),
                mock.patch.object(failures, "_load_error", return_value="no file") as load,
            ):
                failures.missing([CUDA])
                load.assert_called_once_with(driver)
                self.assertEqual(Path(failures._library(CUDA)), Path(onnxruntime.__file__).parent / "capi" / library)

    def test_a_library_and_the_command_that_installs_it(self) -> None:
        for libraries in ({CUDA: "no library"}, {}):
            found = self.missing([CPU, CUDA], "", libraries)
            self.assertIn(libraries.get(CUDA, "cuDNN"), found)
            self.assertIn("pip install 'onnxruntime-gpu[cuda,cudnn]'", found)
            self.assertIn("onnxruntime.preload_dlls()", found)
        found = self.missing([OPENVINO], "", {OPENVINO: "no library"})
        self.assertRegex(found, "^The system says: no library")
        for version in ("12.8", None):
            with mock.patch.object(failures.build_and_package_info, "cuda_version", version, create=True):
                built_for = re.findall(r"built for CUDA (\S+)\.", self.missing([CUDA], "", {CUDA: "no library"}))
                self.assertEqual(built_for, [version] if version else [])
        self.assertNotIn("cuDNN", found)

    def test_a_base_without_cuda(self) -> None:
        with process_with(), self.assertRaisesRegex(RuntimeError, "ORT_BACKEND_BASE=onnxruntime-gpu pip install ."):
            prepare({CUDA: {}})

    def test_a_session_that_falls_back_to_the_cpu_warns(self) -> None:
        """A GPU build, and a caller who specifies nothing."""
        with (
            mock.patch.object(presence, "stock_list", return_value=[CUDA, CPU]),
            mock.patch.object(opening, "InferenceSession", on_the_cpu),
            self.assertWarnsRegex(RuntimeWarning, f"runs on the CPU.*{CUDA}"),
        ):
            rep = onnxruntime.backend.prepare(two_nodes())
        self.assertEqual(len(rep.warnings), 1)
        np.testing.assert_array_equal(rep.run([np.ones((2, 3), np.float32)])[0], 1)

    def test_no_global_thread_pools_on_a_machine_without_tensorrt(self) -> None:
        tried = []

        def fails(model, options, *, providers, enable_fallback):
            tried.append((providers, enable_fallback))
            raise RuntimeError("no libnvinfer" if TENSORRT in providers else "EnvCreatedWithGlobalThreadPools")

        with (
            mock.patch.object(presence, "stock_list", return_value=[TENSORRT, CPU]),
            mock.patch.object(opening, "InferenceSession", fails),
            self.assertRaises(onnxruntime.backend.NotPermittedError) as raised,
        ):
            onnxruntime.backend.prepare(two_nodes(), use_per_session_threads=False)
        self.assertEqual(raised.exception.keyword, "use_per_session_threads")
        self.assertEqual(tried, [([TENSORRT, CPU], 0), ([CPU], 0)])  # without the fallback, which prints

    def test_a_session_with_global_thread_pools_falls_back(self) -> None:
        """ORT's fallback to the CPU EP, in a process with global thread pools."""
        tried = []

        def fails_first(model, options, *, enable_fallback=True, **_):
            tried.append(bool(enable_fallback))
            if not enable_fallback:
                raise RuntimeError("an EP's library is missing")
            return onnxruntime.InferenceSession(model, providers=[CPU])

        with (
            mock.patch.object(opening, "InferenceSession", fails_first),
            mock.patch.object(verification, "read_back", return_value=verification.NOTHING_APPLIED),
        ):
            rep = onnxruntime.backend.prepare(two_nodes(), use_per_session_threads=False)
        self.assertEqual(tried, [False, True])
        self.assertEqual(rep.providers, (CPU,))

    def test_a_registered_plugin_that_is_not_specified(self) -> None:
        """ORT 1.32 would attach some of them after the CPU EP, if ``providers=`` contained them."""
        for name in (QNN, UNKNOWN):
            with (
                self.subTest(name),
                process_with(plugins=(name,)),
                self.assertWarnsRegex(RuntimeWarning, f"provider_options.*'{name}'"),
                mock.patch.object(opening, "InferenceSession", wraps=onnxruntime.InferenceSession) as created,
            ):
                rep = onnxruntime.backend.prepare(two_nodes())
            self.assertEqual(created.call_args.kwargs["providers"], [CPU])
            self.assertEqual(len(rep.warnings), 1)
            excluded = mock.patch.dict("os.environ", {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": name})
            with self.subTest(excluded=name), process_with(plugins=(name,)), excluded:
                self.assertEqual(onnxruntime.backend.prepare(two_nodes()).warnings, ())

    def test_a_plugin_that_cannot_be_created(self) -> None:
        """ORT up to 1.31 raises a RuntimeError with this text, and from 1.32 on its own class."""
        text = "virtual ... onnxruntime::PluginExecutionProviderFactory::CreateProvider(...) no backend"
        for error, explained in (
            (Fail(text), True),
            (RuntimeError(text), True),
            (Fail("Load model failed"), False),
        ):
            with (
                self.subTest(repr(error)),
                process_with(plugins=(QNN,)),
                mock.patch.object(eligibility, "InferenceSession", side_effect=error),
                self.assertRaises(Exception) as raised,
            ):
                opening.create(b"", permit({QNN: {}}), (), mock.Mock())
            advised = isinstance(raised.exception, RuntimeError) and "backend_type='htp'" in str(raised.exception)
            self.assertEqual(advised, explained)


def on_the_cpu(model, options, **_):
    return onnxruntime.InferenceSession(model, options, providers=[CPU])


class EnvironmentTest(unittest.TestCase):
    """ORT 1.32 reads these variables in every session, and its errors name config keys that nobody set."""

    def test_the_error_names_the_variable(self) -> None:
        read = 0
        for variable in failures.SESSION_VARIABLES:
            with mock.patch.dict(os.environ, {variable: "abc"}):
                try:
                    onnxruntime.InferenceSession(two_nodes().SerializeToString(), providers=[CPU])
                    continue
                except InvalidArgument:
                    read += 1
                for keywords in ({}, {"provider_options": {}}):
                    with self.subTest(variable, **keywords), self.assertRaises(InvalidArgument) as raised:
                        onnxruntime.backend.prepare(two_nodes(), **keywords)
                    self.assertIn(f"{variable}='abc'", str(raised.exception))
        release = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
        self.assertEqual(read, 6 if release >= (1, 32) else 0)

    def test_only_a_variable_that_is_set(self) -> None:
        error = InvalidArgument("Invalid session.moe.offload.min_expert_weight value 'abc'")
        self.assertIsNone(failures.explain(error))


class MissingLibraryTest(unittest.TestCase):
    def test_the_system_says_what_is_missing(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            capi = Path(folder, "capi")
            capi.mkdir()
            for name in ("libonnxruntime_providers_cuda.so", "libonnxruntime_providers_cuda.dylib"):
                (capi / name).write_text("no library")
            (capi / "onnxruntime_providers_cuda.dll").write_text("no library")
            with mock.patch.object(failures.onnxruntime, "__file__", str(Path(folder, "__init__.py"))):
                self.assertRegex(failures._load_error(failures._library(CUDA)), "providers_cuda")
        self.assertEqual(failures._load_error(onnxruntime_pybind11_state.__file__), "")

    def test_a_device_of_openvino(self) -> None:
        """A device is absent if ORT attaches the EP for the CPU."""
        for name, texts, attaches in (
            (OPENVINO, {"device_type": "GPU"}, True),
            (OPENVINO, {"device_type": "GPU"}, False),
            (OPENVINO, {"device_type": "CPU"}, True),
            (OPENVINO, {}, True),
            (QNN, {"device_type": "GPU"}, True),
        ):
            refused = None
            with self.subTest(name, texts=texts), mock.patch.object(failures, "SessionOptions") as options:
                options.return_value.add_provider.side_effect = None if attaches else Fail
                try:
                    failures.reject_absent_device(name, texts, Fail("no device"))
                except onnxruntime.backend.NotPermittedError as error:
                    refused = error.keyword, error.provider, error.key
                absent = (name, texts, attaches) == (OPENVINO, {"device_type": "GPU"}, True)
                self.assertEqual(refused, ("provider_options", OPENVINO, "device_type") if absent else None)


class OpenShapesTest(unittest.TestCase):
    """The advice for the QNN EP, which takes no node of a model with free dimensions."""

    def advice(self, *shapes: list) -> str:
        inputs = [SimpleNamespace(shape=shape) for shape in shapes]
        return failures.advice_on_shapes(SimpleNamespace(get_inputs=lambda: inputs))

    def test_open_dimensions_are_listed_once(self) -> None:
        self.assertIn("{'N': ..., 'M': ...}", self.advice(["N", 4, None], [2, "M", "N"]))
        self.assertNotIn("free_dimension_overrides", self.advice([None, 4]))
        self.assertTrue(self.advice([None, 4]))

    def test_fixed_shapes_need_no_advice(self) -> None:
        self.assertEqual(self.advice([2, 4], []), "")

    def test_an_error_about_shapes(self) -> None:
        for text in (
            "Cannot get shape of input 0.",
            "OneHot: cannot get shape",
            "QNN doesn't support dynamic shape.",
            "Dynamic shape is not supported yet, for input: X",
        ):
            self.assertIn("free_dimension_overrides", failures.explain(RuntimeError(text)))
        self.assertIsNone(failures.explain(RuntimeError("another error")))

    def test_a_plugin_ep_for_a_newer_release(self) -> None:
        text = "OrtEp for 'WebGpuExecutionProvider' has invalid ort_version_supported=30 (expected 1..26)."
        explained = failures.explain(Fail(f"[ONNXRuntimeError] : 1 : FAIL : {text}"))
        for part in ("WebGpuExecutionProvider", "1.30", onnxruntime.__version__):
            self.assertIn(part, explained)


if __name__ == "__main__":
    unittest.main()
