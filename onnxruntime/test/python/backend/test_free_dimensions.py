# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of free dimension overrides: they are applied, verified, and limited in memory and time."""

from __future__ import annotations

import contextlib
import pathlib
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import numpy as np
import onnx
from helpers.children import run_code
from helpers.hostile_values import Str
from helpers.models import no_session_opens, two_nodes
from helpers.observable_models import model

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import free_dimensions
from onnxruntime.backend.allowlist import session_config
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.runs.errors import InputError

# Whether ORT has the cap of folded values. Otherwise, the values of all sizes together are limited.
CAPPED = session_config.SESSION_CONFIG[session_config.FOLDING_CAP].since <= RELEASE
MOST = 2**24 if CAPPED else 2**12

# Z is in the output only.
OPEN = model("(float[N, M] X, float[N, 1] W) => (float[2, Z] Y) { S = Add(X, W) I = NonZero(S) Y = Cast<to=1>(I) }")


def prepare(model, **keywords):
    """Prepare a model on the CPU EP, because other EPs permit smaller sizes only."""
    return onnxruntime.backend.prepare(model, provider_options={}, **keywords)


class FreeDimensionOverridesTest(unittest.TestCase):
    def shapes(self, given: object, source=None) -> list[list]:
        rep = prepare(source or OPEN, free_dimension_overrides=given)
        return [node.shape for node in rep.session.get_inputs()]

    def test_sizes_become_shapes(self):
        self.assertEqual(self.shapes(None), [["N", "M"], ["N", 1]])
        self.assertEqual(self.shapes({}), [["N", "M"], ["N", 1]])
        self.assertEqual(self.shapes({"N": np.int64(5), "M": "3"}), [[5, 3], [5, 1]])
        self.assertEqual(self.shapes({"N": MOST}), [[MOST, "M"], [MOST, 1]])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.onnx")
            path.write_bytes(OPEN)
            for source in (OPEN, onnx.load_from_string(OPEN), path):
                self.assertEqual(self.shapes({"N": 5}, source), [[5, "M"], [5, 1]])

    def test_the_configuration_repeats_them(self):
        rep = onnxruntime.backend.prepare(OPEN, free_dimension_overrides={"N": 5})
        self.assertEqual(rep.configuration(), {"free_dimension_overrides": {"N": 5}})
        again = onnxruntime.backend.prepare(OPEN, **rep.configuration())
        self.assertEqual(again.session.get_inputs()[0].shape, [5, "M"])

    def test_a_run_has_the_size(self):
        inputs = [np.ones((5, 3), np.float32), np.ones((5, 1), np.float32)]
        on_cpu = {"provider_options": {}}  # the software CUDA has no kernel of NonZero
        onnxruntime.backend.run(OPEN, inputs, free_dimension_overrides={"N": 5}, **on_cpu)
        with self.assertRaises(InputError):
            onnxruntime.backend.run(OPEN, inputs, free_dimension_overrides={"N": 4}, **on_cpu)

    def test_names_and_sizes_that_are_not_accepted(self):
        for name in ("Z", "n", "N ", "Q", "N\0x"):  # which no input has
            self.assert_refused(name, {name: 5})
        self.assert_refused("N", {"N": 1}, two_nodes())
        for name in (None, 1, b"N", "", Str("N")):
            self.assert_refused(None, {name: 5})
        for size in (0, -1, 2**24 + 1, 2**31, 1.0, "", " 1", "+1", "0x1", None, [1], 10**1000):
            self.assert_refused("N", {"N": size})
        with self.assertRaises(TypeError):
            self.shapes([("N", 1)])

    def assert_refused(self, key: str | None, sizes: dict, source=None, **keywords) -> None:
        source = source or OPEN
        with self.subTest(str(sizes)[:80]), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
            prepare(source, free_dimension_overrides=sizes, **keywords)
        self.assertEqual(refused.exception.keyword, "free_dimension_overrides")
        self.assertIn(key, (None, refused.exception.key))

    def test_an_input_that_becomes_too_large(self):
        most = 2**25 if CAPPED else 2**24
        self.assertEqual(self.shapes({"N": MOST, "M": most // MOST})[0], [MOST, most // MOST])
        # The model's own dimensions count, and a dimension without elements does not hide the others.
        fixed = two_nodes((most // 4096 + 1, "N"))
        self.assertEqual(self.shapes({"N": 4094}, fixed), [[most // 4096 + 1, 4094]])
        self.assert_refused("", {"N": 4096}, fixed)
        self.assert_refused("", {"N": 4096, "M": 4096}, two_nodes(("N", 3, "M")))
        self.assert_refused("", {"N": MOST, "M": 4096}, two_nodes((0, "N", "M", 2)))
        # An input that no override changes may be larger.
        beside = model(f"(float[N] X, float[{most + 1}] W) => (float[N] Y) {{ Y = Identity(X) }}")
        self.assertEqual(self.shapes({"N": 2}, beside), [[2], [most + 1]])

    def test_all_sizes_together_are_limited_if_folding_is_not_capped(self):
        """ORT before 1.27 has no cap, and OpenVINO folds by itself."""
        matrix = "(float[B, S] X) => (float[P, Q] Y) {{ {} }}".format
        negated = "() => (float[P, Q] z) { z = Neg(X) }"
        branches = f"Y = If(t) <then_branch=a {negated}, else_branch=b {negated}>"
        filled = "() => (float[P, Q] z) { s = Shape(X) z = ConstantOfShape(s) }"
        hidden = matrix(f"Y = If(t) <then_branch=a {negated}, else_branch=b {filled}>")
        none = matrix("Y = Neg(X)")
        mask = matrix("s = Shape(X) c = ConstantOfShape(s) Y = Add(X, c)")
        square = matrix(
            "s = Shape<start=1>(X) n = Mul(s, two) ss = Concat<axis=0>(n, s) c = ConstantOfShape(ss) "
            "m = ReduceMax<keepdims=0>(c) Y = Add(X, m)"
        )
        cube = "s = Shape(X) sss = Concat<axis=0>(s, s, s) e = ConstantOfShape(sss) "
        cube_beside = matrix(f"{cube} {branches}")
        cube = matrix(f"{cube} m = ReduceMax<keepdims=0>(e) Y = Add(X, m)")
        image = "f = Conv<pads=[1, 1, 1, 1]>(X, w) s = Shape<start=2>(f) grid = ConstantOfShape(s) Y = Add(f, grid)"
        image = f"(float[B, 3, H, W] X) => (float[P, Q, R, T] Y) {{ {image} }}"
        # Positions as older exporters write them: NonZero of ones, whose number onnx cannot infer.
        positions = matrix(
            "s = Shape<start=1>(X) ones = ConstantOfShape<value=one>(s) i = NonZero(ones) j = Transpose(i) "
            "f = Cast<to=1>(i) g = Cast<to=1>(j) both = Add(f, g) Y = Add(X, both)"
        ).replace("<value=one>", "<value=float[1] {1.0}>")
        weights = {"w": np.ones((4, 3, 3, 3), np.float32), "t": np.array(True), "two": np.array([2])}
        for graph, sizes, permitted in (
            (none, {"B": 8, "S": 2**20}, True),  # no value depends on sizes alone
            (mask, {"S": 2**12}, True),  # its square is the limit
            (square, {"B": 1, "S": 2896}, True),
            (square, {"B": 1, "S": 2897}, False),
            (cube, {"B": 1, "S": 255}, True),
            (cube, {"B": 1, "S": 256}, False),
            (mask, {"S": 2**12 + 1}, False),  # B is free: the number of elements is unknown
            (mask, {"B": 1, "S": 2**16}, True),
            (mask, {"B": 255, "S": 2**16}, True),
            (mask, {"B": 256, "S": 2**16}, False),  # the limit, and the shape itself
            (image, {"B": 1, "H": 1080, "W": 1920}, True),
            (image, {"B": 1, "H": 2, "W": 4097}, True),
            (positions, {"S": 512}, True),
            (positions, {"S": 8192}, False),
            (matrix(branches), {"B": 8, "S": 4096}, True),  # they read no shape
            (hidden, {"B": 8, "S": 4096}, False),
            (cube_beside, {"B": 1, "S": 256}, False),
        ):
            with self.subTest(graph, sizes=sizes):
                self.check(model(graph, **weights), sizes, permitted)
        mask = model(mask)
        with mock.patch.object(free_dimensions, "RELEASE", (1, 26)):
            self.assert_refused("", {"S": 4097}, mask)

    def test_weights_do_not_count(self):
        """ORT and EPs fold a node of weights with any sizes."""
        graph = "(float[B, S] X) => (float[B, S] Y) { s = Shape(X) e = Expand(t, s) f = Neg(w) "
        made = model(
            f"{graph} m = ReduceMax<keepdims=0>(f) a = Add(X, e) Y = Add(a, m) }}",
            t=np.ones(1, np.float32),
            w=np.ones(2**24, np.float32),
        )
        self.check(made, {"B": 1, "S": 8}, True)

    def check(self, made: bytes, sizes: dict, permitted: bool) -> None:
        """Check whether an EP that folds by itself receives sizes."""
        compiling = Permit("", True, {"OpenVINOExecutionProvider": {}}, sizes=sizes)
        expected = contextlib.nullcontext() if permitted else self.assertRaises(NotPermittedError)
        with expected:
            free_dimensions.apply(onnxruntime.SessionOptions(), compiling, made)

    def test_functions_are_checked(self):
        body = "(x) => (y) { s = Shape(x) c = ConstantOfShape(s) y = Add(x, c) }"
        function = f'<domain: "local", opset_import: ["": 21]> Mask {body}'
        made = model("(float[B, S] X) => (float[P, Q] Y) { Y = local.Mask(X) }", function)
        self.check(made, {"B": 16, "S": 2**16}, True)
        self.check(made, {"B": 256, "S": 2**16}, False)

    @unittest.skipUnless(CAPPED, "ORT before 1.27 has no cap")
    def test_no_larger_cap_of_a_caller(self):
        mask = model("(float[B, S] X) => (float[P, Q] Y) { s = Shape(X) c = ConstantOfShape(s) Y = Add(X, c) }")
        for cap in (2**20, 2**24, 2**24 + 1):
            keywords = {"session_config": {session_config.FOLDING_CAP: cap}}
            prepare(mask, **keywords)
            if cap <= 2**24:
                prepare(mask, free_dimension_overrides={"S": 4097}, **keywords)
                continue
            with no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                prepare(mask, free_dimension_overrides={"S": 1}, **keywords)
            self.assertEqual(refused.exception.key, session_config.FOLDING_CAP)

    @unittest.skipUnless(sys.platform == "linux", "reads the memory of a process from Linux")
    def test_the_check_takes_little(self):
        """Vectors as long as the largest input, and many nodes: onnx's inference with values takes gigabytes."""
        code = """
            import resource
            import onnxruntime
            import numpy as np
            from helpers.observable_models import model
            from onnxruntime.backend import free_dimensions
            from onnxruntime.backend.allowlist.permit import Permit
            vectors = {"flat": np.array([-1]), "one": np.array([1])}
            nodes = "v0 = Reshape(X, flat) " + "".join(f"v{n + 1} = Add(v{n}, one) " for n in range(8))
            made = model(f"(int64[B, S] X) => (int64[N] Y) {{ {nodes} s = Shape(v8) Y = Expand(v8, s) }}", **vectors)
            before = resource.getrusage(resource.RUSAGE_SELF)
            permit = Permit("", True, {"OpenVINOExecutionProvider": {}}, sizes={"B": 4096, "S": 4096})
            free_dimensions.apply(onnxruntime.SessionOptions(), permit, made)
            after = resource.getrusage(resource.RUSAGE_SELF)
            print((after.ru_maxrss - before.ru_maxrss) >> 10, after.ru_utime - before.ru_utime)
        """
        done = run_code(textwrap.dedent(code))
        self.assertEqual(done.returncode, 0, done.stderr)
        megabytes, seconds = map(float, done.stdout.split())
        self.assertLess(megabytes, 100)
        self.assertLess(seconds, 5)

    @unittest.skipUnless(sys.platform == "linux", "reads the memory of a process from Linux")
    def test_a_size_does_not_make_the_session_fold_gigabytes(self):
        """Masks of N x N, one with a chain of nodes, and their product with a batch, in a separate process."""
        code = """
            import os, resource, sys
            import onnxruntime.backend
            from onnx import helper
            from helpers.models import model
            parts = sys.argv[1].split(",")
            names = [name for name in ("B", "S") if name in parts]
            node = helper.make_node
            nodes = [node("Shape", [name], [f"s{name}"]) for name in names]
            nodes += [node("Concat", [f"s{name}" for name in parts], ["shape"], axis=0)]
            nodes += [node("ConstantOfShape", ["shape"], ["z"]), node("Neg", ["z"], ["n"]), node("Exp", ["n"], ["e"])]
            nodes += [node("ReduceSum", ["e"], ["r"], keepdims=0), node("Add", [names[0], "r"], ["Y"])]
            made = model(nodes, {name: (name,) for name in names}, {"Y": (None,)})
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            sizes = dict(zip(names, map(int, sys.argv[2].split(","))))
            try:
                onnxruntime.backend.prepare(made, free_dimension_overrides=sizes, provider_options={})
            except onnxruntime.backend.NotPermittedError:
                pass
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, flush=True)
            os._exit(0)
        """
        for shape, sizes in (
            ("S", f"{2**24}"),
            ("S,S", "4096"),
            ("S,S", "16384"),
            ("S,S,S", "1024"),
            ("S,S,S", "5000"),
            ("B,S,S", "64,8192"),
        ):
            with self.subTest(shape, sizes=sizes):
                done = run_code(textwrap.dedent(code), shape, sizes)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLess(int(done.stdout.split()[-1]), 320)

    def test_disagreeing_session(self):
        with (
            mock.patch.object(onnxruntime.SessionOptions, "add_free_dimension_override_by_name"),
            self.assertRaisesRegex(RuntimeError, "'N' of input 'X'"),
        ):
            self.shapes({"N": 5})


if __name__ == "__main__":
    unittest.main()
