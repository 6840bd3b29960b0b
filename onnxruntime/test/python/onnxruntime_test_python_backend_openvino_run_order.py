# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the order of runs on OpenVINO, with sessions and runs that are functions of a test."""

from __future__ import annotations

import inspect
import itertools
import operator
import sys
import threading
import time
import unittest
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import onnxruntime
from onnxruntime.backend.errors import ORT_ERRORS
from onnxruntime.backend.openvino.run_order import RunOrder
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

INPUTS = {"x": np.zeros((2, 3), np.float32)}
# Messages of errors that ORT raises outside of the EP.
INVALID_SHAPE = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: x"
TERMINATED = "[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true."


class AlarmError(Exception):
    """An error of the program's own signal handler."""


class FakeSession(onnxruntime.InferenceSession):
    """A session whose inner session is a list of EPs."""

    def __init__(self) -> None:
        self._providers = [object()]

    def set_providers(self) -> None:
        self._providers = [object()]


class OrderTest(unittest.TestCase):
    def setUp(self) -> None:
        self.session = FakeSession()
        self.first = self.session._providers
        self.order_with(FakeSession.set_providers)

    def order_with(self, renew: Callable[[FakeSession], None]) -> None:
        self.order = RunOrder(weakref.ref(self.session), renew, "", copies=False)
        self.run_one(self.computed_by)

    def run_one(self, compute: Callable, options: onnxruntime.RunOptions | None = None) -> object:
        """Return the output of ``compute``, a function of the inner session."""
        return self.order.run(options, lambda *_: [compute(self.session._providers)], INPUTS, options)[0]

    def computed_by(self, inner: object) -> object:
        return tuple(inner)

    def fail(self, inner: object) -> None:
        raise RuntimeException("failed")

    def assert_replaced(self, expected: bool = True) -> None:
        new = self.run_one(self.computed_by)
        self.assertEqual(new != tuple(self.first), expected)
        self.assertEqual(new, tuple(self.session._providers))

    def test_errors_that_replace_the_inner_session(self) -> None:
        """Only errors of ORT from inside the EP do, also if a signal handler raises another error after one."""
        for error, context, replaces in (
            *((kind("failed"), None, True) for kind in ORT_ERRORS),
            (Fail(f"Non-zero status code returned while running {TERMINATED}"), None, True),
            (KeyboardInterrupt(), Fail("failed"), True),
            (AlarmError(), Fail("failed"), True),
            (KeyboardInterrupt(), Fail(TERMINATED), False),
            (InvalidArgument(INVALID_SHAPE), None, False),
            (Fail(TERMINATED), None, False),
            (KeyboardInterrupt(), None, False),
            (AlarmError(), ValueError(), False),
            *((kind("failed"), None, False) for kind in (MemoryError, RuntimeError, ValueError)),
        ):

            def raise_it(inner: object, error=error, context=context) -> None:
                error.__context__ = context
                raise error

            with self.subTest(repr(error), context=context):
                self.setUp()
                with self.assertRaises(type(error)):
                    self.run_one(raise_it)
                self.assert_replaced(replaces)

    def test_an_interrupt_while_the_caller_handles_an_error_of_ort(self) -> None:
        def interrupt(inner: object) -> None:
            raise KeyboardInterrupt

        try:
            raise Fail("an error of another session")
        except Fail:
            with self.assertRaises(KeyboardInterrupt):
                self.run_one(interrupt)
        self.assert_replaced(False)

    def test_an_interrupt_hides_no_failed_run(self) -> None:
        for moment in range(400):
            self.setUp()
            failed, calls = [], itertools.count()

            def interrupt(
                frame: object, event: str, function: object, failed=failed, calls=calls, moment=moment
            ) -> None:
                if event == "c_exception" and function is operator.index:
                    failed.append(tuple(self.first))
                # Python calls a signal handler after a call and at the start of a function. A generator that continues
                # could catch the handler's error, but not this error.
                elif event == "c_return" or (event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR):
                    if next(calls) == moment:
                        raise KeyboardInterrupt

            class Index:
                def __index__(_) -> int:  # noqa: N805
                    raise Fail("failed")

            sys.setprofile(interrupt)
            ended = False
            try:
                self.order.run(None, lambda *_: operator.index(Index()), INPUTS, None)
            except KeyboardInterrupt:
                pass
            except Fail:
                ended = True
            sys.setprofile(None)
            with ThreadPoolExecutor(1) as pool:  # another thread, for which the lock must be free
                self.assertNotIn(pool.submit(self.run_one, self.computed_by).result(20), failed)
            if ended:
                return
        self.fail("400 moments were not enough")

    def test_one_run_after_another(self) -> None:
        running, most = [], []

        def compute(inner: object) -> None:
            running.append(inner)
            most.append(len(running))
            time.sleep(0.001)
            running.pop()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: self.run_one(compute), range(20)))
        self.assertEqual(max(most), 1)

    def test_a_run_that_waits_can_be_canceled(self) -> None:
        begun, may_end, options = threading.Event(), threading.Event(), onnxruntime.RunOptions()

        def compute(inner: object) -> bool:
            begun.set()
            return may_end.wait(20)

        with ThreadPoolExecutor(2) as pool:
            other = pool.submit(self.run_one, compute)
            self.assertTrue(begun.wait(20))
            waiting = pool.submit(self.run_one, self.computed_by, options)
            options.terminate = True
            self.assertIsInstance(waiting.exception(20), RuntimeError)
            may_end.set()
            self.assertTrue(other.result(20))
        self.assert_replaced(False)

    def test_a_run_inside_a_run(self) -> None:
        """A signal handler or a finalizer that runs the session in the middle of a run gets an error."""

        def nested(inner: object) -> object:
            with self.assertRaisesRegex(RuntimeError, "in the middle of a call"):
                self.run_one(self.fail)
            return self.computed_by(inner)

        self.assertEqual(self.run_one(nested), tuple(self.first))
        self.assert_replaced(False)

    def test_a_session_that_cannot_be_replaced_raises_until_the_caller_changes_it(self) -> None:
        self.order_with(self.fail)
        for compute in (self.fail, self.fail, self.computed_by, self.computed_by):
            with self.assertRaises(RuntimeException):
                self.run_one(compute)
        self.session.set_providers()
        self.assert_replaced()

    def test_a_replacement_that_fails_is_tried_again(self) -> None:
        calls = itertools.count()

        def fail_once(session: FakeSession) -> None:
            if next(calls) == 0:
                raise AlarmError
            session.set_providers()

        self.order_with(fail_once)
        for compute, error in ((self.fail, RuntimeException), (self.computed_by, AlarmError)):
            with self.assertRaises(error):
                self.run_one(compute)
        self.assert_replaced()

    def test_the_first_run_of_each_inner_session_is_computed_twice(self) -> None:
        computed = []
        for inner in range(2):
            self.session.set_providers()
            for run in range(2):
                self.run_one(lambda _, run=(inner, run): computed.append(run))
        self.assertEqual(computed, [(0, 0), (0, 0), (0, 1), (1, 0), (1, 0), (1, 1)])


if __name__ == "__main__":
    unittest.main()
