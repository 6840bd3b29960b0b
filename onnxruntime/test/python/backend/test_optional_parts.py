# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Deletes each optional part from a copy of the package, and tests the rest of it in another process.

The rest must be importable and must pass tests of the core. What needs the part must be refused, and nothing else.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import shutil
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.children import run_code
from helpers.models import open_session, parsed, two_nodes
from helpers.threads import needs_global_lock

import onnxruntime.backend
from onnxruntime.backend import NotPermittedError, backend, optional_parts
from onnxruntime.backend.session import parts, presence

CPU, CUDA, OPENVINO = (
    "CPUExecutionProvider",
    "CUDAExecutionProvider",
    "OpenVINOExecutionProvider",
)
TENSORRT, WEBGPU = "TensorrtExecutionProvider", "WebGpuExecutionProvider"
# The execution providers that need a part, and the parts without which they are refused.
NEEDED_BY_PROVIDERS = {
    WEBGPU: {"locks"},
    OPENVINO: {"openvino", "locks"},
    f"{OPENVINO}.AUTO": {"openvino", "locks"},
}
# The same for options that are on.
NEEDED_BY_OPTIONS = {
    (CUDA, "enable_cuda_graph"): {"capture", "locks"},
    (TENSORRT, "trt_cuda_graph_enable"): {"capture", "locks"},
    (WEBGPU, "enableGraphCapture"): {"capture", "locks"},
}
if presence.kinds().get(WEBGPU) == "built-in":  # the backend always refuses this option of the built-in EP
    del NEEDED_BY_OPTIONS[WEBGPU, "enableGraphCapture"]
TESTS_OF_THE_CORE = ("backend_stock",)
FILES = {
    "command_line": ["command_line", "__main__.py"],
    **{name: [f"{name}.py"] for name in ("conformance", "free_dimensions", "limits", "locks")},
}
ABSENT = "this build of the backend does not contain onnxruntime.backend."
CONFIGURATION = "ORT_ONNX_BACKEND_CONFIG"
X = np.ones((2, 3), np.float32)


def error_of(function: Callable, *arguments: object, **keywords: object) -> Exception | None:
    try:
        function(*arguments, **keywords)
    except Exception as error:
        return error
    return None


def session_on(*eps: str, **options: dict[str, str]) -> onnxruntime.InferenceSession:
    """Return a session of a caller that reports these EPs and options."""
    session = open_session()
    session.get_providers = lambda: [*eps, CPU]
    session.get_provider_options = lambda: {ep: {} for ep in (*eps, CPU)} | options
    return session


@needs_global_lock
class WithoutPartsTest(unittest.TestCase):
    """Runs in the other process. ``deleted`` contains the names of the deleted parts."""

    deleted = frozenset(os.environ.get("ORT_BACKEND_DELETED_PARTS", "").split())

    def assert_refused(self, error: Exception | None, needed: set[str], kind: type[Exception]) -> None:
        """Check that an error is about a deleted part if one of the needed parts is deleted, and otherwise is not."""
        missing = needed & self.deleted
        self.assertEqual(ABSENT in str(error), bool(missing), error)
        if missing:
            self.assertIs(type(error), kind)
            self.assertIn(re.search(re.escape(ABSENT) + r"(\w+)", str(error))[1], missing)

    def test_specified_providers(self) -> None:
        for ep, needed in NEEDED_BY_PROVIDERS.items():
            with self.subTest(ep):
                error = error_of(backend.prepare, two_nodes(), provider_options={ep: {}})
                self.assert_refused(error, needed, NotPermittedError)
                if needed & self.deleted:
                    self.assertEqual(
                        (error.keyword, error.provider, error.key),
                        ("provider_options", ep, ""),
                    )

    def test_options(self) -> None:
        for (ep, option), needed in NEEDED_BY_OPTIONS.items():
            with self.subTest(ep):
                error = error_of(backend.prepare, two_nodes(), provider_options={ep: {option: True}})
                self.assert_refused(error, needed | NEEDED_BY_PROVIDERS.get(ep, set()), NotPermittedError)
                if needed & self.deleted:
                    self.assertEqual(
                        (error.keyword, error.provider, error.key),
                        ("provider_options", ep, option),
                    )
                error = error_of(backend.prepare, two_nodes(), provider_options={ep: {option: False}})
                self.assert_refused(error, NEEDED_BY_PROVIDERS.get(ep, set()), NotPermittedError)

    def test_available_providers(self) -> None:
        for ep in (OPENVINO, WEBGPU):
            missing = NEEDED_BY_PROVIDERS[ep] & self.deleted
            available = mock.patch.object(backend, "get_available_providers", lambda ep=ep: [ep, CPU])
            kinds = mock.patch.object(presence, "kinds", lambda ep=ep: dict.fromkeys((ep, CPU), "built-in"))
            with (
                self.subTest(ep),
                available,
                kinds,
                warnings.catch_warnings(record=True) as caught,
            ):
                warnings.simplefilter("always")
                backend.prepare(two_nodes())
            left_out = [str(warning.message) for warning in caught if ABSENT in str(warning.message)]
            self.assertEqual(len(left_out), bool(missing))
            self.assertTrue(all(text.startswith(f"{ep} is left out") for text in left_out))

    def test_sessions_of_the_caller(self) -> None:
        cases = [(session_on(ep), needed) for ep, needed in NEEDED_BY_PROVIDERS.items()]
        cases.append((session_on(CUDA), set()))
        on_cuda = session_on(CUDA, **{CUDA: {"enable_cuda_graph": "1"}})
        on_webgpu = session_on(WEBGPU)
        on_webgpu._sess = SimpleNamespace(is_webgpu_graph_capture_enabled=lambda: True)
        capturing = [on_cuda, on_webgpu]
        cases.extend((session, {"capture", "locks"}) for session in capturing)
        for session, needed in cases:
            with self.subTest(session.get_providers()):
                rep = backend.prepare(session)
                if needed & self.deleted:
                    for _ in range(2):
                        self.assert_refused(error_of(rep.run, [X]), needed, RuntimeError)
                    self.assert_refused(error_of(rep.run_options), needed, RuntimeError)
                elif session not in capturing:  # these need a device
                    self.assertEqual(len(rep.run([X])), 1)
                    with rep.device_lock():
                        pass
                    has_lock = rep._ready().device_lock is not None
                    self.assertEqual(
                        has_lock,
                        session.get_providers()[0] in (CUDA, WEBGPU) and "locks" not in self.deleted,
                    )

    def test_the_environment(self) -> None:
        with mock.patch.dict(
            os.environ,
            {CONFIGURATION: '{"session_config": {"session.disable_prepacking": "1"}}'},
        ):
            if "environment" in self.deleted:
                self.assert_refused(error_of(backend.prepare, two_nodes()), {"environment"}, RuntimeError)
            else:
                self.assertIn(
                    "session.disable_prepacking",
                    backend.prepare(two_nodes()).session_config,
                )

    def test_libraries(self) -> None:
        needed = {"environment"} if "environment" in self.deleted else {"libraries"}
        for keyword in ("plugins", "extensions"):
            with (
                self.subTest(keyword),
                mock.patch.dict(os.environ, {CONFIGURATION: f'{{"{keyword}": ["absent"]}}'}),
            ):
                self.assert_refused(error_of(backend.prepare, two_nodes()), needed, RuntimeError)

    def test_free_dimensions(self) -> None:
        model = parsed("(float[N, 3] X) => (float[N, 3] Y) { Y = Abs (X) }")
        error = error_of(backend.prepare, model, free_dimension_overrides={"N": 2})
        self.assert_refused(error, {"free_dimensions"}, NotPermittedError)
        self.assertEqual(error is None, "free_dimensions" not in self.deleted)
        self.assertIsNone(error_of(backend.prepare, model, free_dimension_overrides={}))
        with mock.patch.dict(os.environ, {CONFIGURATION: '{"free_dimension_overrides": {"N": 2}}'}):
            needed = {"environment"} if "environment" in self.deleted else {"free_dimensions"}
            self.assert_refused(error_of(backend.prepare, model), needed, RuntimeError)

    def test_limits(self) -> None:
        rep = backend.prepare(two_nodes())
        for run in (rep.run, partial(backend.run, two_nodes())):
            for limit in ({"timeout": 60}, {"timeout": 60, "cancellation": None}):
                error = error_of(run, [X], **limit)
                self.assert_refused(error, {"limits"}, NotPermittedError)
                self.assertEqual(error is None, "limits" not in self.deleted)
        self.assertEqual("Cancellation" in onnxruntime.backend.__all__, "limits" not in self.deleted)

    def test_reasons(self) -> None:
        error = error_of(
            backend.prepare,
            two_nodes(),
            session_config={"session.optimized_model_filepath": "x"},
        )
        self.assertIs(type(error), NotPermittedError)
        known = "refusals" not in self.deleted
        reason = error_of(backend.prepare, two_nodes(), optimized_model_filepath="x").reason
        self.assertEqual("writes files" in reason, known)

    def test_the_command_line(self) -> None:
        absence = optional_parts.absence_of_part("command_line")
        needed = {"command_line", "environment", "libraries", "refusals"}
        self.assertEqual(absence == "", needed.isdisjoint(self.deleted))
        if not absence or "command_line" in self.deleted:  # then __main__.py does not exist
            return
        with self.assertRaises(SystemExit) as ended:
            runpy.run_module("onnxruntime.backend", run_name="__main__")
        self.assertEqual(ended.exception.code, f"error: {absence}")

    def test_modules(self) -> None:
        for part in optional_parts.PARTS:
            is_absent = not self.deleted.isdisjoint({part.name, *part.imports})
            functions = filter(
                None,
                (part.creates, part.explains, part.guards, part.routes, part.why_serial),
            )
            for module in (
                part.name,
                *(text.partition(":")[0] for text in functions),
                *part.keywords.values(),
            ):
                self.assertEqual(optional_parts.load(module) is None, is_absent, module)
        self.assertIsNone(optional_parts.load("command_line.absent"))


class OptionalPartsTest(unittest.TestCase):
    @needs_global_lock
    def test_each_function_of_the_table_exists(self) -> None:
        for part in optional_parts.PARTS:
            for text in filter(
                None,
                (part.creates, part.explains, part.guards, part.routes, part.why_serial),
            ):
                self.assertTrue(callable(optional_parts.function(text)), text)

    def test_a_folder_without_files_is_no_part(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "openvino", "__pycache__").mkdir(parents=True)
            absence_of = optional_parts.absence_of_part.__wrapped__
            with (
                mock.patch.object(onnxruntime.backend, "__path__", [folder]),
                mock.patch.dict(sys.modules),
            ):
                sys.modules.pop("onnxruntime.backend.openvino", None)
                self.assertEqual(absence_of("openvino"), f"{ABSENT}openvino")

    def test_without_a_global_lock(self) -> None:
        """The locks of sessions count as absent. A session on CUDA that does not capture needs none."""
        reason = "free-threaded Python has no global interpreter lock, on which onnxruntime.backend.locks relies"
        for is_enabled in (False, True):
            with mock.patch.object(
                sys,
                "_is_gil_enabled",
                lambda is_enabled=is_enabled: is_enabled,
                create=True,
            ):
                optional_parts.absence_of_part.cache_clear()
                self.addCleanup(optional_parts.absence_of_part.cache_clear)
                for part in optional_parts.PARTS:
                    needs = part.name == "locks" or "locks" in part.imports
                    absence = optional_parts.absence_of_part(part.name)
                    self.assertEqual(absence, reason if needs and not is_enabled else "", part.name)
                for session, needs in (
                    (session_on(WEBGPU), True),
                    (session_on(OPENVINO), True),
                    (session_on(CUDA), False),
                    (session_on(CUDA, **{CUDA: {"enable_cuda_graph": "1"}}), True),
                ):
                    error = error_of(parts.of_session, session)
                    self.assertEqual(reason in str(error), needs and not is_enabled)

    def test_a_broken_part_is_no_absent_part(self) -> None:
        for code, kind in (
            ("(", SyntaxError),
            ("import no_such_module", ModuleNotFoundError),
        ):
            with (
                self.subTest(code),
                tempfile.TemporaryDirectory() as folder,
                mock.patch.object(onnxruntime.backend, "__path__", [folder]),
                mock.patch.dict(sys.modules),
            ):
                Path(folder, "limits.py").write_text(code)
                sys.modules.pop("onnxruntime.backend.limits", None)
                importlib.invalidate_caches()
                with self.assertRaises(kind):
                    optional_parts.load.__wrapped__("limits")

    @needs_global_lock
    def test_without_each_part(self) -> None:
        names = [part.name for part in optional_parts.PARTS]
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(run_without, deleted) for deleted in (names, *([name] for name in names))]
            for future in done:
                deleted, process = future.result()
                with self.subTest(deleted=deleted):
                    self.assertEqual(process.returncode, 0, process.stderr[-3000:])


def run_without(deleted: list[str]) -> tuple[list[str], object]:
    """Run tests in a process whose package does not contain these parts."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "backend")
        shutil.copytree(
            Path(onnxruntime.backend.__file__).parent,
            copied,
            ignore=lambda *_: {"__pycache__"},
        )
        for part in deleted:
            for name in FILES.get(part, [part]):
                path = copied / name
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        prefix = "test_"
        tests = [
            f"{prefix}optional_parts.WithoutPartsTest",
            *(prefix + name for name in TESTS_OF_THE_CORE),
        ]
        code = f"""if True:
            import os, sys, unittest, warnings, onnxruntime
            os.environ["ORT_BACKEND_DELETED_PARTS"] = {" ".join(deleted)!r}
            onnxruntime.__path__.insert(0, {folder!r})
            import onnxruntime.backend
            assert onnxruntime.backend.__file__.startswith({folder!r})
            unittest.main(None, argv=["", *{tests!r}], warnings="ignore")
        """
        return deleted, run_code(code)


if __name__ == "__main__":
    unittest.main()
