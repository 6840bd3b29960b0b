# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``run`` command: comparisons of outputs, files of outputs, and operators on the CPU EP."""

from __future__ import annotations

import json
import os
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np
from helpers.command_line import CPU, VARIABLE, CommandTest, Ran
from helpers.models import parsed
from helpers.observable_models import GELU
from onnx import TensorProto, helper

import onnxruntime
from onnxruntime.backend import backend
from onnxruntime.backend.command_line import inputs, run, run_results, run_tables

RELEASE = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
AZURE = "AzureExecutionProvider"  # in each desktop build; it takes no node of ordinary models


class CompareTest(CommandTest):
    def test_a_difference_beyond_the_tolerance_is_a_failure(self):
        """The reference has no configuration, wherever that of the other session is from."""
        path, key = self.put("gelu.onnx", GELU), "optimization.enable_gelu_approximation"
        environment = {VARIABLE: json.dumps({"provider_options": {CPU: {}}, "session_config": {key: 1}})}
        for flags, variables in ((["--provider-option", "CPU", "--session-config", f"{key}=1"], {}), ([], environment)):
            for tolerance, status in (([], 0), (["--rtol", "1e-7", "--atol", "1e-9"], 1)):
                with self.subTest(flags, status=status), mock.patch.dict(os.environ, variables):
                    ran = Ran("run", path, *flags, "--compare", *tolerance, "--repeat", "1", "--json")
                    difference = json.loads(ran.out)["configurations"][0]["outputs"][0]["difference"]
                    self.assertEqual((ran.status, ran.err, difference["within"]), (status, "", not status))
                    self.assertGreater(difference["absolute"], 1e-6)

    @unittest.skipUnless(RELEASE >= (1, 32), "requires ORT 1.32, whose key specifies whether opsets are released")
    def test_the_reference_accepts_the_opsets_of_the_configuration(self):
        variable = mock.patch.dict(os.environ, {"ALLOW_RELEASED_ONNX_OPSET_ONLY": "no"})  # ORT accepts 0 and 1 only
        with variable, mock.patch.object(backend.OnnxRuntimeBackend, "allowReleasedOpsetsOnly", False):
            self.assertEqual(self.run_one(self.path, "--compare")["error"], None)

    def test_the_first_configuration_is_a_reference(self):
        path, key = self.put("gelu.onnx", GELU), "optimization.enable_gelu_approximation"
        configs = [json.dumps({"provider_options": {CPU: {}}, "session_config": {key: value}}) for value in (1, 0, 1)]
        words = [word for config in configs for word in ("--config", config)]
        command = ["run", path, *words, "--compare", "--repeat", "1"]
        found = self.json(*command)["configurations"]
        outputs = [one["outputs"][0] for one in found]
        self.assertNotIn("difference_to_first", outputs[0])
        self.assertEqual(outputs[1]["difference"]["absolute"], 0)
        self.assertGreater(outputs[1]["difference_to_first"]["absolute"], 1e-6)
        self.assertEqual(outputs[2]["difference_to_first"]["absolute"], 0)
        self.assertIn("matches configuration 1 (max", self.show(*command))

        strict = ["--rtol", "1e-7", "--atol", "1e-9"]
        outcomes = [line.split()[-1] for line in Ran(*command, *strict).out.splitlines()[-3:]]
        self.assertEqual(outcomes, ["DIFFER", "DIFFER", "DIFFER"])
        ran = Ran(*command, *strict, "--json")
        found = json.loads(ran.out)["configurations"]
        within = [one["outputs"][0].get("difference_to_first", {}).get("within") for one in found]
        self.assertEqual((ran.status, within), (1, [None, False, True]))
        # Without the first configuration, nothing is compared with it.
        ran = Ran("run", path, "--config", '{"session_config": {"x": 1}}', *words, "--compare", "--json")
        self.assertNotIn("difference_to_first", json.loads(ran.out)["configurations"][2]["outputs"][0])

    def test_without_a_reference(self):
        found = self.json("run", "--repeat", "2", self.path)
        self.assertIsNone(found["tolerance"])
        self.assertNotIn("difference", found["configurations"][0]["outputs"][0])
        right = run.backend.prepare
        with mock.patch.object(run.backend, "prepare", side_effect=[right(str(self.path)), RuntimeError("e")]):
            self.assertIn("--compare: ", self.mistake("run", self.path, "--compare", "--repeat", "1"))


class OperatorsOnTheCpuTest(CommandTest):
    def test_operators_on_the_cpu(self):
        kinds = [("ai.onnx.ml", "A"), ("", "Conv"), ("com.microsoft", "Gelu"), ("ai.onnx", "Conv")]
        on_cpu = [SimpleNamespace(domain=domain, op_type=name) for domain, name in kinds]
        counts = {"Conv": 2, "ai.onnx.ml:A": 1, "com.microsoft:Gelu": 1}
        for nodes, specified, expected in (
            ({CPU: on_cpu, "A": on_cpu[:1]}, {}, counts),
            ({CPU: on_cpu, "A": []}, {"A": {}, CPU: {}}, counts),
            ({CPU: on_cpu, "A": []}, {CPU: {}}, {}),
            ({CPU: on_cpu}, {}, {}),
            ({}, {"A": {}}, {}),
        ):
            rep = SimpleNamespace(session=None, provider_options=specified)
            recorded = mock.patch.object(run_results.nodes, "recorded_nodes", return_value=dict(nodes))
            with self.subTest(nodes, specified=specified), recorded:
                self.assertEqual(list(run_results.operators_on_cpu(rep).items()), list(expected.items()))
        self.assertEqual(run_tables.most_frequent(dict.fromkeys("abcde", 1)), "a 1, b 1, c 1, d 1, e 1")
        shown = run_tables.most_frequent(dict.fromkeys("abcdefg", 1))
        self.assertEqual(shown, "a 1, b 1, c 1, d 1, e 1, and 2 other operators")


class SaveTest(CommandTest):
    def saved(self, *arguments: object) -> dict[str, np.ndarray]:
        path = self.folder / "outputs.npz"
        self.show("run", *arguments, "--repeat", "1", "--save", path)
        with np.load(path) as found:
            return dict(found)

    def test_outputs(self):
        values = np.array([[-1, 2, 3], [4, 5, 6]], np.float32)
        np.save(self.folder / "x.npy", values)
        found = self.saved(self.path, "--input", self.folder / "x.npy")  # the only input needs no name
        self.assertEqual(found.keys(), {"Y"})
        np.testing.assert_array_equal(found["Y"], np.abs(values))
        named = self.saved(self.path, "--input", f"X={self.folder}/x.npy")
        np.testing.assert_array_equal(named["Y"], found["Y"])

    def test_several_configurations(self):
        configs = ["--config", "{}", "--config", '{"session_config": {"x": 1}}', "--config", "{}"]
        Ran("run", self.path, *configs, "--repeat", "1", "--save", self.folder / "several.npz")
        with np.load(self.folder / "several.npz") as found:
            self.assertEqual(set(found), {"1/Y", "3/Y"})

    def test_names_and_types(self):
        nodes = "file = Identity (text) z = SequenceConstruct (x, x)"
        path = self.put(
            "types.onnx", parsed(f"(string[2] text, float[2] x) => (string[2] file, seq(float[2]) z) {{ {nodes} }}")
        )
        found = self.saved(path, "--input", 'text=["a", "long text"]', "--input", "x=[1, 2]")
        expected = {"file": ["a", "long text"], "z[0]": [1.0, 2.0], "z[1]": [1.0, 2.0]}
        self.assertEqual({name: array.tolist() for name, array in found.items()}, expected)

        dtype = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
        if dtype == np.float32:
            self.skipTest("needs onnx 1.19, whose arrays of the types that numpy lacks are ml_dtypes")
        written = inputs.writable(np.array([1.5, 2.0], dtype))
        self.assertEqual((written.dtype.name, written.tolist()), ("float32", [1.5, 2.0]))

    def test_a_seed(self):
        default, zero, other = (self.saved(self.path, *flags) for flags in ([], ["--seed", "0"], ["--seed", "7"]))
        np.testing.assert_array_equal(default["Y"], np.random.default_rng(0).random((2, 3), np.float32))
        np.testing.assert_array_equal(default["Y"], zero["Y"])
        self.assertFalse(np.array_equal(default["Y"], other["Y"]))
        np.testing.assert_array_equal(other["Y"], self.saved(self.path, "--seed", "7")["Y"])


if __name__ == "__main__":
    unittest.main()
