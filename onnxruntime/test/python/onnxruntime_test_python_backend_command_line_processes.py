# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line as a process: its streams, exit statuses, and terminals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import unittest
from collections.abc import Iterable
from unittest import mock

import onnx
from backend_test_children import run_code
from backend_test_command_line import CPU, SPINNING, VARIABLE, WRITES, CommandTest, Ran, execute_here
from backend_test_models import model, parsed, two_nodes
from onnx import helper

from onnxruntime.backend.command_line import info

# One process executes several commands. A line with the status separates their texts, after stdout is restored.
ALL = """
import json, os, sys
from onnxruntime.backend.command_line.main import main
stdout = os.dup(1)
for arguments in json.loads(sys.argv[1]):
    try:
        status = main(arguments)
    except SystemExit as left:
        status = left.code
    os.dup2(stdout, 1)
    for stream in (sys.stdout, sys.stderr):
        print(f"---- {status}", file=stream, flush=True)
"""


def words_of(commands: Iterable[Iterable[object]]) -> str:
    """Return the argument of a process that executes several commands."""
    return json.dumps([[str(word) for word in words] for words in commands])


class ProcessTest(CommandTest):
    """The command line as a person calls it."""

    def start(self, *arguments: object, **keywords) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **keywords)

    def start_all(self, *commands: list[object], **keywords) -> list[tuple[int, str, str]]:
        """Execute commands in one process, and return the status, stdout, and stderr of each."""
        ran = run_code(ALL, words_of(commands), cwd=self.folder, **keywords)
        ran.check_returncode()
        outs, errs = (re.split(r"^---- (\d)\n", stream, flags=re.MULTILINE)[:-1] for stream in (ran.stdout, ran.stderr))
        self.assertEqual(outs[1::2], errs[1::2])
        return list(zip(map(int, outs[1::2]), outs[::2], errs[::2], strict=True))

    def test_stdout_holds_the_result_alone(self) -> None:
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
        command = [sys.executable, "-c", noise, "run", str(self.path), "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(json.loads(ran.stdout)["configurations"]), 1)
        for line in ("EP Error", "native line", "good bye", *["line that C holds back"] * (os.name == "posix")):
            self.assertIn(f"{line}\n", ran.stderr)

    def test_log(self) -> None:
        on_cpu = json.dumps({"provider_options": {"CPUExecutionProvider": {}}})  # OpenVINO computes a value
        path = self.put("gathering.onnx", self.gathering())
        ran = self.start("run", path, "--input", "X=[9]", "--log", "--config", on_cpu)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("[E:onnxruntime:", ran.stderr)

    def test_nothing_that_acts_on_a_terminal_is_printed(self) -> None:
        name = "x\x1b[2J\x1b]0;owned\x07\rerror\u202e\x9b"
        node = helper.make_node("Relu", [name], ["y\x1b[31m"])
        path = self.put("escapes.onnx", model([node], {name: (2,)}, {"y\x1b[31m": (2,)}))
        evil = self.folder / "a\x1b[2J.onnx"
        if os.name == "posix":
            path = path.rename(evil)
        config = json.dumps({"session_config": {"\x1b[2J": "\x1b]0;x\x07"}})
        commands = (
            ["run", path],
            ["run", path, "--input", "z=1"],
            ["run", path, "--input", f"{name}=[1]"],
            ["run", path, "--config", config, "--config", "{}"],
            ["run", path, "--json"],
            ["inspect", path],
            ["run", evil.with_name("no\x1b[2J")],
            ["run", "m", "--\x1b[2J"],
            ["check", config],
            ["options", "\x1b[2J"],
            ["options", "--search", "\x1b[2J"],
            ["info", "--plugin", "\x1b[2J"],
        )
        environment = {**os.environ, VARIABLE: json.dumps({"run_config": {}})}
        for arguments, (_, out, err) in zip(commands, self.start_all(*commands, env=environment), strict=True):
            with self.subTest(arguments):
                for line in (out + err).splitlines():
                    self.assertTrue(line.isprintable(), ascii(line))
                self.assertTrue(out + err)

    def gathering(self) -> onnx.ModelProto:
        """Return a model whose run fails for an index of 2 or more."""
        return parsed("(int64[1] X) => (int64[1] Y) <int64[2] data = {0, 1}> { Y = Gather (data, X) }")

    def test_ort_logs_nothing_except_the_error(self) -> None:
        path = self.put("gathering.onnx", self.gathering())
        for status, out, err in self.start_all(
            ["run", path, "--provider-option", "CPU", "--input", "X=[9]"],
            ["run", self.put("text.onnx", "no model")],
        ):
            self.assertEqual((status, out), (1, ""))
            self.assertRegex(err, r"\Aerror: [^\n]+\n\Z")

    def test_closed_output(self) -> None:
        command = f"{sys.executable} -m onnxruntime.backend options session | head -n 1"
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        self.assertEqual((len(ran.stdout.splitlines()), ran.stderr), (1, ""))
        # The reader of the pipe ends first. Python must not fail again when it flushes at its end.
        for arguments in ("options --refused --json", "check {}"):
            command = f"{sys.executable} -m onnxruntime.backend {arguments}; echo $? >&2"
            ran = subprocess.run(f"({command}) | true", shell=True, capture_output=True, text=True, check=False)
            self.assertEqual(ran.stderr, "1\n")

    @unittest.skipUnless(os.name == "posix", "requires POSIX: the test closes file descriptors of a child")
    def test_closed_streams(self) -> None:
        check = ["check", "{}"]
        for arguments, closed in (
            (check, (0,)),
            (check, (1,)),
            (check, (2,)),
            (["run", self.path, "--repeat", "1"], (0, 1, 2)),
        ):
            streams = [None if number in closed else subprocess.PIPE for number in (1, 2)]
            with self.subTest(arguments, closed=closed):
                ran = subprocess.run(
                    [sys.executable, "-m", "onnxruntime.backend", *map(str, arguments)],
                    preexec_fn=lambda closed=closed: [os.close(number) for number in closed],
                    stdout=streams[0],
                    stderr=streams[1],
                    check=False,
                    cwd=self.folder,
                )
                self.assertEqual((ran.returncode, ran.stderr or b""), (0, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "requires /dev/full, which only Linux has")
    def test_full_disk(self) -> None:
        command = [sys.executable, "-m", "onnxruntime.backend", "check", "{}"]
        with open("/dev/full", "wb") as full:
            ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"\Aerror: [^\n]*No space left on device\n\Z")

    def test_names_that_no_terminal_can_show(self) -> None:
        path = self.folder / "mod\xe8le.onnx"
        path.write_bytes(two_nodes().SerializeToString())
        ran = self.start("run", path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("mod\\xe8le.onnx", ran.stdout)

    def test_importing_the_backend_imports_no_command(self) -> None:
        code = "import sys, onnxruntime.backend; print([n for n in sys.modules if '.backend.command' in n])"
        self.assertEqual(run_code(code).stdout, "[]\n")


@unittest.skipUnless(os.name == "posix", "requires pseudo terminals, which only POSIX systems have")
class TerminalTest(CommandTest):
    """Terminals of 60, 80 and 200 columns; and a pipe, for which the width is 80 columns."""

    def see(self, width: int, *commands: list[object]) -> list[str]:
        """Return the outputs of commands in a terminal, stdout and stderr."""
        import fcntl  # POSIX's  # noqa: PLC0415
        import pty  # POSIX's  # noqa: PLC0415
        import struct  # noqa: PLC0415
        import termios  # POSIX's  # noqa: PLC0415

        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        shown = b""
        with subprocess.Popen(
            [sys.executable, "-c", ALL, words_of(commands)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
        ) as process:
            os.close(terminal)
            with contextlib.suppress(OSError):  # raised by Linux if the other side is closed
                while chunk := os.read(controller, 1 << 16):
                    shown += chunk
            process.wait()
        os.close(controller)
        # Both streams end with the line.
        return re.split(r"(?:---- \d\n){2}", shown.decode().replace("\r\n", "\n"))[:-1]

    def commands(self) -> list[list[object]]:
        path = self.put(f"{'long' * 20}.onnx", two_nodes())
        config = json.dumps({"session_config": {SPINNING: False}, "provider_options": {CPU: {}}})
        refused = json.dumps({"run_config": {"x": 1}})
        return [
            ["options", "session"],
            ["run", path, "--config", "{}", "--config", config, "--config", refused, "--compare", "--repeat", "1"],
            [],
            *([command, "--help"] for command in ("info", "options", "check", "inspect", "run")),
            ["info"],
            ["options"],
            ["options", "CUDA", "--refused"],
            ["check", config],
            ["check", json.dumps({"session_config": {WRITES: "x"}})],
            ["run", path, "--compare", "--repeat", "1"],
            ["inspect", path],
        ]

    def test_terminals(self) -> None:
        for width in (60, 80, 200):
            longest = 0
            commands = self.commands()[:2]
            for arguments, shown in zip(commands, self.see(width, *commands), strict=True):
                with self.subTest(width=width, arguments=arguments):
                    self.check_lines(re.sub(r"\r.*?\r", "", shown), width)
                    longest = max(longest, *map(len, shown.splitlines()))
                    if arguments[0] == "run":
                        self.assertIn(str(arguments[1]), shown)
            self.assertEqual(longest > 120, width == 200)

    @mock.patch.object(info, "in_child", execute_here)
    def test_every_command_at_every_width(self) -> None:
        for width in (60, 80, 200):
            with mock.patch.dict(os.environ, {"COLUMNS": str(width)}):
                for arguments in self.commands():
                    with self.subTest(width=width, arguments=arguments):
                        self.check_lines(Ran(*arguments).out, width)

    def test_pipe(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        ran = run_code(ALL, words_of(self.commands()[:2]), env=environment)
        ran.check_returncode()
        self.check_lines(ran.stdout, 80)
        self.assertEqual(ran.stdout.count("---- "), 2)
        self.assertNotIn("\r", ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
