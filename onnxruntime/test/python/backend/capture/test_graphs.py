# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests graph capture on the EP of this environment: CUDA (or ``with_software_cuda.sh``), or the plugin for WebGPU."""

import time
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import _above
import numpy as np
from helpers import capture, captured_models
from helpers.capture import (
    EP,
    ORDINARY,
    Checked,
    agree,
    chain,
    data,
    graphs_of,
    in_threads,
    on_device,
    open_session,
    prepare,
    shapes_on_the_cpu,
    two_inputs,
)
from helpers.locks import Held, in_alone
from helpers.models import parsed
from onnx import numpy_helper

import onnxruntime.backend
from onnxruntime import InferenceSession, OrtValue
from onnxruntime.backend import Cancellation, InputError, NotPermittedError, RunCancelledError
from onnxruntime.backend.capture import graphs
from onnxruntime.backend.locks import GPU
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES
from onnxruntime.backend.runs.settings import RunSettings

setUpModule = capture.set_up
X = data(0, 3, 4)


class ValueTest(unittest.TestCase):
    """Each replay returns the outputs of its own inputs."""

    def test_every_run_has_its_own_inputs(self):
        checked = Checked(chain())
        for i in range(200):
            checked.run(data(i, (1, 3, 2)[i % 3], 4))
        self.assertEqual(len(graphs_of(checked.rep)), 3)

    def test_arrays_take_the_fast_path(self):
        checked = Checked(two_inputs())
        for _ in range(2):
            checked.run(data(0, 5), data(1, 5))
        with mock.patch.object(graphs.Capture, "run", side_effect=AssertionError("not the fast path")):
            for i in range(8):
                a, b = data(2 * i, 5), data(2 * i + 1, 5)
                got = checked.rep.run(({"A": a, "B": b}, {"B": b, "A": a}, [a, b], (a, b))[i % 4])
                agree(got, [a * b, a - b])

    def test_outputs_of_shapes_and_constants(self):
        constant = "<float[2] k = {-3, -3}> { S = Shape (X) Y = Neg (X) C = Abs (k) }"
        checked = Checked(parsed(f"(float[N,4] X) => (int64[2] S, float[N,4] Y, float[2] C) {constant}"))
        for i in range(6):
            for output in checked.run(data(i, 1 + i % 2, 4)):  # which are the caller's
                output[:] = 77

    def test_outputs_are_the_callers(self):
        rep = prepare(chain())
        outputs = [rep.run([data(i, 3, 4)])[0] for i in range(20)]
        copies = [output.copy() for output in outputs]
        rep.run([data(50, 3, 4)])
        for i, output in enumerate(outputs):
            np.testing.assert_array_equal(output, copies[i])
            self.assertTrue(output.flags.writeable)
            self.assertFalse(any(np.shares_memory(output, other) for other in outputs[:i]))

    def test_indices_out_of_range_of_each_other(self):
        """A capture does not mix the integers of a pair."""
        checked = Checked(
            parsed("(int64[N,2] P) => (float[N] Y) { G = GatherND (W, P) Y = Neg (G) }", W=data(1, 2, 500))
        )
        for column in range(300, 310):
            checked.run(np.array([[0, column], [1, 2 * column - 300]]))

    def test_scalars_and_no_elements(self):
        rep = prepare(parsed("(float X) => (float Y) { Y = Neg (X) }"))
        for i in range(3):
            agree(rep.run([np.array(i, np.float32)]), [np.array(-i, np.float32)])
        rep = prepare(chain())
        for _ in range(3):
            self.assertEqual(rep.run([np.zeros((0, 4), np.float32)])[0].shape, (0, 4))

    def test_what_is_uploaded_is_what_was_given(self):
        checked = Checked(chain())
        for i in range(3):
            x = data(i, 4, 4)
            for form in (x, np.asfortranarray(x), x.astype(">f4"), data(i, 8, 4)[::-2], data(i, 4, 5)[:, :4]):
                checked.run(form)
            agree(checked.rep.run([x.tolist()]), checked.run(x))
            # Of the same number of bytes: an upload checks nothing else.
            for wrong in (x.astype(np.int32), OrtValue.ortvalue_from_numpy(x.astype(np.int32)), x.astype(np.float64)):
                with self.assertRaisesRegex(InputError, "X"):
                    checked.rep.run([wrong])
            with self.assertRaisesRegex(InputError, "X"):
                checked.rep.run([data(i, 4, 3)])
            checked.run(data(i, 4, 4).reshape(-1, 4))

    def test_values_in_device_memory(self):
        rep = prepare(two_inputs())
        a, b = data(0, 5), data(1, 5)
        for _ in range(3):
            there = [on_device(rep.session, array) for array in (a, b)]
            on_cpu = [OrtValue.ortvalue_from_numpy(array) for array in (a, b)]
            for inputs in (there, [a, there[1]], [there[0], on_cpu[1]], [on_cpu[0], b]):
                agree(rep.run(inputs), [a * b, a - b])
            agree(rep.run(there, run_config=ORDINARY), [a * b, a - b])
            with GPU.alone():
                del there, inputs

    def test_inputs_that_are_missing_unknown_or_initializers(self):
        rep, a, b = prepare(two_inputs()), data(0, 3), data(1, 3)
        for _ in range(3):
            with self.assertWarns(RuntimeWarning):  # a list, of which the stock backend ignores the rest
                agree(rep.run([a, b, a]), [a * b, a - b])
            agree(rep.run([a, b]), [a * b, a - b])
            with self.assertRaisesRegex(InputError, "B"):
                rep.run([a])
        for feeds, name in (({"A": a}, "B"), ({"A": a, "B": a, "C": a}, "C")):
            with self.assertRaisesRegex(InputError, name):
                rep.run(feeds)
        made = two_inputs()
        made.graph.initializer.append(numpy_helper.from_array(b, "B"))
        rep = prepare(made)
        for _ in range(2):
            agree(rep.run({"A": a}), [a * b, a - b])
            with self.assertRaisesRegex(RuntimeError, "takes the model's inputs only"):
                rep.run({"A": a, "B": a})
        agree(rep.run({"A": a, "B": a}, run_config=ORDINARY), [a * a, a - a])

    def test_an_input_that_no_node_reads(self):
        checked = Checked(parsed("(float[3] U, float[N,4] X) => (float[N,4] Y) { Y = Neg (X) }"))
        for i in range(6):
            checked.run(data(9 + i, 3), data(i, 1 + i % 2, 4))
        with self.assertRaisesRegex(InputError, "U"):
            checked.rep.run([data(0, 2), X])


class BlockTest(unittest.TestCase):
    def test_real_blocks_are_captured(self):
        """With ORT's fusions, and on WebGPU with the table of operators."""
        for made, *shapes in (
            (captured_models.convolutional_net(), (1, 3, 8, 8), (3, 3, 8, 8)),
            (captured_models.transformer_block(joined=False), (1, 3, 16), (2, 4, 16), (1, 5, 16)),
            (captured_models.transformer_block(joined=True), (1, 3, 16), (2, 4, 16)),
        ):
            checked = Checked(made)
            for i in range(20):
                x = data(i, *shapes[i % len(shapes)])
                given = x if i % 3 else on_device(checked.rep.session, x)
                agree(checked.rep.run([given]), checked.run(x, run_config=ORDINARY))
            self.assertEqual(len(graphs_of(checked.rep)), len(shapes))


class FirstRunTest(unittest.TestCase):
    """A graph is compared before it returns outputs, and a capture that ends early leaves nothing wrong."""

    def test_a_replay_that_differs(self):
        for made, stale in (
            (two_inputs(), ["Y", "Z"]),
            (parsed("(bool[N] A, bool[N] B) => (bool[N] Y) { Y = And (A, B) }"), ["Y"]),
        ):
            rep, first, copy = prepare(made), [], graphs.Graph.replay

            def replay(*arguments, first=first, copy=copy) -> list:
                first.append(copy(*arguments))
                return first[0]  # of the capture

            inputs = [np.ones(5, np.float32), data(1, 5)] if len(stale) > 1 else [np.ones(5, bool)] * 2
            with mock.patch.object(graphs.Graph, "replay", replay):
                for _ in range(2):
                    with self.assertRaisesRegex(RuntimeError, f"wrong values for output '{stale[0]}'.*gpu_graph_id"):
                        rep.run(inputs)
            self.assertEqual(len(graphs_of(rep)), 1)
            self.assertEqual(len(rep.run(inputs, run_config=ORDINARY)), len(stale))

    def test_interrupted_captures_are_made_again(self):
        checked = Checked(chain())
        for config in (None, {"gpu_graph_id": 5}):
            for error in (KeyboardInterrupt, OSError):
                with mock.patch.object(graphs.Graph, "replay", side_effect=error), self.assertRaises(error):
                    checked.rep.run([X], run_config=config)
            for _ in range(3):
                checked.run(X, run_config=config)
        self.assertEqual(len(graphs_of(checked.rep)), 6)  # a graph that was begun is never replayed

    def test_the_number_of_graphs_is_bounded(self):
        checked = Checked(chain())
        with (
            mock.patch.object(graphs, "MOST_GRAPHS", 3),
            warnings.catch_warnings(record=True, action="always") as caught,
        ):
            with mock.patch.object(graphs.Graph, "replay", side_effect=OSError), self.assertRaises(OSError):
                checked.rep.run([X])
            for i in range(24):
                checked.run(data(i, 1 + i % 6, 4), run_config={"gpu_graph_id": 40} if i % 6 == 5 else None)
        self.assertEqual([warning.category for warning in caught], [RuntimeWarning])
        self.assertIn("3 graphs", str(caught[0].message))

    def test_models_that_are_refused(self):
        noise = "R = RandomNormalLike (X) Y = Mul (X, R)"
        added = "(float[3] X) => (float[3] Y, float[3] W) <float[3] W = {1, 1, 1}> { Y = Add (X, W) }"
        folded = "(float[3] X) => (float[3] Y, float[3] V) <float[3] W = {1, 1, 1}> { V = Neg (W) Y = Add (X, V) }"
        shaped = "(float[2,4] X, int64[2] S) => (float[M,N] Y) { T = Reshape (X, S) Y = Neg (T) }"
        for text, problem in (
            # On WebGPU, ORT refuses the node, which is on the CPU EP.
            (
                f"(float[3] X) => (float[3] Y) {{ {noise} }}",
                "RandomNormalLike draws random|ORT captures a model only if",
            ),
            (shaped, "input 'S' is read on the CPU"),
            ("(float[2] X) => (float[2] X, float[2] Y) { Y = Neg (X) }", "'X' is an input, or is listed twice"),
            ("(float[2] U, float[2] X) => (float[2] U, float[2] Y) { Y = Neg (X) }", "'U' is an input"),
            ("(float[2] X) => (float[2] Y, float[2] Y) { Y = Neg (X) }", "'Y' is an input, or is listed twice"),
            (added, "output 'W' is a constant that nodes read"),
            (folded, "output 'V' is a constant that nodes read"),
            ("(float[2,2] X) => (float Y) { Y = Det (X) }", "ORT captures a model only if"),
        ):
            with self.subTest(problem), self.assertRaisesRegex(NotPermittedError, problem) as raised:
                prepare(parsed(text))
            self.assertEqual((raised.exception.provider, raised.exception.key), (EP, CAPTURE_SWITCHES[EP]))
            self.assertRegex(str(raised.exception), "prepare the model without graph capture")

    def test_the_sizes_of_free_dimensions(self):
        """The error proposes fixed sizes, and creates no further session."""
        made, create = shapes_on_the_cpu(), InferenceSession._create_inference_session
        with (
            mock.patch.object(
                InferenceSession, "_create_inference_session", autospec=True, side_effect=create
            ) as created,
            self.assertRaisesRegex(NotPermittedError, "free_dimension_overrides.*ORT error"),
        ):
            prepare(made)
        self.assertEqual(created.call_count, 1)
        for size in (1, 3):
            checked = Checked(made, free_dimension_overrides={"batch": size})
            for i in range(3):
                checked.run(data(i, size, 4))

    def test_nothing_is_written(self):
        with mock.patch("tempfile.tempdir", "/proc/nowhere"):
            Checked(chain()).run(X)


class IdTest(unittest.TestCase):
    def test_graph_ids(self):
        checked = Checked(chain())
        for i in range(30):
            graph_id = (0, 1, 7, 1023, None)[i % 5]
            config = {} if graph_id is None else {"gpu_graph_id": graph_id}
            checked.run(data(i, 2 if i == 7 else 3, 4), run_config=config)
        self.assertEqual(len(graphs_of(checked.rep)), 6)
        with mock.patch.object(graphs.Graph, "replay", side_effect=AssertionError("a replay")):
            checked.run(X, run_config=ORDINARY)

    def test_prepared_ids(self):
        checked = Checked(chain(), run_config={"gpu_graph_id": 9})
        others = [onnxruntime.backend.prepare(checked.rep.session), checked.rep.with_run_config(ORDINARY)]
        for i in range(6):
            checked.run(data(i, 3, 4))
            for other in others:
                checked.run(data(i, 3, 4), rep=other)
        self.assertEqual(len(graphs_of(checked.rep)), 2)
        self.assertEqual(checked.rep.run_config, {"gpu_graph_id": "9"})

    def test_a_binding_of_the_callers_own(self):
        """Its id is not that of a run, whatever their numbers are."""
        checked = Checked(chain(shape=(3, 4)))
        rep = checked.rep
        source, target = on_device(rep.session, X), on_device(rep.session, X)
        binding, options = rep.session.io_binding(), rep.run_options({"gpu_graph_id": 5})
        binding.bind_ortvalue_input("X", source)
        binding.bind_ortvalue_output("Y", target)
        for i in range(6):
            x = data(i, 3, 4)
            with rep.device_lock():
                source.update_inplace(x)
                rep.session.run_with_iobinding(binding, options)
                (own,) = binding.copy_outputs_to_cpu()
            agree([own], checked.run(x, run_config={"gpu_graph_id": 5}))
        with rep.device_lock():
            del source, target, binding

    def test_a_run_has_its_settings(self):
        rep, seen = prepare(chain()), []
        rep.run([X])
        (graph,) = graphs_of(rep)
        with mock.patch.object(graph, "_run", lambda _, options: seen.append(options.logid)):
            for settings in ({"logid": "a"}, {"logid": "b"}, {}):
                rep.run([X], **settings)
        self.assertEqual(seen, ["a", "b", ""])
        call = RunSettings({}, {})
        self.assertIs(graph.options(call), graph.options(call))

    def test_a_session_of_the_caller(self):
        session = open_session(chain())
        checked = Checked(chain(), onnxruntime.backend.prepare(session))
        for i in range(4):
            with self.assertRaisesRegex(RuntimeError, "Prepare the model itself.*'gpu_graph_id': -1"):
                checked.rep.run([X])
            checked.run(data(i, 1 + i % 2, 4), run_config=ORDINARY)


class LimitTest(unittest.TestCase):
    """A limit ends the wait for other sessions. A replay cannot be ended."""

    def test_limited_runs(self):
        checked, cancellation = Checked(chain()), Cancellation()
        for i in range(4):
            for limits in ({"timeout": 30}, {"cancellation": cancellation}, {"timeout": 30, "run_config": ORDINARY}):
                checked.run(data(i, 3, 4), **limits)
        self.assertEqual(len(graphs_of(checked.rep)), 1)
        cancellation.cancel()
        for config in (None, ORDINARY):
            with self.assertRaises(RunCancelledError):
                checked.rep.run([X], cancellation=cancellation, run_config=config)
        checked.run(X)

    def test_the_wait_for_other_sessions(self):
        rep, plain = prepare(chain()), prepare(chain(), capture=False)
        rep.run([X])
        with Held(in_alone(GPU)):
            for run, config in ((rep.run, None), (rep.run, ORDINARY), (plain.run, None)):
                with self.assertRaises(TimeoutError):
                    run([X], timeout=0.1, run_config=config)
            with self.assertRaises(TimeoutError):
                rep.run([data(0, 2, 4)], timeout=0.1)  # would capture
        self.assertEqual(len(graphs_of(rep)), 1)

    def test_a_replay_that_takes_longer(self):
        checked = Checked(chain())
        checked.run(X)
        (graph,) = graphs_of(checked.rep)
        run, ended = graph._run, []

        def slow(*arguments) -> None:
            time.sleep(0.3)
            run(*arguments)
            ended.append(True)

        graph._run = slow
        with self.assertRaises(TimeoutError):
            checked.rep.run([X], timeout=0.05)
        graph._run = run
        self.assertEqual(ended, [True])
        checked.run(X)


class ThreadTest(unittest.TestCase):
    def test_eight_threads(self):
        checked = Checked(chain(20))

        def work(thread: int) -> None:
            for i in range(25):
                checked.run(data(100 * thread + i, 1 + thread % 2, 4))

        in_threads(8, work)
        # On CUDA, each thread has one graph. On WebGPU, all threads share graphs, and some can begin at the same time.
        self.assertLessEqual(len(graphs_of(checked.rep)), 8)

    def test_in_the_middle_of_a_replay(self):
        """A signal handler or a finalizer cannot replay in the same session. Runs of other sessions go on."""
        checked, plain = Checked(chain()), Checked(chain(), prepare(chain(), capture=False))
        checked.run(X)
        (graph,) = graphs_of(checked.rep)
        run, results = graph._run, []

        def middle(*arguments) -> None:
            graph._run = run
            for other in (plain, checked):
                try:
                    other.run(data(1, 3, 4))
                    results.append("outputs")
                except RuntimeError as error:
                    self.assertIn("would wait for its own thread", str(error))
                    results.append("error")
            run(*arguments)

        for settings in ({}, {"logid": "general"}):
            graph._run = middle
            checked.run(X, **settings)
        self.assertEqual(results, ["outputs", "error"] * 2)

    def test_a_replay_waits_for_that_of_another_thread(self):
        checked = Checked(chain())
        with ThreadPoolExecutor(1) as pool:
            pool.submit(checked.run, X).result()
            for settings in ({}, {"logid": "general"}):
                with checked.rep._current_plan().route._turn:
                    replay = pool.submit(checked.run, X, **settings)
                    time.sleep(0.2)
                    self.assertFalse(replay.done())
                replay.result(30)


if __name__ == "__main__":
    unittest.main()
