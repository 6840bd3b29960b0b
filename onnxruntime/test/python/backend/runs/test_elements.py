# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Inputs without elements: a run that is right on a session without the backend is right on a prepared model."""

import unittest

import numpy as np
import onnx

from onnxruntime import InferenceSession, OrtValue
from onnxruntime.backend import prepare


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


# The first step of a decoder with a cache: the branch that reads the empty cache does not run.
DECODER = (
    """(float[B, S, 4] encoder, float[B, S, 4] past, float[B, 1, 4] new, bool[1] use_cache) => (float[B, T, 4] y) {
    y = If(use_cache) <then_branch = t () => (float[B, T, 4] a) { a = Concat<axis = 1>(past, new) },
                       else_branch = e () => (float[B, T, 4] b) { b = Concat<axis = 1>(encoder, new) }> }""",
    (ones(1, 7, 4), ones(1, 0, 4), ones(1, 1, 4), np.array([False])),
)
CACHE = "(float[B, P] past, float[B, L] new) => (float[B, T] present) { present = Concat<axis = 1>(past, new) }"
# Some exporters give one name to all unknown sizes.
ONE_NAME = "(float[N, N] x, float[N, N] y) => (float[N, N] z) { z = Concat<axis = 0>(x, y) }"
APART = "(float[N] x, float[N] y) => (float[N] z, float[N] v) { z = Abs(x) v = Abs(y) }"
CASES = (
    DECODER,
    (CACHE, (ones(2, 0), ones(2, 1))),
    (ONE_NAME, (ones(0, 2), ones(3, 2))),
    (APART, (ones(0), ones(3))),
    (
        "(float[N, M] x, int64[M] n) => (float[N, M] y) { y = ReverseSequence<time_axis = 0, batch_axis = 1>(x, n) }",
        (ones(4, 2), np.array([4, 1])),
    ),
    (
        """(float[N, 4] x, float[P, 4] past) => (float[A, B] y, float[T, 4] present)
        { s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 1>(s) present = Concat<axis = 0>(past, x) }""",
        (ones(2, 4), ones(0, 4)),
    ),
)


class ElementsTest(unittest.TestCase):
    def test_as_without_the_backend(self):
        for text, inputs in CASES:
            made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}').SerializeToString()
            session = InferenceSession(made, providers=["CPUExecutionProvider"])
            feeds = dict(zip([value.name for value in session.get_inputs()], inputs, strict=True))
            rep = prepare(made, provider_options={})
            as_values = [OrtValue.ortvalue_from_numpy(value) for value in inputs]
            for expected, *outputs in zip(session.run(None, feeds), rep.run(inputs), rep.run(as_values), strict=True):
                with self.subTest(text[:40]):
                    for output in outputs:
                        np.testing.assert_array_equal(output, expected)


if __name__ == "__main__":
    unittest.main()
