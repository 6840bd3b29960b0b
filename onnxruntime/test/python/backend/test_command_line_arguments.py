# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line's arguments: help texts and mistakes."""

from __future__ import annotations

import json
import unittest
from unittest import mock

from helpers.command_line import CommandTest, Ran

import onnxruntime
from onnxruntime.backend.command_line import main, options

COMMANDS = ("info", "options", "check", "inspect", "run", "schema", "report")


class HelpTest(CommandTest):
    def test_without_a_command(self):
        self.assertEqual(self.show(), self.show("--help"))

    def test_every_argument_is_described(self):
        parser = main._parser()
        (commands,) = [action for action in parser._actions if action.choices]
        self.assertEqual(commands.choices.keys(), {*COMMANDS})
        self.assertRegex(
            parser.format_help(),
            r"(?s)\Ausage: python -m onnxruntime.backend COMMAND \.\.\.\n.*\ncommands:\n  COMMAND\n",
        )
        descriptions = [parser.description, parser.epilog]
        for name, command in commands.choices.items():
            described = command.format_help().splitlines()[0].removeprefix("usage: python -m onnxruntime.backend ")
            positional = [action.metavar for action in command._actions if not action.option_strings]
            self.assertEqual(described, " ".join([name, *positional, "..."]))
            self.assertEqual(len({action.help for action in command._actions}), len(command._actions))
            descriptions.append(command.description)
            for action in (*command._actions, *commands._choices_actions, *parser._actions[:-1]):
                with self.subTest(command=name, argument=action.dest):
                    # A verb in lower case starts the text, and a word, a number or a closing parenthesis ends it.
                    self.assertRegex(action.help, r"(?s)\A[a-z].*[ '=(]([a-z]+|[A-Z]+|[\d.e-]+)\)?\Z")
                    self.assertNotEqual(action.nargs == 0, bool(action.metavar))
        for text in descriptions:
            self.assertRegex(text, r"(?s)\A[A-Z].*(\b([a-z]+|EP)|\")\.\Z")

    def test_version(self):
        versions = f"onnxruntime {onnxruntime.__version__}, onnxruntime.backend {onnxruntime.backend.__version__}\n"
        self.assertEqual(self.show("--version"), versions)


class MistakeTest(CommandTest):
    def test_mistaken_arguments(self):
        for words, why in (
            ("inf", "inf"),
            ("--no-such", "COMMAND"),
            ("run m --no-such", "arguments: --no-such (see python -m onnxruntime.backend run --help)"),
            ("info --no-such", "(see python -m onnxruntime.backend info --help)"),
            ("run m --provider A", ": --provider A. Did you mean --provider-option A? (see"),
            ("run m --providers=A", ": --providers=A. Did you mean --provider-option A? (see"),
            ("run m --ep", ": --ep. Did you mean --provider-option EP? (see"),
            ("run m --logid a", ": --logid a. Did you mean --session-option logid=a? (see"),
            ("run m --use-deterministic-compute", "use_deterministic_compute=VALUE? (see"),
            ("run m --compair", ": --compair. Did you mean --compare? (see"),
            ("run m n", "arguments: n (see"),
            ("run m --rep 3", "--rep 3. Did you mean --repeat N? (see"),
            ("info --x\x1b[2J", "--x\\x1b[2J"),
            ("run m --rtol -1", "--rtol: invalid value '-1'. Expected a number, 0 or more (see"),
            ("run m --rtol nan", "'nan'"),
            ("run m --rtol inf", "'inf'"),
            ("run m --atol x", "--atol: invalid value 'x'. Expected a number, 0 or more (see"),
            ("run m --hel", "--hel. Did you mean --help? (see"),
            ("run m --seed -1", "'-1'"),
            ("run m --seed 4294967296", "'4294967296'"),
            ("run m --seed x", "--seed: invalid value 'x'. Expected an integer from 0 to 4294967295 (see"),
            ("run m --repeat 0 --save y.npz", "Omit one of the two options\n"),
            ("check", "FILE|JSON|-"),
            ("run", "MODEL"),
            ("inspect", "MODEL"),
            ("run m --repeat x", "to 1000000 (see python -m onnxruntime.backend run --help)"),
            ("run m --csv ./a --html a", "error: --html and --csv would write the same file ./a\n"),
            ("run m --save a --markdown a", "--save and --markdown"),
            ("report r --csv a --html a", "--html and --csv"),
            ("run m --repeat 0 --compare", "Omit one of the two options\n"),
            ("info --plugin no_such_package", "No module named 'no_such_package'"),
            ("info --plugin x=/no/such/library.so", "library.so"),
        ):
            with self.subTest(words):
                self.assertIn(why, self.mistake(*words.split()))

    def test_the_exit_status(self):
        """As in the table of the document."""
        for words, status in (
            ("run m --no-such", 2),
            ("run m --seed x", 2),
            ("run", 2),
            (f"run {self.path} --shape 2x3", 1),
            ("run m --session-config a", 1),
            ("options foo", 1),
        ):
            with self.subTest(words):
                self.assertEqual(Ran(*words.split()).status, status)

    def test_the_smallest_tolerances(self):
        chosen = main._parser().parse_args(["run", "m", "--rtol", "0", "--atol", "0"])
        self.assertEqual((chosen.rtol, chosen.atol), (0, 0))

    def test_json_of_a_mistake(self):
        with mock.patch("sys.argv", ["", "--json"]):
            self.assertIn("--thread", json.loads(Ran("run", "m", "--thread", "2").out)["error"]["message"])
        for arguments in (["run", "no-such.onnx"], ["options", "x"], ["inspect", self.path, "--plugin", "x"]):
            ran = Ran(*arguments, "--json")
            self.assertEqual((ran.status, ran.err), (1, f"error: {json.loads(ran.out)['error']['message']}\n"))
            self.assertRegex(ran.out, r'(?s)\A\{\n  "error": \{\n    "message".*\n  \}\n\}\n\Z')

    def test_layout_of_json(self):
        out = self.show("options", "run", "--json")
        self.assertTrue(out.startswith('{\n  "scope": "run",\n') and out.endswith("\n  ]\n}\n"))

    def test_an_interrupt(self):
        with mock.patch.object(options, "execute", side_effect=KeyboardInterrupt):
            ran = Ran("options")
        self.assertEqual((ran.status, ran.out, ran.err), (130, "", "error: interrupted\n"))


if __name__ == "__main__":
    unittest.main()
