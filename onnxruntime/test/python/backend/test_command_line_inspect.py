# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``inspect`` command: a model's inputs, outputs and EPs, and a ``run`` command that works."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import unittest
from unittest import mock

import numpy as np
import onnx.parser
from helpers.command_line import CPU, CommandTest, Ran, execute_here
from helpers.models import parsed, two_nodes
from helpers.observable_models import RELU, in_ort_format
from helpers.processes import AZURE

import onnxruntime
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.command_line import info, main, run_proposal
from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.provider_names import CUDA, OPENVINO
from onnxruntime.backend.session import presence

# An EP beside which no node is on the CPU EP, and a command that works.
ALONE = {"operators_on_cpu": {}, "runs_alone": None, "captures": None, "error": ""}
WORKS = {"free_dimensions": {}, "error": "", "first_flags": "", "first_error": ""}


class Children:
    """Replaces ``info.in_child``: the proposed command works after some tries, and a row of an EP if these are few."""

    def __init__(self, works: int) -> None:
        self.works = works
        self.tried: list[str] = []
        self.rows: list[str] = []

    def __call__(self, words: list[str], *, configured: bool = False) -> tuple[dict, str]:
        if configured:
            self.tried.append(" ".join(words))
            fails = len(self.tried) <= self.works
        else:
            self.rows.append(" ".join(words))
            fails = self.works > 2
        return {"configurations": [ALONE | {"nodes": {CUDA: 1}}]}, "no" * fails


@mock.patch.object(info, "in_child", execute_here)
class InspectTest(CommandTest):
    def inspect(self, model: onnx.ModelProto) -> dict:
        return self.json("inspect", self.put("model.onnx", model))

    def made(self, inputs: str, node: str, **initializers: np.ndarray) -> onnx.ModelProto:
        """Return a model of one node, whose output is ``Y``."""
        made = parsed(f"({inputs}) => (float Y) {{ Y = {node} }}", "a", **initializers)
        made.graph.output[0].type.tensor_type.ClearField("shape")
        return made

    def matmul(self, shape: str, size: int) -> onnx.ModelProto:
        return self.made(f"float[{shape}] X", "MatMul (X, W)", W=np.ones((size, 1), "f"))

    @mock.patch.object(presence, "kinds", lambda: {CPU: "built-in", AZURE: "built-in"} | dict.fromkeys("ABC", "plugin"))
    def test_the_result_and_its_page(self):
        size = self.put("model.onnx", self.matmul("batch, 1234", 1234)).stat().st_size
        on_cpu = {"Conv": 2, "Neg": 1}
        of_eps = {
            AZURE: {"nodes": {CPU: 1}, "operators_on_cpu": on_cpu, "runs_alone": None},
            "A": {"nodes": None, "operators_on_cpu": {}, "runs_alone": "a reason"},
            "B": {"nodes": {"B": 1000, CPU: 3}, "operators_on_cpu": on_cpu, "runs_alone": ""},
        }

        def in_child(words: list[str], *, configured: bool = False) -> tuple[dict, str]:
            if configured:  # the proposed command
                return {}, ""
            return ({"configurations": [of_eps[words[-1]]]}, "") if words[-1] in of_eps else ({}, "no device")

        with contextlib.chdir(self.folder), mock.patch.object(info, "in_child", in_child):
            found = self.json("inspect", "model.onnx")
            page = self.show("inspect", "model.onnx")
        command = "python -m onnxruntime.backend run model.onnx --shape X=1x1234"
        expected = {
            "model": "model.onnx",
            "bytes": size,
            "ir_version": 10,
            "opsets": {"ai.onnx": 21, "a": 1},
            "parameters": 1234,
            "inputs": [{"name": "X", "type": "float32", "shape": ["batch", 1234]}],
            "outputs": [{"name": "Y", "type": "float32", "shape": ["batch", 1]}],
            "providers": [
                ALONE | {"name": CPU, "kind": "built-in", "nodes": 1},
                ALONE | {"name": AZURE, "kind": "built-in", "nodes": 0, "operators_on_cpu": on_cpu},
                ALONE | {"name": "A", "kind": "plugin", "nodes": None, "runs_alone": "a reason"},
                {
                    "name": "B",
                    "kind": "plugin",
                    "nodes": 1000,
                    "operators_on_cpu": on_cpu,
                    "runs_alone": "",
                    "captures": None,
                    "error": "",
                },
                ALONE | {"name": "C", "kind": "plugin", "nodes": None, "error": "no device"},
            ],
            "run": WORKS | {"command": command},
        }
        self.assertEqual(found, expected)
        lines = [
            "model     model.onnx",
            f"size      {size:,} bytes, 1,234 parameters",
            "opsets    ai.onnx 21, a 1 (IR version 10)",
            "inputs    X: float32[batch, 1234]",
            "outputs   Y: float32[batch, 1]",
            f"EPs       {CPU} (built-in): 1 node",
            f"          {AZURE} (built-in): 0 nodes",
            "          A (plugin): unknown number of nodes",
            "            runs are not parallel: a reason",
            "          B (plugin): 1,000 nodes; on the CPU EP: Conv 2, Neg 1",
            "            runs of several threads are parallel",
            "          C (plugin): cannot run this model: no device",
            "",
            "This command works with random inputs:",
            f"  {command}",
        ]
        self.assertEqual(page.splitlines(), lines)

    def test_the_run_command_works(self):
        unnamed = self.matmul("A, B", 64)
        for dimension in unnamed.graph.input[0].type.tensor_type.shape.dim:
            dimension.dim_param = "?"  # as some exporters write each unknown size
        for made, shapes in (
            (unnamed, ["X=1x64"]),
            (two_nodes(), []),
            (self.made("float[] X", "Neg (X)"), []),
            (self.matmul("?, ?", 64), ["X=1x64"]),
            (self.matmul("N, 3, K", 64), ["X=1x3x64"]),
            (self.made("float[?, 3, ?, ?] X", "Conv (X, W)", W=np.ones((1, 3, 9, 9), "f")), ["X=1x3x16x16"]),
            (self.made("float[batch, 3] A, float[batch, 2] B", "Concat <axis = 1> (A, B)"), ["A=1x3", "B=1x2"]),
        ):
            with self.subTest(shapes):
                found = self.inspect(made)["run"]
                self.assertEqual(found["error"], "")
                words = shlex.split(found["command"])
                self.assertEqual(words[6::2], shapes)
                self.assertEqual(Ran(*words[3:], "--repeat", "1").status, 0)

    def test_the_error_is_that_of_the_first_shape(self):
        path = self.put("model.onnx", self.matmul("N, K", 3))
        errors = [RuntimeError(str(number)) for number in range(99)]
        with mock.patch.object(OnnxRuntimeBackendRep, "run", side_effect=errors) as run:
            found = self.json("inspect", path)["run"]
        self.assertEqual(found["error"], "0")
        sizes = (1, 2, 16, 32, 64, 128, 224, 256, 512, 640, 1024)
        for call, size in zip(run.call_args_list, sizes, strict=True):
            (inputs,) = call.args
            self.assertEqual(inputs[0].shape, (1, size))
            self.assertTrue(0.1 <= call.kwargs["timeout"] <= 20)
        with mock.patch.object(run_proposal, "_SECONDS", -1), mock.patch.object(OnnxRuntimeBackendRep, "run") as run:
            run.side_effect = RuntimeError
            self.show("inspect", path)
            run.assert_called_once_with(mock.ANY, timeout=0.1)
        # Other shapes do not help if an input cannot be random.
        with mock.patch.object(run_proposal.inputs, "values", side_effect=MistakeError("m")) as values:
            self.assertEqual(self.json("inspect", path)["run"]["error"], "m")
            values.assert_called_once()

    def test_a_command_that_fails_on_the_default_eps_is_not_proposed(self):
        """An EP may terminate the process. The environment's configuration applies, as to the user's command."""
        command = f"python -m onnxruntime.backend run {self.path}"
        crash = "the process was terminated by signal SIGSEGV"
        tried = []

        def in_child(words: list[str], **keywords: bool) -> tuple[dict, str]:
            if not keywords:
                return {}, "the error of an EP"
            tried.append((words, keywords))
            return {}, "" if CPU in words else crash

        with mock.patch.object(info, "in_child", in_child):
            page = self.show("inspect", self.path).partition("\n\n")[2].split("\n", 2)
        self.assertEqual(page[0], "This command works with random inputs:")
        self.assertEqual(page[1], f"  {command} --provider-option {CPU}")
        self.assertEqual(" ".join(page[2].split()), f"Without --provider-option, the command fails: {crash}")
        words = ["run", str(self.path)]
        on_cpu = [*words, "--provider-option", CPU]
        for got, expected in zip(tried, (words, on_cpu), strict=True):
            self.assertEqual(got, ([*expected, "--repeat", "1"], {"configured": True}))
        with mock.patch.object(info, "in_child", lambda *_, **__: ({}, "no")):
            found = self.json("inspect", self.path)["run"]
        self.assertEqual((found["error"], found["first_error"]), ("no", "no"))

    @mock.patch.object(presence, "kinds", lambda: dict.fromkeys((CPU, CUDA), "built-in"))
    def test_graph_capture(self):
        """The command is tried as requested, with sizes, and without options. The EP has the flags that work."""
        path = self.put(
            "model.onnx", self.made("float[batch, 3, ?] X, float[batch, 3, 2] U", "Concat <axis = 2> (X, U)")
        )
        option = "--provider-option CUDA.enable_cuda_graph=1"
        with_size = f"{option} --free-dimension batch=1"
        without = f"--provider-option {CUDA}"
        choices = (
            f"--shape X=1x3x1 --shape U=1x3x2 {option}",
            f"--shape X=1x3x1 {with_size}",
            f"--shape X=1x3x1 --shape U=1x3x2 {without}",
            f"--shape X=1x3x1 --shape U=1x3x2 --provider-option {CPU}",
        )
        for works, captures, of_ep, line in (
            (0, True, option, "graphs are captured"),
            (1, True, with_size, "graphs are captured with batch=1"),
            (2, False, without, "graphs are not captured"),
            (3, False, without, "cannot run this model: no"),
            (4, False, without, "cannot run this model: no"),
        ):
            children = Children(works)
            with (
                self.subTest(works),
                mock.patch.object(info, "in_child", children),
                mock.patch.object(OnnxRuntimeBackendRep, "run"),
            ):
                found = self.json("inspect", path, *option.split())
                commands = [f"run {path} {choice}" for choice in choices]
                self.assertEqual(children.tried, [f"{command} --repeat 1" for command in commands[: works + 1]])
                self.assertEqual(children.rows, [f"run {path} --repeat 0 {of_ep}"])
                self.assertIs(found["providers"][1]["captures"], captures)
                proposal = found["run"]
                self.assertEqual(proposal["command"].partition("backend ")[2], commands[min(works, 3)])
                self.assertEqual("batch" in proposal["free_dimensions"], works == 1)
                self.assertEqual(proposal["first_flags"], option * bool(works))
                self.assertEqual(proposal["first_error"], "no" * bool(works))
                children.tried.clear()
                page = self.show("inspect", path, *option.split())
                self.assertIn(f" {line}\n", page)
                fails = f"With {option}, the command fails"
                text = " ".join(page.split())
                self.assertEqual(f"{fails}: no" in text, works in (1, 2))
                self.assertEqual(f"{fails} with the error above" in text, works > 2)  # of the row of the EP

    def test_flags_of_the_run_command(self):
        path = self.put("a model.onnx", two_nodes())
        result = {"configurations": [ALONE | {"nodes": None}]}
        with (
            mock.patch.object(main, "_register", lambda plugins, _: plugins),
            mock.patch.object(info, "in_child", return_value=(result, "")) as children,
        ):
            found = self.json("inspect", path, "--plugin", "a", "--plugin", "b c=d")["run"]
        flags = "--plugin a --plugin 'b c=d'"
        children.assert_called()
        for call in children.call_args_list:
            self.assertIn(flags, shlex.join(call.args[0]))
        self.assertEqual(found["command"], f"python -m onnxruntime.backend run {shlex.quote(str(path))} {flags}")

    @unittest.skipIf(os.name == "nt", "needs a POSIX shell")
    def test_a_path_that_a_shell_or_a_parser_would_change(self):
        for name, expected in (("-x.onnx", os.path.join(".", "-x.onnx")), ("a  b\nc.onnx", None)):
            self.put(name, two_nodes())
            with self.subTest(name), contextlib.chdir(self.folder):
                page = self.show("inspect", "--", name)
                self.assertIn("\nThis command works with random inputs:\n", page)
                command = page.partition("inputs:\n")[2]
                words = shlex.split(command)
                self.assertEqual(words, ["python", "-m", "onnxruntime.backend", "run", expected or name])
                self.assertEqual(Ran(*words[3:], "--repeat", "1").status, 0)

    def test_inputs_that_it_cannot_determine(self):
        reshape = self.inspect(self.made("float[2, 3] X, int64[1] i", "Reshape (X, i)"))["run"]
        self.assertNotEqual(reshape["error"], "")
        path = self.put(f"{'m' * 90}.onnx", self.matmul("N, K", 77))  # longer than a line
        page = self.show("inspect", path).partition("\n\n")[2].splitlines()
        advice = "This command fails. Change the shapes, or specify values with --input:"
        self.assertEqual(page[:2], [advice, f"  python -m onnxruntime.backend run {path} --shape X=1x1"])
        self.assertRegex(page[2], r"\A  Its error: .")

    def test_files_that_are_no_models(self):
        for path, expected in ((self.folder, "is a folder"), (self.put("page.onnx", "<html>"), "is an HTML page")):
            self.assertIn(expected, self.mistake("inspect", path))

    def test_an_ort_file(self):
        path = self.put("model.ort", in_ort_format(RELU))
        found = self.json("inspect", path)
        self.assertEqual((found["ir_version"], found["opsets"], found["parameters"]), (None, None, None))
        page = self.show("inspect", path)
        self.assertRegex(page, r"\nsize      [\d,]+ bytes\ninputs ")
        self.assertIsNone(found["providers"][0]["nodes"])
        self.assertIsNone(self.run_one(path)["nodes"])


class ChildTest(CommandTest):
    """Each EP runs in a process of its own."""

    def test_nodes_of_each_ep(self):
        inspected = self.show("inspect", self.put("model.onnx", two_nodes()), "--json")
        found = {one.pop("name"): one for one in json.loads(inspected)["providers"]}
        self.assertEqual(found.keys(), set(onnxruntime.get_available_providers()))
        self.assertEqual(found[CPU], ALONE | {"kind": "built-in", "nodes": 2})
        if AZURE in found:
            self.assertEqual(found[AZURE]["nodes"], 0)
        for name, one in found.items():
            self.assertEqual(isinstance(one["runs_alone"], str), name == OPENVINO)


if __name__ == "__main__":
    unittest.main()
