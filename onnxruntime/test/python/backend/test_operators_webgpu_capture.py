# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests that the WebGPU EP replays the operators that the table permits: real blocks, hidden copies, random models.

The tests run on a GPU, or under ``with_software_gpu.sh``. ``ORT_BACKEND_CAPTURED_MODELS`` is the number of random
models (default: 24). ``campaigns/captured_operators.py`` runs many variants of each operator.
"""

from __future__ import annotations

import gc
import os
import unittest

import numpy as np
from campaigns import captured_operators as operators
from helpers import captured_models as models
from helpers.capture import Checks
from helpers.execution_providers import set_up_webgpu_plugin
from helpers.models import parsed
from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from onnxruntime import ExecutionMode, GraphOptimizationLevel, InferenceSession
from onnxruntime.backend import locks
from onnxruntime.backend.capture.operators import OPERATORS
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CPU, WEBGPU

_MODELS = int(os.environ.get("ORT_BACKEND_CAPTURED_MODELS", "24"))
_RUNS = 12
_ORDINARY = {"gpu_graph_id": -1}


setUpModule = set_up_webgpu_plugin


def prepare(made: ModelProto, **keywords):
    # As bytes, so that ORT infers the shapes of the outputs.
    options = {WEBGPU: {"enableGraphCapture": True}}
    return onnxruntime.backend.prepare(made.SerializeToString(), provider_options=options, **keywords)


class ModelTest(Checks, unittest.TestCase):
    """Models through the backend."""

    def check_runs(self, rep, feeds, runs: int) -> None:
        """Compare captured runs with runs without capture; each third has its inputs in device memory."""
        for run in range(runs):
            values = feeds(run)
            if run % 3 == 2:
                with locks.WEBGPU.alone():
                    values = {name: operators.on_device(rep.session, array) for name, array in values.items()}
            for have, want in zip(rep.run(values), rep.run(values, run_config=_ORDINARY), strict=True):
                self.assertEqual(have.shape, want.shape)
                np.testing.assert_array_equal(operators.bits(have), operators.bits(want), f"run {run}")

    def check_block(self, made: ModelProto, feeds) -> None:
        rep = prepare(made)
        self.assertTrue(rep.session._sess.is_webgpu_graph_capture_enabled())
        self.check_runs(rep, feeds, 20)
        on_cpu = InferenceSession(made.SerializeToString(), providers=[CPU])
        for run in range(3):
            for have, want in zip(rep.run(feeds(run)), on_cpu.run(None, feeds(run)), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-3, atol=1e-4)

    def test_a_convolutional_net(self):
        self.check_block(models.convolutional_net(), lambda run: {"X": self.data(run, 1 + run % 2, 3, 8, 8)})

    def test_transformer_blocks(self):
        for joined in (False, True):
            made = models.transformer_block(joined)
            self.check_block(made, lambda run: {"X": self.data(run, 1 + run % 2, 3 + run % 3, 16)})

    def test_what_the_optimizers_make_of_it_decides(self):
        # If ORT fuses the Reshape and the Transpose, no stale value is left.
        made = parsed("(float[2] X) => (float[2] Y) { T = Neg (X) Y = Identity (T) }")
        prepare(made)
        with self.assertRaisesRegex(NotPermittedError, "Identity"):
            prepare(made, graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)

    def test_random_models(self):
        refused, elsewhere = 0, 0
        for seed in range(_MODELS):
            made = models.random_model(seed, on_cuda=False)
            feeds = lambda run, seed=seed, made=made: models.random_inputs(made, 1000 * seed + run, 1 + run % 3)  # noqa: E731
            with self.subTest(seed=seed):
                try:
                    rep = prepare(made)
                except NotPermittedError as error:
                    refused += 1
                    self.assertRegex(str(error), r"node '[^']*' \(\w+, which makes '\w+'\)")
                    continue
                except RuntimeError as error:
                    elsewhere += 1
                    self.assertIn("cannot be captured", str(error))
                    continue
                self.check_runs(rep, feeds, _RUNS)
            rep = None
            gc.collect()
        print(
            f"{_MODELS} random models: {refused} refused by name, {elsewhere} by ORT (a node on the CPU), "
            f"{_RUNS} runs of each of the other {_MODELS - refused - elsewhere} right"
        )
        self.assertGreater(refused, _MODELS // 6)
        self.assertGreater(_MODELS - refused - elsewhere, _MODELS // 3)


class OperatorTest(unittest.TestCase):
    """The operators, on sessions that are created without the backend."""

    def see(
        self, variant: operators.Variant, made: ModelProto, attributes: dict | None = None
    ) -> operators.Seen | None:
        """Return the result of a captured variant, or ``None`` if ORT does not capture or run it."""
        try:
            session, final = operators.open_session(made, GraphOptimizationLevel.ORT_DISABLE_ALL, attributes)
            return operators.replay(session, final, operators.data_sets(variant.feeds))
        except operators.ORT_ERRORS:
            return None

    def test_copies_are_stale_and_refused(self):
        # If one is right, its condition is not needed. If one is permitted, the table is wrong.
        wanted = {"Max", "Min", "ReduceMax", "ReduceSum", "Transpose", "ScatterND", "ScatterElements", "LSTM", "GRU"}
        views = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
        stale = set()
        for variant in operators.variants():
            if variant.operator in (wanted | views) - stale:
                seen = self.see(variant, variant.model)
                if seen is not None and seen.stale:
                    self.assertTrue(seen.problem, f"{variant.operator} {variant.name} is stale and permitted")
                    stale.add(variant.operator)
        self.assertEqual(stale, wanted | views)

    def test_permitted_operators_are_replayed(self):
        seen_of = set()
        for variant in operators.variants():
            made = operators.placed(variant, shared=False) or variant.model
            if variant.operator in seen_of or not variant.feeds:
                continue
            seen = self.see(variant, made)
            if (
                seen is None
                or seen.problem
                or not seen.moved
                or not any(name == variant.operator for _, name in seen.operators)
            ):
                continue
            self.assertEqual(seen.stale, [], f"{variant.operator} {variant.name}")
            seen_of.add(variant.operator)
        self.assertEqual({name for _, name in OPERATORS} - seen_of, {"Shape"})

    def test_views_share_their_input_however_memory_is_planned(self):
        graph = """(float[6,4] X) => (float[2,12] Y, float[2,3,4] Z) <int64[3] s = {2, 3, 4}, int64[1] z = {0}> {
            a = Reshape (X, s)
            b = Neg (a)
            c = Flatten (b)
            d = Unsqueeze (c, z)
            e = Squeeze (d, z)
            f = Identity (e)
            g = Reshape (k, s)
            h = Flatten (g)
            i = Add (f, h)
            Y = Exp (i)
            Z = Exp (b)
        }"""
        made = parsed(graph, k=np.ones(24, np.float32))
        variant = operators.Variant("Reshape", "views", made, {"X": np.ones((6, 4), np.float32)})
        for attributes in (
            {"enable_mem_reuse": False},
            {"enable_mem_pattern": False},
            {"execution_mode": ExecutionMode.ORT_PARALLEL},
            {"enable_mem_reuse": False, "execution_mode": ExecutionMode.ORT_PARALLEL},
        ):
            seen = self.see(variant, made, attributes)
            self.assertEqual((seen.stale, seen.problem, seen.moved), ([], "", True), attributes)


if __name__ == "__main__":
    unittest.main()
