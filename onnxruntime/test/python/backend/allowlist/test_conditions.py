# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the conditions of session and run config keys: settings without effect, and values that are refused."""

import textwrap
import unittest
import warnings
from collections.abc import Callable
from unittest import mock

import _above
import numpy as np
from helpers.allowlist import NEWEST, permit, session_config
from helpers.children import run_code
from helpers.models import two_nodes
from test_config_keys import OBSERVED, RELEASE, acts_here

import onnxruntime
from onnxruntime.backend import prepare
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.backend.errors import NotPermittedError

_CPU_ONLY = {"provider_options": {}}
_MODEL, _INPUT = two_nodes((2, 4)), np.ones((2, 4), np.float32)
_OPTIMIZERS, _MINIMAL = ("optimization.disable_specified_optimizers", "optimization.minimal_build_optimizations")
_GELU, _CASTS = ("optimization.enable_gelu_approximation", "optimization.enable_cast_chain_elimination")
_ACCURACY, _BLOCK = ("session.qdq_matmulnbits_accuracy_level", "session.qdq_matmulnbits_block_size")
_FUSED, _INT8, _X64 = ("session.enable_dq_matmulnbits_fusion", "session.qdqisint8allowed", "session.x64quantprecision")
# Entries, each with the keys that have no effect together with the entry.
CANCELING = {
    **{
        (f"session.{pool}.allow_spinning", "0"): [f"session.{pool}.spin_{of}" for of in ("duration_us", "backoff_max")]
        for pool in ("intra_op", "inter_op")
    },
    (_OPTIMIZERS, "GeluApproximation"): [_GELU],
    (_OPTIMIZERS, "CastChainElimination"): [_CASTS],
    (_OPTIMIZERS, "Level1_RuleBasedTransformer"): [_CASTS],
    (_OPTIMIZERS, "DQMatMulNBitsFusion"): [_FUSED],
    (_OPTIMIZERS, "QDQFinalCleanupTransformer"): ["session.enable_quant_qdq_cleanup"],
    (_OPTIMIZERS, "QDQSelectorActionTransformer"): [_ACCURACY, _BLOCK],
    (_OPTIMIZERS, "QDQS8ToU8Transformer"): [_INT8],
    (_OPTIMIZERS, "Avx2WeightS8ToU8Transformer"): [_X64],
    (_MINIMAL, "apply"): [_GELU, _INT8, _X64],
    ("session.disable_quant_qdq", "1"): [_FUSED, _ACCURACY, _BLOCK, _INT8],
    ("session.disable_prepacking", "1"): ["session.prepack.enable_parallel", "mlas.use_lut_gemm"],
}


class TestIdleThreads(unittest.TestCase):
    """Idle threads spin. If a session has more threads than the process has CPUs, they slow down other sessions."""

    def setUp(self):
        self.enterContext(mock.patch.object(threads, "CPUS", range(2)))

    def spinning(self, **keywords) -> tuple[list[str], list[str]]:
        """Return the value of the key of each pool in the session, and the texts of the warnings."""
        with warnings.catch_warnings(record=True, action="always") as given:
            rep = prepare(_MODEL, **_CPU_ONLY, **keywords)
        self.assertEqual(list(rep.warnings), [str(warning.message) for warning in given])
        prepare(_MODEL, **rep.configuration()).close()
        entry = rep.session.get_session_options().get_session_config_entry
        values = [_or_none(entry, f"session.{pool}.allow_spinning") for pool in ("intra_op", "inter_op")]
        return values, list(rep.warnings)

    def test_off_in_large_pools(self):
        self.assertEqual(self.spinning(), ([None, None], []))
        self.assertEqual(self.spinning(intra_op_num_threads=2), ([None, None], []))
        parallel = {"execution_mode": "ORT_PARALLEL", "inter_op_num_threads": 3}
        for keywords, expected in (
            ({"intra_op_num_threads": 3}, ["0", None]),
            ({"session_options": {"intra_op_num_threads": "16"}}, ["0", None]),
            ({"intra_op_num_threads": 2, **parallel}, [None, "0"]),
            ({"intra_op_num_threads": 3, **parallel}, ["0", "0"]),
        ):
            with self.subTest(keywords):
                values, given = self.spinning(**keywords)
                self.assertEqual(values, expected)
                self.assertEqual(len(given), 2 - expected.count(None))
                self.assertIn("exceeds the 2 CPUs", given[0])
        off = {"session.intra_op.allow_spinning": 0}
        self.assertEqual(self.spinning(intra_op_num_threads=3, session_config=off), (["0", None], []))

    def test_a_caller_cannot_switch_it_on(self):
        on = {"session.intra_op.allow_spinning": 1}
        self.assertEqual(self.spinning(intra_op_num_threads=2, session_config=on), (["1", None], []))
        with self.assertRaises(NotPermittedError) as refused:
            prepare(_MODEL, intra_op_num_threads=3, session_config=on)
        self.assertEqual(refused.exception.key, "session.intra_op.allow_spinning")
        if RELEASE >= (1, 26):
            _, given = self.spinning(intra_op_num_threads=3, session_config={"session.intra_op.spin_duration_us": 100})
            self.assertEqual(len(given), 2)


def _or_none(entry: Callable[[str], str], key: str) -> str | None:
    """Return an entry of session options, or ``None`` if they do not contain it."""
    try:
        return entry(key)
    except RuntimeError:
        return None


class TestWithoutEffect(unittest.TestCase):
    """Settings that have no effect in a session: accepted, warned about, and listed in ``rep.unconfirmed``."""

    def prepare(self, model: object = _MODEL, **keywords) -> tuple[OnnxRuntimeBackendRep, list[str]]:
        """Return a prepared model, and the texts of the warnings."""
        with warnings.catch_warnings(record=True, action="always") as given:
            rep = prepare(model, **{**_CPU_ONLY, **keywords})
        return rep, [str(warning.message) for warning in given]

    def assert_no_effect(self, keyword: str, name: str, **keywords) -> None:
        rep, (warning,) = self.prepare(**keywords)
        self.assertEqual({of: [*listed] for of, listed in rep.unconfirmed.items()}, {keyword: [name]})
        self.assertRegex(warning, f"{name}.* has no effect in this session: it requires ")
        self.assertEqual(rep.warnings, (warning,))
        np.testing.assert_array_equal(rep.run([_INPUT])[0], _INPUT)

    def assert_effect(self, model: object = _MODEL, **keywords) -> None:
        """Check that the backend neither warns nor lists a setting."""
        rep, given = self.prepare(model, **keywords)
        self.assertEqual((dict(rep.unconfirmed), given), ({}, []))

    def test_settings_that_depend_on_attributes(self):
        """Each setting has no effect beside the first attributes, and has one beside the others."""
        parallel = {"execution_mode": "ORT_PARALLEL"}
        one, two = {"intra_op_num_threads": 1}, {"intra_op_num_threads": 2}
        no_passes, basic, extended = (
            {"graph_optimization_level": f"ORT_{level}"} for level in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED")
        )
        for name, value, without, beside in (
            ("inter_op_num_threads", 2, {}, parallel),
            ("execution_mode", "ORT_PARALLEL", {"inter_op_num_threads": 1}, {}),  # ORT creates a sequential session
            ("session.inter_op.spin_duration_us", 100, {}, {**parallel, "inter_op_num_threads": 2}),
            ("session.intra_op.allow_spinning", True, one, two),
            ("session.dynamic_block_base", 4, one, two),
            ("optimization.enable_cast_chain_elimination", True, no_passes, extended),
            ("session.graph_optimizations_loop_level", 2, no_passes, extended),
            ("optimization.enable_gelu_approximation", True, basic, extended),
            ("session.enable_quant_qdq_cleanup", True, basic, extended),
            ("session.disable_qdq_constant_folding", True, {}, {}),  # has an effect with another entry
            ("enable_mem_pattern", True, parallel, {}),
        ):
            keyword = "session_config" if name in SESSION_CONFIG else "session_options"
            if keyword == "session_options" or SESSION_CONFIG[name].since <= RELEASE:
                with self.subTest(name):
                    self.assert_no_effect(keyword, name, **{keyword: {name: value}}, **without)
                    entries = OBSERVED[name].beside if name in OBSERVED else {}
                    self.assert_effect(**{keyword: {name: value, **entries}}, **beside)
        mode = prepare(_MODEL, inter_op_num_threads=1, **parallel).session.get_session_options().execution_mode
        self.assertEqual(mode, onnxruntime.ExecutionMode.ORT_SEQUENTIAL)

    def test_a_value_that_describes_the_session_causes_no_warning(self):
        """A worker with one thread for each session states both, and may treat warnings as errors."""
        threads = {"intra_op_num_threads": 1}
        for pool, keywords in (("intra_op", threads), ("inter_op", {}), ("inter_op", {"inter_op_num_threads": 1})):
            spinning = f"session.{pool}.allow_spinning"
            for value in (False, 0, "0"):
                self.assert_effect(session_config={spinning: value}, **keywords)
            self.assert_no_effect("session_config", spinning, session_config={spinning: True}, **keywords)
        for keywords in (
            {"enable_mem_pattern": False, "execution_mode": "ORT_PARALLEL"},
            {"inter_op_num_threads": 1},
            {"session_options": {"inter_op_num_threads": 1}},
            {"inter_op_num_threads": 0},
            {"session_config": {"session.force_spinning_stop": True}, **threads},
            {"session_config": {"session.dynamic_block_base": 0}, **threads},
            {"session_config": {"session.disable_quant_qdq": True}, "graph_optimization_level": "ORT_DISABLE_ALL"},
        ):
            with self.subTest(keywords):
                self.assert_effect(**keywords)

    def test_entries_that_cancel_each_other(self):
        """Each pair is observed: with the second entry, the first entry changes nothing."""
        for key, other, value in ((key, *entry) for entry, keys in CANCELING.items() for key in keys):
            rule, observation = SESSION_CONFIG[key], OBSERVED[key]
            # For keys whose observed value describes the session.
            asked = {"session.qdqisint8allowed": "0"}.get(key, observation.value)
            asked = {"0": "100", "65": "64"}.get(asked, asked) if "spin_" in key else asked
            if not (acts_here(rule) and acts_here(SESSION_CONFIG[other])):
                continue
            parallel = {"execution_mode": "ORT_PARALLEL", "inter_op_num_threads": 2, "intra_op_num_threads": 2}
            with self.subTest(key, other=other):
                if not key.endswith("spin_backoff_max"):  # ORT reports it, and the effect cannot be measured
                    with_other = {**observation.beside, other: value}
                    without = observation.look(with_other)
                    self.assertEqual(without, observation.look({**with_other, key: observation.value}))
                for config in ({key: asked, other: value}, {other: value, key: asked}):
                    self.assert_no_effect("session_config", key, session_config=config, **parallel)

    def test_a_graph_id_for_a_session_that_captures_no_graphs(self):
        self.assert_no_effect("run_config", "gpu_graph_id", run_config={"gpu_graph_id": 3})
        self.assert_effect(run_config={"gpu_graph_id": -1})

    def test_threads_of_a_session_on_the_global_pool(self):
        code = """
            import onnxruntime, onnxruntime.backend
            from helpers.models import two_nodes
            onnxruntime.set_global_thread_pool_sizes(2, 2)
            keys = ("intra_op.allow_spinning", "force_spinning_stop", "dynamic_block_base")
            config = {f"session.{key}": 1 for key in keys}
            keywords = {"intra_op_num_threads": 4, "use_per_session_threads": False, "session_config": config}
            found = onnxruntime.backend.prepare(two_nodes(), provider_options={}, **keywords).warnings
            assert len(found) == 4 and all("use_per_session_threads" in warning for warning in found), found
        """
        done = run_code(textwrap.dedent(code))
        self.assertEqual(done.returncode, 0, done.stderr)


def _at(*eps: str, **fields: object) -> Process:
    return NEWEST._replace(providers=tuple(f"{ep}ExecutionProvider" for ep in eps), **fields)


_SHRINKAGE = "memory.enable_memory_arena_shrinkage"
_LAYERS, _NAMES = ("session.layer_assignment_settings", "session.name_based_layer_assignment")
_BF16 = "mlas.enable_gemm_fastmath_arm64_bfloat16"
_ARM = _at("CPU", machine="arm64")
# Keys with a value, a process in which the condition is met, and one in which it is not.
NEEDS = (
    ("mlas.disable_kleidiai", "1", _ARM, NEWEST),
    ("mlas.qnbit.force_fp32", "1", NEWEST, _ARM),
    ("mlas.use_lut_gemm", "1", NEWEST, _ARM),
    ("session.x64quantprecision", "1", NEWEST._replace(machine="AMD64"), _ARM),
    ("session.disable_model_compile", "1", _at("OpenVINO"), _at("CUDA")),
    ("session.disable_cpu_ep_fallback", "1", _at("OpenVINO"), NEWEST),
    ("session.disable_cpu_ep_fallback", "1", _at("OpenVINO"), _at("OpenVINO", "CPU")),
    ("session.disable_cpu_ep_fallback", "1", _at("OpenVINO"), _at()),
    ("session.use_device_allocator_for_initializers", "1", _at("CUDA"), _at("OpenVINO")),
    (_LAYERS, "gpu:1(=a.b/c,d)", _at("CUDA"), NEWEST),
    (_NAMES, "npu(a);cpu(b)", _at("QNN"), _at("CUDA")),
    (_OPTIMIZERS, "ConstantFolding;NotWhereFusion", NEWEST, _at("CPU", release=(1, 24))),
    (_SHRINKAGE, "cpu:0;gpu:0", _at("CUDA"), NEWEST),
)


class TestRefusedValues(unittest.TestCase):
    """Values that ORT would reject or ignore, by release, system, and the other settings."""

    def assert_refused(self, key: str, value: str, at: Process = NEWEST, **beside: object) -> None:
        keyword = "run_config" if key in RUN_CONFIG else "session_config"
        beside.setdefault(keyword, {})[key] = value
        with self.subTest(value), self.assertRaises(NotPermittedError) as refused:
            permit(at, **beside)
        self.assertEqual((refused.exception.keyword, refused.exception.key), (keyword, key))
        self.assertTrue(refused.exception.reason.startswith("it requires "))

    def test_the_process(self):
        for key, value, enough, missing in NEEDS:
            with self.subTest(key, value=value):
                keyword = "run_config" if key in RUN_CONFIG else "session_config"
                permit(enough, **{keyword: {key: value}})
                self.assert_refused(key, value, missing)

    def test_the_other_settings(self):
        cuda, options = _at("CUDA"), {"provider_options": {"CUDAExecutionProvider": {"enable_cuda_graph": 1}}}
        without_arena = {"attributes": {"enable_cpu_mem_arena": False}}
        permit(cuda, run_config={_SHRINKAGE: "gpu:0"}, **without_arena)
        permit(run_config={_SHRINKAGE: "cpu:0"}, **options)
        permit(session_config={_NAMES: "cpu(a)"})
        permit(session_config={_OPTIMIZERS: "FreeDimensionOverrideTransformer"})
        for key, value, beside in (
            (_SHRINKAGE, "cpu:0", without_arena),
            (_SHRINKAGE, "gpu:0;cpu:0", without_arena),
            # A replay uses the memory.
            (_SHRINKAGE, "gpu:0", options),
            (_SHRINKAGE, "cpu:0;gpu:0", options),
            (_NAMES, "cpu(a)", {"session_config": {_LAYERS: "cpu(a)"}}),
            (_OPTIMIZERS, "FreeDimensionOverrideTransformer", {"free_dimension_overrides": {"N": 4}}),
        ):
            self.assert_refused(key, value, cuda, **beside)

    def test_bfloat16_on_arm(self):
        for features, machine, system, permitted in (
            ("Features\t: fp asimd bf16 i8mm\n", "aarch64", "Linux", True),
            ("Features\t: fp asimd\n", "aarch64", "Linux", False),
            ("Features\t: fp asimd bf16\n", "arm64", "Darwin", False),
            ("Features\t: fp asimd bf16\n", "ARM64", "Windows", False),
            ("flags\t: avx512_bf16 bf16\n", "x86_64", "Linux", False),
        ):
            at = NEWEST._replace(machine=machine, system=system)
            with self.subTest(machine, system=system), mock.patch("builtins.open", mock.mock_open(read_data=features)):
                if permitted:
                    self.assertEqual(session_config({_BF16: 1}, at), {_BF16: "1"})
                else:
                    self.assert_refused(_BF16, "1", at)


if __name__ == "__main__":
    unittest.main()
