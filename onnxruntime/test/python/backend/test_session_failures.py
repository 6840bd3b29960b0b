# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the explanations for a session that ORT did not create as requested."""

from __future__ import annotations

import re
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from helpers.execution_providers import CPU, WEBGPU
from helpers.processes import CUDA, OPENVINO, QNN, TENSORRT, permit, process_with

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.session import failures, opening
from onnxruntime.capi import onnxruntime_pybind11_state
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

MIGRAPHX = "MIGraphXExecutionProvider"  # runs on AMD's GPUs
PLUGIN_FAILS = "virtual ... onnxruntime::PluginExecutionProviderFactory::CreateProvider(...) no backend"


class MissingTest(unittest.TestCase):
    """The messages for an EP that ORT cannot use: the missing part first, then the next step."""

    def missing(self, names: list[str], driver: str = "", libraries: dict[str, str] | None = None) -> str:
        errors = {failures._library(name): error for name, error in (libraries or {}).items()}
        with (
            mock.patch.object(failures, "_load_error", lambda path: errors.get(path, driver)),
            mock.patch.object(failures.os.path, "isfile", errors.__contains__),
        ):
            return failures.missing(names)

    def test_the_missing_part(self) -> None:
        steps = r".*pip install 'onnxruntime-gpu\[cuda,cudnn\]'.*onnxruntime\.preload_dlls\(\)"
        for names, driver, libraries, expected in (
            (
                [CUDA],
                "no driver",
                {CUDA: "no library"},
                r"driver is missing .*\(no driver\)",
            ),
            ([OPENVINO], "no driver", {}, r"(?s)^((?!no driver|NVIDIA|CUDA).)*$"),
            ([MIGRAPHX], "no driver", {}, r"(?s)^((?!no driver|NVIDIA|CUDA).)*$"),
            ([CPU, CUDA], "", {CUDA: "no library"}, "no library" + steps),
            ([CPU, CUDA], "", {}, "cuDNN" + steps),
            ([TENSORRT, CUDA], "", {}, r"^((?!may be missing.*may be missing).)+$"),
            (
                [OPENVINO],
                "",
                {OPENVINO: "no library"},
                "^The system says: no library((?!cuDNN).)*$",
            ),
        ):
            with self.subTest(names, driver=driver, libraries=libraries):
                self.assertRegex(self.missing(names, driver, libraries), expected)

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
                self.assertEqual(
                    Path(failures._library(CUDA)),
                    Path(onnxruntime.__file__).parent / "capi" / library,
                )

    def test_the_release_of_cuda(self) -> None:
        for version in ("12.8", None):
            with mock.patch.object(failures.build_and_package_info, "cuda_version", version, create=True):
                built_for = re.findall(
                    r"built for CUDA (\S+)\.",
                    self.missing([CUDA], "", {CUDA: "no library"}),
                )
                self.assertEqual(built_for, [version] if version else [])

    def test_the_error_of_the_system(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            capi = Path(folder, "capi")
            capi.mkdir()
            with mock.patch.object(failures.onnxruntime, "__file__", str(Path(folder, "__init__.py"))):
                path = failures._library(CUDA)
                Path(path).write_text("no library")
                self.assertRegex(failures._load_error(path), "providers_cuda")
        self.assertEqual(failures._load_error(onnxruntime_pybind11_state.__file__), "")

    def test_a_plugin_that_cannot_be_created(self) -> None:
        """ORT up to 1.31 raises a RuntimeError with this text, and from 1.32 on its own class."""
        for error, explained in (
            (Fail(PLUGIN_FAILS), True),
            (RuntimeError(PLUGIN_FAILS), True),
            (Fail("Load"), False),
        ):
            with (
                self.subTest(repr(error)),
                process_with(plugins=(QNN,)),
                mock.patch.object(opening, "InferenceSession", side_effect=error),
                self.assertRaises(Exception) as raised,
            ):
                opening.create(b"", permit({QNN: {}}), (), mock.Mock())
            advised = isinstance(raised.exception, RuntimeError) and "backend_type='htp'" in str(raised.exception)
            self.assertEqual(advised, explained)


class ExplainTest(unittest.TestCase):
    def test_which_errors_have_an_explanation(self) -> None:
        newer = "OrtEp for 'WebGpuExecutionProvider' has invalid ort_version_supported=30 (expected 1..26)."
        for text, expected in (
            ("Cannot get shape of input 0.", "free_dimension_overrides"),
            ("OneHot: cannot get shape", "free_dimension_overrides"),
            ("QNN doesn't support dynamic shape.", "free_dimension_overrides"),
            (
                "Dynamic shape is not supported yet, for input: X",
                "free_dimension_overrides",
            ),
            (
                f"[ONNXRuntimeError] : 1 : FAIL : {newer}",
                f"{WEBGPU}.* 1.30, not {onnxruntime.__version__}",
            ),
            ("another error", "^None$"),
        ):
            self.assertRegex(str(failures.explain(RuntimeError(text))), expected)

    def test_the_advice_on_shapes(self) -> None:
        """For the QNN EP, which takes no node of a model with free dimensions."""
        for shapes, expected in (
            ((["N", 4], [2, "M", "N"]), r"free_dimension_overrides=\{'N': ..., 'M': ...\}"),
            ((["N", None],), "^Give the model fixed shapes"),
            ((["?", "?"],), "^Give the model fixed shapes"),
            (([2, 4], []), "^$"),
        ):
            inputs = [SimpleNamespace(shape=shape) for shape in shapes]
            advice = failures.advice_on_shapes(SimpleNamespace(get_inputs=lambda inputs=inputs: inputs))
            self.assertRegex(advice, expected)


if __name__ == "__main__":
    unittest.main()
