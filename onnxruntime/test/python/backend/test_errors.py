# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests errors.py: the line at which a warning is given, and errors that reach other processes."""

import copy
import pickle
import unittest
import warnings
from collections.abc import Callable

import numpy as np
from helpers.models import caught, two_nodes

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import InputError, errors

MODEL = two_nodes((2, 4)).SerializeToString()
X = np.ones((2, 4), np.float32)


def prepare(model: object = MODEL, **keywords: object):
    """Prepare a model on the CPU EP, on any base."""
    return onnxruntime.backend.prepare(model, **{"provider_options": {}, **keywords})


class WarningsTest(unittest.TestCase):
    """A warning names the line of the caller, and is given on every use."""

    def warned(self, call: Callable, **keywords: object) -> list[warnings.WarningMessage]:
        with warnings.catch_warnings(record=True, action="default") as given:
            call(**keywords)
        return given

    def test_one_warning_at_the_line_of_the_caller(self):
        misspelt = ("provider_option", "session_configs", "run_configs", "sesion_config")
        rep, unknown = prepare(), [{name: {}} for name in misspelt]
        with_entry = [*unknown, {"session_config": {"session.intra_op.no_such": 1}}]
        for call, several in (
            (prepare, with_entry),
            (lambda **keywords: onnxruntime.backend.run(MODEL, [X], **keywords), with_entry),
            (lambda **keywords: onnxruntime.backend.run(rep, [X], **keywords), unknown),
            (lambda **keywords: rep.run([X], **keywords), [*unknown, {"output_names": None}]),
        ):
            for keywords in several:
                for _ in range(2):
                    with self.subTest(keywords):
                        (warning,) = self.warned(call, **keywords)
                        self.assertEqual((warning.filename, warning.category), (__file__, RuntimeWarning))
                        self.assertIn(*keywords, str(warning.message))

    def test_the_module_of_the_caller(self):
        code = compile("prepare(model, no_such_keyword=1)", "<caller>", "exec")
        for module in (
            {},
            {"__name__": "onnxruntime.backend_of_another"},
            {"__name__": "ignored"},
            {"__name__": None},
            {"__name__": 5},
        ):
            names = {"prepare": onnxruntime.backend.prepare, "model": MODEL, **module}
            with self.subTest(module), warnings.catch_warnings(record=True, action="default") as given:
                warnings.filterwarnings("ignore", module="ignored")
                exec(code, names)
                callers = [warning.filename for warning in given]
                self.assertEqual(callers, [] if "ignored" in module.values() else ["<caller>"])


def subclasses(kind: type) -> list[type]:
    """Return all subclasses."""
    found = []
    for each in kind.__subclasses__():
        found += [each, *subclasses(each)]
    return found


class SentErrorsTest(unittest.TestCase):
    """Errors reach another process with their class and attributes."""

    def test_copies(self):
        rep = prepare()
        raised = [
            caught(lambda: prepare(session_config={"no.such.key": 1})),
            caught(lambda: rep.run([X[:1]])),
            caught(lambda: rep.run([None])),
            caught(lambda: prepare(b"no model")),
        ]
        self.assertEqual(
            [type(error).__name__ for error in raised],
            ["NotPermittedError", "InvalidInputError", "FailedInputError", "InvalidProtobuf"],
        )
        for kind in subclasses(errors.DetailedError):
            raised.append(kind("message", attribute=1))
            # Frameworks add to the arguments, or replace them.
            for added in ("more", InputError):
                raised.append(kind("message", attribute=1))
                raised[-1].args += (added,)
        for error in raised:
            for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
                with self.subTest(repr(error)):
                    self.assertEqual((type(copied), copied.args), (type(error), error.args))
                    self.assertEqual((str(copied), vars(copied)), (str(error), vars(error)))

    def test_public_classes(self):
        names = {kind.__name__ for kind in subclasses(errors.DetailedError)}
        self.assertEqual(names - {*onnxruntime.backend.__all__}, {"InvalidInputError", "FailedInputError"})

    def test_a_refused_value_is_a_short_text(self):
        rep, spinning = prepare(), "session.intra_op.allow_spinning"
        calls = {
            "13": lambda: prepare(session_config={"no.such.key": 13}),
            "-1": lambda: prepare(intra_op_num_threads=-1),
            "a value of type Text": lambda: prepare(session_config={spinning: type("Text", (str,), {})("a")}),
            "a value of type list": lambda: prepare(session_config=[1]),
            "an integer of 201 bits": lambda: prepare(free_dimension_overrides={"N": 1 << 200}),
            "'1'": lambda: rep.run([X], timeout="1"),
            "5": lambda: rep.run([X], time_limit=5),
            ascii("\u20ac" * 80)[:77] + "...": lambda: rep.run_options(logid="\u20ac" * 1000),
            "'NPU'": lambda: prepare(device="NPU"),
            "7": lambda: prepare(free_dimension_overrides={"no_such_dimension": 7}),
            "False": lambda: prepare(use_per_session_threads=False),
            "'no'": lambda: prepare(extensions="no"),
            "": lambda: prepare(provider_options={"no EP": {}}),
        }
        for expected, call in calls.items():
            with self.subTest(expected):
                error = caught(call)
                self.assertIsInstance(error, errors.NotPermittedError)
                self.assertEqual((type(error.value), error.value), (str, expected))

    def test_defaults(self):
        error = InputError("message")
        self.assertEqual((error.input, error.expected, error.got), (None, "", ""))


if __name__ == "__main__":
    unittest.main()
