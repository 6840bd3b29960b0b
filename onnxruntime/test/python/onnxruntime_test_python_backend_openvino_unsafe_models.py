# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the structures that are refused on OpenVINO, and of the outline of a model in which they are searched."""

from __future__ import annotations

import tempfile
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
from backend_openvino_graphs import MEMORY, WRONG, results
from backend_test_execution_providers import CPU, OPENVINO
from backend_test_models import parsed
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.openvino import unsafe_models
from onnxruntime.backend.openvino.model_graph import Graph, Parts
from onnxruntime.backend.openvino.model_outline import outline
from onnxruntime.backend.openvino.unsafe_models import BUILT_IN, OF_MODELS, OF_PARTS, PLUGIN

NOT_READ, COPY, ONE_INPUT = "may not be read", "is a copy, with a cast", "has one input"
CLIP = "follows a node that the EP may not convert"
CASTS, OUTPUT = "and two casts", "and the copy is an output"
SECOND = "repeats a second dimension of size 1"
TILE, SCALAR, ABS = "has repeats that are not constant", "expands a scalar", "is an output of Concat"
IDENTITIES = """<then_branch = t () => (float[N] v) { v = Identity(x) }, else_branch = e () => (float[N] w) {
    w = Identity(x) }>"""
ATTENTION = """(float[1,2,TOKENS,4] q, float[1,2,4,TOKENS] k, float[1,2,TOKENS,4] v) => (float[1,TOKENS,2,4] y) {
    m = MatMul(q, k) p = Softmax(m) o = MatMul(p, v) y = Transpose<perm=[0,2,1,3]>(o) }"""
BRANCH = """(bool b, float[N] u) => (float[A] y) { x = Exp(u) c = If(b) <
    then_branch = t () => (float[N] v) { v = COPY },
    else_branch = e () => (float[N] w) { w = Exp(x) }> y = Relu(c) }"""
OF_FREE = "<then_branch = t () => (float[N] v) { v = Sin(x) }, else_branch = e () => (float[N] w) { w = Exp(x) }>"
OF_TWO = OF_FREE.replace("N", "2")
LOOP = """z = Loop(n, b, x) <body = loop (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
    d = Identity(c) t = Identity(s) }>"""
# By model, the structure, and the forms of the EP for which it is refused.
REFUSED = {
    "(float[N] x) => (float[A] y) { y = Cast<to=1>(x) }": (COPY, {BUILT_IN, PLUGIN}),
    "(float[N] x) => (float[A] y) { z = Cast<to=10>(x) v = Cast<to=1>(z) y = Identity(v) }": (COPY, {BUILT_IN, PLUGIN}),
    "(float[N] x, float[M] z) => (float[A] y) { y = CastLike(x, z) }": (COPY, {BUILT_IN, PLUGIN}),
    "(float[N] x) => (float[A] y) <float o = {1}> { z = Mul(x, o) y = Cast<to=1>(z) }": (COPY, {BUILT_IN, PLUGIN}),
    "(float[N] x, float[N] u) => (float[A] y) <bool t = {1}> { v = Abs(u) z = Cast<to=1>(x) y = Where(t, z, v) }": (
        COPY,
        {BUILT_IN, PLUGIN},
    ),
    "(bool[N] x) => (bool[A] y, bool[B] z) <int64[1] r = {1}> { y = Identity(x) z = Tile(x, r) }": (
        COPY,
        {BUILT_IN, PLUGIN},
    ),
    **{
        f"({kind}[N] x) => ({kind}[A] y, {kind}[B] z) <int64[1] r = {{1}}> {{ y = Identity(x) z = Tile(x, r) }}": (
            COPY,
            {BUILT_IN, PLUGIN},
        )
        for kind in ("float16", "int16", "uint16", "uint32")
    },
    "(uint32[1] x) => (bool[1] y) <uint32[1] k = {1}> { y = Equal(x, k) }": ("reads none of its values", {BUILT_IN}),
    "(uint32[1] x) => (bool[1] y) { k = Constant<value = uint32[1] {1}>() y = Equal(x, k) }": (
        "reads none of its values",
        {BUILT_IN},
    ),
    f"(float[N] x, bool b) => (float[A] y) {{ y = If(b) {IDENTITIES} }}": (COPY, {BUILT_IN, PLUGIN}),
    **{
        f"(float[N] x, float[N] z) => (float[A] y) {{ c = Cast<to=1>(x) y = {operator}(c, z) }}": (
            COPY,
            {BUILT_IN, PLUGIN},
        )
        for operator in ("Max", "Mean", "Min", "Sum")
    },
    BRANCH.replace("COPY", "Identity(x)"): ("has a branch that returns", {BUILT_IN}),
    "(float16[3] x) => (float16[3] y, float[3] z) { y = Identity(x) z = Cast<to=1>(y) }": (OUTPUT, {BUILT_IN}),
    "(int64[3] x) => (int64[3] y, int32[3] z) { y = Identity(x) c = Identity(y) d = Cast<to=6>(c) z = Neg(d) }": (
        OUTPUT,
        {BUILT_IN},
    ),
    f"(float[N] x, bool b) => (float[A] y) {{ z = If(b) {OF_FREE} c = Cast<to=6>(z) y = Cast<to=1>(c) }}": (
        CASTS,
        {BUILT_IN, PLUGIN},
    ),
    f"""(float[N] x, bool b) => (int32[A] y) <float s = {{1}}, uint8 o = {{0}}> {{ z = If(b) {OF_FREE}
        c = QuantizeLinear(z, s, o) d = Identity(c) e = Cast<to=6>(d) y = Neg(e) }}""": (CASTS, {BUILT_IN, PLUGIN}),
    "(float[2] a, float[2] b) => (float[2] y) { y = Neg(b) }": (NOT_READ, {BUILT_IN}),
    "(float[2] a, float[3] b) => (float[3] y) { y = CastLike(b, a) }": (NOT_READ, {BUILT_IN}),
    "(float[2] a, float[2] b) => (float[2] y) { dead = Abs(a) y = Neg(b) }": (NOT_READ, {BUILT_IN}),
    "(float[2] a, float[2] b) => (float[2] y, int64[1] s) { s = Shape(a) y = Neg(b) }": (NOT_READ, {BUILT_IN}),
    "(float[2] a, float[2] b) => (float[2] y) <bool t = {0}> { y = Where(t, a, b) }": (NOT_READ, {BUILT_IN}),
    "(float[2] x) => (float[2] y) { y = Max(x) }": (ONE_INPUT, {BUILT_IN, PLUGIN}),
    "(float[2] x) => (float[2] y) { z = Neg(x) s = Sum(z) y = Neg(s) }": (ONE_INPUT, {BUILT_IN, PLUGIN}),
    "(float[2] x) => (float[2] y, float[2] z) { y = Mean(x) z = Add(x, x) }": (ONE_INPUT, {BUILT_IN, PLUGIN}),
    "(float[1,2,3,4] x, int64[4] r) => (float[A,B,C,D] y) { y = Tile(x, r) }": (TILE, {BUILT_IN, PLUGIN}),
    "(float[N,1,2,3] x) => (float[A,B,C,D] y) <int64[4] r = {1,2,1,2}> { y = Tile(x, r) }": (SECOND, {PLUGIN}),
    "(float[2,1,3,N,4] x) => (float[A,B,C,D,E] y) { r = Shape(x) y = Tile(x, r) }": (SECOND, {PLUGIN}),
    "(float[9] x) => (int64[4,A] y) <int64[4] o = {1,1,1,1}> { s = Shape(x) r = Reshape(s, o) y = NonZero(r) }": (
        "returns wrong indices",
        {PLUGIN},
    ),
    "(float x) => (float y) <int64[0] e = {}> { y = Expand(x, e) }": (SCALAR, {BUILT_IN, PLUGIN}),
    "(float x) => (float y) { s = Shape(x) y = Expand(x, s) }": (SCALAR, {BUILT_IN, PLUGIN}),
    "(int8 x) => (int64[0] y) { y = Shape(x) }": ("is the shape of a scalar", {BUILT_IN}),
    "(float[2] x) => (int64[0] y) { z = Size(x) y = Shape(z) }": ("is the shape of a scalar", {BUILT_IN}),
    "(float[2] x) => (float[4] y, float[4] z) { y = Concat<axis=0>(x, x) z = Abs(y) }": (ABS, {BUILT_IN, PLUGIN}),
    "(int64[2] x) => (int64[2] y) { y = Clip(x) }": ("clips int64", {BUILT_IN}),
    f"(float[2] x) => (float[2] y) <int64 n = {{2}}, bool b = {{1}}> {{ {LOOP} y = Clip(z) }}": (
        CLIP,
        {BUILT_IN, PLUGIN},
    ),
    "(float[2] x, float m) => (float[2] y) { a = Celu(x) b = Relu(a) y = Clip(b, m) }": (CLIP, {BUILT_IN, PLUGIN}),
    "(float[2] x, float m) => (float[2] y) { a = Celu(x) y = Clip(a, , m) }": (CLIP, {BUILT_IN, PLUGIN}),
    "(float[2] x) => (float[2] a, float[2] y) { a = other.Abs(x) y = Clip(a) }": (CLIP, {BUILT_IN, PLUGIN}),
    "(float[1,1,4,4] x) => (float[A,B,C,D] y) { a, i = MaxPool<kernel_shape=[2,2]>(x) y = Clip(a) }": (
        CLIP,
        {BUILT_IN, PLUGIN},
    ),
    "(uint32[2] x) => (uint32[2] y) { y = Clip(x) }": (CLIP, {BUILT_IN, PLUGIN}),
    """(float[2] x, bool b) => (float[2] y) { y = If(b) <then_branch = t () => (float[2] v) { v = Clip(x) },
        else_branch = e () => (float[2] w) { w = Abs(x) }> }""": (CLIP, {BUILT_IN, PLUGIN}),
    ATTENTION.replace("TOKENS", "2"): ("as many heads as tokens", {BUILT_IN, PLUGIN}),
    ATTENTION.replace("TOKENS", "2").replace("p = Softmax(m)", "w = Softmax(m) p = Identity(w)"): (
        "as many heads as tokens",
        {BUILT_IN, PLUGIN},
    ),
}
PERMITTED = (
    f"(float[2] x, bool b) => (float[2] y) {{ z = If(b) {OF_TWO} c = Cast<to=6>(z) y = Cast<to=1>(c) }}",
    f"(float[N] x, bool b) => (int32[A] y) {{ z = If(b) {OF_FREE} y = Cast<to=6>(z) }}",
    f"(float[N] x, bool b) => (float[A] y) {{ z = If(b) {OF_FREE} c = Cast<to=6>(z) d = Sign(c) y = Cast<to=1>(d) }}",
    BRANCH.replace("N", "2").replace("A]", "2]").replace("COPY", "Identity(x)"),
    BRANCH.replace("COPY", "Sin(x)"),
    "(float[2] x) => (float[2] y) { y = Mean(x) }",
    ATTENTION.replace("TOKENS", "3"),
    ATTENTION.replace("TOKENS", "N"),
    "(float[2] x) => (float[2] y) { y = Cast<to=1>(x) }",
    "(float[N] x) => (float[A] y) { z = Relu(x) y = Cast<to=1>(z) }",
    "(float[N] x) => (int32[A] y) { y = Cast<to=6>(x) }",
    "(float[N] x) => (float[A] y) <float o = {2}> { z = Mul(x, o) y = Cast<to=1>(z) }",
    "(float[N] x, float[N] z) => (float[A] y) { s = Add(x, z) y = Cast<to=1>(s) }",
    "(float[N] x) => (float[A] y) { y = Identity(x) }",
    "(float16[3] x) => (float16[3] y, float[3] z) { y = Identity(x) z = Cast<to=1>(x) }",
    "(float16[3] x) => (float16[3] y, float[3] z) { y = Relu(x) z = Cast<to=1>(y) }",
    "(float16[3] x) => (float[3] z) { y = Identity(x) z = Cast<to=1>(y) }",
    "(float[3] x) => (float[3] y, int32[3] z) { y = Identity(x) z = Cast<to=6>(y) }",
    *(
        f"({kind}[N] x) => ({kind}[A] y, {kind}[B] z) <int64[1] r = {{1}}> {{ y = Identity(x) z = Tile(x, r) }}"
        for kind in ("float", "double", "int8", "int32", "int64", "uint8")
    ),
    "(bool[N] x) => (bool[A] y) { y = Identity(x) }",
    "(float[2] a, float[2] b) => (float[2] y) { y = Neg(a) }",
    "(float[2] a, float[2] b) => (float[2] y) { y = Sub(a, b) }",
    "(float[2] x) => (float[2] y) { y = Max(x, x) }",
    "(float[1,2] x, int64[2] r) => (float[A,B] y) { y = Tile(x, r) }",
    "(float[1,2,3,4] x) => (float[A,B,C,D] y) <int64[4] r = {1,1,1,2}> { y = Tile(x, r) }",
    *(
        f"(float[{shape}] x) => (float[A,B,C,D] y) <int64[4] r = {repeats}> {{ y = Tile(x, r) }}"
        for shape, repeats in (
            ("2,1,2,3", "{1,2,1,2}"),
            ("N,M,2,3", "{1,2,1,2}"),
            ("N,1,2,3", "{2,1,2,2}"),
            ("N,1,2,3", "{2,2,1,1}"),
        )
    ),
    "(float[9] x) => (int64[3,A] y) <int64[3] o = {1,1,1}> { s = Shape(x) r = Reshape(s, o) y = NonZero(r) }",
    "(float[9,2,2,2] x) => (int64[4,A] y) <int64[4] o = {1,1,2,2}> { s = Shape(x) r = Reshape(s, o) y = NonZero(r) }",
    "(float[1,1,1,1] x) => (int64[4,A] y) { y = NonZero(x) }",
    "(float[2] x) => (float[2,2] y) <int64[2] e = {2,2}> { y = Expand(x, e) }",
    "(float[2] x) => (float[A] y) <int64[1] e = {-1}> { z = Reshape(x, e) s = Shape(z) y = Expand(z, s) }",
    "(float[2] x) => (float[4] y, float[4] z) { y = Concat<axis=0>(x, x) z = Neg(y) }",
    "(int64[2] x) => (int64[2] y) <int64 l = {0}, int64 h = {9}> { y = Clip(x, l, h) }",
    "(float[2] x) => (float[2] y) { a = Abs(x) y = Clip(a) }",
    "(float[2] x) => (float[2] y) <float l = {0}, float h = {9}> { a = Celu(x) y = Clip(a, l, h) }",
    """(float[1,2,3,4] x, bool b) => (float[A,B,C,D] y) <int64[4] r = {1,1,1,2}> { y = If(b) <
        then_branch = t () => (float[A,B,C,D] v) { t = Sin(x) v = Tile(t, r) },
        else_branch = e () => (float[A,B,C,D] w) { w = Abs(x) }> }""",
)


def session_of(model: ModelProto, parts: list[tuple[str, list[tuple[str, str]]]]) -> SimpleNamespace:
    """Return a session that reports these parts of the graph: the EP, and the names and operators of the nodes."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[CPU])
    recorded = []
    for ep, nodes in parts:
        of_part = [SimpleNamespace(name=name, op_type=operator) for name, operator in nodes]
        recorded.append(SimpleNamespace(ep_name=ep, get_nodes=lambda of_part=of_part: of_part))
    return SimpleNamespace(
        get_inputs=session.get_inputs,
        get_outputs=session.get_outputs,
        get_provider_graph_assignment_info=lambda: recorded,
    )


def problem_of(model: ModelProto, form: str, parts: list | None = None, examined: bool = True) -> str:
    graph = Graph(outline(model.SerializeToString()))
    found = unsafe_models.problem(OF_MODELS, form, examined, graph)
    if found:
        return found
    whole = [(OPENVINO, [(node.name, node.op_type) for node in model.graph.node])]
    facts = Parts(graph, session_of(model, parts or whole))
    return unsafe_models.problem(OF_PARTS, form, examined, graph, facts)


class StructuresTest(unittest.TestCase):
    def test_refused(self) -> None:
        for text, (expected, forms) in REFUSED.items():
            for form in (BUILT_IN, PLUGIN):
                with self.subTest(text, form=form):
                    found = problem_of(parsed(text), form)
                    self.assertEqual(expected in found, form in forms, found)

    def test_permitted(self) -> None:
        for text in PERMITTED:
            for form in (BUILT_IN, PLUGIN):
                with self.subTest(text, form=form):
                    self.assertEqual(problem_of(parsed(text), form), "")

    def test_a_release_that_was_not_examined(self) -> None:
        """Only the structures that concern memory are refused."""
        clip = parsed("(int64[2] x) => (int64[2] y) { y = Clip(x) }")
        one_input = parsed("(float[2] x) => (float[2] y) { y = Max(x) }")
        self.assertEqual(problem_of(clip, BUILT_IN, examined=False), "")
        self.assertIn(ONE_INPUT, problem_of(one_input, BUILT_IN, examined=False))

    def test_values_between_two_eps(self) -> None:
        """A value that the CPU EP computes enters a part of the graph, as an input does."""
        text = "(float[N] x) => (float[A] y) { a = Relu(x) b = Cast<to=1>(a) c = Identity(b) y = Abs(c) }"
        model = parsed(text)
        for number, node in enumerate(model.graph.node):
            node.name = f"n{number}"
        names = [(node.name, node.op_type) for node in model.graph.node]
        on_cpu = [(CPU, [names[0], names[3]])]
        self.assertIn(COPY, problem_of(model, PLUGIN, [*on_cpu, (OPENVINO, names[1:3])]))
        self.assertEqual(problem_of(model, PLUGIN, [(OPENVINO, [names[0], *names[1:3]]), (CPU, [names[3]])]), "")
        static = parsed(text.replace("N", "3").replace("A]", "3]").replace("3eg", "Neg"))
        for number, node in enumerate(static.graph.node):
            node.name = f"n{number}"
        self.assertEqual(problem_of(static, PLUGIN, [*on_cpu, (OPENVINO, names[1:3])]), "")
        # ORT has removed Identity, or replaced it by a node that can be in any part.
        self.assertIn(COPY, problem_of(model, PLUGIN, [*on_cpu, (OPENVINO, [names[1]])]))

    def test_a_type_that_onnx_does_not_infer_can_be_any(self) -> None:
        """The type of the product is not that of its first input."""
        product = "v = com.microsoft.MatMulIntegerToFloat(x, w, s, s)"
        inputs, scale = "(uint8[N,4] x, uint8[4,4] w)", "<float s = {1}>"
        copied = f"{inputs} => (float[A,4] y) {scale} {{ {product} c = Cast<to=6>(v) y = Cast<to=1>(c) }}"
        tiled = f"""{inputs} => (float[A,4] y, uint8[B,4] z) <float s = {{1}}, int64[2] r = {{1, 1}}> {{
            {product} t = Tile(v, r) y = Identity(t) z = Identity(x) }}"""
        for text in (copied, tiled):
            with self.subTest(text):
                model = parsed(text, "com.microsoft")
                for number, node in enumerate(model.graph.node):
                    node.name = f"n{number}"
                first, *others = ((node.name, node.op_type) for node in model.graph.node)
                self.assertIn(COPY, problem_of(model, PLUGIN, [(CPU, [first]), (OPENVINO, others)]))

    def test_an_unknown_type_of_a_clip(self) -> None:
        """Such as that of each value of a model whose opset onnx does not know."""
        graph = Graph(parsed("(float[2] x) => (float[2] y) { z = Abs(x) y = Clip(z) }"))
        del graph.types["z"]
        self.assertIn("clips int64", unsafe_models.problem(OF_MODELS, BUILT_IN, True, graph))

    def test_where_the_values_of_a_constant_are(self) -> None:
        """The EP reads bytes of uint32, also those of a large constant, which the outline leaves out."""
        for size in (2, 2000):
            zeros = np.zeros(size, np.uint32)
            model = parsed(f"(uint32[{size}] x) => (bool[{size}] y) {{ y = Equal(x, w) }}", w=zeros)
            (weight,) = model.graph.initializer
            self.assertEqual(problem_of(model, BUILT_IN), "")
            weight.ClearField("raw_data")
            weight.uint64_data.extend(zeros.tolist())
            self.assertIn("'w' is of uint32", problem_of(model, BUILT_IN))

    def test_a_clip_with_attributes(self) -> None:
        """Until opset 10, the limits are attributes."""
        model = parsed("(float[2] x) => (float[2] y) { z = Hardmax(x) y = Clip<min: float = 0.0>(z) }")
        model.opset_import[0].version = 10
        self.assertEqual(problem_of(model, BUILT_IN), "")

    def test_a_loop_on_the_cpu_reads_its_inputs(self) -> None:
        model = parsed("""(float[2] a, float[3,2] x) => (float[2] y, float[3,2] z) {
            y, z = Scan<num_scan_inputs=1, body = b (float[2] s, float[2] n) => (float[2] t, float[2] u) {
                t = Add(s, n) u = Identity(t) }>(a, x) }""")
        body = (OPENVINO, [("", "Add"), ("", "Identity")])
        self.assertEqual(problem_of(model, BUILT_IN, [body, (CPU, [("", "Scan")])]), "")
        self.assertIn(NOT_READ, problem_of(model, BUILT_IN, [(OPENVINO, [("", "Scan")]), (CPU, [("", "Neg")])]))

    def test_the_body_of_a_loop_on_the_cpu(self) -> None:
        model = parsed(f"(float[2] x) => (float[2] z) <int64 n = {{2}}, bool b = {{1}}> {{ {LOOP} }}")
        body, on_cpu = (OPENVINO, [("", "Identity"), ("", "Identity")]), (CPU, [("", "Loop")])
        self.assertIn(f"'i' of the body of a Loop {NOT_READ}", problem_of(model, BUILT_IN, [body, on_cpu]))
        self.assertEqual(problem_of(model, PLUGIN, [body, on_cpu]), "")
        self.assertEqual(problem_of(model, BUILT_IN, [on_cpu, (OPENVINO, [("", "Relu")])]), "")
        reads = LOOP.replace("t = Identity(s)", "j = Cast<to=1>(i) t = Add(s, j)")
        read = parsed(f"(float[2] x) => (float[2] z) <int64 n = {{2}}, bool b = {{1}}> {{ {reads} }}")
        self.assertEqual(problem_of(read, BUILT_IN, [body, on_cpu]), "")

    def test_parallel_runs(self) -> None:
        """Runs are not parallel if a Concat joins copies of inputs of dynamic shapes."""
        for text, expected in (
            ("(float[N] x, float[M] z) => (float[A] y) { y = Concat<axis=0>(x, z) }", "y"),
            ("(float[N] x, float[M] z) => (float[A] y) { b = Exp(z) c = Concat<axis=0>(b, x) y = Neg(c) }", "c"),
            ("(float[N] x, float[M] z) => (float[A] y) { a = Exp(x) b = Abs(z) y = Concat<axis=0>(b, a) }", ""),
            ("(float[2] x, float[2] z) => (float[4] y) { y = Concat<axis=0>(x, z) }", ""),
        ):
            with self.subTest(text):
                model = parsed(text)
                graph = Graph(model)
                nodes = [(node.name, node.op_type) for node in model.graph.node]
                parts = Parts(graph, session_of(model, [(OPENVINO, nodes)]))
                self.assertEqual(unsafe_models.joined(graph, parts), expected)

    def test_a_long_chain_of_shapes(self) -> None:
        """The time to check a model is linear in its nodes, and the depth of the graph has no limit."""
        model = parsed("(float[N] x) => (int64[1] y) { y = Shape(x) }")
        first = model.graph.node[0]
        first.output[0] = "s0"
        chain = [helper.make_node("Add", [f"s{k}", f"s{k}"], [f"s{k + 1}"]) for k in range(3000)]
        model.graph.node.extend([*chain, helper.make_node("Identity", ["s3000"], ["y"])])
        self.assertIn("y", Graph(model).from_shapes)

    def test_functions_of_the_model(self) -> None:
        model = parsed(
            """(float[N] x) => (float[A] y) { y = own.F(x) }
            <domain: "own", opset_import: ["": 21]> F (x) => (y) { y = Cast<to=1>(x) }""",
            "own",
        )
        self.assertIn(COPY, problem_of(model, PLUGIN))


class OutlineTest(unittest.TestCase):
    def test_weights_are_left_out(self) -> None:
        model = parsed("(float[1000] x) => (float[1000] y) { y = Add(x, w) }", w=np.ones(1000, np.float32))
        model.graph.initializer.append(helper.make_tensor("v", TensorProto.INT64, [2], [3, 4]))
        found = outline(model.SerializeToString())
        large, small = found.graph.initializer
        self.assertEqual((large.name, large.data_type, list(large.dims)), ("w", TensorProto.FLOAT, [1000]))
        self.assertEqual(large.ByteSize() < 64, True)
        np.testing.assert_array_equal(numpy_helper.to_array(small), [3, 4])
        for made in (model, found):
            del made.graph.initializer[:]
        self.assertEqual(found, model)

    def test_other_bytes(self) -> None:
        for content in (b"ORTM1234" * 8, b"\xff" * 40, b"\x3a\x7f", b"\x0b"):
            with self.subTest(content), self.assertRaises(Exception):  # noqa: B017
                outline(content)


@unittest.skipUnless(OPENVINO in onnxruntime.get_available_providers(), f"this ORT was built without {OPENVINO}")
class SessionsTest(unittest.TestCase):
    MODEL = parsed("(float[2] a, float[2] b) => (float[2] y) { y = Neg(b) }")

    def test_the_specified_ep(self) -> None:
        with self.assertRaisesRegex(RuntimeError, rf"{OPENVINO} .*'a' {NOT_READ}.*1\.24\.1.*Remove .*{CPU}"):
            onnxruntime.backend.prepare(self.MODEL, provider_options={OPENVINO: {}})

    def test_the_available_eps(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, rf"{OPENVINO} is left out.*'a' {NOT_READ}"):
            rep = onnxruntime.backend.prepare(self.MODEL)
        self.assertNotIn(OPENVINO, rep.providers)
        self.assertRegex(rep.warnings[0], "is left out")
        (y,) = rep.run([np.ones(2, np.float32), np.full(2, 2, np.float32)])
        np.testing.assert_array_equal(y, [-2, -2])

    def test_a_model_that_is_right(self) -> None:
        made = parsed("(float[2] a, float[2] b) => (float[2] y) { y = Sub(a, b) }")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertIn(OPENVINO, onnxruntime.backend.prepare(made).providers)

    def test_a_model_in_the_format_of_ort(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = str(Path(folder) / "model.ort")
            made = parsed("(float[2] a) => (float[2] y) { y = Neg(a) }")
            onnxruntime.InferenceSession(made.SerializeToString(), options, providers=[CPU])
            with self.assertRaisesRegex(RuntimeError, "cannot check.*ONNX format"):
                onnxruntime.backend.prepare(options.optimized_model_filepath, provider_options={OPENVINO: {}})

    def test_a_model_that_is_not_valid_has_the_error_of_ort(self) -> None:
        made = parsed("(float[2] x) => (float[2] y) { y = Tile(x) }").SerializeToString()
        errors = []
        for ep in (CPU, OPENVINO):
            with self.assertRaises(Exception) as raised:
                onnxruntime.backend.prepare(made, provider_options={ep: {}})
            errors.append(type(raised.exception))
        self.assertIs(*errors)

    def test_a_file_with_external_data(self) -> None:
        made = parsed("(float[2] a, float[500] b) => (float[500] y) { y = Add(b, w) }", w=np.ones(500, np.float32))
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.onnx")
            onnx.save(made, path, save_as_external_data=True, size_threshold=0)
            with self.assertRaisesRegex(RuntimeError, "'a'"):
                onnxruntime.backend.prepare(path, provider_options={OPENVINO: {}})

    def test_random_graphs(self) -> None:
        found = [(seed, result, text) for seed, result, text in results(range(30), 2, 10) if result in (WRONG, MEMORY)]
        self.assertEqual(found, [])


class RecordTest(unittest.TestCase):
    @unittest.skipUnless(OPENVINO in onnxruntime.get_available_providers(), "requires the OpenVINO EP")
    def test_the_record_of_nodes_cannot_be_off(self) -> None:
        """The check of a model needs the record."""
        key = "session.record_ep_graph_assignment_info"
        model = parsed("(float[2] x) => (float[2] y) { y = Relu(x) }")
        for options in ({OPENVINO: {}}, None):
            with self.subTest(options), self.assertRaises(NotPermittedError) as raised:
                onnxruntime.backend.prepare(model, provider_options=options, session_config={key: False})
            self.assertEqual((raised.exception.keyword, raised.exception.key), ("session_config", key))
            rep = onnxruntime.backend.prepare(model, provider_options=options, session_config={key: True})
            self.assertIsNotNone(rep.node_assignment)


if __name__ == "__main__":
    unittest.main()
