# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""pip builds, installs and uninstalls the wheel of setup.py."""

import hashlib
import os
import re
import subprocess
import tarfile
import unittest
import zipfile
from functools import partial
from unittest import mock

from _paths import ROOT
from small_base import SmallBase, python

import setup

BIN = "bin"
if os.name == "nt":
    BIN = "Scripts"


class TestPip(SmallBase):
    def test_builds_without_network_access(self):
        """The commands of docs/installation.md, and the reason why one fails."""
        wheels, project = self.use_base_for_any_machine(), self.project()
        environment = self.folder / "environment"
        python("-m", "venv", "--without-pip", str(environment))
        pip = partial(python, "-m", "pip", "--isolated", "--python", str(environment / BIN / "python"))
        build = partial(pip, "wheel", "--no-deps", "--no-index", str(project))
        self.enterContext(mock.patch.dict(os.environ, {setup.SETTING: "onnxruntime-gpu==1.31.1"}))
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            build("--no-build-isolation")
        advice = "pip install --no-deps onnxruntime-gpu===1.31.1"
        self.assertIn(
            f"is not installed. To build without build isolation, first run: {advice}\n", failed.exception.output
        )
        isolated = self.folder / "isolated"
        build(f"--find-links={wheels}", f"--wheel-dir={isolated}")
        hashed = self.folder / "base.txt"
        (stock,) = wheels.glob("*.whl")
        hashed.write_text(f"onnxruntime-gpu==1.31.1 --hash=sha256:{hashlib.sha256(stock.read_bytes()).hexdigest()}\n")
        pip(
            "install",
            "--no-deps",
            "--no-index",
            f"--find-links={wheels}",
            "--require-hashes",
            f"--requirement={hashed}",
        )
        direct = self.folder / "direct"
        build("--no-build-isolation", f"--wheel-dir={direct}")
        name = f"onnxruntime_gpu-{self.version}-py3-none-any.whl"
        self.assertEqual(os.listdir(isolated), [name])
        self.assertEqual(os.listdir(direct), [name])
        self.assertEqual((isolated / name).read_bytes(), (direct / name).read_bytes())

    def test_an_editable_installation_is_refused_with_the_next_step(self):
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            python("-m", "pip", "install", "--no-index", "--no-deps", "--editable", str(self.project()))
        self.assertRegex(failed.exception.output, "editable installation is not available, .* Run pip install .")

    def test_source_distribution_builds_the_same_wheel(self):
        wheels, project = self.use_base_for_any_machine(), self.project()
        code = "import setup, sys; print(setup.build_sdist(sys.argv[1]))"
        with mock.patch.dict(os.environ, {setup.SETTING: "onnxruntime-gpu==1.31.1"}):
            archive_path = wheels / python("-c", code, str(wheels), cwd=project).strip()
            first = archive_path.read_bytes()
            python("-c", code, str(wheels), cwd=project)
        self.assertEqual(archive_path.name, f"onnxruntime_gpu-{self.version}.tar.gz")
        self.assertEqual(archive_path.read_bytes(), first)
        with tarfile.open(archive_path) as archive:
            found = {name.partition("/")[2] for name in archive.getnames()}
        sources = {f"onnxruntime/python/backend/{path}" for path, _ in setup.backend_files()}
        self.assertEqual(
            found - sources, {"setup.py", "pyproject.toml", "PKG-INFO", "LICENSE", "README.md", "notes.md"}
        )
        self.assertLess(sources, found)
        # It records the base: the environment does not have to select the base again.
        built = wheels / "built"
        with mock.patch.dict(os.environ):
            os.environ.pop(setup.SETTING, None)
            python(
                "-m",
                "pip",
                "wheel",
                "--no-index",
                "--no-deps",
                f"--find-links={wheels}",
                f"--wheel-dir={built}",
                str(archive_path),
            )
        self.assertEqual(os.listdir(built), [f"onnxruntime_gpu-{self.version}-py3-none-any.whl"])

    def test_the_constraint_of_the_document_keeps_other_distributions_away(self):
        text = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
        constraint = re.search(r"```text\n(onnxruntime[^`]*)```", text)[1]
        self.assertEqual(set(re.findall(r"(?m)^[\w-]+", constraint)), setup.BASES.keys())
        file = self.folder / "constraints.txt"
        file.write_text(constraint)
        for name, requirement in (("app", "Requires-Dist: onnxruntime>=1.24\n"), ("onnxruntime", "")):
            with zipfile.ZipFile(self.folder / f"{name}-1.31.1-py3-none-any.whl", "w") as wheel:
                info = f"{name}-1.31.1.dist-info"
                metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.31.1\n{requirement}"
                wheel.writestr(f"{info}/METADATA", metadata)
                wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                wheel.writestr(f"{info}/RECORD", "")
        offline = ("--dry-run", "--ignore-installed", "--no-index", f"--find-links={self.folder}")
        install = partial(python, "-m", "pip", "install", *offline, "app")
        self.assertIn("Would install app-1.31.1 onnxruntime-1.31.1\n", install())
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            install(f"--constraint={file}")
        self.assertIn("onnxruntime<0", failed.exception.output)

    def test_installing_over_stock_replaces_it_and_uninstalling_leaves_nothing(self):
        self.use_base_for_any_machine()
        ours = self.build()
        (self.sources / "backend.py").write_bytes(b"mended = True\n")
        mended = self.build()
        stock, _ = self.stock_wheel("1.31.1"), self.stock_wheel("1.31.2")
        environment = self.folder / "environment"
        python("-m", "venv", "--without-pip", str(environment))
        bin_folder = environment / BIN
        before = sorted(environment.rglob("*"))
        pip = partial(python, "-m", "pip", "--python", str(bin_folder / "python"))
        install = partial(pip, "install", "--no-index", "--no-deps")
        upgrade = partial(install, "--upgrade", f"--find-links={self.folder}", "onnxruntime-gpu")
        constraint = self.folder / "constraints.txt"
        constraint.write_text(f"onnxruntime-gpu=={self.version}\n")
        # An upgrade replaces the backend, unless the constraint of docs/installation.md prevents this.
        with_constraint = f"--constraint={constraint}"
        for step, (install_it, arguments, found) in enumerate(
            (
                (install, (stock,), "stock"),
                (install, (ours,), "ours"),
                (upgrade, (with_constraint,), "ours"),
                (upgrade, (), "stock"),
                (install, (mended,), "mended"),
                (install, (ours, with_constraint), "ours"),
                (install, (mended,), "mended"),
                (install, (ours,), "ours"),
            )
        ):
            install_it(*map(str, arguments))
            is_stock = any(environment.rglob("gone.py"))
            self.assertEqual(is_stock, found == "stock", step)
            if not is_stock:
                (installed,) = environment.rglob("backend/backend.py")
                self.assertEqual(b"mended" in installed.read_bytes(), found == "mended", step)
        (info,) = environment.rglob("*.dist-info")
        self.assertEqual(info.name, f"onnxruntime_gpu-{self.version}.dist-info")
        self.assertEqual(len(list(bin_folder.glob("onnxruntime_test*"))), 1)
        pip("uninstall", "--yes", "onnxruntime-gpu")
        self.assertEqual(sorted(environment.rglob("*")), before)


if __name__ == "__main__":
    unittest.main()
