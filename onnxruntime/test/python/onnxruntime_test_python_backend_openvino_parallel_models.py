# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the models that OpenVINO may run in parallel, and of the operators in the lists."""

from __future__ import annotations

import os
import sys
import unittest
from unittest import mock

from backend_test_children import run_code
from backend_test_models import parsed
from onnx import helper

import onnxruntime
from onnxruntime.backend.openvino import parallel_models
from onnxruntime.backend.openvino.model_graph import Graph
from onnxruntime.backend.openvino.replacement import Origin
from onnxruntime.backend.provider_names import OPENVINO

PERMITTED = {
    "any values": "(float[N,4] x, int64[M] i) => (float[M,4] y) { a = Gather(x, i) y = Neg(a) }",
    "constants": "(float[N,4] x) => (float[A,B] y) <int64[2] c = {2, -1}> { y = Reshape(x, c) }",
    "a constant of a node": "(float[N,4] x) => (float[A,B] y) { c = Constant<value_ints=[2, -1]>() y = Reshape(x, c) }",
    "sizes": """(float[N,4] x, float[M,2] z) => (float[A,B] y) <int64[1] two = {2}, int64 zero = {0}> {
        s = Shape(z) n = Gather(s, zero) m = Unsqueeze(n, zero) t = Concat<axis=0>(m, two) y = Reshape(x, t) }""",
    "any operator on sizes": """(float[N,4] x) => (float[A,B] y) <int64[1,1] i = {0}, int64[1] one = {1}> {
        s = Shape(x) t = ScatterND(s, i, one) y = Expand(x, t) }""",
    "an initializer that is an input": """(float[N,4] x, int64[2] c) => (float[A,B] y) <int64[2] c = {2, -1}> {
        y = Reshape(x, c) }""",
    "a number that is no type": "(float[N,9,4,4] x) => (float[N,9,4,4] y) { y = LRN<size=8>(x) }",
    "the default type": """(float[N] x) => (uint8[N] y) <float s = {1}, uint8 z = {0}> {
        y = QuantizeLinear<output_dtype=0>(x, s, z) }""",
    "the domain's other name": "(float[N] x) => (float[N] y) { y = ai.onnx.Neg(x) }",
}
BRANCHES = """<then_branch = t () => (float[N] v) { v = Neg(x) }, else_branch = e () => (float[N] v) { v = Abs(x) }>"""
REFUSED = {
    "a shape from an input": "(float[N,4] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }",
    "a shape from a value": """(float[N,4] x, float z) => (float[A,B] y) <float one = {1}> {
        a = Add(z, one) i = Cast<to=7>(a) s = Concat<axis=0>(i, i) y = Reshape(x, s) }""",
    "an operator with a check": "(float[N,4] x, int64[1,4] i) => (float[1,4] y) { y = GatherElements(x, i) }",
    "a shape from the values": "(float[N,4] x) => (int64[A,B] y) { y = NonZero(x) }",
    "another domain": "(float[N] x) => (float[N] y) { y = com.microsoft.Gelu(x) }",
    "a type that was not tested": "(bfloat16[N] x) => (bfloat16[N] y) { y = Neg(x) }",
    "a cast to text": "(float[N] x) => (string[N] y) { y = Cast<to=8>(x) }",
    "quantization to a type that was not tested": """(float[N] x) => (int4[N] y) <float s = {1}, int4 z = {0}> {
        y = QuantizeLinear(x, s, z) }""",
    "random numbers": """(float[N,4] x) => (float[A,B] y) {
        s = ai.onnx.RandomUniform<shape=[2]>() t = Cast<to=7>(s) y = Reshape(x, t) }""",
    "random numbers of Dropout": """(float[N,4] x) => (float[A,B] y) <
        float[2] c = {2, 2}, float r = {0.5}, bool b = {1}> {
        d = Dropout(c, r, b) t = Cast<to=7>(d) y = Reshape(x, t) }""",
    "a subgraph": f"(float[N] x, bool b) => (float[N] y) {{ y = If(b) {BRANCHES} }}",
    "a subgraph with a constant condition": f"(float[N] x) => (float[N] y) <bool b = {{1}}> {{ y = If(b) {BRANCHES} }}",
    "a sequence": "(seq(float[N]) x, int64[M] i) => (float[M,4] y) { a = Gather(x, i) y = Neg(a) }",
    "a function of the model with the name of an operator": """(float[N] x) => (int64[A,B] y) { y = Neg(x) }
        <domain: "", opset_import: ["": 21]> Neg (x) => (y) { y = NonZero(x) }""",
}


class OnlyShapesDecideTest(unittest.TestCase):
    def test_models(self) -> None:
        for expected, models in ((True, PERMITTED), (False, REFUSED)):
            for name, text in models.items():
                with self.subTest(name):
                    self.assertIs(parallel_models.only_shapes_decide(Graph(parsed(text, "com.microsoft"))), expected)

    def test_why_runs_are_serial(self) -> None:
        fixed = parsed("(float[2] x) => (float[2] y) { y = Neg(x) }")
        permitted, refused = (
            parsed(models, "com.microsoft") for models in (PERMITTED["any values"], REFUSED["a sequence"])
        )
        for known, model, threads, most, why in (
            (True, fixed, "", sys.maxsize, "^$"),
            (True, permitted, "", 1, "free_dimension_overrides"),
            (True, permitted, "3", 3, "^$"),
            (True, refused, "3", 1, "shapes"),
            (False, fixed, "3", 1, "release"),
            (True, None, "3", 1, "not in ONNX's format"),
        ):
            examined = mock.patch.object(parallel_models, "is_known", return_value=known)
            with self.subTest(why, most=most), examined:
                content = b"no model" if model is None else model.SerializeToString()
                session = mock.Mock(**{"get_provider_graph_assignment_info.return_value": []})
                session.get_inputs.return_value = [mock.Mock(shape=["N"])]
                session.get_outputs.return_value = []
                options = session.get_session_options.return_value = onnxruntime.SessionOptions()
                if threads:
                    options.add_session_config_entry(f"ep.{OPENVINO.lower()}.num_of_threads", threads)
                found = Origin(content, None).parallel_runs(session)
                self.assertEqual(found[0], most)
                self.assertRegex(found[1], why)

    def test_models_with_free_dimensions(self) -> None:
        """A free dimension with a size is fixed, and an input without a shape is not."""
        session = mock.Mock(**{"get_session_options.return_value": onnxruntime.SessionOptions()})
        text = "(float[N,3] x, float[2] z) => (float[A] y) { y = Abs(z) }"
        unknown = parsed(text)
        unknown.graph.input[1].type.tensor_type.ClearField("shape")
        for model, sizes, expected in (
            (parsed(text), {}, 1),
            (parsed(text), {"N": 4}, sys.maxsize),
            (unknown, {"N": 4}, 1),
        ):
            self.assertEqual(parallel_models.most_parallel(session, Graph(model, sizes)), expected)

    def test_only_the_listed_inputs_may_vary(self) -> None:
        """Each operator with deciding inputs is refused with one that varies."""
        for operator, all_may_vary in parallel_models.OPERATORS.items():
            node = helper.make_node(operator, ["x", "c"], ["y"])
            made = parsed("(float[N] x, int64[1] c) => (float[N] y) { y = Neg(x) }")
            made.graph.node[0].CopyFrom(node)
            with self.subTest(operator):
                self.assertIs(parallel_models.only_shapes_decide(Graph(made)), all_may_vary)


RUN_EACH_OPERATOR = """if True:
    import backend_parallel_operators
    from onnxruntime.backend.openvino.parallel_models import OPERATORS

    for operator in OPERATORS:
        clipped = {result for _, result in backend_parallel_operators.results(operator, ("float",), clip=True)} - {""}
        if clipped:
            print(operator, clipped, "with a Clip")
        for kind in ("float", "bool", "int8"):
            found = {result for _, result in backend_parallel_operators.results(operator, (kind,))} - {"CPU"}
            if found:
                break
        if found != {""}:
            print(operator, found)
"""


@unittest.skipUnless(OPENVINO in onnxruntime.get_available_providers(), f"this ORT was built without {OPENVINO}")
@unittest.skipUnless(hasattr(os, "fork"), "runs each operator in a fork")
class OperatorsTest(unittest.TestCase):
    def test_no_value_fails_a_run(self) -> None:
        """One type of each operator, and a Clip after it. The program tests all types."""
        ran = run_code(RUN_EACH_OPERATOR)  # without sessions, whose threads its forks would lack
        self.assertEqual((ran.returncode, ran.stdout), (0, ""), ran.stderr)


if __name__ == "__main__":
    unittest.main()
