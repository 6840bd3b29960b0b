# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of allowlist/look_up.py with hostile input. No session is created."""

import unittest
import warnings

import _above
import numpy as np
from helpers.allowlist import NEWEST, permit, run_attributes, run_config, session_attributes, session_config
from helpers.hostile_values import Int, Loud, NumpyStr, Str

from onnxruntime.backend import errors
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.tables import PROVIDERS

CPU, CUDA, OPENVINO = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "OpenVINO"))
PREPACKING = "session.disable_prepacking"
SPIN = "session.intra_op.spin_duration_us"


class TestAttributes(unittest.TestCase):
    def test_names_of_the_other_class_and_unknown_names_are_left_out(self):
        with warnings.catch_warnings(action="ignore"):
            for name in ("terminate", "training_mode", "only_execute_path_to_fetches", "no_such_thing", "_secret"):
                self.assertEqual(session_attributes({name: True}), {})
            for name in ("enable_profiling", "optimized_model_filepath", "no_such_thing"):
                self.assertEqual(run_attributes({name: True}), {})


class TestEntries(unittest.TestCase):
    def assert_refused(self, given: dict, reason: str = "", at: Process = NEWEST) -> None:
        with self.subTest([*given]), self.assertRaises(errors.NotPermittedError) as raised:
            session_config(given, at)
        refusal = raised.exception
        self.assertEqual((refusal.keyword, refusal.key), ("session_config", *given))
        self.assertIn(reason, refusal.reason)
        self.assertTrue(str(refusal).isascii() and str(refusal).isprintable(), str(refusal))

    def test_permitted_entries_are_rendered_in_order(self):
        entries = session_config({SPIN: "0500", PREPACKING: np.True_, "session.gqa_value_layout": "BNHS"})
        expected = [(SPIN, "500"), (PREPACKING, "1"), ("session.gqa_value_layout", "BNHS")]
        self.assertEqual(list(entries.items()), expected)
        self.assertTrue(all(type(item) is str for pair in entries.items() for item in pair))
        self.assertEqual(run_config({"gpu_graph_id": np.int8(-1)}), {"gpu_graph_id": "-1"})
        self.assertEqual(session_config({}), {})

    def test_no_foreign_code_runs_in_messages(self):
        for value, shown in ((Loud(), "Loud"), (Loud, "LoudType"), (type("a\nb" + "x" * 200, (), {})(), "a\\nbxxx")):
            self.assert_refused({PREPACKING: value}, f"of type {shown}")

    def test_values_are_shown_escaped_and_cut(self):
        self.assertEqual(errors.show("a\n\u202e\ud800"), r"'a\n\u202e\ud800'")
        for value in ("x" * 10**6, "\U0001f600" * 100, b"\xff" * 1000, 10**10_000, -(10**37), 1e308, "'" * 100):
            self.assertLessEqual(len(errors.show(value)), 80)
        self.assertEqual([errors.show("a" * size)[-3:] for size in (78, 79)], ["aa'", "..."])
        self.assertEqual([errors.show(2**bits)[-5:] for bits in (127, 128)], ["05728", " bits"])
        self.assertEqual(len(errors.type_name(type("x" * 61, (), {})())), 60)

    def test_a_permit_cannot_change(self):
        permitted = permit(session_config={PREPACKING: 1})
        for field in permitted._fields:
            with self.assertRaises(AttributeError):
                setattr(permitted, field, {})

    def test_keys_with_a_prefix(self):
        keys = ["session.intra_op.session_disable_prepacking"]  # similar to a key, but to no key with the prefix
        keys += [f"session.inter_op.knob_{letter}" for letter in "abcdefghijklmnop"]
        permitted = permit(session_config=dict.fromkeys(keys, True))
        self.assertEqual(permitted.session_config.texts, dict.fromkeys(keys, "1"))
        self.assertEqual([*permitted.without_effect["session_config"]], keys)
        for sentence in permitted.without_effect["session_config"].values():
            self.assertIn("may have no effect", sentence)
        self.assertEqual(session_config({keys[0]: 64}), {keys[0]: "64"})
        for value in ("x", "/tmp", 1.0, None, Int(1)):
            self.assert_refused({keys[0]: value}, "invalid value")
        for rest in ("", "A", "a1", "a.b", "a-b", "a b", "a\n", "a\0", "\u00e9", "a" * 41):
            self.assert_refused({f"session.intra_op.{rest}": 1}, "unknown")
        for key in ("knob", "intra_op", "session_intra_op_knob", "session.intra_op", "session.intraxop.a"):
            self.assert_refused({key: 1}, "unknown")
        # These are probably misspelt names of known keys.
        for rest in ("intra_op.allow_spining", "inter_op.allow_spin", "intra_op.spin_duration_ms"):
            self.assert_refused({f"session.{rest}": 1}, "Did you mean")

    def test_releases(self):
        """A prefix does not permit a key of a later release, either."""
        self.assert_refused({SPIN: 1}, "it requires ORT 1.26", NEWEST._replace(release=(1, 25)))
        for option, permitted, refused, reason in (
            ("enable_skip_layer_norm_strict_mode", [(1, 27)], [(1, 28), NEWEST.release], "ignores it, as all releases"),
            ("enable_cudnn", [(1, 31)], [(1, 30)], r"it requires ORT 1\.31"),
        ):
            options = {CUDA: {option: 1}}
            for release in permitted:
                permit(NEWEST._replace(release=release), provider_options=options)
            for release in refused:
                with self.assertRaisesRegex(errors.NotPermittedError, reason):
                    permit(NEWEST._replace(release=release), provider_options=options)


class TestProviderOptions(unittest.TestCase):
    def test_refusals_state_the_ep_and_the_option(self):
        near = (f"{CPU}\0", f" {CPU}", f"{CPU}\n", CPU.lower(), "CudaExecutionProvider", "\ud800", "x" * 100_000, "")
        others = (None, CPU.encode(), 1, Str(CPU), NumpyStr(CPU), (CPU,))
        for given, provider, key in (
            ({CUDA: {"device_idd": 0}}, CUDA, "device_idd"),
            ({CUDA: {"device_id\0": 0}}, CUDA, "device_id\0"),
            ({CUDA: {"gpu_graph_id": 0}}, CUDA, "gpu_graph_id"),
            ({CUDA: dict.fromkeys(map(str, range(257)))}, CUDA, ""),
            ({CUDA: {Str("device_id"): 0}}, CUDA, ""),
            ({CPU: {"device_id": 1}}, CPU, "device_id"),
            *(({name: {}}, name, "") for name in near),
            *(({name: {}}, "", "") for name in others),
        ):
            with self.subTest(provider=provider[:30], key=key):
                with self.assertRaises(errors.NotPermittedError) as refused:
                    permit(kind="", provider_options=given)
                refusal = refused.exception
                self.assertEqual((refusal.keyword, refusal.provider, refusal.key), ("provider_options", provider, key))
                self.assertTrue(str(refusal).isascii())
                self.assertLess(len(str(refusal)), 1000)

    def test_plugins_without_a_table(self):
        for name in (CPU, CUDA, "AzureExecutionProvider", "SomeExecutionProvider"):
            self.assertEqual(permit(kind="plugin", provider_options={name: {}}).providers[name], {})
        some = permit(kind="plugin", provider_options={"SomeExecutionProvider": {"device_id": 1}})
        self.assertEqual(some.providers["SomeExecutionProvider"].texts, {"device_id": "1"})

    def test_an_absent_ep_permits_the_options_of_all_its_kinds(self):
        """An EP of the process permits those of its kind only, whatever other EPs there are."""
        beside = NEWEST._replace(providers=(CPU, OPENVINO, CUDA))
        for ep, option, value, kinds in (
            (OPENVINO, "device_type", "GPU", ["built-in"]),
            (OPENVINO, "device_id", 1, ["plugin"]),
            (CUDA, "use_tf32", 0, ["built-in"]),
            ("WebGpuExecutionProvider", "enableGraphCapture", True, ["plugin"]),
            ("QNNExecutionProvider", "vtcm_mb", 8, ["plugin"]),
        ):
            for kind in ("built-in", "plugin", ""):
                for at in (NEWEST, beside):
                    with self.subTest(ep, option=option, kind=kind):
                        permitted = self.permits(at, kind, {"provider_options": {ep: {option: value}}})
                        self.assertEqual(permitted, kind in (*kinds, ""))

        two_kinds = {ep.removesuffix("ExecutionProvider") for ep, kinds in PROVIDERS.items() if len(kinds) > 1}
        self.assertEqual(two_kinds, {"CUDA", "OpenVINO", "QNN", "WebGpu"})  # docs/security.md lists them

    def permits(self, at: Process, kind: str, given: dict) -> bool:
        try:
            permit(at, kind, **given)
        except errors.NotPermittedError:
            return False
        return True


if __name__ == "__main__":
    unittest.main()
