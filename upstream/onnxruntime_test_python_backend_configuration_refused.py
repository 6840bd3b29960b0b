# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests that the backend API refuses all settings that its tables do not permit, before ORT receives any setting."""

from __future__ import annotations

import os
import pickle
import unittest
from collections.abc import Iterable, Mapping
from unittest import mock

import numpy as np
from onnxruntime_test_python_backend_configuration import (
    HARMFUL,
    HARMLESS,
    MODEL,
    ON_CUDA,
    SHRINK,
    TABLES,
    X,
    available,
)

from onnxruntime import backend
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.allowlist.providers import CPU, CUDA
from onnxruntime.backend.allowlist.value_kinds import Flag, Integer
from onnxruntime.backend.backend import OnnxRuntimeBackend

# Names that exist in ORT and may never be in a table: they name files or libraries, take pointers, or act outside of
# the session.
REFUSED = {
    "session_config": (
        "ep.context_embed_mode",
        "ep.context_enable",
        "ep.context_file_path",
        "session.allow_released_opsets_only",
        "session.collect_node_memory_stats_to_file",
        "session.intra_op_thread_affinities",
        "session.load_model_format",
        "session.model_external_initializers_file_folder_path",
        "session.optimized_model_external_initializers_file_name",
        "session.save_external_prepacked_constant_initializers",
        "session.save_model_format",
        "session.set_denormal_as_zero",
        "session.use_env_allocators",
        "session.use_ort_model_bytes_directly",
        "session.use_ort_model_bytes_for_initializers",
    ),
    "run_config": ("disable_synchronize_execution_providers", "gpu_graph_id"),
    "provider_options": (
        "do_copy_in_default_stream",
        "enable_cuda_graph",
        "external_data_loader_use_gds",
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
        self.assertLess(len(message), 1200)
        self.assertTrue(message.isascii())
        return error

    def assert_each_refused(self, words: str, keyword: str, ep: str, entries: Iterable[tuple[object, object]]) -> None:
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
                if isinstance(rule.kind, Flag):
                    values += -1, 2
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
        keys = [1, None, b"a", 1.5, (), Named("session.load_model_format")]
        for keyword, ep, _ in TABLES:
            for key in keys:
                settings = {key: 1}
                self.assert_refused(words, **arguments(keyword, ep, settings))
        options = {Named(CPU): {}}
        self.assert_refused(words, provider_options=options)

    def test_arguments_that_are_not_mappings(self) -> None:
        words = "must be a mapping such as a dict"
        values = [[("a", 1)], "text", 3, {CPU}, Silent()]
        for keyword, ep, _ in TABLES:
            for value in values:
                self.assert_refused(words, **arguments(keyword, ep, value))
            unreadable = arguments(keyword, ep, Unreadable())
            self.assert_refused("must be a mapping that can be read", **unreadable)
        options = {CPU: None}
        self.assert_refused(words, provider_options=options)

    def test_execution_providers(self) -> None:
        names = ["", "CPU", "cpuexecutionprovider", f"{CPU} ", "TensorrtExecutionProvider", "library.so"]
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
        self.assert_refused("must be a mapping", rep.run, [X], run_config=[])
        self.assert_refused(words, rep.with_run_config, HARMFUL)

    def test_prepare_of_a_subclass_that_ignores_settings(self) -> None:
        class Old(OnnxRuntimeBackend):
            @classmethod
            def prepare(cls, model, device=None, **kwargs):
                return super().prepare(model, device)

        with self.assertRaisesRegex(NotPermittedError, "is not permitted"):
            Old.run_model(MODEL, [X], run_config=HARMFUL)

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
        with self.assertRaisesRegex(NotPermittedError, words) as caught:
            backend.prepare(MODEL, enable_profiling=True)
        self.assertEqual(caught.exception.keyword, "enable_profiling")
        with self.assertRaisesRegex(NotPermittedError, words) as caught:
            rep.run([X], terminate=True)
        self.assertEqual(caught.exception.keyword, "terminate")


if __name__ == "__main__":
    unittest.main()
