# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The layout of tables, colors, arguments, and mistakes in the arguments."""

import io
import json
import os
import unittest
from unittest import mock

import _above
from helpers.command_line import CommandTest, Ran

from onnxruntime.backend.command_line import main, options, output
from onnxruntime.backend.command_line.output import Cell, Table


class LayoutTest(unittest.TestCase):
    def layout(self, width: int, *rows: tuple, head: tuple = (), colors: bool = False) -> list[str]:
        return output.text([Table(rows, head, "t\x1b")], width, colors).splitlines()[0 if colors else 1 :]

    def test_columns(self):
        rows = (("a", "1", "", "one two"), ("bc", "20 %", "", "x\ny\x07"))
        self.assertEqual(self.layout(80, *rows), ["a      1  one two", r"bc  20 %  x y\x07"])
        titled = self.layout(80, *rows, head=("n", "count", "none", "text"))
        self.assertEqual(titled, ["n   count  text", "a       1  one two", r"bc   20 %  x y\x07"])
        self.assertEqual((self.layout(80, ("", "")), self.layout(80)), ([], []))

    def test_a_narrow_terminal(self):
        """The last column wraps, and a word is not broken. If there is no place for it, the first has its own line."""
        words = " ".join(["word"] * 9)
        self.assertEqual(self.layout(40, ("name", words)), [f"name  {words[:34]}", f"      {words[35:]}"])
        path = "/path" * 20
        self.assertEqual(self.layout(40, ("name", f"a {path}")), ["name  a", f"      {path}"])
        stacked = self.layout(40, ("a name of ten", "1", words), ("b", "22", "c"))
        self.assertEqual(stacked, ["a name of ten", f"     1  {words[:29]}", f"        {words[30:]}", "b", "    22  c"])

    def test_pairs(self):
        found = {"text": "a", "list": ["b", "c"], "mapping": {"d": {"e": 1, "f": [2]}}, "empty": "", "none": []}
        lines = output.text([output.pairs(found)], 80, colors=False).splitlines()
        self.assertEqual(lines, ["text     a", "list     b", "         c", "mapping  d.e = 1", "         d.f = [2]"])

    def test_colors(self):
        lines = self.layout(80, (Cell("a", "name"), Cell("bad", "bad")), ("b", Cell("", "bad")), colors=True)
        self.assertEqual(lines, ["\x1b[1mt\\x1b\x1b[0m", "\x1b[1ma\x1b[0m  \x1b[31mbad\x1b[0m", "b"])

    def test_when_there_are_colors(self):
        for tty, value, colored in ((True, "", True), (True, "1", False), (False, "", False)):
            stream = type("Stream", (io.TextIOWrapper,), {"isatty": lambda _, tty=tty: tty})
            terminal = mock.patch.object(io, "TextIOWrapper", stream)
            with self.subTest(tty=tty, value=value), terminal, mock.patch.dict(os.environ, {"NO_COLOR": value}):
                self.assertEqual("\x1b" in Ran("check", "{}").out, colored and os.name == "posix")


class ArgumentsTest(CommandTest):
    def test_help(self):
        parser = main._parser()
        (commands,) = [action for action in parser._actions if action.choices]
        self.assertEqual([*commands.choices], ["info", "options", "check", "inspect", "run"])
        for name, command in commands.choices.items():
            for action in (*command._actions, *commands._choices_actions):
                with self.subTest(command=name, argument=action.dest):
                    # A verb in lower case starts the text, and a word, a number or a parenthesis ends it.
                    self.assertRegex(action.help, r"(?s)\A[a-z].*[ '=(_]([a-z]+|[A-Z]+|[\d.e-]+)\)?\Z")
            self.assertRegex(command.description, r"(?s)\A[A-Z].*\.\n*\Z")
        for action in commands._choices_actions:
            first, *_ = commands.choices[action.dest].description.split(".")
            self.assertEqual(action.help.lower(), first.lower())

    def test_mistakes(self):
        for words, why in (
            ("", "COMMAND"),
            ("rnu", "'rnu' (choose from"),
            ("run m --iterations 5", "arguments: --iterations 5 (see python -m onnxruntime.backend run --help)"),
            ("info --x\x1b[2J", "--x\\x1b[2J"),
            ("run m --repeat -1", "invalid value '-1'. Expected 0 or a number of runs (see"),
        ):
            with self.subTest(words):
                self.assertIn(why, self.mistake(*words.split(), status=2))

    def test_json_of_a_mistake(self):
        for arguments in (["run", "no-such.onnx"], ["options", "x"], ["inspect", self.path, "--plugin", "x"]):
            ran = Ran(*arguments, "--json")
            self.assertEqual((ran.status, ran.err), (1, f"error: {json.loads(ran.out)['error']['message']}\n"))

    def test_an_interrupt(self):
        with mock.patch.object(options, "execute", side_effect=KeyboardInterrupt):
            ran = Ran("options")
        self.assertEqual((ran.status, ran.out, ran.err), (130, "", "error: interrupted\n"))


if __name__ == "__main__":
    unittest.main()
