# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Inputs without elements: refused if ORT would return memory of earlier runs."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx

from onnxruntime import InferenceSession, OrtValue
from onnxruntime.backend import InputError, prepare
from onnxruntime.backend.session import unwritten

CPU = {"provider_options": {}}


def parsed(text: str, opset: int = 17) -> bytes:
    head = f'<ir_version: 8, opset_import: ["": {opset}, "own": 1]> g '
    return onnx.parser.parse_model(head + text).SerializeToString()


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


JOINED = parsed("(float[N, A] X, float[N, B] Y) => (float[N, C] Z) { Z = Concat<axis = 1>(X, Y) }")
# A cache whose length can be 0, as in language models.
CACHE = parsed("(float[B, P] past, float[B, L] new) => (float[B, T] present) { present = Concat<axis = 1>(past, new) }")
APART = parsed("(float[N] X, float[N] Y) => (float[N] Z, float[N] V) { Z = Abs(X) V = Abs(Y) }")
# Some exporters give this name to all unknown sizes.
UNKNOWN = parsed("(float[Q, N] X, float[Q, N] Y) => (float[Q, N] Z) { Z = Concat<axis = 0>(X, Y) }").replace(b"Q", b"?")
UNNAMED = parsed("(float[N] X, float[M] Y) => (float[K] Z) { Z = Concat<axis = 0>(X, Y) }")

SIGNATURE = "(seq(float[M, N]) S) => (float[A, B] Z)"
CONCAT = "ConcatFromSequence<axis = 1>(S)"
FUNCTION = f'<domain: "own", opset_import: ["": 17]> F (S) => (Z) {{ Z = {CONCAT} }}'
BRANCH = f"() => (float[A, B] z) {{ z = {CONCAT} }}"
BRANCHES = f"n = SequenceLength(S) b = Cast<to = 9>(n) Z = If(b) <then_branch = t {BRANCH}, else_branch = e {BRANCH}>"
SEQUENCES = [ones(2, 3), ones(2, 4)], [ones(0, 3), ones(2, 4)]


def scan(opset: int) -> bytes:
    first, axis = ("(,", "1, ") if opset == 8 else ("(", "")
    return parsed(
        f"(float[{axis}2] I, float[{axis}N, 2] X) => (float[{axis}2] Y, float[{axis}N, 2] Z) {{ Y, Z = Scan"
        "<num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (float[2] t, float[2] w)"
        f" {{ t = Add(s, v) w = Identity(t) }}> {first} I, X) }}",
        opset,
    )


# A model, right inputs, and inputs without elements.
OPERATORS = {"Scan of opset 8": (scan(8), [ones(1, 2), ones(1, 3, 2)], [ones(1, 2), ones(1, 0, 2)])}
for name, text in (
    ("ConcatFromSequence", f"{{ Z = {CONCAT} }}"),
    ("a function", f"{{ Z = own.F(S) }} {FUNCTION}"),
    ("a branch", f"{{ {BRANCHES} }}"),
):
    OPERATORS[name] = (parsed(f"{SIGNATURE} {text}"), *([value] for value in SEQUENCES))


class DimensionsTest(unittest.TestCase):
    def test_right(self):
        for model, first, second in (
            (JOINED, (2, 3), (2, 4)),
            (JOINED, (0, 3), (0, 4)),
            (JOINED, (2, 0), (2, 4)),
            (CACHE, (2, 0), (2, 1)),
            (CACHE, (2, 5), (2, 0)),
            (UNKNOWN, (0, 2), (3, 2)),
            (UNNAMED, (0,), (3,)),
        ):
            rep = prepare(model, **CPU)
            arrays = [ones(*first), ones(*second)]
            axis = 0 if model is UNKNOWN else -1
            expected = np.concatenate(arrays, axis)
            with self.subTest(first=first, second=second):
                np.testing.assert_array_equal(rep.run(arrays)[0], expected)

    def test_without_concat(self):
        z, v = prepare(APART, **CPU).run([ones(0), ones(3)])
        self.assertEqual((z.shape, v.shape), ((0,), (3,)))

    def test_refused(self):
        secret = np.full((64, 64), 1234.5, np.float32)
        empty, full = ones(0, 64), ones(64, 64)
        rep = prepare(JOINED, **CPU)
        for X, Y in ((empty, full), (full, empty)):  # noqa: N806
            value = OrtValue.ortvalue_from_numpy(Y)
            for inputs in ([X, Y], (X, Y), {"X": X, "Y": Y}, [X, value], [X.astype(">f4"), Y]):
                rep.run([secret, secret])
                with self.subTest(first=X.shape), self.assertRaises(InputError) as raised:
                    rep.run(inputs)
                error = raised.exception
                self.assertEqual(error.input, "Y")
                self.assertEqual(error.expected, "float32[N, B]")
                self.assertIn(str(list(Y.shape)), error.got)


class OperatorsTest(unittest.TestCase):
    def test_refused(self):
        for name, (model, right, without) in OPERATORS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.onnx")
                path.write_bytes(model)
                for source in (model, str(path)):
                    rep = prepare(source, **CPU)
                    self.assertTrue(rep.run(right)[0].size)
                    for given in (rep, rep.with_run_config({})):
                        with self.assertRaisesRegex(InputError, "without elements"):
                            given.run(without)

    def test_others(self):
        """Operators that are right on tensors without elements, or reject them."""
        self.assertEqual(prepare(UNNAMED, **CPU).run([ones(0), ones(0)])[0].shape, (0,))
        session = InferenceSession(scan(9), providers=["CPUExecutionProvider"])
        self.assertEqual(unwritten.check(scan(9), session), ("", False))


if __name__ == "__main__":
    unittest.main()
