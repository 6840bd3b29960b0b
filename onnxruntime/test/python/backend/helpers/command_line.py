# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the tests of the command line: executes a command in this process and keeps its output."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from types import ModuleType
from unittest import mock

import onnx

import onnxruntime
from helpers.environment import VARIABLE
from helpers.models import two_nodes
from onnxruntime.backend.command_line import main
from onnxruntime.backend.command_line.output import MistakeError, Page
from onnxruntime.backend.libraries import plugins

CPU = "CPUExecutionProvider"
ABSENT = "CANNExecutionProvider"
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"
SHRINKING = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
WRITES = "session.collect_node_memory_stats_to_file"


class Ran:
    """The output and the exit status of a command, executed in this process."""

    def __init__(self, *arguments: object) -> None:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
            # A command's process is its own.
            mock.patch.dict(os.environ),
            mock.patch.dict(plugins._registered),
        ):
            try:
                self.status = main.main([str(argument) for argument in arguments])
            except SystemExit as left:
                self.status = left.code
        onnxruntime.set_default_logger_severity(2)
        self.out = self._text(out)
        self.err = self._text(err)

    def _text(self, stream: io.TextIOWrapper) -> str:
        stream.flush()
        return bytes(stream.buffer.getbuffer()).decode()


_ALONE = threading.Lock()  # `info` and `inspect` start several children at a time


def execute_here(arguments: list[str], *, configured: bool = False) -> tuple[dict, str]:
    """Replace ``info.in_child``: execute the command in this process, because a new process takes half a second."""
    chosen = main._parser().parse_args(arguments)
    with _ALONE, mock.patch.dict(os.environ), warnings.catch_warnings(action="ignore"):
        if not configured:
            os.environ.pop(VARIABLE, None)
        try:
            return chosen.command.execute(chosen)[0], ""
        except MistakeError as mistake:
            return {}, str(mistake)


def page_of(command: ModuleType, result: dict) -> list[str]:
    """Return the lines that a command prints for a result."""
    page = Page(80)
    command.show(result, page)
    return str(page).splitlines()


class CommandTest(unittest.TestCase):
    """Base class of the tests of all commands."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.enterClassContext(mock.patch.dict(os.environ, {"COLUMNS": "80"}))
        os.environ.pop(VARIABLE, None)
        cls.path = cls.folder / "two_nodes.onnx"
        cls.path.write_bytes(two_nodes().SerializeToString())

    def put(self, name: str, content: onnx.ModelProto | bytes | str) -> Path:
        path = self.folder / name
        if isinstance(content, onnx.ModelProto):
            content = content.SerializeToString()
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
        return path

    def show(self, *arguments: object, warns: str = "") -> str:
        """Execute a command that succeeds, check the layout of its output, and return the output."""
        ran = Ran(*arguments)
        self.assertEqual(ran.status, 0, ran.err)
        if warns:
            self.assertRegex(ran.err, f"^warning: .*{warns}.*\n$")
        else:
            self.assertEqual(ran.err, "")
        if "--json" not in arguments and "schema" not in arguments:
            self.check_lines(ran.out, 80)
        return ran.out

    def check_lines(self, text: str, width: int) -> None:
        """Check that all text is printable and that only a command, or a line with one long word, is long."""
        for line in text.splitlines():
            self.assertTrue(line.isprintable(), line)
            if len(line) > width and not line.startswith("  python -m "):
                head, _, word = line.rpartition(" ")
                self.assertFalse(head.strip() and len(head) > 25, line)
                self.assertGreater(len(word), width // 2)  # a path or a name

    def json(self, *arguments: object, **keywords: str) -> dict:
        """Execute a command that succeeds, and return its result."""
        return json.loads(self.show(*arguments, "--json", **keywords))

    def run_one(self, *arguments: object, **keywords: str) -> dict:
        """Execute ``run`` with one configuration, and return its part of the result."""
        (only,) = self.json("run", *arguments, "--repeat", "2", **keywords)["configurations"]
        return only

    def mistake(self, *arguments: object) -> str:
        """Execute a command that fails, check that the error is one line, and return the error."""
        ran = Ran(*arguments)
        self.assertIn(ran.status, (1, 2), ran.out)
        self.assertRegex(ran.err, r"\Aerror: [^\n]+\n\Z")
        self.assertNotIn("Traceback", ran.err)
        self.assertEqual(ran.out, "")
        return ran.err
