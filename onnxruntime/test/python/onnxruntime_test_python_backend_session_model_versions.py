# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models that are too new: a skip for ONNX's test runner if onnx has not released an opset, otherwise ORT's error."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
from backend_test_models import IR_VERSION, model, two_nodes
from onnx import ModelProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import backend
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


class VersionsTest(unittest.TestCase):
    """Models that are too new: a skip for ONNX's test runner where onnx says so, a plain error where ORT does."""

    def check_error(self, source: ModelProto | bytes, reason: str) -> None:
        for arguments in ({}, {"provider_options": {}}):
            with self.assertRaisesRegex(RuntimeError, reason) as caught:
                onnxruntime.backend.prepare(source, **arguments)
            self.assertIsInstance(caught.exception, Fail)  # what ORT raises

    def test_ir_version(self) -> None:
        proto = two_nodes()
        proto.ir_version = 99
        reason = f"model has IR version 99, and ONNX Runtime {onnxruntime.__version__} reads IR versions up to 1"
        self.assertRegex(OnnxRuntimeBackend.is_opset_supported(proto)[1], reason)
        with mock.patch.object(backend, "check_model"):  # onnx's checker refuses what onnx does not know
            self.check_error(proto, reason)
        serialized = proto.SerializeToString()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as file:
                file.write(serialized)
            for source in (path, serialized):
                self.check_error(source, reason)

    def test_unreleased_opset(self) -> None:
        proto = two_nodes()
        for domain, version in (("", 9999), ("ai.onnx.ml", 9999), ("ai.onnx.unheard.of", 1)):
            del proto.opset_import[1:]
            (proto.opset_import.add(domain=domain) if domain else proto.opset_import[0]).version = version
            reason = (
                f"imports {domain or 'ai.onnx'} opset {version}, which the installed onnx does not know as released"
            )
            self.assertRegex(OnnxRuntimeBackend.is_opset_supported(proto)[1], reason)
            with self.assertRaisesRegex(unittest.SkipTest, reason):
                onnxruntime.backend.prepare(proto)
            proto.opset_import[0].version = 21

    def test_opset_that_ort_does_not_support(self) -> None:
        proto = two_nodes()
        proto.opset_import[0].version = 9999
        reason = f"imports ai.onnx opset 9999, and ONNX Runtime {onnxruntime.__version__} supports opsets up to "
        self.check_error(proto.SerializeToString(), reason)
        # What onnx has released, ORT may not support yet: no skip, as the caller's own test would pass by unseen.
        proto.opset_import[0].version = max(
            version for domain, version in helper.OP_SET_ID_VERSION_MAP if domain == "ai.onnx"
        )
        self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
        with mock.patch.object(helper, "OP_SET_ID_VERSION_MAP", {("ai.onnx", 9999): IR_VERSION}):
            proto.opset_import[0].version = 9999
            self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
            self.check_error(proto, reason)

    def test_other_domains_are_not_held_against_a_model(self) -> None:
        proto = model([helper.make_node("Gelu", ["X"], ["Y"], domain="com.microsoft")], {"X": [2, 3]}, {"Y": [2, 3]})
        proto.opset_import.add(domain="com.microsoft", version=1)
        proto.opset_import.add(domain="example.org", version=9999)
        self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
        self.assertEqual(
            onnxruntime.backend.prepare(proto.SerializeToString(), provider_options={}).run([X])[0].shape, X.shape
        )

    def test_unreleased_opsets_on_request(self) -> None:
        code = """if True:
            import unittest, onnxruntime.backend
            from backend_test_models import two_nodes
            model = two_nodes()
            model.opset_import[0].version = 9999
            try:
                onnxruntime.backend.prepare(model)
            except unittest.SkipTest:
                print("skipped")
            except Exception as error:
                print("tried:", error)
        """
        for value, printed in (
            ("0", "tried: .*No Op registered for Neg with domain_version of 9999"),
            ("1", "skipped"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "ALLOW_RELEASED_ONNX_OPSET_ONLY": value},
                cwd=os.path.dirname(__file__),
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertRegex(done.stdout, printed, done.stderr)


if __name__ == "__main__":
    unittest.main()
