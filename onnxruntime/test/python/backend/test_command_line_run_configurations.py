# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``run`` command: where its settings come from, and several configurations."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import unittest
from unittest import mock

from helpers.command_line import (
    ABSENT,
    CPU,
    PREPACKING,
    SHRINKING,
    SPINNING,
    VARIABLE,
    WRITES,
    CommandTest,
    Ran,
    execute_here,
)
from helpers.environment import environment
from helpers.models import parsed, two_nodes

import onnxruntime
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import info, run
from onnxruntime.backend.errors import FROM_ENVIRONMENT


class ConfigurationTest(CommandTest):
    def test_session_options_and_sizes(self):
        path = self.put("open.onnx", two_nodes(("N", 3)))
        config = {"session_options": {"intra_op_num_threads": 2}, "free_dimension_overrides": {"N": 4}}
        self.assertEqual(self.run_one(path, "--config", json.dumps(config))["outputs"][0]["shape"], [4, 3])
        parallel = "--session-option execution_mode=ORT_PARALLEL --provider-option CPU"
        found = self.run_one(path, "--free-dimension", "N=2", *parallel.split())
        self.assertEqual(found["outputs"][0]["shape"], [2, 3])
        self.assertEqual(found["session_options"], {"execution_mode": "ORT_PARALLEL"})
        with environment(config):
            out = self.show("run", path, "--session-option", "use_deterministic_compute=1")
        row = "\nsession_options          use_deterministic_compute = True, intra_op_num_threads"
        self.assertIn(row, out)

    def test_options_override_config_and_both_the_environment(self):
        config = {"provider_options": {CPU: {}}, "session_config": {SPINNING: 0, PREPACKING: 1}}
        with environment({"session_config": {SPINNING: 1}, "run_config": SHRINKING}):
            found = self.run_one(self.path, "--config", json.dumps(config), "--session-config", f"{PREPACKING}=false")
        self.assertEqual([one["name"] for one in found["providers"]], [CPU])
        self.assertEqual(found["session_config"], {SPINNING: "0", PREPACKING: "0"})
        self.assertEqual(found["run_config"], SHRINKING)

    def test_a_setting_without_effect(self):
        found = self.run_one(self.path, "--run-config", "gpu_graph_id=3", warns="gpu_graph_id")
        self.assertEqual(found["run_config"], {"gpu_graph_id": "3"})
        (warning,) = found["warnings"]
        self.assertIn("gpu_graph_id", warning)

    def test_a_record_of_nodes_that_the_caller_specifies(self):
        found = self.run_one(self.path, "--session-config", f"{run.RECORD_ASSIGNMENT}=1")
        self.assertEqual(found["session_config"], {run.RECORD_ASSIGNMENT: "1"})

    def test_a_release_that_records_no_nodes(self):
        recording = mock.Mock(spec=["get_provider_graph_assignment_info"])
        for owner, config in ((recording, {"session_config": {run.RECORD_ASSIGNMENT: "1"}}), (object, {})):
            session = mock.patch.object(onnxruntime, "InferenceSession", owner)
            with session, mock.patch.object(run.backend, "prepare") as prepare:
                prepare.return_value.providers = ()
                run.prepare(self.path, {"run_config": {}, "extensions": []})
            prepare.assert_called_once_with(self.path, None, run_config={}, **config)

    def test_options_of_eps_add_to_those_of_config(self):
        cuda, openvino = "CUDAExecutionProvider", "OpenVINOExecutionProvider"
        config = json.dumps({"provider_options": {cuda: {"use_tf32": 0}}})
        words = ["run", self.path, "--config", config]
        for option in (
            "CUDA.device_id=1",
            "cuda.a=True",
            "CUDA.b=FALSE",
            "CUDA.c=d=e",
            "CUDA.f=",
            "CUDA.arena.max_mem=1.5",
            "CPU",
            f"{openvino}.AUTO.x=1",
            f"{openvino}.AUTO",
            "OpenVINO.AUTO=1",
            "No.such.x=1",
        ):
            words.append(f"--provider-option={option}")
        with mock.patch.object(run.backend, "prepare", side_effect=RuntimeError) as prepare:
            Ran(*words)
        expected = {
            cuda: {"use_tf32": 0, "device_id": "1", "a": True, "b": False, "c": "d=e", "f": "", "arena.max_mem": "1.5"},
            CPU: {},
            f"{openvino}.AUTO": {"x": "1"},
            openvino: {"AUTO": "1"},
            "No": {"such.x": "1"},
        }
        self.assertEqual(prepare.call_args.kwargs["provider_options"], expected)

    def run_configs(self, *configs: dict) -> list[dict]:
        """Execute ``run`` with configurations of which one fails, and return their parts of the result."""
        words = [f"--config={json.dumps(config)}" for config in configs]
        ran = Ran("run", self.path, *words, "--compare", "--repeat", "1", "--json")
        self.assertEqual((ran.status, ran.err), (1, ""))
        return json.loads(ran.out)["configurations"]

    def test_several_configurations(self):
        refused = {"session_config": {WRITES: "x"}}
        absent = {"provider_options": {ABSENT: {}}}
        first, second, *failed = self.run_configs({}, {"session_config": {SPINNING: 0}}, refused, absent)
        self.assertEqual((first["error"], second["error"]), (None, None))
        self.assertGreater(second["latency_ms"]["ratio_to_first"], 0)
        for of_write, of_absent in (failed, self.run_configs(refused, absent)):
            for one, keyword, provider, value in (
                (of_write, "session_config", "", "x"),
                (of_absent, "provider_options", ABSENT, {}),
            ):
                error = one["error"]
                self.assertEqual((error["keyword"], error["provider"], error["value"]), (keyword, provider, value))

    def test_a_configuration_whose_runs_fail(self):
        right = OnnxRuntimeBackendRep.run

        def run_without_config(rep: OnnxRuntimeBackendRep, feeds: list) -> list:
            if rep.run_config:
                raise RuntimeError("e")
            return right(rep, feeds)

        with mock.patch.object(OnnxRuntimeBackendRep, "run", run_without_config):
            failed, other = self.run_configs({"run_config": SHRINKING}, {})
        self.assertEqual(failed["error"]["message"], "e")
        self.assertTrue(other["outputs"][0]["difference"]["within"])
        self.assertIsNone(other["latency_ms"]["ratio_to_first"])

    def test_extensions_of_one_configuration_do_not_reach_another(self):
        for configs in (({}, {"extensions": ["nope_pkg"]}), ({"extensions": ["nope_pkg"]}, {})):
            found = self.run_configs(*configs)
            for config, one in zip(configs, found, strict=True):
                self.assertEqual(bool(one["error"]), bool(config))
            self.assertEqual(os.environ.get(VARIABLE, ""), "")

    def test_an_empty_configuration(self):
        self.assertEqual(self.run_one(self.path, "--config", "")["configuration"], "{}")

    def test_the_settings_of_callers_do_not_narrow_a_command(self):
        with environment('{"permit": {}, "session_options": {"logid": "a"}}'):
            found = self.run_one(self.path, "--session-config", f"{PREPACKING}=1")
            self.assertEqual((found["session_config"], found["session_options"]), ({PREPACKING: "1"}, {"logid": "a"}))
            self.show("inspect", self.path)
        self.assertIn(VARIABLE, self.mistake("run", self.path, "--config", '{"permit": {}}'))

    def test_a_mistake_in_the_environment_beside_an_extension_of_the_command(self):
        with environment('{"session_config": {"x": "1"}}'):
            self.assertIn(FROM_ENVIRONMENT, self.mistake("run", self.path, "--extension", "no_such_package"))

    @mock.patch.object(info, "in_child", execute_here)
    def test_extensions(self):
        for arguments in (["--extension", "no_such_package"], ["--config", '{"extensions": ["no_such_package"]}']):
            mistake = self.mistake("run", self.path, *arguments)
            self.assertIn("'no_such_package'", mistake)
            if arguments[0] == "--extension":
                self.assertNotIn(VARIABLE, mistake)
        library = self.put("relative.so", "")
        with contextlib.chdir(self.folder):
            self.assertIn(os.path.realpath(library), self.mistake("run", self.path, "--extension", library.name))
        if importlib.util.find_spec("onnxruntime_extensions") is None:
            self.skipTest("requires onnxruntime-extensions (no wheel for Python 3.14)")
        upper = "(string[2] X) => (string[2] Y) { Y = ai.onnx.contrib.StringUpper (X) }"
        path = self.put("upper.onnx", parsed(upper, "ai.onnx.contrib"))
        self.assertIn("--extension", self.mistake("run", path))
        found = self.run_one(path, "--extension", "onnxruntime_extensions", "--compare")
        self.assertEqual(found["extensions"], ["onnxruntime_extensions"])
        self.assertTrue(found["outputs"][0]["difference"]["within"])
        with environment({"extensions": ["onnxruntime_extensions"]}):
            self.assertIn(
                "\nextensions               onnxruntime_extensions\n", self.show("run", path, "--repeat", "1")
            )
            self.show("inspect", path)
        self.show("inspect", path, "--extension", "onnxruntime_extensions")


if __name__ == "__main__":
    unittest.main()
