# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the order of runs on OpenVINO, with sessions and runs that are functions of a test."""

import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from unittest import mock

import _above
import numpy as np
from helpers.locks import Held, at_each_step

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


def renew(session: SimpleNamespace):
    session._providers = session.created = object()


def itself(inner: object) -> object:
    return inner


def fail(inner: object):
    raise RuntimeException("failed")


class OrderTest(unittest.TestCase):
    def setUp(self):
        self.session = SimpleNamespace()  # also its own origin
        renew(self.session)
        self.first = self.session._providers  # the inner session
        self.order_with(renew)

    def order_with(self, renew: Callable):
        self.session.renew = renew
        self.order = RunOrder(lambda: self.session, self.session, "", copies=False)
        self.run_one(itself)

    def run_one(self, compute: Callable, options: onnxruntime.RunOptions | None = None) -> object:
        """Return the output of ``compute``, a function of the inner session."""
        return self.order.run(options, lambda *_: [compute(self.session._providers)], INPUTS, options)[0]

    def assert_replaced(self, expected: bool = True):
        new = self.run_one(itself)
        self.assertEqual(new is not self.first, expected)
        self.assertIs(new, self.session._providers)

    def test_errors_that_replace_the_inner_session(self):
        """Only errors of ORT from inside the EP do, also if a signal handler raises another error after one."""
        for error, context, replaces in (
            *((kind("failed"), None, True) for kind in ORT_ERRORS),
            (Fail(f"Non-zero status code returned while running {TERMINATED}"), None, True),
            (KeyboardInterrupt(), Fail("failed"), True),
            (KeyboardInterrupt(), Fail(TERMINATED), False),
            (InvalidArgument(INVALID_SHAPE), None, False),
            (Fail(TERMINATED), None, False),
            (KeyboardInterrupt(), None, False),
            (AlarmError(), ValueError(), False),
            (RuntimeError("failed"), None, False),
        ):
            error.__context__ = context
            with self.subTest(repr(error), context=context):
                self.setUp()
                with self.assertRaises(type(error)):
                    self.run_one(mock.Mock(side_effect=error))
                self.assert_replaced(replaces)

    def test_the_error_of_the_ep(self):
        """It contains the last line of OpenVINO's text, and the next step."""
        failing = mock.Mock(side_effect=Fail("Non-zero status: [OpenVINO-EP] node.cpp:820:\nunsupported type\n\n"))
        with self.assertRaisesRegex(Fail, r"'CPUExecutionProvider': \{\}.*: unsupported type$"):
            self.run_one(failing)
        self.assert_replaced()

    def test_an_interrupt_while_the_caller_handles_an_error_of_ort(self):
        try:
            raise Fail("an error of another session")
        except Fail:
            with self.assertRaises(KeyboardInterrupt):
                self.run_one(mock.Mock(side_effect=KeyboardInterrupt))
        self.assert_replaced(False)

    def test_an_interrupt_hides_no_failed_run(self):
        for interrupter in at_each_step():
            self.setUp()
            has_failed = False

            def compute(*_: object):
                nonlocal has_failed
                has_failed = True
                raise Fail("failed")

            with suppress(Fail), interrupter:
                self.order.run(None, compute, INPUTS, None)
            with ThreadPoolExecutor(1) as pool:  # another thread, for which the lock must be free
                pool.submit(self.assert_replaced, has_failed).result(20)

    def test_a_run_that_waits_can_be_canceled(self):
        options = onnxruntime.RunOptions()
        options.terminate = True
        with Held(lambda hold: self.run_one(lambda _: hold())), self.assertRaises(RuntimeError):
            self.run_one(itself, options)
        self.assert_replaced(False)

    def test_a_run_inside_a_run(self):
        """A signal handler or a finalizer that runs the session in the middle of a run gets an error."""

        def nested(inner: object) -> object:
            with self.assertRaisesRegex(RuntimeError, "in the middle of a call"):
                self.run_one(fail)
            return inner

        self.assertIs(self.run_one(nested), self.first)
        self.assert_replaced(False)

    def test_a_session_that_cannot_be_replaced_raises_until_it_can(self):
        """The backend tries again, and the caller can change the session."""
        for is_changed in (False, True):
            self.setUp()
            renewal = mock.Mock(side_effect=AlarmError)
            self.order_with(renewal)
            for compute, error in ((fail, RuntimeException), (itself, AlarmError), (fail, AlarmError)):
                with self.assertRaises(error):
                    self.run_one(compute)
            if is_changed:
                renew(self.session)
            else:
                renewal.side_effect = renew
            self.assert_replaced()

    def test_the_first_run_of_each_inner_session_is_computed_twice(self):
        computed = []
        for inner in range(2):
            renew(self.session)
            for run in range(2):
                self.run_one(lambda _, run=(inner, run): computed.append(run))
        self.assertEqual(computed, [(0, 0), (0, 0), (0, 1), (1, 0), (1, 0), (1, 1)])


if __name__ == "__main__":
    unittest.main()
