# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``info`` command: versions, and the EPs of this process."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import unittest
import warnings
from unittest import mock

import numpy as np
import onnx
from helpers.command_line import ABSENT, CPU, VARIABLE, CommandTest, Ran, execute_here
from helpers.environment import environment
from helpers.processes import AZURE, QNN, device_of, process_with

import onnxruntime
from onnxruntime.backend.command_line import info, main
from onnxruntime.backend.libraries import plugins


class InfoTest(CommandTest):
    @mock.patch.object(info, "in_child", lambda words: ({}, " ".join(words[-2:]) if QNN in words else ""))
    def test_the_result_and_its_page(self):
        """A built-in EP that gets no node, and a plugin EP with two devices, which fails."""
        devices = [device_of(QNN), device_of(QNN, hardware="NPU")]
        devices[0].device.vendor, devices[1].device.vendor = "Maker", ""
        names = ["ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS", "ORT_LOAD_CONFIG_FROM_MODEL", "ALLOW_RELEASED_ONNX_OPSET_ONLY"]
        variables_of_ort = {VARIABLE: "{\n", **dict.fromkeys(names, "")}
        wheels = mock.patch.object(importlib.metadata, "packages_distributions", lambda: {"onnxruntime": ["onnx"]})
        variables = mock.patch.dict(os.environ, variables_of_ort | {"COLUMNS": "999"}, clear=True)
        with process_with(bundled=(AZURE,), devices=devices), wheels, variables:
            found, page = self.json("info"), Ran("info").out
        versions = {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__, "numpy": np.__version__}
        versions |= {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
        (problem,) = found.pop("problems")
        works = {"kind": "built-in", "devices": [], "works": True, "reason": ""}
        reason = f"--provider-option {QNN}"
        of_plugin = [{"type": "CPU", "vendor": "Maker"}, {"type": "NPU", "vendor": ""}]
        fails = {"kind": "plugin", "devices": of_plugin, "works": False, "reason": reason}
        expected = {
            "backend": onnxruntime.backend.__version__,
            "wheels": [f"onnx {onnx.__version__}"],
            "device": onnxruntime.get_device(),
            "environment": variables_of_ort,
            "providers": [{"name": AZURE} | works, {"name": CPU} | works, {"name": QNN} | fails],
        }
        self.assertEqual(found, versions | expected)
        lines = [
            f"onnxruntime  {onnxruntime.__version__} (onnx {onnx.__version__})",
            f"Python       {versions['python']} on {versions['system']}, {versions['machine']}",
            f"backend      {onnxruntime.backend.__version__}",
            f"onnx         {onnx.__version__}",
            f"numpy        {np.__version__}",
            f"device       {onnxruntime.get_device()}",
            f"environment  {VARIABLE}={{\\n",
            *(f"             {name}=" for name in names),
            f"             invalid: {problem['message']}",
            "",
            "Execution providers of this process",
            f"  {AZURE} (built-in)",
            "      available, but takes no node of ordinary models, and then sends no data",
            f"  {CPU} (built-in)",
            "      available",
            f"  {QNN} (plugin)",
            f"      not available: {reason}",
            "      device 0: CPU of Maker",
            "      device 1: NPU of unnamed vendor",
        ]
        self.assertEqual(page.splitlines(), lines)

    @mock.patch.object(info, "in_child", lambda *_: ({}, ""))
    def test_neither_a_plugin_nor_a_configuration(self):
        page = self.show("info")
        self.assertNotIn(VARIABLE, page)
        self.assertIn("\n  no plugin EP available (use --plugin)\n", page)
        self.assertEqual(self.json("info")["problems"], [])

    @mock.patch.object(info, "in_child", lambda *_: ({}, ""))
    def test_wheels(self):
        both = [f"numpy {np.__version__}", f"onnx {onnx.__version__}"]
        for names, wheels, shown, warns in (
            ([], [], "not from a wheel", ""),
            (["onnx", "numpy"], both, ", ".join(both), "Several"),
        ):
            found = mock.patch.object(importlib.metadata, "packages_distributions", lambda n=names: {"onnxruntime": n})
            with self.subTest(names), found:
                self.assertEqual(self.json("info", warns=warns)["wheels"], wheels)
                self.assertIn(f" ({shown})\n", self.show("info", warns=warns))


class ChildTest(CommandTest):
    def test_an_ep_that_works_and_one_that_does_not(self):
        # The environment's configuration concerns all EPs, so it does not count.
        with environment("{broken"):
            found = {one["name"]: one["works"] for one in self.json("info")["providers"]}
            _, error = info.in_child(["run", str(self.path), "--repeat", "0"], configured=True)
            self.assertIn(VARIABLE, error)
        self.assertEqual([*found], onnxruntime.get_available_providers())
        self.assertTrue(found[CPU])
        self.assertIn(ABSENT, info.in_child(["run", str(self.path), "--provider-option", ABSENT])[1])

    @unittest.skipUnless(os.name == "posix", "requires scripts that specify their interpreter")
    def test_errors_of_the_process(self):
        words = ["-m", "onnxruntime.backend", "info", "--plugin", "a", "--json"]
        for code, seconds, error in (
            ("os.abort()", 60, "the process was terminated by signal SIGABRT"),
            ("os._exit(7)", 60, "the process ended with status 7"),
            ("time.sleep(99)", 0.1, "the process did not end within 0.1 s"),
            ("os.write(1, b'\\xff'); os._exit(1)", 60, "the process ended with status 1"),
            ("print(json.dumps({'error': {'message': str(sys.argv[1:])}})); sys.exit(1)", 60, str(words)),
        ):
            path = self.put("interpreter", f"#!{sys.executable}\nimport json, os, sys, time\n{code}\n")
            path.chmod(0o700)
            executable = mock.patch.object(info.sys, "executable", str(path))
            with self.subTest(code), mock.patch.object(info, "_SECONDS", seconds), executable:
                self.assertEqual(info.in_child(["info", "--plugin", "a"]), ({}, error))
        self.assertEqual(info._ended(-99), "the process was terminated by signal 99")


class ProvidersTest(CommandTest):
    @mock.patch.object(info, "in_child", execute_here)
    def test_a_plugin_without_a_device(self):
        registers = mock.patch.object(onnxruntime, "register_execution_provider_library")
        with registers:
            self.show("info", "--plugin", f"{ABSENT}=x.so", warns=ABSENT)
            self.show("run", self.path, "--repeat", "1", "--plugin", f"{ABSENT}=x.so", warns=ABSENT)
            for plugin in (ABSENT, CPU):  # A built-in EP of the same name must not pass for the plugin EP.
                ran = Ran("run", self.path, "--plugin", f"{plugin}=x.so", "--provider-option", plugin)
                self.assertEqual(ran.status, 1)
                self.assertRegex(ran.err, rf"\Awarning: .*{plugin}=.*x.so.*\nerror: .*{plugin}.*\n\Z")

    def test_cuda_libraries_are_loaded_if_the_build_has_cuda(self):
        for available, calls in (([CPU], 0), (["CUDAExecutionProvider", CPU], 1)):
            with (
                mock.patch.object(onnxruntime, "get_available_providers", return_value=available),
                mock.patch.object(onnxruntime, "preload_dlls", side_effect=RuntimeError, create=True) as preload,
            ):
                self.show("options", "run")
                self.assertEqual(preload.call_count, calls)

    def test_plugins_of_the_environment(self):
        config = {"plugins": ["no_such_package", f"{ABSENT}={os.path.abspath('x.so')}"]}
        registers = mock.patch.object(onnxruntime, "register_execution_provider_library")
        with environment(config), registers as register, warnings.catch_warnings(action="ignore"):
            with mock.patch.dict(plugins._registered), warnings.catch_warnings(record=True, action="always") as given:
                here = f"A={os.path.abspath('x.so')}"
                self.assertEqual(main._register(["A=x.so"], True), [here, config["plugins"][1]])
            self.assertEqual(sum(f"{VARIABLE})" in str(one.message) for one in given), 1)
            Ran("check", "{}")
            Ran("options", "run")
            self.assertEqual(register.call_count, 2)


if __name__ == "__main__":
    unittest.main()
