# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The commands ``info`` and ``inspect``: versions, the EPs of this process, and what they take of a model."""

import contextlib
import importlib.metadata
import json
import os
import runpy
import sys
import unittest
from types import SimpleNamespace
from unittest import mock

import _above
import numpy as np
import onnx
from helpers.command_line import ABSENT, CPU, VARIABLE, CommandTest, Ran
from helpers.environment import environment
from helpers.models import two_nodes
from helpers.processes import QNN, device_of, process_with

import onnxruntime
from onnxruntime.backend.command_line import inspect, output

IN_CHILD = "in_child"
WORKS = {"kind": "built-in", "devices": [], "works": True, "reason": "", "operators_on_cpu": {}, "runs_alone": ""}


def wheels(*names: str):
    return mock.patch.object(importlib.metadata, "packages_distributions", lambda: {"onnxruntime": names})


class InfoTest(CommandTest):
    @mock.patch.object(inspect, IN_CHILD, lambda words, _: ({}, "why" if f"--ep={QNN}" in words else ""))
    def test_the_result(self):
        """A plugin EP fails."""
        device = device_of(QNN)
        device.device.vendor = ""
        with process_with(devices=[device]), wheels("onnx"), environment("{}\n"):
            found, page = self.json("info"), Ran("info").out
        versions = (onnxruntime.__version__, [f"onnx {onnx.__version__}"])
        self.assertEqual((found["onnxruntime"], found["wheels"]), versions)
        self.assertEqual(found["environment"], {VARIABLE: "{}\n"})
        works = {"name": CPU, "kind": "built-in", "devices": [], "works": True, "reason": ""}
        fails = {
            "name": QNN,
            "kind": "plugin",
            "devices": [{"type": "CPU", "vendor": ""}],
            "works": False,
            "reason": "why",
        }
        self.assertEqual(found["providers"], [works, fails])
        lines = page.splitlines()
        self.assertIn(f"onnxruntime  {onnxruntime.__version__}", lines)
        self.assertIn(f"environment  {VARIABLE} = {{}}", lines)
        fails = f"{QNN}  plugin    fails  why; CPU of unnamed vendor"
        self.assertEqual(lines[-2:], [f"{CPU}  built-in  works", fails])

    @mock.patch.object(inspect, IN_CHILD, lambda *_: ({}, ""))
    def test_several_bases(self):
        with wheels("onnx", "numpy"):
            found = self.json("info", warns="Several")["wheels"]
        self.assertEqual(found, [f"numpy {np.__version__}", f"onnx {onnx.__version__}"])

    def test_a_broken_environment(self):
        with environment("{broken"):
            self.assertIn(f"{VARIABLE} cannot be used", self.mistake("info"))

    def test_the_files_of_another_distribution(self):
        """The installer of another base overwrites ``__init__.py``, and leaves the modules that it does not have."""
        broken = mock.patch.dict(sys.modules, {"onnxruntime.backend.command_line.main": None})
        with broken, wheels("onnx"), self.assertRaises(ImportError):
            runpy.run_module("onnxruntime.backend", run_name="__main__")
        with broken, wheels("onnx"), mock.patch.object(onnxruntime.backend, "__version__"):
            del onnxruntime.backend.__version__
            with self.assertRaisesRegex(SystemExit, rf"^error: .* Installed: onnx {onnx.__version__}\. Uninstall all"):
                runpy.run_module("onnxruntime.backend", run_name="__main__")


class InspectTest(CommandTest):
    def test_the_result(self):
        path = self.put("-x.onnx", two_nodes(("batch", 3)))  # the child must not read an option
        with environment({"run_config": {"no.such": "1"}}), contextlib.chdir(self.folder):
            found = json.loads(self.show("inspect", "--json", "--", path.name))
            page = self.show("inspect", "--", path.name)
        declared = {"type": "float32", "shape": ["batch", 3]}
        self.assertEqual((found["inputs"], found["outputs"]), ([{"name": "X"} | declared], [{"name": "Y"} | declared]))
        providers = {one["name"]: one for one in found["providers"]}
        self.assertEqual([*providers], onnxruntime.get_available_providers())
        self.assertEqual(providers[CPU], WORKS | {"name": CPU, "nodes": 2})
        self.assertRegex(page, rf"\ninputs +X: float32\[batch, 3\]\n(.*\n)+{CPU}\s+built-in +works +2\n")

    def test_the_notes(self):
        one = WORKS | {"name": "A", "nodes": 3, "operators_on_cpu": {"Conv": 2}, "runs_alone": "why"}
        line = output.text([inspect.table([one])], 120, colors=False).splitlines()[1]
        self.assertTrue(line.endswith("works      3  on the CPU EP: Conv 2; runs are not parallel: why"), line)

    def test_mistakes(self):
        for path, expected in ((self.folder, "is a folder"), (self.put("page.onnx", "<html>"), "is an HTML page")):
            self.assertIn(expected, self.mistake("inspect", path))


class ChildTest(CommandTest):
    @unittest.skipUnless(os.name == "posix", "requires scripts that specify their interpreter")
    def test_errors_of_the_process(self):
        for code, seconds, error in (
            ("os.abort()", 60, "the process died with <Signals.SIGABRT: 6>."),
            ("print('{}', flush=True); os.abort()", 60, "the process died with <Signals.SIGABRT: 6>."),
            ("os._exit(7)", 60, "the process returned non-zero exit status 7."),
            ("time.sleep(99)", 0.1, "the process timed out after 0.1 seconds"),
            ("print(json.dumps({'error': {'message': sys.argv[3]}})); sys.exit(1)", 60, "it's"),
        ):
            path = self.put("interpreter", f"#!{sys.executable}\nimport json, os, sys, time\n{code}\n")
            path.chmod(0o700)
            executable = mock.patch.object(inspect.sys, "executable", str(path))
            with self.subTest(code), mock.patch.object(inspect, "_SECONDS", seconds), executable:
                self.assertEqual(inspect.in_child(["it's"], os.environ), ({}, error))

    def test_libraries_and_settings_of_the_operator_reach_the_process(self):
        kept = {"extensions": ["b"], "trusted": {"session_config": {"x": "1"}}}
        child = mock.Mock(return_value=({}, ""))
        with environment(kept | kept["trusted"]), mock.patch.object(inspect, IN_CHILD, child):
            inspect.try_each("m", 1, SimpleNamespace(plugin=["p"], extension=["a"]))
        words, variables = child.call_args.args
        self.assertEqual(json.loads(variables[VARIABLE]), kept)
        self.assertEqual({*words} & {"--plugin=p", "--extension=a", "m"}, {"--plugin=p", "--extension=a", "m"})


class PluginTest(CommandTest):
    @mock.patch.object(onnxruntime, "register_execution_provider_library", mock.Mock())
    def test_a_plugin_without_a_device(self):
        self.show("run", self.path, "-n", "1", "--plugin", f"{ABSENT}=x.so", warns=ABSENT)
        for plugin in (ABSENT, CPU):  # a built-in EP of the same name must not pass for the plugin EP
            ran = Ran("run", self.path, "--plugin", f"{plugin}=x.so", "--ep", plugin)
            self.assertEqual(ran.status, 1)
            self.assertRegex(ran.err, rf"\Awarning: .*{plugin}=.*x.so.*\nerror: .*{plugin}.*\n\Z")

    def test_cuda_libraries_are_loaded_if_the_build_has_cuda(self):
        for available, calls in (([CPU], 0), (["CUDAExecutionProvider", CPU], 1)):
            with (
                mock.patch.object(onnxruntime, "get_available_providers", return_value=available),
                mock.patch.object(onnxruntime, "preload_dlls", side_effect=RuntimeError, create=True) as preload,
                mock.patch.object(inspect, IN_CHILD, lambda *_: ({}, "")),
            ):
                self.show("info")
                self.assertEqual(preload.call_count, calls)

    @mock.patch.object(inspect, IN_CHILD, lambda *_: ({}, ""))
    def test_plugins_of_the_environment(self):
        path = os.path.abspath("x.so")
        registers = mock.patch.object(onnxruntime, "register_execution_provider_library")
        with environment({"plugins": [f"{ABSENT}={path}"]}), registers as register:
            Ran("info", "--plugin", "A=x.so")
            Ran("check", "{}")
        self.assertEqual(register.call_args_list, [mock.call(name, path) for name in ("A", ABSENT)])


if __name__ == "__main__":
    unittest.main()
