# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Runs ONNX's tests with each permitted config key away from its default, and lists tests with another result.

Each key has its own process, which runs all tests. If a test passes only with the key, or only without it,
``EXPLAINED`` must contain the reason; otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys

import onnx_series as series

from onnxruntime.backend.allowlist.ort_options import RUN_CONFIG, SESSION_CONFIG
from onnxruntime.backend.allowlist.value_kinds import Flag

# The values of keys that are not flags: those farthest from the default.
VALUES = {
    "optimization.constant_folding_max_output_size_in_bytes": 1,
    "optimization.disable_specified_optimizers": "ConstantFolding;Level1_RuleBasedTransformer;MatMulAddFusion",
    "optimization.minimal_build_optimizations": "apply",
    "session.function_expansion_byte_limit": 1,
    "session.function_expansion_node_limit": 1,
    "session.gqa_value_layout": "BNHS",
    "session.graph_optimizations_loop_level": 2,
    "session.qdq_matmulnbits_accuracy_level": 0,
    "session.qdq_matmulnbits_block_size": 256,
    "session.dynamic_block_base": 128,
    "session.inter_op.spin_backoff_max": 64,
    "session.inter_op.spin_duration_us": 10000,
    "session.intra_op.spin_backoff_max": 64,
    "session.intra_op.spin_duration_us": 10000,
    "session.layer_assignment_settings": "cpu(encoder)",
    "session.name_based_layer_assignment": "cpu(test)",
    "gpu_graph_id": 1,
    "memory.enable_memory_arena_shrinkage": "cpu:0",
}
# Why a key changes which tests pass. A session without the backend fails on the same models with the same errors.
_LIMIT = "the limit refuses every model with a function, or an operator that ORT has only as a function"
EXPLAINED = {
    "session.function_expansion_byte_limit": _LIMIT,
    "session.function_expansion_node_limit": _LIMIT,
    "session.strict_shape_type_inference": "refuses a shape that ONNX's own function for RMSNormalization has wrong",
}


def _configurations() -> dict[str, dict]:
    """Return for each key the configuration that sets it."""
    result = {}
    for keyword, table in (("session_config", SESSION_CONFIG), ("run_config", RUN_CONFIG)):
        for key, rule in table.items():
            value = VALUES[key] if key in VALUES else rule.default[0] != "1"
            if key not in VALUES and not isinstance(rule.kind, Flag):
                raise SystemExit(f"VALUES has no value for {key}")
            result[key] = {keyword: {key: value}}
            if key.startswith("session.inter_op."):
                result[key]["execution_mode"] = "ORT_PARALLEL"
    return result


def _passed(config: dict) -> frozenset[str]:
    """Return the tests that pass with a configuration."""
    outcomes = series.outcomes_of(sys.executable, config)
    return frozenset(name for name, outcome in outcomes.items() if outcome.result == "passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("keys", nargs="*", help="keys (default: every permitted key)")
    keys = parser.parse_args().keys
    configurations = _configurations()
    without = _passed({})
    print(f"without configuration: {len(without)} tests pass", flush=True)
    status = 0
    for key in keys or configurations:
        try:
            found = _passed(configurations[key])
        except RuntimeError as refusal:
            print(f"{json.dumps(configurations[key])}: not available: {refusal}", flush=True)
            continue
        lost, won = sorted(without - found), sorted(found - without)
        print(f"{json.dumps(configurations[key])}: {len(lost)} pass no longer, {len(won)} pass now", flush=True)
        if lost or won:
            print(f"  {EXPLAINED.get(key, 'NOT EXPLAINED')}: {', '.join(lost + won)}", flush=True)
            status |= key not in EXPLAINED
    return status


if __name__ == "__main__":
    sys.exit(main())
