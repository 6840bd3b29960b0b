# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture on a stand-in for the CUDA EP, and what of it needs no device.

The stand-in does what the CUDA EP of ORT 1.31.1 does with ``enable_cuda_graph``, right and wrong; :class:`StandInTest`
asserts each of these.
"""

from __future__ import annotations

import gc
import threading
import time
import unittest
import weakref
from types import SimpleNamespace
from unittest import mock

import numpy as np
from backend_test_capture import (
    CaptureBehaviour,
    Expected,
    chain,
    flattened_integers,
    flattened_sign,
    two_inputs,
)
from backend_test_models import model
from onnx import ModelProto, TensorProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime import InferenceSession
from onnxruntime.backend import graph_capture, model_inputs, tensor_values, webgpu_lock

_TYPES = {np.dtype("f4"): "tensor(float)", np.dtype("i8"): "tensor(int64)", np.dtype("i4"): "tensor(int32)"}


class StandInValue:
    """An OrtValue in the memory of a device that is no more than an array."""

    def __init__(self, array: np.ndarray, device: str) -> None:
        self.array = array
        self._device = device

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type, device_type, device_id) -> StandInValue:
        assert (device_type, device_id) == ("cuda", 2), "the session's device is cuda:2"
        return cls(np.full(shape, 111, element_type), device_type)

    def update_inplace(self, data) -> None:
        data = data.array if isinstance(data, StandInValue) else data
        if data.nbytes != self.array.nbytes:
            raise RuntimeError("size mismatch")
        # In the order in which they lie in memory, as ORT 1.24 does.
        self.array.reshape(-1).view(np.uint8)[:] = data.ravel(order="K").view(np.uint8)

    def numpy(self) -> np.ndarray:
        return self.array.copy()

    def shape(self) -> list[int]:
        return list(self.array.shape)

    def is_tensor(self) -> bool:
        return True

    def data_type(self) -> str:
        return _TYPES[self.array.dtype]

    def device_name(self) -> str:
        return self._device


class StandInBinding:
    def __init__(self) -> None:
        self.inputs: dict[str, StandInValue] = {}
        self.outputs: dict[str, StandInValue] = {}

    def bind_ortvalue_input(self, name: str, value: StandInValue) -> None:
        self.inputs[name] = value

    def bind_ortvalue_output(self, name: str, value: StandInValue) -> None:
        self.outputs[name] = value

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        return [value.numpy() for value in self.outputs.values()]


class StandInSession(InferenceSession):
    """A session whose CUDA EP captures. The CPU EP computes."""

    def __init__(self, made: ModelProto, options: dict | None = None, stale: tuple[str, ...] = ()) -> None:
        """
        :param stale: outputs that capture leaves out.
        """
        super().__init__(made.SerializeToString(), providers=["CPUExecutionProvider"])
        self.options = {
            "CUDAExecutionProvider": {"enable_cuda_graph": "1", "device_id": "2"} if options is None else options
        }
        self.stale = stale
        self.graphs: dict[tuple[int, int], tuple[dict, dict]] = {}
        self.memory = "Cuda"

    def get_providers(self) -> list[str]:
        return [*self.options, "CPUExecutionProvider"]

    def get_provider_options(self) -> dict:
        return {**self.options, "CPUExecutionProvider": {}}

    def get_input_memory_infos(self) -> list:
        return [SimpleNamespace(name=self.memory) for _ in self.get_inputs()]

    def get_output_memory_infos(self) -> list:
        return [SimpleNamespace(name="Cuda") for _ in self.get_outputs()]

    def io_binding(self) -> StandInBinding:
        return StandInBinding()

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        pass

    def run(self, output_names, input_feed, run_options=None) -> list:
        names = output_names or [value.name for value in self.get_outputs()]
        feeds = {name: value.array if isinstance(value, StandInValue) else value for name, value in input_feed.items()}
        graph_id = self._graph_id(run_options)
        key = threading.get_ident(), graph_id
        if graph_id != -1 and key in self.graphs:
            self._launch(*self.graphs[key])
            return []
        results = dict(zip(names, super().run(names, feeds), strict=True))
        if graph_id != -1:
            self.graphs[key] = feeds, results
        return [results[name] for name in names]

    def run_with_iobinding(self, iobinding, run_options=None) -> None:
        graph_id = self._graph_id(run_options)
        key = threading.get_ident(), graph_id
        if key not in self.graphs or graph_id == -1:
            buffers = [
                {name: value.array for name, value in bound.items()} for bound in (iobinding.inputs, iobinding.outputs)
            ]
            self._launch(*buffers, first=True)
            if graph_id == -1:
                return
            self.graphs[key] = buffers[0], buffers[1]
        else:
            self._launch(*self.graphs[key])

    def _launch(self, inputs: dict, outputs: dict, first: bool = False) -> None:
        computed = super().run([*outputs], inputs)
        # A kernel takes time, in which others may write into its buffers.
        time.sleep(0.0002)
        for (name, buffer), value in zip(outputs.items(), computed, strict=True):
            if first or name not in self.stale:
                buffer[...] = value

    @staticmethod
    def _graph_id(run_options) -> int:
        try:
            return int(run_options.get_run_config_entry("gpu_graph_id"))
        except (AttributeError, RuntimeError):  # no run options, or no such entry
            return 0


def options(graph_id: int) -> onnxruntime.RunOptions:
    made = onnxruntime.RunOptions()
    made.add_run_config_entry("gpu_graph_id", str(graph_id))
    return made


class StandInTest(unittest.TestCase):
    """The stand-in does what was measured on the CUDA EP."""

    def setUp(self) -> None:
        self.session = StandInSession(chain())
        self.expected = Expected(chain())
        self.xs = [np.full((2, 4), i, np.float32) for i in range(1, 4)]

    def bound(self, x: np.ndarray, session: StandInSession | None = None) -> StandInBinding:
        binding = (session or self.session).io_binding()
        for bind, name in ((binding.bind_ortvalue_input, "X"), (binding.bind_ortvalue_output, "Y")):
            bind(name, StandInValue.ortvalue_from_shape_and_type(x.shape, np.float32, "cuda", 2))
        binding.inputs["X"].update_inplace(x)
        return binding

    def test_plain_runs_return_nothing_after_the_first(self) -> None:
        np.testing.assert_array_equal(self.session.run(None, {"X": self.xs[0]})[0], self.expected(self.xs[0])[0])
        self.assertEqual(self.session.run(None, {"X": self.xs[1]}), [])
        self.assertEqual(self.session.run(None, {"X": self.xs[2]}), [])

    def test_a_plain_replay_reads_and_writes_the_first_arrays(self) -> None:
        x = self.xs[0].copy()
        first = self.session.run(None, {"X": x})[0]
        x[:] = self.xs[2]
        self.session.run(None, {"X": self.xs[1]})
        np.testing.assert_array_equal(first, self.expected(self.xs[2])[0])

    def test_minus_one_is_an_ordinary_run(self) -> None:
        for x in self.xs:
            np.testing.assert_array_equal(self.session.run(None, {"X": x}, options(-1))[0], self.expected(x)[0])

    def test_another_binding_is_ignored(self) -> None:
        self.session.run_with_iobinding(self.bound(self.xs[0]), options(4))
        binding = self.bound(self.xs[1])
        self.session.run_with_iobinding(binding, options(4))
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.full((2, 4), 111, np.float32))

    def test_release_does_nothing(self) -> None:
        self.session.run_with_iobinding(self.bound(self.xs[0]), options(4))
        self.session.release_captured_graph(4)
        binding = self.bound(self.xs[1])
        self.session.run_with_iobinding(binding, options(4))
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.full((2, 4), 111, np.float32))

    def test_each_thread_has_its_graphs(self) -> None:
        self.session.run_with_iobinding(self.bound(self.xs[0]), options(4))
        binding = self.bound(self.xs[1])
        thread = threading.Thread(target=self.session.run_with_iobinding, args=(binding, options(4)))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], self.expected(self.xs[1])[0])
        self.assertEqual(len(self.session.graphs), 2)

    def test_an_upload_looks_at_the_size_only(self) -> None:
        binding = self.bound(self.xs[0])
        binding.inputs["X"].update_inplace(np.arange(8, dtype=np.int32).reshape(4, 2))
        columns = np.asfortranarray(np.arange(8, dtype=np.float32).reshape(2, 4))
        binding.inputs["X"].update_inplace(columns)
        np.testing.assert_array_equal(binding.inputs["X"].numpy().ravel(), columns.T.ravel())
        with self.assertRaisesRegex(RuntimeError, "size"):
            binding.inputs["X"].update_inplace(np.zeros(9, np.float32))


class CudaCaptureTest(CaptureBehaviour, unittest.TestCase):
    """The backend on the stand-in."""

    def setUp(self) -> None:
        for module in (graph_capture, model_inputs, tensor_values):
            patch = mock.patch.object(module, "OrtValue", StandInValue)
            patch.start()
            self.addCleanup(patch.stop)

    def prepare(self, made: ModelProto, stale: tuple[str, ...] = (), **keywords):
        return onnxruntime.backend.prepare(StandInSession(made, stale=stale), **keywords)

    def test_graphs_live_on_one_thread(self) -> None:
        rep = self.prepare(chain())
        for i in range(4):
            thread = threading.Thread(target=rep.run, args=([self.data(i, 1 + i % 2, 4)],))
            thread.start()
            thread.join()
        threads = {ident for ident, _ in rep.session.graphs}
        self.assertEqual(len(threads), 1)
        self.assertNotIn(threading.get_ident(), threads)
        self.assertEqual(len(rep.session.graphs), 2)

    def test_a_stale_output_is_an_error(self) -> None:
        rep = self.prepare(two_inputs(), stale=("Z",))
        a, b = self.data(0, 3), self.data(1, 3)
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "wrong values for output 'Z':"):
                rep.run([a, b])
        self.check(rep.run([a, b], run_config={"gpu_graph_id": -1}), [a * b, a - b])

    def test_a_stale_output_that_did_not_change_at_first(self) -> None:
        with mock.patch.object(self, "prepare", lambda made: CudaCaptureTest.prepare(self, made, stale=("Y",))):
            x = np.ones((1, 2, 2), np.float32)
            self.check_stale_later(flattened_sign(), [[x], [2 * x], [3 * x]], [-x])

    def test_a_stale_input_that_had_one_value(self) -> None:
        with mock.patch.object(self, "prepare", lambda made: CudaCaptureTest.prepare(self, made, stale=("Y",))):
            one, x = np.array([[7, 7]], np.int32), self.data(0, 4)
            self.check_stale_later(flattened_integers(), [[one, x], [one, x + 1]], [one + 1, x])

    def test_doubt_ends(self) -> None:
        rep = self.prepare(flattened_sign())
        x = np.ones((1, 2, 2), np.float32)
        with mock.patch.object(rep.session, "run", wraps=rep.session.run) as ordinary:
            rep.run([x])
            first = ordinary.call_count
            rep.run([x])
            self.assertEqual(ordinary.call_count, first + 1)
            rep.run([-x])
            self.assertEqual(ordinary.call_count, first + 2)
            rep.run([x])
            self.assertEqual(ordinary.call_count, first + 2)

    def test_a_failed_capture_is_not_replayed(self) -> None:
        rep = self.prepare(chain())
        x = self.data(0, 3, 4)
        failing = mock.patch.object(rep.session, "run_with_iobinding", side_effect=MemoryError("device"))
        with failing, self.assertRaisesRegex(MemoryError, "device"):
            rep.run([x])
        with self.assertRaisesRegex(RuntimeError, "first run of graph 1024 .*failed.*'gpu_graph_id': -1"):
            rep.run([x])

    def test_the_session_goes_with_its_last_user(self) -> None:
        rep = self.prepare(chain())
        rep.run([self.data(0, 3, 4)])
        gone = weakref.ref(rep.session)
        del rep
        gc.collect()
        self.assertIsNone(gone())
        # The thread that ran it ends too.
        for thread in threading.enumerate():
            if thread.name.startswith("onnxruntime-graph-capture"):
                thread.join(10)
                self.assertFalse(thread.is_alive())

    def test_device_values(self) -> None:
        rep, expected = self.prepare(two_inputs()), Expected(two_inputs())
        for i in range(3):
            a, b = self.data(i, 3), self.data(i + 9, 3)
            for device in ("cuda", "cpu"):
                self.check(rep.run([StandInValue(a, device), b]), expected(a, b))
                self.check(rep.run([a, StandInValue(b, device)]), expected(a, b))
        for device in ("cuda", "cpu"):
            with self.assertRaisesRegex(RuntimeError, "'A'.*"):
                rep.run([StandInValue(a.astype(np.int32), device), b])
        self.check(rep.run([StandInValue(a, "cuda"), b], run_config={"gpu_graph_id": -1}), expected(a, b))


class RequirementsTest(unittest.TestCase):
    """What capture needs is looked at when a session is prepared."""

    def prepare(self, made: ModelProto, **keywords):
        session = StandInSession(made, **keywords)
        return onnxruntime.backend.prepare(session)

    def test_only_capturing_sessions_are_different(self) -> None:
        self.assertIsNone(graph_capture.of(InferenceSession(chain().SerializeToString())))
        for value in ({}, {"enable_cuda_graph": "0"}):
            self.assertIsNone(graph_capture.of(StandInSession(chain(), value)))
        # It captures inside itself, and is run the ordinary way.
        session = StandInSession(chain())
        session.options = {"NvTensorRTRTXExecutionProvider": {"enable_cuda_graph": "1"}}
        self.assertIsNone(graph_capture.of(session))

    def test_one_state_for_a_session(self) -> None:
        session = StandInSession(chain())
        self.assertIs(graph_capture.of(session), graph_capture.of(session))
        self.assertIsNot(graph_capture.of(session), graph_capture.of(StandInSession(chain())))

    def test_inputs_in_cpu_memory(self) -> None:
        session = StandInSession(chain())
        session.memory = "Cpu"
        with self.assertRaisesRegex(RuntimeError, "'X' is read on the CPU"):
            onnxruntime.backend.prepare(session)

    def test_tensors_only(self) -> None:
        strings = model(
            [helper.make_node("Identity", ["X"], ["Y"])], {"X": (1,)}, {"Y": (1,)}, elem_type=TensorProto.STRING
        )
        with self.assertRaisesRegex(RuntimeError, r"input 'X' is tensor\(string\)"):
            self.prepare(strings)
        sequence = model([helper.make_node("SequenceConstruct", ["X"], ["Y"])], {"X": (1,)}, {"Y": None})
        sequence.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("Y", TensorProto.FLOAT, None))
        with self.assertRaisesRegex(RuntimeError, r"output 'Y' is seq\(tensor\(float\)\)"):
            self.prepare(sequence)

    def test_other_providers_that_capture(self) -> None:
        session = StandInSession(chain())
        session.options = {"TensorrtExecutionProvider": {"trt_cuda_graph_enable": "1"}}
        with self.assertRaisesRegex(RuntimeError, "TensorrtExecutionProvider.*trt_cuda_graph_enable"):
            onnxruntime.backend.prepare(session)
        session.options = {"TensorrtExecutionProvider": {"trt_cuda_graph_enable": "0"}}
        onnxruntime.backend.prepare(session)

    def test_webgpu_of_an_ort_without_the_means(self) -> None:
        class OldInner:
            pass

        session = StandInSession(chain(), {})
        session.options = {"WebGpuExecutionProvider": {}}
        asked = onnxruntime.SessionOptions()
        with (
            mock.patch.object(session, "_sess", OldInner()),
            mock.patch.object(session, "get_session_options", lambda: asked),
        ):
            self.assertIsNone(graph_capture.of(session))
            asked.add_session_config_entry("ep.webgpuexecutionprovider.enableGraphCapture", "1")
            with self.assertRaisesRegex(RuntimeError, "needs ORT 1.30 or newer.*device memory"):
                graph_capture.of(session)

    def test_refusals_of_ort(self) -> None:
        error = ValueError("This session cannot use the graph capture feature: the model has control flow nodes")
        self.assertRegex(graph_capture.explain(error), "If, Loop or Scan.*control flow nodes")
        self.assertIsNone(graph_capture.explain(ValueError("other")))

    def test_a_refusal_of_ort_is_explained_to_the_caller(self) -> None:
        for error, explained in (
            (RuntimeError("This session cannot use the graph capture feature as requested by the user"), True),
            (RuntimeError("out of memory"), False),
        ):
            for options in (None, {"CPUExecutionProvider": {}}):
                with (
                    mock.patch.object(onnxruntime.InferenceSession, "__init__", side_effect=error),
                    self.assertRaises(RuntimeError) as raised,
                ):
                    onnxruntime.backend.prepare(chain(), provider_options=options)
                self.assertIn(str(error), str(raised.exception))
                self.assertEqual("Prepare the model without it" in str(raised.exception), explained)


class AgreeTest(unittest.TestCase):
    """When two results count as the same."""

    def agree(self, got, want, dtype=np.float32) -> bool:
        return graph_capture.agree(np.array(got, dtype), np.array(want, dtype))

    def test_special_values(self) -> None:
        nan, inf = np.nan, np.inf
        self.assertTrue(self.agree([nan, inf, -inf, 0.0], [nan, inf, -inf, -0.0]))
        self.assertFalse(self.agree([nan, 1], [0, 1]))
        self.assertFalse(self.agree([0, 1], [nan, 1]))
        self.assertFalse(self.agree([inf, 1], [-inf, 1]))
        self.assertFalse(self.agree([3e38, 1], [inf, 1]))
        self.assertFalse(self.agree([inf, 1], [3e38, 1]))
        self.assertTrue(self.agree([], []))

    def test_order_of_summation(self) -> None:
        self.assertTrue(self.agree([1.00001, 1000.01, 1e-5], [1, 1000, 0]))
        self.assertFalse(self.agree([1.01, 1, 1, 1000, 0], [1, 1, 1, 1000, 0]))
        self.assertTrue(self.agree([1.002, 5], [1, 5], np.float16))
        self.assertFalse(self.agree([1.2, 5], [1, 5], np.float16))

    def test_masks_hide_nothing(self) -> None:
        masked = np.finfo(np.float32).min
        self.assertFalse(self.agree([1, 2, 3, masked], [1, 2, 4, masked]))

    def test_other_types_and_shapes(self) -> None:
        self.assertTrue(self.agree([1, 2], [1, 2], np.int64))
        self.assertFalse(self.agree([1, 2], [1, 3], np.int64))
        self.assertFalse(self.agree([True], [False], np.bool_))
        self.assertFalse(self.agree([[1, 2]], [1, 2]))
        self.assertFalse(graph_capture.agree(np.zeros(2, np.float32), np.zeros(2, np.float64)))


class WebGpuLockTest(unittest.TestCase):
    """Sessions are released under the lock, and nobody waits for that."""

    class Session:
        def __init__(self, released: list) -> None:
            self.inner = WebGpuLockTest.Inner(released)

    class Inner:
        def __init__(self, released: list) -> None:
            self.released = released

        def __del__(self) -> None:
            self.released.append(threading.get_ident())

    def test_released_by_the_holder(self) -> None:
        lock, released = webgpu_lock._ReleasingLock(), []
        session = self.Session(released)
        lock.release_of(session)
        holding, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            with lock:
                holding.set()
                go_on.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        holding.wait(10)
        del session
        self.assertEqual(released, [])
        ident = thread.ident
        go_on.set()
        thread.join()
        self.assertEqual(released, [ident])

    def test_not_released_in_the_middle_of_a_run(self) -> None:
        lock, released = webgpu_lock._ReleasingLock(), []
        session = self.Session(released)
        lock.release_of(session)
        with lock:
            with lock:
                del session
            self.assertEqual(released, [])
        self.assertEqual(released, [threading.get_ident()])

    def test_released_at_once_when_free(self) -> None:
        lock, released = webgpu_lock._ReleasingLock(), []
        session = self.Session(released)
        lock.release_of(session)
        del session
        self.assertEqual(released, [threading.get_ident()])

    def test_sessions_with_the_ep_only(self) -> None:
        self.assertIsNone(webgpu_lock.of(StandInSession(chain())))
        session = StandInSession(chain())
        session.options = {"WebGpuExecutionProvider": {}}
        self.assertIs(webgpu_lock.of(session), webgpu_lock.WEBGPU)


class DeviceValueTest(unittest.TestCase):
    """OrtValues beside arrays on an ordinary session."""

    def test_inputs(self) -> None:
        rep = onnxruntime.backend.prepare(two_inputs())
        a, b = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
        got = rep.run([onnxruntime.OrtValue.ortvalue_from_numpy(a), b])
        np.testing.assert_array_equal(got, [a * b, a - b])

    def test_run_options_are_fresh(self) -> None:
        rep = onnxruntime.backend.prepare(two_inputs(), run_config={"gpu_graph_id": 1})
        first, second = rep.run_options({"gpu_graph_id": 2}), rep.run_options()
        self.assertEqual(first.get_run_config_entry("gpu_graph_id"), "2")
        self.assertEqual(second.get_run_config_entry("gpu_graph_id"), "1")
        self.assertIsNot(second, rep.run_options())
        with self.assertRaisesRegex(RuntimeError, "not permitted via the backend API"):
            rep.run_options({"bogus": 1})
        self.assertIsInstance(rep.session, InferenceSession)


if __name__ == "__main__":
    unittest.main()
