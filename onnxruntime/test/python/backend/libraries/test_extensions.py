# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of custom operator libraries: the environment registers each library once, and a check imports nothing."""

import contextlib
import importlib.util
import os
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import _above
import numpy as np
import onnx
from helpers.environment import environment
from helpers.models import no_session_opens, parsed, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.libraries import extensions

CPU = "CPUExecutionProvider"
HAS_EXTENSIONS = importlib.util.find_spec("onnxruntime_extensions") is not None
needs_extensions = unittest.skipUnless(
    HAS_EXTENSIONS, "requires onnxruntime-extensions, which has no wheel for Python 3.14"
)


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
    def extensions(self, *names: str) -> mock.patch.dict:
        return environment({"extensions": names})

    def upper(self) -> onnx.ModelProto:
        """Create a model with an operator of onnxruntime-extensions: it converts text to upper case."""
        return parsed("(string[N] X) => (string[N] Y) { Y = ai.onnx.contrib.StringUpper (X) }", "ai.onnx.contrib")

    def library(self) -> str:
        import onnxruntime_extensions  # not a requirement  # noqa: PLC0415

        return onnxruntime_extensions.get_library_path()

    @needs_extensions
    def test_an_operator_of_onnxruntime_extensions(self):
        text = np.array(["Straße", "abc"], object)
        for name, reported in (
            ("onnxruntime_extensions", "onnxruntime_extensions"),
            (self.library(), Path(self.library()).name),
        ):
            with self.extensions(name):
                for made in (self.upper(), self.upper().SerializeToString()):
                    rep = onnxruntime.backend.prepare(made, provider_options={CPU: {}})
                    self.assertEqual(rep.run([text])[0].tolist()[1], "ABC")
                    self.assertEqual(rep.extensions, (reported,))
                    self.assertEqual(onnxruntime.backend.run(made, [text])[0].tolist()[1], "ABC")
        self.assertEqual(onnxruntime.backend.prepare(two_nodes()).extensions, ())

    @needs_extensions
    def test_a_library_is_registered_once(self):
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
                with self.subTest(names), self.extensions(*names):
                    rep = onnxruntime.backend.prepare(self.upper(), provider_options={CPU: {}})
                    self.assertEqual(rep.extensions, (reported,))

    @needs_extensions
    def test_a_package_that_returns_a_path_object(self):
        source = f"import pathlib\ndef get_library_path():\n    return pathlib.Path({self.library()!r})\n"
        with modules(odd=source), self.extensions("odd"):
            self.assertEqual(onnxruntime.backend.prepare(two_nodes()).extensions, ("odd",))

    def test_packages_without_a_library(self):
        returns = "def get_library_path():\n    return {}\n".format
        for source, problem in (
            *((returns(value), "") for value in ("None", "''", "1", "b'/x'", repr(os.path.abspath("none.so")))),
            (returns("'relative.so'"), "no absolute path"),
            ("1 / 0", "division"),
            # They do not end the process.
            ("import sys; sys.exit(3)", "registered: 3"),
            ("def get_library_path():\n    raise SystemExit(3)\n", "registered: 3"),
            ("raise SystemExit", "registered: SystemExit"),
        ):
            with self.subTest(source), modules(odd=source):
                self.assert_not_registered("odd", problem)

    def test_extensions_that_do_not_exist(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.so")
            text.write_text("not a library")
            for name in ("no_such_package", "json", "libcustom.so", "../x", str(Path(folder, "none.so")), str(text)):
                with self.subTest(name):
                    self.assert_not_registered(name)

    def assert_not_registered(self, name: str, problem: str = "") -> None:
        with self.extensions(name), no_session_opens(), self.assertRaisesRegex(RuntimeError, problem) as error:
            onnxruntime.backend.prepare(two_nodes())
        self.assertNotIsInstance(error.exception, NotPermittedError)
        self.assertIn(ascii(name)[1:-1], str(error.exception))

    def test_a_check_imports_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = os.path.join(folder, "ran")
            source = f"open({ran!r}, 'w').close()\nget_library_path = str\n"
            with modules(odd=source, pack____init__=source, pack__inner=source):
                self.assertEqual(extensions.check(["odd", "pack", "pack.inner", "this", "xml.dom", __file__]), {})
                missing, no_name = "no Python package", "expected the name of a Python"
                wrong = {"none": missing, "pack.none": missing, "odd.none": missing, "this.inner.most": missing}
                wrong |= {"x.so": missing, f"{ran}.so": missing, "../x": no_name, "x-y": no_name}
                found = extensions.check(wrong)
                for name, problem in wrong.items():
                    self.assertIn(ascii(name)[1:-1], found[name])
                    self.assertIn(problem, found[name])
            self.assertFalse(os.path.exists(ran))
        with mock.patch.object(importlib.util, "find_spec", side_effect=KeyError):
            self.assertRegex(extensions.check(["odd"])["odd"], "KeyError")


if __name__ == "__main__":
    unittest.main()
