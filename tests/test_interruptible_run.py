# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The function of docs/services.md whose run Ctrl-C ends: an interrupt ends it, and other errors reach the caller."""

import re
import signal
import subprocess
import sys
import time
import unittest

import numpy as np
from _paths import ROOT
from onnx import parser

import onnxruntime.backend

ABSOLUTE = '<ir_version: 8, opset_import: ["": 17]> g (float[2] X) => (float[2] Y) { Y = Abs (X) }'
ENDLESS = """<ir_version: 8, opset_import: ["": 17]>
endless (float[200,200] X) => (float[200,200] Y) {
    N = Constant <value = int64 {9223372036854775807}> ()
    True = Constant <value = bool {1}> ()
    Y = Loop <body = step (int64 i, bool before, float[200,200] x) => (bool after, float[200,200] y) {
        after = Identity (before)
        z = MatMul (x, x)
        y = Softmax (z)
    }> (N, True, X)
}"""
FUNCTION = re.search(
    r"```python\n(import threading\n[^`]*?\ndef run\(.*?)\n\n\n\(y,\)",
    (ROOT / "docs" / "services.md").read_text(encoding="utf-8"),
    re.DOTALL,
)[1]
PROGRAM = f"""{FUNCTION}

import signal, onnx.parser
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background programs ignore the signal
rep = onnxruntime.backend.prepare(onnx.parser.parse_model({ENDLESS!r}), provider_options={{}})
print("running", flush=True)
try:
    run(rep, [np.ones((200, 200), np.float32)])
except KeyboardInterrupt:
    print("ended")
"""


class InterruptibleRunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        names: dict = {}
        exec(FUNCTION, names)
        cls.run_interruptibly = staticmethod(names["run"])

    @unittest.skipIf(sys.platform == "win32", "Windows cannot send Ctrl-C to one process")
    def test_an_interrupt_ends_an_endless_run(self):
        with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as child:
            try:
                self.assertEqual(child.stdout.readline(), "running\n")
                time.sleep(1)
                child.send_signal(signal.SIGINT)
                printed, _ = child.communicate(timeout=20)
            finally:
                child.kill()
        self.assertEqual((printed, child.returncode), ("ended\n", 0))

    def test_outputs_settings_and_errors(self):
        rep = onnxruntime.backend.prepare(parser.parse_model(ABSOLUTE), provider_options={})
        value = np.array([-1, 2], np.float32)
        (y,) = self.run_interruptibly(rep, [value], timeout=60)
        np.testing.assert_array_equal(y, [1, 2])
        with self.assertRaises(onnxruntime.backend.InputError):
            self.run_interruptibly(rep, [value[:1]])
        endless = onnxruntime.backend.prepare(parser.parse_model(ENDLESS), provider_options={})
        with self.assertRaises(TimeoutError):
            self.run_interruptibly(endless, [np.ones((200, 200), np.float32)], timeout=0.5, log_severity_level=4)


if __name__ == "__main__":
    unittest.main()
