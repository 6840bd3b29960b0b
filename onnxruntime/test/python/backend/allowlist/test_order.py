# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""If a call has several problems, the order of the checks decides which error it raises.

First, each name and value is checked, argument by argument, and then all conditions. A call with an error gives no
warning.
"""

import os
import unittest
import warnings
from unittest import mock

import _above
from helpers.allowlist import NEWEST, having
from helpers.environment import environment

from onnxruntime.backend.allowlist import conditions
from onnxruntime.backend.allowlist.look_up import permit_of
from onnxruntime.backend.allowlist.tables import KEYWORDS
from onnxruntime.backend.environment import variable
from onnxruntime.backend.errors import NotPermittedError
from onnxruntime.backend.provider_names import CPU, CUDA, OPENVINO
from onnxruntime.backend.request import read_call

SIZES, OPTIONS, SESSION, RUN = ("free_dimension_overrides", "provider_options", "session_config", "run_config")
NEEDS_GPU = "session.use_device_allocator_for_initializers"
PREPACKING = "session.disable_prepacking"
SHRINKAGE = "memory.enable_memory_arena_shrinkage"
SPINNING = "session.intra_op.spin_duration_us"  # since ORT 1.26
TUNING = "tunable_op_max_tuning_duration_ms"
UNKNOWN = {"no.such": 1}
ON_GPU = {"device_type": "GPU", "num_of_threads": 2}  # which contradict each other

# Calls with two or more problems, and the place of the first one.
CALLS = (
    ({"session_options": {"logid": 1}, "extensions": ["x"]}, ("session_options", "", "logid")),
    ({"extensions": ["x"], SIZES: {"M": 0}}, ("extensions", "", "")),
    ({SIZES: {"M": 0}, OPTIONS: {"NoSuch": {}}}, (SIZES, "", "M")),
    ({OPTIONS: {CUDA: {"device_id": 64}, "NoSuch": {}}}, (OPTIONS, CUDA, "device_id")),
    ({OPTIONS: {CUDA: {"device_id": 0}}, "device": "CUDA:1", SESSION: UNKNOWN}, ("device", "", "")),
    ({SESSION: {PREPACKING: "x", **UNKNOWN}, RUN: UNKNOWN}, (SESSION, "", PREPACKING)),
    # Conditions: of the EPs in order, each after those of its options, of the attributes, and of the entries.
    ({OPTIONS: {CUDA: {TUNING: 1}}, SESSION: {NEEDS_GPU: 1, PREPACKING: "x"}}, (SESSION, "", PREPACKING)),
    ({OPTIONS: {CUDA: {TUNING: 1}}, RUN: UNKNOWN}, (RUN, "", "no.such")),
    ({OPTIONS: {OPENVINO: ON_GPU, CUDA: {TUNING: 1}}}, (OPTIONS, OPENVINO, "num_of_threads")),
    ({OPTIONS: {OPENVINO: {}}, SESSION: {NEEDS_GPU: 1}}, (OPTIONS, OPENVINO, "")),
    ({SESSION: {NEEDS_GPU: 1}, RUN: {SHRINKAGE: "gpu:0"}}, (SESSION, "", NEEDS_GPU)),
    ({RUN: {SHRINKAGE: "gpu:0"}, "no_such": 1}, (RUN, "", SHRINKAGE)),
)


def look_up(call: dict, release: tuple[int, int] = NEWEST.release) -> None:
    """Look up the settings of a call in a process with three EPs."""
    keywords = {name: value for name, value in call.items() if name in KEYWORDS}
    attributes = {name: value for name, value in call.items() if name not in (*KEYWORDS, "device")}
    asked = read_call(keywords, attributes, call.get("device"))
    process = having((CPU, CUDA, OPENVINO), "built-in", NEWEST._replace(release=release))
    permit_of(asked, variable.allowlist(asked.environment, process))


class OrderTest(unittest.TestCase):
    def assert_refused(self, place: tuple[str, str, str], call: dict, *release: tuple[int, int]) -> str:
        with (
            warnings.catch_warnings(record=True, action="always") as given,
            self.assertRaises(NotPermittedError) as raised,
        ):
            look_up(call, *release)
        refusal = raised.exception
        self.assertEqual((refusal.keyword, refusal.provider, refusal.key), place)
        self.assertEqual([str(warning.message) for warning in given], [])
        return refusal.reason

    @mock.patch.object(conditions, "has_global_lock", lambda: False)
    def test_several_problems(self):
        for call, place in CALLS:
            with self.subTest(call):
                self.assert_refused(place, call)
        with mock.patch.dict(os.environ, {"ORT_LOAD_CONFIG_FROM_MODEL": "1"}):
            self.assertIn("unknown", self.assert_refused((RUN, "", "no.such"), {RUN: UNKNOWN}))
            self.assertIn("FROM_MODEL", self.assert_refused((SESSION, "", ""), {SESSION: {NEEDS_GPU: 1}}))
        with self.assertWarnsRegex(RuntimeWarning, "'no_such'"):
            look_up({"no_such": 1})

    def test_one_setting(self):
        """Whether it has a name of the tables, the release, its value, whether callers may set it, its conditions."""
        old, new = (1, 25), NEWEST.release
        for name, value, permitted, release, reason in (
            ("no.such", "x", {}, old, "unknown"),
            (SPINNING, "x", {}, old, "it requires ORT 1.26"),
            (SPINNING, "x", {}, new, "invalid value 'x'"),
            (SPINNING, "2", {}, new, '"permit" in the environment'),
            (SPINNING, "2", {SPINNING: [1]}, new, "with the value '2', \"permit\" in the environment"),
            (NEEDS_GPU, "1", {NEEDS_GPU: [0]}, new, "with the value '1', \"permit\" in the environment"),
            (NEEDS_GPU, "1", {NEEDS_GPU: [0, 1]}, new, "it requires one of the EPs"),
        ):
            # The permit itself is looked up in the newest release.
            with self.subTest(name, value=value), environment({"permit": {SESSION: permitted}}):
                with mock.patch("onnxruntime.backend.environment.narrowing.faults", return_value=()):
                    found = self.assert_refused((SESSION, "", name), {SESSION: {name: value}}, release)
                self.assertTrue(found.startswith(reason), found)


if __name__ == "__main__":
    unittest.main()
