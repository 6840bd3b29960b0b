# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Tests of the session and run config keys: each permitted key has the effect that the table states.

Each key is set through the backend, and something observable differs from the default. Keys without an observation are
listed with the reason.
"""

import os
import platform
import re
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple
from unittest import mock

import _above
import numpy as np
from helpers import observable_models as models

import onnxruntime
from onnxruntime.backend import prepare
from onnxruntime.backend.allowlist import threads
from onnxruntime.backend.allowlist.facts import RELEASE, Process, SessionFacts
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.allowlist.run_config import RUN_CONFIG
from onnxruntime.backend.allowlist.session_config import SESSION_CONFIG
from onnxruntime.backend.errors import NotPermittedError

_X86_64 = platform.machine().lower() in ("x86_64", "amd64")
_RECORD = "session.record_ep_graph_assignment_info"
_OPENVINO = "OpenVINOExecutionProvider"
_PERMITTED = SESSION_CONFIG | RUN_CONFIG
_CPU_ONLY = {"provider_options": {}}
_FLOATS = np.array([0.11, 0.22, 0.33, 0.4], np.float32)
_VALUES = np.random.default_rng(1).standard_normal((4, 128), np.float32)
_PARALLEL = {"execution_mode": "ORT_PARALLEL", "inter_op_num_threads": 4, "intra_op_num_threads": 1}


@contextmanager
def _log() -> Iterator[list[str]]:
    """Yield a list that contains the native code's error stream as one text after the block."""
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


# --- Observations. Each function accepts a session config as its last argument, and returns a value to compare. ---


def _logs(phrase: str, model: bytes, config: Mapping[str, str]) -> bool:
    """Return whether creating a session logs a phrase."""
    return phrase in _log_of_prepare(model, config)


def _log_of_prepare(model: bytes, config: Mapping[str, str]) -> str:
    """Return more log lines. The application can set the severity; a caller of the backend cannot."""
    onnxruntime.set_default_logger_severity(1)
    try:
        with _log() as text:
            prepare(model, session_config=config, **_CPU_ONLY)
    finally:
        onnxruntime.set_default_logger_severity(2)
    return text[0]


def _fails(phrase: str, call: Callable[[], object]) -> bool:
    """Return whether a call raises an error with a phrase. Any other error is an error of the test."""
    try:
        with _log():
            call()
    except Exception as error:
        if phrase not in str(error):
            raise
        return True
    return False


def _rejects(phrase: str, model: bytes, config: Mapping[str, str]) -> bool:
    """Return whether ORT rejects a model with a phrase."""
    return _fails(phrase, lambda: prepare(model, session_config=config, **_CPU_ONLY))


def _outputs(model: bytes, value: np.ndarray, config: Mapping[str, str]) -> list[bytes]:
    """Return the bytes of a model's outputs."""
    rep = prepare(model, session_config=config, intra_op_num_threads=1, **_CPU_ONLY)
    return [array.tobytes() for array in rep.run([value])]


def _spins(model: bytes, attributes: Mapping[str, object], config: Mapping[str, str]) -> bool:
    """Return whether idle threads burn CPU time. Spinning threads burn over half of the time, others below 1 %."""
    with mock.patch.object(threads, "CPUS", range(16)):  # otherwise, the backend switches spinning off
        rep = prepare(model, session_config=config, **attributes, **_CPU_ONLY)
    inputs = [np.zeros((64, 512), np.float32)]
    shares = []
    for _ in range(15):
        rep.run(inputs)
        wall, cpu = time.monotonic(), time.process_time()
        time.sleep(0.01)
        shares.append((time.process_time() - cpu) / (time.monotonic() - wall))
    return bool(np.median(shares) > 0.05)  # on a busy machine, a run can end late in some


def _keeps_record(config: Mapping[str, str]) -> bool:
    """Return whether a session records the nodes of each EP."""
    # Without provider_options and without OpenVINO: with one of them, the backend requests the record itself.
    with mock.patch.dict(os.environ, {"ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS": _OPENVINO}):
        session = prepare(models.RELU, session_config=config)._session
    record = []
    _fails(_RECORD, lambda: record.extend(session.get_provider_graph_assignment_info()))
    return bool(record)


def _parsed(phrase: str, config: Mapping[str, str]) -> bool:
    """Return whether ORT, without the backend, reports a value of a key in the log or as the error of a run."""
    options, run_options = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    for key, value in config.items():
        options.add_session_config_entry(key, value)
        run_options.add_run_config_entry(key, value)
    with _log() as text:
        session = onnxruntime.InferenceSession(models.RELU, options, providers=["CPUExecutionProvider"])
    return phrase in text[0] or _fails(phrase, lambda: session.run(None, {"x": _FLOATS}, run_options))


class Observation(NamedTuple):
    """The observation of a key's effect."""

    value: str  # other than the default
    look: Callable[[Mapping[str, str]], object]
    beside: Mapping[str, str] = {}  # config entries of both observations


_OPTIMIZERS, _MINIMAL = ("optimization.disable_specified_optimizers", "optimization.minimal_build_optimizations")
_QDQ, _RELU, _NBITS = (models.quantized_matmul(), models.RELU, partial(_outputs, models.matmul_nbits(4), _VALUES))
_DEQUANTIZED_32 = models.dequantized_matmul(block=32)
_UNFUSED, _QDQ_8 = {"session.disable_quant_qdq": "1"}, models.quantized_matmul(np.int8)
_INTRA = partial(_spins, models.matmul(), {"intra_op_num_threads": 4})
_INTER = partial(_spins, models.matmul(3), _PARALLEL)
# Keys with a value, a phrase that ORT logs either with or without the value, the model, and config entries.
_LOGGED = {
    "optimization.constant_folding_max_output_size_in_bytes": ("8", ("Skipping constant folding", models.FOLDABLE)),
    _OPTIMIZERS: ("ConstantFolding;MatMulAddFusion", ("GraphTransformer ConstantFolding modified", _RELU)),
    "optimization.enable_gelu_approximation": ("1", ("GraphTransformer GeluApproximation modified: 1", models.GELU)),
    _MINIMAL: ("apply", ("GraphTransformer AttentionFusion modified", _RELU)),
    "session.disable_aot_function_inlining": ("1", ("AOT inlining completed", models.FUNCTION)),
    "session.disable_prepacking": ("1", ("SessionStateInitializer statically allocates", _QDQ)),
    "session.disable_qdq_constant_folding": ("1", ("GraphTransformer ConstantFolding modified: 1", _QDQ), _UNFUSED),
    "session.disable_quant_qdq": ("1", ("GraphTransformer QDQSelectorActionTransformer modified: 1", _QDQ)),
    "session.dynamic_block_base": ("4", ("Dynamic block base set to 4", _RELU)),
    "session.enable_dq_matmulnbits_fusion": ("1", ("GraphTransformer DQMatMulNBitsFusion modified", _RELU)),
    "session.graph_optimizations_loop_level": ("2", ("(Graph Optimizations Loop Level : 2)", _RELU)),
    "session.layer_assignment_settings": ("cpu(first,=second)", ("Matched 2 out of 2 rules", _RELU)),
    "session.name_based_layer_assignment": ("cpu(first,second)", ("Matched 2 out of 2 rules", _RELU)),
    "session.prepack.enable_parallel": ("1", ("Pre-packing constant initializers using the intra-op", _QDQ)),
    # On Arm, the default is 1.
    "session.qdqisint8allowed": ("01"[_X86_64], ("GraphTransformer QDQS8ToU8Transformer modified: 1", _QDQ_8)),
    "session.x64quantprecision": ("1", ("GraphTransformer Avx2WeightS8ToU8Transformer modified", _QDQ)),
}
# Keys with a value, a phrase of the error with which ORT rejects a model because of the value, and the model.
_REJECTED = {
    "session.function_expansion_byte_limit": ("1", "cumulative protobuf expansion limit", models.FUNCTION),
    "session.function_expansion_node_limit": ("1", "cumulative node expansion limit", models.FUNCTION),
    "session.gqa_value_layout": ("BNHS", "session.gqa_value_layout", models.in_ort_format(_RELU)),
    "session.strict_shape_type_inference": ("1", "ShapeInferenceError", models.CONTRADICTORY),
    "session.strict_workspace_verification": ("1", "strict_workspace_verification", models.in_ort_format(_RELU)),
}
# Keys whose accepted values have no observable effect on the CPU EP, with a value that the backend refuses, and a
# phrase with which ORT reports the value. This only proves that ORT reads the key.
PARSED = {
    # Selects a captured graph, and the CPU EP captures none.
    "gpu_graph_id": ("none", "graph annotation id"),
    # These keys change how spinning threads pause, at equal CPU time.
    "session.inter_op.spin_backoff_max": ("65", "inter_op.spin_backoff_max is set to 65"),
    "session.intra_op.spin_backoff_max": ("65", "intra_op.spin_backoff_max is set to 65"),
}
OBSERVED: dict[str, Observation] = {
    **{key: Observation(value, partial(_logs, *look), *beside) for key, (value, look, *beside) in _LOGGED.items()},
    **{key: Observation(value, partial(_rejects, *look)) for key, (value, *look) in _REJECTED.items()},
    **{key: Observation(value, partial(_parsed, phrase)) for key, (value, phrase) in PARSED.items()},
    "mlas.disable_kleidiai": Observation("1", _NBITS),
    "mlas.enable_gemm_fastmath_arm64_bfloat16": Observation(
        "1", partial(_outputs, models.matmul(), np.random.default_rng(1).standard_normal((64, 512), np.float32))
    ),
    "mlas.qnbit.force_fp32": Observation("1", _NBITS),
    "mlas.use_lut_gemm": Observation("1", partial(_outputs, models.matmul_nbits(2), _VALUES)),
    "optimization.enable_cast_chain_elimination": Observation("1", partial(_outputs, models.CASTS, _FLOATS)),
    "session.disable_double_qdq_remover": Observation("1", partial(_outputs, models.TWO_QDQ_PAIRS, _FLOATS)),
    "session.enable_quant_qdq_cleanup": Observation("1", partial(_outputs, models.QDQ_BETWEEN, _FLOATS)),
    "session.force_spinning_stop": Observation("1", _INTRA),
    "session.inter_op.allow_spinning": Observation("0", _INTER),
    "session.inter_op.spin_duration_us": Observation("0", _INTER),
    "session.intra_op.allow_spinning": Observation("0", _INTRA),
    "session.intra_op.spin_duration_us": Observation("0", _INTRA),
    "session.qdq_matmulnbits_accuracy_level": Observation("0", partial(_outputs, _DEQUANTIZED_32, _VALUES)),
    "session.qdq_matmulnbits_block_size": Observation("16", partial(_outputs, models.dequantized_matmul(), _VALUES)),
    _RECORD: Observation("1", _keeps_record),
}

NOT_OBSERVED = {
    "memory.enable_memory_arena_shrinkage": "needs a new process: see the tests of runs/run_options.py",
    "mlas.nchwc_depthwise_sliding": "changes run time only, by a sixth: too little for a test",
    "session.disable_cpu_ep_fallback": "needs another EP: see helpers/execution_providers.py",
    "session.disable_model_compile": "needs an EP that compiles: see TestWithOpenVino",
    "session.use_device_allocator_for_initializers": "needs an EP with device memory",
}


def acts_here(rule: Rule) -> bool:
    """Return whether a key has an effect on this CPU in this release. Otherwise, the backend must refuse it."""
    here = Process()
    machines = ("an x86-64 CPU", "a 64-bit Arm CPU", "Linux on a 64-bit Arm CPU with bfloat16")
    return rule.since <= RELEASE and all(
        need.holds(SessionFacts(here), "1") for need in rule.needs if need.what in machines
    )


class TestConfigKeys(unittest.TestCase):
    def test_each_permitted_key_is_observed_or_listed(self):
        advice = f"each permitted key is in OBSERVED, or in NOT_OBSERVED with the reason. Both are in {__file__}"
        self.assertEqual(sorted([*OBSERVED, *NOT_OBSERVED]), sorted(_PERMITTED), advice)

    def test_a_key_that_is_not_observed_has_a_condition(self):
        """Otherwise, it would silently have no effect in sessions such as those of this test."""
        for key in NOT_OBSERVED:
            with self.subTest(key):
                self.assertTrue(_PERMITTED[key].needs, "add `needs` with the sessions in which the key has an effect")

    def test_each_observed_key_has_an_effect(self):
        for key, observation in OBSERVED.items():
            with self.subTest(key=key):
                if not acts_here(_PERMITTED[key]):
                    with self.assertRaises(NotPermittedError):
                        prepare(models.RELU, session_config={key: observation.value})
                    continue
                without = observation.look(observation.beside)
                found = observation.look({**observation.beside, key: observation.value})
                self.assertFalse(without == found, f"the observation sees no effect of {key}={observation.value}")

    def test_observations_without_the_backend_use_refused_values(self):
        for key, (value, _) in PARSED.items():
            with self.subTest(key=key), self.assertRaises(NotPermittedError):
                keyword = "run_config" if key in RUN_CONFIG else "session_config"
                prepare(models.RELU, **{keyword: {key: value}}, execution_mode="ORT_PARALLEL")

    def test_each_optimizer_in_the_log_can_be_disabled(self):
        key = "optimization.disable_specified_optimizers"

        def logged(config: Mapping[str, str]) -> set[str]:
            return {*re.findall(r"GraphTransformer (\w+) modified", _log_of_prepare(models.RELU, config))}

        everything = logged({})
        self.assertGreater(len(everything), 40)
        # ORT always runs these passes.
        always = "CastFloat16Transformer EnsureUniqueDQForNodeUnit MemcpyTransformer RemoveDuplicateCastTransformer"
        for name in everything - {*always.split()}:
            with self.subTest(name=name):
                self.assertNotIn(name, logged({key: name}))


@unittest.skipUnless(_OPENVINO in onnxruntime.get_available_providers(), "requires the OpenVINO execution provider")
class TestWithOpenVino(unittest.TestCase):
    def test_model_compile_is_disabled(self):
        prepare(models.RELU, provider_options={_OPENVINO: {}})
        with self.assertRaisesRegex(Exception, "MODEL_REQUIRES_COMPILATION"):
            prepare(models.RELU, provider_options={_OPENVINO: {}}, session_config={"session.disable_model_compile": 1})


if __name__ == "__main__":
    unittest.main()
