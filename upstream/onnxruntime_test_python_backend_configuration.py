# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests provider_options, session_config and run_config of the backend API: permitted settings reach ORT, and act."""

from __future__ import annotations

import os
import tempfile
import unittest
import warnings
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import onnx.parser

import onnxruntime
from onnxruntime import backend
from onnxruntime.backend.allowlist import look_up
from onnxruntime.backend.allowlist.providers import CPU, CUDA, PROVIDERS
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import RECORD_ASSIGNMENT, SESSION_CONFIG
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.session import opening
from onnxruntime.capi import onnxruntime_pybind11_state

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] X) => (float[2,3] Y) { N = Neg(X) Y = Abs(N) }'
)
X = np.full((2, 3), -1, np.float32)
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
SHRINK = {SHRINKAGE: "cpu:0"}
HARMLESS = {"session.disable_prepacking": 1}
HARMFUL = {"session.load_model_format": "ORT"}
ON_CUDA = {CUDA: {}}

# Each table with the keyword argument and the EP that it belongs to.
TABLES = [("session_config", "", SESSION_CONFIG), ("run_config", "", RUN_CONFIG)]
for name, table in PROVIDERS.items():
    TABLES.append(("provider_options", name, table))


def samples(kind: object) -> dict[object, str]:
    """Return values that a kind accepts, each with the text that ORT receives."""
    if isinstance(kind, Flag):
        return {True: "1", "0": "0"}
    if isinstance(kind, Integer):
        ends = kind.values[0], kind.values[-1]
        return {end: str(end) for end in ends}
    if isinstance(kind, Choice):
        return {name: name for name in kind.names}
    return {"cpu:0": "cpu:0"}


def available(*names: str) -> mock._patch:
    """Return a context in which ORT has these EPs."""
    place = backend.backend
    return mock.patch.object(place, "get_available_providers", return_value=list(names))


class AppliedTest(unittest.TestCase):
    def test_session_config(self) -> None:
        for key, rule in SESSION_CONFIG.items():
            for value, text in samples(rule.kind).items():
                if key == "session.disable_cpu_ep_fallback" and text == "1":
                    continue  # ORT raises an error if all nodes are on the CPU EP
                with self.subTest(key, value=value):
                    entries = {key: value}
                    rep = backend.prepare(MODEL, session_config=entries)
                    options = rep._session.get_session_options()
                    entry = options.get_session_config_entry(key)
                    self.assertEqual(entry, text)
                    (y,) = rep.run([X])
                    np.testing.assert_array_equal(y, -X)

    @unittest.skipIf(onnxruntime.__version__ < "1.32", "requires the release that contains this test")
    def test_ort_contains_each_key(self) -> None:
        """ORT stores a key that it does not know, and reports it."""
        library = Path(onnxruntime_pybind11_state.__file__).read_bytes()
        for key in [*SESSION_CONFIG, *RUN_CONFIG]:
            self.assertIn(key.encode(), library)

    def test_numpy_scalars(self) -> None:
        entries = {"session.disable_prepacking": np.bool_(True), "session.dynamic_block_base": np.int64(4)}
        rep = backend.prepare(MODEL, session_config=entries)
        options = rep._session.get_session_options()
        texts = [options.get_session_config_entry(key) for key in entries]
        self.assertEqual(texts, ["1", "4"])

    def test_a_session_config_entry_acts(self) -> None:
        entries = {"session.disable_cpu_ep_fallback": True}
        with self.assertRaisesRegex(Exception, "fallback to"):
            backend.prepare(MODEL, session_config=entries)

    def test_forms_of_a_model(self) -> None:
        settings = {"provider_options": {CPU: {}}, "session_config": HARMLESS, "run_config": SHRINK}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(MODEL, path)
            models = [path, MODEL, MODEL.SerializeToString()]
            for model in models:
                rep = backend.prepare(model, **settings)
                self.assertEqual(rep._session.get_providers(), [CPU])
                self.assertEqual(rep._run_config, SHRINK)

    def test_only_the_cpu(self) -> None:
        for specified in ({}, {CPU: {}}):
            rep = backend.prepare(MODEL, provider_options=specified)
            providers = rep._session.get_providers()
            self.assertEqual(providers, [CPU])

    def test_without_settings(self) -> None:
        """ORT receives the arguments that it received before this feature. A program can replace its class."""
        calls = []

        class Session(onnxruntime.InferenceSession):
            def __init__(self, *positional, **keywords) -> None:
                calls.append(keywords)
                super().__init__(*positional, **keywords)

        with mock.patch.object(backend.backend, "InferenceSession", Session):
            rep = backend.prepare(MODEL)
        self.assertIsInstance(rep._session, Session)
        (keywords,) = calls
        options = keywords.pop("sess_options")
        providers = onnxruntime.get_available_providers()
        self.assertEqual(keywords, {"providers": providers})
        with self.assertRaises(RuntimeError):
            options.get_session_config_entry(RECORD_ASSIGNMENT)

    def test_the_environment_cannot_exclude_the_cpu(self) -> None:
        with mock.patch.dict(os.environ, ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS=CPU):
            rep = backend.prepare(MODEL, provider_options={CPU: {}})
        providers = rep._session.get_providers()
        self.assertEqual(providers, [CPU])


class VerifiedTest(unittest.TestCase):
    """The session does not have what was sent to ORT."""

    def open(
        self, session: object, provider_options: object = None, session_config: object = None
    ) -> onnxruntime.SessionOptions:
        """Create a session, for which ORT returns another one. Return the options that ORT received."""
        providers = [CUDA, CPU]
        permit = look_up.permit_of(provider_options, session_config, None, providers)
        session_class = mock.Mock(return_value=session)
        options = onnxruntime.SessionOptions()
        opening.create(session_class, b"", permit, options, providers)
        if provider_options is not None:
            keywords = session_class.call_args.kwargs
            self.assertEqual(keywords["enable_fallback"], 0)
        return options

    def session(self, node_on: str = CUDA) -> mock.Mock:
        options = mock.Mock()
        options.get_session_config_entry.return_value = "1"
        nodes = mock.Mock(ep_name=node_on)
        session = mock.Mock(spec=onnxruntime.InferenceSession)
        session.get_providers.return_value = [CUDA, CPU]
        session.get_provider_options.return_value = {CUDA: {"use_tf32": "1"}, CPU: {}}
        session.get_session_options.return_value = options
        session.get_provider_graph_assignment_info.return_value = [nodes]
        return session

    def test_an_execution_provider_is_missing(self) -> None:
        serialized = MODEL.SerializeToString()
        session = onnxruntime.InferenceSession(serialized, providers=[CPU])
        words = f"with {CPU} instead of {CUDA}, {CPU}"
        with self.assertRaisesRegex(RuntimeError, words):
            self.open(session, provider_options=ON_CUDA)

    def test_the_order_differs(self) -> None:
        specified = {CPU: {}, CUDA: {}}
        with self.assertRaisesRegex(RuntimeError, "instead of"):
            self.open(self.session(), provider_options=specified)

    def test_a_value_differs(self) -> None:
        cases = [
            ("provider_options", {CUDA: {"use_tf32": 0}}, "ORT reports '1'"),
            ("provider_options", {CUDA: {"prefer_nhwc": 0}}, "ORT reports None"),
            ("session_config", {"session.disable_prepacking": 0}, "the session has '1'"),
        ]
        for keyword, settings, report in cases:
            words = f"sent as '0', but {report}"
            with self.subTest(words), self.assertRaisesRegex(RuntimeError, words):
                self.open(self.session(), **{keyword: settings})

    def test_an_execution_provider_without_nodes(self) -> None:
        words = f"No node of this model is assigned to {CUDA}"
        idle = self.session(node_on=CPU)
        with self.assertWarnsRegex(RuntimeWarning, words):
            self.open(idle, provider_options=ON_CUDA)
        without_record = self.session()
        without_record.get_provider_graph_assignment_info.return_value = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.open(self.session(), provider_options=ON_CUDA)
            self.open(without_record, provider_options=ON_CUDA)

    def test_the_record_of_nodes_is_off(self) -> None:
        idle = self.session(node_on=CPU)
        recording = idle.get_session_options.return_value
        recording.get_session_config_entry.return_value = "0"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            options = self.open(idle, provider_options=ON_CUDA, session_config={RECORD_ASSIGNMENT: 0})
        entry = options.get_session_config_entry(RECORD_ASSIGNMENT)
        self.assertEqual(entry, "0")

    def test_the_options_of_the_model_replace_those_of_the_caller(self) -> None:
        model = onnx.ModelProto()
        model.CopyFrom(MODEL)
        model.metadata_props.add(key="ort_config", value='{"session_options": {"enable_cpu_mem_arena": 0}}')
        with mock.patch.dict(os.environ, ORT_LOAD_CONFIG_FROM_MODEL="1"), self.assertRaises(RuntimeError):
            backend.prepare(model, session_config=HARMLESS)


class RunConfigTest(unittest.TestCase):
    """ORT raises an error for a run that shrinks an arena that the session does not have. The error shows the entry."""

    def setUp(self) -> None:
        self.rep = backend.prepare(MODEL, enable_cpu_mem_arena=False)

    def assert_shrinks(self, call, *positional, **keywords) -> None:
        with self.assertRaisesRegex(Exception, "arena"):
            call(*positional, **keywords)

    def test_of_prepare(self) -> None:
        settings = {"run_config": SHRINK, "enable_cpu_mem_arena": False}
        rep = backend.prepare(MODEL, **settings)
        for inputs in ([X], X, [X]):
            self.assert_shrinks(rep.run, inputs)
        self.assert_shrinks(backend.run, MODEL, [X], **settings)

    def test_the_mapping_is_read_once(self) -> None:
        class Once(Mapping):
            """A mapping that is empty afterwards."""

            entries = SHRINK

            def __iter__(self):
                entries, self.entries = self.entries, {}
                return iter(entries)

            def __getitem__(self, key: str) -> str:
                return SHRINK[key]

            def __len__(self) -> int:
                return 1

        serialized = MODEL.SerializeToString()
        rep = backend.prepare(serialized, run_config=Once())
        self.assertEqual(rep._run_config, SHRINK)

    def test_of_one_run(self) -> None:
        self.assert_shrinks(self.rep.run, [X], run_config=SHRINK)
        self.rep.run([X])

    def test_of_a_session_or_a_prepared_model(self) -> None:
        for model in (self.rep, self.rep._session):
            rep = backend.prepare(model, run_config=SHRINK)
            self.assertIs(rep._session, self.rep._session)
            self.assert_shrinks(rep.run, [X])
        self.assertIs(backend.prepare(self.rep), self.rep)
        self.rep.run([X])

    def test_a_run_overrides_prepare(self) -> None:
        rep = self.rep.with_run_config(SHRINK)
        entries = {SHRINKAGE: "gpu:0"}
        with mock.patch.object(backend.backend_rep, "RunOptions") as options, self.assertRaises(TypeError):
            rep.run([X], run_config=entries)
        add = options.return_value.add_run_config_entry
        add.assert_called_once_with(SHRINKAGE, "gpu:0")


class SubclassTest(unittest.TestCase):
    def test_prepare_receives_each_form_of_the_model(self) -> None:
        calls = []

        class Recording(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                calls.append((type(model).__name__, sorted(kwargs)))
                return super().prepare(model, device, **kwargs)

        Recording.run_model(MODEL, [X], provider_options={CPU: {}}, session_config=HARMLESS, run_config=SHRINK)
        all_settings = ["provider_options", "run_config", "session_config"]
        expected = [("ModelProto", all_settings), ("bytes", all_settings), ("InferenceSession", ["run_config"])]
        self.assertEqual(calls, expected)

    def test_prepare_without_keyword_arguments(self) -> None:
        class Old(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None):
                return super().prepare(model, device)

        (y,) = Old.run_model(MODEL, [X])
        np.testing.assert_array_equal(y, -X)

    def test_a_prepared_model_without_init(self) -> None:
        class Old(OnnxRuntimeBackendRep):
            def __init__(self, session) -> None:
                self._session = session

        session = backend.prepare(MODEL)._session
        rep = Old(session)
        (y,) = rep.run([X])
        np.testing.assert_array_equal(y, -X)
        with_entries = rep.with_run_config(SHRINK)
        self.assertIsInstance(with_entries, Old)


if __name__ == "__main__":
    unittest.main()
