# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The layout of text: widths, paragraphs, tables, and characters that act on a terminal."""

from __future__ import annotations

import io
import os
import sys
import unittest
from unittest import mock

from helpers.command_line import Ran

from onnxruntime.backend.command_line import main, output


class TextTest(unittest.TestCase):
    def test_the_width(self):
        terminal = mock.patch.object(os, "get_terminal_size", lambda _: os.terminal_size((101, 24)))
        with terminal:
            for columns, width in (("81", 80), ("22", 21), ("21", 20), ("5", 20), ("", 100)):
                with mock.patch.dict(os.environ, {"COLUMNS": columns}), mock.patch.object(main, "Page") as page:
                    Ran("check", "{}")
                    page.assert_called_once_with(width)

    def test_open_streams(self):
        out, err = mock.Mock(io.TextIOWrapper), mock.Mock(io.TextIOWrapper)
        with mock.patch.multiple(sys, stdout=out, stderr=err):
            output.replace_closed()
            for stream in (sys.stdout, sys.stderr):
                stream.reconfigure.assert_called_once_with(errors="backslashreplace")

    def test_a_page(self):
        page = output.Page(20)
        page.add("one two three four five", 4, "1")
        page.add("x" * 30)
        page.add("one two three four-five")
        page.add()
        page.rows("key\a", ["a", "b"], 6)
        page.rows("", ["one two three four"], 6)
        page.add_command("one two three  four\nfive")
        page.add("a b", label="c")
        page.table([("", "left", "r"), ("second\x1b", "1", "22")])
        self.assertEqual(
            str(page).splitlines(),
            [
                "1   one two three",
                "    four five",
                "x" * 30,
                "one two three",
                "  four-five",
                "",
                "key\\x07a",
                "      b",
                "      one two three",
                "      four",
                "  one two three  four",
                "five",
                "ca b",
                "         left   r",
                "second\\x1b     1  22",
            ],
        )

    def test_a_warning_removes_the_progress(self):
        with (
            mock.patch.object(output.progress, "clear") as clear,
            mock.patch.object(sys, "stderr", io.StringIO()) as err,
        ):
            main._show_warning("a\nb")
        clear.assert_called_once_with()
        self.assertEqual(err.getvalue(), "warning: a b\n")


if __name__ == "__main__":
    unittest.main()
