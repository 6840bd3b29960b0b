# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests that each permitted session and run config key does what the table says: every key is set through the backend
and something that anyone can see differs from the default, or the key is listed below with the reason why not.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import backend_test_observable_models as models
import numpy as np

import onnxruntime
from onnxruntime.backend import prepare
from onnxruntime.backend.allowlist import config_keys, refusals
from onnxruntime.backend.allowlist.circumstances import expected as circumstances
from onnxruntime.backend.allowlist.config_keys import RUN_CONFIG, SESSION_CONFIG
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.errors import NotPermittedError

_RELEASE = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
_X86_64 = platform.machine().lower() in ("x86_64", "amd64")
_ARM64 = platform.machine().lower() in ("aarch64", "arm64")
_OPENVINO = "OpenVINOExecutionProvider"
_CPU_ONLY = {"provider_options": {}}
_FLOATS = np.array([0.11, 0.22, 0.33, 0.4], np.float32)
_VALUES = np.random.default_rng(1).standard_normal((4, 128), np.float32)
_PARALLEL = {"execution_mode": "ORT_PARALLEL", "inter_op_num_threads": 4, "intra_op_num_threads": 1}


@contextmanager
def _log() -> Iterator[list[str]]:
    """What native code writes to the error stream, as one text once the block is left."""
    text: list[str] = []
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            text.append(file.read().decode(errors="replace"))


# --- What can be looked at. Each takes a session config, and answers with a value that can be compared. ---

Look = Callable[[Mapping[str, str]], object]


def _prepare_with_log(model: bytes, config: Mapping[str, str]) -> None:
    """A caller of the backend cannot make ORT log more; the application can."""
    onnxruntime.set_default_logger_severity(1)
    try:
        prepare(model, session_config=config, **_CPU_ONLY)
    finally:
        onnxruntime.set_default_logger_severity(2)


def _logs(phrase: str, model: bytes = models.RELU) -> Look:
    """Whether opening a model logs a phrase."""

    def look(config: Mapping[str, str]) -> bool:
        with _log() as text:
            _prepare_with_log(model, config)
        return phrase in text[0]

    return look


def _fails(phrase: str, model: bytes) -> Look:
    """Whether a model is refused with a phrase."""

    def look(config: Mapping[str, str]) -> bool:
        try:
            with _log():
                prepare(model, session_config=config, **_CPU_ONLY)
        except Exception as error:
            if phrase not in str(error):
                raise
            return True
        return False

    return look


def _outputs(model: bytes, value: np.ndarray = _FLOATS) -> Look:
    """The bytes of a model's outputs."""

    def look(config: Mapping[str, str]) -> list[bytes]:
        rep = prepare(model, session_config=config, intra_op_num_threads=1, **_CPU_ONLY)
        return [array.tobytes() for array in rep.run([value])]

    return look


def _spins(model: bytes, **attributes: object) -> Look:
    """Whether idle threads burn CPU time: where they do it is above half of the time, where not below a hundredth."""

    def look(config: Mapping[str, str]) -> bool:
        rep = prepare(model, session_config=config, **attributes, **_CPU_ONLY)
        inputs = [np.zeros((64, 512), np.float32)]
        burnt = idle = 0.0
        for _ in range(12):
            rep.run(inputs)
            wall, cpu = time.monotonic(), time.process_time()
            time.sleep(0.01)
            burnt += time.process_time() - cpu
            idle += time.monotonic() - wall
        return burnt > idle / 20

    return look


def _keeps_record(config: Mapping[str, str]) -> bool:
    """Whether a session tells which EP took which node."""
    try:
        # Without provider_options: with them, the backend asks for the record itself.
        return bool(prepare(models.RELU, session_config=config)._session.get_provider_graph_assignment_info())
    except Exception as error:
        if "session.record_ep_graph_assignment_info" not in str(error):
            raise
        return False


def _raw_session_logs(phrase: str) -> Look:
    """As :func:`_logs`, past the backend: for a value that shows ORT's parser at work and that the backend refuses."""

    def look(config: Mapping[str, str]) -> bool:
        options = onnxruntime.SessionOptions()
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        for key, value in config.items():
            options.add_session_config_entry(key, value)
        with _log() as text:
            onnxruntime.InferenceSession(models.RELU, options, providers=["CPUExecutionProvider"])
        return phrase in text[0]

    return look


def _raw_run_fails(config: Mapping[str, str]) -> bool:
    """Whether a run fails, past the backend, as :func:`_raw_session_logs`."""
    session = onnxruntime.InferenceSession(models.RELU, providers=["CPUExecutionProvider"])
    options = onnxruntime.RunOptions()
    for key, value in config.items():
        options.add_run_config_entry(key, value)
    try:
        with _log():
            session.run(None, {"x": _FLOATS}, options)
    except Exception as error:
        if "graph annotation id" not in str(error):
            raise
        return True
    return False


def _resident() -> int:
    if not os.path.exists("/proc/self/statm"):
        raise unittest.SkipTest("reads what Linux tells of a process")
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _keeps_memory(config: Mapping[str, str]) -> tuple[bool, ...]:
    """Whether the process keeps the memory that a run needed, after each of two runs."""
    rep = prepare(models.ALLOCATING, run_config=config, **_CPU_ONLY)
    # An arena never gives back the first piece of memory that it took: let that be a small one.
    rep.run([np.array([4], np.int64)])
    before = _resident()
    kept = []
    for _ in range(2):
        rep.run([np.array([2**24], np.int64)])
        kept.append(_resident() - before > 2**25)
    return tuple(kept)


class Observation(NamedTuple):
    """How a key shows.

    :param value: a value other than the default.
    :param look: what to look at.
    :param beside: config entries that both looks have.
    """

    value: str
    look: Look
    beside: Mapping[str, str] = {}


OBSERVED: dict[str, Observation] = {
    "gpu_graph_id": Observation("none", _raw_run_fails),
    "memory.enable_memory_arena_shrinkage": Observation("cpu:0", _keeps_memory),
    "mlas.disable_kleidiai": Observation("1", _outputs(models.matmul_nbits(4), _VALUES)),
    "mlas.enable_gemm_fastmath_arm64_bfloat16": Observation(
        "1", _outputs(models.matmul(), np.random.default_rng(1).standard_normal((64, 512), np.float32))
    ),
    "mlas.qnbit.force_fp32": Observation("1", _outputs(models.matmul_nbits(4), _VALUES)),
    "mlas.use_lut_gemm": Observation("1", _outputs(models.matmul_nbits(2), _VALUES)),
    "optimization.constant_folding_max_output_size_in_bytes": Observation(
        "8", _logs("Skipping constant folding", models.FOLDABLE)
    ),
    "optimization.disable_specified_optimizers": Observation(
        "ConstantFolding;MatMulAddFusion", _logs("GraphTransformer ConstantFolding modified")
    ),
    "optimization.enable_cast_chain_elimination": Observation("1", _outputs(models.CASTS)),
    "optimization.enable_gelu_approximation": Observation(
        "1", _logs("GraphTransformer GeluApproximation modified: 1", models.GELU)
    ),
    "optimization.minimal_build_optimizations": Observation(
        "apply", _logs("GraphTransformer AttentionFusion modified")
    ),
    "session.disable_aot_function_inlining": Observation("1", _logs("AOT inlining completed", models.FUNCTION)),
    "session.disable_double_qdq_remover": Observation("1", _outputs(models.TWO_QDQ_PAIRS)),
    "session.disable_prepacking": Observation(
        "1", _logs("SessionStateInitializer statically allocates", models.quantized_matmul())
    ),
    "session.disable_qdq_constant_folding": Observation(
        "1",
        _logs("GraphTransformer ConstantFolding modified: 1", models.quantized_matmul()),
        {"session.disable_quant_qdq": "1"},
    ),
    "session.disable_quant_qdq": Observation(
        "1", _logs("GraphTransformer QDQSelectorActionTransformer modified: 1", models.quantized_matmul())
    ),
    "session.dynamic_block_base": Observation("4", _logs("Dynamic block base set to 4")),
    "session.enable_dq_matmulnbits_fusion": Observation("1", _logs("GraphTransformer DQMatMulNBitsFusion modified")),
    "session.enable_quant_qdq_cleanup": Observation("1", _outputs(models.QDQ_BETWEEN)),
    "session.force_spinning_stop": Observation("1", _spins(models.matmul(), intra_op_num_threads=4)),
    "session.function_expansion_byte_limit": Observation(
        "1", _fails("cumulative protobuf expansion limit", models.FUNCTION)
    ),
    "session.function_expansion_node_limit": Observation(
        "1", _fails("cumulative node expansion limit", models.FUNCTION)
    ),
    "session.gqa_value_layout": Observation(
        "BNHS", _fails("session.gqa_value_layout", models.in_ort_format(models.RELU))
    ),
    "session.graph_optimizations_loop_level": Observation("2", _logs("(Graph Optimizations Loop Level : 2)")),
    "session.inter_op.allow_spinning": Observation("0", _spins(models.matmul(3), **_PARALLEL)),
    "session.inter_op.spin_backoff_max": Observation(
        "65", _raw_session_logs("session.inter_op.spin_backoff_max is set to 65")
    ),
    "session.inter_op.spin_duration_us": Observation("0", _spins(models.matmul(3), **_PARALLEL)),
    "session.intra_op.allow_spinning": Observation("0", _spins(models.matmul(), intra_op_num_threads=4)),
    "session.intra_op.spin_backoff_max": Observation(
        "65", _raw_session_logs("session.intra_op.spin_backoff_max is set to 65")
    ),
    "session.intra_op.spin_duration_us": Observation("0", _spins(models.matmul(), intra_op_num_threads=4)),
    "session.layer_assignment_settings": Observation(
        "cpu(first,=second)", _logs("LayeringIndex created. Matched 2 out of 2 rules")
    ),
    "session.name_based_layer_assignment": Observation(
        "cpu(first,second)", _logs("LayeringIndex created. Matched 2 out of 2 rules")
    ),
    "session.prepack.enable_parallel": Observation(
        "1", _logs("Pre-packing constant initializers using the intra-op", models.quantized_matmul())
    ),
    "session.qdq_matmulnbits_accuracy_level": Observation("0", _outputs(models.dequantized_matmul(block=32), _VALUES)),
    "session.qdq_matmulnbits_block_size": Observation("16", _outputs(models.dequantized_matmul(), _VALUES)),
    "session.qdqisint8allowed": Observation(
        # The default is the other way round on Arm.
        "1" if _X86_64 else "0",
        _logs("GraphTransformer QDQS8ToU8Transformer modified: 1", models.quantized_matmul(np.int8)),
    ),
    "session.record_ep_graph_assignment_info": Observation("1", _keeps_record),
    "session.strict_shape_type_inference": Observation("1", _fails("ShapeInferenceError", models.CONTRADICTORY)),
    "session.strict_workspace_verification": Observation(
        "1", _fails("session.strict_workspace_verification", models.in_ort_format(models.RELU))
    ),
    "session.x64quantprecision": Observation(
        "1", _logs("GraphTransformer Avx2WeightS8ToU8Transformer modified", models.quantized_matmul())
    ),
}

# Keys whose effect an accepted value does not show on the CPU EP: the look goes past the backend, with a value that
# only shows that this ORT reads the key.
PARSER_ONLY = {
    "gpu_graph_id": "picks among captured graphs, which the CPU EP has none of",
    "session.inter_op.spin_backoff_max": "changes how spinning threads pause, at equal CPU time",
    "session.intra_op.spin_backoff_max": "changes how spinning threads pause, at equal CPU time",
}

NOT_OBSERVED = {
    "mlas.nchwc_depthwise_sliding": "changes run time only, by a sixth: too little for a test",
    "session.disable_cpu_ep_fallback": "needs another EP: see TestWithOpenVino",
    "session.disable_model_compile": "needs an EP that compiles: see TestWithOpenVino",
    "session.use_device_allocator_for_initializers": "needs an EP with device memory",
}


def _permitted() -> dict[str, Rule]:
    return SESSION_CONFIG | RUN_CONFIG


def _acts_here(rule: Rule) -> bool:
    """Whether a key acts on this CPU in this release; elsewhere the backend must refuse it."""
    here = circumstances(())
    machines = ("an x86-64 CPU", "a 64-bit Arm CPU", "Linux on a 64-bit Arm CPU with bfloat16")
    return rule.since <= _RELEASE and all(need.met(here, "1") for need in rule.needs if need.what in machines)


class TestConfigKeys(unittest.TestCase):
    def test_every_key_stands_in_one_group(self):
        """The groups are merged into one table: a second entry of a key would replace the first in silence."""
        tree = ast.parse(Path(config_keys.__file__).read_text(encoding="utf-8"))
        dicts = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
        written = [ast.literal_eval(key) for node in dicts for key in node.keys]
        permitted = [*SESSION_CONFIG, *RUN_CONFIG]
        self.assertEqual(sorted(key for key in written if key in permitted), sorted(permitted))

    def test_every_permitted_key_is_observed_or_listed(self):
        self.assertEqual({*_permitted()}, {*OBSERVED, *NOT_OBSERVED})
        self.assertFalse({*OBSERVED} & {*NOT_OBSERVED})
        self.assertLessEqual({*PARSER_ONLY}, {*OBSERVED})
        here = sum(_acts_here(_permitted()[key]) for key in OBSERVED)
        print(
            f"\npermitted config keys: {len(OBSERVED)} with an observation, {here} of them for this CPU and release; "
            f"{len(NOT_OBSERVED)} listed with the reason why not"
        )

    def test_every_observed_key_acts(self):
        for key, observation in OBSERVED.items():
            with self.subTest(key=key):
                if not _acts_here(_permitted()[key]):
                    with self.assertRaisesRegex(RuntimeError, "not permitted via the backend API: it requires"):
                        prepare(models.RELU, session_config={key: observation.value})
                    continue
                without = observation.look(observation.beside)
                self.assertNotEqual(without, observation.look({**observation.beside, key: observation.value}))

    def test_look_past_the_backend_only_where_the_backend_refuses_the_value(self):
        for key in PARSER_ONLY:
            with self.subTest(key=key), self.assertRaises(NotPermittedError):
                keyword = "run_config" if key in RUN_CONFIG else "session_config"
                prepare(models.RELU, **{keyword: {key: OBSERVED[key].value}}, execution_mode="ORT_PARALLEL")

    def test_default_given_as_text_is_accepted_and_echoed(self):
        for key, rule in SESSION_CONFIG.items():
            if not rule.needs and rule.since <= _RELEASE and "," not in rule.default:
                with self.subTest(key=key):
                    rep = prepare(models.RELU, session_config={key: rule.default})
                    self.assertEqual(dict(rep.session_config), {key: rule.default})

    def test_every_refused_key_is_refused_before_ort_sees_it(self):
        for keyword, table in (("session_config", refusals.SESSION_CONFIG), ("run_config", refusals.RUN_CONFIG)):
            for key, rule in table.items():
                with self.subTest(key=key), self.assertRaises(RuntimeError) as raised:
                    prepare("no such file", **{keyword: {key: "1"}})
                self.assertIn(
                    f"{keyword}['{key}'] is not permitted via the backend API: {rule.hazard} ({rule.reason})",
                    str(raised.exception),
                )

    def test_family_of_spin_keys_warns_and_is_sent(self):
        with self.assertWarnsRegex(RuntimeWarning, "cannot confirm"):
            rep = prepare(models.RELU, session_config={"session.intra_op.new_knob": True})
        self.assertEqual(dict(rep.session_config), {"session.intra_op.new_knob": "1"})

    def test_every_optimizer_that_the_log_names_can_be_disabled_and_is_gone(self):
        key = "optimization.disable_specified_optimizers"

        def logged(config: Mapping[str, str]) -> set[str]:
            with _log() as text:
                _prepare_with_log(models.RELU, config)
            return {*re.findall(r"GraphTransformer (\w+) modified", text[0])}

        everything = logged({})
        self.assertGreater(len(everything), 40)
        # ORT always runs these.
        for name in everything - {
            "CastFloat16Transformer",
            "EnsureUniqueDQForNodeUnit",
            "MemcpyTransformer",
            "RemoveDuplicateCastTransformer",
        }:
            with self.subTest(name=name):
                self.assertNotIn(name, logged({key: name}))

    def test_file_writing_key_writes_through_ort_and_not_through_the_backend(self):
        key = "session.collect_node_memory_stats_to_file"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "written")
            with self.assertRaisesRegex(RuntimeError, "not permitted via the backend API: writes files"):
                prepare(models.RELU, session_config={key: path})
            self.assertFalse(os.path.exists(path))
            options = onnxruntime.SessionOptions()
            options.add_session_config_entry(key, path)
            session = onnxruntime.InferenceSession(models.RELU, options, providers=["CPUExecutionProvider"])
            session.run(None, {"x": _FLOATS})
            self.assertTrue(os.path.exists(path))


@unittest.skipUnless(_OPENVINO in onnxruntime.get_available_providers(), "needs the OpenVINO execution provider")
class TestWithOpenVino(unittest.TestCase):
    def test_model_compile_is_disabled(self):
        prepare(models.RELU, provider_options={_OPENVINO: {}})
        with self.assertRaisesRegex(Exception, "MODEL_REQUIRES_COMPILATION"):
            prepare(models.RELU, provider_options={_OPENVINO: {}}, session_config={"session.disable_model_compile": 1})

    def test_cpu_fallback_is_disabled(self):
        with self.assertWarnsRegex(RuntimeWarning, _OPENVINO):
            prepare(models.STRINGS, provider_options={_OPENVINO: {}})
        strict = {"session.disable_cpu_ep_fallback": True}
        with self.assertRaisesRegex(Exception, "fallback to CPU EP has been explicitly disabled"):
            prepare(models.STRINGS, provider_options={_OPENVINO: {}}, session_config=strict)
        rep = prepare(models.RELU, provider_options={_OPENVINO: {}}, session_config=strict)
        np.testing.assert_array_equal(rep.run([_FLOATS])[0], _FLOATS)


if __name__ == "__main__":
    unittest.main()
