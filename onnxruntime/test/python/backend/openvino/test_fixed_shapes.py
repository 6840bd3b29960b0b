# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the models whose runs may be parallel on OpenVINO, since the shapes of inputs decide all others."""

import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import _above
import onnx
from helpers.models import parsed
from onnx.backend.test.case import node
from onnx.shape_inference import infer_shapes

from onnxruntime.backend.openvino import fixed_shapes
from onnxruntime.backend.provider_names import OPENVINO
from onnxruntime.backend.session import presence

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


def session_of(made: onnx.ModelProto) -> SimpleNamespace:
    inputs = []
    for value in made.graph.input:
        shape = [size.dim_value or size.dim_param for size in value.type.tensor_type.shape.dim]
        inputs.append(SimpleNamespace(name=value.name, shape=shape))
    return SimpleNamespace(get_inputs=lambda: inputs)


def are_fixed(made: onnx.ModelProto) -> bool:
    return fixed_shapes.are_fixed(made, session_of(made))


class FixedShapesTest(unittest.TestCase):
    def test_models(self):
        for text in FIXED + NOT_FIXED:
            with self.subTest(text):
                self.assertIs(are_fixed(parsed(text, "com.microsoft")), text in FIXED)
        unknown = parsed(FIXED[1])
        unknown.graph.input[0].type.tensor_type.ClearField("shape")
        self.assertFalse(are_fixed(unknown))

    def test_operators_of_onnx(self):
        """In ONNX's tests of one node, onnx infers the outputs of an operator that counts as one with fixed shapes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = node.collect_testcases(None)
        checked, not_inferred = set(), set()
        for case in cases:
            if len(case.model.graph.node) != 1 or not are_fixed(case.model):
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
        free = parsed("(float[N] x) => (float[N] y) { y = Neg(x) }")
        for made, device, is_whole, plugin, why in (
            (fixed, "CPU", True, "", "^$"),
            (fixed, "AUTO:CPU", True, "CPU", "^$"),
            (fixed, "HETERO:GPU,CPU", True, "", "device"),
            (fixed, "CPU", True, "GPU", "device"),
            (fixed, "CPU", False, "", "whole graph"),
            (free, "CPU", True, "", r"\{'N': \.\.\.\}"),
            (onnx.ModelProto(), "CPU", True, "", "ONNX's format"),
            (parsed(NOT_FIXED[0]), "CPU", True, "", "not only"),
        ):
            device_of_plugin = mock.Mock(ep_name=OPENVINO)
            device_of_plugin.device.type.name = plugin
            devices = [device_of_plugin] if plugin else []
            with self.subTest(why), mock.patch.object(presence, "plugin_devices", lambda devices=devices: devices):
                self.assertRegex(fixed_shapes.why_serial(made, session_of(made), is_whole, device), why)


if __name__ == "__main__":
    unittest.main()
