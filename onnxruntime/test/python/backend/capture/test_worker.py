# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the thread that executes captured runs for other threads. No device is needed."""

import signal
import sys
import threading
import time
import unittest
import weakref
from unittest import mock

import _above
from helpers.locks import Held, at_each_step
from helpers.threads import needs_global_lock

from onnxruntime import RunOptions
from onnxruntime.backend.capture import worker
from onnxruntime.backend.locks import GPU


@needs_global_lock
class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.begun = []
        self.worker = worker.Worker(lambda: self.begun.append(threading.get_ident()))

    def call(self, function, *arguments: object) -> object:
        """Call a function in the worker."""
        return self.worker.call(None, function, *arguments)

    def test_one_thread(self):
        threads = {self.call(threading.get_ident) for _ in range(3)}
        self.assertEqual(threads, {*self.begun})
        self.assertNotIn(threading.get_ident(), threads)

    def test_errors(self):
        for _ in range(2):
            with self.assertRaises(ZeroDivisionError):
                self.call(divmod, 7, 0)
            with self.assertRaises(SystemExit):
                self.call(sys.exit)
            self.assertEqual(self.call(divmod, 7, 2), (3, 1))
        self.assertEqual(len(set(self.begun)), 1)
        self.assertGreater(len(self.begun), 4)  # after an error, it begins again

    def test_a_time_limit_while_another_call_goes_on(self):
        options = RunOptions()
        with Held(self.call):
            threading.Timer(0.1, setattr, (options, "terminate", True)).start()
            with self.assertRaisesRegex(RuntimeError, "terminated while it waited"):
                self.worker.call(options, bool)
        self.assertEqual(self.call(int), 0)

    def test_it_keeps_nothing_of_a_call(self):
        class Input:
            pass

        value = Input()
        gone = weakref.ref(value)
        self.assertIs(self.call(lambda given: given, value), value)
        del value
        end = time.monotonic() + 10
        while gone() is not None and time.monotonic() < end:
            time.sleep(0.001)
        self.assertIsNone(gone())

    def test_a_thread_that_cannot_start(self):
        with mock.patch.object(worker, "start_new_thread", side_effect=RuntimeError), self.assertRaises(RuntimeError):
            self.call(int)
        self.assertEqual(self.call(int), 0)

    def test_interrupts_at_each_step(self):
        """The next call is executed, and waits for the lock as long as an abandoned one needs it."""
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, previous)
        for again in (False, True):
            for interrupter in at_each_step(again):
                working = []

                def work(working=working) -> None:
                    working.append(1)
                    time.sleep(0.01)
                    working.clear()

                with interrupter:
                    self.call(GPU.run_alone, None, work)
                GPU.run_alone(None, lambda working=working: self.assertEqual(working, []))
                self.assertEqual(self.call(int), 0)


if __name__ == "__main__":
    unittest.main()
