# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests provider_options, session_config and run_config of the backend API: what ORT receives, and what is refused."""

from __future__ import annotations

import os
import pickle
import tempfile
import unittest
import warnings
from collections.abc import Iterable, Mapping
from unittest import mock

import numpy as np
import onnx
import onnx.parser

import onnxruntime
from onnxruntime import backend
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.allowlist.providers import CPU, CUDA, PROVIDERS
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

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
TABLES = [
    ("session_config", "", SESSION_CONFIG),
    ("run_config", "", RUN_CONFIG),
]
for name, table in PROVIDERS.items():
    TABLES.append(("provider_options", name, table))

# Names that exist in ORT and may never be in a table: they name files or libraries, take pointers, or act outside of
# the session.
REFUSED = {
    "session_config": (
        "ep.context_embed_mode",
        "ep.context_enable",
        "ep.context_file_path",
        "session.allow_released_opsets_only",
        "session.collect_node_memory_stats_to_file",
        "session.load_model_format",
        "session.model_external_initializers_file_folder_path",
        "session.optimized_model_external_initializers_file_name",
        "session.save_external_prepacked_constant_initializers",
        "session.save_model_format",
        "session.use_env_allocators",
        "session.use_ort_model_bytes_directly",
        "session.use_ort_model_bytes_for_initializers",
    ),
    "run_config": (
        "disable_synchronize_execution_providers",
        "gpu_graph_id",
    ),
    "provider_options": (
        "do_copy_in_default_stream",
        "enable_cuda_graph",
        "gpu_external_alloc",
        "gpu_external_empty_cache",
        "gpu_external_free",
        "has_user_compute_stream",
        "tunable_op_tuning_enable",
        "user_compute_stream",
    ),
}


class Named(str):  # noqa: SLOT000
    """A name that a dict finds as another name."""

    def __hash__(self) -> int:
        return hash("session.disable_prepacking")

    def __eq__(self, other: object) -> bool:
        return True


class Number(int):
    """An int that can have methods of its own."""


class Silent:
    """An object whose methods must not run."""

    def __repr__(self) -> str:
        raise AssertionError("ran code of the caller")

    __bool__ = __eq__ = __hash__ = __index__ = __int__ = __iter__ = __len__ = __str__ = __repr__


class Unreadable(Mapping):
    """A mapping that fails when it is read."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self):
        raise RuntimeError("cannot be read")

    def __len__(self) -> int:
        return 1


# Values that no entry accepts.
HOSTILE = (
    None,
    Silent(),
    Number(1),
    Named("1"),
    np.float32(1),
    0.5,
    1.0,
    float("nan"),
    [],
    (1,),
    {},
    b"1",
    1j,
    2**63,
    -(2**63),
    10**30,
    "",
    " 1",
    "1 ",
    "1\n",
    "1\0",
    "yes",
    "true",
    "\u0663",
    "0x1",
    "1e3",
    "1;2",
    "../x",
    "+1",
    "9" * 30,
    "CPU:0",
    "cpu:0;",
    "cpu:0\n",
    "cpu:1",
    "gpu:100",
    "cpu:0;" * 8 + "cpu:0",
)


def samples(kind: object) -> dict[object, str]:
    """Return values that a kind accepts, each with the text that ORT receives."""
    if isinstance(kind, Flag):
        return {
            True: "1",
            "0": "0",
        }
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


def arguments(keyword: str, ep: str, settings: object) -> dict[str, object]:
    """Return a keyword argument with settings, which belong to an EP if one is given."""
    if ep:
        settings = {ep: settings}
    return {keyword: settings}


class RefusedTest(unittest.TestCase):
    """Each error is about the right setting, and ORT receives nothing before it."""

    def assert_refused(self, words: str, call=None, *positional, **keywords) -> NotPermittedError:
        """Call ``prepare``, or another function, and return its error."""
        if call is None:
            call = backend.prepare
            positional = [MODEL]
        with (
            available(CUDA, CPU),
            mock.patch.object(backend.backend, "SessionOptions") as session_options,
            mock.patch.object(backend.backend_rep, "RunOptions") as run_options,
            self.assertRaisesRegex(NotPermittedError, words) as caught,
        ):
            call(*positional, **keywords)
        session_options.assert_not_called()
        run_options.assert_not_called()
        error = caught.exception
        message = str(error)
        self.assertLess(len(message), 600)
        self.assertTrue(message.isascii())
        return error

    def assert_each_refused(
        self,
        words: str,
        keyword: str,
        ep: str,
        entries: Iterable[tuple[object, object]],
    ) -> None:
        """Specify each entry alone. The error must contain its place."""
        for name, value in entries:
            settings = {name: value}
            with self.subTest(name, kind=type(value)):
                error = self.assert_refused(words, **arguments(keyword, ep, settings))
                self.assertEqual(error.keyword, keyword)
                self.assertEqual(error.provider, ep)
                self.assertEqual(error.key, name)

    def test_values(self) -> None:
        for keyword, ep, table in TABLES:
            for name, rule in table.items():
                values = list(HOSTILE)
                if isinstance(rule.kind, Integer):
                    low = rule.kind.values[0]
                    high = rule.kind.values[-1]
                    values += low - 1, high + 1
                entries = [(name, value) for value in values]
                self.assert_each_refused("invalid value", keyword, ep, entries)

    def test_names(self) -> None:
        for keyword, ep, table in TABLES:
            names = ["", "*"]
            names += REFUSED[keyword]
            for name in table:
                names.append(name.upper())
                names.append(f"{name} ")
                names.append(f"{name}\0")
            entries = [(name, "1") for name in names]
            self.assert_each_refused("is not permitted", keyword, ep, entries)

    def test_a_permitted_entry_beside_a_refused_one(self) -> None:
        self.assert_refused("is not permitted", session_config=HARMLESS | HARMFUL)
        self.assert_refused("is not permitted", run_config=SHRINK | HARMFUL)

    def test_keys_that_are_not_text(self) -> None:
        words = "a key must be a str"
        keys = [
            1,
            None,
            b"a",
            1.5,
            (),
            Named("session.load_model_format"),
        ]
        for keyword, ep, _ in TABLES:
            for key in keys:
                settings = {key: 1}
                self.assert_refused(words, **arguments(keyword, ep, settings))
        options = {Named(CPU): {}}
        self.assert_refused(words, provider_options=options)

    def test_arguments_that_are_not_mappings(self) -> None:
        words = "must be a mapping such as a dict"
        values = [
            [("a", 1)],
            "text",
            3,
            {CPU},
            Silent(),
        ]
        for keyword, ep, _ in TABLES:
            for value in values:
                self.assert_refused(words, **arguments(keyword, ep, value))
            unreadable = arguments(keyword, ep, Unreadable())
            self.assert_refused("must be a mapping that can be read", **unreadable)
        options = {CPU: None}
        self.assert_refused(words, provider_options=options)

    def test_execution_providers(self) -> None:
        names = [
            "",
            "CPU",
            "cpuexecutionprovider",
            f"{CPU} ",
            "TensorrtExecutionProvider",
            "library.so",
        ]
        for name in names:
            options = {name: {}}
            self.assert_refused("is not permitted", provider_options=options)
        with mock.patch.dict(os.environ, ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS=CUDA):
            words = f"not available. Available: {CPU}"
            self.assert_refused(words, provider_options=ON_CUDA)

    def test_a_device_that_contradicts_the_execution_providers(self) -> None:
        for device in ("CUDA", "GPU"):
            error = self.assert_refused("contradicts", backend.prepare, MODEL, device, provider_options={})
            self.assertEqual(error.keyword, "device")

    def test_calls_that_accept_settings(self) -> None:
        words = "is not permitted"
        rep = backend.prepare(MODEL)
        for keyword in ("provider_options", "session_config", "run_config"):
            settings = {keyword: HARMFUL}
            self.assert_refused(words, backend.run, MODEL, [X], **settings)
        for model in (rep, rep._session):
            self.assert_refused(words, backend.prepare, model, run_config=HARMFUL)
        self.assert_refused(words, rep.run, [X], run_config=HARMFUL)
        self.assert_refused(words, rep.with_run_config, HARMFUL)

    def test_settings_for_an_existing_session(self) -> None:
        words = "cannot be applied to an existing session"
        rep = backend.prepare(MODEL)
        for model in (rep, rep._session):
            self.assert_refused(words, backend.prepare, model, provider_options={})
            self.assert_refused(words, backend.prepare, model, session_config={})

    def test_the_error_is_plain_data(self) -> None:
        entries = {"x" * 10_000: 1}
        error = self.assert_refused("x" * 70, session_config=entries)
        copied = pickle.loads(pickle.dumps(error))
        self.assertEqual(str(copied), str(error))
        self.assertEqual(vars(copied), vars(error))
        options = {"device_id": 1 << 40_000}
        self.assert_refused("an integer of 40001 bits", provider_options={CUDA: options})

    def test_attributes(self) -> None:
        rep = backend.prepare(MODEL)
        words = "is not permitted via the backend API"
        with self.assertRaisesRegex(NotPermittedError, words):
            backend.prepare(MODEL, enable_profiling=True)
        with self.assertRaisesRegex(NotPermittedError, words):
            rep.run([X], terminate=True)


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

    def test_a_session_config_entry_acts(self) -> None:
        entries = {"session.disable_cpu_ep_fallback": True}
        with self.assertRaisesRegex(Exception, "fallback to"):
            backend.prepare(MODEL, session_config=entries)

    def test_forms_of_a_model(self) -> None:
        settings = {
            "provider_options": {CPU: {}},
            "session_config": HARMLESS,
            "run_config": SHRINK,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(MODEL, path)
            models = [
                path,
                MODEL,
                MODEL.SerializeToString(),
            ]
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
        """ORT receives the arguments that it received before this feature."""
        place = "onnxruntime.backend.session.opening.InferenceSession"
        with (
            mock.patch(place, side_effect=KeyError) as session,
            self.assertRaises(KeyError),
        ):
            backend.prepare(MODEL)
        providers = onnxruntime.get_available_providers()
        session.assert_called_once_with(
            mock.ANY,
            sess_options=mock.ANY,
            providers=providers,
        )


class VerifiedTest(unittest.TestCase):
    """The session does not have what was sent to ORT."""

    def prepare_with(self, session: object, **settings: object) -> None:
        place = "onnxruntime.backend.session.opening.InferenceSession"
        with (
            mock.patch(place, return_value=session),
            available(CUDA, CPU),
        ):
            backend.prepare(MODEL.SerializeToString(), **settings)

    def session(self, node_on: str = CUDA) -> mock.Mock:
        options = mock.Mock()
        options.get_session_config_entry.return_value = "1"
        nodes = mock.Mock(ep_name=node_on)
        session = mock.Mock(spec=onnxruntime.InferenceSession)
        session.get_providers.return_value = [CUDA, CPU]
        session.get_provider_options.return_value = {
            CUDA: {"use_tf32": "1"},
            CPU: {},
        }
        session.get_session_options.return_value = options
        session.get_provider_graph_assignment_info.return_value = [nodes]
        return session

    def test_an_execution_provider_is_missing(self) -> None:
        serialized = MODEL.SerializeToString()
        session = onnxruntime.InferenceSession(serialized, providers=[CPU])
        words = f"with {CPU} instead of {CUDA}, {CPU}"
        with self.assertRaisesRegex(RuntimeError, words):
            self.prepare_with(session, provider_options=ON_CUDA)

    def test_a_value_differs(self) -> None:
        cases = [
            ("provider_options", {CUDA: {"use_tf32": 0}}, "ORT reports '1'"),
            ("provider_options", {CUDA: {"prefer_nhwc": 0}}, "ORT reports None"),
            ("session_config", {"session.disable_prepacking": 0}, "the session has '1'"),
        ]
        for keyword, settings, report in cases:
            words = f"sent as '0', but {report}"
            with (
                self.subTest(words),
                self.assertRaisesRegex(RuntimeError, words),
            ):
                self.prepare_with(self.session(), **{keyword: settings})

    def test_an_execution_provider_without_nodes(self) -> None:
        words = f"No node of this model is assigned to {CUDA}"
        idle = self.session(node_on=CPU)
        with self.assertWarnsRegex(RuntimeWarning, words):
            self.prepare_with(idle, provider_options=ON_CUDA)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.prepare_with(self.session(), provider_options=ON_CUDA)

    def test_the_options_of_the_model_replace_those_of_the_caller(self) -> None:
        model = onnx.ModelProto()
        model.CopyFrom(MODEL)
        model.metadata_props.add(
            key="ort_config",
            value='{"session_options": {"enable_cpu_mem_arena": 0}}',
        )
        with (
            mock.patch.dict(os.environ, ORT_LOAD_CONFIG_FROM_MODEL="1"),
            self.assertRaises(RuntimeError),
        ):
            backend.prepare(model, session_config=HARMLESS)


class RunConfigTest(unittest.TestCase):
    """ORT raises an error for a run that shrinks an arena that the session does not have. The error shows the entry."""

    def setUp(self) -> None:
        self.rep = backend.prepare(MODEL, enable_cpu_mem_arena=False)

    def assert_shrinks(self, call, *positional, **keywords) -> None:
        with self.assertRaisesRegex(Exception, "arena"):
            call(*positional, **keywords)

    def test_of_prepare(self) -> None:
        settings = {
            "run_config": SHRINK,
            "enable_cpu_mem_arena": False,
        }
        rep = backend.prepare(MODEL, **settings)
        for inputs in ([X], X, [X]):
            self.assert_shrinks(rep.run, inputs)
        self.assert_shrinks(backend.run, MODEL, [X], **settings)

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
        with (
            mock.patch.object(backend.backend_rep, "RunOptions") as options,
            self.assertRaises(TypeError),
        ):
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

        Recording.run_model(
            MODEL,
            [X],
            provider_options={CPU: {}},
            session_config=HARMLESS,
            run_config=SHRINK,
        )
        all_settings = [
            "provider_options",
            "run_config",
            "session_config",
        ]
        expected = [
            ("ModelProto", all_settings),
            ("bytes", all_settings),
            ("InferenceSession", ["run_config"]),
        ]
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
