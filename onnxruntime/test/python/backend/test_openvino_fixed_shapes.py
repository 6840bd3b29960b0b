# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the models whose runs may be parallel on OpenVINO, since the shapes of inputs decide all others."""

from __future__ import annotations

import unittest
import warnings
from unittest import mock

import onnx
from helpers.models import parsed
from onnx.backend.test.case import node
from onnx.shape_inference import infer_shapes

from onnxruntime.backend.openvino import fixed_shapes
from onnxruntime.backend.provider_names import CPU, OPENVINO

# Models in which the shapes of the inputs decide all others: of any operator, of constants, and of sizes.
FIXED = (
    "(float[2,4] x, int64[1,4] i) => (float[1,4] y) { y = GatherElements(x, i) }",
    "(float[2,4] x) => (float[4,2] y) <int64[2] c = {4, 2}> { y = Reshape(x, c) }",
    "(float[2,4] x) => (float[A,B] y) { c = Constant<value_ints=[2, -1]>() y = Reshape(x, c) }",
    """(float[2,4] x) => (float[A,B] y) <int64[1] two = {2}> {
        s = Shape(x) n = Div(s, two) y = Expand(x, n) }""",
    "(float[2] x) => (float[2] y) { y = ai.onnx.Neg(x) }",
)
BRANCHES = "<then_branch = t () => (float[2] v) { v = Neg(x) }, else_branch = e () => (float[2] v) { v = Abs(x) }>"
# Values decide shapes, inside the graph, too, or can decide them: in subgraphs, functions, and other domains.
NOT_FIXED = (
    "(float[2,4] x, int64[2] s) => (float[4,2] y) { y = Reshape(x, s) }",
    "(int64 n) => (int64[4] y) <int64 a = {0}, int64 b = {1}> { y = Range(a, n, b) }",
    "(float[2,4] x) => (int64[2,8] y) { y = NonZero(x) }",
    "(float[2,4] x) => (int64[2] y) <int64[1] o = {1}> { a = NonZero(x) y = ReduceSum<keepdims=0>(a, o) }",
    f"(float[2] x, bool b) => (float[2] y) {{ y = If(b) {BRANCHES} }}",
    "(float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }",
    """(float[2,4] x) => (float[A,B] y) {
        s = RandomUniform<shape=[2]>() t = Cast<to=7>(s) y = Reshape(x, t) }""",
    """(float[2] x) => (int64[A,B] y) { y = Neg(x) }
        <domain: "", opset_import: ["": 21]> Neg (x) => (y) { y = NonZero(x) }""",
)


class FixedShapesTest(unittest.TestCase):
    def test_models(self):
        for text in FIXED + NOT_FIXED:
            with self.subTest(text):
                self.assertIs(fixed_shapes.are_fixed(parsed(text, "com.microsoft")), text in FIXED)
        unknown = parsed(FIXED[1])
        unknown.graph.input[0].type.tensor_type.ClearField("shape")
        self.assertFalse(fixed_shapes.are_fixed(unknown))

    def test_operators_of_onnx(self):
        """In ONNX's tests of one node, onnx infers the outputs of an operator that counts as one with fixed shapes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = node.collect_testcases(None)
        checked, not_inferred = set(), set()
        for case in cases:
            if len(case.model.graph.node) != 1 or not fixed_shapes.are_fixed(case.model):
                continue
            operator = case.model.graph.node[0].op_type
            checked.add(operator)
            for value in case.model.graph.output:
                value.type.tensor_type.ClearField("shape")
            for value in infer_shapes(case.model).graph.output:
                shape = value.type.tensor_type
                if not shape.HasField("shape") or any(not size.HasField("dim_value") for size in shape.shape.dim):
                    not_inferred.add(operator)
        self.assertLessEqual(not_inferred, {"GroupNormalization", "MeanVarianceNormalization"})  # of the input's shape
        self.assertGreater(len(checked), 100)

    def test_why_runs_are_serial(self):
        fixed = parsed("(float[2] x) => (float[2] y) { y = Neg(x) }")
        whole = [OPENVINO]
        for examined, model, size, eps, why in (
            (True, fixed, 2, whole, "^$"),
            (True, fixed, 2, [CPU], "^$"),
            (True, fixed, 2, [OPENVINO, CPU], "whole graph"),
            (True, fixed, "N", whole, r"\{'N': \.\.\.\}"),
            (False, fixed, 2, whole, "release"),
            (True, onnx.ModelProto(), 2, whole, "ONNX's format"),
            (True, parsed(NOT_FIXED[1]), 2, whole, "not only"),
        ):
            session = mock.Mock()
            session.get_inputs.return_value = [mock.Mock(shape=[size])]
            session.get_provider_graph_assignment_info.return_value = [mock.Mock(ep_name=ep) for ep in eps]
            with self.subTest(why, eps=eps), mock.patch.object(fixed_shapes, "_is_examined", return_value=examined):
                self.assertRegex(fixed_shapes.why_serial(model, session), why)


if __name__ == "__main__":
    unittest.main()
