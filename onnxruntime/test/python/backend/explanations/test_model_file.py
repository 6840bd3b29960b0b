# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the errors for models that are no models: pages, pointers, other formats, truncated files, missing data."""

import contextlib
import io
import os
import pickle
import re
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import _above
import numpy as np
import onnx
from helpers.children import run_code
from helpers.models import reads_linux, two_nodes
from helpers.observable_models import in_ort_format
from onnx import numpy_helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.explanations import model_file
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    RuntimeException,
)

CPU_ONLY = {"provider_options": {}}
MODEL = two_nodes().SerializeToString()
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n"


def zip_archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", "x")
    return stream.getvalue()


def tar_archive() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return stream.getvalue()


# Content, and a pattern of the error.
CONTENTS = (
    (POINTER, "Git LFS pointer.*git lfs pull"),
    (b"\xef\xbb\xbf\r\n <!DOCTYPE html><html>", "HTML page.*Download"),
    (b"<HTML>", "HTML page"),
    (b'\n{"error": "not found"}', "JSON"),
    (b'<?xml version="1.0"?><net name="x">', "OpenVINO"),
    (b"", "is empty"),
    (bytes(4096), "is empty"),
    (MODEL[:-9], f"truncated.* {len(MODEL) - 9} bytes"),
    (MODEL[:2], "no graph"),
    (b"ftrt" + bytes(99), "TensorRT engine"),
    (b"\x1c\0\0\0TFL3" + bytes(99), "TensorFlow Lite"),
    (b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5"),
    (b'\x20\0\0\0\0\0\0\0{"__metadata__": {}}', "safetensors"),  # whose first byte is a space
    (b"GGUF\x03\0\0\0", "GGUF"),
    (pickle.dumps(MODEL), "pickle"),
    (zip_archive(), "zip archive"),
    (tar_archive(), "tar archive"),
    (b"\x1f\x8b\x08\0" + bytes(99), "gzip"),
    (b"\xfd7zXZ\0" + bytes(99), "xz archive"),
    (b"import onnx\n", "not in ONNX's binary format"),
    (b"\xff\xfe" * 99, "not in ONNX's binary format"),
)


class ModelFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def put(self, content: bytes, name: str = "model.onnx") -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def check(self, model: object, pattern: str, *classes: type) -> None:
        with self.assertRaisesRegex(classes, f"(?s)^(?:The|ORT expects).*{pattern}.*error: ."):
            onnxruntime.backend.prepare(model, **CPU_ONLY)

    def external(self) -> Path:
        """Save a model whose data is in the file model.data, and return its path."""
        graph = "(float[999] X) => (float[999] Y) { Y = Add (X, W) }"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {graph}')
        model.graph.initializer.append(numpy_helper.from_array(np.ones(999, "f"), "W"))
        path = self.folder / "model.onnx"
        onnx.save(model, path, save_as_external_data=True, location="model.data", size_threshold=0)
        return path

    def test_content(self):
        for content, pattern in CONTENTS:
            with self.subTest(pattern, content=content[:9]):
                errors = InvalidProtobuf, InvalidArgument, Fail
                self.check(content, pattern, *errors)
                self.check(self.put(content), pattern, *errors)

    def test_the_class_of_the_error(self):
        """Programs for the stock backend catch the class that ORT raises."""
        for content in (POINTER, b""):
            with self.assertRaises(Exception) as raised:
                onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
            self.check(content, "", type(raised.exception))

    def test_folders_and_other_files(self):
        self.check(self.folder, "folder", InvalidProtobuf)
        absent = self.folder / "absent"
        for path in (absent, "/dev/null"):
            self.assertEqual(model_file.problem(str(path), True), "")
        with (
            mock.patch.object(model_file, "open", side_effect=PermissionError(13, "not yours"), create=True),
            self.subTest("permission"),
        ):
            self.assertRegex(model_file.problem(str(self.put(MODEL)), True), "cannot be read: not yours$")

    @reads_linux
    def test_no_file_handle_is_left(self):
        """An import that the explanation needs would fail, and hide ORT's error."""
        code = """if True:
            import os, resource, sys
            import onnxruntime.backend
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, 4096))
            try:
                onnxruntime.backend.prepare(sys.argv[1], provider_options={})
            except Exception as error:
                resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
                print(type(error).__name__, error)
        """
        done = run_code(code, str(self.put(MODEL)))
        self.assertRegex(done.stdout, "^Fail The model cannot be read: Too many open files")

    def test_extensions(self):
        content = in_ort_format(MODEL)
        self.check(self.put(MODEL, "model.ort"), r"ends with \.ort", Fail)
        self.check(self.put(content, "model.onnx"), r"ends with \.ort", InvalidProtobuf)
        self.assertEqual(model_file.problem(str(self.put(content, "model.ort")), False), "")
        self.assertEqual(model_file.problem(content, False), "")

    def test_a_model_that_fails_for_another_reason(self):
        """The error is ORT's own."""
        model = two_nodes()
        model.graph.node[0].op_type = "Unknown"
        for source in (model.SerializeToString(), self.put(model.SerializeToString())):
            with self.assertRaisesRegex(InvalidGraph, r"^\[ONNXRuntimeError\]"):
                onnxruntime.backend.prepare(source, **CPU_ONLY)
        with self.assertRaises(onnx.checker.ValidationError) as caught:
            onnxruntime.backend.prepare(onnx.ModelProto())
        self.assertNotIn("onnx error", str(caught.exception))

    def test_large_models(self):
        with mock.patch.object(model_file, "_LARGEST", 10):
            self.assertRegex(model_file.problem(MODEL, True), f"has {len(MODEL)} bytes.*at most 10.*external data")
        with (
            mock.patch.object(model_file, "_LARGEST_TO_PARSE", 10),
            mock.patch.object(model_file.ModelProto, "FromString") as parse,
        ):
            self.assertEqual(model_file.problem(MODEL, False), "")
            parse.assert_not_called()

    def test_missing_data(self):
        path = self.external()
        data = self.folder / "model.data"
        content = data.read_bytes()
        data.write_bytes(POINTER)
        self.check(path, "'W'.*'model.data', which is a Git LFS pointer", Fail)
        data.unlink()
        self.check(path, f"'W'.*'model.data', which is missing.* {re.escape(str(self.folder))}", Fail, RuntimeException)
        # ORT reads data beside bytes from the current folder.
        model = onnx.load(path, load_external_data=False)
        elsewhere = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        data.write_bytes(content)
        with contextlib.chdir(elsewhere):
            pattern = f"'model.data'. Pass the path of the model.* {re.escape(str(elsewhere))}"
            self.check(model.SerializeToString(), pattern, Fail, RuntimeException)
            self.check(model, pattern, onnx.checker.ValidationError)
            onnxruntime.backend.prepare(path, **CPU_ONLY)

    def test_where_tensors_are(self):
        """In attributes and inner graphs, too. The names are text of the model, and errors stay short."""
        tensor = numpy_helper.from_array(np.ones(3, "f"), "W" * 999)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="offset", value="0")
        tensor.external_data.add(key="location", value="\n" * 999)
        value = onnx.helper.make_attribute("value", tensor)
        inner = onnx.helper.make_graph([onnx.helper.make_node("Constant", [], ["Y"])], "g", [], [])
        inner.node[0].attribute.append(value)
        model = two_nodes()
        model.graph.node[1].attribute.append(onnx.helper.make_attribute("then_branch", inner))
        found = model_file.missing_data(model)
        self.assertRegex(found, "^The data of the tensor 'WWW")
        self.assertLess(len(found.replace(os.getcwd(), "")), 400)


if __name__ == "__main__":
    unittest.main()
