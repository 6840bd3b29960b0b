# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run ONNX's own backend tests, which pass no keyword arguments, with a configuration from the environment.

``ORT_ONNX_BACKEND_CONFIG='{"session_config": {"session.disable_prepacking": true}}' python examples/conformance.py``
runs the tests of convolutions; arguments are those of unittest, ``-k`` chooses among them.
"""

from __future__ import annotations

import sys
import unittest

import onnx.backend.test

import onnxruntime.backend

runner = onnx.backend.test.BackendTest(onnxruntime.backend, __name__).include("^test_(basic_)?conv_.*_(cpu|cuda)$")
globals().update(runner.test_cases)

if __name__ == "__main__":
    # Every test that is not included counts as skipped, and so does each for a device that this ORT was not built for.
    done = unittest.main(verbosity=0, exit=False).result
    ran = done.testsRun - len(done.skipped)
    print(f"{ran} ran")
    sys.exit(not ran or not done.wasSuccessful())
