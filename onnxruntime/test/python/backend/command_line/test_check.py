# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``check`` command: validates a configuration without a model, and loads nothing that it specifies."""

import json
import platform
import sys
import unittest
import warnings
from unittest import mock

import _above
from helpers.command_line import ABSENT, CPU, SHRINKING, SPINNING, WRITES, CommandTest, Ran
from helpers.environment import environment
from helpers.models import no_session_opens

import onnxruntime
from onnxruntime.backend.allowlist.tables import LIBRARIES
from onnxruntime.backend.session import presence

CUDA, QNN = "CUDAExecutionProvider", "QNNExecutionProvider"
MACHINE = {
    "onnxruntime": onnxruntime.__version__,
    "backend": onnxruntime.backend.__version__,
    "machine": platform.machine(),
}


class CheckTest(CommandTest):
    def problems(self, config: object) -> list[tuple[str, str, str]]:
        """Return keyword, EP and key of each problem of an invalid configuration."""
        text = json.dumps(config) if isinstance(config, dict) else config
        ran, lines = Ran("check", text, "--json"), Ran("check", text)
        self.assertEqual((ran.status, ran.err, lines.status, lines.out), (1, "", 1, ""))
        found = json.loads(ran.out)
        problems = found.pop("problems")
        self.assertEqual(found, MACHINE | {"permitted": False, "warnings": []})
        self.assertEqual(lines.err.splitlines(), [f"error: {problem['message']}" for problem in problems])
        return [(problem["keyword"], problem["provider"], problem["key"]) for problem in problems]

    def test_the_result_and_its_page(self):
        permit = {
            "session_options": {"execution_mode": True, "intra_op_num_threads": [1, 2]},
            "provider_options": {ABSENT: {"enable_cann_graph": [False]}},
        }
        settings = {
            "session_config": {SPINNING: "0"},
            "run_config": SHRINKING,
            "session_options": {"execution_mode": "ORT_PARALLEL", "intra_op_num_threads": 2},
            "free_dimension_overrides": {"N": 4},
            "extensions": ["json", "this"],
            "plugins": ["this"],
            "permit": permit,
            "trusted": ["session_config['ep.x']"],
        }
        config = settings | {
            "provider_options": {ABSENT: {"enable_cann_graph": True}, CPU: {}},
            "session_config": {SPINNING: False},
            "trusted": {"session_config": {"ep.x": "1"}},
        }
        with no_session_opens():
            found = self.json("check", json.dumps(config))
            page = self.show("check", json.dumps(config))
        sent = {"dump_om_model": "0", "enable_cann_graph": "1"}
        expected = {
            "permitted": True,
            "problems": [],
            "warnings": [],
            "provider_options": [
                {"name": ABSENT, "kind": "built-in", "available": False, "options": sent},
                {"name": CPU, "kind": "built-in", "available": True, "options": {}},
            ],
        }
        self.assertEqual(found, MACHINE | expected | settings)
        lines = [
            f"Valid for ORT {onnxruntime.__version__} on {platform.machine()}",
            f"{ABSENT}     absent. {ABSENT} is a part of the wheel",
            "                          onnxruntime-cann",
            "                          dump_om_model = 0",
            "                          enable_cann_graph = 1",
            f"{CPU}      built-in",
            f"session_config            {SPINNING} = 0",
            "run_config                memory.enable_memory_arena_shrinkage = cpu:0",
            "session_options           execution_mode = ORT_PARALLEL",
            "                          intra_op_num_threads = 2",
            "free_dimension_overrides  N = 4",
            "extensions                json",
            "                          this",
            "plugins                   this",
            "callers may set           session_options.execution_mode = True",
            "                          session_options.intra_op_num_threads = [1, 2]",
            f"                          provider_options.{ABSENT}.enable_cann_graph",
            "                          = [False]",
            "trusted, unchecked        session_config['ep.x']",
        ]
        self.assertEqual(page.splitlines(), lines)

    def test_an_empty_configuration(self):
        with environment("{bad"):  # it does not count
            self.assertRegex(self.show("check", "{}"), r"\AValid [^\n]+\n\Z")
        self.assertIn("it is empty", self.mistake("check", ""))  # as in the environment variable
        self.assertRegex(self.show("check", '{"permit": {}}'), r"\ncallers may set +nothing\n\Z")

    def test_a_file_as_the_environment_specifies_it(self):
        path = self.put("config.json", json.dumps({"session_config": {SPINNING: False}}))
        self.assertEqual(self.show("check", path), self.show("check", f"@{path}"))
        self.assertIn("list.json", self.mistake("check", self.put("list.json", "[]")))

    def test_the_kind_of_an_ep(self):
        """An absent EP has the kind whose options it has, and a plugin of the configuration is a plugin EP."""
        own = {"provider_options": {"OwnEP": {}}, "plugins": [f"OwnEP={self.put('own.so', '').resolve()}"]}
        plugin = {"provider_options": {QNN: {"device_id": 1}}}
        for config, kinds, kind, available in (
            ({"provider_options": {"NvTensorRTRTXExecutionProvider": {"device_id": 1}}}, {}, "plugin", False),
            ({"provider_options": {QNN: {}}}, {}, "built-in", False),
            (plugin, {QNN: "plugin"}, "plugin", True),
            (own, {}, "plugin", True),
        ):
            with self.subTest(config), mock.patch.object(presence, "kinds", return_value=kinds):
                (found,) = self.json("check", json.dumps(config))["provider_options"]
                self.assertEqual((found["kind"], found["available"]), (kind, available))

    def test_two_plugins_of_one_name(self):
        names = [f"A={__file__}", f"A={self.path}"]
        self.assertEqual(self.problems({"plugins": names}), [("plugins", "", names[1])])

    def test_all_problems_at_once(self):
        config = {
            "sesion_config": {},
            "extensions": "x",
            "provider_options": {
                "NoSuchExecutionProvider": {"x": 1},
                ABSENT: {"enable_cann_graph": 7, "no_such": 1, "npu_mem_limit": 2**30},
                CUDA: [],
            },
            "session_config": {"": 1, "x": 1},
            "run_config": {"gpu_graph_id": 5000, "line\nbreak": 1},
            "session_options": [],
        }
        expected = [
            *((keyword, "", "") for keyword in ("sesion_config", "extensions", "session_options")),
            *(("provider_options", ep, "") for ep in ("NoSuchExecutionProvider", CUDA)),
            *(("provider_options", ABSENT, name) for name in ("enable_cann_graph", "no_such")),
            *(("session_config", "", name) for name in ("", "x")),
            *(("run_config", "", name) for name in ("gpu_graph_id", "line\nbreak")),
        ]
        self.assertCountEqual(self.problems(config), expected)
        broken = {"session_config": {"x": True}, "provider_options": {"z": {"a": [1]}}}
        for config, problems in (
            ({"session_config": {"x": 1, "y": 2}}, [("session_config", "", "x"), ("session_config", "", "y")]),
            ({"permit": broken, "run_config": {"b": 1}}, [("permit", "", "")] * 2 + [("run_config", "", "b")]),
        ):
            self.assertEqual(self.problems(config), problems)
        # The search for similar names takes time for each problem, and each file name is searched for.
        few = dict.fromkeys(map(str, range(200)), 1)
        for config in (few, {"extensions": list(few)}, {"unknown": 1, "run_config": few}):
            self.assertEqual(len(self.problems(config)), 20)

    def test_a_problem_as_data(self):
        (problem,) = json.loads(Ran("check", json.dumps({"session_config": {WRITES: "x"}}), "--json").out)["problems"]
        self.assertIn(problem.pop("reason"), problem.pop("message"))
        self.assertEqual(problem, {"keyword": "session_config", "provider": "", "key": WRITES, "value": "'x'"})

    def test_text_that_is_not_a_configuration(self):
        for given in ("{", "[" * 100_000, "n" * 5000, self.folder):
            with self.subTest(str(given)[:60]):
                self.assertLess(len(self.mistake("check", given)), 500)
                self.assertEqual(self.problems(given), [("", "", "")])

    def test_libraries_are_not_imported(self):
        self.put("here_only.py", "get_library_path = str\n")
        with mock.patch.object(sys, "path", [str(self.folder), *sys.path]):
            for keyword in LIBRARIES:
                self.show("check", json.dumps({keyword: ["here_only"]}))
                self.assertNotIn("here_only", sys.modules)
                problems = [(keyword, "", "no_such_package"), (keyword, "", "no.so")]
                self.assertEqual(self.problems({keyword: ["no_such_package", "no.so"]}), problems)

    def test_warnings(self):
        with warnings.catch_warnings(action="error"):  # whatever PYTHONWARNINGS is
            ran = Ran("check", '{"run_config": {"gpu_graph_id": 3}}', "--json")
        self.assertRegex(ran.err, r"\Awarning: [^\n]*gpu_graph_id[^\n]*\n\Z")
        self.assertEqual(json.loads(ran.out)["warnings"], [ran.err[len("warning: ") : -1]])


if __name__ == "__main__":
    unittest.main()
