# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of models that are too new, or need an operator that ORT lacks: a skip as in stock, or ORT's error."""

import os
import pathlib
import tempfile
import unittest
from types import SimpleNamespace
from unittest import mock

from helpers.children import run_code
from helpers.models import IR_VERSION, parsed, two_nodes
from onnx import ModelProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import backend
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.explanations.model_file import missing_operator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail


def one_node(operator: str, domain: str) -> ModelProto:
    """Return a model of one node, which imports version 1 of the node's domain."""
    return parsed(f"(float[2, 3] X) => (float[2, 3] Y) {{ Y = {domain}.{operator} (X) }}", domain)


class VersionsTest(unittest.TestCase):
    def error_of(self, source: ModelProto | bytes | str, **keywords: object) -> Exception:
        """Return ORT's error. ``assertRaises(Fail)`` would let a ``SkipTest`` skip the test."""
        with self.assertRaises(Exception) as caught:
            onnxruntime.backend.prepare(source, **keywords)
        self.assertIsInstance(caught.exception, Fail)
        return caught.exception

    def check_error(self, source: ModelProto | bytes | str, version: str) -> None:
        for keywords in ({}, {"provider_options": {}}):
            error = self.error_of(source, **keywords)
            self.assertIn(version, str(error))
            self.assertIn(onnxruntime.__version__, str(error))

    def check_skip(self, proto: ModelProto, reason: str) -> None:
        for keywords in ({}, {"provider_options": {}}):
            with self.assertRaisesRegex(unittest.SkipTest, reason):
                onnxruntime.backend.prepare(proto, **keywords)

    def test_an_ir_version_that_ort_does_not_support(self):
        proto = two_nodes()
        proto.ir_version = 99
        self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))  # as in the stock backend
        with mock.patch.object(backend, "check_model"):  # onnx's checker rejects unknown versions
            self.check_error(proto, "IR version 99")
        serialized = proto.SerializeToString()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.onnx")
            path.write_bytes(serialized)
            for source in (path, serialized):
                self.check_error(source, "IR version 99")

    def test_an_object_that_has_opsets_only(self):
        for opsets, expected in (([("", 18)], True), ([("", 18), ("example.org", 3)], True), ([("", 9999)], False)):
            imports = [helper.make_opsetid(*opset) for opset in opsets]
            self.assertEqual(OnnxRuntimeBackend.is_opset_supported(SimpleNamespace(opset_import=imports))[0], expected)

    def test_an_operator_that_ort_lacks(self):
        """The stock backend skips each ModelProto of such a domain. Serialized models raise ORT's error."""
        for domain in ("example.org", "com.microsoft", "ai.onnx.contrib"):  # the last of onnxruntime-extensions
            proto = one_node("NoSuch", domain)
            with self.subTest(domain):
                self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
                self.check_skip(proto, f"lacks the operator NoSuch of domain {domain}")
                with mock.patch.object(OnnxRuntimeBackend, "allowReleasedOpsetsOnly", False):
                    self.error_of(proto)
                self.error_of(proto.SerializeToString())

    def test_an_operator_of_onnx_that_ort_lacks(self):
        """Its model is an error, and no test is skipped."""
        for domain in ("ai.onnx", "ai.onnx.ml"):
            error = Fail(f"{domain}:NoSuch(-1) is not a registered function/op")
            self.assertEqual(missing_operator(error), "")

    def test_a_refused_name_that_reads_like_a_missing_operator(self):
        name = "example.org:NoSuch(-1) is not a registered function/op"
        for keywords in ({"session_config": {name: "1"}}, {"provider_options": {name: {}}}):
            with self.assertRaises(Exception) as caught:  # as in error_of
                onnxruntime.backend.prepare(two_nodes(), **keywords)
            self.assertIs(type(caught.exception), onnxruntime.backend.NotPermittedError)

    def test_an_unreleased_opset(self):
        for domain, version in (("", 9999), ("ai.onnx.ml", 9999), ("ai.onnx.unheard.of", 1)):
            proto = two_nodes()
            (proto.opset_import.add(domain=domain) if domain else proto.opset_import[0]).version = version
            reason = f"{domain or 'ai.onnx'} opset {version}"
            supported, text = OnnxRuntimeBackend.is_opset_supported(proto)
            self.assertFalse(supported)
            self.assertIn(reason, text)
            self.check_skip(proto, reason)

    def test_an_opset_that_ort_does_not_support(self):
        proto = two_nodes()
        proto.opset_import[0].version = 9999
        self.check_error(proto.SerializeToString(), "ai.onnx opset 9999")
        # A released opset that ORT does not support yet: an error, because a skip would hide a failure of the caller.
        with mock.patch.object(helper, "OP_SET_ID_VERSION_MAP", {("ai.onnx", 9999): IR_VERSION}):
            self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
            self.check_error(proto, "ai.onnx opset 9999")
        proto.opset_import[0].version = max(
            version for domain, version in helper.OP_SET_ID_VERSION_MAP if domain == "ai.onnx"
        )
        self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))

    def test_models_of_domains_that_ort_has(self):
        proto = one_node("Gelu", "com.microsoft")
        proto.opset_import.add(domain="example.org", version=9999)
        self.assertEqual(OnnxRuntimeBackend.is_opset_supported(proto), (True, ""))
        onnxruntime.backend.prepare(proto.SerializeToString(), provider_options={})

    def test_the_class_attribute_decides(self):
        """The backend sends it as a session config entry, which ORT reads from 1.32 on."""
        code = """if True:
            import pathlib, sys, onnx, onnxruntime, onnxruntime.backend
            from helpers.models import two_nodes
            from onnxruntime.backend.backend import OnnxRuntimeBackend

            def loads(create, *arguments, **keywords):
                try:
                    return create(*arguments, **keywords)
                except Exception as error:
                    print(type(error).__name__, end=" ")

            key, path = "session.allow_released_opsets_only", sys.argv[1]
            proto = two_nodes()
            proto.opset_import.add(domain="ai.onnx.ml", version=9999)
            onnx.save(proto, path)
            one_entry = {"provider_options": {}, "session_config": {"session.disable_prepacking": 1}}
            Changed = type("Changed", (OnnxRuntimeBackend,), {})
            print(Changed.allowReleasedOpsetsOnly)
            for only in (Changed.allowReleasedOpsetsOnly, True, False):
                Changed.allowReleasedOpsetsOnly = only
                options = onnxruntime.SessionOptions()
                options.add_session_config_entry(key, str(int(only)))
                loads(onnxruntime.InferenceSession, path, options, providers=["CPUExecutionProvider"])
                print("|", end=" ")
                for made in (path, pathlib.Path(path).read_bytes(), path if only else proto):
                    for keywords in ({}, one_entry):
                        rep = loads(Changed.prepare, made, **keywords)
                        assert rep is None or key not in f"{rep.session_config} {rep.configuration()}"
                print()
        """
        environment = {name: text for name, text in os.environ.items() if name != "ALLOW_RELEASED_ONNX_OPSET_ONLY"}
        for value, only_released in ((None, True), ("", False), ("0", False), ("1", True), ("abc", False)):
            variable = {} if value is None else {"ALLOW_RELEASED_ONNX_OPSET_ONLY": value}
            with self.subTest(value), tempfile.TemporaryDirectory() as folder:
                done = run_code(code, os.path.join(folder, "model.onnx"), env=environment | variable)
                self.assertEqual(done.stdout.count("|"), 3, done.stderr)
                default, *lines = done.stdout.splitlines()
                self.assertEqual(default, str(only_released))
                for line in lines:
                    bare, prepared = line.split("|")
                    self.assertEqual(prepared.split(), bare.split() * 6, line)


if __name__ == "__main__":
    unittest.main()
