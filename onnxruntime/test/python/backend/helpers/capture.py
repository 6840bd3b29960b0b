# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Models and checks for tests of graph capture, on the EP of this environment: CUDA, else the plugin EP for WebGPU."""

import unittest
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
from onnx import ModelProto, helper

import onnxruntime
import onnxruntime.backend
from helpers.execution_providers import gpus, set_up_webgpu_plugin
from helpers.models import model, parsed
from onnxruntime import InferenceSession, OrtValue, SessionOptions
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.capture.graphs import Graph
from onnxruntime.backend.locks import GPU
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, CUDA, WEBGPU

CUDA_DEVICES = gpus() if CUDA in onnxruntime.get_available_providers() else 0
EP = CUDA if CUDA_DEVICES else WEBGPU
needs_cuda = unittest.skipUnless(CUDA_DEVICES, "there is no CUDA device, nor the software CUDA of make test-cuda")
ORDINARY = {"gpu_graph_id": -1}


def set_up() -> None:
    """Register the plugin EP for WebGPU until the tests of a module end, unless they run on CUDA."""
    if EP == WEBGPU:
        set_up_webgpu_plugin()


def prepare(made: ModelProto, capture: bool = True, device_id: int = 0, **keywords) -> OnnxRuntimeBackendRep:
    options = {CAPTURE_SWITCHES[EP]: capture}
    if EP == CUDA:
        options |= {"device_id": device_id, "use_tf32": False}
    # As bytes, so that ORT infers the shapes of the outputs.
    return onnxruntime.backend.prepare(made.SerializeToString(), provider_options={EP: options}, **keywords)


def open_session(made: ModelProto) -> InferenceSession:
    """Create a session that captures, as a caller does, without the backend."""
    options = SessionOptions()
    with GPU.alone():
        if EP == CUDA:
            return InferenceSession(made.SerializeToString(), options, providers=[(CUDA, {"enable_cuda_graph": "1"})])
        devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == WEBGPU]
        options.add_provider_for_devices(devices[:1], {"enableGraphCapture": "1"})
        return InferenceSession(made.SerializeToString(), options, enable_fallback=0)


def on_device(session: InferenceSession, array: np.ndarray) -> OrtValue:
    with GPU.alone():
        if EP == CUDA:
            return OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        value = session.create_ortvalue_from_shape_and_type(list(array.shape), array.dtype.type, "webgpu")
        value.update_inplace(np.ascontiguousarray(array))
        return value


def graphs_of(rep: OnnxRuntimeBackendRep) -> list[Graph]:
    """Return the graphs that a session has begun to capture."""
    return GPU.own(rep.session)[1:]


def chain(nodes: int = 6, shape: tuple = ("N", 4)) -> ModelProto:
    """Return a model of many small kernels."""
    names = ["X", *(f"t{i}" for i in range(nodes - 1))]
    operators = ("Sigmoid", "Relu", "Tanh", "Neg", "Abs")
    steps = [helper.make_node(operators[i % 5], [names[i]], [names[i + 1]]) for i in range(nodes - 1)]
    return model([*steps, helper.make_node("Add", [names[-1], "X"], ["Y"])], {"X": shape}, {"Y": shape})


def two_inputs() -> ModelProto:
    """Return ``Y = A * B``, ``Z = A - B``: exchanged inputs change Z."""
    return parsed("(float[N] A, float[N] B) => (float[N] Y, float[N] Z) { Y = Mul (A, B) Z = Sub (A, B) }")


def shapes_on_the_cpu() -> ModelProto:
    """Return a model that ORT captures only with a fixed size: nodes on the CPU EP compute a factor from a shape."""
    nodes = """
        S = Shape (X) E = Equal (S, M) W = Where (E, O, S) B = Expand (Z, W) T = Add (X, B)
        N = Gather (W, I) R = Reshape (N, K) F = Cast <to = 1> (R) U = Mul (T, F) Y = Tanh (U)
    """
    constants = (
        "int64[2] M = {-1,-1}, int64[2] O = {1,1}, int64[1] I = {0}, int64[1] K = {1}, float[1,4] Z = {1, 2, 3, 4}"
    )
    return parsed(f"(float[batch,4] X) => (float[batch,4] Y) <{constants}> {{ {nodes} }}")


def data(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def agree(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Check outputs against those of another EP."""
    for have, want in zip(got, expected, strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype), (have.shape, want.shape)
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


class Checked:
    """A prepared model, each of whose outputs is compared with that of the CPU EP."""

    def __init__(self, made: ModelProto, rep: OnnxRuntimeBackendRep | None = None, **keywords) -> None:
        self.rep = rep or prepare(made, **keywords)
        self._on_cpu = InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        self._names = [value.name for value in self._on_cpu.get_inputs()]

    def run(self, *inputs: np.ndarray, rep: OnnxRuntimeBackendRep | None = None, **keywords) -> list[np.ndarray]:
        got = (rep or self.rep).run([*inputs], **keywords)
        native = [np.array(array, array.dtype.newbyteorder("=")) for array in inputs]
        agree(got, self._on_cpu.run(None, dict(zip(self._names, native, strict=True))))
        return got


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Call ``work(i)`` in ``count`` threads that start together. Raise the error of a thread."""
    start = Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda i: (start.wait(), work(i)), range(count)))
