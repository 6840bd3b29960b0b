# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of pairs of nodes that OpenVINO fuses or exchanges, and whose output then has another shape."""

from __future__ import annotations

import unittest

import numpy as np
from backend_test_execution_providers import CPU, OPENVINO, register_openvino_plugin
from backend_test_models import parsed
from onnx import ModelProto

import onnxruntime
from onnxruntime.backend.openvino import unsafe_models
from onnxruntime.backend.openvino.model_graph import Graph
from onnxruntime.backend.openvino.model_outline import outline
from onnxruntime.backend.openvino.unsafe_models import BUILT_IN, OF_MODELS, PLUGIN

BOTH = {BUILT_IN, PLUGIN}
CONCAT, ADDED, RESHAPED = "axis of a Concat", "after an Unsqueeze or Reshape", "and changes others"
AGAIN, MOVED = "repeats a reduction", "removes dimensions or moves one of size 1"
GATHERED, JOINED, SCALAR = "gathers from a dimension", "gathers from a Concat", "reshapes a value to a scalar"
# Axes, shapes, and indices, which each model has.
CONSTANTS = """int64[1] p = {0}, int64[1] q = {1}, int64[1] r = {2}, int64[1] m = {-1}, int64[1] n = {-2},
    int64[2] pp = {0,0}, int64[2] pq = {0,1}, int64[2] s13 = {1,3}, int64[2] s31 = {3,1}, int64[3] s122 = {1,2,2},
    int64[3] s123 = {1,2,3}, int64[3] s131 = {1,3,1}, int64[3] s213 = {2,1,3}, int64[3] s231 = {2,3,1},
    int64[4] s1122 = {1,1,2,2}, int64[2] s16 = {1,6}, int64[2] flat1 = {-1,1}, int64[3] s11f = {1,1,-1},
    int64[0] none = {}, int64 zero = {0}, bool t = {1}"""
BRANCHES = """y = If(b) <then_branch = t () => (float[A,B] v) { c = Concat<axis=0>(x, x) v = ReduceMin(c, p) },
    else_branch = e () => (float[A,B] w) { w = Abs(x) }>"""
WITH_UNSQUEEZE = (
    "c = Concat<axis=0>(x, x) v = ReduceMin(c, p)",
    "z = Constant<value_ints=[0]>() c = Unsqueeze(x, r) v = ReduceSum(c, z)",
)
# By inputs and nodes, the structure, and the forms of the EP for which the model is refused.
REFUSED = {
    "(float[2,3] x) { c = Concat<axis=0>(x, x) y = ReduceMax<keepdims=0>(c, p) }": (CONCAT, {BUILT_IN}),
    "(float[2,3] x) { c = Concat<axis=1>(x, x) y = ReduceMin(c, m) }": (CONCAT, {BUILT_IN}),
    "(float[2,3] x) { c = Concat<axis=0>(x, x) d = Dropout(c) y = ReduceMax(d, p) }": (CONCAT, {BUILT_IN}),
    "(float[2,3] x) { c = Concat<axis=0>(x, x) d = Where(t, c, c) y = ReduceMax(d, p) }": (CONCAT, {BUILT_IN}),
    "(float[2,3] x) { c = Concat<axis=0>(x, x) d = Concat<axis=1>(c) y = ReduceMax(d, p) }": (CONCAT, {BUILT_IN}),
    "(float[2,3] x) { c = Concat<axis=0>(x, x) d = Transpose(c) y = ReduceMax<keepdims=0>(d, q) }": (
        CONCAT,
        {BUILT_IN},
    ),
    f"(float[2,3] x, bool b) {{ {BRANCHES} }}": (CONCAT, {BUILT_IN}),
    f"(float[2,3] x, bool b) {{ {BRANCHES.replace(*WITH_UNSQUEEZE)} }}": (ADDED, BOTH),
    "(float[2,3] x) { u = Unsqueeze(x, r) y = ReduceSum(u, p) }": (ADDED, BOTH),
    "(float[2,3] x) { u = Unsqueeze(x, r) y = ReduceL2<keepdims=0>(u, n) }": (ADDED, BOTH),
    "(float[2,3] x) { u = Unsqueeze(x, r) d = Dropout(u) y = ReduceMean(d, p) }": (ADDED, BOTH),
    "(float[2,3] x) { u = Unsqueeze(x, r) d = Transpose<perm=[1,0,2]>(u) y = ReduceMean(d, q) }": (ADDED, BOTH),
    "(float[2,3] x) { u = Reshape(x, s231) y = ReduceProd(u, p) }": (ADDED, BOTH),
    "(float[4] x) { u = Reshape(x, s1122) y = ReduceSum(u, r) }": (RESHAPED, {BUILT_IN}),
    "(float[6] x) { u = Reshape(x, s213) y = ReduceMax<keepdims=0>(u, r) }": (RESHAPED, {BUILT_IN}),
    "(float[2,3,4] x) { a = ReduceMean<keepdims=0>(x, m) y = ReduceMean<keepdims=0>(a, m) }": (AGAIN, {BUILT_IN}),
    "(float[N,3,4] x) { a = ReduceSum<keepdims=0>(x, q) d = Dropout(a) y = ReduceSum<keepdims=0>(d, n) }": (
        AGAIN,
        {BUILT_IN},
    ),
    "(float[1,2,3] x) { a = ReduceMean<keepdims=0>(x, q) y = Reshape(a, s31) }": (MOVED, BOTH),
    "(float[N,3,1] x) { a = ReduceSumSquare<keepdims=0>(x, p) y = Transpose(a) }": (MOVED, BOTH),
    "(float[2,2,3] x) { a = ReduceMax<keepdims=0>(x, p) y = Reshape(a, s16) }": (MOVED, BOTH),
    "(float[A,B,C] x) { a = ReduceMean<keepdims=0>(x, q) y = Reshape(a, flat1) }": (MOVED, BOTH),
    "(float[2,2,3,2,2] x) { a = ReduceMean<keepdims=0>(x, pq) y = Reshape(a, s11f) }": (MOVED, BOTH),
    "(float[4,4,1] x) { a = ReduceMean<keepdims=0>(x, p) y = Flatten<axis=0>(a) }": (MOVED, BOTH),
    "(float[2,3,1] x) { a = Transpose<perm=[0,2,1]>(x) y = ReduceMax<keepdims=0>(a, p) }": (MOVED, BOTH),
    "(float[2,3,1] x) { a = Transpose<perm=[0,2,1]>(x) d = Add(a, a) y = ReduceMax<keepdims=0>(d, p) }": (MOVED, BOTH),
    """(float[N,1,M,2] x) { a = Transpose<perm=[3,2,0,1]>(x) d, i = TopK<axis=2>(a, q)
        c = Transpose<perm=[2,1,3,0]>(d) y = ReduceMean<keepdims=0>(c, m) }""": (MOVED, BOTH),
    """(float[2,3,1] x) { a = Transpose<perm=[0,2,1]>(x) c = Transpose<perm=[1,2,0]>(a)
        y = ReduceMean<keepdims=0>(c, r) }""": (MOVED, BOTH),
    "(float[2,3,1] x) { a = Transpose(x) y = ReduceSum<keepdims=0>(a, r) }": (MOVED, BOTH),
    "(float[N,M] x) { u = Unsqueeze(x, p) y = Gather<axis=0>(u, p) }": (GATHERED, BOTH),
    "(float[N,M] x) { u = Unsqueeze(x, r) d = Identity(u) y = Gather<axis=2>(d, pp) }": (GATHERED, BOTH),
    "(float[1] x) { c = Concat<axis=0>(x, x) y = Gather(c, q) }": (JOINED, BOTH),
    "(float[1,1] x) { v = Relu(x) c = Concat<axis=0>(x, v) d = Identity(c) y = Gather(d, p) }": (JOINED, BOTH),
}
# Refused, too. The EP is right with this output, and wrong if ``c`` is an output, too.
WITH_MORE_OUTPUTS = {"(float[1,1] x) { c = Concat<axis=0>(x) y = Gather(c, p) }": (JOINED, BOTH)}
PERMITTED = (
    "(float[2,3] x) { c = Concat<axis=0>(x, x) y = ReduceMax(c, q) }",
    "(float[2,3] x) { c = Concat<axis=0>(x, x) y = ReduceMax(c, pq) }",
    "(float[2,3] x) { c = Concat<axis=0>(x, x) y = ReduceSum(c, p) }",
    "(float[2,3] x) { c = Concat<axis=0>(x) y = ReduceMax(c, p) }",
    "(float[2,3] x) { c = Concat<axis=0>(x, x) d = Concat<axis=1>(c, c) y = ReduceMax(d, p) }",
    "(float[2,3] x) { c = Concat<axis=0>(x, x) d = Relu(c) y = ReduceMax(d, p) }",
    "(float[2,3] x) { u = Unsqueeze(x, p) y = ReduceSum(u, q) }",
    "(float[2,3] x) { u = Unsqueeze(x, r) y = ReduceSum<keepdims=0>(u, p) }",
    "(float[2,3] x) { u = Unsqueeze(x, r) y = ReduceSum(u) }",
    "(float[2,3] x) { u = Unsqueeze(x, r) d = Relu(u) y = ReduceSum(d, p) }",
    "(float[2,3] x) { u = Reshape(x, s123) y = ReduceMax(u, m) }",
    "(float[1,4] x) { u = Reshape(x, s122) y = ReduceSum(u, m) }",
    "(float[2,3,4] x) { a = ReduceMean<keepdims=0>(x, r) y = ReduceMean<keepdims=0>(a, q) }",
    "(float[2,3,4] x) { a = ReduceMean(x, m) y = ReduceMean<keepdims=0>(a, n) }",
    "(float[2,3,4] x) { a = ReduceMean<keepdims=0>(x, m) y = ReduceMean(a, m) }",
    "(float[2,3,4] x) { a = ReduceMax<keepdims=0>(x, m) y = ReduceSum<keepdims=0>(a, m) }",
    "(float[1,2,3] x) { a = ReduceMean<keepdims=0>(x, q) y = Reshape(a, s13) }",
    "(float[1,2,3] x) { a = ReduceMean<keepdims=0>(x, q) y = Reshape(a, s131) }",
    "(float[2,1,3] x) { a = ReduceMean<keepdims=0>(x, p) y = Reshape(a, s31) }",
    "(float[2,2,3,2] x) { a = ReduceMean<keepdims=0>(x, p) y = Reshape(a, s11f) }",
    "(float[N,2] x) { a = ReduceMean<keepdims=0>(x, q) y = Reshape(a, m) }",
    "(float[2,2,3] x) { a = ReduceMean<keepdims=0>(x, q) y = Transpose(a) }",
    "(float[1,2,3,1] x) { a = Transpose<perm=[3,1,2,0]>(x) c = Squeeze(a, p) y = ReduceMean<keepdims=0>(c, q) }",
    "(float[1,2,3] x) { a = Transpose<perm=[0,2,1]>(x) y = ReduceMean<keepdims=0>(a, q) }",
    "(float[2,3,4] x) { a = Transpose(x) y = ReduceMean<keepdims=0>(a, q) }",
    "(float[2,3] x) { u = Unsqueeze(x, p) y = Gather<axis=0>(u, p) }",
    "(float[N,M] x) { u = Unsqueeze(x, p) y = Gather<axis=0>(u, zero) }",
    "(float[N,M] x) { u = Unsqueeze(x, p) y = Gather<axis=1>(u, p) }",
    "(float[2] x) { c = Concat<axis=0>(x, x) y = Gather(c, pq) }",
    "(float[1] x) { c = Concat<axis=0>(x, x) y = Slice(c, p, q, p) }",
    "(float[1,3] x) { c = Concat<axis=0>(x, x) y = Gather(c, p) }",
    "(float[1,3] x) { s = Shape(x) c = Gather(s, p) d = Concat<axis=0>(c, q) i = Gather(d, p) y = Expand(x, i) }",
)
# The plugin EP terminates the process when it compiles these models.
TO_SCALARS = (
    "(float[1,3] x, float[3,1] z) { a = MatMul(x, z) y = Reshape(a, none) }",
    "(float[1,3] x, float[3,1] z) { a = Gemm(x, z) b = Neg(a) c = Reshape(b, q) y = Squeeze(c, p) }",
)


def model_of(text: str) -> ModelProto:
    inputs, nodes = text.split(" {", 1)
    made = parsed(f"{inputs} => (float y) <{CONSTANTS}> {{{nodes}")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def problem_of(made: ModelProto, form: str) -> str:
    return unsafe_models.problem(OF_MODELS, form, True, Graph(outline(made.SerializeToString())))


class FusionsTest(unittest.TestCase):
    def test_refused(self) -> None:
        for text, (expected, forms) in (REFUSED | WITH_MORE_OUTPUTS).items():
            for form in BOTH:
                with self.subTest(text, form=form):
                    found = problem_of(model_of(text), form)
                    self.assertEqual(expected in found, form in forms, found)

    def test_permitted(self) -> None:
        for text in PERMITTED:
            for form in BOTH:
                with self.subTest(text, form=form):
                    self.assertEqual(problem_of(model_of(text), form), "")

    def test_a_scalar_after_a_product_of_matrices(self) -> None:
        for text in TO_SCALARS:
            self.assertIn(SCALAR, problem_of(model_of(text), PLUGIN))
            self.assertEqual(problem_of(model_of(text), BUILT_IN), "")
        for text in (
            "(float[1,3] x, float[3,1] z) { a = MatMul(x, z) y = Squeeze(a) }",
            "(float[1,3] x, float[3,1] z) { a = MatMul(x, z) y = Reshape(a, q) }",
            "(float[1,1] x, float[1,1] z) { a = Add(x, z) y = Reshape(a, none) }",
            """(float[1,3] x, float[3,1] z) { a = MatMul(x, z) s = Shape(x) i = Gather(s, p) k = Reshape(i, none)
                c = Cast<to=1>(k) y = Add(a, c) }""",
        ):
            self.assertEqual(problem_of(model_of(text), PLUGIN), "")

    def test_a_long_chain_of_copies(self) -> None:
        """The time to check a model is linear in its nodes."""
        chain = " ".join(f"v{k + 1} = Reshape(v{k}, s13)" for k in range(3000))
        text = f"(float[1,3] x) {{ v0 = Identity(x) {chain} y = ReduceSum(v3000, m) }}"
        self.assertEqual(problem_of(model_of(text), BUILT_IN), "")


class OpenVinoTest(unittest.TestCase):
    """The EP itself, without the backend."""

    @classmethod
    def setUpClass(cls) -> None:
        """Find the form of the EP. A registration during the import would change what other test files find."""
        if not register_openvino_plugin() and OPENVINO not in onnxruntime.get_available_providers():
            raise unittest.SkipTest(f"needs {OPENVINO}, built-in or plugin")
        cls.devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == OPENVINO]

    def is_right(self, text: str) -> bool:
        made = model_of(text).SerializeToString()
        options = onnxruntime.SessionOptions()
        if self.devices:
            options.add_provider_for_devices(self.devices[:1], {})
        else:
            options.add_provider(OPENVINO, {})
        oracle = onnxruntime.InferenceSession(made, providers=[CPU])
        try:
            session = onnxruntime.InferenceSession(made, options)
        except Exception:  # some pairs also fail
            return False
        for first in range(20):  # memory that was not written can have the right value
            feeds = {}
            for node in oracle.get_inputs():
                shape = [2 if type(size) is str else size for size in node.shape]
                values = np.arange(first, first + np.prod(shape), dtype=np.float32).reshape(shape)
                feeds[node.name] = np.array(True) if "bool" in node.type else values
            (expected,) = oracle.run(None, feeds)
            try:
                (output,) = session.run(None, feeds)
            except Exception:
                return False
            if output.shape != expected.shape or not np.allclose(output, expected):
                return False
        return True

    def test_refused(self) -> None:
        form = PLUGIN if self.devices else BUILT_IN
        for text, (_, forms) in REFUSED.items():
            with self.subTest(text):
                self.assertEqual(self.is_right(text), form not in forms)

    def test_permitted(self) -> None:
        for text in PERMITTED:
            with self.subTest(text):
                self.assertTrue(self.is_right(text))


if __name__ == "__main__":
    unittest.main()
