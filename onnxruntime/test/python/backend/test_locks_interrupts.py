# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests that no error and no interrupt leaves a lock of sessions taken."""

import contextlib
import gc
import importlib
import inspect
import signal
import sys
import threading
import unittest
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
from helpers.locks import SOON, Held, at_each_step, check_free, in_alone, in_block, in_run, nothing
from helpers.threads import needs_global_lock

from onnxruntime import RunOptions
from onnxruntime.backend import waiting
from onnxruntime.backend.capture.graphs import Graph
from onnxruntime.backend.locks import SessionLock

X = np.zeros(3, np.float32)


def deep(levels: int, function: Callable) -> object:
    return deep(levels - 1, function) if levels else function()


@needs_global_lock
class ErrorTest(unittest.TestCase):
    """No error leaves a lock taken."""

    def setUp(self):
        lock, options, lock_of_one = (SessionLock(), RunOptions(), threading.RLock())
        # Each function exists before a test: Python 3.12 crashes if there is no memory for a new one.
        self.calls = (
            in_run(lock, options),
            in_alone(lock),
            partial(waiting.call_holding, lock_of_one, None),
            in_run(lock),
            in_alone(lock, options),
            in_block(lock),
            partial(lambda block, alone, function: block(partial(alone, function)), in_block(lock), in_alone(lock)),
            partial(lambda run, inner, function: run(partial(inner, function)), in_run(lock), in_run(lock)),
        )
        self.free = (in_alone(lock), in_run(lock), partial(waiting.call_holding, lock_of_one, None))

    def test_recursion(self):
        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        used = len(inspect.stack())
        for number, call in enumerate(self.calls):
            call(nothing)
            raised = 0
            for levels in range(150 - 60, 150):
                sys.setrecursionlimit(used + 150)
                try:
                    deep(levels, partial(call, nothing))
                except RecursionError:
                    raised += 1
                sys.setrecursionlimit(limit)
                with self.subTest(call=number, levels=levels):
                    check_free(*self.free)
            self.assertGreater(raised, 0)  # from Python 3.12 on, calls of C code do not count

    @unittest.skipUnless(sys.implementation.name == "cpython", "makes allocations of CPython fail")
    def test_memory(self):
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool allocates memory, too, between any two lines")
        try:
            _testcapi = importlib.import_module("_testcapi")
        except ImportError:
            self.skipTest("this Python has no _testcapi")
        self.addCleanup(gc.enable)
        gc.disable()
        for call in self.calls:
            call(nothing)
            raised = 0
            for number in range(60):
                try:
                    _testcapi.set_nomemory(number, number + 1)
                    call(nothing)
                except MemoryError:
                    raised += 1
                finally:
                    _testcapi.remove_mem_hooks()
                check_free(*self.free)
            self.assertGreater(raised, 0)


class Session(SimpleNamespace):
    """A stub of a session, which supports weak references."""


def ignore(*_: object) -> None:
    pass


def stub_graph(turn: object) -> Graph:
    """Return a graph with two inputs, without a device."""
    binding = SimpleNamespace(bind_ortvalue_input=ignore, _iobinding=SimpleNamespace(copy_outputs_to_cpu=list))
    session = Session(io_binding=lambda: binding, _sess=SimpleNamespace(run_with_iobinding=ignore))
    buffer = SimpleNamespace(_ortvalue=SimpleNamespace(update_inplace=len))
    return Graph(session, turn, "1", {"A": X, "B": X}, {}, lambda *_: buffer)


@needs_global_lock
class InterruptTest(unittest.TestCase):
    """Ctrl-C at any moment leaves no lock taken."""

    def setUp(self):
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, previous)

    def test_at_each_step(self):
        """Of a call that waits for nothing, that waits for another one, and of a call that releases a session."""
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool is in use")
        lock, lock_of_one, options = SessionLock(), threading.RLock(), RunOptions()
        run, alone, block = in_run(lock), in_alone(lock, options), in_block(lock)
        one = partial(waiting.call_holding, lock_of_one, None)
        graph = stub_graph(lock_of_one)

        def nested(outer: Callable, inner: Callable) -> Callable:
            return lambda function: outer(partial(inner, function))

        calls = {
            "run": run,
            "alone": alone,
            "block": block,
            "one": one,
            "release": partial(self.release, lock),
            "replay": lambda _: graph.replay_arrays([X, X], options),
            "run in a run": nested(run, run),
            "alone in a block": nested(block, alone),
            "block in a block": nested(block, block),
        }
        for name, call in calls.items():
            for interrupter in at_each_step():
                with interrupter, contextlib.suppress(RuntimeError):
                    call(nothing)
                with self.subTest(call=name):
                    self.assertEqual((lock._running, lock._owner), ({}, 0))
                    self.assertFalse(lock._alone._is_owned() or lock_of_one._is_owned())
            check_free(run, alone, block, one)

    def release(self, lock: SessionLock, _: Callable) -> None:
        lock._ended.clear()  # what interrupted calls left would add steps to the next call
        for _ in range(2):
            session = Session(_sess=object())
            lock.own(session)
            del session
        lock.release_ended()

    def test_an_interrupted_call_in_a_block(self):
        """It does not release the lock of the block."""
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool is in use")
        lock = SessionLock()
        for call in (in_block(lock), in_alone(lock)):
            for interrupter in at_each_step():
                with lock.alone():
                    with interrupter:
                        call(nothing)
                    self.assertTrue(lock._alone._is_owned())

    @unittest.skipUnless(
        hasattr(signal, "pthread_kill"),
        "requires signal.pthread_kill: elsewhere, Ctrl-C does not end the wait for a lock",
    )
    def test_while_it_waits(self):
        lock = SessionLock()
        with Held(in_run(lock)):
            check_free(in_run(lock))
            threading.Timer(SOON, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt), lock.alone():
                self.fail("not alone")
            check_free(in_run(lock))


if __name__ == "__main__":
    unittest.main()
