# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the environment variable ``ORT_ONNX_BACKEND_CONFIG``."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from backend_test_children import run_code
from backend_test_models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import errors, request
from onnxruntime.backend.errors import NotPermittedError

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
VARIABLE = "ORT_ONNX_BACKEND_CONFIG"
CPU = "CPUExecutionProvider"
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
GRAPH_ID = "gpu_graph_id"
WRITES = "session.collect_node_memory_stats_to_file"


def environment(value: object):
    """A context with the variable set: to text as it is, to anything else as JSON."""
    return mock.patch.dict(os.environ, {VARIABLE: value if isinstance(value, str) else json.dumps(value)})


def prepare(**keywords):
    return onnxruntime.backend.prepare(two_nodes(), **keywords)


class AppliedTest(unittest.TestCase):
    EVERYTHING = {  # noqa: RUF012
        "provider_options": {CPU: {}},
        "session_config": {PREPACKING: True, SPINNING: "0"},
        "run_config": {GRAPH_ID: 3},
    }

    def check_everything(self, rep) -> None:
        self.assertEqual(rep.providers, (CPU,))
        self.assertEqual(dict(rep.node_assignment), {CPU: 2})  # recorded because EPs are named
        self.assertEqual(dict(rep.session_config), {PREPACKING: "1", SPINNING: "0"})
        self.assertEqual(dict(rep.run_config), {GRAPH_ID: "3"})
        np.testing.assert_array_equal(rep.run([X])[0], abs(X))

    def test_json(self) -> None:
        with environment(self.EVERYTHING):
            self.check_everything(prepare())

    def test_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "configuration.json")
            for encoding in ("utf-8", "utf-8-sig"):  # some editors write a byte order mark
                path.write_text(json.dumps(self.EVERYTHING), encoding=encoding)
                with environment(f"@{path}"):
                    self.check_everything(prepare())

    def test_one_shot_run_carries_it(self) -> None:
        with (
            environment(self.EVERYTHING),
            mock.patch.object(onnxruntime.InferenceSession, "run", autospec=True, return_value=[X]) as run,
        ):
            onnxruntime.backend.run(two_nodes(), [X.tolist()])  # arrays go past this method
        session, _names, _feeds, run_options = run.call_args.args
        self.assertEqual(session.get_session_options().get_session_config_entry(PREPACKING), "1")
        self.assertEqual(run_options.get_run_config_entry(GRAPH_ID), "3")

    def test_not_set_or_empty(self) -> None:
        without = {name: value for name, value in os.environ.items() if name != VARIABLE}
        for more in ({}, {VARIABLE: ""}, {VARIABLE: "{}"}):
            with mock.patch.dict(os.environ, without | more, clear=True):
                rep = prepare()
            self.assertEqual(rep.providers, tuple(onnxruntime.get_available_providers()))
            self.assertEqual((dict(rep.session_config), dict(rep.run_config)), ({}, {}))

    def test_an_empty_provider_options_names_none(self) -> None:
        with environment({"provider_options": {}}):
            self.assertEqual(prepare().providers, (CPU,))

    def test_read_at_every_prepare(self) -> None:
        with environment({"session_config": {PREPACKING: 1}}):
            self.assertEqual(dict(prepare().session_config), {PREPACKING: "1"})
        with environment({"session_config": {SPINNING: 0}}):
            self.assertEqual(dict(prepare().session_config), {SPINNING: "0"})

    def test_a_family_key_warns_at_the_caller(self) -> None:
        with (
            environment({"session_config": {"session.intra_op.no_such": 1}}),
            self.assertWarnsRegex(RuntimeWarning, "no_such"),
        ):
            prepare()

    def test_a_callers_runner_without_keywords(self) -> None:
        # A conformance run: a process without any of the three keyword arguments. The node tests are left out, because
        # onnx computes all of them again.
        code = """
import unittest, onnx.backend.test, onnxruntime.backend as backend
onnx.backend.test.loader.load_node_model_tests = list
tests = onnx.backend.test.BackendTest(backend, "conformance").include("^test_(ReLU|Sigmoid|Tanh)_cpu$").test_cases
unittest.main(argv=["conformance"], module=type("m", (), tests))
"""
        for config, outcome in (
            (self.EVERYTHING, r"(?s)Ran [1-9].*\nOK"),
            ({"session_config": {WRITES: "x"}}, rf"(?s)session_config\['{WRITES}'\] is not permitted.*errors=3"),
        ):
            with environment(config):
                ran = run_code(code)
            self.assertRegex(ran.stderr, outcome)


class PrecedenceTest(unittest.TestCase):
    def test_keywords_win_key_by_key(self) -> None:
        with environment({"session_config": {PREPACKING: 1, SPINNING: 1}, "run_config": {GRAPH_ID: 3}}):
            rep = prepare(session_config={SPINNING: 0}, run_config={GRAPH_ID: -1, SHRINKAGE: "cpu:0"})
        self.assertEqual(dict(rep.session_config), {PREPACKING: "1", SPINNING: "0"})
        self.assertEqual(dict(rep.run_config), {GRAPH_ID: "-1", SHRINKAGE: "cpu:0"})

    def test_an_ep_that_the_caller_specifies_too(self) -> None:
        config = {"provider_options": {"NoSuchExecutionProvider": {}}}
        with environment(config), no_session_opens():
            with self.assertRaises(NotPermittedError) as refused:
                prepare(**config)
            self.assertNotIn(VARIABLE, str(refused.exception))

    def test_a_warning_about_an_attribute_of_the_caller(self) -> None:
        config = {"session_options": {"inter_op_num_threads": 3}}
        for keywords, of_environment in (({}, True), ({"inter_op_num_threads": 2}, False)):
            with environment(config), self.assertWarnsRegex(RuntimeWarning, "inter_op_num_threads"):
                (warning,) = prepare(**keywords).warnings
            self.assertEqual(VARIABLE in warning, of_environment)
        with environment({"session_config": {PREPACKING: 1}}), self.assertWarnsRegex(RuntimeWarning, GRAPH_ID):
            (warning,) = prepare(run_config={GRAPH_ID: 3}).warnings
        self.assertNotIn(VARIABLE, warning)

    def test_eps_of_the_environment_that_contradict_the_device(self) -> None:
        requested = request.Request(device="CUDA", from_environment={("provider_options", "", "")})
        with self.assertRaisesRegex(RuntimeError, request.ENVIRONMENT) as raised, requested.blame_environment():
            errors.reject("", "device")
        self.assertNotIsInstance(raised.exception, NotPermittedError)

    def test_a_keyword_that_names_nothing_wins_nothing(self) -> None:
        with environment({"session_config": {PREPACKING: 1}}):
            for nothing in (None, {}):
                self.assertEqual(dict(prepare(session_config=nothing).session_config), {PREPACKING: "1"})

    def test_option_by_option_inside_an_ep_and_the_callers_eps_first(self) -> None:
        # What would be looked up, on EPs that this machine need not have.
        with (
            environment(
                {
                    "provider_options": {
                        "OpenVINOExecutionProvider": {"num_of_threads": 2},
                        "CUDAExecutionProvider": {"use_tf32": 1, "device_id": 1},
                    }
                }
            ),
            mock.patch("onnxruntime.backend.allowlist.look_up.permit", side_effect=LookupError) as look_up,
            self.assertRaises(LookupError),
        ):
            prepare(provider_options={"CUDAExecutionProvider": {"use_tf32": 0}, CPU: {}})
        self.assertEqual(
            list(look_up.call_args.args[0].settings["provider_options"].items()),
            [
                ("CUDAExecutionProvider", {"use_tf32": 0, "device_id": 1}),
                (CPU, {}),
                ("OpenVINOExecutionProvider", {"num_of_threads": 2}),
            ],
        )

    def test_a_run_wins_over_it(self) -> None:
        with environment({"run_config": {GRAPH_ID: 3}}):
            rep = prepare()
            with mock.patch.object(rep.session, "_sess", wraps=rep.session._sess) as inner:
                rep.run([X], run_config={GRAPH_ID: 4})
        self.assertEqual(inner.run.call_args.args[2].get_run_config_entry(GRAPH_ID), "4")

    def test_callers_mapping_is_still_untrusted(self) -> None:
        class Liar(str):
            __slots__ = ()

            def __hash__(self):
                return hash(PREPACKING)

            def __eq__(self, other):
                return True

        class Changing(dict):
            reads = 0

            def items(self):
                Changing.reads += 1
                return [(SPINNING, "0")] if Changing.reads == 1 else [(WRITES, "written")]

        class Unhashable(dict):
            def items(self):
                return [([], "1")]

        with environment({"session_config": {PREPACKING: 1}}):
            with no_session_opens():
                for bad in (
                    Unhashable(x=1),
                    {Liar("x"): 1},
                    {None: 1},
                    {b"session.x": 1},
                    {WRITES: "x"},
                    {PREPACKING: "x"},
                ):
                    with self.assertRaises(NotPermittedError) as refused:
                        prepare(session_config=bad)
                    self.assertNotIn(VARIABLE, str(refused.exception))
                for bad in ([], "x", 1):
                    with self.assertRaisesRegex(TypeError, "session_config .*must be a mapping"):
                        prepare(session_config=bad)
            rep = prepare(session_config=Changing(x=1))
            self.assertEqual((dict(rep.session_config), Changing.reads), ({SPINNING: "0", PREPACKING: "1"}, 1))


class OpenSessionTest(unittest.TestCase):
    CONFIG = {  # noqa: RUF012
        "provider_options": {"NoSuchExecutionProvider": {}},
        "session_config": {WRITES: "x"},
        "run_config": {GRAPH_ID: 3},
    }

    def test_only_the_run_config_applies(self) -> None:
        session = prepare()._session
        with environment(self.CONFIG):
            rep = onnxruntime.backend.prepare(session)
            self.assertEqual(dict(rep.run_config), {GRAPH_ID: "3"})
            rep = onnxruntime.backend.prepare(session, run_config={GRAPH_ID: 4})
            self.assertEqual(dict(rep.run_config), {GRAPH_ID: "4"})

    def test_a_prepared_model_stays_as_it_was_prepared(self) -> None:
        rep = prepare(run_config={GRAPH_ID: 1})
        with environment(self.CONFIG):
            self.assertIs(onnxruntime.backend.prepare(rep), rep)
            self.assertEqual(
                dict(onnxruntime.backend.prepare(rep, run_config={SHRINKAGE: "cpu:0"}).run_config),
                {GRAPH_ID: "1", SHRINKAGE: "cpu:0"},
            )

    def test_a_broken_value_is_an_error_all_the_same(self) -> None:
        session = prepare()._session
        for broken in ("{", {"run_config": {GRAPH_ID: 5000}}):
            with environment(broken), self.assertRaisesRegex(RuntimeError, VARIABLE):
                onnxruntime.backend.prepare(session)


class BrokenTest(unittest.TestCase):
    def test_what_it_cannot_be(self) -> None:
        deep = "[" * 100_000
        for text, why in (
            ("x", "not JSON.*line 1 column 1"),
            ("{'session_config': {}}", "not JSON"),
            ('{"session_config": {}} {}', "not JSON"),
            ("[]", "must be an object"),
            ("null", "must be an object"),
            ('{"session_config": null}', "session_config must be an object"),
            ('{"provider_options": {"CPUExecutionProvider": 1}}', r"\['CPUExecutionProvider'\] must be an object"),
            ('{"session_configs": {}}', "Did you mean session_config"),
            ('{"providers": {}}', "Did you mean provider_options"),
            ('{"intra_op_num_threads": 1}', "'intra_op_num_threads' is not a part of a configuration. Expected one of"),
            ('{"run_config": {}, "run_config": {}}', "duplicate key 'run_config'"),
            ('{"session_config": {"a": 1, "b": 2, "a": 1}}', "duplicate key 'a'"),
            ('{"run_config": {"gpu_graph_id": NaN}}', "'NaN' is not a finite number"),
            ('{"run_config": {"gpu_graph_id": -Infinity}}', "not a finite number"),
            ('{"run_config": {"gpu_graph_id": 1e999}}', "'1e999' is not a finite number"),
            ('{"run_config": {"gpu_graph_id": ' + "1" * 9999 + "}}", "digits"),
            (deep, "nested too deeply"),
            ("@", "directory"),
            ("@/no/such/file.json", "No such file.*'/no/such/file.json'"),
            (f"@{os.path.dirname(__file__)}", "directory"),
        ):
            with self.subTest(text[:60]), environment(text), no_session_opens():
                with self.assertRaisesRegex(RuntimeError, f"{VARIABLE} cannot be used: .*{why}") as refused:
                    prepare()
                self.assertNotIn("\n", str(refused.exception))

    def test_a_file_that_is_no_text_or_endless(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "configuration.json")
            for content, why in ((b"\xff\xfe{}", "decode"), (b" " * ((1 << 24) - 1) + b"{}", "too long")):
                path.write_bytes(content)
                with environment(f"@{path}"), self.assertRaisesRegex(RuntimeError, f"{VARIABLE} cannot be used.*{why}"):
                    prepare()
            path.write_bytes(b" " * ((1 << 24) - 2) + b"{}")
            with environment(f"@{path}"):
                prepare()

    def test_the_same_allowlist(self) -> None:
        for config, place in (
            ({"session_config": {WRITES: "x"}}, rf"session_config\['{WRITES}'\]"),
            ({"session_config": {"no.such": 1}}, r"session_config\['no.such'\]"),
            ({"session_config": {PREPACKING: 2}}, rf"session_config\['{PREPACKING}'\]"),
            ({"session_config": {PREPACKING: None}}, rf"session_config\['{PREPACKING}'\]"),
            ({"session_config": {PREPACKING: [1]}}, rf"session_config\['{PREPACKING}'\]"),
            ({"session_config": {f"{PREPACKING}\0": 1}}, "session_config"),
            ({"session_config": {"session.disable_cpu_ep_fallback": 1}}, "an execution provider"),
            ({"run_config": {GRAPH_ID: 1.5}}, rf"run_config\['{GRAPH_ID}'\]: invalid value 1\.5"),
            ({"provider_options": {"NoSuchExecutionProvider": {}}}, r"provider_options\['NoSuch"),
            ({"provider_options": {CPU: {"x": 1}}}, rf"provider_options\['{CPU}'\]\['x'\]"),
        ):
            message = f"{place}.*from the environment variable {VARIABLE}"
            with self.subTest(config), environment(config), no_session_opens():  # noqa: SIM117
                with self.assertRaisesRegex(RuntimeError, message):
                    prepare()

    def test_an_ep_that_is_not_here(self) -> None:
        with (
            environment({"provider_options": {"CANNExecutionProvider": {}}}),
            no_session_opens(),
            self.assertRaisesRegex(RuntimeError, f"CANN.*not available.*{VARIABLE}"),
        ):
            prepare()

    def test_while_the_model_would_configure(self) -> None:
        with (
            environment({"run_config": {GRAPH_ID: 3}}),
            mock.patch.dict(os.environ, {"ORT_LOAD_CONFIG_FROM_MODEL": "1"}),
            no_session_opens(),
            self.assertRaisesRegex(RuntimeError, f"ORT_LOAD_CONFIG_FROM_MODEL.*{VARIABLE}"),
        ):
            prepare()

    def test_keywords_are_never_blamed_on_it_and_it_is_never_shown_by_value(self) -> None:
        secret = "/home/someone/secret"
        with environment({"session_config": {PREPACKING: 1}}), warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(RuntimeError) as refused:
                prepare(session_config={"no.such": secret})
        self.assertNotIn(VARIABLE, str(refused.exception))
        self.assertNotIn(secret, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
