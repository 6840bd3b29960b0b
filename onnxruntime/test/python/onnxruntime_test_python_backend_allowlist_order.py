# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the order of checks in allowlist/look_up.py, which decides the error of a call with several problems.

Each test combines problems that two checks find, and states which of both raises the error.
"""

from __future__ import annotations

import itertools
import json
import os
import unittest
import warnings
from typing import NamedTuple
from unittest import mock

from backend_test_allowlist import NEWEST, having

from onnxruntime.backend import optional_parts
from onnxruntime.backend.allowlist import look_up, value_kinds
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CPU, CUDA, OPENVINO
from onnxruntime.backend.request import of_call

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
    permit: dict[str, dict] | None = None  # in ORT_ONNX_BACKEND_CONFIG
    variables: dict[str, str] = {}  # noqa: RUF012  # of the environment


# In the order of the checks.
CHECKS = (
    Problem("can specify libraries", ("extensions", "", ""), attributes={"extensions": ["x"]}),
    Problem("can specify libraries", ("plugins", "", ""), attributes={"plugins": ["x"]}),
    Problem("can specify the settings of callers", ("permit", "", ""), attributes={"permit": {}}),
    Problem("cannot be used: permit: ", None, permit={"session_config": {"no.such": True}}),
    Problem("invalid value 1", ("session_options", "", "logid"), {"session_options": {"logid": 1}}),
    Problem("invalid value 9", ("log_severity_level", "", ""), attributes={"log_severity_level": 9}),
    Problem("invalid value 0", ("free_dimension_overrides", "", "N"), {"free_dimension_overrides": {"N": 0}}),
    Problem('"permit" in', ("provider_options", CPU, ""), {"provider_options": {CPU: {}}}, permit={}),
    Problem("unknown execution", ("provider_options", UNKNOWN, ""), {"provider_options": {UNKNOWN: {}}}),
    Problem("contradicts", ("device", "", ""), {"provider_options": {CUDA: {"device_id": 0}}}, device="CUDA:1"),
    Problem("unknown key", ("session_config", "", "no.such"), {"session_config": {"no.such": 1}}),
    Problem("unknown key", ("run_config", "", "no.such"), {"run_config": {"no.such": 1}}),
    Problem("FROM_MODEL", ("run_config", "", ""), {"run_config": {}}, variables={"ORT_LOAD_CONFIG_FROM_MODEL": "1"}),
    # Only a warning, which a call with an error does not give.
    Problem("", (), attributes={"no_such": 1}),
)
AT_RELEASE = NEWEST._replace(release=(1, 25))


def merged(first: Problem, second: Problem) -> Problem:
    """Combine two problems into one call."""
    keywords = {keyword: dict(settings) for keyword, settings in first.keywords.items()}
    for keyword, settings in second.keywords.items():
        keywords.setdefault(keyword, {}).update(settings)
    permit = first.permit
    if second.permit is not None:
        permit = {**(permit or {}), **second.permit}
    return Problem(
        "",
        None,
        keywords,
        {**first.attributes, **second.attributes},
        first.device or second.device,
        permit,
        {**first.variables, **second.variables},
    )


def look_up_call(call: Problem, facts=NEWEST) -> None:
    """Look up the settings of a call in a process with each of its EPs that the allowlist knows."""
    variables = dict(call.variables)
    if call.permit is not None:
        variables["ORT_ONNX_BACKEND_CONFIG"] = json.dumps({"permit": call.permit})
    with mock.patch.dict(os.environ, variables):
        requested = of_call(call.keywords, call.attributes, call.device or None)
        look_up.permit(requested, having((CPU, CUDA, OPENVINO), "built-in", facts))


class OrderTest(unittest.TestCase):
    def assert_first(self, expected: Problem, call: Problem, facts=NEWEST) -> None:
        with warnings.catch_warnings(record=True) as given, self.assertRaises(RuntimeError) as raised:
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
        for name, value, permit, facts, reason in (
            ("no.such", "x", {}, AT_RELEASE, "unknown key"),
            (SPINNING, "x", {}, AT_RELEASE, "it requires ORT 1.26"),
            (SPINNING, "x", {}, NEWEST, "invalid value 'x'"),
            (NEEDS_GPU, "x", {}, NEWEST, "invalid value 'x'"),
            (NEEDS_GPU, "1", {}, NEWEST, '"permit" in'),
            (NEEDS_GPU, "1", None, NEWEST, "it requires one of the EPs"),
        ):
            with self.subTest(name, value=value, permit=permit):
                expected = Problem(reason, ("session_config", "", name))
                self.assert_first(expected, Problem("", None, {"session_config": {name: value}}, permit=permit), facts)

    def test_several_settings(self) -> None:
        """All values, then all conditions, then the number of keys of a family."""
        for entries, name, reason in (
            ({NEEDS_GPU: 1, OFF: "x"}, OFF, "invalid value 'x'"),
            ({OFF: "x", "no.such": 1}, OFF, "invalid value 'x'"),
            ({"no.such": 1, OFF: "x"}, "no.such", "unknown key"),
            ({**FAMILY, NEEDS_GPU: 1}, NEEDS_GPU, "it requires one of the EPs"),
            (FAMILY, [*FAMILY][16], "more than 16 keys"),
        ):
            with self.subTest(entries):
                expected = Problem(reason, ("session_config", "", name))
                self.assert_first(expected, Problem("", None, {"session_config": entries}))

    def test_attributes(self) -> None:
        """All values, in session_options and then in keyword arguments, then all conditions."""
        expected = Problem("invalid value 1", ("logid", "", ""))
        with mock.patch.object(value_kinds, "threads_start", lambda _: False):
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

    @mock.patch.object(value_kinds, "usable_cores", lambda: 1)
    def test_options_of_an_ep(self) -> None:
        """The values of its options, their conditions, the condition of the EP, its optional parts, the next EP."""
        for options, key, reason in (
            ({"num_of_threads": 2, "device_type": "GPU", "precision": "x"}, "precision", "invalid value"),
            ({"num_of_threads": 2, "device_type": "GPU"}, "num_of_threads", "it requires"),
            ({}, "", "it requires two CPU cores"),
        ):
            with self.subTest(options):
                expected = Problem(reason, ("provider_options", OPENVINO, key))
                self.assert_first(expected, Problem("", None, {"provider_options": {OPENVINO: options, UNKNOWN: {}}}))
        with mock.patch.object(optional_parts, "absence_for", return_value=("does not contain", "")):
            both = Problem("", None, {"provider_options": {OPENVINO: {}, UNKNOWN: {}}})
            self.assert_first(expected, both)
            with mock.patch.object(value_kinds, "usable_cores", lambda: 2):
                self.assert_first(Problem("does not contain", ("provider_options", OPENVINO, "")), both)
        first = Problem("unknown execution", ("provider_options", UNKNOWN, ""))
        self.assert_first(first, Problem("", None, {"provider_options": {UNKNOWN: {}, OPENVINO: {}}}))


if __name__ == "__main__":
    unittest.main()
