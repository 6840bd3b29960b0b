# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The installed wheel is the stock wheel with this tree's backend, and the documents contain its versions."""

import csv
import importlib.metadata
import io
import os
import re
import unittest
from pathlib import Path
from unittest import mock

from _paths import ROOT
from small_base import python

import onnxruntime
import setup


class TestInstalled(unittest.TestCase):
    """The environment that these tests run in."""

    @classmethod
    def setUpClass(cls):
        owners = set(importlib.metadata.packages_distributions()["onnxruntime"])
        if len(owners) != 1:
            raise AssertionError(f"One distribution should hold onnxruntime, not {sorted(owners)}.")
        cls.installed = importlib.metadata.distribution(owners.pop())

    def test_version_is_the_base_version_with_a_local_label(self):
        self.assertIn(self.installed.name, setup.BASES)
        self.assertEqual(self.installed.version, setup.labeled(onnxruntime.__version__))

    def test_files_are_as_recorded(self):
        rows = [row for row in csv.reader(io.StringIO(self.installed.read_text("RECORD"))) if row[1]]
        self.assertGreater(len(rows), 300)
        for path, recorded, _ in rows:
            content = Path(self.installed.locate_file(path)).read_bytes()
            self.assertEqual(setup.record_hash(content), recorded, path)

    def test_backend_is_the_one_in_this_tree(self):
        folder = Path(self.installed.locate_file(setup.BACKEND_IN_WHEEL))
        paths = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
        there = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        sources = setup.BACKEND_SOURCES
        paths = [*sources.rglob("*.py"), sources / "py.typed"]
        here = {path.relative_to(sources).as_posix(): path.read_bytes() for path in paths}
        self.assertLess({"__init__.py", "allowlist/__init__.py"}, here.keys())
        self.assertEqual(there.keys(), here.keys())
        self.assertEqual([name for name in here if there[name] != here[name]], [])

    def test_repository_root_does_not_shadow_the_package(self):
        code = "import onnxruntime.backend; print(onnxruntime.backend.__file__)"
        imported = python("-c", code, cwd=ROOT).splitlines()[-1]
        self.assertEqual(Path(imported), Path(self.installed.locate_file(setup.BACKEND_IN_WHEEL), "__init__.py"))


class TestRequestedBase(unittest.TestCase):
    def test_accepted(self):
        for setting, expected in (
            ("", ("onnxruntime", "1.32.0")),
            ("onnxruntime-openvino", ("onnxruntime-openvino", "1.24.1")),
            ("onnxruntime-gpu==1.24.0", ("onnxruntime-gpu", "1.24.0")),
            ("onnxruntime==1.31.2", ("onnxruntime", "1.31.2")),
        ):
            with self.subTest(setting), mock.patch.dict(os.environ, {setup.SETTING: setting}):
                self.assertEqual(setup.requested_base(setting), expected)
                self.assertEqual(setup.get_requires_for_build_wheel(), ["===".join(expected)])

    def test_paths_are_refused_with_the_next_steps(self):
        for setting in (
            "wheels/onnxruntime-1.32.0-cp311-cp311-linux_x86_64.whl",
            "x.whl",
            ".",
            r"C:\wheels",
            "https://x/",
        ):
            is_path = setting != "."
            with self.subTest(setting), self.assertRaises(SystemExit) as refused:
                setup.requested_base(setting)
            self.assertEqual("path" in str(refused.exception), is_path)
            self.assertEqual("--no-build-isolation" in str(refused.exception), is_path)

    def test_refused(self):
        for setting in (
            *("onnxruntime-qnn", "Onnxruntime", " onnxruntime", "numpy==1.26.0"),
            *("onnxruntime==", "onnxruntime==1.32", "onnxruntime==1.23.2", "onnxruntime==1.33.0"),
            *("onnxruntime>=1.32.0", "onnxruntime==1.32.0\n", "onnxruntime==1.32.0 --index-url=x"),
        ):
            with self.subTest(setting), self.assertRaises(SystemExit) as refused:
                setup.requested_base(setting)
            for part in ("ORT_BACKEND_BASE=", ascii(setting), *setup.BASES):
                self.assertIn(part, str(refused.exception))

    def test_base_must_be_installed(self):
        absent = next(iter(setup.BASES.keys() - importlib.metadata.packages_distributions()["onnxruntime"]))
        setting = mock.patch.dict(os.environ, {setup.SETTING: absent})
        stock = "{}==={}".format(*setup.requested_base(absent))
        with setting, self.assertRaisesRegex(SystemExit, f"is not installed.*: pip install --no-deps {stock}$"):
            setup.build_wheel("nowhere")


class TestDocuments(unittest.TestCase):
    def test_the_changelog_begins_with_the_version(self):
        changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        newest = changelog.partition("\n## ")[2].partition("\n")[0]
        self.assertRegex(setup.labeled("1.2.3"), rf"\A1\.2\.3\+backend\.{newest}\.x")

    def test_documents_contain_the_versions(self):
        base, version = next(iter(setup.BASES.items()))
        releases = f"1.{setup.SUPPORTED_MINORS[0]} to 1.{setup.SUPPORTED_MINORS[-1]}"
        for document, parts in {
            "README.md": (f"stock `{base}` {version} wheel", f"{releases} is supported", f"`{base}` {version} |"),
            "docs/installation.md": (
                *(f"| `{name}`{' (default)' * (name == base)} | {default} |" for name, default in setup.BASES.items()),
                f"| ONNX Runtime | {releases} |",
            ),
        }.items():
            text = (ROOT / document).read_text(encoding="utf-8")
            for part in parts:
                with self.subTest(document):
                    self.assertIn(part, text)

    def test_the_files_for_the_scoreboard_pin_one_onnx(self):
        folder = ROOT / "examples" / "scoreboard"
        pinned = re.search(r"pip install onnxruntime_openvino-\S+( onnx==\S+) ", (folder / "README.md").read_text())
        self.assertIn(pinned[1], (folder / "Dockerfile").read_text())


if __name__ == "__main__":
    unittest.main()
