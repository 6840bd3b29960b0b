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
from campaigns import openvino_known_defects
from helpers.execution_providers import CPU, OPENVINO
from helpers.models import parsed
from onnx import ModelProto, TensorProto

from onnxruntime.backend.openvino import known_defects

# By structure, a part of the sentences, and the number of refused variants.
REFUSED = {
    "unread": ("reads later inputs from the wrong arrays", 74),
    "copies": ("copies an input", 144),
    "tile": ("has repeats", 63),
    "layout": ("has layout 1", 48),
    "lengths": ("ignores them", 54),
    "states": ("terminates the process", 50),
    "branches": ("returns values of earlier runs", 72),
    "clips": ("returns 0 for positive", 32),
}
ON_PLUGIN = ("tile", "layout", "lengths")  # structures that are refused on the plugin EP, too
IF = """(float[N,2] x, bool b) => (float[A,B] y) { s = Shape(x) z = Reshape(x, s) y = If(b) <
    then_branch = t () => (float[N,2] v) { v = Neg(z) }, else_branch = e () => (float[M,B] w) { w = Exp(z) }> }"""
TILE_IN_IF = """(float[2,3,4,5] x, int64[4] r, bool b) => (float[A,B,C,D] y) { y = If(b) <
    then_branch = t () => (float[A,B,C,D] v) { z = Unknown(x) v = Tile(z, r) },
    else_branch = e () => (float[2,3,4,5] w) { w = Abs(x) }> }"""
READ_IN_IF = """(float[2] u, float[2] x, bool b) => (float[2] y) { y = If(b) <
    then_branch = t () => (float[2] v) { v = Neg(u) }, else_branch = e () => (float[2] w) { w = Neg(x) }> }"""
# Models that are right. By model, an operator whose nodes are on the CPU EP.
RIGHT = {
    "(float[2] x) => (float[2] y) { y = Max(x) z = Neg(x) }": "Max",
    "(float[2] u, float[2] x) => (float[2] y) { z = Neg(x) y = Abs(z) }": "Neg",
    "(float[2] u, float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Identity(u) }": "",
    "(float[2] x, int64[1] r) => (float[2] y, float[N] z) { y = Max(x) z = Tile(x, r) }": "",
    "(int64[2] x) => (int64[2] y, float[2] z) { y = Identity(x) z = Cast<to=1>(y) }": "",
    "(float[2] x) => (int64[2] y) <int64 l = {0}> { z = Cast<to=7>(x) y = Clip(z, l) }": "",
    "(float[2,3,4,N] x) => (float[A,B,C,D] y) { r = Shape(x) y = Tile(x, r) }": "",
    IF.replace("Exp(z)", "Constant<value = float[1,2] {1, 2}>()"): "",
    IF.replace("Exp(z)", "Concat<axis=1>(x, x)"): "",
    """(float[N,2] x) => (float[A,B] y) { s = Size(x) b = Equal(s, s) y = If(b) <
    then_branch = t () => (float[N,2] v) { v = Neg(x) }, else_branch = e () => (float[M,B] w) { w = Exp(x) }> }""": "",
    READ_IN_IF: "",
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

    def test_variants(self):
        """The program runs all of them on an EP. This test runs on each base."""
        for (name, (part, count)), is_plugin in product(REFUSED.items(), (False, True)):
            refused = 0
            with self.subTest(name, plugin=is_plugin), plugin(is_plugin):
                for text in openvino_known_defects.STRUCTURES[name]:
                    model = openvino_known_defects.parsed(text)
                    found = known_defects.that_ends_the_process(model)
                    found = found or known_defects.that_is_wrong(model, session_of(model))
                    if found:
                        refused += 1
                        self.assertIn(part, found)
                        self.assertIn(f"or use {CPU}", found)
                self.assertEqual(refused, 0 if is_plugin and name not in ON_PLUGIN else count)

    @plugin(False)
    def test_right(self):
        for text, on_cpu in RIGHT.items():
            with self.subTest(text):
                self.assertEqual(self.wrong(text, on_cpu), "")

    def test_branches_are_examined(self):
        self.assertIn("has repeats", self.wrong(TILE_IN_IF))

    @plugin(False)
    def test_sizes_of_the_session(self):
        """Those of free_dimension_overrides."""
        model = parsed(IF)
        session = session_of(model)
        session.get_inputs()[0].shape = [3, 2]
        self.assertEqual(known_defects.that_is_wrong(model, session), "")

    @plugin(False)
    def test_functions_of_the_model(self):
        text = "(float[2] x) => (float[2] y) { y = Max(x) }"
        function = """<domain: "own", opset_import: ["": 21]> F (x) => (y) { y = Max(x) }"""
        model = parsed(text.replace("Max", "own.F") + function, "own")
        self.assertIn("copies an input", known_defects.that_is_wrong(model, session_of(parsed(text))))

    @plugin(False)
    def test_time_is_linear(self):
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
