# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the environment variable ``ORT_ONNX_BACKEND_CONFIG``."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import _above
import numpy as np
from helpers.environment import VARIABLE, environment
from helpers.inputs import X
from helpers.models import no_session_opens, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import errors, request
from onnxruntime.backend.allowlist.permit import Request
from onnxruntime.backend.errors import NotPermittedError

CPU, CUDA, OPENVINO = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "OpenVINO"))
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
GRAPH_ID = "gpu_graph_id"
CLOSED, OPEN = (two_nodes((size, 3)).SerializeToString() for size in (2, "N"))  # with fixed shapes, or without
WRITES = "session.collect_node_memory_stats_to_file"
EVERYTHING = {
    "provider_options": {CPU: {}},
    "session_config": {PREPACKING: True, SPINNING: "0"},
    "run_config": {GRAPH_ID: 3},
    "session_options": {"logid": "mine", "execution_mode": "ORT_PARALLEL"},
    "free_dimension_overrides": {"N": 2},
}
NO_SUCH_EP = {"provider_options": {"NoSuchExecutionProvider": {}}}


def prepare(model=CLOSED, **keywords):
    return onnxruntime.backend.prepare(model, **keywords)


class AppliedTest(unittest.TestCase):
    def test_json_and_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "configuration.json")
            for text, encoding in ((EVERYTHING, ""), (f"@{path}", "utf-8"), (f"@{path}", "utf-8-sig")):
                if encoding:  # some editors write a byte order mark
                    path.write_text(json.dumps({"$schema": "./schema.json", **EVERYTHING}), encoding=encoding)
                with self.subTest(encoding), environment(text):
                    rep = prepare(OPEN)
                self.assertEqual(rep.providers, (CPU,))
                self.assertEqual(dict(rep.session_config), {PREPACKING: "1", SPINNING: "0"})
                self.assertEqual(dict(rep.run_config), {GRAPH_ID: "3"})
                self.assertEqual(dict(rep.session_options), {"logid": "mine", "execution_mode": "ORT_PARALLEL"})
                self.assertEqual(rep.session.get_inputs()[0].shape, [2, 3])
                np.testing.assert_array_equal(rep.run([X])[0], abs(X))

    def test_keywords_win_key_by_key(self):
        with environment({"session_config": {PREPACKING: 1, SPINNING: 1}, "run_config": {GRAPH_ID: 3}}):
            rep = prepare(session_config={SPINNING: 0}, run_config={GRAPH_ID: -1, SHRINKAGE: "cpu:0"})
            for nothing in (None, {}):
                self.assertEqual(dict(prepare(session_config=nothing).session_config), {PREPACKING: "1", SPINNING: "1"})
        self.assertEqual(dict(rep.session_config), {PREPACKING: "1", SPINNING: "0"})
        self.assertEqual(dict(rep.run_config), {GRAPH_ID: "-1", SHRINKAGE: "cpu:0"})
        with environment({"session_options": {"logid": "a"}, "free_dimension_overrides": {"N": 3}}):
            for keywords, wins in (
                ({}, "a"),
                ({"session_options": {"logid": "b"}}, "b"),
                ({"session_options": {"logid": "b"}, "logid": "c"}, "c"),
            ):
                rep = prepare(OPEN, free_dimension_overrides={"N": 4}, **keywords)
                self.assertEqual(rep.session_options, {"logid": wins})
                self.assertEqual(rep.session.get_inputs()[0].shape, [4, 3])

    def test_option_by_option_inside_an_ep_and_the_callers_eps_first(self):
        ours = {OPENVINO: {"num_of_threads": 2}, CUDA: {"use_tf32": 1, "device_id": 1}}
        with environment({"provider_options": ours}):
            requested = request.read_call({"provider_options": {CUDA: {"use_tf32": 0}, CPU: {}}})
        self.assertEqual(
            list(requested.settings["provider_options"].items()),
            [(CUDA, {"use_tf32": 0, "device_id": 1}), (CPU, {}), (OPENVINO, {"num_of_threads": 2})],
        )

    def test_only_the_run_config_applies_to_a_session_of_the_caller(self):
        prepared = prepare(run_config={GRAPH_ID: 1})
        session = prepare()._session
        with environment({**NO_SUCH_EP, "session_config": {WRITES: "x"}, "run_config": {GRAPH_ID: 3}}):
            self.assertEqual(dict(prepare(session).run_config), {GRAPH_ID: "3"})
            self.assertEqual(dict(prepare(session, run_config={GRAPH_ID: 4}).run_config), {GRAPH_ID: "4"})
            # A prepared model stays as it was prepared.
            self.assertIs(prepare(prepared), prepared)
            added = prepare(prepared, run_config={SHRINKAGE: "cpu:0"})
            self.assertEqual(dict(added.run_config), {GRAPH_ID: "1", SHRINKAGE: "cpu:0"})
        for broken in ("{", {"run_config": {GRAPH_ID: 5000}}):
            with environment(broken), self.assertRaisesRegex(RuntimeError, VARIABLE):
                prepare(session)


class OriginTest(unittest.TestCase):
    """An error or a warning says if only the environment specifies the setting."""

    def test_the_same_allowlist(self):
        for config, place in (
            ({"session_config": {WRITES: "x"}}, rf"session_config\['{WRITES}'\]"),
            ({"session_config": {PREPACKING: None}}, rf"session_config\['{PREPACKING}'\]"),
            ({"session_config": {"session.disable_cpu_ep_fallback": 1}}, "an execution provider"),
            ({"run_config": {GRAPH_ID: 1.5}}, rf"run_config\['{GRAPH_ID}'\]: invalid value 1\.5"),
            (NO_SUCH_EP, r"provider_options\['NoSuch"),
            ({"session_options": {"no_such": 1}}, r"session_options\['no_such'\]"),
            ({"free_dimension_overrides": {"N": 2}}, "no dimension"),
        ):
            message = f"{place}.*from the environment variable {VARIABLE}"
            with self.subTest(config), environment(config), no_session_opens():
                with self.assertRaisesRegex(RuntimeError, message) as refused:
                    prepare()
                self.assertNotIsInstance(refused.exception, NotPermittedError)
        with (
            environment({"run_config": {GRAPH_ID: 3}}),
            mock.patch.dict(os.environ, {"ORT_LOAD_CONFIG_FROM_MODEL": "1"}),
            self.assertRaisesRegex(RuntimeError, f"ORT_LOAD_CONFIG_FROM_MODEL.*{VARIABLE}"),
        ):
            prepare()

    def test_settings_that_the_caller_specifies_too(self):
        ours, theirs = ({"session_config": {PREPACKING: value}} for value in (1, "x"))
        for config, keywords in ((NO_SUCH_EP, NO_SUCH_EP), (ours, theirs)):
            with environment(config), no_session_opens(), self.assertRaises(NotPermittedError) as refused:
                prepare(**keywords)
            self.assertNotIn(VARIABLE, str(refused.exception))

    def test_warnings(self):
        config = {"session_options": {"inter_op_num_threads": 3}}
        for keywords, of_environment in (({}, True), ({"inter_op_num_threads": 2}, False)):
            with environment(config), self.assertWarnsRegex(RuntimeWarning, "inter_op_num_threads"):
                (warning,) = prepare(**keywords).warnings
            self.assertEqual(VARIABLE in warning, of_environment)

    def test_eps_of_the_environment_that_contradict_the_device(self):
        requested = Request({}, {}, "CUDA", None, {}, {errors.Place("provider_options")})
        with self.assertRaises(NotPermittedError) as raised:
            errors.reject(errors.Place("device"), "")
        blamed = requested.with_origin(raised.exception)
        self.assertNotIsInstance(blamed, NotPermittedError)
        self.assertIn(VARIABLE, str(blamed))


class BrokenTest(unittest.TestCase):
    def test_values_that_are_no_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            utf_16, endless = Path(folder, "utf_16.json"), Path(folder, "endless.json")
            utf_16.write_bytes("{}".encode("utf-16"))
            endless.write_bytes(b" " * ((1 << 24) - 1) + b"{}")
            for text, why in (
                ("", "it is empty"),
                (" \n", "it is empty"),
                ("x", "not JSON.*line 1 column 1.*Expected JSON text, or @ and the path of a JSON file"),
                ('{"session_config": {}} {}', "not JSON"),
                ("[]", "must be an object"),
                ('{"plugins": "a"}', "plugins must be a list of package names and EP=LIBRARY texts, not 'a'"),
                ('{"session_config": null}', "session_config must be an object"),
                ('{"$schema": {}}', r"\$schema"),
                ('{"provider_options": {"CPUExecutionProvider": 1}}', r"\['CPUExecutionProvider'\] must be an object"),
                (
                    '{"no_such": 1}',
                    "'no_such' is not a part of a configuration. Expected one of .*permit, trusted. Attributes",
                ),
                ('{"run_config": {}, "run_config": {}}', "duplicate key 'run_config'"),
                ('{"session_config": {"a": 1, "b": 2, "a": 1}}', "duplicate key 'a'"),
                ('{"run_config": {"gpu_graph_id": NaN}}', "'NaN' is not a finite number"),
                ('{"run_config": {"gpu_graph_id": 1e999}}', "'1e999' is not a finite number"),
                ('{"run_config": {"gpu_graph_id": ' + "1" * 9999 + "}}", "digits"),
                ("[" * 100_000, "nested too deeply"),
                ("@", "no path of a file"),
                ("@/no/such/file.json", "No such file.*'/no/such/file.json'"),
                (f"@{folder}", "directory"),
                (f"@{utf_16}", "not UTF-8. Save it as UTF-8"),
                (f"@{endless}", "too long"),
            ):
                with self.subTest(text[:60]), environment(text), no_session_opens():
                    with self.assertRaisesRegex(RuntimeError, f"{VARIABLE} cannot be used: .*{why}") as refused:
                        prepare()
                    self.assertNotIn("\n", str(refused.exception))
            endless.write_bytes(b" " * ((1 << 24) - 2) + b"{}")
            with environment(f"@{endless}"):
                prepare()


if __name__ == "__main__":
    unittest.main()
