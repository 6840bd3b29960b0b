# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests which thread replays a graph on the CUDA EP, and on which device.

The tests run on a GPU, or on the software CUDA of ``make test-cuda``. Its settings ``SOFTCUDA_LAZY`` and
``SOFTCUDA_CAPTURE_US`` change the time of the work and the duration of a capture.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import threading
import time
import unittest
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

from helpers.capture import Expected, capture_of, captured_ids, chain, in_threads
from helpers.capture_cuda import CUDA, DEVICES, ORDINARY, OnCuda, needs_cuda
from helpers.locks import Interrupter, check_free

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend import locks
from onnxruntime.backend.capture import threads as capture_threads


@needs_cuda
class ThreadTest(OnCuda):
    """Graphs belong to threads."""

    def test_runs_go_straight(self):
        rep, threads = self.prepare(chain()), set()
        with captured_ids(rep, threads):
            for _ in range(2):
                rep.run([self.data(0, 3, 4)])
        self.assertEqual(threads, {threading.get_ident()})

    def test_more_threads_than_have_graphs_of_their_own(self):
        rep, expected = self.prepare(chain(10)), Expected(chain(10))

        def work(k: int) -> None:
            for i in range(10):
                x = self.data(100 * k + i, 1 + k % 2, 4)
                self.check(rep.run([x]), expected(x))
                config = {"gpu_graph_id": 3 + k % 2}
                self.check(rep.run([x], run_config=config), expected(x))

        in_threads(20, work)
        # Each of the first eight threads has two graphs, the others together have four.
        self.assertEqual(len(capture_of(rep.session)._begun), 2 * capture_threads.MOST_THREADS + 4)

    def test_threads_that_end_take_nothing_along(self):
        rep, expected = self.prepare(chain()), Expected(chain())

        def work(_: int) -> None:
            x = self.data(0, 3, 4)
            for config in (None, {"gpu_graph_id": 5}, ORDINARY):
                self.check(rep.run([x], run_config=config), expected(x))

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the bound on graphs is not reached, however many threads come
            for _ in range(40):
                in_threads(1, work)
        self.assertLessEqual(len(capture_of(rep.session)._begun), 2 * capture_threads.MOST_THREADS + 2)

    def test_an_id_has_the_same_shapes_in_all_threads(self):
        rep = self.prepare(chain())
        rep.run([self.data(0, 3, 4)], run_config={"gpu_graph_id": 5})
        refused = self.assertRaisesRegex(RuntimeError, r"gpu_graph_id=5 was captured with .*\(3, 4\).*\(2, 4\)")
        with ThreadPoolExecutor(1) as pool, refused:
            pool.submit(rep.run, [self.data(0, 2, 4)], run_config={"gpu_graph_id": 5}).result()

    def test_errors_of_the_common_thread(self):
        with mock.patch.object(capture_threads, "MOST_THREADS", 0):
            rep = self.prepare(chain())
            with self.assertRaisesRegex(onnxruntime.backend.InputError, "X"):
                rep.run([self.data(0, 4, 3)])
            expected, x = Expected(chain()), self.data(0, 3, 4)
            for config in (None, None, ORDINARY):
                self.check(rep.run([x], run_config=config), expected(x))

    def test_the_session_goes_with_its_last_user(self):
        serve, serving = capture_threads._serve, []

        def watched(*arguments) -> None:
            number = len(serving)
            serving.append(True)
            serve(*arguments)
            serving[number] = False

        rep = self.prepare(chain())
        run = partial(rep.run, [self.data(0, 3, 4)])
        with mock.patch.object(capture_threads, "_serve", watched):
            in_threads(capture_threads.MOST_THREADS + 2, lambda _, run=run: run())
        self.assertIn(True, serving)
        gone = weakref.ref(rep.session)
        del run
        del rep
        gc.collect()
        self.assertIsNone(gone())
        # The worker ends, too.
        for _ in range(1000):
            if serving == [False] * len(serving):
                return
            time.sleep(0.01)
        self.fail("the worker goes on")

    def test_the_common_thread_releases_no_session(self):
        # Otherwise, the device of the released session becomes CUDA's current device of the worker.
        with mock.patch.object(capture_threads, "MOST_THREADS", 0):
            rep = self.prepare(chain())
            rep.run([self.data(0, 3, 4)])
        worker, lock, threads = rep._current_plan().route._threads._worker, locks.CUDA, []
        session = onnxruntime.backend.prepare(chain(), provider_options={}).session
        lock.own(session)
        weakref.finalize(session._sess, lambda: threads.append(threading.get_ident()))

        def end(_: dict) -> int:
            sessions.clear()
            lock.run_alone(None, lock.release_ended)
            self.assertEqual(threads, [])
            return threading.get_ident()

        sessions = [session]
        del session
        self.assertNotEqual(worker.call(None, end), threading.get_ident())
        self.assertEqual(threads, [threading.get_ident()])

    def test_a_finalizer_in_the_common_thread(self):
        """It gets an error. Otherwise, it would wait for itself, or change CUDA's current device."""
        plain, errors, execute = self.ordinary(chain()), [], capture_threads._Work.execute
        with mock.patch.object(capture_threads, "MOST_THREADS", 0):
            rep, expected, x = self.prepare(chain()), Expected(chain()), self.data(0, 3, 4)

        def finalize() -> None:
            for run in (plain.run, rep.run, plain.device_lock().__enter__):
                try:
                    run(*[[x]][: run.__name__ == "run"])
                except RuntimeError as error:
                    errors.append(str(error))

        def after_finalizer(*arguments: object) -> None:
            finalize()
            execute(*arguments)

        with mock.patch.object(capture_threads._Work, "execute", after_finalizer):
            for _ in range(2):
                self.check(rep.run([x]), expected(x))
        self.assertEqual(set(errors), {locks._IN_A_CALL})
        self.assertGreaterEqual(len(errors), 6)

    def test_in_a_block_of_device_lock(self):
        """A thread with its own graphs can run. The worker would wait for the block."""
        rep, expected = self.prepare(chain()), Expected(chain())
        x = self.data(0, 3, 4)
        ran = []

        def work(_: int) -> None:
            for config in (None, ORDINARY, {"gpu_graph_id": 5}):
                try:
                    with locks.CUDA.alone():
                        outputs = rep.run([x], run_config=config)
                    ran.append(True)
                except RuntimeError as error:
                    self.assertIn("in a block of device_lock", str(error))
                    ran.append(False)
                    outputs = rep.run([x], run_config=config)
                self.check(outputs, expected(x))

        in_threads(capture_threads.MOST_THREADS + 4, work)
        self.assertEqual(ran.count(True), 3 * capture_threads.MOST_THREADS)
        self.assertEqual(ran.count(False), 3 * 4)


class WorkerTest(unittest.TestCase):
    """The worker, without a session."""

    def setUp(self):
        self.lock = locks.SessionLock(side_by_side=True)
        self.worker = capture_threads.Worker(self.lock, 0)

    def call(self, function: Callable, *arguments: object) -> object:
        """Call a function in the worker, without the graphs."""
        return self.worker.call(None, lambda _: function(*arguments))

    def alone(self, function: Callable) -> object:
        """Call a function in the worker, as a call that is alone."""
        return self.call(self.lock.run_alone, None, function)

    def signal_after(self, seconds: float, number: int, handler: Callable) -> threading.Timer:
        """Send a signal to this thread after a time. Return the thread that sends it."""
        previous = signal.signal(number, handler)
        self.addCleanup(signal.signal, number, previous)
        timer = threading.Timer(seconds, signal.pthread_kill, (threading.get_ident(), number))
        timer.start()
        self.addCleanup(timer.join)
        return timer

    def test_results_and_errors(self):
        self.assertEqual(self.call(divmod, 7, 2), (3, 1))
        with self.assertRaises(ZeroDivisionError):
            self.call(divmod, 7, 0)
        self.assertEqual(self.call(divmod, 7, 2), (3, 1))

    @unittest.skipUnless(hasattr(signal, "pthread_kill"), "requires signal.pthread_kill")
    def test_interrupts_do_not_leave_the_worker_without_the_lock(self):
        ended = []

        def work() -> None:
            for timer in timers:
                timer.join()
            time.sleep(0.3)
            ended.append(1)

        timers = [self.signal_after(moment, signal.SIGINT, signal.default_int_handler) for moment in (0.1, 0.2)]
        with self.assertRaises(KeyboardInterrupt):
            self.alone(work)
        self.lock.run_alone(None, lambda: self.assertEqual(ended, [1]))

    @unittest.skipUnless(hasattr(signal, "pthread_kill"), "requires signal.pthread_kill")
    def test_a_signal_handler_while_the_worker_works(self):
        """It waits for the worker, which does not wait for the interrupted thread."""
        handled, working = [], []

        def handle(*_: object) -> None:
            with self.lock.alone():
                handled.append([*working])

        def work() -> None:
            working.append(1)
            timer.join()
            time.sleep(0.3)
            working.clear()

        timer = self.signal_after(0.1, signal.SIGUSR1, handle)
        self.alone(work)
        self.assertEqual(handled, [[]])

    def test_interrupts_at_each_step(self):
        """However many follow each other, the lock is taken until a work that has begun has ended."""
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool is in use")
        self.call(int)
        for again in (False, True):
            for moment in range(400):
                working = []

                def work(working=working) -> None:
                    working.append(1)
                    time.sleep(0.01)
                    working.clear()

                with Interrupter(moment, again) as interrupter:
                    self.alone(work)
                for call in (self.lock.run, self.lock.run_alone):
                    call(None, lambda working=working, moment=moment: self.assertEqual(working, [], moment))
                if not interrupter.interrupted:
                    break
            self.assertFalse(interrupter.interrupted)
            self.assertGreater(moment, 10)

    def end(self, thread: int) -> None:
        """Send an exception to a thread, which ends it at its next step of Python."""
        if sys.gettrace() is not None:
            self.skipTest("with a tracer such as a coverage tool, Python 3.11 waits for the thread indefinitely")
        sent = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
        self.assertEqual(sent, 1)

    def test_a_worker_that_has_ended_is_replaced(self):
        for _ in range(5):
            thread = self.call(threading.get_ident)
            self.end(thread)
            self.assertEqual(self.call(divmod, 7, 2), (3, 1))

    def test_a_worker_that_ends_in_a_work(self):
        def work() -> None:
            self.end(threading.get_ident())
            for _ in range(1000):
                time.sleep(0.001)

        for _ in range(3):
            with self.assertRaises((SystemExit, RuntimeError)):
                self.alone(work)
            self.assertEqual(self.alone(lambda: 7), 7)

    def test_a_time_limit_while_another_work_goes_on(self):
        options, go_on = onnxruntime.RunOptions(), threading.Event()
        other = threading.Thread(target=self.call, args=(go_on.wait, 30))
        other.start()
        threading.Timer(0.1, setattr, (options, "terminate", True)).start()
        with self.assertRaisesRegex(RuntimeError, "terminated while it waited"):
            self.worker.call(options, lambda _: self.fail("executed"))
        go_on.set()
        other.join()
        self.call(int)

    def test_an_interrupt_at_each_step_of_the_first_run_of_a_thread(self):
        if sys.gettrace() is not None:
            self.skipTest("a tracer such as a coverage tool is in use")
        for moment in range(100):
            threads = capture_threads.Threads(self.lock, 0, common=False, worker=False)
            with Interrupter(moment) as interrupter:
                threads.graphs_of_this()
            check_free(lambda function, threads=threads: (threads.graphs_of_this(), function()))
            if not interrupter.interrupted:
                break
        self.assertFalse(interrupter.interrupted)

    def test_an_interrupt_while_it_starts(self):
        start, serve, serving = capture_threads.start_new_thread, capture_threads._serve, []

        def interrupted(function: Callable, arguments: tuple) -> None:
            start(function, arguments)
            raise KeyboardInterrupt

        def watched(*arguments) -> None:
            serving.append(threading.get_ident())
            serve(*arguments)
            serving.remove(threading.get_ident())

        with mock.patch.object(capture_threads, "_serve", watched):
            for _ in range(3):
                with (
                    mock.patch.object(capture_threads, "start_new_thread", interrupted),
                    self.assertRaises(KeyboardInterrupt),
                ):
                    self.worker._serving.locked() or self.call(int)
                    raise KeyboardInterrupt
            threads = {self.call(threading.get_ident) for _ in range(20)}
        self.assertEqual([*threads], serving)


@needs_cuda
@unittest.skipUnless(DEVICES > 1, "requires two CUDA devices, which with_software_cuda.sh has")
class OtherDeviceTest(OnCuda):
    """A thread begins on device 0, and ORT does not set another device for a session that captures."""

    def setUp(self):
        self.addCleanup(setattr, locks.CUDA, "other_devices", locks.CUDA.other_devices)

    def test_the_thread_is_put_on_the_device(self):
        opened, here = [], threading.get_ident()

        def watched(*arguments, **keywords) -> InferenceSession:
            opened.append((threading.get_ident() != here, keywords["providers"]))
            return InferenceSession(*arguments, **keywords)

        rep = self.prepare(chain(), 1)
        with mock.patch.object(capture_threads, "InferenceSession", mock.Mock(side_effect=watched)):
            rep.run([self.data(0, 3, 4)])
        self.assertEqual(opened, [(True, [(CUDA, {"device_id": 1})])])

    def test_in_a_block_of_device_lock(self):
        rep, x = self.prepare(chain(), 1), self.data(0, 3, 4)
        with locks.CUDA.alone(), self.assertRaisesRegex(RuntimeError, "in a block of device_lock"):
            rep.run([x])
        self.check(rep.run([x]), Expected(chain())(x))


if __name__ == "__main__":
    unittest.main()
