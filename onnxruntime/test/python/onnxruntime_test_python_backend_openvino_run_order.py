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
from onnxruntime.backend.openvino.run_order import RunOrder

INPUTS, OTHER = ({"x": np.zeros(shape, np.float32)} for shape in ((2, 3), (4, 3)))
# Messages of errors that ORT raises outside of the EP.
INVALID_SHAPE = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: x"
TERMINATED = "[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true."
OUTSIDE_EP = (INVALID_SHAPE, TERMINATED)


class FakeSession(onnxruntime.InferenceSession):
    """A session whose inner session is a list of EPs."""

    def __init__(self) -> None:
        self._providers = [object()]

    def set_providers(self) -> None:
        self._providers = [object()]


class OneThreadTest(unittest.TestCase):
    """A session that one thread uses, of a model whose values decide whether a run fails."""

    most, two_threads = 1, False

    def setUp(self) -> None:
        self.session = FakeSession()
        self.first = self.session._providers
        self.order = self.order_with(FakeSession.set_providers)

    def order_with(self, renew: Callable[[FakeSession], None]) -> RunOrder:
        """Return an order for which runs with the shapes of ``INPUTS`` have succeeded."""
        self.order = RunOrder(weakref.ref(self.session), renew, lambda session: (self.most, ""))
        self.run_one(self.computed_by)
        if self.two_threads:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self.run_one, self.computed_by).result(20)
            self.run_one(self.computed_by)
        return self.order

    def run_one(self, compute, options=None, feeds=INPUTS) -> object:
        """Return the outputs of ``compute``, a function of the inner session."""
        return self.order.run(options, lambda *_: compute(self.session._providers), feeds, options)

    def computed_by(self, inner: object) -> object:
        return inner

    def fail_inside(self, inner: object) -> None:
        raise ValueError("failed")

    def assert_replaced(self) -> None:
        inner = self.run_one(self.computed_by)
        self.assertIsNot(inner, self.first)
        self.assertIs(inner, self.session._providers)
        self.assertIs(self.run_one(self.computed_by), inner)

    def test_errors_that_replace_the_inner_session(self) -> None:
        """Only errors outside of the EP do not, and after these, the same runs as before are parallel."""
        after_an_error = KeyboardInterrupt(TERMINATED)
        after_an_error.__context__ = RuntimeError(TERMINATED)
        for error, replaces in (
            (ValueError("failed"), True),
            (after_an_error, True),
            *((RuntimeError(f"Non-zero status code returned while running {text}"), True) for text in OUTSIDE_EP),
            *((RuntimeError(text), False) for text in OUTSIDE_EP),
            (KeyboardInterrupt(), False),
        ):

            def fail(inner: object, error=error) -> None:
                raise error

            self.setUp()
            with self.subTest(repr(error)):
                for _ in range(2):
                    self.first = self.session._providers
                    with self.assertRaises(type(error)):
                        self.run_one(fail)
                    if replaces:
                        self.assert_replaced()
                    else:
                        self.assertIs(self.run_one(self.computed_by), self.first)
                        self.assertEqual(self.most_at_once() > 1, self.most > 1)

    def test_an_interrupt_hides_no_failed_run(self) -> None:
        for moment in range(200):
            self.setUp()
            failed, calls = [], itertools.count()

            def interrupt(
                frame: object, event: str, function: object, failed=failed, calls=calls, moment=moment
            ) -> None:
                if event == "c_exception" and function is operator.index:
                    failed.append(self.first)
                # Python calls a signal handler after a call and at the start of a function. A generator that continues
                # could catch the handler's error, but not this error.
                elif event == "c_return" or (event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR):
                    if next(calls) == moment:
                        raise KeyboardInterrupt

            sys.setprofile(interrupt)
            ended = False
            try:
                self.run_one(operator.index)  # a TypeError
            except KeyboardInterrupt:
                pass
            except TypeError:
                ended = True
            sys.setprofile(None)
            with ThreadPoolExecutor(1) as pool:  # another thread, for which the lock must be free
                for feeds in (INPUTS, OTHER):  # the run with other shapes waits until no thread runs
                    inner = pool.submit(self.run_one, self.computed_by, feeds=feeds).result(20)
                    self.assertNotIn(inner, failed)
            if ended:
                return
        self.fail("200 moments were not enough")

    def test_another_thread_waits(self) -> None:
        new = {"x": np.zeros(9)}
        for feeds in (new, INPUTS):
            self.setUp()
            beside = []
            with self.subTest(feeds), ThreadPoolExecutor(1) as pool:

                def compute(inner: object, beside=beside, pool=pool) -> object:
                    beside.append(pool.submit(self.run_one, self.computed_by, feeds=new))
                    time.sleep(0.05)
                    self.assertFalse(beside[0].done())
                    return inner

                self.assertIs(self.run_one(compute, feeds=feeds), self.first)
                self.assertIs(beside[0].result(20), self.first)

    def most_at_once(self, feeds: dict[str, np.ndarray] = INPUTS) -> int:
        computing, most = [], []

        def compute(inner: object) -> None:
            computing.append(inner)
            most.append(len(computing))
            time.sleep(0.001)
            computing.pop()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: self.run_one(compute, feeds=feeds), range(40)))
        return max(most)

    def test_a_run_that_waits_can_be_canceled(self) -> None:
        begun, may_end, options = threading.Event(), threading.Event(), onnxruntime.RunOptions()

        def compute(inner: object) -> bool:
            begun.set()
            return may_end.wait(20)

        with ThreadPoolExecutor(2) as pool:
            other = pool.submit(self.run_one, compute, feeds=OTHER)
            self.assertTrue(begun.wait(20))
            waiting = pool.submit(self.run_one, self.computed_by, options)
            options.terminate = True
            self.assertIsInstance(waiting.exception(20), RuntimeError)
            may_end.set()
            self.assertTrue(other.result(20))
        self.assertIs(self.run_one(self.computed_by), self.first)

    def test_a_run_inside_a_run(self) -> None:
        """A signal handler or a finalizer that runs the session in the middle of a run gets an error."""
        for feeds, other in itertools.product((INPUTS, OTHER), repeat=2):

            def nested(inner: object, feeds=other) -> object:
                with self.assertRaisesRegex(RuntimeError, "in the middle of a call"):
                    self.run_one(self.fail_inside, feeds=feeds)
                return inner

            self.assertIs(self.run_one(nested, feeds=feeds), self.first)
            self.assertIs(self.run_one(self.computed_by, feeds=other), self.first)

    def test_a_run_in_the_middle_of_the_check_of_an_error(self) -> None:
        class RefusedError(RuntimeError):
            def __str__(_) -> str:  # noqa: N805
                try:
                    self.run_one(self.computed_by)  # as a signal handler does
                except RuntimeError as error:
                    errors.append(error)
                return INVALID_SHAPE

        def refuse(inner: object) -> None:
            raise RefusedError

        errors = []
        with self.assertRaises(RefusedError):
            self.run_one(refuse)
        self.assertTrue(errors)
        self.assertIs(self.run_one(self.computed_by), self.first)

    def test_a_session_that_cannot_be_replaced_raises_until_the_caller_changes_it(self) -> None:
        self.order_with(self.fail_inside)
        for compute in (self.fail_inside, self.fail_inside, self.computed_by, self.computed_by):
            with self.assertRaises(ValueError):
                self.run_one(compute)
        self.session.set_providers()
        self.assert_replaced()

    def test_a_replacement_that_fails_is_tried_again(self) -> None:
        calls = itertools.count()

        def fail_once(session: FakeSession) -> None:
            if next(calls) == 0:
                raise RuntimeError("no file")
            session.set_providers()

        self.order_with(fail_once)
        # A parallel run that fails runs again alone, which replaces the inner session first.
        serial = ((self.fail_inside, ValueError), (self.computed_by, RuntimeError))
        for compute, error in [(self.fail_inside, RuntimeError)] if self.most > 1 else serial:
            with self.assertRaises(error):
                self.run_one(compute)
        self.assert_replaced()


class SerialTest(OneThreadTest):
    """A session that two threads use."""

    two_threads = True


class ParallelTest(SerialTest):
    """Runs of a model whose shapes alone decide whether a run fails. A failure of known shapes shows a wrong list."""

    most = 9

    def test_the_number_of_parallel_runs(self) -> None:
        for self.most in (2, 3):
            self.setUp()
            self.assertEqual(self.most_at_once(), self.most)

    def test_runs_with_other_shapes_are_alone_at_first(self) -> None:
        self.assertEqual(self.most_at_once({"x": onnxruntime.OrtValue.ortvalue_from_numpy(INPUTS["x"])}), 1)
        self.run_one(self.computed_by, feeds=OTHER)
        self.assertGreater(self.most_at_once(OTHER), 1)

    def test_a_failure_of_known_shapes(self) -> None:
        """The run fails again alone, the runs beside it run again, and no runs are parallel from then on."""
        begun, failed = threading.Event(), threading.Event()

        def slow(inner: object) -> object:
            begun.set()
            failed.wait(20)
            return inner

        def fail(inner: object) -> None:
            failing.append(inner)
            threading.Timer(0.05, failed.set).start()
            raise MemoryError

        failing = []
        with ThreadPoolExecutor(2) as pool:
            beside = pool.submit(self.run_one, slow)
            self.assertTrue(begun.wait(20))
            self.assertIsInstance(pool.submit(self.run_one, fail).exception(20), MemoryError)
            self.assertNotIn(id(beside.result(20)), map(id, failing))
        self.assertEqual(len({id(inner) for inner in failing}), 2)
        self.assertEqual(self.most_at_once(), 1)
        self.assertEqual(self.most_at_once(OTHER), 1)

    def test_a_run_that_is_alone_waits_for_the_parallel_ones_only(self) -> None:
        """It does not wait until no other thread wants to run."""
        ended = threading.Event()

        def keep_running() -> None:
            while not ended.is_set():
                self.run_one(lambda inner: time.sleep(0.0002))

        with ThreadPoolExecutor(6) as pool:
            busy = [pool.submit(keep_running) for _ in range(6)]
            for number in range(50):
                self.run_one(self.computed_by, feeds={"x": np.zeros(10 + number)})
            self.assertFalse(any(one.done() for one in busy))
            ended.set()

    def test_the_number_of_combinations_is_limited(self) -> None:
        for number in range(3000):
            self.run_one(self.computed_by, feeds={"x": np.zeros(number)})
        for number, expected in ((2999, True), (0, False)):
            begun, may_end = threading.Event(), threading.Event()

            def stay(inner: object, begun=begun, may_end=may_end) -> None:
                begun.set()
                may_end.wait(20)

            with ThreadPoolExecutor(2) as pool:
                pool.submit(self.run_one, stay, feeds={"x": np.zeros(2999)})
                self.assertTrue(begun.wait(20))
                beside = pool.submit(self.run_one, self.computed_by, feeds={"x": np.zeros(number)})
                time.sleep(0.1)
                self.assertIs(beside.done(), expected)
                may_end.set()

    def test_the_model_is_checked_once_and_not_for_a_single_run(self) -> None:
        for self.most, threads in itertools.product((9, 1), (1, 2)):
            asked = []
            self.order = RunOrder(
                weakref.ref(self.session),
                FakeSession.set_providers,
                lambda _, asked=asked: asked.append(1) or (self.most, ""),
            )
            self.run_one(self.computed_by)
            self.assertEqual(asked, [])
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda _: self.run_one(self.computed_by), range(8)))
            self.assertEqual(len(asked), 1)


if __name__ == "__main__":
    unittest.main()
