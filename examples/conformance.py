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

# What ORT reports of the prepared models: a run says which configuration it ran with.
told: set[str] = set()


class Told(onnxruntime.backend.backend.OnnxRuntimeBackend):
    """ORT's backend, of which each prepared model is asked what was applied."""

    @classmethod
    def prepare(cls, model, device=None, **keywords):
        rep = onnxruntime.backend.prepare(model, device, **keywords)
        applied = {name: dict(getattr(rep, name)) for name in ("provider_options", "session_config", "run_config")}
        told.add(", ".join(rep.providers) + "".join(f", {name}={of}" for name, of in applied.items() if of))
        return rep


runner = onnx.backend.test.BackendTest(Told, __name__).include("^test_(basic_)?conv_.*_(cpu|cuda)$")
globals().update(runner.test_cases)

if __name__ == "__main__":
    # Every test that is not included counts as skipped, and so does each for a device that this ORT was not built for.
    done = unittest.main(verbosity=0, exit=False).result
    ran = done.testsRun - len(done.skipped)
    print(f"{ran} ran on {' or '.join(sorted(told))}" if told else f"{ran} ran")
    sys.exit(not ran or not done.wasSuccessful())
