# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``run`` command: its result and its tables, settings of the command line, and mistakes."""

import contextlib
import importlib.util
import json
import os
import shlex
import unittest
from unittest import mock

import _above
import numpy as np
from helpers.command_line import ABSENT, CPU, PREPACKING, SHRINKING, VARIABLE, WRITES, CommandTest, Ran
from helpers.environment import environment
from helpers.models import parsed, two_nodes
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
INPUTS = [{"name": "X", "type": "float32", "shape": [2, 3]}]


def shown(*configurations: dict, width: int = 120) -> list[str]:
    result = {"model": "m.onnx", "inputs": INPUTS, "configurations": configurations}
    return output.text(run.tables(result), width, colors=False).splitlines()


class ResultTest(CommandTest):
    def test_the_result(self):
        words = f"-n 6 --ep cpu --session-config {PREPACKING}=1 --session-option logid=x --run-config"
        result = self.json("run", self.path, *words.split(), "memory.enable_memory_arena_shrinkage=cpu:0")
        (one,) = result.pop("configurations")
        latency = one.pop("latency_ms")
        self.assertTrue(0 < latency["p50"] <= latency.pop("p90") <= latency["p99"])
        self.assertEqual(latency | {name: LATENCY[name] for name in ("p50", "p99")}, LATENCY | {"runs": 6})
        settings = {"provider_options": {CPU: {}}, "session_options": {"logid": "x"}, "run_config": SHRINKING}
        settings |= {
            "configuration": one["configuration"],
            "session_config": {PREPACKING: "1"},
            "providers": [CPU],
            "warnings": [],
            "runs_alone": "",
        }
        outputs = [{"name": "Y", "type": "float32", "shape": [2, 3]}]
        self.assertEqual(one | {"latency_ms": LATENCY}, RAN | settings | {"outputs": outputs})
        versions = {"onnxruntime": onnxruntime.__version__, "backend": onnxruntime.backend.__version__}
        self.assertEqual(result, versions | {"model": str(self.path), "inputs": INPUTS, "interrupted": False})

    def test_the_tables(self):
        first = RAN | {
            "provider_options": {"A": {"a": "1", "b": "2"}},
            "nodes": {"AExecutionProvider": 3, "B": 0, CPU: 1},
            "operators_on_cpu": {"Conv": 20, "Add": 1},
        }
        within, beyond = ({"within": not note, "absolute": 0.5, "note": note} for note in ("", "Mismatch\n\nMax: 1"))
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
            "on the CPU EP     Conv 20, Add 1",
            "provider_options  A.a = 1",
            "                  A.b = 2",
            *("", "2: slow.json", "nodes  CPU 2"),
            *("", "3: fast", "nodes     CPU 2", "output Z  Mismatch", "          Max: 1"),
            *("", "4: e.json", "error  why", ""),
            "configuration  p50 ms  p99 ms  runs  ratio to 1                            outputs",
            f"1: {{}}               1     346   100                              {full * 4}",
            f"2: slow.json     1230     346   100  1.20 (1.00 to 2.00)         {full * 4}{light * 4}  match (0.5)",
            f"3: fast        0.0123     346   100  0.20 (0.10 to 0.50) faster  {light * 2}        DIFFER (0.5)",
            "4: e.json                                                                  FAILED",
        ]
        self.assertEqual(shown(*found), expected)
        # In a narrow terminal, a configuration has a line of its own.
        narrow = shown(*found, width=79)
        self.assertEqual(narrow[narrow.index("configuration") + 1], f"  {expected[20][13:]}")
        self.assertLessEqual(max(map(len, narrow)), 79)
        self.assertEqual(shown(RAN)[-2:], ["configuration  p50 ms  p99 ms  runs", "1: {}               1     346  100"])

    def test_a_reference(self):
        path = self.put("gelu.onnx", GELU)
        precise, approximate = ({"provider_options": {CPU: {}}, "session_config": {KEY: on}} for on in (0, 1))
        strict = ["--rtol", "1e-7", "--atol", "1e-9"]
        flags = ["--ep", "CPU", "--session-config", f"{KEY}=1"]
        configs = [f"--config={json.dumps(config)}" for config in (approximate, precise, approximate)]
        for words, variable, labels, within in (
            ([*strict, *flags, "--compare"], {}, ["the CPU EP", f"{{}} CPU {KEY}=1"], [False]),
            ([*strict, "--compare"], approximate, ["the CPU EP", "{}"], [False]),
            ([*strict, *flags, "--reference", path], {}, [f"{path} {{}} CPU {KEY}=1"] * 2, [True]),
            ([*strict, *configs, "--compare"], {}, [config[9:] for config in configs], [False, True]),
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
        self.show("run", self.path, "--input", f"X={self.folder / 'x.npy'}", "-n", "1")
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
        expected = {cuda: options, CPU: {}, "No": {"such.x": "1"}}
        expected |= {f"{openvino}.AUTO": {"x": "1"}, openvino: {"AUTO": "1"}}
        flags = [f"--ep={word}" for word in words.split()]
        for arguments, found in ((["--config", config, *flags], expected), (["--ep", "CUDA"], {cuda: {}})):
            with mock.patch.object(side.backend, "prepare", side_effect=RuntimeError) as prepare:
                Ran("run", self.path, *arguments)
            self.assertEqual(prepare.call_args.kwargs["provider_options"], found)

    def test_several_configurations(self):
        refused, absent = {"session_config": {WRITES: "x"}}, {"provider_options": {ABSENT: {}}}
        words = [f"--config={json.dumps(config)}" for config in (refused, {}, {}, absent)]
        ran = Ran("run", self.path, *words, "--compare", "-n", "6", "--json")
        self.assertEqual((ran.status, ran.err), (1, ""))
        found = json.loads(ran.out)["configurations"]
        errors = [one["error"] and one["error"]["keyword"] for one in found]
        self.assertEqual(errors, ["session_config", None, None, "provider_options"])
        self.assertIsNone(found[2]["latency_ms"]["ratio_to_first"])

    def test_the_environment(self):
        words = ["-n", "1", "--session-config", f"{side.RECORD_ASSIGNMENT}=1"]
        with environment({"permit": {}, "session_options": {"logid": "a"}}):  # it narrows other programs
            (one,) = self.json("run", self.path, *words)["configurations"]
        self.assertEqual(one["session_options"], {"logid": "a"})
        self.assertEqual(one["session_config"], {side.RECORD_ASSIGNMENT: "1"})
        self.assertIn(VARIABLE, self.mistake("run", self.path, "--config", '{"permit": {}}'))
        for value in ("{broken", '{"session_config": {"x": "1"}}'):
            with environment(value):
                self.assertIn(VARIABLE, self.mistake("run", self.path, "-n", "1"))

    def test_extensions(self):
        library = self.put("relative.so", "")
        mistake = self.mistake("run", self.path, "--config", json.dumps({"extensions": ["no_such_package"]}))
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
        sequence = parsed("(seq(float[2]) X) => (int64 Y) { Y = SequenceLength (X) }")
        self.put("sequence.onnx", sequence)
        for words, why in (
            ("no-such.onnx", "no-such.onnx"),
            (".", "is a folder"),
            ("sequence.onnx", "--input"),
            (f"two_nodes.onnx --ep {ABSENT}.enable_cann_graph=1", ABSENT),
            (f"two_nodes.onnx --ep {ABSENT} --compare", ABSENT),
            ("two_nodes.onnx --ep CPU.x", "--ep: invalid value 'CPU.x'. Expected EP[.OPTION=VALUE]\n"),
            ("two_nodes.onnx --ep CPU.x=1", f"provider_options['{CPU}']['x']"),
            ("two_nodes.onnx --ep .x=1", "provider_options['']"),
            (f"two_nodes.onnx --session-config {WRITES}=stats", WRITES),
            ("two_nodes.onnx --config ''", "it is empty"),
            ("""two_nodes.onnx --config '{"x": {}}'""", "'x'"),
            ("two_nodes.onnx --shape Z=2x3", "--shape: invalid value 'Z=2x3'. Expected NAME=VALUE. The model has: X\n"),
            ("two_nodes.onnx --input X=no-such.npy -n 0", "no-such.npy"),
            ("two_nodes.onnx --input X", "--input: invalid value 'X'. Expected NAME=VALUE"),
            (f"two_nodes.onnx --input X={'[' * 100_000}", "--input X"),
            ("""two_nodes.onnx --input 'X={"a": 1}'""", "--input X"),
            ("two_nodes.onnx --shape X=2x", "--shape X: invalid shape '2x'"),
            ("two_nodes.onnx --shape X=2x4", "X"),
            ("two_nodes.onnx --shape X=2x3 --input X=[1]", "of an input without a value\n"),
        ):
            with self.subTest(words[:80]), contextlib.chdir(self.folder):
                self.assertIn(why, self.mistake("run", *shlex.split(words)))
        self.assertFalse((self.folder / "stats").exists())


if __name__ == "__main__":
    unittest.main()
