# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``run`` command: the report of the applied settings, and mistakes."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import unittest
from unittest import mock

import numpy as np
from helpers.command_line import ABSENT, CPU, PREPACKING, SHRINKING, WRITES, CommandTest, Ran, execute_here, page_of
from helpers.models import parsed, three_inputs, two_nodes
from helpers.observable_models import CONTRADICTORY
from helpers.processes import process_with

import onnxruntime
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import info, run
from onnxruntime.backend.runs.inputs import _LIST_AS_INPUT

AZURE = "AzureExecutionProvider"  # in each desktop build; it takes no node of ordinary models


class ReportTest(CommandTest):
    def test_the_result_and_its_page(self):
        words = f"--provider-option cpu --session-config {PREPACKING}=1 --device CPU --session-option logid=x --compare"
        shrinking = "memory.enable_memory_arena_shrinkage=cpu:0"
        with process_with():
            result = self.json("run", "--repeat", "2", self.path, "--run-config", shrinking, *words.split())
        (one,) = result["configurations"]
        latency = one.pop("latency_ms")
        self.assertTrue(0 < latency.pop("p50") <= latency.pop("p90") <= latency.pop("p99"))
        self.assertEqual(latency, {"runs": 2, "warm_up": 3, "ratio_to_first": 1.0})
        same = {"within": True, "absolute": 0.0, "relative": 0.0, "note": "", "beyond": 0.0}
        same |= {"index": None, "value": None, "reference": None}
        expected = {
            "configuration": "{}",
            "error": None,
            "providers": [{"name": CPU, "kind": "built-in"}],
            "provider_options": {CPU: {}},
            "unconfirmed": {},
            "session_options": {"logid": "x"},
            "session_config": {PREPACKING: "1"},
            "run_config": SHRINKING,
            "extensions": [],
            "warnings": [],
            "nodes": {CPU: 2},
            "operators_on_cpu": {},
            "runs_alone": None,
            "outputs": [{"name": "Y", "type": "float32", "shape": [2, 3], "difference": same}],
        }
        self.assertEqual(one, expected)
        inputs, tolerance = ([{"name": "X", "type": "float32", "shape": [2, 3]}], {"relative": 1e-3, "absolute": 1e-5})
        rest = {"model": str(self.path), "inputs": inputs, "tolerance": tolerance, "interrupted": False}
        rest |= {"onnxruntime": onnxruntime.__version__, "backend": onnxruntime.backend.__version__}
        self.assertEqual(result, rest | {"configurations": [one]})

        result |= {"model": "m.onnx", "inputs": [*inputs, {"name": "i", "type": "int64", "shape": []}]}
        other = same | {"within": False, "absolute": None, "relative": None, "note": "other items"}
        differs = [{"name": "Z", "type": "list", "shape": None, "difference": other}]
        same |= {
            "absolute": 1e-6,
            "relative": 0.25,
            "beyond": 0.125,
            "index": [0, "a"],
            "value": 1.5,
            "reference": "inf",
        }
        matches = [{"name": "Y", "type": "float32", "shape": [2], "difference": same}]
        latency = {"p50": 1.2345, "p90": 2, "p99": 345.67, "runs": 1, "warm_up": 3, "ratio_to_first": 1.0}
        one |= {
            "providers": [{"name": "A", "kind": "plugin"}, *expected["providers"]],
            "provider_options": {"A": {"a": "1", "b": "2"}},
            "unconfirmed": {"A": {"a": "1", "b": "2"}},
            "extensions": ["f", "g"],
            "nodes": {"A": 0, "B": 0, CPU: 2, AZURE: 0},
            "operators_on_cpu": {"Conv": 20, "com.microsoft:Gelu": 3} | dict.fromkeys("ABCD", 1),
            "outputs": matches + differs,
            "latency_ms": latency,
        }
        indent = " " * 25
        start = [
            "model                    m.onnx",
            "input                    X: float32[2, 3]",
            f"{indent}i: int64",
            "",
        ]
        applied = [
            f"EPs                      A (plugin), {CPU} (built-in)",
            "nodes                    CPU 2",
            "operators on the CPU EP  Conv 20, com.microsoft:Gelu 3, A 1, B 1, C 1, and 1",
            f"{indent}other operator",
            "output Y                 float32[2]; matches the CPU EP (max absolute difference",
            f"{indent}1e-06, max relative difference 0.25); largest",
            f"{indent}difference at [0, 'a']: 1.5, reference 'inf'; 12.5 % of",
            f"{indent}the elements beyond the tolerance",
            "output Z                 list; DIFFERS from the CPU EP (other items)",
            "provider_options         A.a = 1, A.b = 2",
            "session_options          logid = x",
            f"session_config           {PREPACKING} = 1",
            "run_config               memory.enable_memory_arena_shrinkage = cpu:0",
            "unconfirmed              A.a = 1, A.b = 2 (not reported, or without effect in",
            f"{indent}this session)",
            "extensions               f, g",
            "",
        ]
        figures = [
            "        p50 ms  p90 ms  p99 ms  ratio  runs  outputs",
            "result    1.23       2     346   1.00     1   DIFFER",
        ]
        self.assertEqual(page_of(run, result | {"configurations": [one]}), [*start, "result", *applied, *figures])

        failed = {"configuration": "second.json", "error": {"message": "e"}}
        unmeasured = one | {"latency_ms": None, "outputs": []}
        fast = one | {"latency_ms": latency | {"ratio_to_first": 0.126}, "outputs": matches}
        without_ratio = fast | {"latency_ms": latency | {"ratio_to_first": None}}
        result["configurations"] = [one, failed, unmeasured, fast, without_ratio]
        page = [*start, "1: {}", *applied, "2: second.json", "error                    e", "", "3: {}"]
        self.assertEqual(page_of(run, result)[: len(page)], page)
        table = [
            "",
            "   p50 ms  p90 ms  p99 ms  ratio  runs  outputs",
            "1    1.23       2     346   1.00     1   DIFFER",
            "2       -       -       -      -     -        -",
            "3       -       -       -      -     -        -",
            "4    1.23       2     346   0.13     1    match",
            "5    1.23       2     346      -     1    match",
        ]
        self.assertEqual(page_of(run, result)[-7:], table)
        for ran in result["configurations"]:
            ran["outputs"] = []
        self.assertEqual(page_of(run, result)[-7:], [line[:38].rstrip() for line in table])

    def test_runs_and_their_latency(self):
        clock = mock.patch.object(run.time, "perf_counter", itertools.count().__next__)  # a second for each call
        call = mock.patch.object(OnnxRuntimeBackendRep, "run", autospec=True, side_effect=OnnxRuntimeBackendRep.run)
        for flags, seconds, runs in (
            (["--repeat", "2"], 0.0, 2),
            ([], 0.0, 10),
            ([], 9999.0, 1000),
            # For each run of a configuration two calls, and one for each round.
            (["--config", "{}", "--config", "{}"], 28.5, 14),
        ):
            with self.subTest(runs), clock, call as calls, mock.patch.object(run, "_SECONDS", seconds):
                found = self.json("run", self.path, *flags)["configurations"]
                self.assertEqual(calls.call_count, len(found) * (3 + runs))
                figures = {"p50": 1000.0, "p90": 1000.0, "p99": 1000.0, "ratio_to_first": 1.0}
                for one in found:
                    self.assertEqual(one["latency_ms"], figures | {"runs": runs, "warm_up": 3})

    def test_a_session_without_runs(self):
        path = self.put("open.onnx", two_nodes((None, 3)))
        shown = self.show("run", path, "--provider-option", "CPU", "--repeat", "0", "--json")
        found = json.loads(shown)["configurations"][0]
        self.assertEqual((found["latency_ms"], found["outputs"]), (None, []))
        self.assertEqual(sum(found["nodes"].values()), 2)
        self.assertNotIn("p50", self.show("run", path, "--repeat", "0"))


class MistakeTest(CommandTest):
    def test_mistakes(self):
        np.save(self.folder / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
        np.save(self.folder / "double.npy", np.zeros((2, 3)))
        np.savez(self.folder / "several", a=np.zeros(3))
        (self.folder / "several.npz").rename(self.folder / "several.npy")
        self.put("empty.npy", "")
        for words, why in (
            ("--device CDUA", "CDUA"),
            ("--repeat -1", "--repeat: invalid value '-1'"),
            ("--repeat 1000001", "--repeat: invalid value '1000001'"),
            ("--provider-option NoSuch", "NoSuch"),
            (f"--provider-option {ABSENT}.enable_cann_graph=1", ABSENT),
            ("--provider-option NvTensorRTRTX", "use --plugin PACKAGE"),
            ("--provider-option CPU.x", "value 'CPU.x'. Expected EP.OPTION=VALUE\n"),
            ("--provider-option CPU.x=1", f"provider_options['{CPU}']['x']"),
            ("--provider-option .x=1", "--provider-option: invalid value '.x=1'. Expected EP."),
            ("--session-config x", "--session-config: invalid value 'x'. Expected KEY=VALUE\n"),
            ("--session-config ''", "--session-config: invalid value ''. Expected KEY=VALUE\n"),
            ("--run-config =x", "--run-config: invalid value '=x'. Expected KEY=VALUE\n"),
            ("--session-option x", "--session-option: invalid value 'x'. Expected NAME=VALUE\n"),
            ("--session-option x=1", "session_options['x']"),
            ("--free-dimension x", "--free-dimension: invalid value 'x'. Expected NAME=SIZE\n"),
            (f"--session-config {WRITES}=stats", WRITES),
            ("--config {]", "JSON"),
            ("""--config '{"x": {}}'""", "'x'"),
            ("--save none/y.npz --repeat 1", "y.npz"),
            ("--save y.npz --repeat 0", "--save requires outputs"),
            ("--html none/y.html", "y.html"),
            ("--rtol 1e-2", "--rtol has no effect without --compare"),
            ("--atol 1e-5", "--atol has no effect without --compare"),
            ("--shape Z=2x3 --repeat 0", "'Z'"),
            ("--input X=no-such.npy --repeat 0", "no-such.npy"),
            ("--input no-such.npy", "--input X: cannot read no-such.npy"),
            ("--input X", "--input: invalid value 'X'. Expected NAME=VALUE\n"),
            (f"--input X={'[' * 100_000}", "--input X"),
            ("--shape X", "--shape: invalid value 'X'. Expected NAME=1x3x224x224\n"),
            ("--input Z=random", "'Z'"),
            ("--input X=no-such.npy", "no-such.npy"),
            ("--input X=pickled.npy", "pickled.npy"),
            ("--input X=several.npy", "several.npy"),
            ("--input X=empty.npy", "empty.npy"),
            ("--input X=double.npy", "X"),
            ("""--input 'X={"a": 1}'""", "--input X"),
            ("--input 'X=[[1], [2, 3]]'", "--input X"),
            ("--input X=[1,2]", "X"),
            ("--shape X=2x", "'2x'"),
            ("--shape X=-2x3", "'-2x3'"),
            ("--shape X=100000000000x3", "'100000000000x3'"),
            ("--shape X=2x4", "X"),
            ("--shape Z=2x3", "'Z'"),
            ("--shape X=2x3 --input X=[1]", "--shape X"),
        ):
            with self.subTest(words[:80]), contextlib.chdir(self.folder):
                self.assertIn(why, self.mistake("run", self.path, *shlex.split(words)))
        self.assertFalse((self.folder / "stats").exists())

    def test_mistakes_with_other_models(self):
        constant = parsed("() => (float Y) { Y = Constant <value_float = 1.0> () }")
        for path, words, why in (
            ("no-such.onnx", "", "no-such.onnx"),
            (self.folder, "", "is a folder"),
            (self.put("text.onnx", "no model"), "", "text.onnx"),
            (self.put("empty.onnx", ""), "", "is empty"),
            (self.put("contradictory.onnx", CONTRADICTORY), "--provider-option CPU --input x=[1]", "x"),
            (self.put("named.onnx", two_nodes(("N", 3))), "--free-dimension M=1", "'N'"),
            (self.put("none.onnx", constant), "--input x.npy", "NAME"),
            (self.put("three.onnx", three_inputs()), "--input x.npy", "Expected NAME=VALUE\n"),
        ):
            with self.subTest(path):
                self.assertIn(why, self.mistake("run", path, *words.split()))

    def test_advice_for_python_is_not_in_errors(self):
        configurations = ["--config", "{}"] * 2
        for words in ([], configurations, ["--json"], [*configurations, "--json"]):
            ran = Ran("run", self.path, "--input", "X=[1,2]", *words)
            text = " ".join(f"{ran.err} {ran.out}".split())
            self.assertIn("The value lacks one dimension, such as the batch", text)
            self.assertNotIn(_LIST_AS_INPUT, text)

    def test_json_describes_the_input_of_an_error(self):
        np.save(self.folder / "double.npy", np.zeros((2, 3)))
        for value, got in ((f"{self.folder}/double.npy", "float64[2, 3]"), ("[[1],[2,3]]", "a list of lists")):
            ran = Ran("run", self.path, "--input", f"X={value}", "--json")
            result = json.loads(ran.out)
            if "error" not in result:
                (result,) = result["configurations"]
            found = result["error"]
            self.assertEqual((found["input"], ran.status), ("X", 1))
            self.assertIn("float32[2, 3]", found["expected"])
            self.assertTrue(found["got"].startswith(got), found)

    @mock.patch.object(info, "in_child", execute_here)
    def test_sequences_maps_optional_values_and_texts(self):
        for kind, output, node, value in (
            ("seq(float[2])", "int64", "SequenceLength (X)", "[[1, 2], [3, 4]]"),
            ("map(string, float)", "float[N]", 'ai.onnx.ml.DictVectorizer <string_vocabulary=["a"]> (X)', '{"a": 1}'),
            ("map(int64, float)", "float[N]", "ai.onnx.ml.CastMap (X)", '{"-1": 0, "1": 1}'),
            ("optional(float)", "bool", "OptionalHasElement (X)", "null"),
            ("string[N]", "string[N]", "Identity (X)", '["text"]'),
        ):
            path = self.put("made.onnx", parsed(f"({kind} X) => ({output} Y) {{ Y = {node} }}", "ai.onnx.ml"))
            with self.subTest(kind):
                self.assertEqual(len(self.run_one(path, "--input", f"X={value}")["outputs"]), 1)
                self.assertIn("JSON", self.mistake("run", path, "--input", "X=text"))
        sequence = self.put("sequence.onnx", parsed("(seq(float[2]) X) => (int64 Y) { Y = SequenceLength (X) }"))
        mistake = self.mistake("run", sequence)
        self.assertIn("seq(float32)", mistake)
        self.assertIn("--input X=VALUE", mistake)
        found = self.json("inspect", sequence)["run"]
        self.assertIn("seq(float32)", found["error"])


if __name__ == "__main__":
    unittest.main()
