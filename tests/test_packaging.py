# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""setup.py builds the stock wheel with this tree's backend, and nothing else."""

import csv
import io
import unittest
import zipfile

from small_base import INFO, METADATA, OURS, STOCK, WHEEL, SmallBase

import setup

# Recorded paths that fail the build, by the problem.
REJECTED_PATHS = {
    "not a portable path": (
        "onnxruntime//backend/backend.py",
        r"onnxruntime\backend\backend.py",
        # Windows reads these names otherwise.
        "onnxruntime/backend./x.py",
        "onnxruntime/backend /x.py",
        "onnxruntime/x.py ",
        "onnxruntime/a:b",
        "onnxruntime/CON.py",
        "onnxruntime/nul/x.py",
        "onnxruntime/com1",
        "onnxruntime/\xe9.py",
        "onnxruntime/a\nb",
        # A file in place of the folder, and names in another case.
        "onnxruntime/backend",
        "onnxruntime/Backend/backend.py",
        "onnxruntime/__PYCACHE__/x.pyc",
        f"{INFO}/record",
    ),
    # The files of a wheel's .data folder would have to go back into such a folder.
    "installed outside site-packages": (
        "../../../share/model.onnx",
        "/onnxruntime_test",
        "onnxruntime_gpu-1.31.1.data/scripts/tool",
    ),
    "recorded twice": ("onnxruntime/__init__.py", "onnxruntime/__INIT__.py", "other-1.0.dist-info/METADATA"),
}


class TestBuild(SmallBase):
    def test_a_name_that_only_resembles_a_device_is_packed(self):
        for name in ("console.py", "com10.py", "_con/nullable.py", "a.con"):
            self.put(f"onnxruntime/{name}", b"")
        self.assertTrue(self.build().is_file())

    def test_wheel(self):
        built = self.build()
        self.assertEqual(
            built.name, f"onnxruntime_gpu-{self.version}-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"
        )
        info = f"onnxruntime_gpu-{self.version}.dist-info"
        with zipfile.ZipFile(built) as wheel:
            files = {}
            for entry in wheel.infolist():
                files[entry.filename] = wheel.read(entry)
                # The same input gives the same wheel.
                self.assertEqual(entry.date_time, (1980, 1, 1, 0, 0, 0))
                is_executable = bool(entry.external_attr >> 16 & 0o111)
                self.assertEqual(is_executable, entry.filename == "onnxruntime/capi/library.so")
        record = list(csv.reader(io.StringIO(files.pop(f"{info}/RECORD").decode())))
        self.assertEqual(record.pop(), [f"{info}/RECORD", "", ""])
        for (path, content), row in zip(files.items(), record, strict=True):
            self.assertEqual(row, [path, setup.record_hash(content), str(len(content))])
        expected = {}
        for path, content in STOCK.items():
            if "/backend/" not in path:
                expected[path.replace(INFO, info)] = content
        expected["onnxruntime/backend/__init__.py"] = OURS
        expected["onnxruntime/backend/backend.py"] = b""
        expected["onnxruntime/backend/py.typed"] = b""
        expected["onnxruntime/backend/runs/inner/__init__.py"] = b""
        # Only the first Version is a header; the other one is in the description.
        version = f"Version: {self.version}\nRequires-Dist: onnx\n".encode()
        expected[f"{info}/METADATA"] = METADATA.encode().replace(b"Version: 1.31.1\n", version, 1)
        expected[f"{info}/WHEEL"] = WHEEL.replace(
            "setuptools (80.9.0)", f"onnxruntime-backend ({self.version})"
        ).encode()
        self.assertEqual(files, expected)

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
        invalid = "RECORD or the metadata of the installed base is not valid"
        for row, message in (
            ((), invalid),
            (("a",), invalid),
            (("a" * 200_000, "", ""), invalid),
            (("recorded.py", "", 0), "recorded without a SHA-256: recorded.py"),
        ):
            self.assert_row_fails(row, message)
        for problem, paths in REJECTED_PATHS.items():
            for path in paths:
                row = (path, setup.record_hash(b""), 0)
                self.assert_row_fails(row, f"{problem}: {ascii(path)[1:-1]}")
        self.record = []
        self.assert_not_built("RECORD lists no files")

    def assert_row_fails(self, row: tuple, message: str) -> None:
        with self.subTest(row[:2]):
            self.record.append(row)
            self.assert_not_built(message)
            self.record.pop()

    def test_link_fails_the_build(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "file").write_bytes(b"")
        (self.site / "onnxruntime/link").symlink_to(elsewhere / "file")
        (self.site / "onnxruntime/folder").symlink_to(elsewhere)
        for path in ("onnxruntime/link", "onnxruntime/folder/file"):
            self.record.append((path, setup.record_hash(b""), 0))
        self.assert_not_built("links, or in a folder that is one: onnxruntime/link, onnxruntime/folder/file")

    def test_linked_site_packages_is_built_on(self):
        linked = self.folder / "lib64"  # as a virtual environment has it on some systems
        linked.symlink_to(self.site)
        self.site = linked
        self.assertTrue(self.build().is_file())

    def test_odd_metadata_fails_the_build(self):
        for file, old, new, message in (
            ("METADATA", "onnxruntime-gpu", "../../evil", "but ../../evil==1.31.1 is installed"),
            ("METADATA", "onnxruntime-gpu", "evil\n x", r"evil\nx==1.31.1 is installed"),
            (
                "METADATA",
                "1.31.1",
                "1.31.0",
                "installed. To build on it, set ORT_BACKEND_BASE=onnxruntime-gpu==1.31.0.",
            ),
            ("METADATA", "1.31.1", "1.31.1+backend.1", "1.31.1+backend.1 is installed. To build on onnxruntime-gpu=="),
            ("METADATA", "1.31.1", "1.23.0", "but onnxruntime-gpu==1.23.0 is installed. To build on onnxruntime-gpu=="),
            ("METADATA", "notes", "\udcff", "can't decode"),
            ("METADATA", METADATA, "", "is not valid"),
            ("WHEEL", "Generator", "Generated", "0 lines 'Generator'"),
            ("WHEEL", "x86_64", "x/../../../evil", "not those of one wheel's file name"),
            ("WHEEL", "cp311-cp311-", "", "not those of one wheel's file name"),
            ("entry_points.txt", "=", ":", "is not valid"),
        ):
            with self.subTest(message, new=new):
                path = f"{INFO}/{file}"
                self.put(path, STOCK[path].decode().replace(old, new).encode(errors="surrogateescape"))
                self.assert_not_built(message)
                self.put(path, STOCK[path])

    def test_spelling_of_the_name_does_not_matter(self):
        self.put(f"{INFO}/METADATA", METADATA.replace("onnxruntime-gpu", "OnnxRuntime_GPU").encode())
        self.assertTrue(self.build().name.startswith(f"onnxruntime_gpu-{self.version}-"))


if __name__ == "__main__":
    unittest.main()
