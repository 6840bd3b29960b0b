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
from collections.abc import Container
from typing import NamedTuple
from unittest import mock

from helpers.allowlist import NEWEST, having

from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.look_up import Allowlist
from onnxruntime.backend.allowlist.permit import permit_of
from onnxruntime.backend.allowlist.rules import Setting
from onnxruntime.backend.errors import NotPermittedError, Place, refuse
from onnxruntime.backend.provider_names import CPU, CUDA, OPENVINO
from onnxruntime.backend.request import read_call

SIZES = "free_dimension_overrides"
SETTINGS_NARROWED = frozenset({"setting_of"})
PROVIDERS_NARROWED = frozenset({"providers"})
UNKNOWN = "NoSuchExecutionProvider"
OFF = "session.disable_prepacking"
SPINNING = "session.intra_op.spin_duration_us"  # since ORT 1.26
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
NEEDS_GPU = "session.use_device_allocator_for_initializers"


class Problem(NamedTuple):
    """A part of a call, and the error if it is the only problem of the call."""

    reason: str
    place: tuple[str, str, str] | None  # None: the error is not about a setting of the caller
    keywords: dict[str, dict] = {}  # noqa: RUF012
    attributes: dict[str, object] = {}  # noqa: RUF012
    device: str = ""
    narrowed: frozenset[str] = frozenset()  # the methods of the allowlist that refuse
    variables: dict[str, str] = {}  # noqa: RUF012  # of the environment


# In the order of the checks.
CHECKS = (
    Problem("is broken", None, narrowed=frozenset({"__init__"})),
    Problem("invalid value 1", ("session_options", "", "logid"), {"session_options": {"logid": 1}}),
    Problem("can specify it", ("extensions", "", ""), attributes={"extensions": ["x"]}),
    Problem("can specify it", ("plugins", "", ""), attributes={"plugins": ["x"]}),
    Problem("can specify it", ("permit", "", ""), attributes={"permit": {}}),
    Problem("invalid value 9", ("log_severity_level", "", ""), attributes={"log_severity_level": 9}),
    Problem("invalid value 0", (SIZES, "", "M"), {SIZES: {"M": 0}}),
    Problem("not for callers", ("provider_options", "", ""), {"provider_options": {}}, narrowed=PROVIDERS_NARROWED),
    Problem("unknown execution", ("provider_options", UNKNOWN, ""), {"provider_options": {UNKNOWN: {}}}),
    Problem("contradicts", ("device", "", ""), {"provider_options": {CUDA: {"device_id": 0}}}, device="CUDA:1"),
    Problem("unknown ", ("session_config", "", "no.such"), {"session_config": {"no.such": 1}}),
    Problem("unknown ", ("run_config", "", "no.such"), {"run_config": {"no.such": 1}}),
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
    return Problem(
        "",
        None,
        keywords,
        {**first.attributes, **second.attributes},
        first.device or second.device,
        first.narrowed | second.narrowed,
        {**first.variables, **second.variables},
    )


class Refusing(Allowlist):
    """An allowlist, some of whose methods refuse."""

    def __init__(self, methods: Container[str], process: Process) -> None:
        if "__init__" in methods:
            raise RuntimeError("The narrowing is broken")
        super().__init__(process)
        self._methods = methods

    def providers(self, specified: dict) -> dict:
        if "providers" in self._methods:
            refuse(Place("provider_options"), "not for callers")
        return super().providers(specified)

    def setting_of(self, table: dict, place: Place, value: object) -> Setting:
        setting = super().setting_of(table, place, value)
        if "setting_of" in self._methods:
            refuse(place, "not for callers")
        return setting


def look_up_call(call: Problem, process: Process = NEWEST) -> None:
    """Look up the settings of a call in a process with three EPs."""
    requested = read_call(call.keywords, call.attributes, call.device or None, environment=())
    with mock.patch.dict(os.environ, call.variables):
        permit_of(requested, Refusing(call.narrowed, having((CPU, CUDA, OPENVINO), "built-in", process)))


class OrderTest(unittest.TestCase):
    def assert_first(self, expected: Problem, call: Problem, process: Process = NEWEST) -> None:
        with warnings.catch_warnings(record=True, action="always") as given, self.assertRaises(RuntimeError) as raised:
            look_up_call(call, process)
        error = raised.exception
        self.assertIn(expected.reason, str(error))
        self.assertEqual(isinstance(error, NotPermittedError), expected.place is not None)
        if expected.place is not None:
            self.assertEqual((error.keyword, error.provider, error.key), expected.place)
        self.assertEqual([str(warning.message) for warning in given], [])

    def test_each_problem_alone(self):
        for problem in CHECKS[:-1]:
            with self.subTest(problem.reason, place=problem.place):
                self.assert_first(problem, problem)
        with self.assertWarnsRegex(RuntimeWarning, "'no_such'"):
            look_up_call(CHECKS[-1])

    def test_two_problems(self):
        for first, second in itertools.combinations(CHECKS, 2):
            with self.subTest(first.place, before=second.place):
                self.assert_first(first, merged(first, second))

    def test_one_setting(self):
        """Its name, the release, its value, the settings that callers may set, then its conditions."""
        for name, value, narrowed, process, reason in (
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
                self.assert_first(expected, call, process)

    def test_several_settings(self):
        """All values, then all conditions."""
        for entries, name, reason in (
            ({NEEDS_GPU: 1, OFF: "x"}, OFF, "invalid value 'x'"),
            ({OFF: "x", "no.such": 1}, OFF, "invalid value 'x'"),
            ({"no.such": 1, OFF: "x"}, "no.such", "unknown "),
            ({NEEDS_GPU: 1, OFF: 1}, NEEDS_GPU, "it requires one of the EPs"),
        ):
            with self.subTest(entries):
                expected = Problem(reason, ("session_config", "", name))
                self.assert_first(expected, Problem("", None, {"session_config": entries}))

    def test_attributes(self):
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

    @mock.patch.object(threads, "has_global_lock", lambda: True)
    def test_options_of_an_ep(self):
        """The values of its options, the next EP, the conditions of its options, the conditions of the EP."""
        of_gpu = {"num_of_threads": 2, "device_type": "GPU"}
        unknown = {UNKNOWN: {}}
        for providers, ep, key, reason in (
            ({OPENVINO: {**of_gpu, "precision": "x"}, **unknown}, OPENVINO, "precision", "invalid value"),
            ({OPENVINO: of_gpu, **unknown}, UNKNOWN, "", "unknown execution"),
            ({**unknown, OPENVINO: {}}, UNKNOWN, "", "unknown execution"),
            ({OPENVINO: of_gpu}, OPENVINO, "num_of_threads", "it requires"),
        ):
            with self.subTest(providers):
                expected = Problem(reason, ("provider_options", ep, key))
                self.assert_first(expected, Problem("", None, {"provider_options": providers}))

        with mock.patch.object(threads, "has_global_lock", lambda: False):
            expected = Problem("interpreter lock", ("provider_options", OPENVINO, ""))
            self.assert_first(expected, Problem("", None, {"provider_options": {OPENVINO: {}}}))

    def test_conditions_of_several_keyword_arguments(self):
        """All names and values of a call, then the conditions of its EPs, attributes and entries."""
        options = {"provider_options": {CUDA: {"tunable_op_max_tuning_duration_ms": 1}}}
        attributes = {"session_options": {"intra_op_num_threads": 2}}
        entries = {"session_config": {NEEDS_GPU: 1}}
        run_entries = {"run_config": {SHRINKAGE: "cpu:0;gpu:0"}}
        invalid = {"run_config": {"no.such": 1}}
        with mock.patch.object(threads, "threads_start", lambda _: False):
            for keywords, place, reason in (
                ({**options, **attributes, **entries, **invalid}, ("run_config", "", "no.such"), "unknown "),
                (
                    {**options, **attributes},
                    ("provider_options", CUDA, "tunable_op_max_tuning_duration_ms"),
                    "it requires",
                ),
                ({**attributes, **entries}, ("session_options", "", "intra_op_num_threads"), "threads that this"),
                ({**entries, **run_entries}, ("session_config", "", NEEDS_GPU), "it requires"),
                (run_entries, ("run_config", "", SHRINKAGE), "it requires"),
            ):
                with self.subTest(place):
                    self.assert_first(Problem(reason, place), Problem("", None, keywords))


if __name__ == "__main__":
    unittest.main()
