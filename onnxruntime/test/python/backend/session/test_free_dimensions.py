# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of free dimension overrides: they are applied, verified, and limited in memory and time."""

import pathlib
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

import _above
import numpy as np
import onnx
from helpers.children import run_code
from helpers.hostile_values import Str
from helpers.models import no_session_opens, two_nodes
from helpers.observable_models import model

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist import session_config
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.errors import InputError, NotPermittedError
from onnxruntime.backend.session import free_dimensions

# Whether ORT has the cap of folded values.
CAPPED = session_config.SESSION_CONFIG[session_config.FOLDING_CAP].since <= RELEASE
MOST = 2**24  # of a size

# Z is in the output only.
OPEN = model("(float[N, M] X, float[N, 1] W) => (float[2, Z] Y) { S = Add(X, W) I = NonZero(S) Y = Cast<to=1>(I) }")


def prepare(model, **keywords):
    """Prepare a model on the CPU EP."""
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

    def test_a_run_has_the_size(self):
        rep = prepare(OPEN, free_dimension_overrides={"N": 5})
        self.assertEqual(rep.configuration()["free_dimension_overrides"], {"N": 5})
        one = np.ones((5, 1), np.float32)
        rep.run([one, one])
        with self.assertRaises(InputError):
            rep.run([one[1:], one[1:]])

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

    def test_sizes_of_an_input_together(self):
        most = 2**28
        for shape, sizes, permitted in (
            (("N", 3, 224, 224), {"N": 1024}, True),
            (("N", 3, "H", "W"), {"N": 32, "H": 1080, "W": 1920}, True),
            (("N", 1, "T"), {"N": 64, "T": 16_000 * 60}, True),
            (("N", "M"), {"N": MOST, "M": 16}, True),
            (("N", "M"), {"N": MOST, "M": 17}, False),
            (("N", "M"), {"N": MOST}, True),  # a free dimension counts as one
            ((most // 4096 + 1, "N"), {"N": 4095}, True),
            ((most // 4096 + 1, "N"), {"N": 4096}, False),  # the model's own dimensions count
            ((0, "N", "M", 2), {"N": MOST, "M": 16}, False),  # and one without elements does not hide the others
        ):
            made = two_nodes(shape).SerializeToString()
            with self.subTest(shape=shape, sizes=sizes):
                if permitted:
                    free_dimensions.apply(onnxruntime.SessionOptions(), Permit("", True, {}, sizes=sizes), made)
                else:
                    self.assert_refused("", sizes, made)
        # An input that no override changes may be larger.
        beside = model(f"(float[N] X, float[{most + 1}] W) => (float[N] Y) {{ Y = Identity(X) }}")
        self.assertEqual(self.shapes({"N": 2}, beside), [[2], [most + 1]])

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
    def test_the_check_takes_no_memory_for_weights(self):
        code = """
            import pathlib, resource, sys
            import numpy as np
            import onnxruntime
            from helpers.observable_models import model
            from onnxruntime.backend.allowlist.permit import Permit
            from onnxruntime.backend.session import free_dimensions
            made = model("(float[N] X) => (float[N] Y) { Y = Add(X, w) }", w=np.ones(2**25, np.float32))
            pathlib.Path(sys.argv[1]).write_bytes(made)
            permit = Permit("", True, {}, sizes={"N": 1})
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for source in (made, sys.argv[1]):
                free_dimensions.apply(onnxruntime.SessionOptions(), permit, source)
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
        """
        with tempfile.TemporaryDirectory() as folder:
            done = run_code(textwrap.dedent(code), str(pathlib.Path(folder, "model.onnx")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(int(done.stdout), 32)

    def test_damaged_models(self):
        """A run of one byte, as in erased memory, takes no time that grows with the square of its length."""
        for damaged in (b"", b"\x08\x08", OPEN[:-5], b"\x08\x08" + b"\xff" * 2**20, b"ORTM" * 9):
            with self.subTest(damaged[:9]), no_session_opens(), self.assertRaises(RuntimeError):
                before = time.process_time()
                prepare(damaged, free_dimension_overrides={"N": 1})
            self.assertLess(time.process_time() - before, 5)

    @unittest.skipUnless(sys.platform == "linux" and CAPPED, "reads memory from Linux; ORT before 1.27 has no cap")
    def test_a_size_does_not_make_the_session_fold_a_gigabyte(self):
        code = """
            import resource, sys
            import onnxruntime.backend
            from helpers.observable_models import model
            made = model(
                "(float[S] X) => (float[S] Y) { s = Shape(X) ss = Concat<axis=0>(s, s) z = ConstantOfShape(ss)"
                " e = Exp(z) r = ReduceSum<keepdims=0>(e) Y = Add(X, r) }"
            )
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            onnxruntime.backend.prepare(made, free_dimension_overrides={"S": 16384}, provider_options={})
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
        """
        done = run_code(textwrap.dedent(code))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(int(done.stdout), 320)

    def test_disagreeing_session(self):
        with (
            mock.patch.object(onnxruntime.SessionOptions, "add_free_dimension_override_by_name"),
            self.assertRaisesRegex(RuntimeError, "'N' of input 'X'"),
        ):
            self.shapes({"N": 5})


if __name__ == "__main__":
    unittest.main()
