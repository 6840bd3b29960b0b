# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""``python -m onnxruntime.backend run``: what becomes of a model, its inputs and its configurations."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import time
import unittest
from unittest import mock

import numpy as np
from backend_test_command_line import ABSENT, CPU, PREPACKING, SHRINKING, SPINNING, VARIABLE, WRITES, CommandTest, Told
from backend_test_models import model, three_inputs, two_nodes
from backend_test_observable_models import CONTRADICTORY, GELU
from onnx import TensorProto, helper

import onnxruntime
from onnxruntime.backend.command_line import inputs as command_inputs
from onnxruntime.backend.command_line import measure as command_measure
from onnxruntime.backend.command_line import run as command_run
from onnxruntime.backend.command_line import shared

AZURE = "AzureExecutionProvider"  # in every build for the desktop; it takes no node that an ordinary model has


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
            (["--free-dimension", "M=1"], "Named dimensions: 'N'"),
            (["--free-dimension", "N=x"], "Expected an integer"),
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
            self.assertEqual(shared.kinds_here()["UnheardOfExecutionProvider"], "plugin")
            self.assertEqual(shared.kinds_here()[CPU], "built-in")
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
            ([path, "--session-config", f"{PREPACKING}=yes"], "Expected True/False"),
            ([path, "--session-config", f"{WRITES}={self.folder}/stats"], "not permitted"),
            ([path, "--run-config", "gpu_graph_id=-2"], "invalid value '-2'"),
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


if __name__ == "__main__":
    unittest.main()
