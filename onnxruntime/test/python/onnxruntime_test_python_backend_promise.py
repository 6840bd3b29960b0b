# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What is named acts, or is refused, or is warned of and listed as unconfirmed: there is no fourth outcome.

And what one caller names does nothing to others: no thread, no memory and no arithmetic but the session's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import unittest
import warnings
from unittest import mock

import numpy as np
from backend_test_models import two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.session import presence

CPU, CUDA, OPENVINO = "CPUExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider"
MODEL = two_nodes((2, 4)).SerializeToString()
X = np.ones((2, 4), np.float32)
ON_CPU = {"provider_options": {}}


def prepare(**keywords):
    """The prepared model, and the texts of the warnings."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        rep = onnxruntime.backend.prepare(MODEL, **{**ON_CPU, **keywords})
    return rep, [str(warning.message) for warning in given]


class TestPluginsBefore1244(unittest.TestCase):
    """Device records of those releases do not say where a plugin's library is."""

    def test_recognised_by_the_version(self):
        def device(name, **metadata):
            return mock.Mock(ep_name=name, ep_metadata=metadata)

        devices = [
            device(CPU, version="1.24.1"),
            device(OPENVINO, version="1.8.1+95d534b.ci.79"),
        ]
        with (
            mock.patch.object(onnxruntime, "__version__", "1.24.1"),
            mock.patch.object(onnxruntime, "get_ep_devices", return_value=devices, create=True),
        ):
            self.assertEqual(presence.plugin_devices(OPENVINO), devices[1:])
            self.assertEqual(presence.kind_of(OPENVINO), "plugin")
            self.assertEqual(presence.kind_of(CPU), "built-in")
        with (
            mock.patch.object(onnxruntime, "get_ep_devices", return_value=devices, create=True),
            mock.patch.object(onnxruntime, "__version__", "1.24.4"),
        ):
            self.assertEqual(presence.plugin_devices(OPENVINO), [])


def run_in_a_new_process(code: str) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise AssertionError(done.stdout)


if __name__ == "__main__":
    unittest.main()
