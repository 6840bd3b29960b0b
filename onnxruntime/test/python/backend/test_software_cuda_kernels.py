# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Compares each kernel of the software CUDA (with_software_cuda.sh) with the CPU EP."""

import itertools
import unittest
import warnings

import numpy as np
from campaigns.captured_variants import Variant, Variants, on_software_cuda, rows, sizes_of
from helpers.models import model
from onnx import ModelProto, NodeProto, helper
from test_software_cuda import CPU, EP, ON_SOFTWARE_CUDA

import onnxruntime
import onnxruntime.backend


def node(operator: str, *inputs: str, output: str = "Y", **attributes) -> NodeProto:
    return helper.make_node(operator, list(inputs), [output], **attributes)


def run(made: ModelProto, inputs: dict) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nodes that ORT keeps on the CPU
        # As bytes, so that ORT infers the types of the outputs.
        source = made.SerializeToString()
        return onnxruntime.backend.run(source, inputs, provider_options={EP: {"use_tf32": False}})


class Kernels(Variants):
    """The models of one operator that WebGPU's tests have, further ones, and a few operators that ORT fuses."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(0)
        self.all += on_software_cuda()
        self.elementwise()
        self.layout()
        self.indexing()
        self.reductions()
        self.products_and_pools()

    def fused(self, *nodes: NodeProto, inputs: str) -> None:
        """Add a model whose inputs have names and shapes such as ``X3x4``."""
        shapes = {text[0]: sizes_of(text[1:]) for text in inputs.split()}
        feeds = {name: self.floats(sizes) for name, sizes in shapes.items()}
        name = " ".join(node.op_type for node in nodes)
        self.all.append(Variant(name, inputs, model(nodes, shapes, {"Y": None}), feeds))

    def elementwise(self) -> None:
        for operator in ("Round", "Softsign", "Sign", "Selu", "IsNaN", "Gelu"):
            self.add(operator, (self.floats((3, 4)) * 2,))
        kinds = (np.int64, np.int32)
        binary = "Add Sub Mul Div Pow Max Min Equal Less Greater LessOrEqual GreaterOrEqual"
        for operator, kind in itertools.product(binary.split(), kinds):
            left = self.integers(-9, 9, 3, 4).astype(kind)
            right = self.integers(1, 4, 4).astype(kind)
            self.add(operator, (left, right))
        for operator in ("Or", "Xor"):
            self.add(operator, (self.floats((3, 4)) > 0, self.floats((4,)) > 0))
        self.add("Mod", (self.integers(-9, 9, 3, 4), np.array([3, -3, 2, -2])))
        self.add("Mod", (self.floats((3, 4)) * 9, (4,)), fmod=1)
        for operator in ("Sum", "Mean"):
            self.add(operator, ((3, 4),) * 3)
        kinds = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_)
        for source, kind in itertools.product(kinds, kinds):
            to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            self.add("Cast", ((np.abs(self.floats((3, 4))) * 5).astype(source),), to=to)

    def layout(self) -> None:
        for widths in ((4, 2), (4, 4), (4, 2, 1), (2, 3, 1, 4, 5), (2,) * 36, (1, 2, 3) * 12):
            self.add("Concat", tuple((3, width) for width in widths), axis=1)
            for shape in ((3, sum(widths)), (2, sum(widths), 3)):
                self.add("Split", (shape,), np.array(widths), outputs=len(widths), axis=1)
        self.add("Tile", ((2, 3, 2),), np.array([1, 3, 1]))

    def indexing(self) -> None:
        for x, indices, (axis,) in rows("3x4 2x4 0, 2x3x4 2x2x4 1"):
            self.add("GatherElements", (x, self.integers(-2, 2, *indices)), axis=axis)
        for reduction in ("add", "mul", "max", "min"):
            self.add("ScatterND", ((4, 4), np.array([[0], [-2]]), (2, 4)), reduction=reduction)
        self.add("ScatterElements", ((3, 4), self.integers(-2, 2, 2, 4), (2, 4)), axis=0)
        self.add("OneHot", (np.array([0, -1, 7]),), np.array([4]), np.array([0, 1], np.float32))

    def reductions(self) -> None:
        for x, (axis,) in rows("3x4 -1, 2x3x4 1, 2x1500 -1, 3x4 0"):
            self.add("LogSoftmax", (x,), axis=axis)
        for bias in ("1x1x4x4", "2x1x4x4", "2x1x1x4", "2x3x4x4"):
            nodes = node("Add", "X", "Z", output="A"), node("Softmax", "A", axis=-1)
            self.fused(*nodes, inputs=f"X2x3x4x4 Z{bias}")
        self.add("LpNormalization", ((2, 8),), p=1)
        for operator in ("Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum"):
            for sizes, axes in rows("3x4 -1, 3x4 0, 2x3x4 1, 2x3x4 0x2, 3x4 0x1"):
                x = np.abs(self.floats(sizes)) + np.float32(0.5)
                self.add(f"Reduce{operator}", (x,), np.array(axes), keepdims=len(axes) % 2)
        for axes in ((0, 2), (1,), (0, 1, 2)):
            self.add("ReduceSum", (self.integers(-9, 9, 2, 3, 4),), np.array(axes))

    def products_and_pools(self) -> None:
        for kind in (np.float64, np.float16):
            self.add("MatMul", (self.floats((3, 4)).astype(kind), self.floats((4, 5)).astype(kind)))
        for bias, options in (
            ((5,), {}),
            ((1,), {}),
            ((3, 1), {}),
            ((3, 5), {"beta": 2.0}),
            ((5,), {"alpha": 0.5, "beta": 3.0}),
        ):
            self.add("Gemm", ((3, 4),), self.floats((4, 5)), self.floats(bias), **options)
        self.add("Gemm", ((4, 3),), self.floats((5, 4)), transA=1, transB=1)
        padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        self.add("MaxPool", ((2, 3, 5, 5),), strides=[2, 2], **padded)
        self.add("AveragePool", ((2, 3, 5, 5),), count_include_pad=1, **padded)

    def integers(self, low: int, high: int, *sizes: int) -> np.ndarray:
        return self.random.integers(low, high, sizes)


@unittest.skipUnless(ON_SOFTWARE_CUDA, "not on the software CUDA")
class KernelTest(unittest.TestCase):
    def test_kernels_compute_what_the_cpu_ep_computes(self):
        for operator, name, made, inputs in Kernels().all:
            for output in made.graph.output:
                output.ClearField("type")
            with self.subTest(f"{operator} {name}"):
                on_cpu = onnxruntime.InferenceSession(made.SerializeToString(), providers=[CPU]).run(None, inputs)
                tolerance = 1e-2 if any(array.dtype == np.float16 for array in on_cpu) else 1e-4
                for got, expected in zip(run(made, inputs), on_cpu, strict=True):
                    self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
                    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


if __name__ == "__main__":
    unittest.main()
