# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of models whose outputs contain memory of earlier runs on an old ORT: refused only if that can happen."""

from __future__ import annotations

import contextlib
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import onnx

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.session import unwritten
from onnxruntime.backend.session.model_outline import nodes_of, outline

REVERSE = "Y = ReverseSequence<time_axis = 0, batch_axis = 1>"
OLD = RELEASE < (1, 28)


def model(body: str, inputs: str = "int64[M] L", head: str = "ir_version: 8", functions: str = "") -> bytes:
    text = f'<{head}, opset_import: ["": 17, "own": 1]> g (float[N, M] X, {inputs}) => (float[N, M] Y) {{ {body} }}'
    return onnx.parser.parse_model(text + functions).SerializeToString()


def lengths(*values: int) -> str:
    return f"c = Constant<value = int64[{len(values)}] {{{', '.join(map(str, values))}}}>() {REVERSE}(X, c)"


OF_SHAPE = "s = Shape<start=0, end=1>(X) b = Shape<start=1>(X) l = Expand(s, b) "
BRANCH = f"() => (float[N, M] z) {{ z {REVERSE[1:]}(X, L) }}"
FUNCTION = f'<domain: "own", opset_import: ["": 17]> F (X, L) => (Y) {{ {REVERSE}(X, L) }}'
REFUSED = {
    "an input": model(f"{REVERSE}(X, L)"),
    "of an input": model(f"m = Abs(L) {REVERSE}(X, m)"),
    "a constant with 0": model(lengths(2, 0)),
    "a branch": model(f"Y = If(t) <then_branch = a {BRANCH}, else_branch = b {BRANCH}>", "int64[M] L, bool t"),
    "a function": model("Y = own.F(X, L)", functions=FUNCTION),
}
PERMITTED = {
    "a constant": model(lengths(2, 1)),
    "of the shape": model(f"{OF_SHAPE} {REVERSE}(X, l)"),
    "of the shape of data": model(f"d = Abs(X) {OF_SHAPE.replace('(X)', '(d)')} {REVERSE}(X, l)"),
    "another operator": model("Y = Identity(X)"),
}


class UnwrittenTest(unittest.TestCase):
    def test_which_models(self):
        for release in ((1, 24), (1, 27), (1, 28)):
            facts = mock.patch.object(unwritten, "RELEASE", release)
            for name, made in (REFUSED | PERMITTED).items():
                session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
                is_refused = name in REFUSED and release < (1, 28)
                expected = self.assertRaisesRegex(RuntimeError, "ReverseSequence") if is_refused else None
                with self.subTest(name, release=release), tempfile.TemporaryDirectory() as folder, facts:
                    path = Path(folder, "model.onnx")
                    path.write_bytes(made)
                    for source in (made, str(path)):
                        with expected or contextlib.nullcontext():
                            unwritten.check(source, session)

    def test_prepare(self):
        for name, made in (REFUSED | PERMITTED).items():
            with self.subTest(name):
                if OLD and name in REFUSED:
                    with self.assertRaisesRegex(RuntimeError, "Install ORT 1.28"):
                        onnxruntime.backend.prepare(made, provider_options={})
                else:
                    onnxruntime.backend.prepare(made, provider_options={})

    def test_no_values_of_earlier_runs(self):
        """A model that is not refused writes sequences of each length."""
        secret, ones = np.full((64, 64), 1234.5, np.float32), np.ones((64, 64), np.float32)
        for made in (REFUSED["an input"], PERMITTED["of the shape"]):
            try:
                rep = onnxruntime.backend.prepare(made, provider_options={})
            except RuntimeError:
                continue
            for _ in range(20):
                rep.run([secret, np.full(64, 64)])
                np.testing.assert_array_equal(rep.run([ones, np.zeros(64, np.int64)])[0], ones)

    def test_contents_that_are_no_model(self):
        made = PERMITTED["of the shape"]
        self.assertIn(b"ReverseSequence", nodes_of(made))
        for content in (b"", b"\x08\x09", made[:-5]):
            for read in (nodes_of, outline):
                with self.assertRaises(ValueError):
                    read(content)


if __name__ == "__main__":
    unittest.main()
