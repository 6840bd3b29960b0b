# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run a selection of ONNX's backend tests, and report which configuration they ran with.

The tests pass no keyword arguments. Set the configuration in the environment:

``ORT_ONNX_BACKEND_CONFIG='{"provider_options": {"CPUExecutionProvider": {}}}' python examples/conformance.py``

Arguments are those of unittest: ``-k`` selects tests of the selection. ``ALL=1`` in the environment runs all tests.
"""

from __future__ import annotations

import os
import sys
import unittest

import onnx.backend.test

import onnxruntime.backend

SELECTION = ".*" if os.environ.get("ALL") == "1" else "^test_layer_normalization_.*_(cpu|cuda)$"

configurations: set[str] = set()
nodes: list[int] = []


class Reporting(onnxruntime.backend.backend.OnnxRuntimeBackend):
    """Records the applied configuration of each prepared model."""

    @classmethod
    def prepare(cls, model, device=None, **keywords):
        rep = onnxruntime.backend.prepare(model, device, **keywords)
        applied = {name: dict(getattr(rep, name)) for name in ("session_options", "session_config", "run_config")}
        configurations.add(", ".join(rep.providers) + "".join(f", {name}={of}" for name, of in applied.items() if of))
        nodes.append(sum((rep.node_assignment or {}).values()))
        return rep


runner = onnx.backend.test.BackendTest(Reporting, __name__).include(SELECTION)
globals().update(runner.test_cases)

if __name__ == "__main__":
    # Tests that are not selected count as skipped, and so do tests for devices that this ORT build does not support.
    result = unittest.main(verbosity=0, exit=False).result
    ran = result.testsRun - len(result.skipped)
    print(f"{ran} of {result.testsRun} tests ran, selected by {SELECTION}")
    if not configurations:
        print("No session was created. The output of the tests contains the errors")
        sys.exit(1)
    if not sum(nodes):
        print("ONNX Runtime records nodes only if provider_options specifies EPs")
    print(f"{sum(nodes) or 'unrecorded'} nodes on {' or '.join(sorted(configurations))}")
    sys.exit(not ran or not result.wasSuccessful())
