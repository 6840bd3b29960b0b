# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend``: what it prints, what it refuses, and that a mistake costs one line."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
from backend_test_models import model, no_session_opens, three_inputs, two_nodes
from backend_test_observable_models import CONTRADICTORY, GELU
from onnx import TensorProto, helper

import onnxruntime
from onnxruntime.backend import (
    __main__,
    allowlist_config_keys,
    command_info,
    command_inputs,
    command_measure,
    command_run,
    refusals,
)
from onnxruntime.backend import command_line as shared
from onnxruntime.backend.allowlist_rules import Permitted

SESSION_CONFIG = allowlist_config_keys.SESSION_CONFIG | refusals.SESSION_CONFIG
PROVIDERS = refusals.provider_tables()

CPU = "CPUExecutionProvider"
AZURE = "AzureExecutionProvider"  # in every build for the desktop; it takes no node that an ordinary model has
ABSENT = "CANNExecutionProvider"
VARIABLE = "ORT_ONNX_BACKEND_CONFIG"
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"
SHRINKING = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
SHRINK = ("--run-config", "memory.enable_memory_arena_shrinkage=cpu:0")
WRITES = "session.collect_node_memory_stats_to_file"


class Told:
    """What a command said in this process, and its exit status."""

    def __init__(self, *arguments: object) -> None:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            warnings.catch_warnings(),
            mock.patch.dict(os.environ),  # a command's process is its own
        ):
            try:
                self.status = __main__.main([str(argument) for argument in arguments])
            except SystemExit as left:
                self.status = left.code
        onnxruntime.set_default_logger_severity(2)
        self.out, self.err = (bytes(stream.buffer.getbuffer()).decode() for stream in streams if not stream.flush())


class CommandTest(unittest.TestCase):
    """What the tests of all commands share."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        without = {name: value for name, value in os.environ.items() if name != VARIABLE}
        cls.enterClassContext(mock.patch.dict(os.environ, without | {"COLUMNS": "80"}, clear=True))

    def put(self, name: str, content: onnx.ModelProto | bytes | str) -> Path:
        path = self.folder / name
        if isinstance(content, onnx.ModelProto):
            content = content.SerializeToString()
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def tell(self, *arguments: object, warns: str = "") -> str:
        """Run a command that succeeds, and check that it reads well."""
        told = Told(*arguments)
        self.assertEqual(told.status, 0, told.err)
        self.assertRegex(told.err, f"^warning: .*{warns}.*\n$" if warns else "^$")
        if "--json" not in arguments and "schema" not in arguments:
            self.check_lines(told.out, 80)
        return told.out

    def check_lines(self, text: str, width: int) -> None:
        """Check that no line is too long, but for one that ends in a word which is, and that all can be printed."""
        for line in text.splitlines():
            self.assertTrue(line.isprintable(), line)
            if len(line) > width:
                head, _, word = line.rpartition(" ")
                self.assertFalse(head.strip() and len(head) > 20, line)
                self.assertGreater(len(word), width // 2)  # a path or a name, which must not be broken

    def run_json(self, *arguments: object, **keywords: str) -> dict:
        return json.loads(self.tell("run", *arguments, "--json", "--repeat", "2", **keywords))

    def run_one(self, *arguments: object, **keywords: str) -> dict:
        """The result for the only configuration."""
        (only,) = self.run_json(*arguments, **keywords)["configurations"]
        return only

    def mistake(self, *arguments: object) -> str:
        """Run a command that is mistaken, and check that it says so in one line."""
        told = Told(*arguments)
        self.assertIn(told.status, (1, 2), told.out)
        self.assertRegex(told.err, r"\Aerror: [^\n]+\n\Z")
        self.assertNotIn("Traceback", told.err)
        self.assertEqual(told.out, "")
        return told.err


class HelpTest(CommandTest):
    def test_without_a_command(self) -> None:
        self.assertEqual(self.tell(), self.tell("--help"))

    def test_every_command_is_described(self) -> None:
        for command in ("info", "options", "check", "run", "schema"):
            self.assertRegex(self.tell("--help"), rf"\n +{command} +\w")
            self.assertIn(f"onnxruntime.backend {command}", self.tell(command, "--help"))

    def test_mistaken_arguments(self) -> None:
        for arguments, why in (
            (["inf"], "inf"),
            (["--no-such"], "--no-such"),
            (["run", "m", "--no-such"], "--no-such (see python -m onnxruntime.backend run --help)"),
            (["run", "m", "--sesion-config", "a=1"], "did you mean --session-config?"),
            (["run", "m", "n"], "arguments: n (see python -m onnxruntime.backend run --help)"),
            (["run", "m", "--rep", "3"], "did you mean --repeat?"),
            (["info", "--x\x1b[2J"], "--x\\x1b[2J"),
            (["info", "--log", "loud"], "'verbose'"),
            (["run", "m", "--rtol", "-1"], "from 0 on"),
            (["run", "m", "--atol", "x"], "from 0 on"),
            (["check"], "FILE|JSON"),
            (["run"], "MODEL"),
            (["run", "m", "--repeat", "0"], "from 1 to 1000000"),
            (["run", "m", "--repeat", "1_0"], "from 1 to 1000000"),
            (["info", "--plugin", "no_such_package"], "No module named 'no_such_package'"),
            (["info", "--plugin", "json"], "--plugin json: "),
            (["info", "--plugin", "x=/no/such/library.so"], "library.so"),
        ):
            with self.subTest(arguments):
                self.assertIn(why, self.mistake(*arguments))


class InfoTest(CommandTest):
    def test_info(self) -> None:
        out = self.tell("info")
        self.assertIn(onnxruntime.__version__, out)
        self.assertIn(onnx.__version__, out)
        self.assertRegex(out, rf"\ndevice +{onnxruntime.get_device()}\n")
        for name in onnxruntime.get_available_providers():
            self.assertRegex(out, rf"\n  {name} \(bundled\)\n      (opens a session|opens none: .+\n).*")
        found, _, absent = out.partition("Known, but not in this process\n")
        self.assertIn("\n  no plugin in use, which --plugin would add\n", found)
        self.assertIn("CANN", absent)
        self.assertNotIn(" CPU,", absent)

    def test_json(self) -> None:
        told = json.loads(self.tell("info", "--json"))
        self.assertEqual([one["name"] for one in told["providers"]], onnxruntime.get_available_providers())
        (cpu,) = [one for one in told["providers"] if one["name"] == CPU]
        expected = {"name": CPU, "flavour": "bundled", "permitted": 0, "devices": [], "opens": True, "reason": ""}
        self.assertEqual(cpu, expected)
        self.assertEqual(told["onnxruntime"], onnxruntime.__version__)
        self.assertIn(ABSENT, told["not_in_this_process"])

    def test_an_ep_that_opens_no_session(self) -> None:
        model_path = self.put("two_nodes.onnx", two_nodes())
        tried = command_info._try(ABSENT, model_path, [])
        self.assertFalse(tried["opens"])
        self.assertIn(f"{ABSENT}'] ", tried["reason"])
        # What the environment names for every use of the backend says nothing of an EP.
        with mock.patch.dict(os.environ, {VARIABLE: "{broken"}):
            self.assertTrue(command_info._try(CPU, model_path, [])["opens"])
        for code, reason in (
            ("import os; os.abort()", "its process ended with -"),
            ("import time; time.sleep(9)", "no"),
        ):
            with self.subTest(code), mock.patch.object(command_info, "_LONGEST_TRY", 2):
                with mock.patch.object(command_info.sys, "executable", self.interpreter(code)):
                    tried = command_info._try(CPU, model_path, [])
                self.assertFalse(tried["opens"])
                self.assertIn(reason, tried["reason"])

    def interpreter(self, code: str) -> str:
        """Something to call in place of Python."""
        if os.name != "posix":
            self.skipTest("needs scripts that name their interpreter")
        path = self.put("interpreter", f"#!{sys.executable}\n{code}\n")
        path.chmod(0o700)
        return str(path)

    def test_version(self) -> None:
        self.assertRegex(self.tell("--version"), rf"\Aonnxruntime {re.escape(onnxruntime.__version__)} \(.+\)\n\Z")

    def test_a_plugin_without_a_device(self) -> None:
        page = shared.Page(79)
        told = json.loads(self.tell("info", "--json")) | {"plugins_without_a_device": ["NoneExecutionProvider"]}
        command_info.tell(told, page)
        self.assertIn("  NoneExecutionProvider is registered, and found no device", str(page))

        path = self.put("two_nodes.onnx", two_nodes())
        with mock.patch.object(__main__, "register", return_value={ABSENT: False}):
            self.assertIn("found no device here", self.mistake("run", path, "--provider-option", ABSENT))
            self.assertIn("no such", self.mistake("run", path, "--provider-option", "NoSuch"))

    def test_a_package_that_does_not_tell_its_library(self) -> None:
        (self.folder / "odd_plugin" / "lib").mkdir(parents=True)
        self.put("odd_plugin/__init__.py", "")
        with mock.patch.object(sys, "path", [str(self.folder), *sys.path]):
            self.assertIn("say them as --plugin EP=LIBRARY", self.mistake("info", "--plugin", "odd_plugin"))
            library = self.put("odd_plugin/lib/libodd.so", "")
            self.assertIn(f"--plugin EP={library}", self.mistake("info", "--plugin", "odd_plugin"))
            self.put("odd_plugin/__init__.py", "def get_library_path(): ...")
            sys.modules.pop("odd_plugin")
            self.assertIn(
                "custom operators, and no EP: run --extension odd_plugin",
                self.mistake("info", "--plugin", "odd_plugin"),
            )
            sys.modules.pop("odd_plugin")

    def test_what_is_no_name_of_a_package(self) -> None:
        said = self.mistake("info", "--plugin", "onnxruntime-ep-openvino")
        self.assertIn("such as onnxruntime_ep_openvino, or EP=LIBRARY", said)
        self.assertIn("Python package or EP=LIBRARY", self.mistake("info", "--plugin", f".{os.sep}libep.so"))

    @mock.patch.object(command_info, "_try", lambda *_: {"opens": True, "reason": ""})  # which takes a second
    def test_the_environment_is_told(self) -> None:
        self.assertNotIn(VARIABLE, self.tell("info"))
        with mock.patch.dict(os.environ, {VARIABLE: json.dumps({"session_config": {"x" * 90: "y" * 90}})}):
            self.assertIn(f"environment  {VARIABLE}=", self.tell("info"))
        for config, why in (('{"session_config": {"x": 1}}', "session_config['x'] is not"), ("{]", "it is not JSON")):
            with mock.patch.dict(os.environ, {VARIABLE: config}):
                self.assertIn(f"\n{' ' * 13}cannot be used: ", told := self.tell("info"))
                self.assertIn(why, told)


class OptionsTest(CommandTest):
    def test_overview(self) -> None:
        out = self.tell("options")
        permitted = sum(type(rule) is Permitted for rule in SESSION_CONFIG.values())
        self.assertRegex(out, rf"session_config +{permitted} +{len(SESSION_CONFIG) - permitted}\n")
        self.assertRegex(out, rf"\nEPs without a permitted option, to be named alone\n(  .+\n)*  .*\b{CPU}\b")

    def test_json(self) -> None:
        told = json.loads(self.tell("options", "session", "--search", "spinning", "--json"))
        (table, attributes) = told["tables"]
        self.assertEqual((table["title"], attributes["entries"]), ("session_config", []))
        (entry,) = [entry for entry in table["entries"] if entry["name"] == SPINNING]
        rule = SESSION_CONFIG[SPINNING]
        self.assertEqual(
            (entry["permitted"], entry["effect"], entry["accepts"], entry["default"]),
            (True, rule.effect, rule.kind.accepts, rule.default),
        )
        refused = json.loads(self.tell("options", "session", "--search", "memory_stats", "--json"))
        (entry,) = refused["tables"][0]["entries"]
        self.assertEqual((entry["name"], entry["permitted"]), (WRITES, False))

    def test_every_entry_of_every_scope(self) -> None:
        tables = {"session": [SESSION_CONFIG], "run": []}
        tables |= {name: list(provider.values()) for name, provider in PROVIDERS.items()}
        for scope, rules in tables.items():
            permitted, refused = self.tell("options", scope), self.tell("options", scope, "--refused")
            for name, rule in (entry for table in rules for entry in table.items()):
                with self.subTest(scope=scope, option=name):
                    shown = permitted if type(rule) is Permitted else refused
                    described = " ".join(shown.partition(f"\n  {name}\n")[2].split())
                    told = rule.effect if type(rule) is Permitted else f"{rule.hazard}: {rule.reason}"
                    self.assertIn(" ".join(told.split()), described)
                    if type(rule) is Permitted:
                        accepted = f"{rule.kind.accepts}; default {rule.default or 'empty'}"
                        self.assertIn(" ".join(accepted.split()), described)

    def test_plain_keyword_arguments(self) -> None:
        self.assertIn("\n  intra_op_num_threads\n", self.tell("options", "session"))
        self.assertIn("\n  only_execute_path_to_fetches\n", self.tell("options", "run"))
        self.assertIn("\n  terminate\n", self.tell("options", "run", "--refused"))

    def test_names_of_an_ep(self) -> None:
        expected = self.tell("options", "CUDAExecutionProvider")
        for name in ("CUDA", "cuda", "cudaexecutionprovider"):
            self.assertEqual(self.tell("options", name), expected)
        self.assertIn("Nothing permitted is there.", self.tell("options", "CPU"))
        self.assertIn("'CDUA' is neither session, run nor a known EP; did you mean", self.mistake("options", "CDUA"))
        self.assertIn("known EP: CPU, CUDA, ", self.mistake("options", "x"))

    def test_search(self) -> None:
        out = self.tell("options", "--search", "SPINNING")
        self.assertIn(f"\n  {SPINNING}\n", out)
        self.assertNotIn(PREPACKING, out)
        out = self.tell("options", "session", "--search", "memory_stats")
        self.assertIn("Nothing permitted holds 'memory_stats'.\n\nFurther matches: 1 refused (see --refused).", out)
        self.assertIn(WRITES, self.tell("options", "session", "--search", "memory_stats", "--refused"))
        self.assertIn("Nothing permitted holds '\\xe9'.", self.tell("options", "--search", "é"))


class CheckTest(CommandTest):
    def test_permitted(self) -> None:
        config = {
            "provider_options": {CPU: {}},
            "session_config": {SPINNING: False},
            "run_config": SHRINKING,
        }
        for given in (json.dumps(config), self.put("config.json", json.dumps(config))):
            with no_session_opens():
                out = self.tell("check", given)
            self.assertIn(f"\n  {CPU} (bundled)\n", out)
            self.assertIn(f"\n  session_config\n      {SPINNING} = 0\n", out)
            self.assertIn("\n  run_config\n      memory.enable_memory_arena_shrinkage = cpu:0\n", out)

    def test_json(self) -> None:
        config = {"provider_options": {CPU: {}}, "session_config": {SPINNING: False}, "run_config": SHRINKING}
        told = json.loads(self.tell("check", json.dumps(config), "--json"))
        self.assertTrue(told["permitted"])
        self.assertEqual(told["provider_options"], {CPU: {"flavour": "bundled", "here": True, "options": {}}})
        self.assertEqual((told["session_config"], told["run_config"]), ({SPINNING: "0"}, SHRINKING))
        self.assertEqual((told["session_options"], told["extensions"]), ({}, []))
        refused = Told("check", json.dumps({"session_config": {WRITES: "x", "no": 1}}), "--json")
        self.assertEqual((refused.status, refused.err), (1, ""))
        told = json.loads(refused.out)
        self.assertEqual((told["permitted"], len(told["problems"])), (False, 2))

    def test_every_keyword(self) -> None:
        config = {"session_options": {"execution_mode": "ORT_PARALLEL"}, "free_dimension_overrides": {"N": 4}}
        out = self.tell("check", json.dumps(config))
        self.assertIn("\n  session_options\n      execution_mode = ORT_PARALLEL\n", out)
        self.assertIn("\n  free_dimension_overrides\n      N = 4\n", out)
        self.assertIn("ORT would be given\n", out)

    def test_schema(self) -> None:
        self.assertEqual(json.loads(self.tell("schema")), json.loads(self.tell("schema", "--json")))
        self.assertIn("session_options", json.loads(self.tell("schema"))["properties"])

    def test_nothing(self) -> None:
        self.assertIn("It configures nothing.\n", self.tell("check", "{}"))

    def test_a_file_as_the_environment_names_it(self) -> None:
        path = self.put("config.json", json.dumps({"session_config": {SPINNING: False}}))
        self.assertEqual(self.tell("check", path), self.tell("check", f"@{path}"))

    def test_stdin(self) -> None:
        with mock.patch.object(sys, "stdin", io.StringIO(json.dumps({"session_config": {SPINNING: 1}}))):
            self.assertIn(f"{SPINNING} = 1\n", self.tell("check", "-"))
        with mock.patch.object(sys, "stdin", io.StringIO("[]")):
            self.assertIn("stdin: the whole must be an object", self.mistake("check", "-"))

    def test_an_ep_that_is_not_here(self) -> None:
        out = self.tell("check", json.dumps({"provider_options": {ABSENT: {"enable_cann_graph": True}}}))
        self.assertIn(
            f"{ABSENT} (bundled, not in this process)\n      dump_om_model = 0\n      enable_cann_graph = 1\n", out
        )
        out = self.tell("check", json.dumps({"provider_options": {"NvTensorRTRTXExecutionProvider": {}}}))
        self.assertIn("(plugin, not in this process)", out)

    def test_options_that_belong_together(self) -> None:
        tuning = {"tunable_op_enable": 1, "tunable_op_tuning_enable": 1, "tunable_op_max_tuning_duration_ms": 9}
        self.tell("check", json.dumps({"provider_options": {"CUDAExecutionProvider": tuning}}))
        del tuning["tunable_op_enable"]
        told = Told("check", json.dumps({"provider_options": {"CUDAExecutionProvider": tuning}}))
        self.assertEqual(told.status, 1)
        self.assertIn("['tunable_op_tuning_enable'] is not permitted via the backend API: it needs", told.err)

    def test_all_problems_at_once(self) -> None:
        config = {
            "provider_options": {
                "NoSuchExecutionProvider": {"x": 1},
                ABSENT: {"enable_cann_graph": 7, "no_such": 1, "npu_mem_limit": 2**30, "dump_graphs": 1},
            },
            "session_config": {WRITES: "x", SPINNING: 0, PREPACKING: None, "gpu_graph_id": 1},
            "run_config": {"gpu_graph_id": 5000, "line\nbreak": 1},
        }
        told = Told("check", json.dumps(config))
        self.assertEqual((told.status, told.out), (1, ""))
        lines = told.err.splitlines()
        self.assertEqual(
            [re.match(r"error: (\S+)", line)[1] for line in lines],
            [
                "provider_options['NoSuchExecutionProvider']",
                f"provider_options['{ABSENT}']['enable_cann_graph']",
                f"provider_options['{ABSENT}']['no_such']",
                f"provider_options['{ABSENT}']['dump_graphs']",
                f"session_config['{WRITES}']",
                f"session_config['{PREPACKING}']",
                "session_config['gpu_graph_id']",
                "run_config['gpu_graph_id']",
                "run_config['line\\nbreak']",
            ],
        )

    def test_what_is_no_configuration(self) -> None:
        many = {f"session.intra_op.{'a' * size}": 1 for size in range(1, 30)}
        for given, why in (
            ("{", "not JSON"),
            ("no-such-file.json", "cannot read no-such-file.json"),
            (self.folder, "directory"),
            ('{"session_config": {"a": 1, "a": 2}}', "'a' stands twice"),
            ('{"session_config": {"a": Infinity}}', "finite"),
            ('{"session": {}}', "session_config"),
            (self.put("broken.json", "[1,\n2"), "broken.json: it is not JSON"),
            (json.dumps({"session_config": dict.fromkeys(map(str, range(257)))}), "more than 256"),
        ):
            with self.subTest(str(given)[:60]):
                self.assertIn(why, self.mistake("check", given))
        told = Told("check", json.dumps({"session_config": many}))
        self.assertIn("at most 16 keys", told.err)

    def test_a_warning_is_one_line(self) -> None:
        self.tell("check", '{"run_config": {"gpu_graph_id": 3}}', warns="nothing to act on")


class RunTest(CommandTest):
    def test_what_it_tells(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        out = self.tell(
            *("run", path, "--provider-option", "cpu", "--session-config", f"{SPINNING}=False"),
            *(
                "--run-config",
                "memory.enable_memory_arena_shrinkage=cpu:0",
                "--repeat",
                "3",
                "--compare",
                "--device",
                "CPU",
            ),
        )
        for line in (
            f"providers         {CPU}",
            f"session_config    {SPINNING} = 0",
            "run_config        memory.enable_memory_arena_shrinkage = cpu:0",
            f"nodes             2 on {CPU}",
            "input             X: float32 [2, 3]",
            "output            Y: float32 [2, 3]",
            "                  like the CPU EP: largest difference 0, relative 0",
        ):
            self.assertIn(f"\n{line}\n", out)
        self.assertRegex(out, r"\nlatency           p50 \S+, p90 \S+, p99 \S+ ms \(3 runs after 3\)\n$")
        self.assertNotIn("\nsaved", out)

    @unittest.skipUnless(AZURE in onnxruntime.get_available_providers(), f"this build has no {AZURE}")
    def test_eps_with_nodes_and_those_that_were_named(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        out = self.tell("run", path, "--provider-option", AZURE, "--repeat", "1", warns=f"{AZURE} .*took no node")
        self.assertIn(f"\nnodes             0 on {AZURE}, 2 on {CPU}\n", out)
        out = self.tell("run", path, "--provider-option", CPU, "--repeat", "1")
        self.assertIn(f"\nnodes             2 on {CPU}\n", out)

    def test_json(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        told = self.run_json(path, "--session-config", f"{PREPACKING}=1", "--compare", "--warm-up", "1")
        (only,) = told["configurations"]
        latency = only.pop("latency_ms")
        self.assertTrue(0 < latency.pop("p50") <= latency.pop("p90") <= latency.pop("p99"))
        self.assertEqual(latency, {"runs": 2, "warm_up": 1, "ratio_to_first": 1.0})
        self.assertEqual(sum(only.pop("nodes").values()), 2)
        same = {"within": True, "absolute": 0.0, "relative": 0.0, "note": ""}
        self.assertEqual(
            told,
            {
                "model": str(path),
                "inputs": [{"name": "X", "type": "float32", "shape": [2, 3]}],
                "tolerance": {"relative": 1e-3, "absolute": 1e-5},
                "configurations": [
                    {
                        "configuration": "{}",
                        "error": "",
                        "providers": onnxruntime.get_available_providers(),
                        "provider_options": {},
                        "unconfirmed": {},
                        "session_options": {},
                        "session_config": {PREPACKING: "1"},
                        "run_config": {},
                        "extensions": [],
                        "warnings": [],
                        "outputs": [{"name": "Y", "type": "float32", "shape": [2, 3], "difference": same}],
                        "saved": [],
                    }
                ],
            },
        )

    def test_session_options_and_sizes(self) -> None:
        path = self.put("open.onnx", two_nodes(("N", 3)))
        config = {"session_options": {"intra_op_num_threads": 2}, "free_dimension_overrides": {"N": 4}}
        self.assertEqual(self.run_one(path, "--config", json.dumps(config))["outputs"][0]["shape"], [4, 3])
        told = self.run_one(path, "--free-dimension", "N=2", "--session-option", "execution_mode=ORT_PARALLEL")
        self.assertEqual(told["outputs"][0]["shape"], [2, 3])
        self.assertEqual(told["session_options"], {"execution_mode": "ORT_PARALLEL"})
        with mock.patch.dict(os.environ, {VARIABLE: json.dumps(config)}):
            told = self.tell("run", path, "--session-option", "use_deterministic_compute=1")
        rows = f"\nsession_options   use_deterministic_compute = True\n{' ' * 18}intra_op_num_threads = 2\n"
        self.assertIn(rows, told)
        for arguments, why in (
            (["--session-option", "x=1"], "session_options['x'] is not permitted"),
            (["--session-option", "x"], "--session-option takes NAME=VALUE"),
            (["--free-dimension", "M=1"], "It has: 'N'"),
            (["--free-dimension", "N=x"], "Accepted: a whole number"),
        ):
            self.assertIn(why, self.mistake("run", path, *arguments))

    def test_extensions(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        for arguments in (["--extension", "no_such_package"], ["--config", '{"extensions": ["no_such_package"]}']):
            said = self.mistake("run", path, *arguments)
            self.assertIn("the extension 'no_such_package' cannot be registered: No module named", said)
        self.assertIn("the extension 'no.so'", self.mistake("check", '{"extensions": ["no.so"]}'))
        if importlib.util.find_spec("onnxruntime_extensions") is None:
            self.skipTest("the package onnxruntime-extensions has operators")
        node = helper.make_node("StringUpper", ["X"], ["Y"], domain="ai.onnx.contrib")
        upper = model([node], {"X": (2,)}, {"Y": (2,)}, elem_type=TensorProto.STRING, extra_domains=["ai.onnx.contrib"])
        path = self.put("upper.onnx", upper)
        self.assertRegex(self.mistake("run", path), "ai.onnx.contrib.*; --extension registers custom operators")
        with mock.patch.dict(os.environ):
            told = self.run_one(path, "--extension", "onnxruntime_extensions", "--compare")
            self.assertEqual(told["extensions"], ["onnxruntime_extensions"])
            self.assertTrue(told["outputs"][0]["difference"]["within"])
        with mock.patch.dict(os.environ, {VARIABLE: '{"extensions": ["onnxruntime_extensions"]}'}):
            self.assertIn("\nextensions        onnxruntime_extensions\n", self.tell("run", path))
        self.assertIn("  extensions\n", self.tell("check", '{"extensions": ["onnxruntime_extensions"]}'))

    def test_several_configurations(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        refused = {"session_config": {WRITES: "x"}}
        absent = {"provider_options": {ABSENT: {}}}
        configs = [{}, {"session_config": {SPINNING: 0}}, refused, absent]
        arguments = [word for config in configs for word in ("--config", json.dumps(config))]
        ran = Told(
            "run",
            path,
            *arguments,
            "--compare",
            "--run-config",
            "memory.enable_memory_arena_shrinkage=cpu:0",
            "--repeat",
            "2",
        )
        self.assertEqual((ran.status, ran.err), (1, ""))
        self.check_lines(ran.out, 80)
        number = r"[\d.e+-]+"
        for line in (
            r"      p50 ms   p90 ms   p99 ms  ratio  outputs",
            rf"1   +{number} +{number} +{number}   1.00  alike$",
            rf"2   +{number} +{number} +{number} +{number}  alike$",
            r"3     failed        -        -      -  -$",
            r"4     failed        -        -      -  -",
        ):
            self.assertRegex(ran.out, rf"(?m)^{line}")
        self.assertIn(f"\nerror             session_config['{WRITES}']\n", ran.out)
        with mock.patch.dict(os.environ, {"COLUMNS": "200"}):  # wide enough for the names of all of them
            wide = Told("run", path, *arguments, "--repeat", "2").out
        self.assertRegex(wide, r"1.00  {}\n2 .*" + re.escape(json.dumps(configs[1])) + r"\n3 .*  -  .*\n")
        self.assertEqual(ran.out.count("run_config        memory.enable_memory_arena_shrinkage = cpu:0\n"), 2)
        told = json.loads(Told("run", path, *arguments, "--json", "--repeat", "2").out)
        self.assertEqual([bool(one["error"]) for one in told["configurations"]], [False, False, True, True])
        self.assertGreater(told["configurations"][1]["latency_ms"]["ratio_to_first"], 0)
        # Where the first one failed there is nothing to hold the others against.
        told = json.loads(Told("run", path, *arguments[6:], *arguments[:2], "--json", "--repeat", "2").out)
        self.assertIsNone(told["configurations"][1]["latency_ms"]["ratio_to_first"])
        # Where all failed, each still says why.
        failed = Told("run", path, *arguments[4:])
        self.assertEqual((failed.status, failed.err), (1, ""))
        self.assertEqual(failed.out.count("\nerror  "), 2)
        self.assertIn("read once", self.mistake("run", path, "--config", "-", "--config", "-"))

    def test_a_difference_beyond_the_tolerance_is_a_failure(self) -> None:
        path = self.put("gelu.onnx", GELU)
        approximated = ("--provider-option", "CPU", "--session-config", "optimization.enable_gelu_approximation=1")
        for tolerance, status in (((), 0), (("--rtol", "1e-7", "--atol", "1e-9"), 1)):
            ran = Told("run", path, *approximated, "--compare", *tolerance, "--repeat", "1")
            self.assertEqual((ran.status, ran.err), (status, ""))
            self.assertEqual("DIFFERS from the CPU EP: largest difference" in " ".join(ran.out.split()), bool(status))

    def test_outputs_in_files(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        saved = self.folder / "saved" / "deeper"
        only = self.run_one(path, "--input", "X=[[1,-2,3],[4,5,-6]]", "--save", saved)
        self.assertEqual(only["saved"], [str(saved / "Y.npy")])
        np.testing.assert_array_equal(np.load(saved / "Y.npy"), np.array([[1, 2, 3], [4, 5, 6]], np.float32))
        self.tell("run", path, "--config", "{}", "--config", "{}", "--save", saved, "--repeat", "1")
        self.assertTrue((saved / "1" / "Y.npy").is_file() and (saved / "2" / "Y.npy").is_file())
        out = self.tell("run", path, "--save", saved, "--repeat", "1")
        self.assertIn("\nsaved             ", out)
        self.assertIn("cannot write", self.mistake("run", path, "--save", path))

    def test_names_and_types_of_files(self) -> None:
        bfloat16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
        outputs = {
            "../up": np.zeros(1),
            ".._up": np.ones(1),
            "a/b\x1b": np.array([1.5], bfloat16),
            "text": np.array(["é"], object),
            "1": [np.zeros(2), np.ones(3)],
        }
        written = command_inputs.save(self.folder / "all", list(outputs), list(outputs.values()))
        names = ["0_.._up", "1_.._up", "2_a_b_", "text", "4_1.0", "4_1.1"]
        self.assertEqual(written, [str(self.folder / "all" / f"{name}.npy") for name in names])
        loaded = [np.load(name) for name in written]
        self.assertEqual((loaded[2].dtype, loaded[2][0], loaded[3][0]), (np.float32, 1.5, "é"))
        self.assertEqual(loaded[5].shape, (3,))
        with self.assertRaisesRegex(shared.MistakeError, "output m is a dict"):
            command_inputs.save(self.folder, ["m"], [{}])

    def test_config_and_single_entries_and_environment(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        config = {"provider_options": {CPU: {}}, "session_config": {SPINNING: 0, PREPACKING: 1}}
        environment = {"session_config": {SPINNING: 1}, "run_config": SHRINKING}
        with mock.patch.dict(os.environ, {VARIABLE: json.dumps(environment)}):
            told = self.run_one(path, "--config", json.dumps(config), "--session-config", f"{PREPACKING}=false")
        self.assertEqual(told["providers"], [CPU])
        self.assertEqual(told["session_config"], {SPINNING: "0", PREPACKING: "0"})
        self.assertEqual(told["run_config"], SHRINKING)

    def test_compare_tells_a_difference(self) -> None:
        path = self.put("gelu.onnx", GELU)
        approximated = ("--session-config", "optimization.enable_gelu_approximation=1")
        told = self.run_one(path, "--provider-option", "CPU", *approximated, "--compare")
        self.assertGreater(told["outputs"][0]["difference"]["absolute"], 1e-6)
        # The reference asks nothing of the environment.
        with mock.patch.dict(os.environ, {VARIABLE: '{"session_config": {"session.disable_prepacking": 3}}'}):
            reference = command_run._unconfigured(str(path))
        self.assertEqual(dict(reference.session_config), {})

    def test_differences(self) -> None:
        nan, inf = np.nan, np.inf
        for ours, theirs, within, absolute, relative, note in (
            ([1.0, nan, inf], [1.5, nan, inf], False, 0.5, 1 / 3, ""),
            ([1.0, 0.0], [1.0000001, 0.0], True, 1.0000001 - 1.0, (1.0000001 - 1.0) / 1.0000001, ""),
            ([0.001], [0.0], False, 0.001, 0.0, ""),
            ([1e-6], [0.0], True, 1e-6, 0.0, ""),
            ([nan], [1.0], False, None, None, "not finite in one of them"),
            ([1.0], [inf], False, None, None, "not finite in one of them"),
            ([inf], [-inf], False, None, None, "not finite in one of them"),
            ([1], [1, 2], False, None, None, "shape [2] there"),
            ([], [], True, 0.0, 0.0, ""),
            ([True], [False], False, None, None, "other values"),
            ([1 + 1j], [1.0 + 0j], False, 1.0, 1.0, ""),
            (np.array(["a"], object), np.array(["a"], object), True, 0.0, 0.0, ""),
            (np.array(["a"], object), np.array(["b"], object), False, None, None, "other values"),
            (np.array([255], np.uint8), np.array([0], np.uint8), False, 255.0, 0.0, ""),
        ):
            with self.subTest(ours=ours, theirs=theirs):
                self.assertEqual(
                    command_measure.difference(np.asarray(ours), np.asarray(theirs), 1e-3, 1e-5),
                    {"within": within, "absolute": absolute, "relative": relative, "note": note},
                )
        for ours, theirs, within in (
            ([], [], True),
            ([np.ones(2)], [np.ones(2)], True),
            ([np.ones(2)], [np.zeros(2)], False),
            ([np.ones(2)], [], False),
            ([{"a": 1.0}], [{"a": 1.0}], True),
            ([{"a": 1.0}], [{"a": 2.0}], False),
            ([{"a": 1.0}], [{"b": 1.0}], False),
        ):
            with self.subTest(ours=ours, theirs=theirs):
                self.assertEqual(command_measure.difference(ours, theirs, 1e-3, 1e-5)["within"], within)

    def test_percentiles(self) -> None:
        figures = command_measure.percentiles([count / 1000 for count in range(100, 0, -1)])
        self.assertEqual({name: round(value, 6) for name, value in figures.items()}, {"p50": 50, "p90": 90, "p99": 99})
        self.assertEqual(command_measure.percentiles([0.002]), {"p50": 2.0, "p90": 2.0, "p99": 2.0})

    def test_number_of_rounds(self) -> None:
        self.assertEqual(len(list(command_measure.rounds(7, 1))), 7)
        with mock.patch.object(command_measure, "_SECONDS", 0.0):
            self.assertEqual(len(list(command_measure.rounds(None, 3))), 10)
        with mock.patch.object(command_measure, "_SECONDS", 60.0):
            self.assertEqual(len(list(command_measure.rounds(None, 1))), 1000)
        self.assertEqual([command_run._count(text) for text in ("1", "1000000")], [1, 1_000_000])
        for text in ("0", "1000001"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "from 1 to 1000000"):
                command_run._count(text)

    def test_random_whole_numbers_are_zero_and_one(self) -> None:
        for element in (TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL):
            node = helper.make_node("Identity", ["X"], ["Y"])
            made = model([node], {"X": (64,)}, {"Y": (64,)}, elem_type=element)
            (values,) = command_inputs.values(
                onnxruntime.InferenceSession(made.SerializeToString()).get_inputs(), [], []
            )
            self.assertEqual({*values.tolist()}, {0, 1})

    def test_random_inputs_of_every_type(self) -> None:
        for element in (
            TensorProto.FLOAT16,
            TensorProto.DOUBLE,
            TensorProto.BFLOAT16,
            TensorProto.INT8,
            TensorProto.UINT64,
            TensorProto.BOOL,
            TensorProto.STRING,
            TensorProto.FLOAT8E4M3FN,
        ):
            with self.subTest(TensorProto.DataType.Name(element)):
                node = helper.make_node("Identity", ["X"], ["Y"])
                path = self.put("identity.onnx", model([node], {"X": (3,)}, {"Y": (3,)}, elem_type=element))
                (output,) = self.run_one(path)["outputs"]
                name = "string" if element == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(element).name
                self.assertEqual((output["type"], output["shape"]), (name, [3]))

    def test_random_inputs_are_the_same_every_time(self) -> None:
        nodes = onnxruntime.InferenceSession(three_inputs().SerializeToString()).get_inputs()
        first, second = (command_inputs.values(nodes, [], []) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        self.assertFalse(np.array_equal(first[0], first[1]))

    def test_given_inputs(self) -> None:
        nodes = onnxruntime.InferenceSession(three_inputs().SerializeToString()).get_inputs()
        array = np.arange(4, dtype=np.float32)
        np.save(self.folder / "a.npy", array)
        values = command_inputs.values(nodes, ["C=[1,2,3,4]", f"A={self.folder}/a.npy", "B=random"], ["B=4"])
        np.testing.assert_array_equal(values[0], array)
        self.assertEqual(values[1].shape, (4,))
        np.testing.assert_array_equal(values[2], np.array([1, 2, 3, 4], np.float32))

    def test_open_shapes(self) -> None:
        path = self.put("open.onnx", two_nodes((None, 3)))
        self.assertIn("(X: tensor(float)[?, 3]); give them, such as --shape X=1x3", self.mistake("run", path))
        self.assertEqual(self.run_one(path, "--shape", "X=5x3")["outputs"][0]["shape"], [5, 3])
        self.assertEqual(self.run_one(path, "--shape", "X=0x3")["outputs"][0]["shape"], [0, 3])
        np.save(self.folder / "x.npy", np.zeros((7, 3), np.float32))
        told = self.run_one(path, "--input", f"X={self.folder}/x.npy")
        self.assertEqual(told["outputs"][0]["shape"], [7, 3])

    def test_names_of_eps_and_options(self) -> None:
        for text, expected in (
            ("cuda.use_tf32=1", ("CUDAExecutionProvider", "use_tf32=1")),
            ("CUDAExecutionProvider", ("CUDAExecutionProvider", "")),
            ("CUDA.arena.max_mem=1.5", ("CUDAExecutionProvider", "arena.max_mem=1.5")),
            ("OpenVINOExecutionProvider.AUTO.x=1", ("OpenVINOExecutionProvider.AUTO", "x=1")),
            ("OpenVINOExecutionProvider.AUTO", ("OpenVINOExecutionProvider.AUTO", "")),
            ("OpenVINO.AUTO=1", ("OpenVINOExecutionProvider", "AUTO=1")),
            ("No.such.x=1", ("No", "such.x=1")),
        ):
            self.assertEqual(command_run._provider_and_option(text), expected)
        path = self.put("two_nodes.onnx", two_nodes())
        self.assertIn(
            f"provider_options['{CPU}']['x'] is not permitted",
            self.mistake("run", path, "--provider-option", "cpu.x=1"),
        )

    def test_plugins_of_names_that_ort_does_not_know(self) -> None:
        device = mock.Mock(ep_name="UnheardOfExecutionProvider", ep_metadata={"library_path": "x.so"})
        with mock.patch.object(onnxruntime, "get_ep_devices", lambda: [device]):
            self.assertEqual(shared.flavours_here()["UnheardOfExecutionProvider"], "plugin")
            self.assertEqual(shared.flavours_here()[CPU], "bundled")
            self.assertEqual(command_run._provider_and_option("unheardof.x=1"), (device.ep_name, "x=1"))

    def test_the_least_width(self) -> None:
        for columns, width in (("81", 80), ("22", 21), ("21", 20), ("5", 20)):
            with mock.patch.dict(os.environ, {"COLUMNS": columns}):
                self.assertEqual(shared.columns(), width)

    def test_mistakes(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        np.save(self.folder / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
        np.save(self.folder / "double.npy", np.zeros((2, 3)))
        np.savez(self.folder / "several", a=np.zeros(3))
        (self.folder / "several.npz").rename(self.folder / "several.npy")
        for arguments, why in (
            (["no-such.onnx"], "no-such.onnx"),
            ([self.folder], "no file"),
            ([self.put("text.onnx", "no model")], "text.onnx"),
            ([self.put("empty.onnx", "")], "empty.onnx"),
            ([self.put("contradictory.onnx", CONTRADICTORY), "--provider-option", "CPU", "--input", "x=[1]"], "x"),
            ([path, "--device", "CDUA"], "CDUA"),
            ([path, "--provider-option", "NoSuch"], "NoSuch"),
            ([path, "--provider-option", f"{ABSENT}.enable_cann_graph=1"], "not available in this process"),
            ([path, "--provider-option", "CPU.x"], "EP.OPTION=VALUE"),
            ([path, "--provider-option", "CPU.x=1"], "not permitted"),
            ([path, "--provider-option", ".x=1"], "EP.OPTION=VALUE"),
            ([path, "--session-config", "x"], "KEY=VALUE"),
            ([path, "--session-config", f"{PREPACKING}=yes"], "Accepted: True/False"),
            ([path, "--session-config", f"{WRITES}={self.folder}/stats"], "not permitted"),
            ([path, "--run-config", "gpu_graph_id=-2"], "not permitted"),
            ([path, "--config", "{]"], "not JSON"),
            ([path, "--input", "X"], "NAME=VALUE"),
            ([path, "--input", "Z=random"], "it takes X"),
            ([path, "--input", "X=no-such.npy"], "cannot read no-such.npy"),
            ([path, "--input", f"X={self.folder}/pickled.npy"], "pickle"),
            ([path, "--input", f"X={self.folder}/several.npy"], "several arrays"),
            ([path, "--input", f"X={self.put('empty.npy', '')}"], "empty.npy is no array"),
            ([path, "--input", f"X={self.folder}/double.npy"], "float64"),
            ([path, "--input", 'X={"a": 1}'], "nor a number"),
            ([path, "--input", "X=[[1], [2, 3]]"], "X"),
            ([path, "--input", "X=[1,2]"], "X"),
            ([path, "--shape", "X=2x"], "no shape"),
            ([path, "--shape", "X=-2x3"], "no shape"),
            ([path, "--shape", "X=100000000000x3"], "no shape"),
            ([path, "--shape", "X=2x4"], "X"),
            ([path, "--shape", "Z=2x3"], "it takes X"),
            ([path, "--shape", "X=2x3", "--input", "X=[1]"], "only a random input"),
        ):
            with self.subTest([str(argument) for argument in arguments]):
                self.assertIn(why, self.mistake("run", *arguments))
        self.assertFalse((self.folder / "stats").exists())

    def test_inputs_that_are_no_tensors(self) -> None:
        sequence = helper.make_tensor_sequence_value_info("X", TensorProto.FLOAT, [2])
        length = helper.make_tensor_value_info("Y", TensorProto.INT64, [])
        graph = helper.make_graph([helper.make_node("SequenceLength", ["X"], ["Y"])], "test", [sequence], [length])
        path = self.put(
            "sequence.onnx", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        )
        self.assertIn("seq(tensor(float))", self.mistake("run", path))

    def test_progress(self) -> None:
        for is_terminal, expected in ((False, r"\A\Z"), (True, r"\A(\rrun 3 of 9 {49})+\r {59}\r\Z")):
            stream = io.StringIO()
            stream.isatty = lambda is_terminal=is_terminal: is_terminal
            with contextlib.redirect_stderr(stream):
                progress = command_run._Progress()
                progress.seconds = 0.001
                progress.doing = "run 3 of 9"
                with progress:
                    deadline = time.monotonic() + (10 if is_terminal else 0.05)
                    while "run" not in stream.getvalue() and time.monotonic() < deadline:
                        time.sleep(0.001)
            self.assertRegex(stream.getvalue(), expected)

    def test_what_ort_logs_is_told_of_a_failure(self) -> None:
        gathering = model([helper.make_node("Gather", ["data", "X"], ["Y"])], {"X": (1,)}, {"Y": (1,)}, elem_type=7)
        gathering.graph.initializer.append(helper.make_tensor("data", TensorProto.INT64, [2], [0, 1]))

        tries = []

        def fail(*_: object, **__: object) -> None:
            tries.append(1)
            if len(tries) == 1:  # ORT is not listened to before something failed
                raise RuntimeError("it did not open")
            os.write(2, b"some library says this\n")
            session = onnxruntime.InferenceSession(gathering.SerializeToString(), providers=[CPU])
            with contextlib.suppress(Exception):
                session.run(None, {"X": np.array([9])})
            raise RuntimeError("it did not open")

        path = self.put("two_nodes.onnx", two_nodes())
        with mock.patch.object(command_run.backend, "prepare", fail):
            told = Told("run", path)
        self.assertEqual(told.status, 1)
        self.assertRegex(
            told.err,
            r"\Asome library says this\nerror: it did not open; ORT logs: Non-zero status code .*Gather.*\n\Z",
        )


class ProcessTest(CommandTest):
    """As a person calls it."""

    def start(self, *arguments: object, **keywords) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **keywords)

    def test_result_and_status(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        ran = self.start("run", path, "--json")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(json.loads(ran.stdout)["inputs"][0]["name"], "X")

    def test_stdout_holds_the_result_alone(self) -> None:
        """As where ORT prints "EP Error" and an EP's library a line of its own, some of it at the end."""
        path = self.put("two_nodes.onnx", two_nodes())
        noise = """
import atexit, ctypes, os, runpy, sys
import onnxruntime
ordinary = onnxruntime.InferenceSession.get_inputs
def noisy(self):
    print("EP Error")
    os.write(1, b"native line\\n")
    if os.name == "posix":
        ctypes.CDLL(None).printf(b"line that C holds back\\n")
    return ordinary(self)
onnxruntime.InferenceSession.get_inputs = noisy
atexit.register(lambda: print("good bye", flush=True))
runpy.run_module("onnxruntime.backend", run_name="__main__")
"""
        command = [sys.executable, "-c", noise, "run", str(path), "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(json.loads(ran.stdout)["configurations"]), 1)
        for line in ("EP Error", "native line", "good bye", *["line that C holds back"] * (os.name == "posix")):
            self.assertIn(f"{line}\n", ran.stderr)

    def test_ort_logs_where_it_is_asked_to(self) -> None:
        ran = self.start("run", self.put("two_nodes.onnx", two_nodes()), "--log", "info")
        self.assertEqual(ran.returncode, 0)
        self.assertIn("[I:onnxruntime:", ran.stderr)

    def test_nothing_that_acts_on_a_terminal_is_printed(self) -> None:
        name = "x\x1b[2J\x1b]0;owned\x07\rerror\u202e\x9b"
        node = helper.make_node("Relu", [name], ["y\x1b[31m"])
        path = self.put("escapes.onnx", model([node], {name: (2,)}, {"y\x1b[31m": (2,)}))
        evil = self.folder / "a\x1b[2J.onnx"
        if os.name == "posix":
            path = path.rename(evil)
        config = json.dumps({"session_config": {"\x1b[2J": "\x1b]0;x\x07"}})
        for arguments in (
            ["run", path],
            ["run", path, "--input", "z=1"],
            ["run", path, "--input", f"{name}=[1]"],
            ["run", path, "--config", config, "--config", "{}"],
            ["run", path, "--json"],
            ["run", evil.with_name("no\x1b[2J")],
            ["run", "m", "--\x1b[2J"],
            ["check", config],
            ["options", "\x1b[2J"],
            ["options", "--search", "\x1b[2J"],
            ["info", "--plugin", "\x1b[2J"],
        ):
            with self.subTest(arguments):
                ran = self.start(*arguments, env={**os.environ, VARIABLE: json.dumps({"run_config": {}})})
                for line in (ran.stdout + ran.stderr).splitlines():
                    self.assertTrue(line.isprintable(), ascii(line))
                self.assertTrue(ran.stdout or ran.stderr)

    def test_ort_logs_nothing_beside_the_error(self) -> None:
        gathering = model([helper.make_node("Gather", ["data", "X"], ["Y"])], {"X": (1,)}, {"Y": (1,)}, elem_type=7)
        gathering.graph.initializer.append(helper.make_tensor("data", TensorProto.INT64, [2], [0, 1]))
        path = self.put("gathering.onnx", gathering)
        for arguments in (
            ["run", path, "--provider-option", "CPU", "--input", "X=[9]"],
            ["run", self.put("text.onnx", "no model")],
        ):
            ran = self.start(*arguments)
            self.assertEqual((ran.returncode, ran.stdout), (1, ""))
            self.assertRegex(ran.stderr, r"\Aerror: [^\n]+\n\Z")

    def test_closed_output(self) -> None:
        command = f"{sys.executable} -m onnxruntime.backend options session | head -n 1"
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        self.assertEqual((ran.stdout, ran.stderr), ("session_config: permitted\n", ""))
        # More than a pipe holds, to a reader who has gone: what Python writes at its end must not fail again.
        for arguments in ("options --refused --json", "check {}"):  # less than that is written at the end only
            command = f"{sys.executable} -m onnxruntime.backend {arguments}; echo $? >&2"
            ran = subprocess.run(f"({command}) | true", shell=True, capture_output=True, text=True, check=False)
            self.assertEqual(ran.stderr, "1\n")

    @unittest.skipUnless(os.path.exists("/dev/full"), "Linux has a device that is always full")
    def test_full_disk(self) -> None:
        command = [sys.executable, "-m", "onnxruntime.backend", "check", "{}"]
        with open("/dev/full", "wb") as full:
            ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"\Aerror: [^\n]*No space left on device\n\Z")

    def test_a_mistake_as_json(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        for arguments in (["run", path, "--session-config", "x=1"], ["run", "no.onnx"], ["check", "{]"]):
            ran = self.start(*arguments, "--json")
            self.assertEqual(ran.returncode, 1)
            self.assertEqual(f"error: {json.loads(ran.stdout)['error']}\n", ran.stderr)

    def test_names_that_no_terminal_can_show(self) -> None:
        path = self.folder / "mod\xe8le.onnx"
        path.write_bytes(two_nodes().SerializeToString())
        ran = self.start("run", path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("mod\\xe8le.onnx", ran.stdout)

    def test_importing_the_backend_imports_no_command(self) -> None:
        code = "import sys, onnxruntime.backend; print([n for n in sys.modules if '.backend.command' in n])"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(ran.stdout, "[]\n")


@unittest.skipUnless(os.name == "posix", "pseudo terminals are POSIX's")
class TerminalTest(CommandTest):
    """As a person sees it, in terminals of 60, 80 and 200 columns; and in a pipe, which is read as 80 columns."""

    def see(self, width: int, *arguments: object) -> str:
        """What a terminal shows of a command, stdout and stderr."""
        import fcntl  # POSIX's  # noqa: PLC0415
        import pty  # POSIX's  # noqa: PLC0415
        import struct  # noqa: PLC0415
        import termios  # POSIX's  # noqa: PLC0415

        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        command = [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)]
        shown = b""
        with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
            os.close(terminal)
            with contextlib.suppress(OSError):  # what Linux says when the other side is closed
                while chunk := os.read(controller, 1 << 16):
                    shown += chunk
            process.wait()
        os.close(controller)
        return shown.decode().replace("\r\n", "\n")

    def commands(self) -> list[list[object]]:
        path = self.put(f"{'long' * 20}.onnx", two_nodes())
        config = json.dumps({"session_config": {SPINNING: False}, "provider_options": {CPU: {}}})
        refused = json.dumps({"run_config": {"x": 1}})
        return [
            ["options", "session"],
            ["run", path, "--config", "{}", "--config", config, "--config", refused, "--compare", "--repeat", "1"],
            [],
            *([command, "--help"] for command in ("info", "options", "check", "run")),
            ["info"],
            ["options"],
            ["options", "CUDA", "--refused"],
            ["check", config],
            ["check", json.dumps({"session_config": {WRITES: "x"}})],
            ["run", path, "--compare", "--repeat", "1"],
        ]

    def test_terminals(self) -> None:
        for width in (60, 80, 200):
            longest = 0
            for arguments in self.commands()[:2]:
                with self.subTest(width=width, arguments=arguments):
                    shown = self.see(width, *arguments)
                    self.check_lines(re.sub(r"\r.*?\r", "", shown), width)
                    longest = max(longest, *map(len, shown.splitlines()))
                    if arguments[0] == "run":
                        self.assertIn(str(arguments[1]), shown)
            self.assertEqual(longest > 120, width == 200)

    def test_every_command_at_every_width(self) -> None:
        for width in (60, 80, 200):
            with mock.patch.dict(os.environ, {"COLUMNS": str(width)}):
                for arguments in self.commands():
                    with self.subTest(width=width, arguments=arguments):
                        self.check_lines(Told(*arguments).out, width)

    def test_pipe(self) -> None:
        for arguments in self.commands()[:2]:
            command = [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)]
            environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
            with self.subTest(arguments):
                ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
                self.check_lines(ran.stdout, 80)
                self.assertNotIn("\r", ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
