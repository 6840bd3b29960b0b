# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of allowlist/look_up.py with hostile input. No session is created."""

from __future__ import annotations

import unittest

import numpy as np
from helpers.allowlist import NEWEST, permit, run_attributes, run_config, session_attributes, session_config
from helpers.hostile_values import Int, Loud, NumpyStr, Str

from onnxruntime.backend import errors
from onnxruntime.backend.allowlist import look_up, providers
from onnxruntime.backend.allowlist.facts import Process, SessionFacts
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES

_DISABLED = "optimization.disable_specified_optimizers"
_SHRINKAGE = "memory.enable_memory_arena_shrinkage"
_SPIN = "session.intra_op.spin_duration_us"


class TestAttributes(unittest.TestCase):
    def test_names_of_the_other_class_and_unknown_names_are_left_out(self):
        for name in ("terminate", "training_mode", "only_execute_path_to_fetches", "no_such_thing", "_secret"):
            self.assertEqual(session_attributes({name: True}), {})
        for name in ("enable_profiling", "optimized_model_filepath", "no_such_thing"):
            self.assertEqual(run_attributes({name: True}), {})

    def test_names_are_exact_str(self):
        for name in (Str("no_such_thing"), None, 1, b"logid"):
            with self.assertRaisesRegex(RuntimeError, "must be a str"):
                session_attributes({name: True})


class TestSessionAndRunConfig(unittest.TestCase):
    def assert_refused(self, given: dict, reason: str = "", *, at: Process = NEWEST, run: bool = False) -> None:
        """Check the refusal of the last key of a configuration."""
        *_, key = given
        with self.assertRaises(errors.NotPermittedError) as raised:
            (run_config if run else session_config)(given, at)
        refusal = raised.exception
        self.assertEqual((refusal.keyword, refusal.key), ("run_config" if run else "session_config", key))
        self.assertIn(reason, refusal.reason)
        self.assertTrue(str(refusal).isascii() and str(refusal).isprintable(), str(refusal))

    def test_permitted_entries_are_rendered_in_order(self):
        given = {_SPIN: "0500", "session.disable_prepacking": np.True_, "session.gqa_value_layout": "BNHS"}
        entries = session_config(given, NEWEST)
        expected = [(_SPIN, "500"), ("session.disable_prepacking", "1"), ("session.gqa_value_layout", "BNHS")]
        self.assertEqual(list(entries.items()), expected)
        self.assertTrue(all(type(item) is str for pair in entries.items() for item in pair))
        self.assertEqual(run_config({"gpu_graph_id": np.int8(-1)}, NEWEST), {"gpu_graph_id": "-1"})
        self.assertEqual(session_config({}, NEWEST), {})

    def test_no_foreign_code_runs_in_messages(self):
        for value, shown in ((Loud(), "Loud"), (Loud, "LoudType"), (type("a\nb" + "x" * 200, (), {})(), "a\\nbxxx")):
            self.assert_refused({"session.disable_prepacking": value}, f"of type {shown}")

    def test_values_are_shown_escaped_and_cut(self):
        self.assertEqual(errors.show("a\n\u202e\ud800"), r"'a\n\u202e\ud800'")
        for value in ("x" * 10**6, "\U0001f600" * 100, b"\xff" * 1000, 10**10_000, -(10**37), 1e308, "'" * 100):
            self.assertLessEqual(len(errors.show(value)), 80)
        self.assertEqual([errors.show("a" * size)[-3:] for size in (78, 79)], ["aa'", "..."])
        self.assertEqual([errors.show(2**bits)[-5:] for bits in (127, 128)], ["05728", " bits"])
        self.assertEqual(len(errors.type_name(type("x" * 61, (), {})())), 60)

    def test_needs(self):
        arm, old = NEWEST._replace(machine="arm64"), NEWEST._replace(release=(1, 24))
        cuda = NEWEST._replace(providers=("CUDAExecutionProvider",))
        openvino = NEWEST._replace(providers=("OpenVINOExecutionProvider",))
        qnn = NEWEST._replace(providers=("QNNExecutionProvider",))
        with_cpu = NEWEST._replace(providers=("OpenVINOExecutionProvider", "CPUExecutionProvider"))
        for key, value, enough, missing in (
            ("mlas.disable_kleidiai", "1", arm, NEWEST),
            ("mlas.qnbit.force_fp32", "1", NEWEST, arm),
            ("mlas.use_lut_gemm", "1", NEWEST, arm),
            ("session.x64quantprecision", "1", NEWEST._replace(machine="AMD64"), arm),
            ("session.disable_model_compile", "1", openvino, cuda),
            ("session.disable_cpu_ep_fallback", "1", openvino, NEWEST),
            ("session.disable_cpu_ep_fallback", "1", openvino, with_cpu),
            ("session.disable_cpu_ep_fallback", "1", openvino, NEWEST._replace(providers=())),
            ("session.use_device_allocator_for_initializers", "1", cuda, openvino),
            ("session.layer_assignment_settings", "gpu:1(=a.b/c,d)", cuda, NEWEST),
            ("session.name_based_layer_assignment", "npu(a);cpu(b)", qnn, cuda),
            (_DISABLED, "ConstantFolding;NotWhereFusion", NEWEST, old),
            (_DISABLED, "ConstantFolding", old, old._replace(release=(1, 23))),
            (_SHRINKAGE, "cpu:0;gpu:0", cuda, NEWEST),
            (_SHRINKAGE, "gpu:0", cuda, NEWEST),
        ):
            with self.subTest(key=key, value=value):
                run = key == _SHRINKAGE
                self.assertEqual((run_config if run else session_config)({key: value}, enough), {key: value})
                self.assert_refused({key: value}, "it requires ", at=missing, run=run)
        for value in ("cpu", "cpu:", "cpu:1", "CPU:0", "cpu:0;", "cpu:0 ", "gpu:100", "", "disk:0"):
            self.assert_refused({_SHRINKAGE: value}, "invalid value", at=cuda, run=True)

    def test_a_permit_cannot_change(self):
        permitted = permit(session_config={"session.disable_prepacking": 1})
        for field in permitted._fields:
            with self.assertRaises(AttributeError):
                setattr(permitted, field.name, {})

    def test_a_session_without_an_arena(self):
        cuda = NEWEST._replace(providers=("CUDAExecutionProvider",))
        gpu = {_SHRINKAGE: "gpu:0"}
        self.assertEqual(run_config(gpu, cuda, enable_cpu_mem_arena=False), gpu)
        for value in ("cpu:0", "gpu:0;cpu:0"):
            with self.assertRaisesRegex(RuntimeError, "it requires a memory arena"):
                run_config({_SHRINKAGE: value}, cuda, enable_cpu_mem_arena=False)

    def test_memory_of_captured_graphs(self):
        gpus = ("CUDAExecutionProvider", "CPUExecutionProvider")
        for ep, option in CAPTURE_SWITCHES.items():
            for text in ("1", "True", "0", "False"):
                facts = SessionFacts(NEWEST, gpus, {ep: {option: text}})
                for value in ("cpu:0", "gpu:0", "cpu:0;gpu:0", "gpu:1;cpu:0"):
                    entries = look_up.Allowlist(NEWEST).settings("run_config", {"run_config": {_SHRINKAGE: value}})
                    with self.subTest(ep, text=text, value=value):
                        if value == "cpu:0" or text in ("0", "False"):
                            look_up.check_conditions({"run_config": entries}, facts)
                            continue
                        with self.assertRaisesRegex(RuntimeError, "captures graphs. Otherwise, a replay uses"):
                            look_up.check_conditions({"run_config": entries}, facts)

    def test_keys_with_a_prefix(self):
        keys = ["session.intra_op.session_disable_prepacking"]  # similar to a key, but to no key with the prefix
        keys += [f"session.intra_op.knob_{letter}" for letter in "abcdefghijklmnop"]
        entries = dict.fromkeys(keys, True)
        permitted = permit(session_config=entries)
        self.assertEqual(permitted.session_config.texts, dict.fromkeys(keys, "1"))
        self.assertEqual([*permitted.without_effect["session_config"]], keys)
        for sentence in permitted.without_effect["session_config"].values():
            self.assertIn("may have no effect", sentence)
        both = {keys[0]: 64, "session.inter_op.knob": False}
        self.assertEqual(session_config(both), {keys[0]: "64", "session.inter_op.knob": "0"})
        for value in (65, -1, "x", "/tmp", 1.0, None, Int(1)):
            self.assert_refused({keys[0]: value}, "invalid value")

    def test_keys_that_do_not_match_a_prefix(self):
        for rest in ("", "A", "a1", "a.b", "a-b", "a b", "a\n", "a\0", "\u00e9", "a" * 41):
            self.assert_refused({f"session.intra_op.{rest}": 1}, "unknown")
        for key in ("knob", "a", "intra_op", "session_intra_op_knob"):  # without the prefix
            self.assert_refused({key: 1}, "unknown ")
        for rest in ("intra_op", "intra_op_thread_affinities", "intraxop.a"):
            self.assert_refused({f"session.{rest}": 1})
        # These are probably misspelt names of known keys.
        for rest in ("intra_op.allow_spining", "inter_op.allow_spin", "intra_op.spin_duration_ms"):
            self.assert_refused({f"session.{rest}": 1})
        # A prefix does not permit a key of a later release.
        self.assert_refused({_SPIN: 1}, "it requires ORT 1.26", at=NEWEST._replace(release=(1, 25)))


class TestProviderOptions(unittest.TestCase):
    def test_refusals_state_the_ep_and_the_option(self):
        cpu, cuda = "CPUExecutionProvider", "CUDAExecutionProvider"
        near = (f"{cpu}\0", f" {cpu}", f"{cpu}\n", cpu.lower(), "CudaExecutionProvider", "\ud800", "x" * 100_000, "")
        others = (None, cpu.encode(), 1, Str(cpu), NumpyStr(cpu), (cpu,), Str(cuda))
        for given, provider, key in (
            ({cuda: {"device_id": 64}}, cuda, "device_id"),
            ({cuda: {"device_idd": 0}}, cuda, "device_idd"),
            ({cuda: {"device_id\0": 0}}, cuda, "device_id\0"),
            ({cuda: {"gpu_graph_id": 0}}, cuda, "gpu_graph_id"),
            ({cuda: dict.fromkeys(map(str, range(257)))}, cuda, ""),
            ({cuda: {Str("device_id"): 0}}, cuda, ""),
            ({cpu: {"device_id": 1}}, cpu, "device_id"),
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

    def test_each_kind_of_an_ep_permits_its_own_options(self):
        """An EP that is not available permits the options of all its kinds. The other EPs make no difference."""
        values, different = ((True, False, 1, 2, 16, "CPU", "FP32", "NCHW", "htp", "low", "DEFAULT"), set())
        at = Process(providers=("CPUExecutionProvider", "OpenVINOExecutionProvider", "CUDAExecutionProvider"))
        for ep, kinds in providers.PROVIDERS.items():
            for option in {option for table in kinds.values() for option in table}:
                for value in values:
                    given = {"provider_options": {ep: {option: value}}}
                    of_kind = {kind: self.permits(NEWEST, kind, given) for kind in kinds}
                    different.update((ep,) if len({*of_kind.values()}) > 1 else ())
                    with self.subTest(ep, option=option, value=value):
                        self.assertEqual(self.permits(NEWEST, "", given), any(of_kind.values()))
                        for kind, permitted in of_kind.items():
                            beside = at._replace(release=NEWEST.release)
                            self.assertEqual(self.permits(beside, kind, given), permitted)
        prefixes = ("CUDA", "OpenVINO", "QNN", "WebGpu")  # docs/security.md lists them
        self.assertEqual(different, {f"{prefix}ExecutionProvider" for prefix in prefixes})

    def permits(self, at: Process, kind: str, given: dict) -> bool:
        try:
            permit(at, kind, **given)
        except errors.NotPermittedError:
            return False
        return True


if __name__ == "__main__":
    unittest.main()
