# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line as a process: its streams, exit statuses, and pages on terminals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from unittest import mock

from helpers.children import run_code
from helpers.command_line import CPU, SPINNING, WRITES, CommandTest, Ran, execute_here
from helpers.environment import environment
from helpers.models import model, parsed, two_nodes
from onnx import helper

from onnxruntime.backend.command_line import info


class ProcessTest(CommandTest):
    """The command line as a person calls it."""

    def start(self, *arguments: object, stdout: object = subprocess.PIPE, **keywords) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)]
        return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, **keywords)

    def test_stdout_holds_the_result_alone(self):
        """ORT prints "EP Error", and libraries of EPs print lines, some of them when the process ends."""
        noise = """
import atexit, ctypes, os, runpy, sys
import onnxruntime
ordinary = onnxruntime.InferenceSession.get_inputs
def noisy(self):
    print("EP Error")
    os.write(1, b"native line\\n")
    if os.name == "posix":
        ctypes.CDLL(None).printf(b"line that C holds back\\n")
    return ordinary(self)
onnxruntime.InferenceSession.get_inputs = noisy
atexit.register(lambda: print("good bye", flush=True))
runpy.run_module("onnxruntime.backend", run_name="__main__")
"""
        ran = run_code(noise, "run", str(self.path), "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(json.loads(ran.stdout)["configurations"]), 1)
        for line in ("EP Error", "native line", "good bye", *["line that C holds back"] * (os.name == "posix")):
            self.assertIn(f"{line}\n", ran.stderr)

    def test_log(self):
        """The index does not exist. ORT logs this error of the run only with ``--log``."""
        gather = "(int64[1] X) => (int64[1] Y) <int64[2] data = {0, 1}> { Y = Gather (data, X) }"
        path = self.put("gathering.onnx", parsed(gather))
        for flags, printed in (([], r"\Aerror: [^\n]+\n\Z"), (["--log"], r"\[E:onnxruntime:")):
            ran = self.start("run", path, "--provider-option", "CPU", "--input", "X=[9]", *flags)
            self.assertEqual((ran.returncode, ran.stdout), (1, ""))
            self.assertRegex(ran.stderr, printed)

    def test_closed_output(self):
        command = f"{sys.executable} -m onnxruntime.backend options session | head -n 1"
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        self.assertEqual((len(ran.stdout.splitlines()), ran.stderr), (1, ""))
        # The reader of the pipe ends first. Python must not fail again when it flushes at its end.
        for arguments in ("options --refused --json", "check {}"):
            command = f"{sys.executable} -m onnxruntime.backend {arguments}; echo $? >&2"
            ran = subprocess.run(f"({command}) | true", shell=True, capture_output=True, text=True, check=False)
            self.assertEqual(ran.stderr, "1\n")

    @unittest.skipUnless(os.name == "posix", "requires POSIX: the test closes file descriptors of a child")
    def test_closed_streams(self):
        for closed in ((0,), (1,), (2,), (0, 1, 2)):
            with self.subTest(closed):
                ran = self.start(
                    *("run", self.path, "--repeat", "1"),
                    preexec_fn=lambda closed=closed: [os.close(number) for number in closed],
                )
                self.assertEqual((ran.returncode, ran.stderr, ran.stdout == ""), (0, "", 1 in closed))

    @unittest.skipUnless(os.path.exists("/dev/full"), "requires /dev/full, which only Linux has")
    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            ran = self.start("check", "{}", stdout=full)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"\Aerror: [^\n]*No space left on device\n\Z")

    def test_names_that_no_terminal_can_show(self):
        path = self.put("mod\xe8le.onnx", two_nodes())
        ran = self.start("run", path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("mod\\xe8le.onnx", ran.stdout)


class TerminalTest(CommandTest):
    """Pages of 60, 80 and 200 columns, and names that act on a terminal."""

    @mock.patch.object(info, "in_child", execute_here)
    @environment({"run_config": {}})
    def test_every_command_at_every_width(self):
        path = self.put(f"{'long' * 20}.onnx", two_nodes())
        name = "x\x1b[2J\x1b]0;owned\x07\rerror\u202e\x9b"
        node = helper.make_node("Relu", [name], ["y\x1b[31m"])
        hostile = model([node], {name: (2,)}, {"y\x1b[31m": (2,)})
        evil = self.put("a\x1b[2J.onnx" if os.name == "posix" else "escapes.onnx", hostile)
        evil_config = json.dumps({"session_config": {"\x1b[2J": "\x1b]0;x\x07"}})
        config = json.dumps({"session_config": {SPINNING: False}, "provider_options": {CPU: {}}})
        refused = json.dumps({"run_config": {"x": 1}})
        commands = [
            [],
            *([command, "--help"] for command in ("info", "options", "check", "inspect", "run")),
            ["info"],
            ["info", "--plugin", "\x1b[2J"],
            ["options"],
            ["options", "session"],
            ["options", "CUDA", "--refused"],
            ["options", "\x1b[2J"],
            ["options", "--search", "\x1b[2J"],
            ["check", config],
            ["check", evil_config],
            ["check", json.dumps({"session_config": {WRITES: "x"}})],
            ["run", path, "--compare", "--repeat", "1"],
            ["run", path, "--config", "{}", "--config", config, "--config", refused, "--compare", "--repeat", "1"],
            ["run", evil],
            ["run", evil, "--input", "z=1"],
            ["run", evil, "--input", f"{name}=[1]"],
            ["run", evil, "--config", evil_config, "--config", "{}"],
            ["run", evil, "--json"],
            ["run", self.folder / "no\x1b[2J"],
            ["run", "m", "--\x1b[2J"],
            ["inspect", path],
            ["inspect", evil],
        ]
        for width in (60, 80, 200):
            with mock.patch.dict(os.environ, {"COLUMNS": str(width)}):
                for arguments in commands:
                    with self.subTest(width=width, arguments=arguments):
                        ran = Ran(*arguments)
                        self.check_lines(ran.out, width)
                        self.assertTrue(ran.out + ran.err)
                        for line in ran.err.splitlines():
                            self.assertTrue(line.isprintable(), ascii(line))


if __name__ == "__main__":
    unittest.main()
