# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the structures that are refused on OpenVINO, and of models that look similar and are right."""

from __future__ import annotations

import time
import unittest
from itertools import product
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.execution_providers import CPU, OPENVINO
from helpers.models import parsed
from onnx import ModelProto, TensorProto

from onnxruntime.backend.openvino import known_defects

BOTH, BUILT_IN = (False, True), (False,)
WEIGHTS = "float[1,12,3] w = {WW}, float[1,12,4] r = {RR}".replace("WW", ", ".join("1" * 36))
WEIGHTS = WEIGHTS.replace("RR", ", ".join("1" * 48))
GRU = f"(float[T,2,3] x, int32[2] n) => (float[A,B,C,D] y) <{WEIGHTS}> {{ y = GRU<hidden_size=4>(x, w, r, , n) }}"
IF = """(float[N] x, bool b) => (float[A] y) { z = Abs(x) y = If(b) <then_branch = t () => (float[N] v) { v = Neg(z) },
    else_branch = e () => (float[M] w) { w = Exp(z) }> }"""
TILE_IN_IF = """(float[2,3,4,5] x, int64[4] r, bool b) => (float[A,B,C,D] y) { y = If(b) <
    then_branch = t () => (float[A,B,C,D] v) { v = Tile(x, r) },
    else_branch = e () => (float[2,3,4,5] w) { w = Abs(x) }> }"""
READ_IN_IF = """(float[2] u, float[2] x, bool b) => (float[2] y) { y = If(b) <
    then_branch = t () => (float[2] v) { v = Neg(u) }, else_branch = e () => (float[2] w) { w = Neg(x) }> }"""
LOOP = """(float[2] x, float[2] o) => (float[2] y) <int64 n = {2}, float[2] k = {1, 2}> {
    y, z = Loop(n, , x, x) <body = l (int64 i, bool c, float[2] s, float[2] p) => (bool d, float[2] t, float[2] p) {
        d = Identity(c) t = Add(s, o) }> }"""
SCAN = """(float[N,3] x, float[3] h, float[3] o) => (float[N,3] y) { e, f, y = Scan<num_scan_inputs=1, body = b
    (float[3] s, float[3] p, float[3] r) => (float[3] t, float[3] p, float[3] u) {
        a = Add(s, o) t = Add(a, r) u = Neg(t) }>(h, h, x) }"""
# By model, a part of the sentence, and for which forms of the EP it is returned: whether it is the plugin.
REFUSED = {
    "(float[2] u, float[2] x) => (float[2] y) { y = Neg(x) }": (
        "reads later inputs from the wrong arrays",
        BUILT_IN,
    ),
    "(float[2] x) => (float[2] y) { y = Max(x) }": ("has one input", BUILT_IN),
    "(int64[2] x) => (int64[2] y, int32[2] z) { y = Identity(x) z = Cast<to=6>(y) }": (
        "copy of an input",
        BUILT_IN,
    ),
    "(float[2,3,4,N] x, int64[4] r) => (float[A,B,C,D] y) { z = Neg(x) y = Tile(z, r) }": (
        "has repeats",
        BOTH,
    ),
    GRU.replace("=4>(x, w, r, , n)", "=4, layout=1>(x, w, r)"): ("has layout 1", BOTH),
    GRU: ("ignores them", BOTH),
    IF: ("returns values of earlier runs", BUILT_IN),
    "(int64[2] x) => (int64[2] y) <int64 l = {0}> { y = Clip(x, l) }": (
        "returns 0 for positive",
        BUILT_IN,
    ),
    TILE_IN_IF: ("has repeats", BOTH),
}
RIGHT = (
    "(float[2] x) => (int64[2] y) <int64 l = {0}> { z = Cast<to=7>(x) y = Clip(z, l) }",
    "(float[2] x, float[2] u) => (float[2] y) { y = Neg(x) }",
    "(float[2] u, float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Identity(u) }",
    READ_IN_IF,
    "(float[N] x) => (float[N] y) { y = Max(x) }",
    "(float[2] x) => (float[2] y) { y = Mean(x) }",
    "(float[2] x) => (float[2] y) { y = Max(x, x) }",
    "(float[2] x) => (float[2] y) { z = Neg(x) y = Max(z) }",
    "(float[2] x, int64[1] r) => (float[2] y, float[N] z) { y = Max(x) z = Tile(x, r) }",
    "(int64[2] x) => (int64[2] y, int32[2] z) { y = Identity(x) z = Cast<to=6>(x) }",
    "(int64[2] x) => (int64[2] y, int32[2] z) { a = Neg(x) y = Identity(a) z = Cast<to=6>(y) }",
    "(int64[2] x) => (int64[2] y, float[2] z) { y = Identity(x) z = Cast<to=1>(y) }",
    "(float[1,3,4,5] x, int64[4] r) => (float[A,B,C,D] y) { y = Tile(x, r) }",
    "(float[2,3,4,5] x) => (float[A,B,C,D] y) <int64[4] r = {1, 2, 1, 2}> { y = Tile(x, r) }",
    "(float[2,3,4,N] x) => (float[A,B,C,D] y) { r = Shape(x) y = Tile(x, r) }",
    GRU.replace("T,2,3", "5,2,3"),
    GRU.replace(", int32[2] n", "").replace("<float", "<int32[2] n = {5, 5}, float"),
    GRU.replace("(x, w, r, , n)", "(x, w, r)"),
    IF.replace("float[N] x", "float[3] x"),
    IF.replace("x, bool b", "x").replace("z = Abs(x)", "z = Abs(x) s = Size(x) b = Equal(s, s)"),
    IF.replace("w = Exp(z)", "w = Constant<value = float[2] {1, 2}>()"),
    "(int64[2] x) => (int64[2] y) <int64 l = {0}, int64 h = {9}> { y = Clip(x, l, h) }",
)
# By model, an operator whose nodes are on the CPU EP.
ON_CPU = {
    "(float[2] x) => (float[2] y) { y = Max(x) z = Neg(x) }": "Max",
    "(float[2] u, float[2] x) => (float[2] y) { z = Neg(x) y = Abs(z) }": "Neg",
}
# By model, whether the EP terminates the process.
LOOPS = {
    LOOP: True,
    SCAN: True,
    LOOP.replace("t = Add(s, o)", "q = Add(s, p) t = Add(q, o)"): True,
    LOOP.replace("o) }>", "s) }>"): False,
    LOOP.replace("o) }>", "k) }>"): False,
    LOOP.replace(", float[2] p) {", ", float[2] q) { q = Neg(p)"): False,
    SCAN.replace("u = Neg(t)", "u = Hardmax(t)"): False,
}


def session_of(model: ModelProto, *on_cpu: str) -> mock.Mock:
    """Return a session whose nodes are all on OpenVINO, except for these operators."""
    nodes = {CPU: [], OPENVINO: []}
    for node in model.graph.node:
        nodes[CPU if node.op_type in on_cpu else OPENVINO].append(node)
    session = mock.Mock()
    session.get_inputs.return_value = []
    for value in model.graph.input:
        shape = [size.dim_value or size.dim_param for size in value.type.tensor_type.shape.dim]
        session.get_inputs().append(SimpleNamespace(name=value.name, shape=shape))
    session.get_provider_graph_assignment_info.return_value = [
        mock.Mock(ep_name=ep, **{"get_nodes.return_value": nodes[ep]}) for ep in nodes if nodes[ep]
    ]
    return session


def plugin(is_plugin: bool):
    return mock.patch.object(known_defects, "_is_plugin", lambda: is_plugin)


class KnownDefectsTest(unittest.TestCase):
    def wrong(self, text: str, *on_cpu: str) -> str:
        model = parsed(text)
        return known_defects.that_is_wrong(model, session_of(model, *on_cpu))

    def test_refused(self) -> None:
        for (text, (part, forms)), is_plugin in product(REFUSED.items(), BOTH):
            with self.subTest(text, plugin=is_plugin), plugin(is_plugin):
                found = self.wrong(text)
                self.assertEqual(part in found, is_plugin in forms, found)
                self.assertEqual(f"or use {CPU}" in found, is_plugin in forms, found)

    @plugin(False)
    def test_right(self) -> None:
        for text, on_cpu in (ON_CPU | dict.fromkeys(RIGHT, "")).items():
            with self.subTest(text):
                self.assertEqual(self.wrong(text, on_cpu), "")

    def test_loops(self) -> None:
        for (text, ends), is_plugin in product(LOOPS.items(), BOTH):
            with self.subTest(text, plugin=is_plugin), plugin(is_plugin):
                found = known_defects.that_ends_the_process(parsed(text))
                self.assertEqual("terminates the process" in found, ends and not is_plugin, found)

    @plugin(False)
    def test_sizes_of_the_session(self) -> None:
        """Those of free_dimension_overrides."""
        model = parsed(IF)
        session = session_of(model)
        session.get_inputs()[0].shape = [3]
        self.assertEqual(known_defects.that_is_wrong(model, session), "")

    @plugin(False)
    def test_functions_of_the_model(self) -> None:
        text = "(float[2] x) => (float[2] y) { y = Max(x) }"
        function = """<domain: "own", opset_import: ["": 21]> F (x) => (y) { y = Max(x) }"""
        model = parsed(text.replace("Max", "own.F") + function, "own")
        self.assertIn("has one input", known_defects.that_is_wrong(model, session_of(parsed(text))))

    @plugin(False)
    def test_time_is_linear(self) -> None:
        """Also for weights whose values are in a file that does not exist."""
        model = parsed("(float[2] x) => (float[2] y) { y = Max(x, w) }", w=np.ones(2, np.float32))
        session = session_of(model)
        model.graph.initializer[0].ClearField("raw_data")
        model.graph.initializer[0].data_location = TensorProto.EXTERNAL
        for number in range(20000):
            model.graph.node.add(op_type="Add", input=[f"v{number}", "x"], output=[f"v{number + 1}"])
        started = time.process_time()
        # A model in ORT's own format has no graph.
        for examined in (model, ModelProto()):
            self.assertEqual(known_defects.that_is_wrong(examined, session), "")
            self.assertEqual(known_defects.that_ends_the_process(examined), "")
        self.assertLess(time.process_time() - started, 5)


if __name__ == "__main__":
    unittest.main()
