# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of custom operator libraries: the environment registers each library once, and a check imports nothing."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
from backend_test_models import no_session_opens, two_nodes
from onnx import TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import configuration
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.session import extensions

CPU = "CPUExecutionProvider"
HAS_EXTENSIONS = importlib.util.find_spec("onnxruntime_extensions") is not None
needs_extensions = unittest.skipUnless(HAS_EXTENSIONS, "the package onnxruntime-extensions contains a library")


@contextlib.contextmanager
def modules(**sources: str) -> Iterator[Path]:
    """Create a folder with modules and make them importable. ``pack__inner`` is the module ``inner`` of ``pack``."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "path", [folder, *sys.path]):
        for name, source in sources.items():
            path = Path(folder, name.replace("__", "/", 1) + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
        importlib.invalidate_caches()
        with mock.patch.dict(sys.modules):
            yield Path(folder)
    importlib.invalidate_caches()


class ExtensionTest(unittest.TestCase):
    def environment(self, *names: str) -> mock.patch.dict:
        return mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_CONFIG": json.dumps({"extensions": names})})

    def upper(self) -> onnx.ModelProto:
        """Create a model with an operator of onnxruntime-extensions: it converts text to upper case."""
        node = helper.make_node("StringUpper", ["X"], ["Y"], domain="ai.onnx.contrib")
        values = [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in "XY"]
        graph = helper.make_graph([node], "upper", values[:1], values[1:])
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.contrib", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def library(self) -> str:
        import onnxruntime_extensions  # not a requirement  # noqa: PLC0415

        return onnxruntime_extensions.get_library_path()

    @needs_extensions
    def test_an_operator_of_onnxruntime_extensions(self) -> None:
        text = np.array(["Straße", "abc"], object)
        for name, reported in (
            ("onnxruntime_extensions", "onnxruntime_extensions"),
            (self.library(), Path(self.library()).name),
        ):
            with self.environment(name):
                for model in (self.upper(), self.upper().SerializeToString()):
                    rep = onnxruntime.backend.prepare(model, provider_options={CPU: {}})
                    self.assertEqual(rep.run([text])[0].tolist()[1], "ABC")
                    self.assertEqual(rep.extensions, (reported,))
                    self.assertEqual(onnxruntime.backend.run(model, [text])[0].tolist()[1], "ABC")
        self.assertEqual(onnxruntime.backend.prepare(two_nodes()).extensions, ())

    @needs_extensions
    def test_a_library_is_registered_once(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder, "linked.so")
            try:
                link.symlink_to(self.library())
            except OSError:
                self.skipTest("the system does not allow symbolic links")
            file = Path(self.library()).name
            for names, reported in (
                (("onnxruntime_extensions", self.library()), "onnxruntime_extensions"),
                ((self.library(), str(link)), file),
                ((str(link), "onnxruntime_extensions", self.library()), link.name),
            ):
                with self.subTest(names), self.environment(*names):
                    rep = onnxruntime.backend.prepare(self.upper(), provider_options={CPU: {}})
                    self.assertEqual(rep.extensions, (reported,))

    @needs_extensions
    def test_a_package_that_returns_a_path_object(self) -> None:
        source = f"import pathlib\ndef get_library_path():\n    return pathlib.Path({self.library()!r})\n"
        with modules(odd=source), self.environment("odd"):
            self.assertEqual(onnxruntime.backend.prepare(two_nodes()).extensions, ("odd",))

    def test_a_package_that_returns_no_path(self) -> None:
        for value in ("None", "''", "1", "'relative.so'", "b'/x'", f"{os.path.abspath('none.so')!r}"):
            with self.subTest(value), modules(odd=f"def get_library_path():\n    return {value}\n"):
                self.assert_not_registered("odd")

    def test_a_package_that_returns_a_relative_path(self) -> None:
        with modules(odd="def get_library_path():\n    return 'relative.so'\n"), self.environment("odd"):
            self.assertRaisesRegex(RuntimeError, "no absolute path", onnxruntime.backend.prepare, two_nodes())

    def test_a_package_that_exits_does_not_end_the_process(self) -> None:
        for source in ("import sys; sys.exit(3)", "def get_library_path():\n    raise SystemExit(3)\n", "1 / 0"):
            with self.subTest(source), modules(odd=source):
                self.assert_not_registered("odd")

    def test_an_error_without_text(self) -> None:
        with modules(odd="raise SystemExit"), self.environment("odd"):
            self.assertRaisesRegex(RuntimeError, "registered: SystemExit", onnxruntime.backend.prepare, two_nodes())

    def test_the_problems_of_a_check(self) -> None:
        for name, problem in (("this.inner.most", "no Python package"), ("../x", "expected the name of a Python")):
            self.assertRegex("".join(extensions.check([name])), problem)
        with mock.patch.object(importlib.util, "find_spec", side_effect=KeyError):
            self.assertRegex("".join(extensions.check(["odd"])), "KeyError")

    def test_extensions_that_do_not_exist(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.so")
            text.write_text("not a library")
            for name in ("no_such_package", "json", "libcustom.so", "../x", str(Path(folder, "none.so")), str(text)):
                with self.subTest(name):
                    self.assert_not_registered(name)

    def assert_not_registered(self, name: str) -> None:
        with self.environment(name), no_session_opens(), self.assertRaises(RuntimeError) as error:
            onnxruntime.backend.prepare(two_nodes())
        self.assertNotIsInstance(error.exception, NotPermittedError)
        self.assertIn(ascii(name)[1:-1], str(error.exception))

    def test_a_check_imports_nothing(self) -> None:
        source = "open({!r}, 'w').close()\nget_library_path = str\n"
        with tempfile.TemporaryDirectory() as folder:
            ran = os.path.join(folder, "ran")
            source = source.format(ran)
            with modules(odd=source, pack____init__=source, pack__inner=source):
                self.assertEqual(extensions.check(["odd", "pack", "pack.inner", "this", "xml.dom", __file__]), [])
                problems = extensions.check(["none", "pack.none", "odd.none", "../x", "x.so", f"{ran}.so", "none"])
            self.assertEqual(len(problems), 6)
            for name, problem in zip(
                ("none", "pack.none", "odd.none", "../x", "x.so", f"{ran}.so"), problems, strict=True
            ):
                self.assertIn(ascii(name)[1:-1], problem)
            self.assertFalse(os.path.exists(ran))

    def test_from_the_arguments_of_a_caller_they_are_refused(self) -> None:
        for keywords in (
            {"extensions": ["onnxruntime_extensions"]},
            {"register_custom_ops_library": "x.so"},
            {"session_options": {"register_custom_ops_library": "x.so"}},
        ):
            with self.subTest(keywords), no_session_opens(), self.assertRaises(NotPermittedError):
                onnxruntime.backend.prepare(two_nodes(), **keywords)

    def test_values_that_are_not_a_list_of_names(self) -> None:
        for given in ("onnxruntime_extensions", [1], [""], {"a": 1}, None):
            with self.subTest(given), self.assertRaises(ValueError):
                configuration.parse(json.dumps({"extensions": given}))


if __name__ == "__main__":
    unittest.main()
