# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Shared by the tests of the command line: executes a command in this process and keeps its output."""

import contextlib
import io
import json
import os
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import onnx

import onnxruntime
from helpers.environment import VARIABLE
from helpers.models import two_nodes
from onnxruntime.backend.command_line import main
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
            mock.patch.object(plugins, "without_device", set()),
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


class CommandTest(unittest.TestCase):
    """Base class of the tests of all commands."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.enterClassContext(mock.patch.dict(os.environ, {"COLUMNS": "80"}))
        os.environ.pop(VARIABLE, None)
        cls.path = cls.put("two_nodes.onnx", two_nodes())

    @classmethod
    def put(cls, name: str, content: onnx.ModelProto | bytes | str) -> Path:
        path = cls.folder / name
        if isinstance(content, onnx.ModelProto):
            content = content.SerializeToString()
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def show(self, *arguments: object, warns: str = "") -> str:
        """Execute a command that succeeds, and return its output."""
        ran = Ran(*arguments)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertRegex(ran.err, f"\\Awarning: .*{warns}.*\n\\Z" if warns else r"\A\Z")
        return ran.out

    def json(self, *arguments: object, **keywords: str) -> dict:
        """Execute a command that succeeds, and return its result."""
        return json.loads(self.show(*arguments, "--json", **keywords))

    def mistake(self, *arguments: object, status: int = 1) -> str:
        """Execute a command that fails, check that the error is one line, and return the error."""
        ran = Ran(*arguments)
        self.assertEqual((ran.status, ran.out), (status, ""), ran.err)
        self.assertRegex(ran.err, r"\Aerror: [^\n]+\n\Z")
        return ran.err
