# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Graph capture on the CUDA EP with whole models: operators side by side, a transformer block, a convolutional net.

Each output of a replay is compared, on the software CUDA bit for bit, with that of a session without capture.
"""

from __future__ import annotations

import contextlib
import os
import unittest

import numpy as np
from campaigns.captured_operators import data_sets
from campaigns.captured_variants import Variant, on_software_cuda
from helpers import captured_models as blocks
from helpers.capture import CUDA_DEVICES, data, graphs_of, in_threads, needs_cuda, on_device, prepare
from helpers.models import OPSET, model
from onnx import ModelProto, compose, helper

from onnxruntime.backend.locks import GPU

ON_SOFTWARE_CUDA = bool(os.environ.get("ORT_TEST_SOFTWARE_CUDA"))
THREADS = 4


class Pair:
    """A model prepared with capture and without."""

    def __init__(self, made: ModelProto, device_id: int = 0) -> None:
        self.captured, self._ordinary = (prepare(made, capture, device_id) for capture in (True, False))

    def check(self, inputs: dict[str, np.ndarray], there: bool = False) -> None:
        """Compare the outputs of a run with inputs in CPU memory, or ``there``, on device 0."""
        values = {name: on_device(self.captured.session, array) for name, array in inputs.items()} if there else inputs
        got, expected = self.captured.run(values), self._ordinary.run(inputs)
        with GPU.alone():
            values = None
        for have, want in zip(got, expected, strict=True):
            assert (have.dtype, have.shape) == (want.dtype, want.shape)
            if ON_SOFTWARE_CUDA:
                assert have.tobytes() == want.tobytes(), f"{have.ravel()[:8]} is not {want.ravel()[:8]}"
            else:
                np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def captured() -> list[Variant]:
    """Return variants of operators that ORT captures."""
    found = []
    for variant in on_software_cuda()[::5]:
        # ORT infers the shapes of some PRelu wrong, and rejects a binding of the right ones. Exchanged indices of
        # GatherND can be out of range.
        if (
            variant.operator not in ("PRelu", "GatherND")
            and variant.model.opset_import[0].version == OPSET
            and variant.feeds
        ):
            with contextlib.suppress(RuntimeError):
                prepare(variant.model)
                found.append(variant)
    return found


def side_by_side(chosen: list[Variant]) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Return one model of several, and its inputs."""
    joined, feeds = ModelProto(), {}
    for i, variant in enumerate(chosen):
        made = compose.add_prefix(variant.model, f"m{i}_")
        if i == 0:
            joined.CopyFrom(made)
        else:
            for field in ("node", "input", "output", "initializer"):
                getattr(joined.graph, field).extend(getattr(made.graph, field))
        feeds |= {f"m{i}_{name}": array for name, array in variant.feeds.items()}
    return joined, feeds


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@needs_cuda
class CapturedModelsTest(unittest.TestCase):
    def test_many_operators(self):
        self.addCleanup(setattr, GPU, "other_devices", GPU.other_devices)
        found = captured()
        self.assertGreater(len({variant.operator for variant in found}), 50)
        for i in range(0, len(found), 10):
            made, feeds = side_by_side(found[i : i + 10])
            with self.subTest([variant.operator for variant in found[i : i + 10]]):
                pair = Pair(made)
                for number, inputs in enumerate(data_sets(feeds) * 2):
                    pair.check(inputs, there=number == 6)
                self.assertEqual(len(graphs_of(pair.captured)), 1)
        if CUDA_DEVICES > 1:
            made, feeds = side_by_side(found[:10])
            pairs = [Pair(made, device_id) for device_id in (0, 1)]
            in_threads(THREADS, lambda i: [pairs[i % 2].check(inputs) for inputs in data_sets(feeds)])

    def test_graphs_of_one_session_share_memory(self):
        """The intermediate values of graphs lie in the same memory, so that replays may not overlap."""
        shape, nodes, last = (64, 512), [], "X"
        for i in range(12):
            nodes.append(helper.make_node(("Relu", "Sigmoid", "Tanh", "Exp")[i % 4], [last], [f"a{i}"]))
            nodes.append(helper.make_node("Softmax", [f"a{i}"], [f"b{i}"], axis=-1))
            last = f"b{i}"
        nodes.append(helper.make_node("Add", [last, "X"], ["Y"]))
        pair = Pair(model(nodes, {"X": shape}, {"Y": shape}))
        in_threads(THREADS, lambda i: [pair.check({"X": data(100 * i + run, *shape)}) for run in range(40)])

    def test_blocks(self):
        for made, shapes in (
            (blocks.transformer_block(joined=True), ((1, 3, 16), (2, 4, 16))),
            (blocks.transformer_block(joined=False), ((1, 3, 16), (2, 4, 16))),
            (blocks.convolutional_net(), ((1, 3, 8, 8), (3, 3, 8, 8))),
        ):
            pair = Pair(made)
            for i in range(20):
                pair.check({"X": data(i, *shapes[i % 2])})
            self.assertEqual(len(graphs_of(pair.captured)), 2)

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "requires /proc/self/statm of Linux")
    def test_nothing_grows(self):
        pair = Pair(blocks.transformer_block(joined=True))
        for i in range(1500):
            if i == 300:
                before = resident_bytes()
            pair.check({"X": data(i, 1 + i % 3, 4, 16)})
        self.assertLess(resident_bytes() - before, 2**20)


if __name__ == "__main__":
    unittest.main()
