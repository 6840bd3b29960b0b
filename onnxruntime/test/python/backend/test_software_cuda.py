# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests the runtime of the software CUDA (with_software_cuda.sh) by CUDA's documents.

test_software_cuda_kernels.py compares its kernels with the CPU EP.
"""

import ctypes
import functools
import os
import signal
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

CPU = "CPUExecutionProvider"
EP = "CUDAExecutionProvider"
ON_SOFTWARE_CUDA = bool(os.environ.get("ORT_TEST_SOFTWARE_CUDA"))
LAZY = os.environ.get("SOFTCUDA_LAZY", "0") != "0"

# cudaError_t, cudaStreamCaptureMode, cudaMemcpyKind
INVALID_HANDLE, CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_WRONG_THREAD = (400, 900, 901, 908)
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
    def setUp(self):
        self.cuda = Runtime()

    def first(self, memory) -> int:
        return ctypes.cast(memory, ctypes.POINTER(ctypes.c_ubyte))[0]

    def test_capture_only_records(self):
        cuda = self.cuda
        stream, seen = cuda.stream(), cuda.pinned()
        cuda.fill(seen, 1, stream)
        cuda.graph_of(stream, lambda: cuda.fill(seen, 2, stream))
        cuda.call("cudaStreamSynchronize", stream)
        self.assertEqual(self.first(seen), 1)

    def test_calls_that_a_capture_forbids(self):
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

    def test_a_captured_stream_is_not_waited_for(self):
        cuda = self.cuda
        stream, graph = cuda.stream(), ctypes.c_void_p()
        cuda.call("cudaStreamBeginCapture", stream, GLOBAL)
        in_thread(lambda: cuda.call("cudaStreamEndCapture", stream, ctypes.byref(graph), error=CAPTURE_WRONG_THREAD))
        in_thread(lambda: cuda.call("cudaStreamSynchronize", cuda.stream()))  # another stream may be
        cuda.call("cudaStreamSynchronize", stream, error=CAPTURE_UNSUPPORTED)
        cuda.fill(None, 1, stream, error=CAPTURE_INVALIDATED)
        cuda.call("cudaStreamEndCapture", stream, ctypes.byref(graph), error=CAPTURE_INVALIDATED)

    def test_a_kernel_needs_its_device(self):
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

    @unittest.skipUnless(LAZY, "SOFTCUDA_LAZY is not set")
    def test_lazy_work_waits(self):
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

    def ended(self, code: str) -> subprocess.CompletedProcess:
        """Return the result of a program in its own process, with the runtime as ``cuda``."""
        lines = (f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})",)
        program = "\n".join((*lines, f"from {os.path.basename(__file__)[:-3]} import *", "cuda = Runtime()", code))
        command = [sys.executable, "-c", program]
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    def test_freed_memory_cannot_be_touched(self):
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

    def test_what_is_not_implemented_ends_the_process_with_its_name(self):
        kernel = (
            "from test_software_cuda_kernels import *\n"
            "X = np.ones((1, 1, 2, 2), np.float32)\n"
            "nodes = [node('Resize', 'X', '', 'S', mode='linear')]\n"
            "run(model(nodes, {'X': X.shape}, {'Y': None}, {'S': np.array([1, 1, 2, 2], np.float32)}), {'X': X})\n"
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


if __name__ == "__main__":
    unittest.main()
