# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests what differs in graph capture on the WebGPU plugin EP: its operators, and callers' sessions and bindings.

The tests run on a GPU, or under ``with_software_gpu.sh``. ``campaigns/captured_operators.py`` runs all variants.
"""

import unittest
from unittest import mock

import _above
import numpy as np
from campaigns.captured_operators import COPIES, Seen, see
from campaigns.captured_variants import variants
from helpers.capture import ORDINARY, chain, data, prepare, two_inputs
from helpers.execution_providers import set_up_webgpu_plugin
from helpers.models import parsed

import onnxruntime
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.capture import eligibility
from onnxruntime.backend.capture.operators import ALWAYS, OPERATORS
from onnxruntime.backend.provider_names import WEBGPU

setUpModule = set_up_webgpu_plugin
VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


class OperatorTest(unittest.TestCase):
    """The table is right on this machine: one variant of each operator, on sessions without the backend."""

    def first(self, names: tuple[str, ...], wanted: str) -> dict[str, Seen]:
        """Return the first variant of each operator that ORT captures and that is ``right`` or ``stale``."""
        found: dict[str, Seen] = {}
        for variant in variants():
            if variant.operator in names and variant.operator not in found:
                seen = see(variant)
                if seen is not None and bool(seen.stale) == (wanted == "stale"):
                    found[variant.operator] = seen
        return found

    def test_copies_are_stale_and_refused(self):
        """If one is right, its condition is not needed. If one is permitted, the table is wrong."""
        conditional = ("Max", "Min", "ReduceMax", "ReduceSum", "Transpose", *VIEWS)
        found = self.first((*COPIES, *conditional), "stale")
        self.assertEqual(found.keys(), {*COPIES, *conditional})
        for operator, seen in found.items():
            self.assertTrue(seen.problem, operator)

    def test_permitted_operators_are_replayed(self):
        names = tuple(name for (_, name), condition in OPERATORS.items() if condition is ALWAYS)
        found = self.first(names, "right")
        self.assertGreaterEqual(len(found), len(set(names)) - 6)  # ORT does not capture the first variants of some
        self.assertEqual({name: seen.problem for name, seen in found.items() if seen.problem}, {})

    def test_what_hides_behind_a_threshold(self):
        """The comparison of the first run cannot see it, the table refuses it."""
        for first in ("ScatterND (X, i, u)", "Max (X)", "ReduceSum <noop_with_empty_axes = 1> (X)"):
            nodes = f"S = {first} d = Sub (S, t) r = Relu (d) Y = Add (M, r)"
            constants = "<int64[1,1] i = {0}, float[1,4] u = {0, 0, 0, 0}, float t = {4}>"
            with self.subTest(first), self.assertRaises(NotPermittedError):
                prepare(parsed(f"(float[2,4] X, float[2,4] M) => (float[2,4] Y) {constants} {{ {nodes} }}"))

    def test_integers_of_the_first_run_are_not_kept(self):
        """The first run captures zeros. So it shows a copy of an integer, even if the table permitted the node."""
        made = parsed("(int32[4] X) => (int32[2,2] Y) <int64[2] s = {2, 2}> { T = Add (X, X) Y = Reshape (T, s) }")
        with mock.patch.object(eligibility, "unknown", return_value=""):
            rep = prepare(made)
        with self.assertRaisesRegex(RuntimeError, "wrong values for output 'Y'"):
            rep.run([np.arange(4, dtype=np.int32)])


class CallerTest(unittest.TestCase):
    def test_ort_refuses_runs_without_a_binding(self):
        rep = prepare(chain())
        self.assertEqual(rep.node_assignment[WEBGPU], 6)
        self.assertIn("enableGraphCapture", rep.unconfirmed[WEBGPU])  # ORT repeats whatever a plugin is given
        with self.assertRaisesRegex(ValueError, "graph capture"):
            rep.session.run(None, {"X": data(0, 3, 4)})

    def test_bindings_without_capture(self):
        """ORT refuses a binding of other memory than the device's, unless it receives -1."""
        rep = prepare(two_inputs(), run_config=ORDINARY)
        a, b = data(0, 5), data(1, 5)
        binding = rep.session.io_binding()
        for name, array in (("A", a), ("B", b)):
            binding.bind_cpu_input(name, array)
        for name in ("Y", "Z"):
            binding.bind_output(name, "webgpu")
        with self.assertRaisesRegex(ValueError, "graph capture"):
            rep.session.run_with_iobinding(binding, onnxruntime.RunOptions())
        rep.session.run_with_iobinding(binding, rep.run_options())
        np.testing.assert_allclose(binding.copy_outputs_to_cpu(), [a * b, a - b], rtol=1e-5)
        # The outputs are the inputs of the next run, without a copy to the CPU.
        again = rep.run(binding.get_outputs())
        np.testing.assert_allclose(again[0], a * b * (a - b), rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
