# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the part "trusted" of ``ORT_ONNX_BACKEND_CONFIG``: the settings of the operator."""

import functools
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import _above
import numpy as np
from helpers.command_line import CommandTest, Ran
from helpers.environment import VARIABLE, environment
from helpers.models import caught, no_session_opens, two_nodes
from helpers.processes import TENSORRT, permit, process_with

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import NotPermittedError
from onnxruntime.backend.capture import graphs
from onnxruntime.backend.session import attaching, creation

X = np.ones((2, 3), np.float32)
CPU, CUDA, OPENVINO = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "OpenVINO"))
MODEL = two_nodes().SerializeToString()
SECRET = "/tmp/s3cret"
KEY, RUN_KEY = "ep.vendor.cache", "vendor.run"
PREPACKING = "session.disable_prepacking"
TRUSTED = {
    "provider_options": {CPU: {"new_option": SECRET}},
    "session_config": {KEY: SECRET},
    "run_config": {RUN_KEY: SECRET},
    "session_options": {"profile_file_prefix": SECRET},
}
UNCONFIRMED = {
    CPU: {"new_option": "trusted"},
    "session_config": {KEY: "trusted"},
    "run_config": {RUN_KEY: "trusted"},
    "session_options": {"profile_file_prefix": "trusted"},
}


def prepare(model=MODEL, **keywords):
    return onnxruntime.backend.prepare(model, **keywords)


class AppliedTest(unittest.TestCase):
    def setUp(self):
        self.enterContext(environment({"provider_options": {CPU: {}}, "trusted": TRUSTED}))

    def test_each_session_and_run_has_them(self):
        rep = prepare()
        options = rep.session.get_session_options()
        self.assertEqual(options.profile_file_prefix, SECRET)
        self.assertEqual(options.get_session_config_entry(KEY), SECRET)
        with mock.patch.object(onnxruntime.SessionOptions, "add_provider") as add:
            prepare()
        add.assert_called_once_with(CPU, {"new_option": SECRET})
        other = rep.with_run_config({"memory.enable_memory_arena_shrinkage": "cpu:0"})
        for one in (rep.run_options(), other.run_options(logid="a"), prepare(rep.session).run_options()):
            self.assertEqual(one.get_run_config_entry(RUN_KEY), SECRET)
        with mock.patch.object(rep._plan.route, "run", wraps=rep._plan.route.run) as run:
            rep.run([X], timeout=60)
        self.assertEqual(run.call_args.args[1].options.get_run_config_entry(RUN_KEY), SECRET)
        captured = graphs._with_id(rep._plan.settings, "1").options
        self.assertEqual(captured.get_run_config_entry(RUN_KEY), SECRET)

    def test_reports_contain_the_names_alone(self):
        rep = prepare()
        other = rep.with_run_config({"memory.enable_memory_arena_shrinkage": "cpu:0"})
        self.assertEqual((rep.unconfirmed, other.unconfirmed), (UNCONFIRMED, UNCONFIRMED))
        self.assertEqual(rep.configuration(), {"provider_options": {CPU: {}}})
        for one in (rep, other):
            reports = (repr(one), one.warnings, one.provider_options, one.session_options, one.session_config)
            self.assertNotIn("s3cret", str((*reports, one.run_config, one.configuration())))

    def test_the_log_does_not_contain_the_values(self):
        code = "import onnxruntime.backend as b, sys; b.prepare(sys.stdin.buffer.read()); print('prepared')"
        ran = subprocess.run([sys.executable, "-c", code], input=MODEL, capture_output=True, check=True)
        self.assertIn(b"prepared", ran.stdout)
        self.assertNotIn(b"s3cret", ran.stdout + ran.stderr)

    def test_options_of_an_ep_that_is_not_specified(self):
        with environment({"trusted": TRUSTED}), self.assertWarnsRegex(RuntimeWarning, CPU) as warned:
            rep = prepare()
        self.assertIn(str(warned.warning), rep.warnings)
        self.assertNotIn(CPU, rep.unconfirmed)

    def test_an_existing_session_has_none(self):
        options = prepare(onnxruntime.InferenceSession(MODEL)).run_options()
        with self.assertRaises(RuntimeError):
            options.get_run_config_entry(RUN_KEY)

    def test_callers_may_switch_profiling_off(self):
        with environment({"trusted": {"session_options": {"enable_profiling": True}}}):
            rep = prepare(enable_profiling=False)
        self.assertEqual(rep.session_options, {"enable_profiling": False})


class CallersTest(unittest.TestCase):
    def test_the_refusals_are_those_without_the_part(self):
        calls = (
            lambda: prepare(session_config={KEY: "x"}),
            lambda: prepare(provider_options={CPU: {"new_option": SECRET}}),
            lambda: prepare(profile_file_prefix="x"),
            lambda: prepare(run_config={RUN_KEY: 1}),
            lambda: prepare().run([X], run_config={RUN_KEY: 1}),
            lambda: prepare(trusted=TRUSTED),
        )
        narrowed = {"permit": {"session_config": {PREPACKING: True}}, "provider_options": {CPU: {}}}
        for default in ({"provider_options": {CPU: {}}}, narrowed):
            for call in calls:
                with environment(default):
                    without = caught(call)
                with environment(default | {"trusted": TRUSTED}):
                    refused = caught(call)
                self.assertIsInstance(refused, NotPermittedError)
                self.assertEqual((str(refused), vars(refused)), (str(without), vars(without)))

    def test_permit_does_not_contain_it(self):
        with environment({"permit": {"session_config": {KEY: True}}, "trusted": TRUSTED}):
            self.assertRegex(str(caught(prepare)), f"permit: .*{KEY}")


class RefusedTest(unittest.TestCase):
    def check(self, call, *words: str) -> None:
        """Check that a call raises an error of the operator, without a value and before a session."""
        with no_session_opens():
            error = caught(call)
        self.assertIsInstance(error, RuntimeError)
        self.assertNotIsInstance(error, NotPermittedError)
        for word in (VARIABLE, "trusted", *words):
            self.assertIn(word, str(error))
        self.assertNotIn("s3cret", str(error))

    def test_what_callers_may_set(self):
        for keyword, names in (
            ("session_config", {PREPACKING: SECRET}),
            ("session_config", {"session.intra_op.new": SECRET}),
            ("session_config", {f"{PREPACKING}\0x": SECRET}),  # ORT reads the name before NUL
            ("session_config", {f"ep.{CUDA.lower()}.enable_cuda_graph": SECRET}),
            ("session_config", {"ep.cuda.enable_cuda_graph": SECRET}),
            ("run_config", {"gpu_graph_id": SECRET}),
            ("session_options", {"logid": SECRET}),
            ("provider_options", {OPENVINO: {"num_of_threads": SECRET}}),
            ("provider_options", {CUDA: {"do_copy_in_default_stream": "0"}}),
            ("free_dimension_overrides", {"N": 1}),
        ):
            with self.subTest(names), environment({"trusted": {keyword: names}}), process_with((CUDA, OPENVINO)):
                self.check(prepare, keyword, "callers may set")

    def test_values_and_names(self):
        for part, words in (
            (SECRET, "must be an object"),
            ({"session_config": SECRET}, "session_config must be an object"),
            ({"provider_options": {CPU: SECRET}}, f"['{CPU}'] must be an object"),
            ({"extensions": [SECRET]}, "'extensions'"),
            ({"session_config": {KEY: 7}}, f"session_config['{KEY}'] must be text, not int"),
            ({"provider_options": {CPU: {"a": None}}}, "['a'] must be text"),
            ({"provider_options": {"AbsentExecutionProvider": {"a": "1"}}}, "['AbsentExecutionProvider']"),
            ({"session_options": {"profile_file_prefix": True}}, "['profile_file_prefix']"),
            ({"session_options": {"add_provider": SECRET}}, "['add_provider']"),
            ({"session_options": {"__doc__": SECRET}}, "['__doc__']"),
            ({"session_options": {"profile_file_prefix\0": SECRET}}, "['profile_file_prefix\\x00']"),
            ({"session_options": {"profile_file_prefix": f"{SECRET}\ud800"}}, "['profile_file_prefix']"),
            ({"run_config": {"": SECRET}}, "run_config['']"),
            ({"session_config": {KEY: f"{SECRET}\ud800"}}, f"session_config['{KEY}']"),
            ({"session_config": {"a\ud800": SECRET}}, r"session_config['a\ud800']"),
        ):
            with self.subTest(part), environment({"trusted": part}):
                self.check(prepare, words)

    def test_an_option_that_is_a_session_config_entry_too(self):
        """ORT would log the value of the entry, which it overwrites."""
        part = {"provider_options": {CPU: {"cache": SECRET}}, "session_config": {f"ep.{CPU.lower()}.cache": SECRET}}
        with environment({"provider_options": {CPU: {}}, "trusted": part}):
            self.check(prepare, f"['{CPU}']['cache'] is also in session_config")

    def test_while_the_model_would_configure(self):
        entries = {"trusted": {"session_config": {KEY: SECRET}}}
        with environment(entries), mock.patch.dict(os.environ, ORT_LOAD_CONFIG_FROM_MODEL="1"):
            self.check(prepare, "ORT_LOAD_CONFIG_FROM_MODEL")

    def test_an_option_that_carries_options_of_callers(self):
        options = {"provider_options": {OPENVINO: {"load_config": SECRET}}}
        with environment({"trusted": options}), process_with(plugins=(OPENVINO,)):
            self.check(lambda: prepare(provider_options={OPENVINO: {"num_of_threads": 2}}), OPENVINO)

    def test_what_ort_or_an_ep_refuses(self):
        """The error of the operator, also if a caller has set an option of the EP."""
        missing = {"session_options": {"optimized_model_filepath": os.path.join(SECRET, "no", "model.onnx")}}
        with environment({"trusted": missing}):
            self.assertIs(type(caught(prepare)), RuntimeError)
        options = {"provider_options": {CUDA: {"new_option": SECRET}}}
        reject = mock.patch.object(attaching.SessionOptions, "add_provider", side_effect=[RuntimeError("bad"), None])
        with environment({"trusted": options}), process_with((CUDA,)), reject:
            self.assertIs(type(caught(lambda: prepare(provider_options={CUDA: {"device_id": 0}}))), RuntimeError)
        trusted = {"provider_options": {TENSORRT: {"new_option": SECRET}}}
        creates = mock.Mock(side_effect=RuntimeError("bad"))
        with process_with((TENSORRT,)), mock.patch.object(onnxruntime.SessionOptions, "add_provider"):
            permitted = permit({TENSORRT: {"trt_fp16_enable": True}})._replace(trusted=trusted)
            create = functools.partial(creation.create, MODEL, permitted, mock.Mock(), [], session_class=creates)
            self.assertIs(type(caught(create)), RuntimeError)


class CommandsTest(CommandTest):
    def test_check(self):
        found = self.json("check", json.dumps({"trusted": TRUSTED}))
        self.assertIn(f"session_config['{KEY}']", found["trusted"])
        self.assertNotIn("s3cret", json.dumps(found))
        error = self.mistake("check", json.dumps({"trusted": {"session_options": {"logid": SECRET}}}))
        self.assertRegex(error, "trusted: .*logid.* next to")

    def test_commands_keep_it(self):
        config = {"provider_options": {CPU: {}}, "trusted": TRUSTED}
        other = {"trusted": {"session_config": {"ep.vendor.other": SECRET}}}
        with environment(config):
            for text, names in (("{}", {KEY: "trusted"}), (json.dumps(other), {"ep.vendor.other": "trusted"})):
                found = self.json("run", self.path, "-n", "1", "--config", text)
                self.assertEqual(found["configurations"][0]["unconfirmed"]["session_config"], names)
                self.assertNotIn("s3cret", json.dumps(found))
            escaped = json.dumps(config).replace("trusted", r"tr\u0075sted")
            for text in (json.dumps(config), escaped):
                with environment(text):
                    shown = Ran("info")
                self.assertRegex(shown.out, VARIABLE)
                self.assertNotIn("s3cret", shown.out + shown.err)
            ran = Ran("run", self.path, "-n", "1", "--config", escaped)
            self.assertNotIn("s3cret", ran.out + ran.err)


if __name__ == "__main__":
    unittest.main()
