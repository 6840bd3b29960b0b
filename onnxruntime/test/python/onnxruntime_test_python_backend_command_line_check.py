# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``check`` command: validates a configuration without a model, and loads nothing that it specifies."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import unittest
import warnings
from unittest import mock

from backend_test_command_line import (
    ABSENT,
    CPU,
    PREPACKING,
    SHRINKING,
    SPINNING,
    VARIABLE,
    WRITES,
    CommandTest,
    Ran,
    page_of,
)
from backend_test_models import no_session_opens

import onnxruntime
from onnxruntime.backend import configuration
from onnxruntime.backend.command_line import check, configurations
from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.errors import InputError, NotPermittedError
from onnxruntime.backend.session import presence

CUDA = "CUDAExecutionProvider"


class CheckTest(CommandTest):
    def problems(self, config: object) -> list[tuple[str, str, str]]:
        """Return keyword, EP and key of each problem of an invalid configuration."""
        text = config if isinstance(config, str) else json.dumps(config)
        ran = Ran("check", text, "--json")
        self.assertEqual((ran.status, ran.err), (1, ""))
        found = json.loads(ran.out)
        self.assertFalse(found["permitted"])
        lines = Ran("check", text)
        self.assertEqual((lines.status, lines.out), (1, ""))
        self.assertEqual(lines.err.splitlines(), [f"error: {problem['message']}" for problem in found["problems"]])
        return [(problem["keyword"], problem["provider"], problem["key"]) for problem in found["problems"]]

    def test_layout(self) -> None:
        result = {
            "problems": [],
            "onnxruntime": "1.2.3",
            "machine": "CPU",
            "provider_options": [
                {"name": "A", "kind": "built-in", "available": True, "options": {"a": "1", "b": "2"}},
                {"name": "B", "kind": "plugin", "available": False, "options": {}},
            ],
            "session_config": {"c": "3"},
            "run_config": {"d": "4"},
            "session_options": {"e": 5},
            "free_dimension_overrides": {"f": 6},
            "extensions": ["g", "h"],
            "plugins": ["i"],
            "permit": {
                "session_options": {"i": True, "j": [1, "k"]},
                "provider_options": {"A": {"l": [False]}, "B": {}},
            },
        }
        settings = ["  A (built-in)", "      a = 1", "      b = 2", "  B (plugin, not available in this process)"]
        settings += ["  session_config", "      c = 3", "  run_config", "      d = 4", "  session_options"]
        settings += ["      e = 5", "  free_dimension_overrides", "      f = 6", "  extensions", "      g", "      h"]
        settings += ["  plugins", "      i"]
        settings += ["Callers may set:", "  session_options", "      i", "      j = 1 or k"]
        settings += ["  provider_options['A']", "      l = False", "  provider_options['B']"]
        page = ["Valid for ORT 1.2.3 on CPU. ORT would receive:", *settings]
        self.assertEqual(page_of(check, result), page)
        none = {name: type(value)() for name, value in result.items()}
        empty = none | {"onnxruntime": "1", "machine": "CPU"}
        page = ["Valid for ORT 1 on CPU. The configuration is empty.", "Callers may not set anything."]
        self.assertEqual(page_of(check, empty), page)

    def test_json(self) -> None:
        config = {
            "provider_options": {CPU: {}},
            "session_config": {SPINNING: False},
            "run_config": SHRINKING,
            "session_options": {"execution_mode": "ORT_PARALLEL"},
            "free_dimension_overrides": {"N": 4},
        }
        with no_session_opens():
            shown = self.show("check", json.dumps(config), "--json")
        self.assertEqual(self.show("check", self.put("config.json", json.dumps(config)), "--json"), shown)
        found = json.loads(shown)
        self.assertEqual((found["permitted"], found["problems"]), (True, []))
        self.assertEqual((found["onnxruntime"], found["machine"]), (onnxruntime.__version__, platform.machine()))
        cpu = {"name": CPU, "kind": "built-in", "available": True, "options": {}}
        self.assertEqual((found["provider_options"], found["session_config"]), ([cpu], {SPINNING: "0"}))
        self.assertEqual((found["run_config"], found["extensions"], found["plugins"]), (SHRINKING, [], []))
        self.assertEqual(found["session_options"], {"execution_mode": "ORT_PARALLEL"})
        self.assertEqual(found["free_dimension_overrides"], {"N": 4})

    def test_an_empty_configuration(self) -> None:
        for given in ("{}", ""):  # the environment variable, which may not be set
            self.assertRegex(self.show("check", given), r"\AValid .+ empty\.\n\Z")

    def test_every_json_result_has_the_same_shape(self) -> None:
        verdict = {"permitted", "problems", "warnings", "onnxruntime", "machine"}
        for given in ("{", self.folder, '{"session_config": {"no.such": 1}}', '{"no_such": 1}'):
            with self.subTest(given):
                found = json.loads(Ran("check", given, "--json").out)
                self.assertEqual((found.keys(), found["permitted"], found["warnings"]), (verdict, False, []))
                self.assertEqual(len(found["problems"]), 1)
        ran = Ran("check", '{"session_options": {"inter_op_num_threads": 2}}', "--json")
        found = json.loads(ran.out)
        self.assertEqual(found.keys() - verdict, {*configuration.KEYWORDS, *configuration.LIBRARIES, "permit"})
        self.assertEqual([f"warning: {text}" for text in found["warnings"]], ran.err.splitlines())
        self.assertEqual((ran.status, len(found["warnings"])), (0, 1))

    def test_a_file_as_the_environment_specifies_it(self) -> None:
        path = self.put("config.json", json.dumps({"session_config": {SPINNING: False}}))
        self.assertEqual(self.show("check", path), self.show("check", f"@{path}"))
        self.assertIn("list.json", self.mistake("check", self.put("list.json", "[]")))

    def test_stdin(self) -> None:
        with mock.patch.object(sys, "stdin", io.StringIO(json.dumps({"session_config": {SPINNING: 1}}))):
            self.assertIn(f"{SPINNING} = 1\n", self.show("check", "-"))
        with mock.patch.object(sys, "stdin", io.StringIO("[]")):
            self.assertIn("stdin", self.mistake("check", "-"))
        with (
            mock.patch.object(sys, "stdin", io.StringIO("[]   ")),
            mock.patch.object(configuration, "MOST_CHARACTERS", 3),
        ):
            self.mistake("check", "-")
            self.assertEqual(sys.stdin.tell(), 3)  # an endless stream ends the command

    def test_an_ep_that_is_not_available(self) -> None:
        for name, kind, options, sent in (
            (ABSENT, "built-in", {"enable_cann_graph": True}, {"dump_om_model": "0", "enable_cann_graph": "1"}),
            ("QNNExecutionProvider", "built-in", {}, {}),
            (
                "NvTensorRTRTXExecutionProvider",
                "plugin",
                {"device_id": 1},
                {"device_id": "1", "enable_cuda_graph": "0"},
            ),
        ):
            config = json.dumps({"provider_options": {name: options}})
            (found,) = json.loads(self.show("check", config, "--json"))["provider_options"]
            self.assertEqual(found, {"name": name, "kind": kind, "available": False, "options": sent})
            self.assertIn(f"{name} ({kind}, ", self.show("check", config))

    def test_the_kind_of_an_available_ep(self) -> None:
        qnn = "QNNExecutionProvider"  # only its plugin has options
        config = {"provider_options": {qnn: {"device_id": 1}}}
        with mock.patch.object(presence, "kinds", lambda: {qnn: "built-in"}):
            self.assertEqual(self.problems(config), [("provider_options", qnn, "device_id")])
        with mock.patch.object(presence, "kinds", lambda: {qnn: "plugin"}):
            (found,) = json.loads(self.show("check", json.dumps(config), "--json"))["provider_options"]
        self.assertEqual((found["kind"], found["available"]), ("plugin", True))

    def test_options_that_belong_together(self) -> None:
        tuning = {"tunable_op_enable": 1, "tunable_op_tuning_enable": 1, "tunable_op_max_tuning_duration_ms": 9}
        self.show("check", json.dumps({"provider_options": {CUDA: tuning}}))
        del tuning["tunable_op_enable"]
        self.assertIn(
            ("provider_options", CUDA, "tunable_op_tuning_enable"),
            self.problems({"provider_options": {CUDA: tuning}}),
        )

    def test_all_problems_at_once(self) -> None:
        config = {
            "sesion_config": {},
            "extensions": "x",
            "provider_options": {
                "NoSuchExecutionProvider": {"x": 1},
                ABSENT: {"enable_cann_graph": 7, "no_such": 1, "npu_mem_limit": 2**30, "dump_graphs": 1, "": 1},
                CUDA: [],
                "": {},
            },
            "session_config": {WRITES: "x", SPINNING: 0, PREPACKING: None, "gpu_graph_id": 1, "": 1},
            "run_config": {"gpu_graph_id": 5000, "line\nbreak": 1, "": 1},
            "session_options": [],
        }
        expected = {
            ("sesion_config", "", ""),
            ("extensions", "", ""),
            ("provider_options", "NoSuchExecutionProvider", ""),
            ("provider_options", ABSENT, "enable_cann_graph"),
            ("provider_options", ABSENT, "no_such"),
            ("provider_options", ABSENT, "dump_graphs"),
            ("provider_options", ABSENT, ""),
            ("provider_options", CUDA, ""),
            ("provider_options", "", ""),
            ("session_config", "", WRITES),
            ("session_config", "", PREPACKING),
            ("session_config", "", "gpu_graph_id"),
            ("session_config", "", ""),
            ("run_config", "", "gpu_graph_id"),
            ("run_config", "", "line\nbreak"),
            ("run_config", "", ""),
            ("session_options", "", ""),
        }
        found = self.problems(config)
        self.assertEqual((set(found), len(found)), (expected, len(expected)))
        for config in ({"provider_options": {CUDA: {"x": 1, "y": 2}}}, {"session_config": {"x": 1, "y": 2}}):
            self.assertEqual([key for *_, key in self.problems(config)], ["x", "y"])

    def test_a_problem_as_data(self) -> None:
        (problem,) = json.loads(Ran("check", json.dumps({"session_config": {WRITES: "x"}}), "--json").out)["problems"]
        self.assertEqual(problem.keys(), {"message", "keyword", "provider", "key", "value", "reason"})
        self.assertEqual((problem["keyword"], problem["key"], problem["value"]), ("session_config", WRITES, "x"))
        self.assertIn(problem["reason"], problem["message"])
        for config, setting in (
            ({"sesion_config": {"a": 1}}, ("sesion_config", "", "", {"a": 1})),
            ({"provider_options": {"": 5}}, ("provider_options", "", "", {"": 5})),
            ({"provider_options": {CUDA: 5}}, ("provider_options", CUDA, "", 5)),
            ({"provider_options": {"x": {"y": 1}}}, ("provider_options", "x", "", {"y": 1})),
            ({"provider_options": {CUDA: {"y": 1}}}, ("provider_options", CUDA, "y", 1)),
            ({"extensions": ["no.so"]}, ("extensions", "", "no.so", None)),
        ):
            with self.subTest(config):
                (problem,) = json.loads(Ran("check", json.dumps(config), "--json").out)["problems"]
                self.assertIn(problem.pop("reason"), problem.pop("message"))
                self.assertEqual(tuple(problem.values()), setting)

    def test_an_error_as_data(self) -> None:
        empty = {"keyword": "", "provider": "", "key": "", "value": None, "reason": ""}
        self.assertEqual(configurations.problem("a\nb"), {"message": "a b", **empty})
        self.assertEqual(configurations.problem(ValueError()), {"message": "ValueError", **empty})
        mistake = MistakeError("m")
        self.assertEqual(configurations.problem(mistake), {"message": "m", **empty})
        mistake.__cause__ = refusal = NotPermittedError("r", keyword="run_config", provider="", key="k", reason="why")
        refusal.__cause__ = ValueError()
        found = {"message": "m", "keyword": "run_config", "provider": "", "key": "k", "value": None, "reason": "why"}
        self.assertEqual(configurations.problem(mistake), found)
        self.assertEqual(configurations.problem(mistake, {"run_config": None}), found)
        self.assertEqual(configurations.problem(mistake, {"run_config": {"k": 1}}), found | {"value": 1})
        error = InputError("i", input="X", expected="float32", got="int64")
        found = {"message": "i", **empty, "input": "X", "expected": "float32", "got": "int64"}
        self.assertEqual(configurations.problem(error), found)

    def test_the_settings_of_callers(self) -> None:
        permit = {
            "session_options": {"intra_op_num_threads": [1, 2], "logid": True},
            "session_config": {SPINNING: [0]},
            "provider_options": {ABSENT: {"enable_cann_graph": [True]}},
        }
        for config, omitted in (
            ({"session_options": {"intra_op_num_threads": 2}, "session_config": {SPINNING: 0}}, ("enable_cann_graph",)),
            ({"provider_options": {ABSENT: {"enable_cann_graph": 1}}}, ("intra_op_num_threads", SPINNING)),
        ):
            ran = Ran("check", json.dumps(config | {"permit": permit}), "--json")
            self.assertEqual((ran.status, json.loads(ran.out)["permit"]), (0, permit))
            self.assertEqual(len(ran.err.splitlines()), len(omitted), ran.err)
            for line, name in zip(ran.err.splitlines(), omitted, strict=True):
                self.assertIn(name, line)
        self.assertIsNone(json.loads(self.show("check", "{}", "--json"))["permit"])
        broken = {"session_config": {"x": True}, "session_options": {"y": [1]}, "provider_options": {"z": {"a": [1]}}}
        self.assertEqual(self.problems({"permit": broken, "run_config": {"b": 1}})[:3], [("permit", "", "")] * 3)
        self.assertEqual(self.problems({"permit": {"session_config": {SPINNING: 1}}}), [("permit", "", "")])

    def test_too_many_entries(self) -> None:
        many = {"session_config": dict.fromkeys(map(str, range(257)))}
        self.assertEqual(self.problems(many), [("session_config", "", "")])
        family = {f"session.intra_op.{'a' * size}": 1 for size in range(1, 18)}
        self.assertEqual(len(self.problems({"session_config": family})), 1)

    def test_text_that_is_not_a_configuration(self) -> None:
        for given in (
            "{",
            "[" * 100_000,
            '{"a":' * 20_000,
            "no-such-file.json",
            "n" * 5000,
            self.folder,
            '{"session_config": {"a": 1, "a": 2}}',
            '{"session_config": {"a": Infinity}}',
            self.put("broken.json", "[1,\n2"),
        ):
            with self.subTest(str(given)[:60]):
                error = self.mistake("check", given)
                self.assertLess(len(error), 500)
                self.assertEqual(error.startswith("error: the configuration: "), str(given)[0] in "{[")

    def test_the_environment_does_not_count(self) -> None:
        for value in ("{bad", "@/no/such/file", '{"session_config": {"no.such.key": 1}}'):
            with mock.patch.dict(os.environ, {VARIABLE: value}):
                self.show("check", "{}")
                self.assertEqual(self.problems({"run_config": {"x": 1}}), [("run_config", "", "x")])

    def test_libraries_are_not_imported(self) -> None:
        (self.folder / "pack").mkdir()
        for name in ("here_only.py", "pack/__init__.py", "pack/inner.py"):
            self.put(name, "import os\nos.environ['RAN'] = '1'\nget_library_path = str\n")
        with self.importable(self.folder):
            for keyword in configuration.LIBRARIES:
                for name in ("here_only", "pack.inner", "this"):
                    with self.subTest(name, keyword=keyword):
                        self.show("check", json.dumps({keyword: [name]}))
                        self.assertFalse({name, "pack"} & sys.modules.keys())
                problems = [(keyword, "", "no_such_package"), (keyword, "", "no.so")]
                self.assertEqual(self.problems({keyword: ["no_such_package", "no.so"]}), problems)

    def test_a_warning_is_one_line(self) -> None:
        for action in ("default", "ignore", "error"):  # whatever PYTHONWARNINGS is
            with warnings.catch_warnings(action=action):
                self.show("check", '{"run_config": {"gpu_graph_id": 3}}', warns="gpu_graph_id")
                self.show("check", '{"session_options": {"use_per_session_threads": false}}', warns="thread_pool")

    def test_libraries_of_the_command_line_are_in_the_environment(self) -> None:
        given = {"run_config": {"a": 1}, "extensions": ["a"], "permit": {}}
        for before, keywords, settings in (
            (None, configuration.KEYWORDS, {"extensions": ["b"]}),
            ("", (), {"extensions": ["b"]}),
            (json.dumps(given), configuration.KEYWORDS, {"run_config": {"a": 1}, "extensions": ["a", "b"]}),
            (json.dumps(given), (), {"extensions": ["a", "b"]}),
        ):
            with (
                self.subTest(before),
                mock.patch.dict(os.environ, {} if before is None else {VARIABLE: before}),
            ):
                with self.assertRaises(ZeroDivisionError), configurations.environment({"extensions": ["b"]}, keywords):
                    self.assertEqual(json.loads(os.environ[VARIABLE]), {"plugins": [], **settings})
                    raise ZeroDivisionError
                self.assertEqual(os.environ.get(VARIABLE), before)


if __name__ == "__main__":
    unittest.main()
