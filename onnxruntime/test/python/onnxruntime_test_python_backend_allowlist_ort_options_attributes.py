# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the permitted attributes: values that act outside the session, or that ORT rejects, are refused."""

from __future__ import annotations

import unittest

import numpy as np
from backend_test_models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import NotPermittedError

X = np.ones((2, 3), np.float32)


class AttributesTest(unittest.TestCase):
    def assert_refused(self, name: str, value: object) -> None:
        with self.subTest(name, value=value), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
            onnxruntime.backend.prepare(two_nodes(), **{name: value})
        self.assertEqual(refused.exception.keyword, name)

    def test_attributes_of_the_log(self) -> None:
        """A caller cannot make the log of the process longer, or imitate a field of a log line."""
        rep = onnxruntime.backend.prepare(two_nodes())
        for name, values in (
            ("log_severity_level", (0, 1, "0", -2, 5)),
            ("log_verbosity_level", (1, -1)),
            (
                "logid",
                ("a  b", " a", "a ", "a]", "[a", "a:b", "a,b", "a\n", "a\t", "\x1b[31m", "\u2028", "\u00e9", "x" * 257),
            ),
        ):
            for value in values:
                self.assert_refused(name, value)
                with self.assertRaises(NotPermittedError):
                    rep.run([X], **{name: value})
        for text in ("tenant-7/run_2@host+x.y", "request 7 of tenant a", ""):
            rep.run([X], log_severity_level=-1, log_verbosity_level=0, logid=text)
            self.assertEqual(onnxruntime.backend.prepare(two_nodes(), logid=text).session_options["logid"], text)

    def test_enum_numbers_without_a_name(self) -> None:
        for name, kind in (
            ("execution_mode", onnxruntime.ExecutionMode),
            ("execution_order", onnxruntime.ExecutionOrder),
            ("graph_optimization_level", onnxruntime.GraphOptimizationLevel),
        ):
            self.assert_refused(name, kind(77))

    def test_an_order_that_only_training_builds_have(self) -> None:
        for order in (onnxruntime.ExecutionOrder.MEMORY_EFFICIENT, "MEMORY_EFFICIENT"):
            self.assert_refused("execution_order", order)


if __name__ == "__main__":
    unittest.main()
