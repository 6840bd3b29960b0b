# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the two structures that are refused on the built-in OpenVINO EP, and of models that look similar."""

import unittest
import warnings
from types import SimpleNamespace

import _above
import numpy as np
from helpers.execution_providers import HAS_BUILT_IN_OPENVINO, OPENVINO, add_openvino
from helpers.models import on_cpu, parsed
from onnx import ModelProto

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.openvino import structures


def branches(first: str, second: str, condition: str = "", shape: str = "N,2", read: str = ", bool b") -> str:
    weights = "<int64[2] k = {-1, 2}, int64 eight = {8}, float zero = {0}>"
    then_branch = f"then_branch = t () => (float[P,Q] v) {{ {first} }}"
    else_branch = f"else_branch = e () => (float[R,S] v) {{ {second} }}"
    nodes = f"{condition} y = If(b) <{then_branch}, {else_branch}>"
    return f"(float[{shape}] x{read}) => (float[E,F] y) {weights} {{ {nodes} }}"


SIZES = (1, -4, 8, 1, -64, 64, -3, 2, -2, -1, -8, 8, 3, 1)  # of free dimensions, negative if a condition is false
UNREAD = (
    "(float[2] u, float[2] x) => (float[2] y) { y = Neg(x) }",
    "(float[N] u, float[N] x) => (float[N] y) { z = Neg(x) y = Abs(z) }",
    "(float[2] x, float[2] u, float[2] z) => (float[2] y) { y = Add(x, z) }",
    """(float[2] u, float[2] x) => (float[2] y) { y = Neg(x) z = own.F(u) }
    <domain: "own", opset_import: ["": 21]> F (x) => (y) { y = Constant<value_float = 1.0>() }""",
)
FREE_IF = (
    branches("v = Neg(x)", "v = Exp(x)"),
    branches("v = Neg(x)", "v = Reshape(x, k)"),
    branches("v = Neg(x)", "v = Concat<axis=0>(x, x)"),
    branches("v = Neg(x)", "v = Exp(x)", "s = ReduceSum<keepdims=0>(c) b = Greater(s, zero)", read=", float[1] c"),
    branches("v = Neg(x)", "v = Exp(x)", "z = Identity(b)"),
)
RIGHT = (
    "(float[2] x, float[2] u) => (float[2] y) { y = Neg(x) }",
    "(float[2] u, float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Identity(u) }",
    """(float[2] u, float[2] x, bool b) => (float[2] y) { y = If(b) <
    then_branch = t () => (float[2] v) { v = Neg(u) }, else_branch = e () => (float[2] v) { v = Neg(x) }> }""",
    "(float[2] u, float[2] x) => (float[2] y) <float[2] u = {1, 2}> { y = Neg(x) }",  # u is a constant
    branches("v = Neg(x)", "v = Constant<value = float[1,2] {1, 2}>()"),
    branches("v = Neg(x)", "v = Concat<axis=1>(x, x)"),
    branches("v = Neg(x)", "v = Exp(x)", shape="3,2"),
    branches("v = Neg(x)", "v = Exp(x)", "n = Size(x) b = Equal(n, eight)", read=""),
)


def refused(made: ModelProto, is_whole: bool = True, operator: str = "If", **sizes: int) -> str:
    weights = {weight.name for weight in made.graph.initializer}
    session = SimpleNamespace(
        get_inputs=lambda: [value for value in made.graph.input if value.name not in weights],
        get_outputs=lambda: made.graph.output,
    )
    return structures.that_leaks(made, session, {operator}, is_whole, sizes)


class StructuresTest(unittest.TestCase):
    def test_models(self):
        for texts, expected in ((UNREAD, "no node reads"), (FREE_IF, "of free size.*_overrides"), (RIGHT, "^$")):
            for text in texts:
                with self.subTest(text):
                    self.assertRegex(refused(parsed(text, "own")), expected)

    def test_other_sessions_of_these_models(self):
        self.assertEqual(refused(parsed(UNREAD[0]), is_whole=False), "")
        self.assertEqual(refused(parsed(FREE_IF[0]), operator="Neg"), "")
        self.assertEqual(refused(parsed(FREE_IF[0]), N=3), "")
        self.assertEqual(refused(ModelProto()), "")  # of a model in ORT's own format

    def test_an_if_in_a_function_or_in_a_branch(self):
        function = '} <domain: "own", opset_import: ["": 21]> F (x, b) => (y) { y = If'
        text = FREE_IF[0].replace("y = If", f"y = own.F(x, b) {function}")
        self.assertRegex(refused(parsed(text, "own")), "of free size")
        inner = FREE_IF[0].partition("y = If")[2].rstrip(" }")
        outer = branches(
            f"v = If{inner}", "v = Constant<value = float[1,2] {1, 2}>()", "n = Size(x) c = Equal(n, eight)"
        )
        self.assertRegex(refused(parsed(outer.replace("If(b)", "If(c)", 1))), "of free size")


@unittest.skipUnless(HAS_BUILT_IN_OPENVINO, f"needs the built-in {OPENVINO}")
class OpenVINOTest(unittest.TestCase):
    def is_right(self, text: str) -> bool:
        """Return whether the EP is right without the backend, in runs of several sizes."""
        options = onnxruntime.SessionOptions()
        add_openvino(options, {"precision": "FP32"})
        made = parsed(text, "own")
        session, rep = onnxruntime.InferenceSession(made.SerializeToString(), options), on_cpu(made)
        for number, size in enumerate(SIZES):
            feeds = {}
            for node in session.get_inputs():
                shape = [one if type(one) is int else abs(size) for one in node.shape]
                value = np.float32((number + len(feeds) + 1) / 16 * np.sign(size))
                feeds[node.name] = np.full(shape, value > 0 if "bool" in node.type else value)
            try:
                outputs = session.run(None, feeds)
            except Exception:  # ORT raises classes without a common base
                return False
            for output, expected in zip(outputs, rep.run(feeds), strict=True):
                if output.shape != expected.shape or not np.allclose(output, expected, 1e-3, 1e-3):
                    return False
        return True

    def test_the_ep_is_wrong_with_each_refused_model(self):
        for text in (*UNREAD, *FREE_IF):
            with self.subTest(text):
                self.assertFalse(self.is_right(text))
                with self.assertRaises(NotPermittedError) as caught:
                    onnxruntime.backend.prepare(parsed(text, "own"), provider_options={OPENVINO: {}})
                self.assertEqual(caught.exception.provider, OPENVINO)
                with warnings.catch_warnings(record=True) as given:
                    warnings.simplefilter("always")
                    rep = onnxruntime.backend.prepare(parsed(text, "own"))
                self.assertNotIn(OPENVINO, rep.providers)
                self.assertRegex(str(given[0].message), "is left out")

    def test_the_ep_is_right_with_similar_models(self):
        for text in RIGHT[:-1]:  # whose first run of another size is wrong
            with self.subTest(text):
                self.assertTrue(self.is_right(text))
        for text in RIGHT:
            onnxruntime.backend.prepare(parsed(text), provider_options={OPENVINO: {}})


if __name__ == "__main__":
    unittest.main()
