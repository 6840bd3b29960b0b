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
import tempfile
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
from onnxruntime.backend import __main__ as command_line
from onnxruntime.backend import command_run
from onnxruntime.backend.allowlist_config_keys import SESSION_CONFIG
from onnxruntime.backend.allowlist_providers import PROVIDERS
from onnxruntime.backend.allowlist_rules import Permitted

CPU = "CPUExecutionProvider"
ABSENT = "CANNExecutionProvider"
VARIABLE = "ORT_ONNX_BACKEND_CONFIG"
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"
WRITES = "session.collect_node_memory_stats_to_file"


class Told:
    """What a command said in this process, and its exit status."""

    def __init__(self, *arguments: object) -> None:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            warnings.catch_warnings(),
        ):
            try:
                self.status = command_line.main([str(argument) for argument in arguments])
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
        for line in told.out.splitlines():
            self.assertLessEqual(len(line), 80, line)
        return told.out

    def run_json(self, *arguments: object, **keywords: str) -> dict:
        return json.loads(self.tell("run", *arguments, "--json", "--repeat", "2", **keywords))

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
        for command in ("info", "options", "check", "run"):
            self.assertRegex(self.tell("--help"), rf"\n +{command} +\w")
            self.assertIn(f"onnxruntime.backend {command}", self.tell(command, "--help"))

    def test_mistaken_arguments(self) -> None:
        for arguments, why in (
            (["inf"], "inf"),
            (["--no-such"], "--no-such"),
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
        for name in onnxruntime.get_available_providers():
            self.assertRegex(out, rf"\n  {name} +bundled +(none|\d+)\n")
        absent = out.partition("Known, but not in this process\n")[2]
        self.assertIn("CANN", absent)
        self.assertNotIn(" CPU,", absent)

    def test_the_environment_is_told(self) -> None:
        self.assertNotIn(VARIABLE, self.tell("info"))
        with mock.patch.dict(os.environ, {VARIABLE: json.dumps({"session_config": {"x" * 90: "y" * 90}})}):
            self.assertIn(f"environment  {VARIABLE}=", self.tell("info"))


class OptionsTest(CommandTest):
    def test_overview(self) -> None:
        out = self.tell("options")
        permitted = sum(type(rule) is Permitted for rule in SESSION_CONFIG.values())
        self.assertRegex(out, rf"session_config +{permitted} +{len(SESSION_CONFIG) - permitted}\n")

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
            "run_config": {"gpu_graph_id": 3},
        }
        for given in (json.dumps(config), self.put("config.json", json.dumps(config))):
            with no_session_opens():
                out = self.tell("check", given)
            self.assertIn(f"\n  {CPU} (bundled)\n", out)
            self.assertIn(f"\n  session_config\n      {SPINNING} = 0\n", out)
            self.assertIn("\n  run_config\n      gpu_graph_id = 3\n", out)

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
        self.tell("check", '{"session_config": {"session.intra_op.allow_spin": 0}}', warns="Did you mean")


class RunTest(CommandTest):
    def test_what_it_tells(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        out = self.tell(
            *("run", path, "--provider-option", "cpu", "--session-config", f"{SPINNING}=False"),
            *("--run-config", "gpu_graph_id=3", "--repeat", "3", "--compare", "--device", "CPU"),
        )
        for line in (
            f"providers         {CPU}",
            f"session_config    {SPINNING} = 0",
            "run_config        gpu_graph_id = 3",
            f"nodes             2 on {CPU}",
            "input             X: float32 [2, 3]",
            "output            Y: float32 [2, 3]",
            "                    largest difference from CPU: 0",
        ):
            self.assertIn(f"\n{line}\n", out)
        self.assertRegex(out, r"\nlatency           \S+ ms, median of 3 runs after a first one\n$")

    def test_json(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        told = self.run_json(path, "--session-config", f"{PREPACKING}=1", "--compare")
        self.assertGreater(told.pop("median_ms"), 0)
        self.assertEqual(sum(told.pop("nodes").values()), 2)
        self.assertEqual(
            told,
            {
                "model": str(path),
                "providers": onnxruntime.get_available_providers(),
                "provider_options": {},
                "unconfirmed": {},
                "session_config": {PREPACKING: "1"},
                "run_config": {},
                "inputs": [{"name": "X", "type": "float32", "shape": [2, 3]}],
                "outputs": [{"name": "Y", "type": "float32", "shape": [2, 3], "difference": 0.0}],
                "repeat": 2,
            },
        )

    def test_config_and_single_entries_and_environment(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        config = {"provider_options": {CPU: {}}, "session_config": {SPINNING: 0, PREPACKING: 1}}
        environment = {"session_config": {SPINNING: 1}, "run_config": {"gpu_graph_id": 7}}
        with mock.patch.dict(os.environ, {VARIABLE: json.dumps(environment)}):
            told = self.run_json(path, "--config", json.dumps(config), "--session-config", f"{PREPACKING}=false")
        self.assertEqual(told["providers"], [CPU])
        self.assertEqual(told["session_config"], {SPINNING: "0", PREPACKING: "0"})
        self.assertEqual(told["run_config"], {"gpu_graph_id": "7"})

    def test_compare_tells_a_difference(self) -> None:
        path = self.put("gelu.onnx", GELU)
        approximated = ("--session-config", "optimization.enable_gelu_approximation=1")
        told = self.run_json(path, "--provider-option", "CPU", *approximated, "--compare")
        self.assertGreater(told["outputs"][0]["difference"], 1e-6)
        # The reference asks nothing of the environment.
        with mock.patch.dict(os.environ, {VARIABLE: '{"session_config": {"session.disable_prepacking": 3}}'}):
            reference = command_run._unconfigured(str(path))
        self.assertEqual(dict(reference.session_config), {})

    def test_differences(self) -> None:
        nan, inf = np.nan, np.inf
        for ours, theirs, expected in (
            ([1.0, nan, inf], [1.5, nan, inf], 0.5),
            ([nan], [1.0], "not finite"),
            ([inf], [-inf], "not finite"),
            ([1], [1, 2], "shape [2] on CPU"),
            ([], [], 0.0),
            ([True], [False], "different"),
            ([1 + 1j], [1.0 + 0j], 1.0),
            (np.array(["a"], object), np.array(["a"], object), 0.0),
            (np.array(["a"], object), np.array(["b"], object), "different"),
            (np.array([255], np.uint8), np.array([0], np.uint8), 255.0),
        ):
            with self.subTest(ours=ours, theirs=theirs):
                self.assertEqual(command_run._difference(np.asarray(ours), np.asarray(theirs)), expected)
        self.assertEqual(command_run._difference([], []), "not compared")

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
                (output,) = self.run_json(path)["outputs"]
                name = "string" if element == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(element).name
                self.assertEqual((output["type"], output["shape"]), (name, [3]))

    def test_random_inputs_are_the_same_every_time(self) -> None:
        nodes = onnxruntime.InferenceSession(three_inputs().SerializeToString()).get_inputs()
        first, second = (command_run._inputs(nodes, [], []) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        self.assertFalse(np.array_equal(first[0], first[1]))

    def test_given_inputs(self) -> None:
        nodes = onnxruntime.InferenceSession(three_inputs().SerializeToString()).get_inputs()
        array = np.arange(4, dtype=np.float32)
        np.save(self.folder / "a.npy", array)
        values = command_run._inputs(nodes, ["C=[1,2,3,4]", f"A={self.folder}/a.npy", "B=random"], ["B=4"])
        np.testing.assert_array_equal(values[0], array)
        self.assertEqual(values[1].shape, (4,))
        np.testing.assert_array_equal(values[2], np.array([1, 2, 3, 4], np.float32))

    def test_open_shapes(self) -> None:
        path = self.put("open.onnx", two_nodes((None, 3)))
        self.assertIn("(X: tensor(float)[?, 3]); give them, such as --shape X=1x3", self.mistake("run", path))
        self.assertEqual(self.run_json(path, "--shape", "X=5x3")["outputs"][0]["shape"], [5, 3])
        self.assertEqual(self.run_json(path, "--shape", "X=0x3")["outputs"][0]["shape"], [0, 3])
        np.save(self.folder / "x.npy", np.zeros((7, 3), np.float32))
        told = self.run_json(path, "--input", f"X={self.folder}/x.npy")
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
        for is_terminal, expected in ((False, r"\A(run 3 of 9\n)+\Z"), (True, r"\A(\rrun 3 of 9 {69})+\r {79}\r\Z")):
            stream = io.StringIO()
            stream.isatty = lambda is_terminal=is_terminal: is_terminal
            with contextlib.redirect_stderr(stream):
                progress = command_run._Progress()
                progress.seconds = 0.001
                progress.doing = "run 3 of 9"
                with progress:
                    while "\r" * is_terminal + "run" not in stream.getvalue():
                        progress._thread.join(0.001)
            self.assertRegex(stream.getvalue(), expected)


class ProcessTest(CommandTest):
    """As a person calls it."""

    def start(self, *arguments: object, **keywords) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **keywords)

    def test_result_and_status(self) -> None:
        path = self.put("two_nodes.onnx", two_nodes())
        ran = self.start("run", path, "--json")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(json.loads(ran.stdout)["outputs"][0]["name"], "Y")

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

    def test_names_that_no_terminal_can_show(self) -> None:
        path = self.folder / "mod\xe8le.onnx"
        path.write_bytes(two_nodes().SerializeToString())
        ran = self.start("run", path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("mod\\xe8le.onnx", "".join(ran.stdout.split()))


if __name__ == "__main__":
    unittest.main()
