# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the software CUDA (with_software_cuda.sh): its runtime by CUDA's documents, its kernels by the CPU EP.

test_cuda_models.py runs whole models on it.
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
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from campaigns.captured_variants import Variant, Variants, rows, sizes_of, variants
from helpers.models import model
from onnx import ModelProto, NodeProto, helper

import onnxruntime
import onnxruntime.backend

CPU = "CPUExecutionProvider"
EP = "CUDAExecutionProvider"
ON_SOFTWARE_CUDA = bool(os.environ.get("ORT_TEST_SOFTWARE_CUDA"))
LAZY = os.environ.get("SOFTCUDA_LAZY", "0") != "0"

# cudaError_t, cudaStreamCaptureMode, cudaMemcpyKind
INVALID_HANDLE, CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_WRONG_THREAD = (
    400,
    900,
    901,
    908,
)
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
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@unittest.skipUnless(ON_SOFTWARE_CUDA, "not on the software CUDA")
class RuntimeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cuda = Runtime()

    def first(self, memory) -> int:
        return ctypes.cast(memory, ctypes.POINTER(ctypes.c_ubyte))[0]

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
                    cuda.call(
                        "cudaStreamEndCapture",
                        stream,
                        ctypes.byref(graph),
                        error=invalidated,
                    )
                    self.assertEqual(bool(graph), not error)
                    cuda.call(name, *arguments)  # afterwards it may be called

    def test_a_captured_stream_is_not_waited_for(self) -> None:
        cuda = self.cuda
        stream, graph = cuda.stream(), ctypes.c_void_p()
        cuda.call("cudaStreamBeginCapture", stream, GLOBAL)
        in_thread(
            lambda: cuda.call(
                "cudaStreamEndCapture",
                stream,
                ctypes.byref(graph),
                error=CAPTURE_WRONG_THREAD,
            )
        )
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
            parameters = (
                ctypes.c_void_p(seen.value),
                ctypes.c_float(value),
                ctypes.c_int(16),
            )
            pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(parameter) for parameter in parameters))
            nothing = ctypes.c_size_t(0)
            cuda.call(
                "cudaLaunchKernel",
                ctypes.byref(host),
                one,
                one,
                pointers,
                nothing,
                stream,
                error=error,
            )

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
            lambda: (
                cuda.call("cudaStreamWaitEvent", other, event, 0),
                cuda.call("cudaStreamSynchronize", other),
            ),
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
        program = "\n".join(
            (
                *lines,
                f"from {os.path.basename(__file__)[:-3]} import *",
                "cuda = Runtime()",
                code,
            )
        )
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
            "run(model(nodes, {'X': X.shape}, {'Y': None}, {'S': np.array([1, 1, 2, 2], np.float32)}), {'X': X})\n"
        )
        for code, name in (
            (kernel, "no such kernel: .*_Resize"),
            (
                "ctypes.CDLL('libcudnn.so.9').cudnnRNNForward()",
                "cudnnRNNForward is not implemented",
            ),
            (
                "ctypes.CDLL('libcublas.so.13').cublasSgetrfBatched()",
                "cublasSgetrfBatched is not implemented",
            ),
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


def node(operator: str, *inputs: str, output: str = "Y", **attributes) -> NodeProto:
    return helper.make_node(operator, list(inputs), [output], **attributes)


def run(made: ModelProto, inputs: dict) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nodes that ORT keeps on the CPU
        # As bytes, so that ORT infers the types of the outputs.
        source = made.SerializeToString()
        return onnxruntime.backend.run(source, inputs, provider_options={EP: {"use_tf32": False}})


# Operators of variants() for some of which the software CUDA has no kernel, or the CUDA EP differs from the CPU EP.
_OTHERWISE = (
    "Attention AveragePool Einsum GRU Gelu Gemm InstanceNormalization LSTM MaxPool MultiHeadAttention Resize "
    "RotaryEmbedding TopK"
)


class Kernels(Variants):
    """The models of one operator that WebGPU's tests have, further ones, and a few operators that ORT fuses."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(0)
        self.all += [
            variant
            for variant in variants()
            if variant.operator not in _OTHERWISE.split() and not variant.operator.startswith("Reduce")
        ]
        for part in (
            self.elementwise,
            self.layout,
            self.indexing,
            self.reductions,
            self.products,
            self.images,
        ):
            part()

    def fused(self, *nodes: NodeProto, inputs: str, **constants: np.ndarray) -> None:
        """Add a model whose inputs have names and shapes such as ``X3x4``."""
        shapes = {text[0]: sizes_of(text[1:]) for text in inputs.split()}
        feeds = {name: self.floats(*sizes) for name, sizes in shapes.items()}
        name = " ".join(node.op_type for node in nodes)
        self.all.append(Variant(name, inputs, model(nodes, shapes, {"Y": None}, constants), feeds))

    def elementwise(self) -> None:
        for operator in ("Round", "Softsign", "Sign", "Selu", "IsNaN", "Gelu"):
            self.add(operator, (self.floats(3, 4) * 2,))
        self.add("Gelu", ((3, 4),), approximate="tanh")
        kinds = (np.int64, np.int32)
        binary = "Add Sub Mul Div Pow Max Min Equal Less Greater LessOrEqual GreaterOrEqual"
        for operator, kind in itertools.product(binary.split(), kinds):
            self.add(
                operator,
                (
                    self.integers(-9, 9, 3, 4).astype(kind),
                    self.integers(1, 4, 4).astype(kind),
                ),
            )
        for operator in ("Or", "Xor"):
            self.add(operator, (self.floats(3, 4) > 0, self.floats(4) > 0))
        self.add("Mod", (self.integers(-9, 9, 3, 4), np.array([3, -3, 2, -2])))
        self.add("Mod", (self.floats(3, 4) * 9, (4,)), fmod=1)
        for operator in ("Sum", "Mean"):
            self.add(operator, ((3, 4),) * 3)
        self.add("Where", (self.floats(3, 4) > 0, (1,), (3, 4)))
        kinds = (
            np.float32,
            np.float64,
            np.float16,
            np.int8,
            np.uint8,
            np.int32,
            np.int64,
            np.bool_,
        )
        for source, kind in itertools.product(kinds, kinds):
            to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            self.add("Cast", ((np.abs(self.floats(3, 4)) * 5).astype(source),), to=to)

    def layout(self) -> None:
        self.add("Transpose", ((2, 3, 4, 8),), perm=(0, 2, 1, 3))
        for widths in (
            (4, 2),
            (4, 4),
            (4, 2, 1),
            (2, 3, 1, 4, 5),
            (2,) * 36,
            (1, 2, 3) * 12,
        ):
            self.add("Concat", tuple((3, width) for width in widths), axis=1)
            self.add("Split", ((3, sum(widths)),), np.array(widths), outputs=len(widths), axis=1)
            self.add(
                "Split",
                ((2, sum(widths), 3),),
                np.array(widths),
                outputs=len(widths),
                axis=1,
            )
        self.add("Tile", ((2, 3, 2),), np.array([1, 3, 1]))

    def indexing(self) -> None:
        for x, indices, (axis,) in rows("3x4 2x4 0, 2x3x4 2x2x4 1"):
            self.add("GatherElements", (x, self.integers(-2, 2, *indices)), axis=axis)
        self.add("GatherND", ((2, 3, 4), np.array([[1], [2]])), batch_dims=1)
        for reduction in ("add", "mul", "max", "min"):
            self.add("ScatterND", ((4, 4), np.array([[0], [-2]]), (2, 4)), reduction=reduction)
        self.add("ScatterElements", ((3, 4), self.integers(-2, 2, 2, 4), (2, 4)), axis=0)
        self.add("OneHot", (np.array([0, -1, 7]),), np.array([4]), np.array([0, 1], np.float32))

    def reductions(self) -> None:
        for x, (axis,) in rows("3x4 -1, 2x3x4 1, 2x1500 -1, 3x4 0"):
            self.add("LogSoftmax", (x,), axis=axis)
        self.add("LayerNormalization", ((2, 3, 8),), self.floats(3, 8), self.floats(3, 8), axis=1)
        nodes = (
            node("Add", "X", "Z", output="A"),
            node("LayerNormalization", "A", "S", "B", axis=-1),
        )
        self.fused(*nodes, inputs="X1x3x8 Z1x3x8", S=self.floats(8), B=self.floats(8))
        for bias in ("1x1x4x4", "2x1x4x4", "2x1x1x4", "2x3x4x4"):
            nodes = node("Add", "X", "Z", output="A"), node("Softmax", "A", axis=-1)
            self.fused(*nodes, inputs=f"X2x3x4x4 Z{bias}")
        self.add("LpNormalization", ((2, 8),), p=1)
        for operator in (
            "Mean",
            "Sum",
            "Max",
            "Min",
            "Prod",
            "L1",
            "L2",
            "SumSquare",
            "LogSum",
        ):
            for sizes, axes in rows("3x4 -1, 3x4 0, 2x3x4 1, 2x3x4 0x2, 3x4 0x1"):
                x = np.abs(self.floats(*sizes)) + np.float32(0.5)
                self.add(f"Reduce{operator}", (x,), np.array(axes), keepdims=len(axes) % 2)
        for axes in ((0, 2), (1,), (0, 1, 2)):
            self.add("ReduceSum", (self.integers(-9, 9, 2, 3, 4),), np.array(axes))
        self.add("CumSum", ((2, 3, 4),), np.array(1), reverse=1)

    def products(self) -> None:
        self.add("MatMul", ((2, 2, 3, 4), (2, 2, 4, 5)))
        for kind in (np.float64, np.float16):
            self.add("MatMul", (self.floats(3, 4).astype(kind), self.floats(4, 5).astype(kind)))
        for bias, options in (
            ("5, 1, 3x1", {}),
            ("3x5", {"beta": 2.0}),
            ("5", {"alpha": 0.5, "beta": 3.0}),
        ):
            for (sizes,) in rows(bias):
                self.add("Gemm", ((3, 4),), self.floats(4, 5), self.floats(*sizes), **options)
        self.add("Gemm", ((4, 3),), self.floats(5, 4), transA=1, transB=1)
        nodes = node("Transpose", "Z", output="T", perm=(0, 2, 1)), node("MatMul", "X", "T")
        self.fused(*nodes, inputs="X2x3x4 Z2x5x4")
        for approximate in ("none", "tanh"):
            nodes = (
                node("Add", "X", "B", output="T"),
                node("Gelu", "T", approximate=approximate),
            )
            self.fused(*nodes, inputs="X2x3x8", B=self.floats(8))
        self.add("Einsum", ((2, 3, 4), (2, 4, 5)), equation="bij,bjk->bik")

    def images(self) -> None:
        self.add("Conv", ((1, 2, 4, 4, 4),), self.floats(3, 2, 2, 2, 2))
        self.add("Conv", ((1, 3, 5, 5),), self.floats(4, 3, 3, 3), pads=[0, 0, 1, 1])
        conv = node("Conv", "X", "W", "B", output="T", pads=[1, 1, 1, 1])
        constants = {"W": self.floats(4, 3, 3, 3), "B": self.floats(4)}
        self.fused(conv, node("Relu", "T"), inputs="X1x3x5x5", **constants)
        added = node("Add", "T", "Z", output="A")
        self.fused(conv, added, node("Relu", "A"), inputs="X1x3x5x5 Z1x4x5x5", **constants)
        for strides in ([1, 1], [2, 2]):
            self.add(
                "ConvTranspose",
                ((1, 3, 5, 5),),
                self.floats(3, 4, 3, 3),
                self.floats(4),
                strides=strides,
            )
        padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        for operator, options in (
            ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("MaxPool", {**padded, "strides": [2, 2]}),
            ("AveragePool", padded),
            ("AveragePool", {**padded, "count_include_pad": 1}),
        ):
            self.add(operator, ((2, 3, 5, 5),), **options)

    def integers(self, low: int, high: int, *sizes: int) -> np.ndarray:
        return self.random.integers(low, high, sizes)


@unittest.skipUnless(ON_SOFTWARE_CUDA, "not on the software CUDA")
class KernelTest(unittest.TestCase):
    def test_kernels_compute_what_the_cpu_ep_computes(self) -> None:
        for operator, name, made, inputs in Kernels().all:
            for output in made.graph.output:
                output.ClearField("type")
            with self.subTest(f"{operator} {name}"):
                on_cpu = onnxruntime.InferenceSession(made.SerializeToString(), providers=[CPU]).run(None, inputs)
                tolerance = 1e-2 if any(array.dtype == np.float16 for array in on_cpu) else 1e-4
                for got, expected in zip(run(made, inputs), on_cpu, strict=True):
                    self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
                    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)

    def test_random_numbers(self) -> None:
        x, constants = (
            np.ones((2000, 3), np.float32),
            {"R": np.float32(0.25), "T": np.array(True)},
        )
        constants = {name: np.asarray(value) for name, value in constants.items()}
        for name, nodes, mean, deviation, least, most in (
            (
                "uniform",
                [node("RandomUniformLike", "X", low=2.0, high=5.0)],
                3.5,
                3 / 12**0.5,
                2,
                5,
            ),
            (
                "normal",
                [node("RandomNormalLike", "X", mean=-1.0, scale=2.0)],
                -1,
                2,
                -12,
                10,
            ),
            ("dropout", [node("Dropout", "X", "R", "T")], 1, 3**-0.5, 0, 4 / 3),
        ):
            with self.subTest(name):
                made = model(
                    nodes,
                    {"X": x.shape},
                    {"Y": None},
                    constants if name == "dropout" else {},
                )
                first, second = run(made, {"X": x})[0], run(made, {"X": x})[0]
                self.assertFalse(np.array_equal(first, second))
                for drawn in (first, second):
                    self.assertAlmostEqual(drawn.mean(), mean, delta=deviation / 10)
                    self.assertAlmostEqual(drawn.std(), deviation, delta=deviation / 10)
                    self.assertTrue(least <= drawn.min() and drawn.max() <= most + 1e-5)


if __name__ == "__main__":
    unittest.main()
