# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``run`` command: its result and its tables, settings of the command line, and mistakes."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import unittest
from unittest import mock

import numpy as np
from helpers.command_line import ABSENT, CPU, PREPACKING, SHRINKING, VARIABLE, WRITES, CommandTest, Ran
from helpers.environment import environment
from helpers.models import parsed, three_inputs, two_nodes
from helpers.observable_models import GELU

import onnxruntime
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import output, run
from onnxruntime.backend.comparison import latency, side

KEY = "optimization.enable_gelu_approximation"
LATENCY = {"p50": 1.0, "p99": 345.67, "runs": 100, "ratio_to_first": 1.0, "ratio_interval": [1.0, 1.0]}
LATENCY |= {"verdict": "equal"}
RAN = {
    "configuration": "{}",
    "error": None,
    **{name: {} for name in ("provider_options", "session_options", "session_config", "run_config", "unconfirmed")},
    "extensions": [],
    "outputs": [],
    "nodes": {CPU: 2},
    "operators_on_cpu": {},
    "latency_ms": LATENCY,
}


def shown(*configurations: dict, width: int = 120) -> list[str]:
    result = {"model": "m.onnx", "inputs": [{"name": "X", "type": "float32", "shape": [2, 3]}]}
    return output.text(run.tables(result | {"configurations": configurations}), width, colors=False).splitlines()


class ResultTest(CommandTest):
    def test_the_result(self):
        words = f"--ep cpu --session-config {PREPACKING}=1 --session-option logid=x"
        shrinking = "memory.enable_memory_arena_shrinkage=cpu:0"
        result = self.json("run", "-n", "6", self.path, "--run-config", shrinking, *words.split())
        (one,) = result.pop("configurations")
        latency = one.pop("latency_ms")
        self.assertTrue(0 < latency["p50"] <= latency["p90"] <= latency["p99"])
        same = {name: latency[name] for name in ("runs", "ratio_to_first", "ratio_interval", "verdict")}
        self.assertEqual(same, {"runs": 6, "ratio_to_first": 1.0, "ratio_interval": [1.0, 1.0], "verdict": "equal"})
        settings = {"provider_options": {CPU: {}}, "session_options": {"logid": "x"}, "run_config": SHRINKING}
        settings |= {"session_config": {PREPACKING: "1"}, "providers": [{"name": CPU, "kind": "built-in"}]}
        settings |= {"outputs": [{"name": "Y", "type": "float32", "shape": [2, 3]}], "warnings": [], "runs_alone": None}
        self.assertEqual(one | {"latency_ms": LATENCY}, RAN | settings)
        versions = {"onnxruntime": onnxruntime.__version__, "backend": onnxruntime.backend.__version__}
        inputs = [{"name": "X", "type": "float32", "shape": [2, 3]}]
        self.assertEqual(result, versions | {"model": str(self.path), "inputs": inputs, "interrupted": False})

    def test_the_tables(self):
        first = RAN | {
            "provider_options": {"A": {"a": "1", "b": "2"}},
            "nodes": {"AExecutionProvider": 3, "B": 0, CPU: 1},
            "operators_on_cpu": {"Conv": 20} | dict.fromkeys("ABCDE", 1),
        }
        within, beyond = ({"within": bool(not note), "absolute": 0.5, "note": note} for note in ("", "Mismatch"))
        slow = {"p50": 1234.5, "ratio_to_first": 1.2, "ratio_interval": [1.0, 2.0], "verdict": ""}
        fast = {"p50": 0.0123, "ratio_to_first": 0.2, "ratio_interval": [0.1, 0.5], "verdict": "faster"}
        outputs = [{"name": "Y", "difference": within}, {"name": "Z", "difference": beyond}]
        found = [
            first,
            RAN | {"configuration": "slow.json", "latency_ms": LATENCY | slow, "outputs": outputs[:1]},
            RAN | {"configuration": "fast", "latency_ms": LATENCY | fast, "outputs": outputs},
            RAN | {"configuration": "e.json", "error": {"message": "why"}, "latency_ms": None},
        ]
        full, light = "\N{FULL BLOCK}", "\N{LIGHT SHADE}"
        expected = [
            *("model   m.onnx", "inputs  X: float32[2, 3]", "", "1: {}"),
            "nodes             A 3, CPU 1",
            "on the CPU EP     Conv 20, A 1, B 1, C 1, D 1, and 1 other operator",
            "provider_options  A.a = 1",
            "                  A.b = 2",
            *("", "2: slow.json", "nodes  CPU 2"),
            *("", "3: fast", "nodes     CPU 2", "output Z  Mismatch"),
            *("", "4: e.json", "error  why", ""),
            "configuration  p50 ms  p99 ms  runs  ratio to 1                              outputs",
            f"1: {{}}            1.00     346   100                              {full * 5}",
            f"2: slow.json    1,234     346   100  1.20 (1.00 to 2.00)         {full * 5}{light * 5}  match (0.5)",
            f"3: fast        0.0123     346   100  0.20 (0.10 to 0.50) faster  {light * 2}          DIFFER (0.5)",
            "4: e.json                                                                    FAILED",
        ]
        self.assertEqual(shown(*found), expected)
        # In a narrow terminal, a configuration has a line of its own.
        narrow = shown(*found, width=79)
        self.assertEqual(narrow[narrow.index("configuration") + 1], f"  {expected[19][13:]}")
        self.assertLessEqual(max(map(len, narrow)), 79)
        self.assertEqual(shown(RAN)[-2:], ["configuration  p50 ms  p99 ms  runs", "1: {}            1.00     346  100"])

    def test_a_reference(self):
        path = self.put("gelu.onnx", GELU)
        precise, approximate = ({"provider_options": {CPU: {}}, "session_config": {KEY: on}} for on in (0, 1))
        strict = ["--rtol", "1e-7", "--atol", "1e-9"]
        flags = ["--ep", "CPU", "--session-config", f"{KEY}=1"]
        configs = [f"--config={json.dumps(config)}" for config in (approximate, precise, approximate)]
        for words, variable, labels, within in (
            ([*strict, *flags, "--compare"], {}, ["the CPU EP", "{}"], [False]),
            ([*strict, "--compare"], approximate, ["the CPU EP", "{}"], [False]),
            ([*strict, *flags, "--reference", path], {}, [f"{path} {{}}", "{}"], [True]),
            ([*strict, *configs, "--compare"], {}, [config[9:] for config in configs], [False, True]),
            (configs, {}, [config[9:] for config in configs], []),
        ):
            with self.subTest(words), environment(variable):
                ran = Ran("run", path, "-n", "1", *words, "--json")
                found = json.loads(ran.out)["configurations"]
                differences = [one["outputs"][0].get("difference") for one in found]
                self.assertEqual([one["configuration"] for one in found], labels)
                self.assertEqual([each["within"] for each in differences if each], within)
                self.assertEqual((ran.status, ran.err, differences[0]), (int(False in within), "", None))

    def test_a_model_with_free_dimensions(self):
        path = self.put("open.onnx", two_nodes((None, 3)))
        for words, warns, shape in (([], "--shape X=1x3", [1, 3]), (["--shape", "X=5x3"], "", [5, 3])):
            (one,) = self.json("run", path, "-n", "1", *words, warns=warns)["configurations"]
            self.assertEqual(one["outputs"][0]["shape"], shape)
            self.assertEqual(sum(one["nodes"].values()), 2)  # recorded, although no EP is specified
        shown = self.show("run", path, "--repeat", "0")
        self.assertEqual(("p50" in shown, "nodes" in shown), (False, True))

    def test_values_of_inputs(self):
        np.save(self.folder / "x.npy", -np.ones((2, 3), "f"))
        with contextlib.chdir(self.folder):
            for words in (["--input", "x.npy"], ["--input", "X=x.npy"], ["--input", "X=random"]):
                self.show("run", self.path, *words, "-n", "1")
        for kind, made, node, value in (
            ("seq(float[2])", "int64", "SequenceLength (X)", "[[1, 2], [3, 4]]"),
            ("map(string, float)", "float[N]", 'ai.onnx.ml.DictVectorizer <string_vocabulary=["a"]> (X)', '{"a": 1}'),
            ("optional(float)", "bool", "OptionalHasElement (X)", "null"),
        ):
            path = self.put("made.onnx", parsed(f"({kind} X) => ({made} Y) {{ Y = {node} }}", "ai.onnx.ml"))
            with self.subTest(kind):
                self.show("run", path, "--input", f"X={value}", "-n", "1")
                self.assertIn("JSON", self.mistake("run", path, "--input", "X=text"))

    def test_an_interrupt(self):
        """The runs so far are a result. Without one, there is no result."""
        for runs, printed in ((5, True), (0, False)):
            effects = mock.Mock(side_effect=[*[[np.ones((2, 3), "f")]] * runs, KeyboardInterrupt])
            with mock.patch.object(OnnxRuntimeBackendRep, "run", effects), mock.patch.object(latency, "_SETTLING", 0):
                ran = Ran("run", self.path, "-n", "9", "--json")
            self.assertEqual((ran.status, ran.err, bool(ran.out)), (130, "error: interrupted\n", printed))


class SettingsTest(CommandTest):
    def test_options_of_eps_add_to_those_of_config(self):
        cuda, openvino = "CUDAExecutionProvider", "OpenVINOExecutionProvider"
        config = json.dumps({"provider_options": {cuda: {"use_tf32": 0}}})
        words = "CUDA.device_id=1 cuda.a=True CUDA.b=FALSE CUDA.c=d=e CUDA.f= CUDA.arena.max_mem=1.5 CPU "
        words += f"{openvino}.AUTO.x=1 {openvino}.AUTO OpenVINO.AUTO=1 No.such.x=1"
        options = {"use_tf32": 0, "device_id": "1", "a": True, "b": False, "c": "d=e", "f": "", "arena.max_mem": "1.5"}
        expected = {cuda: options, CPU: {}, f"{openvino}.AUTO": {"x": "1"}, openvino: {"AUTO": "1"}}
        expected["No"] = {"such.x": "1"}
        flags = [f"--provider-option={word}" for word in words.split()]
        for arguments, found in (
            (["--config", config, *flags], expected),
            (["--ep", "CUDA"], {cuda: {}}),
            (["--device", "cuda"], {cuda: {}}),
            (["--device", "GPU:1"], {cuda: {"device_id": "1"}}),
            (["--device", "cpu"], {CPU: {}}),
        ):
            with (
                self.subTest(arguments),
                mock.patch.object(side.backend, "prepare", side_effect=RuntimeError) as prepare,
            ):
                Ran("run", self.path, *arguments)
                self.assertEqual(prepare.call_args.kwargs["provider_options"], found)

    def test_several_configurations(self):
        refused, absent = {"session_config": {WRITES: "x"}}, {"provider_options": {ABSENT: {}}}
        keywords = {str(refused): "session_config", str(absent): "provider_options"}
        for configs in (({}, refused, {}, absent), (refused, {}, {})):
            words = [f"--config={json.dumps(config)}" for config in configs]
            ran = Ran("run", self.path, *words, "--compare", "-n", "6", "--json")
            self.assertEqual((ran.status, ran.err), (1, ""))
            found = json.loads(ran.out)["configurations"]
            errors = [(one["error"] or {}).get("keyword") for one in found]
            self.assertEqual(errors, [keywords.get(str(config)) for config in configs])
            self.assertEqual(found[2]["latency_ms"]["ratio_to_first"] is None, configs[0] == refused)

    def test_the_environment(self):
        words = ["--config", "", "-n", "1", "--session-config", f"{side.RECORD_ASSIGNMENT}=1"]
        with environment({"permit": {}, "session_options": {"logid": "a"}}):  # it narrows other programs
            (one,) = self.json("run", self.path, *words)["configurations"]
        self.assertEqual((one["configuration"], one["session_options"]), ("{}", {"logid": "a"}))
        self.assertEqual(one["session_config"], {side.RECORD_ASSIGNMENT: "1"})
        self.assertIn(VARIABLE, self.mistake("run", self.path, "--config", '{"permit": {}}'))
        for value in ("{broken", '{"session_config": {"x": "1"}}'):
            with environment(value):
                self.assertIn(VARIABLE, self.mistake("run", self.path, "-n", "1"))

    def test_extensions(self):
        library = self.put("relative.so", "")
        config = f"--config={json.dumps({'extensions': ['no_such_package']})}"
        for word in ("--extension=no_such_package", config):
            mistake = self.mistake("run", self.path, word)
            self.assertIn("'no_such_package'", mistake)
            self.assertNotIn(VARIABLE, mistake)
        with contextlib.chdir(self.folder):
            self.assertIn(os.path.realpath(library), self.mistake("run", self.path, "--extension", library.name))
        if importlib.util.find_spec("onnxruntime_extensions") is None:
            self.skipTest("requires onnxruntime-extensions (no wheel for Python 3.14)")
        upper = "(string[2] X) => (string[2] Y) { Y = ai.onnx.contrib.StringUpper (X) }"
        words = ["--extension", "onnxruntime_extensions", "--compare", "-n", "1"]
        found = self.json("run", self.put("upper.onnx", parsed(upper, "ai.onnx.contrib")), *words)["configurations"]
        self.assertEqual([one["extensions"] for one in found], [["onnxruntime_extensions"]] * 2)


class MistakeTest(CommandTest):
    def test_mistakes(self):
        np.save(self.folder / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
        np.save(self.folder / "double.npy", np.zeros((2, 3)))
        for words, why in (
            (f"--ep {ABSENT}.enable_cann_graph=1", ABSENT),
            (f"--ep {ABSENT} --compare", ABSENT),
            ("--ep CPU.x", "--ep: invalid value 'CPU.x'. Expected EP[.OPTION=VALUE]\n"),
            ("--ep CPU.x=1", f"provider_options['{CPU}']['x']"),
            ("--ep .x=1", "'.x=1'"),
            ("--session-config x", "--session-config: invalid value 'x'. Expected KEY=VALUE\n"),
            (f"--session-config {WRITES}=stats", WRITES),
            ("""--config '{"x": {}}'""", "'x'"),
            ("--shape Z=2x3 -n 0", "--shape: invalid value 'Z=2x3'. Expected NAME=VALUE. The model has: X\n"),
            ("--input X=no-such.npy -n 0", "no-such.npy"),
            ("--input X", "--input: invalid value 'X'. Expected NAME=VALUE"),
            (f"--input X={'[' * 100_000}", "--input X"),
            ("--input X=pickled.npy", "pickled.npy"),
            ("--input X=double.npy", "X"),
            ("""--input 'X={"a": 1}'""", "--input X"),
            ("--shape X=2x", "--shape X: invalid shape '2x'"),
            ("--shape X=100000000000x3", "X"),
            ("--shape X=2x4", "X"),
            ("--shape X=2x3 --input X=[1]", "of an input without a value\n"),
        ):
            with self.subTest(words[:80]), contextlib.chdir(self.folder):
                self.assertIn(why, self.mistake("run", self.path, *shlex.split(words)))
        self.assertFalse((self.folder / "stats").exists())

    def test_other_models(self):
        sequence = parsed("(seq(float[2]) X) => (int64 Y) { Y = SequenceLength (X) }")
        for path, words, why in (
            ("no-such.onnx", "", "no-such.onnx"),
            (self.folder, "", "is a folder"),
            (self.put("three.onnx", three_inputs()), "--input x.npy", "Expected NAME=VALUE. The model has: A, B, C\n"),
            (self.put("sequence.onnx", sequence), "", "--input"),
        ):
            with self.subTest(path):
                self.assertIn(why, self.mistake("run", path, *words.split()))


if __name__ == "__main__":
    unittest.main()
