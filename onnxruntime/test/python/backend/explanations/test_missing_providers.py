# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the explanations for an EP that ORT cannot use."""

import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import _above
from helpers.execution_providers import CPU
from helpers.processes import CUDA, OPENVINO, TENSORRT

import onnxruntime
from onnxruntime.backend.explanations import missing_providers
from onnxruntime.capi import onnxruntime_pybind11_state

MIGRAPHX = "MIGraphXExecutionProvider"  # runs on AMD's GPUs


class MissingTest(unittest.TestCase):
    """The messages for an EP that ORT cannot use: the missing part first, then the next step."""

    def missing(self, names: list[str], driver: str = "", libraries: dict[str, str] | None = None) -> str:
        errors = {missing_providers._library(name): error for name, error in (libraries or {}).items()}
        with (
            mock.patch.object(missing_providers, "_load_error", lambda path: errors.get(path, driver)),
            mock.patch.object(missing_providers.os.path, "isfile", errors.__contains__),
        ):
            return missing_providers.advice(names)

    def test_the_missing_part(self):
        steps = r".*pip install 'onnxruntime-gpu\[cuda,cudnn\]'.*onnxruntime\.preload_dlls\(\)"
        for names, driver, libraries, expected in (
            ([CUDA], "no driver", {CUDA: "no library"}, r"driver is missing .*\(no driver\)"),
            ([OPENVINO], "no driver", {}, r"(?s)^((?!no driver|NVIDIA|CUDA).)*$"),
            ([MIGRAPHX], "no driver", {}, r"(?s)^((?!no driver|NVIDIA|CUDA).)*$"),
            ([CPU, CUDA], "", {CUDA: "no library"}, "no library" + steps),
            ([CPU, CUDA], "", {}, "cuDNN" + steps),
            ([TENSORRT, CUDA], "", {}, r"^((?!may be missing.*may be missing).)+$"),
            ([OPENVINO], "", {OPENVINO: "no library"}, "^The system says: no library((?!cuDNN).)*$"),
        ):
            with self.subTest(names, driver=driver, libraries=libraries):
                self.assertRegex(self.missing(names, driver, libraries), expected)

    def test_the_files_of_each_system(self):
        for system, driver, library in (
            ("linux", "libcuda.so.1", "libonnxruntime_providers_cuda.so"),
            ("darwin", "libcuda.so.1", "libonnxruntime_providers_cuda.dylib"),
            ("win32", "nvcuda.dll", "onnxruntime_providers_cuda.dll"),
        ):
            with (
                mock.patch.object(missing_providers.sys, "platform", system),
                mock.patch.object(missing_providers, "_load_error", return_value="no file") as load,
            ):
                missing_providers.advice([CUDA])
                load.assert_called_once_with(driver)
                self.assertEqual(
                    Path(missing_providers._library(CUDA)), Path(onnxruntime.__file__).parent / "capi" / library
                )

    def test_the_release_of_cuda(self):
        for version in ("12.8", None):
            with mock.patch.object(missing_providers.build_and_package_info, "cuda_version", version, create=True):
                built_for = re.findall(r"built for CUDA (\S+)\.", self.missing([CUDA], "", {CUDA: "no library"}))
                self.assertEqual(built_for, [version] if version else [])

    def test_the_error_of_the_system(self):
        with tempfile.TemporaryDirectory() as folder:
            capi = Path(folder, "capi")
            capi.mkdir()
            with mock.patch.object(missing_providers.onnxruntime, "__file__", str(Path(folder, "__init__.py"))):
                path = missing_providers._library(CUDA)
                Path(path).write_text("no library")
                self.assertRegex(missing_providers._load_error(path), "providers_cuda")
        self.assertEqual(missing_providers._load_error(onnxruntime_pybind11_state.__file__), "")


if __name__ == "__main__":
    unittest.main()
