# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""setup.py builds the stock wheel with this tree's backend, and nothing else."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from setup_module import ROOT, python, setup

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


class TestBuild(unittest.TestCase):
    """setup.py on a small base."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
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
        sources = mock.patch.object(setup, "BACKEND_SOURCES", self.sources)
        sources.start()
        self.addCleanup(sources.stop)
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

    def assert_not_built(self, *message: str) -> None:
        with self.assertRaises(SystemExit) as failed:
            self.build()
        for part in ("onnxruntime-gpu==1.31.1", *message):
            self.assertIn(part, str(failed.exception))
            self.assertNotIn("\n", str(failed.exception))
        self.assertEqual([path for path in self.folder.rglob("*.whl") if path.is_file()], [])

    def test_wheel(self):
        built = self.build()
        self.assertEqual(
            built.name,
            f"onnxruntime_gpu-{self.version}-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        )
        info = f"onnxruntime_gpu-{self.version}.dist-info"
        with zipfile.ZipFile(built) as wheel:
            files = {entry.filename: wheel.read(entry) for entry in wheel.infolist()}
            dates = {entry.date_time for entry in wheel.infolist()}
            executable = [entry.filename for entry in wheel.infolist() if entry.external_attr >> 16 & 0o111]
        record = list(csv.reader(io.StringIO(files.pop(f"{info}/RECORD").decode())))
        self.assertEqual(
            record,
            [[path, setup.record_hash(content), str(len(content))] for path, content in files.items()]
            + [[f"{info}/RECORD", "", ""]],
        )
        expected = {path.replace(INFO, info): content for path, content in STOCK.items() if "/backend/" not in path}
        expected |= {
            "onnxruntime/backend/__init__.py": OURS,
            "onnxruntime/backend/backend.py": b"",
        }
        expected["onnxruntime/backend/py.typed"] = b""
        expected["onnxruntime/backend/runs/inner/__init__.py"] = b""
        # Only the first Version is a header; the other one is in the description.
        version = f"Version: {self.version}\nRequires-Dist: onnx\n".encode()
        expected[f"{info}/METADATA"] = METADATA.encode().replace(b"Version: 1.31.1\n", version, 1)
        expected[f"{info}/WHEEL"] = WHEEL.replace(
            "setuptools (80.9.0)", f"onnxruntime-backend ({self.version})"
        ).encode()
        self.assertEqual(files, expected)
        self.assertEqual(dates, {(1980, 1, 1, 0, 0, 0)})  # the same input gives the same wheel
        self.assertEqual(executable, ["onnxruntime/capi/library.so"])

    def test_label_changes_with_each_file_of_the_backend(self):
        labels = {self.version}
        self.assertRegex(self.version, r"\A1\.31\.1\+backend\.0\.7\.x[0-9a-f]{8}\Z")
        for path, content in (
            ("backend.py", b"x = 1\n"),
            ("runs/inner/__init__.py", b"x = 1\n"),
            ("runs/new.py", b""),
            ("py.typed", b"partial\n"),
            ("__init__.py", OURS.replace(b"0.7", b"0.8")),
        ):
            (self.sources / path).write_bytes(content)
            labels.add(setup.labeled("1.31.1"))
        (self.sources / "backend.py").unlink()
        labels.add(setup.labeled("1.31.1"))
        self.assertEqual(len(labels), 7)

    def test_label_does_not_depend_on_line_endings_and_other_files(self):
        (self.sources / "__init__.py").write_bytes(OURS.replace(b"\n", b"\r\n"))
        (self.sources / "notes.txt").write_bytes(b"changed")
        self.assertEqual(setup.labeled("1.31.1"), self.version)

    def test_changed_and_missing_files_fail_the_build(self):
        (self.site / "onnxruntime/capi/library.so").write_bytes(b"\x7fELF" * 999 + b"evil")
        (self.site / "onnxruntime/__init__.py").unlink()
        self.assert_not_built("missing: onnxruntime/__init__.py; different from RECORD: onnxruntime/capi/library.so")

    def test_records_that_fail_the_build(self):
        stock = "onnxruntime/backend/backend.py"
        odd = [
            f"./{stock}",
            stock.replace("/", "//", 1),
            stock.replace("/", "/./", 1),
            stock.replace("/", "\\"),
        ]
        # Windows reads these names otherwise.
        odd += ["onnxruntime./backend/x.py"]
        odd += [
            f"onnxruntime/{name}"
            for name in (
                *(
                    "backend./x.py",
                    "backend /x.py",
                    "backend",
                    "backend.",
                    "tools. /x.py",
                    "x.py ",
                    "a:b",
                ),
                *(
                    "con",
                    "CON.py",
                    "nul/x.py",
                    "com1.txt",
                    "LPT9",
                    "com\u00b9",
                    "aux .txt",
                    "conin$",
                    "prn.tar.gz",
                ),
                *(
                    "\xe9.py",
                    "e\u0301.py",
                    "\u017fession.py",
                    "\u202egnp.py",
                    "\x7f.py",
                    "\x85.py",
                    "a\0b",
                    "a\nb",
                ),
            )
        ]
        odd += [
            "onnxruntime/Backend/backend.py",
            "ONNXRUNTIME/backend/backend.py",
            "onnxruntime/__PYCACHE__/x.pyc",
        ]
        odd += [
            f"{INFO}/record",
            f"{INFO}/Installer",
            f"{INFO}/requested/x",
            "other.DIST-INFO/RECORD",
        ]
        named = {
            "not a portable path": odd,
            # The files of a wheel's .data folder would have to go back into such a folder.
            "installed outside site-packages": (
                "../../../share/model.onnx",
                f"{INFO[:-10]}.data/scripts/tool",
            ),
            "recorded twice": (
                *("onnxruntime/__init__.py", "onnxruntime/__INIT__.py"),
                "other-1.0.dist-info/METADATA",
            ),
        }
        invalid = "RECORD or the metadata of the installed base is not valid"
        for row, message in (
            *((row, invalid) for row in ((), ("a",), ("a", "b", "c", "d"), ("a" * 200_000, "", ""))),
            (("recorded.py", "", 0), "recorded without a SHA-256: recorded.py"),
            *(
                ((path, setup.record_hash(b""), 0), f"{problem}: {ascii(path)[1:-1]}")
                for problem, paths in named.items()
                for path in paths
            ),
        ):
            with self.subTest(row[:2]):
                self.record.append(row)
                self.assert_not_built(message)
                self.record.pop()
        self.record = []
        self.assert_not_built("RECORD lists no files")

    def test_names_that_only_resemble_devices_are_packed(self):
        names = (
            "console.py",
            "com.py",
            "com10.py",
            "lpt.py",
            "nullable/x.py",
            "_con",
            "a.con",
            ".nul",
            "backends.py",
        )
        for name in names:
            self.put(f"onnxruntime/{name}", b"")
        with zipfile.ZipFile(self.build()) as wheel:
            self.assertIn("onnxruntime/com10.py", wheel.namelist())

    def test_link_fails_the_build(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "file").write_bytes(b"")
        (self.site / "onnxruntime/link").symlink_to(elsewhere / "file")
        (self.site / "onnxruntime/folder").symlink_to(elsewhere)
        self.record += [(f"onnxruntime/{path}", setup.record_hash(b""), 0) for path in ("link", "folder/file")]
        self.assert_not_built("links, or in a folder that is one: onnxruntime/link, onnxruntime/folder/file")

    def test_linked_site_packages_is_built_on(self):
        linked = self.folder / "lib64"  # as a virtual environment has it on some systems
        linked.symlink_to(self.site)
        self.site = linked
        self.assertTrue(self.build().is_file())

    def test_odd_metadata_fails_the_build(self):
        for file, old, new, message in (
            (
                "METADATA",
                "onnxruntime-gpu",
                "onnxruntime",
                "but onnxruntime==1.31.1 is installed",
            ),
            (
                "METADATA",
                "onnxruntime-gpu",
                "../../evil",
                "but ../../evil==1.31.1 is installed",
            ),
            ("METADATA", "onnxruntime-gpu", "evil\n x", r"evil\nx==1.31.1 is installed"),
            (
                "METADATA",
                "1.31.1",
                "1.31.0",
                "installed. To build on it, set ORT_BACKEND_BASE=onnxruntime-gpu==1.31.0.",
            ),
            (
                "METADATA",
                "1.31.1",
                "1.31.1+backend.1",
                "1.31.1+backend.1 is installed. To build on onnxruntime-gpu==",
            ),
            (
                "METADATA",
                "1.31.1",
                "1.23.0",
                "but onnxruntime-gpu==1.23.0 is installed. To build on onnxruntime-gpu==",
            ),
            ("METADATA", "notes", "\udcff", "can't decode"),
            ("METADATA", METADATA, "", "is not valid"),
            ("WHEEL", "Generator", "Generated", "0 lines 'Generator'"),
            ("WHEEL", "x86_64", "x/../../../evil", "not those of one wheel's file name"),
            ("WHEEL", "cp311-cp311-", "", "not those of one wheel's file name"),
            ("WHEEL", "cp311-cp311-manylinux_2_28", "manylinux_2_28", "is not valid"),
            ("entry_points.txt", "=", ":", "is not valid"),
        ):
            with self.subTest(message, new=new):
                path = f"{INFO}/{file}"
                self.put(
                    path,
                    STOCK[path].decode().replace(old, new).encode(errors="surrogateescape"),
                )
                self.assert_not_built(message)
                self.put(path, STOCK[path])

    def test_spelling_of_the_name_does_not_matter(self):
        self.put(
            f"{INFO}/METADATA",
            METADATA.replace("onnxruntime-gpu", "OnnxRuntime_GPU").encode(),
        )
        self.assertTrue(self.build().name.startswith(f"onnxruntime_gpu-{self.version}-"))

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
        self.put(
            f"{INFO}/METADATA",
            METADATA.replace("Requires-Dist: numpy>=1.21.6\n", "").encode(),
        )
        self.write_record()
        self.stock_wheel("1.31.1")
        return self.folder

    def test_builds_without_network_access(self):
        """The commands of docs/installation.md, and the reason why one fails."""
        wheels, project = self.use_base_for_any_machine(), self.project()
        environment = self.folder / "environment"
        python("-m", "venv", "--without-pip", str(environment))
        interpreter = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        pip = ("-m", "pip", "--isolated", "--python", str(interpreter))
        build = (*pip, "wheel", "--no-deps", "--no-index", str(project))
        setting = mock.patch.dict(os.environ, {setup.SETTING: "onnxruntime-gpu==1.31.1"})
        setting.start()
        self.addCleanup(setting.stop)
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            python(*build, "--no-build-isolation")
        advice = "pip install --no-deps onnxruntime-gpu===1.31.1"
        self.assertIn(
            f"is not installed. To build without build isolation, first run: {advice}\n",
            failed.exception.output,
        )
        python(*build, f"--find-links={wheels}", f"--wheel-dir={self.folder / 'isolated'}")
        hashed = self.folder / "base.txt"
        (stock,) = wheels.glob("*.whl")
        hashed.write_text(f"onnxruntime-gpu==1.31.1 --hash=sha256:{hashlib.sha256(stock.read_bytes()).hexdigest()}\n")
        install = (
            *pip,
            "install",
            "--no-deps",
            "--no-index",
            f"--find-links={wheels}",
            "--require-hashes",
        )
        python(*install, f"--requirement={hashed}")
        python(*build, "--no-build-isolation", f"--wheel-dir={self.folder / 'direct'}")
        built = [path for name in ("isolated", "direct") for path in (self.folder / name).iterdir()]
        self.assertEqual(
            [path.name for path in built],
            [f"onnxruntime_gpu-{self.version}-py3-none-any.whl"] * 2,
        )
        self.assertEqual(*(path.read_bytes() for path in built))

    def test_an_editable_installation_is_refused_with_the_next_step(self):
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            python(
                "-m",
                "pip",
                "install",
                "--no-index",
                "--no-deps",
                "--editable",
                str(self.project()),
            )
        self.assertRegex(
            failed.exception.output,
            "editable installation is not available, .* Run pip install .",
        )

    def test_source_distribution_builds_the_same_wheel(self):
        wheels, project = self.use_base_for_any_machine(), self.project()
        code = "import setup, sys; print(setup.build_sdist(sys.argv[1]))"
        with mock.patch.dict(os.environ, {setup.SETTING: "onnxruntime-gpu==1.31.1"}):
            names = [python("-c", code, str(wheels), cwd=project).strip() for _ in "12"]
            first = Path(wheels, names[0]).read_bytes()
        self.assertEqual(names, [f"onnxruntime_gpu-{self.version}.tar.gz"] * 2)
        self.assertEqual(first, Path(wheels, names[1]).read_bytes())
        with tarfile.open(wheels / names[0]) as archive:
            found = {name.partition("/")[2] for name in archive.getnames()}
        sources = {f"onnxruntime/python/backend/{path}" for path, _ in setup.backend_files()}
        self.assertEqual(
            found - sources,
            {"setup.py", "pyproject.toml", "PKG-INFO", "LICENSE", "README.md", "notes.md"},
        )
        self.assertLess(sources, found)
        # It records the base: the environment does not have to select the base again.
        options = (
            "--no-index",
            "--no-deps",
            f"--find-links={wheels}",
            f"--wheel-dir={wheels / 'built'}",
        )
        with mock.patch.dict(os.environ):
            os.environ.pop(setup.SETTING, None)
            python("-m", "pip", "wheel", *options, str(wheels / names[0]))
        self.assertEqual(
            [path.name for path in (wheels / "built").iterdir()],
            [f"onnxruntime_gpu-{self.version}-py3-none-any.whl"],
        )

    def test_pip_check_fails_if_an_upgrade_replaces_the_requirement_of_a_program(self):
        for installed, is_satisfied in (
            (self.version, True),
            ("1.31.1", False),
            ("1.31.2", False),
        ):
            site = self.folder / f"site-{installed}"
            for name, version, more in (
                ("onnxruntime_gpu", installed, ""),
                ("service", "1", f"Requires-Dist: onnxruntime-gpu=={self.version}\n"),
            ):
                info = site / f"{name}-{version}.dist-info"
                info.mkdir(parents=True)
                (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}")
            code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pip._internal.cli.main import main; main()"
            command = [sys.executable, "-c", code, str(site), "check"]
            checked = subprocess.run(command, capture_output=True, text=True, check=False)
            complaint = f"service 1 has requirement onnxruntime-gpu=={self.version}"
            self.assertEqual(
                complaint in checked.stdout,
                not is_satisfied,
                checked.stdout + checked.stderr,
            )

    def test_installing_over_stock_replaces_it_and_uninstalling_leaves_nothing(self):
        self.use_base_for_any_machine()
        ours = self.build()
        (self.sources / "backend.py").write_bytes(b"mended = True\n")
        mended = self.build()
        stock, _ = self.stock_wheel("1.31.1"), self.stock_wheel("1.31.2")
        environment = self.folder / "environment"
        python("-m", "venv", "--without-pip", str(environment))
        bin_folder = environment / ("Scripts" if os.name == "nt" else "bin")
        before = sorted(environment.rglob("*"))
        pip = ("-m", "pip", "--python", str(bin_folder / "python"))
        upgrade = ("--upgrade", f"--find-links={self.folder}", "onnxruntime-gpu")
        constraint = self.folder / "constraints.txt"
        constraint.write_text(f"onnxruntime-gpu=={self.version}\n")
        # An upgrade replaces the backend, unless the constraint of docs/installation.md prevents this.
        for arguments, is_stock in (
            ((stock,), True),
            ((ours,), False),
            ((*upgrade, f"--constraint={constraint}"), False),
            (upgrade, True),
            ((mended,), False),
            ((ours, f"--constraint={constraint}"), False),
            ((mended,), False),
            ((ours,), False),
        ):
            python(*pip, "install", "--no-index", "--no-deps", *map(str, arguments))
            self.assertEqual(len([*environment.rglob("gone.py")]), is_stock, arguments)
            if not is_stock:
                (installed,) = environment.rglob("backend/backend.py")
                self.assertEqual(b"mended" in installed.read_bytes(), arguments == (mended,))
        self.assertEqual(
            [folder.name for folder in environment.rglob("*.dist-info")],
            [f"onnxruntime_gpu-{self.version}.dist-info"],
        )
        self.assertEqual(len(list(bin_folder.glob("onnxruntime_test*"))), 1)
        python(*pip, "uninstall", "--yes", "onnxruntime-gpu")
        self.assertEqual(sorted(environment.rglob("*")), before)


if __name__ == "__main__":
    unittest.main()
