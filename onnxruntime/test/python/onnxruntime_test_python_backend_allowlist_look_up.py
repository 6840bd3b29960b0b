# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of allowlist/look_up.py with hostile input. No session is created."""

from __future__ import annotations

import unittest
import warnings
from unittest import mock

import numpy as np
from backend_test_allowlist import NEWEST, permit, run_attributes, run_config, session_attributes, session_config
from backend_test_hostile_values import Int, Loud, NumpyInt, NumpyStr, Str

from onnxruntime import ExecutionMode, RunOptions, SessionOptions
from onnxruntime.backend import errors
from onnxruntime.backend.allowlist import look_up, providers, value_kinds
from onnxruntime.backend.allowlist.ort_options import RUN_ATTRIBUTES, RUN_CONFIG, SESSION_ATTRIBUTES, SESSION_CONFIG
from onnxruntime.backend.allowlist.rules import Circumstances, Need
from onnxruntime.backend.allowlist.value_kinds import Integer, Member, Text, Threads
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES

_SPIN = "session.intra_op.spin_duration_us"


class TestAttributes(unittest.TestCase):
    def test_every_permitted_attribute_is_one_and_takes_its_value(self):
        other = {Integer: 3, Threads: 3, Text: "worker-7"}
        only_default = ("log_verbosity_level", "enable_profiling", "terminate")
        for owner, table, find, count in (
            (SessionOptions, SESSION_ATTRIBUTES, session_attributes, 14),
            (RunOptions, RUN_ATTRIBUTES, run_attributes, 5),
        ):
            self.assertEqual(len(table), count)
            for name, rule in table.items():
                with self.subTest(name=name):
                    options = owner()
                    default = getattr(options, name)
                    self.assertEqual(getattr(default, "name", str(default)), rule.default)
                    value = other.get(type(rule.kind), not default)
                    if type(rule.kind) is Member:
                        value = next(v for v in type(default).__members__.values() if v != default)
                        self.assertEqual(find({name: value.name}), {name: value})
                    if name in only_default:
                        value = default
                    setattr(options, name, find({name: value})[name])
                    self.assertEqual(getattr(options, name), value)
                    self.assertEqual(value == default, name in only_default)

    def test_names_of_the_other_class_and_unknown_names_are_left_out(self):
        for name in ("terminate", "training_mode", "only_execute_path_to_fetches", "no_such_thing", "_secret"):
            self.assertEqual(session_attributes({name: True}), {})
        for name in ("enable_profiling", "optimized_model_filepath", "no_such_thing"):
            self.assertEqual(run_attributes({name: True}), {})

    def test_an_attribute_of_a_later_release(self):
        for owner, find in ((SessionOptions, session_attributes), (RunOptions, run_attributes)):
            with (
                mock.patch.object(owner, "later", 1, create=True),
                self.assertRaises(errors.NotPermittedError) as raised,
            ):
                find({"later": 1})
            self.assertEqual(raised.exception.keyword, "later")

    def test_names_are_exact_str(self):
        for name in (Str("no_such_thing"), None, 1, b"logid"):
            with self.assertRaisesRegex(RuntimeError, "must be a str"):
                session_attributes({name: True})


class TestSessionAndRunConfig(unittest.TestCase):
    def assert_refused(
        self, given: object, reason: str = "", *, at: Circumstances = NEWEST, run: bool = False, key: str = ""
    ) -> errors.NotPermittedError:
        """Check the class, the keyword and the key of the refusal, and a part of its reason if only that differs.

        :param key: the key, if ``given`` does not consist of this key alone.
        """
        find = run_config if run else session_config
        with self.assertRaises(errors.NotPermittedError) as raised:
            find(given, at)
        refusal = raised.exception
        self.assertEqual(refusal.keyword, "run_config" if run else "session_config")
        if type(given) is dict and len(given) == 1 and type(next(iter(given))) is str:
            (key,) = given
        self.assertEqual(refusal.key, key)
        self.assertIn(reason, refusal.reason)
        self.assertTrue(str(refusal).isascii() and str(refusal).isprintable(), str(refusal))
        return refusal

    def test_permitted_entries_are_rendered_in_order(self):
        given = {_SPIN: "0500", "session.disable_prepacking": np.True_, "session.gqa_value_layout": "BNHS"}
        entries = session_config(given, NEWEST)
        expected = [(_SPIN, "500"), ("session.disable_prepacking", "1"), ("session.gqa_value_layout", "BNHS")]
        self.assertEqual(list(entries.items()), expected)
        self.assertTrue(all(type(item) is str for pair in entries.items() for item in pair))
        self.assertEqual(run_config({"gpu_graph_id": np.int8(-1)}, NEWEST), {"gpu_graph_id": "-1"})
        self.assertEqual(session_config({}, NEWEST), {})

    def test_keys_that_are_not_exact(self):
        right = "session.disable_prepacking"
        for key in (right.upper(), f" {right}", *(right + end for end in (" ", "\n", "\0", "\0x", "\ud800"))):
            self.assert_refused({key: "1"}, f"Did you mean '{right}'?")
        for key in ("", "\0", "\ud800", "x" * 10**6, right * 1000, "session.", "session.intra_op.", "optimization."):
            self.assertNotIn("Did you mean", self.assert_refused({key: "1"}, "unknown ").reason)
        for key in (Str(right), NumpyStr(right), np.str_(right), right.encode(), None, 1, True, 1.0, (right,)):
            self.assert_refused({key: "1"}, "must be a str", key=errors.show(key))

    def test_values_that_are_not_exact(self):
        """The tests of the value kinds have all values that a kind refuses."""
        for value in (None, "true", "\ud800", "x" * 10**6, "1" * 10_000, 10**400, Str("1"), NumpyInt(1), {}, Loud()):
            for key in ("session.disable_prepacking", "session.dynamic_block_base"):
                self.assertLess(len(str(self.assert_refused({key: value}, "invalid value"))), 400)

    def test_no_foreign_code_runs_in_messages(self):
        self.assert_refused({"session.disable_prepacking": Loud()}, "of type Loud")
        self.assert_refused({"session.disable_prepacking": Loud}, "of type LoudType")
        with self.assertRaisesRegex(TypeError, "must be a mapping such as a dict, not Loud"):
            run_config(Loud(), NEWEST)
        evil = type("a\nb" + "x" * 200, (), {})
        self.assert_refused({"session.disable_prepacking": evil()}, "of type a\\nbxxx")

    def test_values_are_shown_escaped_and_cut(self):
        self.assertEqual(errors.show("a\n\u202e\ud800"), r"'a\n\u202e\ud800'")
        for value in ("x" * 10**6, "\U0001f600" * 100, b"\xff" * 1000, 10**10_000, -(10**37), 1e308, "'" * 100):
            self.assertLessEqual(len(errors.show(value)), 80)
        self.assertEqual(errors.show("a" * 78), "'" + "a" * 78 + "'")

    def test_a_key_of_another_keyword_is_refused_with_its_place(self):
        self.assert_refused({"gpu_graph_id": 1}, "belongs in run_config")
        self.assert_refused({_SPIN: 1}, "belongs in session_config", run=True)
        for run in (False, True):
            self.assert_refused({"intra_op_num_threads": 1}, "belongs in session_options", run=run)
        self.assert_refused({"use_tf32": 1}, "Pass it in provider_options")
        self.assert_refused({"session.intra_op_num_threads": 1}, "Pass intra_op_num_threads")

    def test_every_key_in_the_family_ep_is_refused(self):
        for rest in ("", "x", "openvinoexecutionprovider.dump_subgraphs", "cuda.new", "dynamic.workload_type"):
            self.assert_refused({f"ep.{rest}": "1"})
        self.assert_refused({"ep.qnnexecutionprovider.backend_path": "x"}, "provider_options")
        # An exact entry has its own reason.
        self.assert_refused({"ep.context_enable": "1"}, "writes files")

    def test_release(self):
        for key, rule in (SESSION_CONFIG | RUN_CONFIG).items():
            if rule.since > (1, 24):
                needed = ".".join(map(str, rule.since))
                before = NEWEST._replace(release=(1, rule.since[1] - 1))
                with self.subTest(key=key):
                    self.assert_refused({key: "1"}, f"requires ORT {needed}", at=before)

    def test_optimizers_of_the_release(self):
        key = "optimization.disable_specified_optimizers"
        old = NEWEST._replace(release=(1, 24))
        both = {key: "ConstantFolding;NotWhereFusion"}
        self.assertEqual(session_config(both, NEWEST), both)
        self.assertEqual(session_config({key: "ConstantFolding"}, old), {key: "ConstantFolding"})
        self.assert_refused(both, "optimizers of this ORT release", at=old)
        self.assert_refused({key: "ConstantFolding,NotWhereFusion"}, "invalid value")

    def test_needs(self):
        arm = NEWEST._replace(machine="arm64")
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
        ):
            with self.subTest(key=key, value=value):
                self.assertEqual(session_config({key: value}, enough), {key: value})
                self.assert_refused({key: value}, "it requires ", at=missing)
        shrink, no_arena = "memory.enable_memory_arena_shrinkage", {"attributes": {"enable_cpu_mem_arena": False}}
        for value, enough, missing in (
            ("cpu:0", NEWEST, NEWEST._replace(**no_arena)),
            ("cpu:0;gpu:0", cuda, NEWEST),
            ("gpu:0", cuda, NEWEST),
            ("gpu:0;cpu:0", cuda, cuda._replace(**no_arena)),
        ):
            self.assertEqual(run_config({shrink: value}, enough), {shrink: value})
            self.assert_refused({shrink: value}, "a memory arena for each device", at=missing, run=True)
        for value in ("cpu", "cpu:", "cpu:1", "CPU:0", "cpu:0;", "cpu:0 ", "gpu:100", "", "disk:0"):
            self.assert_refused({shrink: value}, "invalid value", at=cuda, run=True)

    def test_memory_of_captured_graphs(self) -> None:
        key = "memory.enable_memory_arena_shrinkage"
        gpus = NEWEST._replace(providers=("CUDAExecutionProvider", "CPUExecutionProvider"))
        for ep, option in CAPTURE_SWITCHES.items():
            for text in ("1", "True", "0", "False"):
                at = gpus._replace(options={ep: {option: text}})
                for value in ("cpu:0", "gpu:0", "cpu:0;gpu:0", "gpu:1;cpu:0"):
                    if value == "cpu:0" or text in ("0", "False"):
                        self.assertEqual(look_up.entries("run_config", {key: value}, at)[0], {key: value})
                    else:
                        with self.assertRaisesRegex(RuntimeError, f"{key}.*captures graphs. Otherwise, a replay uses"):
                            look_up.entries("run_config", {key: value}, at)

    def test_families(self):
        at = NEWEST._replace(attributes={"execution_mode": ExecutionMode.ORT_PARALLEL})
        keys = [f"session.intra_op.knob_{letter}" for letter in "abcdefghijklmnopq"]
        permitted = permit(at, session_config=dict.fromkeys(keys[:16], True))
        self.assertEqual(permitted.session_config, dict.fromkeys(keys[:16], "1"))
        self.assertEqual([*permitted.without_effect["session_config"]], keys[:16])
        for sentence in permitted.without_effect["session_config"].values():
            self.assertIn("cannot confirm that it has an effect", sentence)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self.assert_refused(dict.fromkeys(keys, 1), at=at, key=keys[16])
            # Exact keys do not count as members.
            self.assertEqual(len(session_config({**dict.fromkeys(keys[:16], 1), _SPIN: 1}, at)), 17)
            both = {keys[0]: 64, "session.inter_op.knob": False}
            self.assertEqual(session_config(both, at), {keys[0]: "64", "session.inter_op.knob": "0"})
            for value in (65, -1, "x", "/tmp", 1.0, None, Int(1)):
                self.assert_refused({keys[0]: value}, "invalid value")

    def test_keys_that_do_not_match_a_family(self):
        for rest in ("", "A", "a1", "a.b", "a-b", "a b", "a\n", "a\0", "\u00e9", "a" * 41):
            self.assert_refused({f"session.intra_op.{rest}": 1}, "unknown ")
        for key in (
            "session.intra_op",
            "session.intra_op_thread_affinities",
            "session.intraxop.a",
            "Session.intra_op.a",
        ):
            self.assert_refused({key: 1})
        # A family does not permit a key of a later release.
        self.assert_refused({_SPIN: 1}, "it requires ORT 1.26", at=NEWEST._replace(release=(1, 25)))


class TestProviderOptions(unittest.TestCase):
    def find(self, given: object, at: Circumstances = NEWEST):
        return permit(at, "built-in" if "CUDAExecutionProvider" in given else "", provider_options=given).providers

    def assert_refused(self, given: object, provider: str, key: str) -> errors.NotPermittedError:
        with (
            self.subTest(provider=ascii(provider)[:30], key=key),
            self.assertRaises(errors.NotPermittedError) as raised,
        ):
            self.find(given)
        refusal = raised.exception
        self.assertEqual((refusal.keyword, refusal.provider, refusal.key), ("provider_options", provider, key))
        return refusal

    def test_refusals_state_the_ep_and_the_option(self):
        cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
        for given, provider, key in (
            ({cuda: {"device_id": 64}}, cuda, "device_id"),
            ({cuda: {"device_idd": 0}}, cuda, "device_idd"),
            ({cuda: {"device_id\0": 0}}, cuda, "device_id\0"),
            ({cuda: {"gpu_graph_id": 0}}, cuda, "gpu_graph_id"),
            ({"CUDAExecutionprovider": {}}, "CUDAExecutionprovider", ""),
            ({cuda: dict.fromkeys(map(str, range(257)))}, cuda, ""),
            ({cuda: {Str("device_id"): 0}}, cuda, "a value of type Str"),
            ({cpu: {"use_arena": 1}}, cpu, "use_arena"),
            ({cpu: {"device_id": 1}}, cpu, "device_id"),
        ):
            self.assert_refused(given, provider, key)

    def test_names_that_are_not_exact(self):
        cpu = "CPUExecutionProvider"
        near = (f"{cpu}\0", f" {cpu}", f"{cpu}\n", cpu.lower(), "CudaExecutionProvider")
        for name in (*near, "\ud800", "x" * 100_000, ""):
            text = str(self.assert_refused({name: {}}, name, ""))
            self.assertTrue(text.isascii())
            self.assertLess(len(text), 1000)
        for name in (None, cpu.encode(), 1, Str(cpu), NumpyStr(cpu), (cpu,), Str("CUDAExecutionProvider")):
            self.assert_refused({name: {}}, "", errors.show(name))

    def test_the_verdict_on_an_ep_that_is_not_available(self):
        """The tables of all kinds of the EP decide. Another module reports that the EP is not available."""
        for given in ({"CPUExecutionProvider": {}}, {"CUDAExecutionProvider": {"use_tf32": 0}}):
            permitted = permit(kind="", provider_options=given)
            self.assertEqual(permitted.kinds, {})
        self.assertEqual(permitted.providers["CUDAExecutionProvider"]["use_tf32"].text, "0")
        qnn = "QNNExecutionProvider"  # its plugin permits this option, and its built-in EP does not
        permitted = permit(kind="", provider_options={qnn: {"device_id": 1}})
        self.assertEqual(permitted.providers[qnn]["device_id"].text, "1")
        for option, reason in (("user_compute_stream", "raw pointer"), ("no_such", "unknown ")):
            with self.assertRaisesRegex(errors.NotPermittedError, reason):
                permit(kind="", provider_options={"CUDAExecutionProvider": {option: 1}})

    @mock.patch.object(value_kinds, "usable_cores", lambda: 2)
    def test_each_kind_of_an_ep_permits_its_own_options(self):
        """An EP that is not available permits the options of all its kinds. The other EPs make no difference."""
        values, different = (True, False, 1, 2, 16, "CPU", "FP32", "NCHW", "htp", "low", "DEFAULT"), set()
        at = Circumstances.expected(("CPUExecutionProvider", "OpenVINOExecutionProvider", "CUDAExecutionProvider"))
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

    def permits(self, at: Circumstances, kind: str, given: dict) -> bool:
        try:
            permit(at, kind, **given)
        except errors.NotPermittedError:
            return False
        return True

    def test_the_condition_of_an_ep(self):
        cpu, need = "CPUExecutionProvider", Need("two cores", lambda *_: False, without="it blocks")
        with (
            mock.patch.dict(look_up.PROVIDER_NEEDS, {cpu: need}),
            self.assertRaises(errors.NotPermittedError) as raised,
        ):
            permit(provider_options={cpu: {}})
        refusal = raised.exception
        self.assertEqual((refusal.keyword, refusal.provider, refusal.key), ("provider_options", cpu, ""))
        self.assertEqual(refusal.reason, "it requires two cores. Otherwise, it blocks")

    def test_options_of_an_unknown_ep(self):
        with self.assertRaisesRegex(
            errors.NotPermittedError, "no options of this execution provider have been reviewed"
        ):
            permit(kind="plugin", provider_options={"UnheardOfExecutionProvider": {"x": 1}})


if __name__ == "__main__":
    unittest.main()
