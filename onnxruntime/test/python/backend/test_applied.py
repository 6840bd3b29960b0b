# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of comparing a session with its permit, and of the reports about it."""

import unittest
from types import SimpleNamespace
from unittest import mock

from helpers.models import two_nodes
from helpers.processes import CUDA, OPENVINO, permit, process_with

import onnxruntime.backend
from onnxruntime import SessionOptions
from onnxruntime.backend.allowlist.facts import RELEASE
from onnxruntime.backend.applied import nodes, settings
from onnxruntime.backend.session.creation import Construction
from onnxruntime.capi.onnxruntime_pybind11_state import Fail


def configured(options: dict, release: tuple[int, int] = RELEASE, **process: tuple[str, ...]) -> Construction:
    """Return the construction of a session with these provider options in such a process."""
    with process_with(**process):
        construction = Construction(b"", permit(options, release=release), mock.Mock())
        construction.configure()
    return construction


class ReadBackTest(unittest.TestCase):
    def session(self, **reported: dict) -> SimpleNamespace:
        return SimpleNamespace(
            get_providers=lambda: list(reported),
            get_provider_options=lambda: reported,
            get_provider_graph_assignment_info=mock.Mock(side_effect=Fail),
            get_session_options=SessionOptions,
        )

    def test_another_value_than_was_sent_is_an_error(self):
        wanted = configured({CUDA: {"use_tf32": False, "device_id": 0}}, bundled=(CUDA,))
        texts = {"use_tf32": "0", "device_id": "0", "gpu_mem_limit": "1", "user_compute_stream": "0"}
        result = settings.confirm(self.session(**{CUDA: texts}), wanted)
        self.assertEqual(result.provider_options, {CUDA: {"use_tf32": "0", "device_id": "0"}})
        self.assertEqual(result.unconfirmed, {})
        for wrong in ("1", "", "perhaps"):
            with self.assertRaisesRegex(RuntimeError, "'use_tf32'.* was sent as '0', but ORT reports"):
                settings.confirm(self.session(**{CUDA: texts | {"use_tf32": wrong}}), wanted)

    def test_another_entry_than_was_sent_is_an_error(self):
        held = SessionOptions()
        held.add_session_config_entry("session.disable_prepacking", "0")
        with (
            mock.patch.object(onnxruntime.InferenceSession, "get_session_options", lambda _: held),
            self.assertRaisesRegex(RuntimeError, r"disable_prepacking'\] was sent as '1', but ORT reports '0'"),
        ):
            onnxruntime.backend.prepare(two_nodes(), session_config={"session.disable_prepacking": 1})

    def test_another_spelling_of_the_same_value_is_none(self):
        wanted = configured({CUDA: {"use_tf32": False, "gpu_mem_limit": 1 << 30}}, bundled=(CUDA,))
        for flag, size in (("False", "1073741824"), ("0", "01073741824"), ("false", "1073741824")):
            read = self.session(**{CUDA: {"use_tf32": flag, "gpu_mem_limit": size}})
            result = settings.confirm(read, wanted)
            self.assertEqual(result.provider_options, {CUDA: {"use_tf32": flag, "gpu_mem_limit": size}})

    def test_what_is_not_reported_is_compared_as_it_was_sent(self):
        """If the EP reports the text anyway, it must be the text that was sent."""
        option = "enable_skip_layer_norm_strict_mode"
        wanted = configured({CUDA: {option: True}}, release=(1, 27), bundled=(CUDA,))
        result = settings.confirm(self.session(**{CUDA: {option: "1"}}), wanted)
        self.assertEqual((result.provider_options, result.unconfirmed), ({CUDA: {}}, {CUDA: {option: "1"}}))
        with self.assertRaisesRegex(RuntimeError, "was sent as '1', but ORT reports 'true'"):
            settings.confirm(self.session(**{CUDA: {option: "true"}}), wanted)

    def test_text_that_carries_options_is_compared_and_not_shown(self):
        wanted = configured({OPENVINO: {"num_of_threads": 2}}, plugins=(OPENVINO,))
        carried = {"load_config": '{"CPU": {"INFERENCE_NUM_THREADS": "2"}}'}
        # Even an ORT that repeats the option does not show that the EP, which ignores it there, knows of it.
        result = settings.confirm(self.session(**{OPENVINO: carried | {"num_of_threads": "2"}}), wanted)
        self.assertEqual(result.provider_options, {OPENVINO: {}})
        self.assertEqual(result.unconfirmed, {OPENVINO: {"num_of_threads": "2"}})
        with self.assertRaisesRegex(RuntimeError, "'load_config'.*but ORT reports '{}'"):
            settings.confirm(self.session(**{OPENVINO: {"load_config": "{}"}}), wanted)


class OperatorsTest(unittest.TestCase):
    def test_the_most_frequent(self):
        for count, end in ((5, "op4 1"), (6, "and 1 other operator"), (7, "and 2 other operators")):
            operators = {f"op{number}": 1 for number in range(count)}
            self.assertEqual(nodes.most_frequent(operators).split(", ")[-1], end)


if __name__ == "__main__":
    unittest.main()
