# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""What the tests of the command line share: a command in this process, and what it said."""

from __future__ import annotations

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
from onnxruntime.backend import __main__

CPU = "CPUExecutionProvider"
ABSENT = "CANNExecutionProvider"
VARIABLE = "ORT_ONNX_BACKEND_CONFIG"
PREPACKING = "session.disable_prepacking"
SPINNING = "session.intra_op.allow_spinning"
SHRINKING = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
WRITES = "session.collect_node_memory_stats_to_file"


class Told:
    """What a command said in this process, and its exit status."""

    def __init__(self, *arguments: object) -> None:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            warnings.catch_warnings(),
            mock.patch.dict(os.environ),  # a command's process is its own
        ):
            try:
                self.status = __main__.main([str(argument) for argument in arguments])
            except SystemExit as left:
                self.status = left.code
        onnxruntime.set_default_logger_severity(2)
        self.out, self.err = (bytes(stream.buffer.getbuffer()).decode() for stream in streams if not stream.flush())


class CommandTest(unittest.TestCase):
    """What the tests of all commands share."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        without = {name: value for name, value in os.environ.items() if name != VARIABLE}
        cls.enterClassContext(mock.patch.dict(os.environ, without | {"COLUMNS": "80"}, clear=True))

    def put(self, name: str, content: onnx.ModelProto | bytes | str) -> Path:
        path = self.folder / name
        if isinstance(content, onnx.ModelProto):
            content = content.SerializeToString()
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def tell(self, *arguments: object, warns: str = "") -> str:
        """Run a command that succeeds, and check that it reads well."""
        told = Told(*arguments)
        self.assertEqual(told.status, 0, told.err)
        self.assertRegex(told.err, f"^warning: .*{warns}.*\n$" if warns else "^$")
        if "--json" not in arguments and "schema" not in arguments:
            self.check_lines(told.out, 80)
        return told.out

    def check_lines(self, text: str, width: int) -> None:
        """Check that no line is too long, but for one that ends in a word which is, and that all can be printed."""
        for line in text.splitlines():
            self.assertTrue(line.isprintable(), line)
            if len(line) > width:
                head, _, word = line.rpartition(" ")
                self.assertFalse(head.strip() and len(head) > 20, line)
                self.assertGreater(len(word), width // 2)  # a path or a name, which must not be broken

    def run_json(self, *arguments: object, **keywords: str) -> dict:
        return json.loads(self.tell("run", *arguments, "--json", "--repeat", "2", **keywords))

    def run_one(self, *arguments: object, **keywords: str) -> dict:
        """The result for the only configuration."""
        (only,) = self.run_json(*arguments, **keywords)["configurations"]
        return only

    def mistake(self, *arguments: object) -> str:
        """Run a command that is mistaken, and check that it says so in one line."""
        told = Told(*arguments)
        self.assertIn(told.status, (1, 2), told.out)
        self.assertRegex(told.err, r"\Aerror: [^\n]+\n\Z")
        self.assertNotIn("Traceback", told.err)
        self.assertEqual(told.out, "")
        return told.err
