# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend``: what it prints, what it refuses, and that a mistake costs one line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import unittest
from unittest import mock

import onnx
from backend_test_command_line import ABSENT, CPU, PREPACKING, SHRINKING, SPINNING, VARIABLE, WRITES, CommandTest, Told
from backend_test_models import model, no_session_opens, two_nodes
from onnx import TensorProto, helper

import onnxruntime
from onnxruntime.backend import __main__
from onnxruntime.backend.allowlist import config_keys, refusals
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.command_line import info as command_info
from onnxruntime.backend.command_line import shared

SESSION_CONFIG = config_keys.SESSION_CONFIG | refusals.SESSION_CONFIG
PROVIDERS = refusals.provider_tables()


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
            self.assertRegex(out, rf"\n  {name} \(built-in\)\n      (opens a session|opens none: .+\n).*")
        found, _, absent = out.partition("Known, but not in this process\n")
        self.assertIn("\n  no plugin in use, which --plugin would add\n", found)
        self.assertIn("CANN", absent)
        self.assertNotIn(" CPU,", absent)

    def test_json(self) -> None:
        told = json.loads(self.tell("info", "--json"))
        self.assertEqual([one["name"] for one in told["providers"]], onnxruntime.get_available_providers())
        (cpu,) = [one for one in told["providers"] if one["name"] == CPU]
        expected = {"name": CPU, "kind": "built-in", "permitted": 0, "devices": [], "opens": True, "reason": ""}
        self.assertEqual(cpu, expected)
        self.assertEqual(told["onnxruntime"], onnxruntime.__version__)
        self.assertIn(ABSENT, told["not_in_this_process"])

    def test_an_ep_that_opens_no_session(self) -> None:
        model_path = self.put("two_nodes.onnx", two_nodes())
        tried = command_info._try(ABSENT, model_path, [])
        self.assertFalse(tried["opens"])
        self.assertIn(f"{ABSENT}']: ", tried["reason"])
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
            self.assertIn("NoSuch", self.mistake("run", path, "--provider-option", "NoSuch"))

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
        permitted = sum(type(rule) is Rule for rule in SESSION_CONFIG.values())
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
                    shown = permitted if type(rule) is Rule else refused
                    described = " ".join(shown.partition(f"\n  {name}\n")[2].split())
                    told = rule.effect if type(rule) is Rule else f"{rule.hazard}: {rule.reason}"
                    self.assertIn(" ".join(told.split()), described)
                    if type(rule) is Rule:
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
            self.assertIn(f"\n  {CPU} (built-in)\n", out)
            self.assertIn(f"\n  session_config\n      {SPINNING} = 0\n", out)
            self.assertIn("\n  run_config\n      memory.enable_memory_arena_shrinkage = cpu:0\n", out)

    def test_json(self) -> None:
        config = {"provider_options": {CPU: {}}, "session_config": {SPINNING: False}, "run_config": SHRINKING}
        told = json.loads(self.tell("check", json.dumps(config), "--json"))
        self.assertTrue(told["permitted"])
        self.assertEqual(told["provider_options"], {CPU: {"kind": "built-in", "here": True, "options": {}}})
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
            self.assertIn("stdin: the configuration must be an object", self.mistake("check", "-"))

    def test_an_ep_that_is_not_here(self) -> None:
        out = self.tell("check", json.dumps({"provider_options": {ABSENT: {"enable_cann_graph": True}}}))
        self.assertIn(
            f"{ABSENT} (built-in, not in this process)\n      dump_om_model = 0\n      enable_cann_graph = 1\n", out
        )
        out = self.tell("check", json.dumps({"provider_options": {"NvTensorRTRTXExecutionProvider": {}}}))
        self.assertIn("(plugin, not in this process)", out)

    def test_options_that_belong_together(self) -> None:
        tuning = {"tunable_op_enable": 1, "tunable_op_tuning_enable": 1, "tunable_op_max_tuning_duration_ms": 9}
        self.tell("check", json.dumps({"provider_options": {"CUDAExecutionProvider": tuning}}))
        del tuning["tunable_op_enable"]
        told = Told("check", json.dumps({"provider_options": {"CUDAExecutionProvider": tuning}}))
        self.assertEqual(told.status, 1)
        self.assertIn("['tunable_op_tuning_enable'] is not permitted via the backend API: it requires", told.err)

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
            [re.match(r"error: ([^ :]+)", line)[1] for line in lines],
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
            ('{"session_config": {"a": 1, "a": 2}}', "duplicate key 'a'"),
            ('{"session_config": {"a": Infinity}}', "finite"),
            ('{"session": {}}', "session_config"),
            (self.put("broken.json", "[1,\n2"), "broken.json: it is not JSON"),
            (json.dumps({"session_config": dict.fromkeys(map(str, range(257)))}), "more than 256"),
        ):
            with self.subTest(str(given)[:60]):
                self.assertIn(why, self.mistake("check", given))
        told = Told("check", json.dumps({"session_config": many}))
        self.assertIn("more than 16 keys", told.err)

    def test_a_warning_is_one_line(self) -> None:
        self.tell("check", '{"run_config": {"gpu_graph_id": 3}}', warns="no effect")


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
