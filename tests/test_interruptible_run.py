# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The example ``interruptible_run.py``: an interrupt ends a run, and other errors reach the caller."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import unittest

import numpy as np
from _paths import ROOT
from onnx import parser

import onnxruntime.backend
from examples import interruptible_run

ABSOLUTE = '<ir_version: 8, opset_import: ["": 17]> g (float[2] X) => (float[2] Y) { Y = Abs (X) }'


class InterruptibleRunTest(unittest.TestCase):
    @unittest.skipIf(sys.platform == "win32", "Windows cannot send Ctrl-C to one process")
    def test_an_interrupt_ends_an_endless_run(self):
        # A shell lets its background programs, such as this one, ignore the signal.
        code = (
            "signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_path(sys.argv[1], run_name='__main__')"
        )
        path = str(ROOT / "examples" / "interruptible_run.py")
        command = [sys.executable, "-c", f"import runpy, signal, sys; {code}", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            try:
                self.assertEqual(child.stdout.readline(), "Press Ctrl-C\n")
                time.sleep(1)
                child.send_signal(signal.SIGINT)
                printed, _ = child.communicate(timeout=20)
            finally:
                child.kill()
        self.assertRegex(printed, r"^ended after \d+\.\d s\n$")
        self.assertEqual(child.returncode, 0)

    def test_outputs_settings_and_errors(self):
        rep = onnxruntime.backend.prepare(parser.parse_model(ABSOLUTE), provider_options={})
        value = np.array([-1, 2], np.float32)
        (y,) = interruptible_run.run(rep, [value], timeout=60)
        np.testing.assert_array_equal(y, [1, 2])
        with self.assertRaises(onnxruntime.backend.InputError):
            interruptible_run.run(rep, [value[:1]])
        endless = onnxruntime.backend.prepare(parser.parse_model(interruptible_run.ENDLESS), provider_options={})
        with self.assertRaises(TimeoutError):
            interruptible_run.run(endless, [np.ones((200, 200), np.float32)], timeout=0.5, log_severity_level=4)


if __name__ == "__main__":
    unittest.main()
