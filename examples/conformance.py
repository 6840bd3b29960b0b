# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run ONNX's own backend tests, which pass no keyword arguments, with a configuration from the environment.

``ORT_ONNX_BACKEND_CONFIG='{"session_config": {"session.disable_prepacking": true}}' python examples/conformance.py``
runs the tests of convolutions; arguments are those of unittest, ``-k`` chooses among them.
"""

from __future__ import annotations

import unittest

import onnx.backend.test

import onnxruntime.backend

runner = onnx.backend.test.BackendTest(onnxruntime.backend, __name__).include("^test_(basic_)?conv_.*_cpu$")
globals().update(runner.test_cases)

if __name__ == "__main__":
    unittest.main(verbosity=0)  # every test that is not included counts as skipped
