# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the EPs that the environment excludes."""

from __future__ import annotations

import os
import unittest
import warnings
from unittest import mock

from backend_test_models import two_nodes

import onnxruntime
import onnxruntime.backend

KNOWN = "CUDAExecutionProvider"


class ExcludedTest(unittest.TestCase):
    def warnings_of(self, excluded: str, **keywords) -> list[str]:
        with (
            mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": excluded}),
            warnings.catch_warnings(record=True) as given,
        ):
            warnings.simplefilter("always")
            onnxruntime.backend.prepare(two_nodes(), **keywords)
        return [str(warning.message) for warning in given]

    def test_an_unknown_name_causes_a_warning(self) -> None:
        for keywords in ({}, {"provider_options": {}}):
            for excluded, unknown in (
                ("CUDAExecutionProvidr", ["CUDAExecutionProvidr"]),
                (f"{KNOWN}, TensorRTExecutionProvider", ["TensorRTExecutionProvider"]),  # it is Tensorrt...
                ("x,y", ["x", "y"]),
            ):
                given = self.warnings_of(excluded, **keywords)
                with self.subTest(excluded, keywords=keywords):
                    self.assertEqual(len(given), len(unknown))
                    for name, text in zip(unknown, given, strict=True):
                        self.assertIn(repr(name), text)

    def test_a_known_name_causes_no_warning(self) -> None:
        for excluded in ("", ",", KNOWN, f" {KNOWN} ,TensorrtExecutionProvider,", *onnxruntime.get_all_providers()):
            with self.subTest(excluded):
                if excluded != "CPUExecutionProvider":
                    self.assertEqual(self.warnings_of(excluded), [])


if __name__ == "__main__":
    unittest.main()
