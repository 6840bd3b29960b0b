# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of ``session_options`` and ``free_dimension_overrides``, from Python, JSON files and the environment."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from backend_test_models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.allowlist import refusals
from onnxruntime.backend.errors import NotPermittedError

CPU = "CPUExecutionProvider"
VARIABLE = "ORT_ONNX_BACKEND_CONFIG"
OPTIONS = {"intra_op_num_threads": 2, "graph_optimization_level": "ORT_ENABLE_BASIC", "execution_mode": "ORT_PARALLEL"}
X = np.ones((2, 3), np.float32)
HAS_EXTENSIONS = importlib.util.find_spec("onnxruntime_extensions") is not None


def held(rep) -> dict[str, object]:
    """Return the values of ``OPTIONS`` in the session's options."""
    options = rep.session.get_session_options()
    return {name: getattr(getattr(options, name), "name", getattr(options, name)) for name in OPTIONS}


class SessionOptionsTest(unittest.TestCase):
    def setUp(self) -> None:
        without = {name: value for name, value in os.environ.items() if name != VARIABLE}
        self.enterContext(mock.patch.dict(os.environ, without, clear=True))

    def test_a_keyword_and_the_environment_and_a_file(self) -> None:
        self.assertEqual(held(onnxruntime.backend.prepare(two_nodes(), session_options=OPTIONS)), OPTIONS)
        text = json.dumps({"session_options": OPTIONS})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "config.json")
            path.write_text(text)
            for value in (text, f"@{path}"):
                with mock.patch.dict(os.environ, {VARIABLE: value}):
                    self.assertEqual(held(onnxruntime.backend.prepare(two_nodes())), OPTIONS)
                    onnxruntime.backend.run(two_nodes(), [X])

    def test_who_wins(self) -> None:
        with mock.patch.dict(os.environ, {VARIABLE: json.dumps({"session_options": OPTIONS})}):
            rep = onnxruntime.backend.prepare(two_nodes(), session_options={"intra_op_num_threads": 3})
            self.assertEqual(held(rep), OPTIONS | {"intra_op_num_threads": 3})
            rep = onnxruntime.backend.prepare(
                two_nodes(), session_options={"intra_op_num_threads": 3}, intra_op_num_threads=4
            )
            self.assertEqual(held(rep), OPTIONS | {"intra_op_num_threads": 4})

    def test_nothing_in_it_is_ignored(self) -> None:
        for options, why in (
            ({"no_such": 1}, "unknown attribute"),
            ({"intra_op_num_thread": 1}, "Did you mean 'intra_op_num_threads'"),
            ({"optimized_model_filepath": "x"}, "writes files"),
            ({"intra_op_num_threads": 10**6}, "Expected an integer"),
            ({"execution_mode": 77}, "not a member"),
            ({"session.intra_op.allow_spinning": 1}, "belongs in session_config"),
            ([], "must be a mapping"),
        ):
            with self.subTest(options), no_session_opens(), self.assertRaisesRegex(NotPermittedError, why) as refused:
                onnxruntime.backend.prepare(two_nodes(), session_options=options)
            self.assertEqual(refused.exception.keyword, "session_options")
        with mock.patch.dict(os.environ, {VARIABLE: '{"session_options": {"no_such": 1}}'}):
            with self.assertRaisesRegex(RuntimeError, f"no_such.*environment variable {VARIABLE}") as refused:
                onnxruntime.backend.prepare(two_nodes())
            self.assertNotIsInstance(refused.exception, NotPermittedError)

    def test_without_refusals_all_that_is_unknown_stays_refused(self) -> None:
        with mock.patch.object(refusals, "find", return_value=None):
            for name in refusals.SESSION_ATTRIBUTES:
                with self.subTest(name), self.assertRaises(NotPermittedError):
                    onnxruntime.backend.prepare(two_nodes(), session_options={name: 1})

    def test_of_an_open_session(self) -> None:
        session = onnxruntime.InferenceSession(two_nodes().SerializeToString(), providers=[CPU])
        rep = onnxruntime.backend.prepare(session, session_options={})
        for call in (
            lambda: onnxruntime.backend.prepare(session, session_options=OPTIONS),
            lambda: onnxruntime.backend.prepare(rep, session_options=OPTIONS),
            lambda: rep.run([X], session_options=OPTIONS),
        ):
            with self.assertRaisesRegex(NotPermittedError, "session_options: cannot be"):
                call()

    def test_free_dimensions_from_the_environment(self) -> None:
        model = two_nodes(("N", 3))
        with mock.patch.dict(os.environ, {VARIABLE: '{"free_dimension_overrides": {"N": 2}}'}):
            self.assertEqual(onnxruntime.backend.prepare(model).session.get_inputs()[0].shape, [2, 3])
            rep = onnxruntime.backend.prepare(model, free_dimension_overrides={"N": 4})
            self.assertEqual(rep.session.get_inputs()[0].shape, [4, 3])
            with self.assertRaisesRegex(RuntimeError, f"no dimension.*{VARIABLE}") as refused:
                onnxruntime.backend.prepare(two_nodes())
            self.assertNotIsInstance(refused.exception, NotPermittedError)


if __name__ == "__main__":
    unittest.main()
