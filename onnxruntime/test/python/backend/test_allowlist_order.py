# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the order of checks in allowlist/look_up.py, which decides the error of a call with several problems.

Each test combines problems that two checks find, and states which of both raises the error.
"""

from __future__ import annotations

import itertools
import os
import unittest
import warnings
from collections.abc import Container, Iterable
from typing import NamedTuple
from unittest import mock

from helpers.allowlist import NEWEST, having

from onnxruntime.backend import optional_parts
from onnxruntime.backend.allowlist import look_up, threads
from onnxruntime.backend.allowlist.conditions import Circumstances
from onnxruntime.backend.allowlist.rules import Narrowing, Place, Setting
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CPU, CUDA, OPENVINO
from onnxruntime.backend.request import of_call

SIZES = "free_dimension_overrides"
SETTINGS_NARROWED = frozenset({"check"})
PROVIDERS_NARROWED = frozenset({"check_providers"})
UNKNOWN = "NoSuchExecutionProvider"
OFF = "session.disable_prepacking"
SPINNING = "session.intra_op.spin_duration_us"  # since ORT 1.26
NEEDS_GPU = "session.use_device_allocator_for_initializers"
FAMILY = {f"session.intra_op.knob_{letter}": 1 for letter in "abcdefghijklmnopq"}  # one key more than permitted


class Problem(NamedTuple):
    """A part of a call, and the error if it is the only problem of the call."""

    reason: str
    place: tuple[str, str, str] | None  # None: the error is not about a setting of the caller
    keywords: dict[str, dict] = {}  # noqa: RUF012
    attributes: dict[str, object] = {}  # noqa: RUF012
    device: str = ""
    narrowed: frozenset[str] = frozenset()  # the methods of the narrowing that refuse
    absent: frozenset[str] = frozenset()  # the keyword arguments that need an absent optional part
    variables: dict[str, str] = {}  # noqa: RUF012  # of the environment


# In the order of the checks.
CHECKS = (
    Problem("can specify libraries", ("extensions", "", ""), attributes={"extensions": ["x"]}),
    Problem("can specify libraries", ("plugins", "", ""), attributes={"plugins": ["x"]}),
    Problem("can specify the settings of callers", ("permit", "", ""), attributes={"permit": {}}),
    Problem("is broken", None, narrowed=frozenset({"check_itself"})),
    Problem(
        "invalid value 1",
        ("session_options", "", "logid"),
        {"session_options": {"logid": 1}},
    ),
    Problem(
        "invalid value 9",
        ("log_severity_level", "", ""),
        attributes={"log_severity_level": 9},
    ),
    Problem("is absent", (SIZES, "", ""), {SIZES: {"N": 1}}, absent=frozenset({SIZES})),
    Problem("invalid value 0", (SIZES, "", "M"), {SIZES: {"M": 0}}),
    Problem(
        "not for callers",
        ("provider_options", "", ""),
        {"provider_options": {}},
        narrowed=PROVIDERS_NARROWED,
    ),
    Problem(
        "unknown execution",
        ("provider_options", UNKNOWN, ""),
        {"provider_options": {UNKNOWN: {}}},
    ),
    Problem(
        "contradicts",
        ("device", "", ""),
        {"provider_options": {CUDA: {"device_id": 0}}},
        device="CUDA:1",
    ),
    Problem("unknown ", ("session_config", "", "no.such"), {"session_config": {"no.such": 1}}),
    Problem("unknown ", ("run_config", "", "no.such"), {"run_config": {"no.such": 1}}),
    Problem(
        "FROM_MODEL",
        ("run_config", "", ""),
        {"run_config": {}},
        variables={"ORT_LOAD_CONFIG_FROM_MODEL": "1"},
    ),
    # Only a warning, which a call with an error does not give.
    Problem("", (), attributes={"no_such": 1}),
)
AT_RELEASE = NEWEST._replace(release=(1, 25))


def merged(first: Problem, second: Problem) -> Problem:
    """Combine two problems into one call."""
    keywords = {keyword: dict(settings) for keyword, settings in first.keywords.items()}
    for keyword, settings in second.keywords.items():
        keywords.setdefault(keyword, {}).update(settings)
    return Problem(
        "",
        None,
        keywords,
        {**first.attributes, **second.attributes},
        first.device or second.device,
        first.narrowed | second.narrowed,
        first.absent | second.absent,
        {**first.variables, **second.variables},
    )


class Refusing(Narrowing):
    """A narrowing, some of whose methods refuse."""

    def __init__(self, methods: Container[str]) -> None:
        self._methods = methods

    def check_itself(self, facts: Circumstances) -> None:
        if "check_itself" in self._methods:
            raise RuntimeError("The narrowing is broken")

    def check_providers(self, names: Iterable[str]) -> None:
        if "check_providers" in self._methods:
            Place("provider_options").refuse("not for callers")

    def check(self, setting: Setting) -> None:
        if "check" in self._methods:
            setting.place.refuse("not for callers")


def look_up_call(call: Problem, facts: Circumstances = NEWEST) -> None:
    """Look up the settings of a call in a process with three EPs."""
    requested = of_call(call.keywords, call.attributes, call.device or None, environment=())
    requested.narrowing = Refusing(call.narrowed)
    with (
        mock.patch.dict(os.environ, call.variables),
        mock.patch.object(
            optional_parts,
            "absence_for_keyword",
            lambda word: "is absent" * (word in call.absent),
        ),
    ):
        look_up.permit(requested, having((CPU, CUDA, OPENVINO), "built-in", facts))


class OrderTest(unittest.TestCase):
    def assert_first(self, expected: Problem, call: Problem, facts: Circumstances = NEWEST) -> None:
        with (
            warnings.catch_warnings(record=True) as given,
            self.assertRaises(RuntimeError) as raised,
        ):
            warnings.simplefilter("always")
            look_up_call(call, facts)
        error = raised.exception
        self.assertIn(expected.reason, str(error))
        self.assertEqual(isinstance(error, NotPermittedError), expected.place is not None)
        if expected.place is not None:
            self.assertEqual((error.keyword, error.provider, error.key), expected.place)
        self.assertEqual([str(warning.message) for warning in given], [])

    def test_each_problem_alone(self) -> None:
        for problem in CHECKS[:-1]:
            with self.subTest(problem.reason, place=problem.place):
                self.assert_first(problem, problem)
        with self.assertWarnsRegex(RuntimeWarning, "'no_such'"):
            look_up_call(CHECKS[-1])

    def test_two_problems(self) -> None:
        for first, second in itertools.combinations(CHECKS, 2):
            with self.subTest(first.place, before=second.place):
                self.assert_first(first, merged(first, second))

    def test_one_setting(self) -> None:
        """Its name, the release, its value, the settings that callers may set, then its conditions."""
        for name, value, narrowed, facts, reason in (
            ("no.such", "x", SETTINGS_NARROWED, AT_RELEASE, "unknown "),
            (SPINNING, "x", SETTINGS_NARROWED, AT_RELEASE, "it requires ORT 1.26"),
            (SPINNING, "x", SETTINGS_NARROWED, NEWEST, "invalid value 'x'"),
            (NEEDS_GPU, "x", SETTINGS_NARROWED, NEWEST, "invalid value 'x'"),
            (NEEDS_GPU, "1", SETTINGS_NARROWED, NEWEST, "not for callers"),
            (NEEDS_GPU, "1", frozenset(), NEWEST, "it requires one of the EPs"),
        ):
            with self.subTest(name, value=value, narrowed=bool(narrowed)):
                expected = Problem(reason, ("session_config", "", name))
                call = Problem("", None, {"session_config": {name: value}}, narrowed=narrowed)
                self.assert_first(expected, call, facts)

    def test_several_settings(self) -> None:
        """All values, then all conditions, then the number of keys of a family."""
        for entries, name, reason in (
            ({NEEDS_GPU: 1, OFF: "x"}, OFF, "invalid value 'x'"),
            ({OFF: "x", "no.such": 1}, OFF, "invalid value 'x'"),
            ({"no.such": 1, OFF: "x"}, "no.such", "unknown "),
            ({**FAMILY, NEEDS_GPU: 1}, NEEDS_GPU, "it requires one of the EPs"),
            (FAMILY, [*FAMILY][16], "more than 16 keys"),
        ):
            with self.subTest(entries):
                expected = Problem(reason, ("session_config", "", name))
                self.assert_first(expected, Problem("", None, {"session_config": entries}))

    def test_attributes(self) -> None:
        """All values, in session_options and then in keyword arguments, then all conditions."""
        expected = Problem("invalid value 1", ("logid", "", ""))
        with mock.patch.object(threads, "threads_start", lambda _: False):
            for name in ("session_options", "keyword"):
                attributes = {"intra_op_num_threads": 2}
                keywords = {"session_options": attributes} if name == "session_options" else {}
                logid = {"logid": 1} if keywords else {**attributes, "logid": 1}
                with self.subTest(name):
                    self.assert_first(expected, Problem("", None, keywords, logid))
                    logid.pop("logid")
                    place = (name, "", "intra_op_num_threads") if keywords else ("intra_op_num_threads", "", "")
                    condition = Problem("threads that this process can start", place)
                    self.assert_first(condition, Problem("", None, keywords, logid))

    @mock.patch.object(optional_parts, "absence_for", lambda *_: ("", None))
    @mock.patch.object(threads, "usable_cores", lambda: 1)
    def test_options_of_an_ep(self) -> None:
        """The values of its options, their conditions, the condition of the EP, its optional parts, the next EP."""
        for options, key, reason in (
            (
                {"num_of_threads": 2, "device_type": "GPU", "precision": "x"},
                "precision",
                "invalid value",
            ),
            ({"num_of_threads": 2, "device_type": "GPU"}, "num_of_threads", "it requires"),
            ({}, "", "it requires two CPU cores"),
        ):
            with self.subTest(options):
                expected = Problem(reason, ("provider_options", OPENVINO, key))
                self.assert_first(
                    expected,
                    Problem("", None, {"provider_options": {OPENVINO: options, UNKNOWN: {}}}),
                )
        with mock.patch.object(optional_parts, "absence_for", return_value=("does not contain", None)):
            both = Problem("", None, {"provider_options": {OPENVINO: {}, UNKNOWN: {}}})
            self.assert_first(expected, both)
            with mock.patch.object(threads, "usable_cores", lambda: 2):
                self.assert_first(Problem("does not contain", ("provider_options", OPENVINO, "")), both)
        first = Problem("unknown execution", ("provider_options", UNKNOWN, ""))
        self.assert_first(first, Problem("", None, {"provider_options": {UNKNOWN: {}, OPENVINO: {}}}))


if __name__ == "__main__":
    unittest.main()
