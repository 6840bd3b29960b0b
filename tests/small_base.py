# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""A small stock distribution to build on, and child processes, for the tests of the wheel."""

import csv
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from _paths import ROOT

import setup

METADATA = """\
Metadata-Version: 2.4
Name: onnxruntime-gpu
Version: 1.31.1
Requires-Dist: numpy>=1.21.6
Provides-Extra: symbolic
Requires-Dist: sympy; extra == "symbolic"

Release notes
Version: 1.31.1
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: setuptools (80.9.0)
Root-Is-Purelib: false
Tag: cp311-cp311-manylinux_2_27_x86_64
Tag: cp311-cp311-manylinux_2_28_x86_64

"""
INFO = "onnxruntime_gpu-1.31.1.dist-info"
OURS = b'ours = True\n__version__ = "0.7"\n'
STOCK = {
    "onnxruntime/__init__.py": b"",
    "onnxruntime/backend/__init__.py": b"stock = True\n",
    "onnxruntime/backend/gone.py": b"",
    "onnxruntime/capi/library.so": b"\x7fELF" * 1000,
    "onnxruntime/tools/onnxruntime_test.py": b"def main(): pass\n",
    f"{INFO}/METADATA": METADATA.encode(),
    f"{INFO}/WHEEL": WHEEL.encode(),
    f"{INFO}/entry_points.txt": b"[console_scripts]\nonnxruntime_test = onnxruntime.tools.onnxruntime_test:main\n",
}


def python(*arguments: str, **kwargs) -> str:
    """Return the output of this environment's Python, errors included."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs
    ).stdout


class SmallBase(unittest.TestCase):
    """setup.py on a small base."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = self.folder / "site-packages"
        self.sources = self.folder / "backend"
        # What pip adds when it installs.
        self.record = [
            ("../../../bin/onnxruntime_test", setup.record_hash(b""), 0),
            ("onnxruntime/__pycache__/__init__.cpython-311.pyc", "", ""),
            (f"{INFO}/INSTALLER", setup.record_hash(b"pip\n"), 4),
            (f"{INFO}/RECORD", "", ""),
        ]
        for path, content in STOCK.items():
            self.put(path, content)
        (self.site / "onnxruntime/capi/library.so").chmod(0o755)
        self.sources.mkdir()
        (self.sources / "__init__.py").write_bytes(OURS)
        (self.sources / "py.typed").write_bytes(b"")
        (self.sources / "backend.py").write_bytes(b"")
        (self.sources / "runs" / "inner").mkdir(parents=True)
        (self.sources / "runs" / "inner" / "__init__.py").write_bytes(b"")
        (self.sources / "notes.txt").write_bytes(b"no part of the wheel")
        self.enterContext(mock.patch.object(setup, "BACKEND_SOURCES", self.sources))
        self.version = setup.labeled("1.31.1")

    def put(self, path: str, content: bytes) -> None:
        """Write and record an installed file."""
        (self.site / path).parent.mkdir(parents=True, exist_ok=True)
        (self.site / path).write_bytes(content)
        self.record = [row for row in self.record if row[0] != path]
        self.record.append((path, setup.record_hash(content), len(content)))

    def write_record(self) -> None:
        with (self.site / INFO / "RECORD").open("w", newline="") as record:
            csv.writer(record).writerows(self.record)

    def build(self) -> Path:
        self.write_record()
        dist = self.folder / "dist"
        dist.mkdir(exist_ok=True)
        base = importlib.metadata.Distribution.at(self.site / INFO)
        with (
            mock.patch.object(setup, "distribution", lambda name: base),
            mock.patch.dict(os.environ, {setup.SETTING: "onnxruntime-gpu==1.31.1"}),
        ):
            return dist / setup.build_wheel(str(dist))

    def assert_not_built(self, message: str) -> None:
        with self.assertRaises(SystemExit) as failed:
            self.build()
        text = str(failed.exception)
        self.assertIn("onnxruntime-gpu==1.31.1", text)
        self.assertIn(message, text)
        self.assertNotIn("\n", text)
        self.assertEqual([path for path in self.folder.rglob("*.whl") if path.is_file()], [])

    def stock_wheel(self, version: str) -> Path:
        """Write a wheel of the base, with another version."""
        path = self.folder / f"onnxruntime_gpu-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for name in (*STOCK, f"{INFO}/RECORD"):
                content = (self.site / name).read_bytes()
                if name.endswith(("METADATA", "RECORD")):
                    content = content.replace(b"1.31.1", version.encode())
                wheel.writestr(name.replace("1.31.1", version), content)
        return path

    def project(self) -> Path:
        """Write a project with this tree's build files and the small backend."""
        project = self.folder / "project"
        shutil.copytree(self.sources, project / "onnxruntime" / "python" / "backend")
        for name in ("setup.py", "pyproject.toml", "LICENSE", "README.md"):
            shutil.copy(ROOT / name, project)
        (project / "notes.md").write_bytes(b"notes")
        return project

    def use_base_for_any_machine(self) -> Path:
        """Write a stock wheel without requirements, and return its folder. pip takes only wheels whose tags fit."""
        self.put(f"{INFO}/WHEEL", (WHEEL.partition("Tag:")[0] + "Tag: py3-none-any\n\n").encode())
        self.put(f"{INFO}/METADATA", METADATA.replace("Requires-Dist: numpy>=1.21.6\n", "").encode())
        self.write_record()
        self.stock_wheel("1.31.1")
        return self.folder
