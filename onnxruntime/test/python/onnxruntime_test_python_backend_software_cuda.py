# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the software CUDA (with_software_cuda.sh): its runtime by CUDA's documents, its kernels by the CPU EP.

onnxruntime_test_python_backend_cuda_models.py runs whole models on it.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

import onnxruntime
import onnxruntime.backend

CPU = "CPUExecutionProvider"
EP = "CUDAExecutionProvider"
ON_SOFTWARE_CUDA = bool(os.environ.get("ORT_TEST_SOFTWARE_CUDA"))
LAZY = os.environ.get("SOFTCUDA_LAZY", "0") != "0"

# cudaError_t, cudaStreamCaptureMode, cudaMemcpyKind
INVALID_HANDLE, CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_WRONG_THREAD = 400, 900, 901, 908
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
DEFAULT_KIND = 4
NON_BLOCKING = 1


class Dim3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class Runtime:
    """libcudart through ctypes. A call that fails is an AssertionError unless the test requests its error."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcudart.so.13")

    def call(self, name: str, *arguments, error: int = 0) -> None:
        returned = getattr(self.library, name)(*arguments)
        self.library.cudaGetLastError()
        assert returned == error, f"{name} returned {returned}, not {error}"

    def made(self, name: str, *arguments) -> ctypes.c_void_p:
        """Return the object that a function writes to its first parameter."""
        thing = ctypes.c_void_p()
        self.call(name, ctypes.byref(thing), *arguments)
        return thing

    def stream(self, flags: int = NON_BLOCKING) -> ctypes.c_void_p:
        return self.made("cudaStreamCreateWithFlags", ctypes.c_uint(flags))

    def memory(self, size: int = 64) -> ctypes.c_void_p:
        return self.made("cudaMalloc", ctypes.c_size_t(size))

    def pinned(self, size: int = 64) -> ctypes.c_void_p:
        return self.made("cudaMallocHost", ctypes.c_size_t(size))

    def fill(self, memory, value: int, stream, size: int = 64, error: int = 0) -> None:
        self.call("cudaMemsetAsync", memory, value, ctypes.c_size_t(size), stream, error=error)

    def copy(self, to, source, stream, size: int = 64) -> None:
        self.call("cudaMemcpyAsync", to, source, ctypes.c_size_t(size), DEFAULT_KIND, stream)

    def graph_of(self, stream, record) -> ctypes.c_void_p:
        self.call("cudaStreamBeginCapture", stream, GLOBAL)
        record()
        graph = ctypes.c_void_p()
        self.call("cudaStreamEndCapture", stream, ctypes.byref(graph))
        return self.made("cudaGraphInstantiate", graph, ctypes.c_ulonglong(0))


def in_thread(work) -> None:
    """Call a function in another thread, and raise its error."""
    raised = []

    def caught() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=caught)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


@unittest.skipUnless(ON_SOFTWARE_CUDA, "not on the software CUDA")
class RuntimeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cuda = Runtime()

    def first(self, memory) -> int:
        return ctypes.cast(memory, ctypes.POINTER(ctypes.c_ubyte))[0]

    def test_a_graph_replays_its_addresses(self) -> None:
        cuda = self.cuda
        stream, device, seen = cuda.stream(), cuda.memory(), cuda.pinned()
        graph = cuda.graph_of(stream, lambda: cuda.copy(seen, device, stream))
        for value in (3, 4):
            cuda.fill(device, value, stream)
            cuda.call("cudaGraphLaunch", graph, stream)
            cuda.call("cudaStreamSynchronize", stream)
            self.assertEqual(self.first(seen), value)

    def test_capture_only_records(self) -> None:
        cuda = self.cuda
        stream, seen = cuda.stream(), cuda.pinned()
        cuda.fill(seen, 1, stream)
        cuda.graph_of(stream, lambda: cuda.fill(seen, 2, stream))
        cuda.call("cudaStreamSynchronize", stream)
        self.assertEqual(self.first(seen), 1)

    def test_calls_that_a_capture_forbids(self) -> None:
        """A mode forbids calls to the thread that captures, or also to others. A forbidden call ends the capture."""
        cuda = self.cuda
        own, other = (lambda work: work()), in_thread
        calls = (
            ("cudaMalloc", (ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64))),
            ("cudaMallocHost", (ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64))),
            ("cudaFree", (None,)),
            ("cudaDeviceSynchronize", ()),
            ("cudaMemcpy", (None, None, ctypes.c_size_t(0), DEFAULT_KIND)),
            ("cudaMemset", (None, 0, ctypes.c_size_t(0))),
        )
        for mode, run, error in (
            (GLOBAL, own, CAPTURE_UNSUPPORTED),
            (GLOBAL, other, CAPTURE_UNSUPPORTED),
            (THREAD_LOCAL, own, CAPTURE_UNSUPPORTED),
            (THREAD_LOCAL, other, 0),
            (RELAXED, own, 0),
            (RELAXED, other, 0),
        ):
            for name, arguments in calls:
                with self.subTest(name, mode=mode, run=run):
                    stream, graph = cuda.stream(), ctypes.c_void_p()
                    cuda.call("cudaStreamBeginCapture", stream, mode)
                    run(functools.partial(cuda.call, name, *arguments, error=error))
                    invalidated = CAPTURE_INVALIDATED if error else 0
                    cuda.call("cudaStreamEndCapture", stream, ctypes.byref(graph), error=invalidated)
                    self.assertEqual(bool(graph), not error)
                    cuda.call(name, *arguments)  # afterwards it may be called

    def test_a_captured_stream_is_not_waited_for(self) -> None:
        cuda = self.cuda
        stream, graph = cuda.stream(), ctypes.c_void_p()
        cuda.call("cudaStreamBeginCapture", stream, GLOBAL)
        in_thread(lambda: cuda.call("cudaStreamEndCapture", stream, ctypes.byref(graph), error=CAPTURE_WRONG_THREAD))
        in_thread(lambda: cuda.call("cudaStreamSynchronize", cuda.stream()))  # another stream may be
        cuda.call("cudaStreamSynchronize", stream, error=CAPTURE_UNSUPPORTED)
        cuda.fill(None, 1, stream, error=CAPTURE_INVALIDATED)
        cuda.call("cudaStreamEndCapture", stream, ctypes.byref(graph), error=CAPTURE_INVALIDATED)

    def test_a_kernel_needs_its_device(self) -> None:
        cuda = self.cuda
        self.addCleanup(cuda.call, "cudaSetDevice", 0)
        host, stream, seen = ctypes.c_char(), cuda.stream(), cuda.pinned()
        name = ctypes.create_string_buffer(b"_ZN11onnxruntime4cuda5_FillIfLi256ELi4EEEvPT_S2_i")
        cuda.library["__cudaRegisterFunction"](None, ctypes.byref(host), None, name)
        one = Dim3(1, 1, 1)

        def launch(value: float, error: int = 0) -> None:
            parameters = (ctypes.c_void_p(seen.value), ctypes.c_float(value), ctypes.c_int(16))
            pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(parameter) for parameter in parameters))
            nothing = ctypes.c_size_t(0)
            cuda.call("cudaLaunchKernel", ctypes.byref(host), one, one, pointers, nothing, stream, error=error)

        launch(1.5)
        cuda.call("cudaStreamSynchronize", stream)
        self.assertEqual(list(ctypes.cast(seen, ctypes.POINTER(ctypes.c_float))[:16]), [1.5] * 16)
        # A graph uses the parameters of the launch that it recorded.
        graph = cuda.graph_of(stream, lambda: launch(2.5))
        cuda.call("cudaGraphLaunch", graph, stream)
        cuda.call("cudaStreamSynchronize", stream)
        self.assertEqual(ctypes.cast(seen, ctypes.POINTER(ctypes.c_float))[15], 2.5)
        cuda.call("cudaSetDevice", 1)
        launch(3.5, error=INVALID_HANDLE)
        cuda.call("cudaSetDevice", 2, error=101)

    def test_a_destroyed_stream_takes_no_work(self) -> None:
        stream = self.cuda.stream()
        self.cuda.call("cudaStreamDestroy", stream)
        self.cuda.fill(self.cuda.pinned(), 1, stream, error=INVALID_HANDLE)

    def test_memory_is_bounded(self) -> None:
        cuda = self.cuda
        left, total = ctypes.c_size_t(), ctypes.c_size_t()
        cuda.call("cudaMemGetInfo", ctypes.byref(left), ctypes.byref(total))
        pointer = ctypes.c_void_p()
        cuda.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(left.value + 1), error=2)
        memory = cuda.memory(1 << 20)
        after = ctypes.c_size_t()
        cuda.call("cudaMemGetInfo", ctypes.byref(after), ctypes.byref(total))
        self.assertEqual(left.value - after.value, 1 << 20)
        cuda.call("cudaFree", memory)
        cuda.call("cudaFree", ctypes.c_void_p(memory.value), error=1)

    @unittest.skipUnless(LAZY, "SOFTCUDA_LAZY is not set")
    def test_lazy_work_waits(self) -> None:
        cuda = self.cuda
        stream, other, seen = cuda.stream(), cuda.stream(), cuda.pinned()
        event = cuda.made("cudaEventCreateWithFlags", ctypes.c_uint(0))
        for wait in (
            lambda: cuda.call("cudaStreamSynchronize", stream),
            lambda: cuda.call("cudaDeviceSynchronize"),
            lambda: cuda.call("cudaFree", cuda.memory()),
            lambda: cuda.call("cudaEventSynchronize", event),
            lambda: (cuda.call("cudaStreamWaitEvent", other, event, 0), cuda.call("cudaStreamSynchronize", other)),
        ):
            cuda.fill(seen, 0, stream)
            cuda.call("cudaStreamSynchronize", stream)
            cuda.fill(seen, 7, stream)
            cuda.call("cudaEventRecord", event, stream)
            cuda.call("cudaStreamSynchronize", other)
            self.assertEqual(self.first(seen), 0)
            wait()
            self.assertEqual(self.first(seen), 7)

    @unittest.skipUnless(LAZY, "SOFTCUDA_LAZY is not set")
    def test_lazy_streams_and_the_legacy_one(self) -> None:
        cuda = self.cuda
        seen = cuda.pinned()
        for flags, waits in ((0, 7), (NON_BLOCKING, 0)):
            stream = cuda.stream(flags)
            cuda.fill(seen, 0, stream)
            cuda.call("cudaStreamSynchronize", stream)
            cuda.fill(seen, 7, stream)
            cuda.call("cudaStreamSynchronize", None)
            self.assertEqual(self.first(seen), waits)
            cuda.call("cudaStreamSynchronize", stream)

    def ended(self, code: str) -> subprocess.CompletedProcess:
        """Return the result of a program in its own process, with the runtime as ``cuda``."""
        lines = (f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})",)
        program = "\n".join((*lines, f"from {os.path.basename(__file__)[:-3]} import *", "cuda = Runtime()", code))
        command = [sys.executable, "-c", program]
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    def test_freed_memory_cannot_be_touched(self) -> None:
        for memory in ("cuda.memory()", "cuda.pinned()"):
            code = (
                f"stream, memory = cuda.stream(), {memory}\n"
                "graph = cuda.graph_of(stream, lambda: cuda.fill(memory, 1, stream))\n"
                "cuda.call('cudaGraphLaunch', graph, stream); cuda.call('cudaStreamSynchronize', stream)\n"
            )
            self.assertEqual(self.ended(code).returncode, 0)
            free = "cuda.call('cudaFree', memory)\n"
            again = "cuda.call('cudaGraphLaunch', graph, stream); cuda.call('cudaStreamSynchronize', stream)\n"
            self.assertEqual(self.ended(code + free + again).returncode, -signal.SIGSEGV)

    def test_what_is_not_implemented_ends_the_process_with_its_name(self) -> None:
        kernel = (
            "X = np.ones((1, 1, 2, 2), np.float32)\n"
            "nodes = [node('Resize', 'X', '', 'S', mode='linear')]\n"
            "run(made(nodes, {'X': X}, {'S': np.array([1, 1, 2, 2], np.float32)}), {'X': X})\n"
        )
        for code, name in (
            (kernel, "no such kernel: .*_Resize"),
            ("ctypes.CDLL('libcudnn.so.9').cudnnRNNForward()", "cudnnRNNForward is not implemented"),
            ("ctypes.CDLL('libcublas.so.13').cublasSgetrfBatched()", "cublasSgetrfBatched is not implemented"),
        ):
            with self.subTest(name):
                done = self.ended(code)
                self.assertEqual(done.returncode, -signal.SIGABRT, done.stderr)
                self.assertRegex(done.stderr, name)

    def test_a_missing_compiler_is_named(self) -> None:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "with_software_cuda.sh")
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("dirname", "make"):
                os.symlink(shutil.which(tool), os.path.join(folder, tool))
            command = [shutil.which("sh"), script, sys.executable, "-c", "print('ran')"]
            done = subprocess.run(command, env={"PATH": folder}, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "gcc.* is missing")


# ---- kernels ----


def node(operator: str, *inputs: str, outputs: tuple[str, ...] = ("Y",), **attributes) -> NodeProto:
    return helper.make_node(operator, list(inputs), list(outputs), **attributes)


def made(nodes: list[NodeProto], inputs: dict, constants: dict, outputs: tuple[str, ...] = ("Y",)) -> ModelProto:
    def value(name: str, array: np.ndarray):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        nodes,
        "kernel",
        [value(name, array) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def run(model: ModelProto, inputs: dict) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nodes that ORT keeps on the CPU
        # As bytes, so that ORT infers the types of the outputs.
        source = model.SerializeToString()
        return onnxruntime.backend.run(source, inputs, provider_options={EP: {"use_tf32": False}})


RANDOM = np.random.default_rng(0)


def reals(*shape: int) -> np.ndarray:
    return np.asarray(RANDOM.standard_normal(shape), np.float32)


def integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def elementwise():
    for operator in (
        "Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Erf", "Floor", "Ceil", "Round", "Reciprocal", "Softplus",
        "Softsign", "Sign", "Sin", "Cos", "Elu", "LeakyRelu", "Selu", "HardSigmoid", "HardSwish", "Gelu",
        "ThresholdedRelu", "IsNaN", "Identity",
    ):  # fmt: skip
        yield operator, [node(operator, "X")], {"X": reals(3, 4) * 2}, {}
    for operator in ("Sqrt", "Log"):
        yield operator, [node(operator, "X")], {"X": np.abs(reals(3, 4))}, {}
    yield "Gelu of tanh", [node("Gelu", "X", approximate="tanh")], {"X": reals(3, 4)}, {}
    shapes = (((3, 4), (3, 4)), ((3, 4), (1,)), ((1,), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 4), (3, 1)))
    shapes += (((3, 1), (1, 4)), ((2, 3, 4, 4), (3, 1, 1)), ((1, 3, 4, 4), (1, 3, 1, 1)), ((2, 3, 4), (2, 1, 4)))
    for operator in (
        "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
    ):  # fmt: skip
        for a, b in shapes if operator in ("Sub", "Less") else shapes[::3]:
            inputs = {"X": np.abs(reals(*a)), "Z": reals(*b)}
            yield f"{operator} of {a} and {b}", [node(operator, "X", "Z")], inputs, {}
        for kind in (np.int64, np.int32):
            inputs = {"X": RANDOM.integers(-9, 9, (3, 4)).astype(kind), "Z": RANDOM.integers(1, 4, (4,)).astype(kind)}
            yield f"{operator} of {kind.__name__}", [node(operator, "X", "Z")], inputs, {}
    for operator in ("And", "Or", "Xor"):
        yield operator, [node(operator, "X", "Z")], {"X": reals(3, 4) > 0, "Z": reals(4) > 0}, {}
    yield "Not", [node("Not", "X")], {"X": reals(3, 4) > 0}, {}
    yield "Mod", [node("Mod", "X", "Z")], {"X": RANDOM.integers(-9, 9, (3, 4)), "Z": integers(3, -3, 2, -2)}, {}
    yield "Mod of floats", [node("Mod", "X", "Z", fmod=1)], {"X": reals(3, 4) * 9, "Z": reals(4)}, {}
    yield "PRelu", [node("PRelu", "X", "S")], {"X": reals(2, 3, 4)}, {"S": reals(3, 1)}
    for operator in ("Sum", "Max", "Mean"):
        yield f"{operator} of three", [node(operator, "X", "Z", "W")], {name: reals(3, 4) for name in "XZW"}, {}
    for shapes in (((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), (3, 4)), ((3, 4), (1,), (3, 4)), ((3, 4), (3, 4), (1,))):
        inputs = {"C": reals(*shapes[0]) > 0, "X": reals(*shapes[1]), "Z": reals(*shapes[2])}
        yield f"Where of {shapes}", [node("Where", "C", "X", "Z")], inputs, {}
    ends = {"L": np.array(-0.5, np.float32), "H": np.array(0.5, np.float32)}
    yield "Clip", [node("Clip", "X", "L", "H")], {"X": reals(3, 4)}, ends
    yield "Clip by inputs", [node("Clip", "X", "L", "H")], {"X": reals(3, 4), **ends}, {}
    kinds = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_)
    for source in kinds:
        for kind in kinds:
            nodes = [node("Cast", "X", to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))]
            inputs = {"X": (np.abs(reals(3, 4)) * 5).astype(source)}
            yield f"Cast from {source.__name__} to {kind.__name__}", nodes, inputs, {}


def layout():
    for shape, order in (
        ((3, 5), (1, 0)), ((2, 3, 5), (0, 2, 1)), ((2, 3, 5), (2, 1, 0)), ((2, 3, 5), (1, 0, 2)),
        ((2, 3, 4, 8), (0, 2, 1, 3)), ((2, 3, 4, 5), (0, 2, 1, 3)), ((2, 3, 4, 5), (0, 2, 3, 1)),
        ((2, 3, 4, 5), (0, 3, 1, 2)), ((2, 3, 4, 5), (3, 2, 1, 0)), ((2, 3, 4, 5, 2), (4, 2, 0, 1, 3)),
    ):  # fmt: skip
        yield f"Transpose of {shape} by {order}", [node("Transpose", "X", perm=order)], {"X": reals(*shape)}, {}
    for widths in ((4, 2), (4, 4), (4, 2, 1), (3, 3, 3), (2, 3, 1, 4, 5), (2,) * 36, (1, 2, 3) * 12):
        inputs = {f"X{i}": reals(3, width) for i, width in enumerate(widths)}
        yield f"Concat of {widths}", [node("Concat", *inputs, axis=1)], inputs, {}
        names, sizes = tuple(f"Y{i}" for i in range(len(widths))), {"S": integers(*widths)}
        inputs = {"X": reals(3, sum(widths))}
        yield f"Split of {widths}", [node("Split", "X", "S", outputs=names, axis=1)], inputs, sizes
        inputs = {"X": reals(2, sum(widths), 3)}
        yield f"Split inside of {widths}", [node("Split", "X", "S", outputs=names, axis=1)], inputs, sizes
    yield "Concat of rows", [node("Concat", "X", "Z", axis=0)], {"X": reals(3, 4), "Z": reals(2, 4)}, {}
    bounds = {"S": integers(1, 5), "E": integers(4, 0), "A": integers(0, 1), "P": integers(1, -2)}
    yield "Slice", [node("Slice", "X", *bounds)], {"X": reals(5, 6)}, bounds
    for mode in ("constant", "reflect", "edge"):
        constants = {"P": integers(0, 0, 1, 0, 0, 0, 1, 2)}
        yield f"Pad by {mode}", [node("Pad", "X", "P", mode=mode)], {"X": reals(2, 3, 3, 4)}, constants
    for shape, target in (((3, 1), (2, 3, 4)), ((1, 4), (3, 4)), ((1,), (3, 4)), ((2, 1, 4), (2, 3, 4))):
        yield f"Expand of {shape}", [node("Expand", "X", "S")], {"X": reals(*shape)}, {"S": integers(*target)}
    for shape, times in (((3, 2), (2, 3)), ((3, 2), (3, 1)), ((2, 3, 2), (1, 3, 1)), ((2, 3, 2), (2, 1, 3))):
        yield f"Tile of {shape} by {times}", [node("Tile", "X", "S")], {"X": reals(*shape)}, {"S": integers(*times)}
    for upper in (0, 1):
        yield f"Trilu {upper}", [node("Trilu", "X", upper=upper)], {"X": reals(2, 4, 3)}, {}
    yield "DepthToSpace", [node("DepthToSpace", "X", blocksize=2)], {"X": reals(1, 4, 3, 3)}, {}
    yield "Reshape", [node("Reshape", "X", "S")], {"X": reals(3, 4)}, {"S": integers(2, -1)}
    yield "Flatten", [node("Flatten", "X")], {"X": reals(2, 3, 4)}, {}


def indexing():
    for axis in (0, 1, -1):
        inputs = {"X": reals(3, 4, 5), "I": integers(0, 2, -1)}
        yield f"Gather on {axis}", [node("Gather", "X", "I", axis=axis)], inputs, {}
    inputs = {"X": reals(3, 4), "I": np.array([[0, 1], [2, 0]], np.int32)}
    yield "Gather by int32", [node("Gather", "X", "I")], inputs, {}
    for shape, indices, axis in (((3, 4), (3, 2), 1), ((3, 4), (2, 4), 0), ((2, 3, 4), (2, 2, 4), 1)):
        inputs = {"X": reals(*shape), "I": RANDOM.integers(-2, 2, indices)}
        yield f"GatherElements of {shape}", [node("GatherElements", "X", "I", axis=axis)], inputs, {}
    for indices, batch in (([[0, 1], [1, 2]], 0), ([[1], [0]], 0), ([[1], [2]], 1)):
        inputs = {"X": reals(2, 3, 4), "I": np.array(indices)}
        yield f"GatherND by {indices}", [node("GatherND", "X", "I", batch_dims=batch)], inputs, {}
    for reduction in ("none", "add", "mul", "max", "min"):
        inputs = {"X": reals(4, 4), "I": np.array([[0], [-2]]), "U": reals(2, 4)}
        yield f"ScatterND by {reduction}", [node("ScatterND", "X", "I", "U", reduction=reduction)], inputs, {}
    inputs = {"X": reals(4, 4), "I": np.array([[0, 1], [2, 3], [1, -1]]), "U": reals(3)}
    yield "ScatterND of elements", [node("ScatterND", "X", "I", "U")], inputs, {}
    for axis, shape in ((1, (3, 2)), (0, (2, 4))):
        inputs = {"X": reals(3, 4), "I": np.arange(np.prod(shape)).reshape(shape) % 3, "U": reals(*shape)}
        yield f"ScatterElements on {axis}", [node("ScatterElements", "X", "I", "U", axis=axis)], inputs, {}
    constants = {"D": integers(4), "V": np.array([0, 1], np.float32)}
    yield "OneHot", [node("OneHot", "I", "D", "V")], {"I": integers(0, -1, 7)}, constants


def reductions():
    for operator in ("Softmax", "LogSoftmax"):
        for axis, shape in ((-1, (3, 4)), (1, (2, 3, 4)), (-1, (2, 1500)), (0, (3, 4))):
            yield f"{operator} of {shape} on {axis}", [node(operator, "X", axis=axis)], {"X": reals(*shape)}, {}
    for axis, shape in ((-1, (2, 3, 8)), (1, (2, 3, 8))):
        constants = {"S": reals(*shape[axis:]), "B": reals(*shape[axis:])}
        nodes = [node("LayerNormalization", "X", "S", "B", axis=axis)]
        yield f"LayerNormalization on {axis}", nodes, {"X": reals(*shape)}, constants
    nodes = [node("Add", "X", "Z", outputs=("A",)), node("LayerNormalization", "A", "S", "B", axis=-1)]
    inputs = {"X": reals(1, 3, 8), "Z": reals(1, 3, 8)}
    yield "LayerNormalization of a sum", nodes, inputs, {"S": reals(8), "B": reals(8)}
    constants = {"S": reals(3), "B": reals(3), "M": reals(3), "V": np.abs(reals(3))}
    yield "BatchNormalization", [node("BatchNormalization", "X", *constants)], {"X": reals(2, 3, 4, 4)}, constants
    for p in (1, 2):
        yield f"LpNormalization {p}", [node("LpNormalization", "X", p=p)], {"X": reals(2, 8)}, {}
    for operator in ("Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum"):
        for shape, axes in (((3, 4), (-1,)), ((3, 4), (0,)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((3, 4), (0, 1))):
            nodes = [node(f"Reduce{operator}", "X", "A", keepdims=len(axes) % 2)]
            inputs = {"X": np.abs(reals(*shape)) + 0.5}
            yield f"Reduce{operator} of {shape} on {axes}", nodes, inputs, {"A": integers(*axes)}
    for axes in ((0, 2), (1,), (0, 1, 2)):
        inputs = {"X": RANDOM.integers(-9, 9, (2, 3, 4))}
        yield f"ReduceSum of integers on {axes}", [node("ReduceSum", "X", "A")], inputs, {"A": integers(*axes)}
    for operator in ("ArgMax", "ArgMin"):
        for axis in (0, 1):
            yield f"{operator} on {axis}", [node(operator, "X", axis=axis)], {"X": reals(3, 4)}, {}
    for options in ({}, {"exclusive": 1}, {"reverse": 1}):
        yield f"CumSum {options}", [node("CumSum", "X", "A", **options)], {"X": reals(2, 3, 4)}, {"A": np.array(1)}


def products():
    shapes = (((3, 4), (4, 5)), ((2, 2, 3, 4), (2, 2, 4, 5)), ((2, 1, 3, 4), (3, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)))
    for a, b in shapes:
        yield f"MatMul of {a} and {b}", [node("MatMul", "X", "Z")], {"X": reals(*a), "Z": reals(*b)}, {}
    inputs = {"X": reals(3, 4).astype(np.float64), "Z": reals(4, 5).astype(np.float64)}
    yield "MatMul of doubles", [node("MatMul", "X", "Z")], inputs, {}
    yield "MatMul of halves", [node("MatMul", "X", "Z")], {k: v.astype(np.float16) for k, v in inputs.items()}, {}
    for bias, options in (
        ((5,), {}), ((3, 5), {"beta": 2.0}), ((1,), {}), ((3, 1), {}), ((5,), {"alpha": 0.5, "beta": 3.0}),
    ):  # fmt: skip
        constants = {"W": reals(4, 5), "B": reals(*bias)}
        yield f"Gemm with {bias} {options}", [node("Gemm", "X", "W", "B", **options)], {"X": reals(3, 4)}, constants
    nodes = [node("Gemm", "X", "W", transA=1, transB=1)]
    yield "Gemm transposed", nodes, {"X": reals(4, 3)}, {"W": reals(5, 4)}
    nodes = [node("Transpose", "Z", outputs=("T",), perm=(0, 2, 1)), node("MatMul", "X", "T")]
    yield "MatMul of a transposed", nodes, {"X": reals(2, 3, 4), "Z": reals(2, 5, 4)}, {}
    for approximate in ("none", "tanh"):
        nodes = [node("Add", "X", "B", outputs=("T",)), node("Gelu", "T", approximate=approximate)]
        yield f"Gelu {approximate} with a bias", nodes, {"X": reals(2, 3, 8)}, {"B": reals(8)}
    yield "Einsum", [node("Einsum", "X", "Z", equation="bij,bjk->bik")], {"X": reals(2, 3, 4), "Z": reals(2, 4, 5)}, {}


def images():
    for x, w, options in (
        ((1, 3, 5, 5), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}), ((2, 3, 7, 7), (4, 3, 3, 3), {"strides": [2, 2]}),
        ((1, 4, 5, 5), (4, 1, 3, 3), {"group": 4}), ((1, 4, 5, 5), (6, 2, 3, 3), {"group": 2}),
        ((1, 3, 5, 5), (4, 3, 1, 1), {}), ((1, 3, 7, 7), (4, 3, 3, 3), {"dilations": [2, 2]}),
        ((1, 3, 9), (4, 3, 3), {}), ((1, 3, 5, 5), (4, 3, 3, 3), {"pads": [0, 0, 1, 1]}),
        ((1, 2, 4, 4, 4), (3, 2, 2, 2, 2), {}),
    ):  # fmt: skip
        for constants in ({"W": reals(*w)}, {"W": reals(*w), "B": reals(w[0])}):
            nodes = [node("Conv", "X", *constants, **options)]
            yield f"Conv of {x} by {w} {options}, {len(constants)} constants", nodes, {"X": reals(*x)}, constants
    constants = {"W": reals(4, 3, 3, 3), "B": reals(4)}
    inputs = {"X": reals(1, 3, 5, 5), "Z": reals(1, 4, 5, 5)}
    conv = node("Conv", "X", "W", "B", outputs=("T",), pads=[1, 1, 1, 1])
    yield "Conv and Relu", [conv, node("Relu", "T")], {"X": inputs["X"]}, constants
    yield "Conv, Add and Relu", [conv, node("Add", "T", "Z", outputs=("A",)), node("Relu", "A")], inputs, constants
    for strides in ([1, 1], [2, 2]):
        constants = {"W": reals(3, 4, 3, 3), "B": reals(4)}
        nodes = [node("ConvTranspose", "X", "W", "B", strides=strides)]
        yield f"ConvTranspose {strides}", nodes, {"X": reals(1, 3, 5, 5)}, constants
    for operator, options in (
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("GlobalAveragePool", {}), ("GlobalMaxPool", {}),
    ):  # fmt: skip
        yield f"{operator} {options}", [node(operator, "X", **options)], {"X": reals(2, 3, 5, 5)}, {}


@unittest.skipUnless(ON_SOFTWARE_CUDA, "not on the software CUDA")
class KernelTest(unittest.TestCase):
    def test_kernels_compute_what_the_cpu_ep_computes(self) -> None:
        for name, nodes, inputs, constants in itertools.chain(
            elementwise(), layout(), indexing(), reductions(), products(), images()
        ):
            with self.subTest(name):
                outputs = tuple(nodes[-1].output)
                model = made(nodes, inputs, constants, outputs)
                on_cpu = onnxruntime.InferenceSession(model.SerializeToString(), providers=[CPU]).run(None, inputs)
                tolerance = 1e-2 if any(array.dtype == np.float16 for array in on_cpu) else 1e-4
                for got, expected in zip(run(model, inputs), on_cpu, strict=True):
                    self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
                    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)

    def test_random_numbers(self) -> None:
        x, constants = np.ones((2000, 3), np.float32), {"R": np.float32(0.25), "T": np.array(True)}
        constants = {name: np.asarray(value) for name, value in constants.items()}
        for name, nodes, mean, deviation, least, most in (
            ("uniform", [node("RandomUniformLike", "X", low=2.0, high=5.0)], 3.5, 3 / 12**0.5, 2, 5),
            ("normal", [node("RandomNormalLike", "X", mean=-1.0, scale=2.0)], -1, 2, -12, 10),
            ("dropout", [node("Dropout", "X", "R", "T")], 1, 3**-0.5, 0, 4 / 3),
        ):
            with self.subTest(name):
                model = made(nodes, {"X": x}, constants if name == "dropout" else {})
                first, second = run(model, {"X": x})[0], run(model, {"X": x})[0]
                self.assertFalse(np.array_equal(first, second))
                for drawn in (first, second):
                    self.assertAlmostEqual(drawn.mean(), mean, delta=deviation / 10)
                    self.assertAlmostEqual(drawn.std(), deviation, delta=deviation / 10)
                    self.assertTrue(least <= drawn.min() and drawn.max() <= most + 1e-5)


if __name__ == "__main__":
    unittest.main()
