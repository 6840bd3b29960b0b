# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line as a process: its streams, exit statuses, and tables on terminals."""

import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import _above
from helpers.children import run_code
from helpers.command_line import CPU, SPINNING, CommandTest, Ran
from helpers.models import model, parsed, two_nodes
from onnx import helper

from onnxruntime.backend.command_line import inspect


class ProcessTest(CommandTest):
    """The command line as a person calls it."""

    def start(self, *arguments: object, stdout: object = subprocess.PIPE, **keywords) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)]
        return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, **keywords)

    def test_stdout_contains_only_the_result(self):
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
        ran = run_code(noise, "run", str(self.path), "-n", "1", "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(json.loads(ran.stdout)["configurations"]), 1)
        for line in ("EP Error", "native line", "good bye", *["line that C holds back"] * (os.name == "posix")):
            self.assertIn(f"{line}\n", ran.stderr)

    def test_log(self):
        """The index does not exist. ORT logs this error of the run only with ``--log``."""
        gather = "(int64[1] X) => (int64[1] Y) <int64[2] data = {0, 1}> { Y = Gather (data, X) }"
        path = self.put("gathering.onnx", parsed(gather))
        for flags, printed in (([], r"\Aerror: [^\n]+\n\Z"), (["--log"], r"\[E:onnxruntime:")):
            ran = self.start("run", path, "--ep", "CPU", "--input", "X=[9]", *flags)
            self.assertEqual((ran.returncode, ran.stdout), (1, ""))
            self.assertRegex(ran.stderr, printed)

    def test_closed_output(self):
        """The reader of a pipe ends first. Python must not fail again when it flushes at its end."""
        for arguments, reader in (("options --refused", "head -n 1"), ("check {}", "true")):
            command = f"({sys.executable} -m onnxruntime.backend {arguments}; echo $? >&2) | {reader}"
            ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
            self.assertEqual((len(ran.stdout.splitlines()), ran.stderr), (int(reader != "true"), "1\n"))

    @unittest.skipUnless(os.path.exists("/dev/full"), "requires /dev/full, which only Linux has")
    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            ran = self.start("check", "{}", stdout=full)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"\Aerror: [^\n]*No space left on device\n\Z")

    def test_names_that_no_terminal_can_show(self):
        path = self.put("mod\xe8le.onnx", two_nodes())
        ran = self.start("run", path, "-n", "1", env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("mod\\xe8le.onnx", ran.stdout)


class TerminalTest(CommandTest):
    @mock.patch.object(inspect, "in_child", lambda *_: ({}, "reason " * 30))
    def test_every_command_at_every_width(self):
        """No text of a model or an argument acts on a terminal, and a line is too long only because of one word."""
        name = "x\x1b[2J\x1b]0;owned\x07\rerror\u202e\x9b"
        node = helper.make_node("Relu", [name], ["y\x1b[31m"])
        file = "a\x1b[2J.onnx" if os.name == "posix" else "escapes.onnx"
        evil = self.put(file, model([node], {name: (2,)}, {"y\x1b[31m": (2,)}))
        configs = [
            {},
            {"session_config": {SPINNING: False}, "provider_options": {CPU: {}}},
            {"session_config": {"\x1b[2J": "\x1b]0;x\x07"}},
        ]
        several = [f"--config={json.dumps(config)}" for config in configs]
        commands = [
            *([command, "--help"] for command in ("info", "options", "check", "inspect", "run")),
            *(["check", json.dumps(config)] for config in configs),
            ["info"],
            ["options", "CUDA", "--refused"],
            ["run", self.put(f"{'long' * 20}.onnx", two_nodes()), *several, "--compare", "-n", "1"],
            ["run", evil, "-n", "1", "--compare"],
            ["run", "m", "--\x1b[2J"],
            ["inspect", evil],
        ]
        for width in (80, 200):
            for arguments in commands:
                with self.subTest(width=width, arguments=arguments):
                    with mock.patch.dict(os.environ, {"COLUMNS": str(width)}):
                        ran = Ran(*arguments)
                    self.assertTrue(ran.out + ran.err)
                    for line in (ran.out + ran.err).splitlines():
                        self.assertTrue(line.isprintable(), ascii(line))
                    for line in ran.out.splitlines():
                        longest = max(map(len, line.split()), default=0)
                        self.assertTrue(len(line) < width or longest > 30 or line.startswith("  --ep"), line)


if __name__ == "__main__":
    unittest.main()
