# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The ``info`` command: versions, and the EPs of this process."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import numpy as np
import onnx
from backend_test_command_line import ABSENT, CPU, VARIABLE, CommandTest, Ran, execute_here, page_of

import onnxruntime
from onnxruntime.backend.command_line import configurations, info, main
from onnxruntime.backend.session import plugins, presence
from onnxruntime.backend.session.failures import SESSION_VARIABLES

AZURE = "AzureExecutionProvider"


class InfoTest(CommandTest):
    def test_layout(self) -> None:
        devices = [{"type": "GPU", "vendor": "Maker"}, {"type": "NPU", "vendor": ""}]
        azure = {"name": AZURE, "kind": "built-in", "permitted_options": 0, "devices": []}
        plugin = {"name": "MyEP", "kind": "plugin", "permitted_options": 3, "devices": devices}
        cpu = {"name": CPU, "kind": "built-in", "permitted_options": 0, "devices": [], "works": True, "reason": ""}
        result = {
            "onnxruntime": "1.2.3",
            "wheels": ["wheel 4", "wheel 5"],
            "onnx": "6",
            "numpy": "7",
            "python": "8",
            "system": "OS",
            "machine": "CPU",
            "device": "D",
            "environment": {VARIABLE: "{\n"},
            "problems": [{"message": "x"}],
            "providers": [azure | {"works": True, "reason": ""}, plugin | {"works": False, "reason": "y"}, cpu],
            "not_in_this_process": ["AExecutionProvider", "B"],
        }
        page = [
            "onnxruntime  1.2.3 (wheel 4, wheel 5)",
            "Python       8 on OS, CPU",
            "onnx         6",
            "numpy        7",
            "device       D",
            f"environment  {VARIABLE}={{\\n",
            "             invalid: x",
            "",
            "Execution providers of this process",
            f"  {AZURE} (built-in)",
            "      available, but takes no node of ordinary models, and then sends no data",
            "      permitted options: none",
            "  MyEP (plugin)",
            "      not available: y",
            "      permitted options: 3",
            "      device 0: GPU of Maker",
            "      device 1: NPU of unnamed vendor",
            f"  {CPU} (built-in)",
            "      available",
            "      permitted options: none",
            "",
            "Known, but not in this process",
            "  A, B",
        ]
        self.assertEqual(page_of(info, result), page)
        without_plugin = page_of(info, result | {"wheels": [], "providers": []})
        self.assertEqual(without_plugin[0], "onnxruntime  1.2.3 (not from a wheel)")
        self.assertEqual(without_plugin[9], "  no plugin EP available (use --plugin)")

    def test_json(self) -> None:
        found = json.loads(self.show("info", "--json"))
        self.assertEqual([one["name"] for one in found["providers"]], onnxruntime.get_available_providers())
        (cpu,) = [one for one in found["providers"] if one["name"] == CPU]
        expected = {"name": CPU, "kind": "built-in", "permitted_options": 0, "devices": [], "works": True, "reason": ""}
        self.assertEqual(cpu, expected)
        versions = {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__, "numpy": np.__version__}
        versions |= {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
        self.assertEqual({name: found[name] for name in versions}, versions)
        self.assertEqual(found["device"], onnxruntime.get_device())
        self.assertIn(ABSENT, found["not_in_this_process"])
        self.assertNotIn(CPU, found["not_in_this_process"])

    @mock.patch.object(info, "in_child", lambda *_: ({}, ""))  # which takes a second
    def test_the_environment(self) -> None:
        self.assertNotIn(VARIABLE, self.show("info"))
        for config, count, keyword in (
            ('{"session_config": {"session.disable_prepacking": 1}}', 0, ""),
            ('{"session_config": {"x": 1}}', 1, "session_config"),
            ("{]", 1, ""),
        ):
            with self.subTest(config), mock.patch.dict(os.environ, {VARIABLE: config}):
                self.assertIn(f"environment  {VARIABLE}=", self.show("info"))
                found = json.loads(self.show("info", "--json"))
                self.assertEqual((found["environment"][VARIABLE], len(found["problems"])), (config, count))
                self.assertTrue(all(problem["keyword"] == keyword for problem in found["problems"]))
        names = ("ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS", "ORT_LOAD_CONFIG_FROM_MODEL", "ALLOW_RELEASED_ONNX_OPSET_ONLY")
        names += tuple(SESSION_VARIABLES)
        with mock.patch.dict(os.environ, dict.fromkeys(names, "")):
            self.assertEqual(json.loads(self.show("info", "--json"))["environment"].keys(), {*names})

    @mock.patch.object(info, "in_child", lambda *_: ({}, ""))
    def test_wheels(self) -> None:
        wheels = [f"numpy {np.__version__}", f"onnx {onnx.__version__}"]
        for names, listed, warns in (([], [], ""), (["onnx"], wheels[1:], ""), (["onnx", "numpy"], wheels, "Several")):
            found = mock.patch.object(importlib.metadata, "packages_distributions", lambda n=names: {"onnxruntime": n})
            with self.subTest(names), found:
                self.assertEqual(json.loads(self.show("info", "--json", warns=warns))["wheels"], listed)
                self.assertIn(f"({', '.join(listed) or 'not from a wheel'})\n", self.show("--version"))


class ChildTest(CommandTest):
    def run_with(self, ep: str) -> tuple[dict, str]:
        return info.in_child(["run", str(self.path), "--provider-option", ep, "--repeat", "1"], [])

    def test_an_ep_that_works_and_one_that_does_not(self) -> None:
        self.assertIn(ABSENT, self.run_with(ABSENT)[1])
        # The environment's configuration concerns all EPs, so it does not count.
        with mock.patch.dict(os.environ, {VARIABLE: "{broken"}):
            result, error = self.run_with(CPU)
        self.assertEqual(error, "")
        self.assertEqual(result["configurations"][0]["providers"], [{"name": CPU, "kind": "built-in"}])

    def test_a_process_that_crashes_or_does_not_end(self) -> None:
        for code, seconds, reason in (
            ("import os; os.abort()", 60, "status -"),
            ("import time; time.sleep(99)", 0.1, "0.1 s"),
        ):
            executable = mock.patch.object(info.sys, "executable", self.interpreter(code))
            with self.subTest(code), mock.patch.object(info, "_SECONDS", seconds), executable:
                self.assertIn(reason, self.run_with(CPU)[1])

    def test_an_error_that_is_not_utf8(self) -> None:
        code = "import os; os.write(2, b'warning: a\\nerror: \\xff\\nb\\n'); os._exit(1)"
        with mock.patch.object(info.sys, "executable", self.interpreter(code)):
            self.assertEqual(self.run_with(CPU), ({}, "\\xff"))

    def test_arguments(self) -> None:
        with mock.patch.object(
            info.sys, "executable", self.interpreter("import sys; sys.exit(f'error: {sys.argv[1:]}')")
        ):
            error = info.in_child(["info"], ["a", "b=c"])[1]
        words = ["-m", "onnxruntime.backend", "info", "--json", "--plugin", "a", "--plugin", "b=c"]
        self.assertEqual(error, str(words))

    def interpreter(self, code: str) -> str:
        """Return an executable to call instead of Python."""
        if os.name != "posix":
            self.skipTest("requires scripts that specify their interpreter")
        path = self.put("interpreter", f"#!{sys.executable}\n{code}\n")
        path.chmod(0o700)
        return str(path)


class ProvidersTest(CommandTest):
    def test_kinds(self) -> None:
        device = mock.Mock(ep_name="UnheardOfExecutionProvider", ep_metadata={"library_path": "x.so"})
        device.device = SimpleNamespace(type=SimpleNamespace(name="GPU"), vendor="Maker")
        with mock.patch.object(onnxruntime, "get_ep_devices", lambda: [device]):
            self.assertEqual(presence.kinds()["UnheardOfExecutionProvider"], "plugin")
            self.assertEqual(presence.kinds()[CPU], "built-in")
            self.assertEqual(configurations.full_name("unheardof"), device.ep_name)
            (table,) = json.loads(self.show("options", device.ep_name, "--json"))["tables"]  # no table contains it
            self.assertEqual(table, {"title": device.ep_name, "provider": device.ep_name, "entries": [], "others": 0})
            with mock.patch.object(info, "in_child", lambda words, _: ({}, " ".join(words[-2:]))):
                found = json.loads(self.show("info", "--json"))["providers"][-1]
        facts = {"kind": "plugin", "permitted_options": 0, "devices": [{"type": "GPU", "vendor": "Maker"}]}
        self.assertEqual(
            found, {"name": device.ep_name, **facts, "works": False, "reason": f"--provider-option {device.ep_name}"}
        )

    @mock.patch.object(info, "in_child", execute_here)
    def test_a_plugin_without_a_device(self) -> None:
        registers = mock.patch.object(onnxruntime, "register_execution_provider_library")
        with registers:
            self.show("info", "--plugin", f"{ABSENT}=x.so", warns=ABSENT)
            self.show("run", self.path, "--repeat", "1", "--plugin", f"{ABSENT}=x.so", warns=ABSENT)
            # A built-in EP of the same name must not pass for the plugin EP.
            for plugin, option in (
                (ABSENT, ["--provider-option", ABSENT]),
                (CPU, ["--provider-option", CPU]),
            ):
                ran = Ran("run", self.path, "--plugin", f"{plugin}=x.so", *option)
                self.assertEqual(ran.status, 1)
                self.assertRegex(ran.err, rf"\Awarning: .*{plugin}=.*x.so.*\nerror: .*{plugin}.*\n\Z")

    def test_cuda_libraries_are_loaded_if_the_build_has_cuda(self) -> None:
        for available, calls in (([CPU], 0), (["CUDAExecutionProvider", CPU], 1)):
            with (
                mock.patch.object(onnxruntime, "get_available_providers", return_value=available),
                mock.patch.object(onnxruntime, "preload_dlls", side_effect=RuntimeError, create=True) as preload,
            ):
                self.show("options", "run")
                self.assertEqual(preload.call_count, calls)

    def test_plugins_of_the_environment(self) -> None:
        config = {"plugins": ["no_such_package", f"{ABSENT}={os.path.abspath('x.so')}"]}
        environment = mock.patch.dict(os.environ, {VARIABLE: json.dumps(config)})
        registers = mock.patch.object(onnxruntime, "register_execution_provider_library")
        with environment, registers as register, warnings.catch_warnings(action="ignore"):
            with mock.patch.dict(plugins._registered):
                self.assertEqual(
                    main._register(["A=x.so"], True), [f"A={os.path.abspath('x.so')}", config["plugins"][1]]
                )
            self.assertEqual(register.call_count, 2)
            for command, calls in ((["check", "{}"], 2), (["options", "run"], 2)):
                Ran(*command)
                self.assertEqual(register.call_count, calls)


if __name__ == "__main__":
    unittest.main()
