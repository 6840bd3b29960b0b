# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests graph capture on the built-in CUDA EP: its threads and devices, failed captures, and ``set_providers``.

The tests run on a GPU, or on the software CUDA of ``make test-cuda``. Its settings ``SOFTCUDA_LAZY`` and
``SOFTCUDA_CAPTURE_US`` change the time of the work and the duration of a capture.
"""

import os
import textwrap
import threading
import time
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest import mock

import _above
from helpers.capture import CUDA_DEVICES, ORDINARY, Checked, chain, data, graphs_of, in_threads, needs_cuda, prepare
from helpers.captured_models import transformer_block
from helpers.children import run_code
from helpers.locks import Held, in_run
from helpers.models import model, parsed, reads_linux
from onnx import helper

import onnxruntime.backend
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.capture import graphs, worker
from onnxruntime.backend.locks import GPU
from onnxruntime.backend.provider_names import CPU, CUDA
from onnxruntime.backend.waiting import WAITS_FOR_ITSELF

X = data(0, 3, 4)
CONFIGS = (None, {"gpu_graph_id": 5}, ORDINARY)


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


@needs_cuda
class ThreadTest(unittest.TestCase):
    """The first eight threads have graphs. A worker runs for all others."""

    def test_more_threads(self):
        checked = Checked(chain(10))

        def work(thread: int) -> None:
            for i in range(10):
                for config in (None, {"gpu_graph_id": 3}):
                    checked.run(data(100 * thread + i, 1 + thread % 2, 4), run_config=config)

        in_threads(20, work)
        # Each of the first eight threads has two graphs, the worker has four.
        self.assertEqual(len(graphs_of(checked.rep)), 2 * graphs.MOST_THREADS + 4)

    def test_graphs_of_one_session_share_memory(self):
        """The intermediate values of graphs lie in the same memory, so that replays may not overlap."""
        shape, nodes, last = (64, 512), [], "X"
        for i in range(12):
            nodes.append(helper.make_node(("Relu", "Sigmoid", "Tanh", "Exp")[i % 4], [last], [f"a{i}"]))
            nodes.append(helper.make_node("Softmax", [f"a{i}"], [f"b{i}"], axis=-1))
            last = f"b{i}"
        nodes.append(helper.make_node("Add", [last, "X"], ["Y"]))
        checked = Checked(model(nodes, {"X": shape}, {"Y": shape}))
        in_threads(4, lambda i: [checked.run(data(100 * i + run, *shape)) for run in range(40)])

    @reads_linux
    def test_no_memory_grows(self):
        rep = prepare(transformer_block(joined=True))
        before = 0
        for i in range(1500):
            if i == 300:
                before = resident_pages()
            rep.run([data(i, 1 + i % 3, 4, 16)])
        self.assertLess(resident_pages() - before, 2**20 // os.sysconf("SC_PAGE_SIZE"))

    def test_errors_of_the_worker(self):
        with mock.patch.object(graphs, "MOST_THREADS", 0):
            checked = Checked(chain())
            for config in CONFIGS:
                with self.assertRaisesRegex(onnxruntime.backend.InputError, "X"):
                    checked.rep.run([data(0, 4, 3)], run_config=config)
                checked.run(X, run_config=config)
                checked.run(X, run_config=config, timeout=30)
        with Held(in_run(GPU)), self.assertRaises(TimeoutError):
            checked.rep.run([X], timeout=0.2, run_config=ORDINARY)
        checked.run(X)

    def test_in_a_block_of_device_lock(self):
        """A thread with its own graphs can run. The worker would wait for the block."""
        checked, ran = Checked(chain()), []

        def work(_: int) -> None:
            for config in CONFIGS:
                with checked.rep.device_lock():
                    try:
                        checked.run(X, run_config=config)
                        ran.append(True)
                    except RuntimeError as error:
                        self.assertEqual(str(error), WAITS_FOR_ITSELF)
                        ran.append(False)
                checked.run(X, run_config=config)

        in_threads(graphs.MOST_THREADS + 4, work)
        self.assertEqual((ran.count(True), ran.count(False)), (3 * graphs.MOST_THREADS, 3 * 4))

    def test_the_worker_ends_with_the_session(self):
        with mock.patch.object(graphs, "MOST_THREADS", 0):
            checked = Checked(chain())
            checked.run(X)
        self.assertTrue(GPU.workers)
        gone = weakref.ref(checked.rep.session)
        checked.rep.close()
        self.assertIsNone(gone())
        end = time.monotonic() + 10
        while GPU.workers and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(GPU.workers, set())

    def test_in_the_worker(self):
        """It releases no session, whose device would become its current device. It cannot wait for a worker."""
        self.enterContext(mock.patch.object(graphs, "MOST_THREADS", 0))
        rep, threads = prepare(chain()), []
        session = prepare(chain(), capture=False).session
        weakref.finalize(session._sess, lambda: threads.append(threading.get_ident()))
        sessions = [session]
        del session

        def work() -> str:
            sessions.clear()
            GPU.run_alone(None, GPU.release_ended)
            self.assertEqual(threads, [])
            with self.assertRaises(RuntimeError) as raised:
                rep.run([X])
            return str(raised.exception)

        self.assertEqual(worker.Worker(bool).call(None, work), WAITS_FOR_ITSELF)
        self.assertEqual(threads, [threading.get_ident()])


@needs_cuda
@unittest.skipUnless(CUDA_DEVICES > 1, "requires two CUDA devices, which with_software_cuda.sh has")
class DeviceTest(unittest.TestCase):
    """ORT does not set the device for a session that captures."""

    def setUp(self):
        self.addCleanup(setattr, GPU, "other_devices", GPU.other_devices)

    def test_several_devices(self):
        first = Checked(chain())
        first.run(X)
        other = Checked(chain(), device_id=1)
        for i in range(6):
            for checked in (first, other):
                checked.run(data(i, 1 + i % 2, 4), run_config=CONFIGS[i % 3])
        with other.rep.device_lock(), self.assertRaisesRegex(RuntimeError, "would wait for its own thread"):
            other.rep.run([X])

    def test_a_worker_that_ends_releases_nothing(self):
        """Without the lock, the release would break a capture of another thread."""
        ends = threading.Event()
        self.addCleanup(ends.set)

        class Workers(set):
            def discard(self, _: int) -> None:
                ends.wait(60)

        with mock.patch.object(GPU, "workers", Workers()):
            other = Checked(chain(), device_id=1)
            other.run(X)
            gone = weakref.ref(graphs_of(other.rep)[0])
            del other
            GPU.release_ended()
            self.assertIsNone(gone())

    def test_the_session_that_sets_the_device_is_released_in_its_call(self):
        class Session:
            def __init__(self, *_: object) -> None:
                weakref.finalize(self, lambda: running.append(threading.get_ident() in GPU._running))

        running = []
        with mock.patch.object(graphs, "InferenceSession", Session):
            graphs._set_device(1)
        self.assertEqual(running, [True])

    def test_a_finalizer_that_changes_the_device(self):
        """The run in which it does so can fail. The next one is right."""
        plain, other = prepare(chain(), capture=False), Checked(chain(), device_id=1)
        other.run(X)

        def finalize(*_: object) -> None:
            plain.run([X])
            raise OSError

        with mock.patch.object(graphs.Capture, "_run", finalize), self.assertRaises(OSError):
            other.rep.run([X])
        other.run(X)
        other.run(data(0, 2, 4))


@needs_cuda
class OthersTest(unittest.TestCase):
    """Captures and replays beside other CUDA calls of the process."""

    def test_who_waits_for_a_run(self):
        """A capture and a run without capture, not a replay."""
        checked, plain = Checked(chain()), Checked(chain(), prepare(chain(), capture=False))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(checked.run, X).result()
            for waits, run in (
                (False, partial(plain.run, X)),
                (False, partial(checked.run, X)),
                (False, partial(checked.run, X, logid="general")),
                (True, partial(checked.run, X, run_config=ORDINARY)),
                (True, partial(checked.run, data(0, 2, 4))),
                (True, partial(checked.run, X, run_config={"gpu_graph_id": 5})),
            ):
                with Held(in_run(GPU)):
                    done = pool.submit(run)
                    time.sleep(0.2)
                    self.assertEqual(done.done(), not waits)
                done.result(30)

    def test_a_storm(self):
        """Captures, replays, plain runs, sessions that come and go, and device memory, in several threads."""
        shared, plain = Checked(chain(10)), Checked(chain(10), prepare(chain(10), capture=False))
        end = time.monotonic() + 5

        def work(thread: int) -> None:
            number = 0
            while time.monotonic() < end:
                number += 1
                x = data(1000 * thread + number, 1 + number % 3, 4)
                plain.run(x)
                shared.run(x, run_config=CONFIGS[number % 3])
                if number % 5 == thread:
                    own = Checked(chain(3))
                    own.run(x)
                    with own.rep.device_lock():
                        onnxruntime.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
                    own.rep.close()

        in_threads(5, work)

    def test_comparisons_are_outside_of_the_lock(self):
        idle = []

        def agree(*_: object) -> bool:
            idle.append((GPU._owner, dict(GPU._running), GPU._alone._is_owned()))
            return True

        with mock.patch.object(graphs.comparison, "agree", agree):
            prepare(chain()).run([X])
        self.assertEqual(idle, [(0, {}, False)])


@needs_cuda
class SessionTest(unittest.TestCase):
    def test_values_on_the_cpu(self):
        """From the device, ORT copies an unread input to the CPU while it captures, to memory that it releases."""
        checked = Checked(parsed("(float[3] U, float[2,4] X) => (float[2,4] Y) { Y = Neg (X) }"))
        checked.run(data(0, 3), data(1, 2, 4))
        (graph,) = graphs_of(checked.rep)
        self.assertEqual([value.device_name() for value in graph.inputs], ["cpu", "cuda"])
        nothing = Checked(parsed("(float[2] X) => (float[2] Z) <float[2] K = {5, 6}> { Z = Identity (K) }"))
        for limits in ({}, {"timeout": 30}, {}):
            nothing.run(data(0, 2), **limits)

    def test_shrinking_is_refused_wherever_it_is_named(self):
        """It releases memory of a graph."""
        key = "memory.enable_memory_arena_shrinkage"
        checked = Checked(chain())
        rep = checked.rep
        checked.run(X)
        for setting in ({key: "gpu:0"}, {key: "cpu:0;gpu:0"}, {key: "gpu:0", **ORDINARY}):
            for call in (
                partial(prepare, chain(), run_config=setting),
                partial(rep.run, [X], run_config=setting),
                partial(rep.run_options, setting),
                partial(rep.with_run_config, setting),
                partial(onnxruntime.backend.prepare, rep.session, run_config=setting),
            ):
                self.assertRaises(NotPermittedError, call)
        checked.run(X, run_config={key: "cpu:0"})
        prepare(chain(), capture=False).run([X], run_config={key: "gpu:0"})

    def test_set_providers(self):
        """Afterwards, the session does not capture: the backend has not checked it."""
        capturing, plain = (CUDA, {"enable_cuda_graph": "1"}), (CUDA, {})
        for capture, providers in ((True, capturing), (False, capturing), (True, plain), (True, CPU)):
            checked = Checked(chain(), capture=capture)
            other = checked.rep.with_run_config(ORDINARY)
            for i in range(6):
                if i == 3:
                    with GPU.alone():
                        checked.rep.session.set_providers([providers])
                checked.run(data(i, 3, 4), rep=other)
                if i < 3 or providers is not capturing:
                    checked.run(data(i, 3, 4))
                else:
                    with self.assertRaisesRegex(RuntimeError, "Prepare the model itself"):
                        checked.rep.run([X])

    def test_graphs_are_released_before_the_inner_session(self):
        for ends in (lambda rep: rep.close(), lambda rep: rep.session.set_providers([(CUDA, {})])):
            rep, ended = prepare(chain()), []
            rep.run([X])
            (graph,) = graphs_of(rep)
            weakref.finalize(graph, lambda ended=ended: ended.append(("graph", GPU._alone._is_owned())))
            weakref.finalize(rep.session._sess, lambda ended=ended: ended.append(("session", GPU._alone._is_owned())))
            del graph
            with GPU.alone():
                ends(rep)
                self.assertEqual(ended, [])
                if rep._session is not None:
                    rep.run([X])
            self.assertEqual(ended, [("graph", True), ("session", True)])

    def test_a_capture_that_does_not_end_is_reported_by_every_session(self):
        """ORT copies an output that is a constant, which CUDA does not permit during a capture."""
        program = """
            import os
            from unittest import mock
            import numpy as np
            from helpers.capture import chain, prepare
            from helpers.models import parsed
            from onnxruntime.backend.capture import eligibility
            x, small = [np.ones((2, 4), np.float32)], [np.ones(3, np.float32)]
            reps = [prepare(chain()), prepare(chain(), capture=False)]
            for rep in reps:
                rep.run(x)
            text = "(float[3] X) => (float[3] Y, float[3] V) <float[3] W = {1, 1, 1}> { V = Neg (W) Y = Add (X, V) }"
            with mock.patch.object(eligibility, "_constant_output", return_value=""):
                rep = prepare(parsed(text))
            calls = [lambda rep=rep: rep.run(x) for rep in reps]
            calls += [lambda: prepare(chain(), capture=False)]
            for call in (lambda: rep.run(small), lambda: rep.run(small), *calls):
                try:
                    call()
                    print("right", flush=True)
                except RuntimeError as error:
                    print(type(error).__name__, "Restart the process" in str(error), flush=True)
            os._exit(0)  # ORT itself fails as it ends
        """
        done = run_code(textwrap.dedent(program))
        if "right" in done.stdout:  # a GPU may permit the copy
            self.assertEqual(done.stdout.split(), ["right"] * 5, done.stderr)
        else:
            self.assertEqual(done.stdout.splitlines(), ["RuntimeError True"] * 5, done.stderr)


if __name__ == "__main__":
    unittest.main()
