# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture on the CUDA EP with whole models: random models, a transformer block, a convolutional net.

Every captured run must return the outputs of a session without capture. Runs get arrays and values in device memory.
Some sessions begin to capture when the test calls set_providers. For each random model, a variant that may not
capture must be refused. The variable ``ORT_BACKEND_MODELS`` is the number of random models (default: 12). The target
``make campaign-cuda`` runs 120.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import unittest
import warnings

import numpy as np
from helpers import captured_models as models
from helpers.capture import in_threads
from helpers.capture_cuda import DEVICES, needs_cuda
from helpers.models import model
from onnx import ModelProto, helper

import onnxruntime
import onnxruntime.backend
from onnxruntime import OrtValue
from onnxruntime.backend import locks

EP = "CUDAExecutionProvider"
ON_SOFTWARE_CUDA = bool(os.environ.get("ORT_TEST_SOFTWARE_CUDA"))
MODELS = int(os.environ.get("ORT_BACKEND_MODELS", "12"))
RUNS = 20  # of each model
THREADS = 4


def prepare(made: ModelProto, capture: bool, device: int = 0):
    options = {"device_id": device, "use_tf32": False, **({"enable_cuda_graph": True} if capture else {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nodes that ORT keeps on the CPU
        # As bytes, so that ORT infers the shapes of the outputs.
        return onnxruntime.backend.prepare(made.SerializeToString(), provider_options={EP: options})


def replays() -> int:
    """Return the number of graphs that the software CUDA has launched."""
    return ctypes.c_ulong.in_dll(ctypes.CDLL("libcudart.so.13"), "soft_launched_graphs").value


class Pair:
    """A model prepared with capture and without."""

    def __init__(self, made: ModelProto, device: int = 0, by_set_providers: bool = False) -> None:
        self.made = made
        self.captured = prepare(made, not by_set_providers, device)
        self.device = device
        if by_set_providers:
            self.switch(True)
        self.ordinary = prepare(made, False, device)
        self.names = [output.name for output in self.captured.session.get_outputs()]

    def switch(self, capture: bool) -> None:
        """Switch graph capture on or off in the session that is prepared."""
        options = {"device_id": str(self.device), "use_tf32": "0", "enable_cuda_graph": str(int(capture))}
        with locks.CUDA.alone():
            self.captured.session.set_providers([(EP, options)])

    def check(self, inputs: dict[str, np.ndarray], on_device: frozenset[str] = frozenset()) -> None:
        expected = self.ordinary.run(inputs)
        with locks.CUDA.alone() if on_device else contextlib.nullcontext():
            values = {name: OrtValue.ortvalue_from_numpy(inputs[name], "cuda", self.device) for name in on_device}
        try:
            got = self.captured.run({**inputs, **values})
        finally:
            with locks.CUDA.alone() if on_device else contextlib.nullcontext():
                values.clear()
        for name, have, want in zip(self.names, got, expected, strict=True):
            where = f"output {name}"
            assert (have.dtype, have.shape) == (want.dtype, want.shape), where
            if ON_SOFTWARE_CUDA:
                assert have.tobytes() == want.tobytes(), f"{where}: {have.ravel()[:8]} is not {want.ravel()[:8]}"
            else:
                np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5, err_msg=where)


@needs_cuda
class CapturedModelsTest(unittest.TestCase):
    def tearDown(self):
        gc.collect()

    def model(self, seed: int) -> ModelProto:
        return models.random_model(seed, on_cuda=True)

    def runs(self, pair: Pair, seed: int, count: int = RUNS) -> None:
        """Runs on new data each, of a few batch sizes in any order; a fifth have inputs in device memory."""
        random = np.random.default_rng(seed)
        for i in range(count):
            inputs = models.random_inputs(pair.made, 1000 * seed + i, int(random.integers(1, 4)))
            on_device = (
                frozenset(name for name in inputs if random.random() < 0.5) if i % 5 == seed % 5 else frozenset()
            )
            pair.check(inputs, on_device)

    @contextlib.contextmanager
    def all_replayed(self):
        """Check that at least ``RUNS`` graphs are launched in this context, on the software CUDA."""
        before = replays() if ON_SOFTWARE_CUDA else 0
        yield
        if ON_SOFTWARE_CUDA:
            self.assertGreaterEqual(replays() - before, RUNS)

    def test_random_models(self):
        for seed in range(MODELS):
            with self.subTest(seed=seed), self.all_replayed():
                self.runs(Pair(self.model(seed), by_set_providers=seed % 4 == 3), seed)

    def test_graphs_of_one_session_share_memory(self):
        """The intermediate values of graphs lie in the same memory, so that replays may not overlap."""
        shape, nodes, last = (64, 512), [], "X"
        for i in range(12):
            nodes.append(helper.make_node(("Relu", "Sigmoid", "Tanh", "Exp")[i % 4], [last], [f"a{i}"]))
            nodes.append(helper.make_node("Softmax", [f"a{i}"], [f"b{i}"], axis=-1))
            last = f"b{i}"
        nodes.append(helper.make_node("Add", [last, "X"], ["Y"]))
        pair = Pair(model(nodes, {"X": shape}, {"Y": shape}))

        def runs(i: int) -> None:
            random = np.random.default_rng(i)
            for _ in range(40):
                pair.check({"X": random.random(shape, dtype=np.float32)})

        in_threads(THREADS, runs)

    def test_random_models_in_threads(self):
        for seed in range(MODELS):
            with self.subTest(seed=seed):
                pair = Pair(self.model(seed), by_set_providers=seed % 4 == 2)
                in_threads(THREADS, lambda i, pair=pair, seed=seed: self.runs(pair, 10 * seed + i, RUNS // THREADS))

    def test_sessions_at_once(self):
        # Sessions on two devices change how all later sessions of this process run.
        self.addCleanup(setattr, locks.CUDA, "other_devices", locks.CUDA.other_devices)

        def work(i: int) -> None:
            for seed in range(i, MODELS, THREADS):
                self.runs(Pair(self.model(seed), i % min(DEVICES, 2)), seed, RUNS // 2)

        in_threads(THREADS, work)

    def test_known_models(self):
        random = np.random.default_rng(0)
        for made, shape in (
            (models.transformer_block(joined=True), lambda i: (1 + i % 2, 3 + i % 3, 16)),
            (models.transformer_block(joined=False), lambda i: (1 + i % 2, 3 + i % 3, 16)),
            (models.convolutional_net(), lambda i: (1 + i % 3, 3, 8, 8)),
        ):
            pair = Pair(made)
            with self.all_replayed():
                for i in range(RUNS):
                    pair.check({"X": random.standard_normal(shape(i)).astype(np.float32)})

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "requires /proc/self/statm of Linux")
    def test_nothing_grows(self):
        pair = Pair(self.model(3))
        self.runs(pair, 0, 300)
        before = models.resident_bytes()
        self.runs(pair, 0, 1500)
        self.assertLess(models.resident_bytes() - before, 2**20)


if __name__ == "__main__":
    unittest.main()
