# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the explanations for a session that ORT did not create as requested."""

import re
import unittest
from types import SimpleNamespace
from unittest import mock

import _above
from helpers.execution_providers import WEBGPU
from helpers.processes import QNN, permit, process_with

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.explanations import failures
from onnxruntime.backend.session import creation, free_dimensions
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

PLUGIN_FAILS = "virtual ... onnxruntime::PluginExecutionProviderFactory::CreateProvider(...) no backend"


class ExplainTest(unittest.TestCase):
    def test_a_plugin_that_cannot_be_created(self):
        """ORT up to 1.31 raises a RuntimeError with this text, and from 1.32 on its own class."""
        for error, explained in ((Fail(PLUGIN_FAILS), True), (RuntimeError(PLUGIN_FAILS), True), (Fail("Load"), False)):
            with self.subTest(repr(error)), process_with(plugins=(QNN,)), self.assertRaises(Exception) as raised:
                session = mock.Mock(side_effect=error)
                creation.create(b"", permit({QNN: {}}), mock.Mock(), [], session_class=session)
            expected = f"could not create a session with {QNN}. .*backend_type='htp'"
            advised = isinstance(raised.exception, RuntimeError) and bool(re.search(expected, str(raised.exception)))
            self.assertEqual(advised, explained)

    def test_which_errors_have_an_explanation(self):
        newer = "OrtEp for 'WebGpuExecutionProvider' has invalid ort_version_supported=30 (expected 1..26)."
        for text, expected in (
            ("Cannot get shape of input 0.", "free_dimension_overrides"),
            ("OneHot: cannot get shape", "free_dimension_overrides"),
            ("QNN doesn't support dynamic shape.", "free_dimension_overrides"),
            ("Dynamic shape is not supported yet, for input: X", "free_dimension_overrides"),
            (f"[ONNXRuntimeError] : 1 : FAIL : {newer}", f"{WEBGPU}.* 1.30, not {onnxruntime.__version__}"),
            ("another error", "^$"),
        ):
            self.assertRegex(failures._explanation(text), expected)

    def test_the_advice_on_shapes(self):
        """For the QNN EP, which takes no node of a model with free dimensions."""
        for shapes, expected in (
            ((["N", 4], [2, "M", "N"]), r"free_dimension_overrides=\{'N': ..., 'M': ...\}"),
            ((["N", None],), "^Give the model fixed shapes"),
            ((["?", "?"],), "^Give the model fixed shapes"),
            (([2, 4], []), "^$"),
        ):
            inputs = [SimpleNamespace(shape=shape) for shape in shapes]
            advice = free_dimensions.advice(SimpleNamespace(get_inputs=lambda inputs=inputs: inputs))
            self.assertRegex(advice, expected)


if __name__ == "__main__":
    unittest.main()
