# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted session config entries. All others are refused.

The field ``since`` is the first release whose CPU wheels contain a key (x86-64: 1.24.1 to 1.32.0, Arm: to 1.31.1).
The tests of this module observe the effect of each key. docs/options-evidence.md lists the effects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from onnxruntime import GraphOptimizationLevel
from onnxruntime.backend.allowlist.conditions import (
    ARM64,
    ARM64_BF16,
    DEVICES,
    INTRA_THREADS,
    NO_CPU_EP,
    OWN_POOLS,
    PARALLEL,
    X86_64,
    beside,
    folds_text,
    has,
    may_spin,
    only_warns,
    optimizes,
)
from onnxruntime.backend.allowlist.optimizers import LISTED, OPTIMIZERS
from onnxruntime.backend.allowlist.rules import Need, Rule, switch, switch_on
from onnxruntime.backend.allowlist.special_kinds import FlagOrInteger, Names, OneOf, Parts
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer
from onnxruntime.backend.errors import nearest
from onnxruntime.backend.provider_names import COMPILING, GPU

_DISABLED = "optimization.disable_specified_optimizers"
_MINIMAL = "optimization.minimal_build_optimizations"
_NO_PREPACKING = "session.disable_prepacking"
_NO_QDQ_FUSION = "session.disable_quant_qdq"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
FOLDING_CAP = "optimization.constant_folding_max_output_size_in_bytes"
# ORT folds a value that depends on sizes alone when it creates a session, such as a mask of N x N. This is the most
# that it may fold: in bytes of each value, where ORT has a cap, and else in elements, of which each takes 12 bytes in
# ORT 1.24.1 and 9 to 17 in OpenVINO.
MOST_FOLDED = 2**24

# If the session lacks the part of ORT that a switch controls, it is off.
_switch_on = partial(switch_on, already_so=("0",))

_KNOWN_OPTIMIZERS = Need(
    "optimizers of this ORT release",
    lambda facts, text: all(OPTIMIZERS[name] <= facts.process.release for name in text.split(";") if name),
)
_OVERRIDES_PASS = "FreeDimensionOverrideTransformer"
_CAPS_SIZES = Need(
    f"a value of at most {MOST_FOLDED} together with free_dimension_overrides",
    lambda facts, text: not facts.sizes or int(text) <= MOST_FOLDED,
    otherwise="a size can make ORT compute gigabytes when it loads the model",
)
_OVERRIDES_APPLIED = Need(
    f"no free_dimension_overrides if the value contains {_OVERRIDES_PASS}",
    lambda facts, text: not facts.sizes or _OVERRIDES_PASS not in text.split(";"),
    otherwise="ORT ignores the overrides",
)
_FOLDS_TEXT = folds_text(lambda text: "ConstantFolding" not in text.split(";"), "ConstantFolding")


def _enabled(*optimizers: str) -> Need:
    """Return the need that ``optimization.disable_specified_optimizers`` contains none of these optimizers."""
    what = f"{' and '.join(optimizers)} to be enabled"
    return only_warns(
        what, lambda facts, _: {*optimizers}.isdisjoint(facts.session_config.get(_DISABLED, "").split(";"))
    )


_BASIC = optimizes(GraphOptimizationLevel.ORT_ENABLE_BASIC)
_EXTENDED = optimizes(GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
_FULL = only_warns(f"{_MINIMAL} other than 'apply'", lambda facts, _: facts.session_config.get(_MINIMAL) != "apply")
_QDQ_FUSION = beside(_NO_QDQ_FUSION, "0")
_FUSED = "DequantizeLinear and MatMul become MatMulNBits"
_QDQ_FUSES = (_QDQ_FUSION, _enabled("QDQSelectorActionTransformer"))
_QDQ_KEPT = beside(_NO_QDQ_FUSION, "1")

# At every level: an entry that turns work off is met anyway by a level that does not do this work.
SESSION_CONFIG: dict[str, Rule] = {
    FOLDING_CAP: Rule(
        # 0 and values above the default would lift the cap, and a small model could fold gigabytes.
        Integer(1, 2**30),
        "1073741824",
        f"Maximum size of a folded constant. With free_dimension_overrides, the backend sets {MOST_FOLDED} by default.",
        since=(1, 27),
        needs=(_CAPS_SIZES, folds_text(lambda text: text == "1073741824", "a lower value")),
    ),
    _DISABLED: Rule(
        Names(lambda: OPTIMIZERS, f"names from these lists, joined by ';'. {LISTED}", empty=True),
        "",
        "Disables these graph optimizers. ORT itself silently ignores unknown names.",
        needs=(_KNOWN_OPTIMIZERS, _OVERRIDES_APPLIED, _FOLDS_TEXT),
    ),
    # ORT's third value, 'save', is for saving a model.
    _MINIMAL: Rule(Choice("", "apply"), "", "Restricts optimization to the passes of a minimal build."),
    "session.disable_aot_function_inlining": switch("Inlines model-local functions late instead of ahead of time."),
    "session.disable_double_qdq_remover": switch("Keeps the inner pair of Q-DQ-Q-DQ chains."),
    "session.disable_qdq_constant_folding": switch(
        f"Keeps DequantizeLinear of a constant if {_NO_QDQ_FUSION} is 1, too.", since=(1, 26), needs=(_QDQ_KEPT,)
    ),
    _NO_QDQ_FUSION: switch("Skips the fusion of QDQ groups."),
    "session.function_expansion_byte_limit": Rule(
        Integer(1, 2**30), "1073741824", "Limits the bytes that function inlining can create.", since=(1, 31)
    ),
    "session.function_expansion_node_limit": Rule(
        Integer(1, 1_000_000), "1000000", "Limits the nodes that function inlining can create.", since=(1, 31)
    ),
    "session.gqa_value_layout": Rule(
        Choice("BNSH", "BNHS"),
        "BNSH",
        "Layout of the value cache of GroupQueryAttention. The cache's input and output have shapes of this layout.",
        since=(1, 30),
    ),
}


def _all_need(needs: tuple[Need, ...], rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return rules with these needs in addition to their own."""
    return {key: rule._replace(needs=rule.needs + needs) for key, rule in rules.items()}


_OF_BASIC_PASSES = {
    "optimization.enable_cast_chain_elimination": switch(
        "Removes chains of Cast nodes, and the rounding that they cause.",
        needs=(_enabled("CastChainElimination", "Level1_RuleBasedTransformer"),),
    ),
    "session.enable_dq_matmulnbits_fusion": switch(
        "Adds a pass that fuses DequantizeLinear and MatMul into MatMulNBits for EPs that keep QDQ groups.",
        since=(1, 25),
        needs=(_QDQ_FUSION, _enabled("DQMatMulNBitsFusion")),
    ),
    "session.graph_optimizations_loop_level": Rule(
        Integer(0, 2), "1", "Whether ORT repeats optimization passes.", already_so=("0", "1")
    ),
}
_OF_EXTENDED_PASSES = {
    "optimization.enable_gelu_approximation": switch(
        "Replaces Gelu by its tanh approximation.", needs=(_enabled("GeluApproximation"), _FULL)
    ),
    "session.enable_quant_qdq_cleanup": switch(
        "Removes remaining Q-DQ pairs, and the rounding that they cause.",
        needs=(_enabled("QDQFinalCleanupTransformer"),),
    ),
    "session.qdq_matmulnbits_accuracy_level": Rule(
        Integer(0, 4), "4", f"Accuracy level if {_FUSED}.", needs=_QDQ_FUSES
    ),
    "session.qdq_matmulnbits_block_size": Rule(
        OneOf(-1, 0, 16, 32, 64, 128, 256),
        "0",
        f"Block size if a per-tensor or per-channel {_FUSED}. -1: ORT chooses. 0: 32.",
        since=(1, 25),
        needs=_QDQ_FUSES,
    ),
    "session.qdqisint8allowed": Rule(
        Flag(),
        "0, or 1 on Arm",
        "Keeps signed int8 QDQ instead of rewriting it to uint8.",
        needs=(_QDQ_FUSION, _enabled("QDQS8ToU8Transformer"), _FULL),
        already_so=("1",),
    ),
    "session.x64quantprecision": switch(
        "Rewrites int8 weights to uint8. An x86-64 CPU without VNNI multiplies uint8 weights without saturation.",
        since=(1, 25),  # 1.24 reads it on CPUs without VNNI only (on an emulated CPU)
        needs=(X86_64, _enabled("Avx2WeightS8ToU8Transformer"), _FULL),
    ),
}
SESSION_CONFIG |= _all_need((_BASIC,), _OF_BASIC_PASSES) | _all_need((_EXTENDED,), _OF_EXTENDED_PASSES)

_POOLS = {"intra_op": (INTRA_THREADS, OWN_POOLS), "inter_op": (PARALLEL, OWN_POOLS)}


def _spinning(pool: str) -> dict[str, Rule]:
    """Return the keys about idle threads of a pool."""
    threads, allowed = f"{pool.replace('_', '-')} threads", f"session.{pool}.allow_spinning"
    rule = partial(Rule, since=(1, 26), needs=(beside(allowed, "1", default="1"),))
    return {
        allowed: _switch_on(
            f"Lets idle {threads} spin before they block. If they are more than the usable CPUs, the backend sends 0.",
            needs=(may_spin(pool),),
        ),
        f"session.{pool}.spin_backoff_max": rule(Integer(1, 64), "1", f"Maximum back-off of {threads}."),
        f"session.{pool}.spin_duration_us": rule(
            Integer(-1, 10_000),  # from 1000000 on, idle threads keep all cores busy
            "-1",
            f"Microseconds that idle {threads} spin. -1: ORT counts iterations.",
            already_so=("-1", "0"),
        ),
    }


_OF_INTRA_OP = {
    # 1000000000 makes a run ten times slower, 2147483647 makes it fail.
    "session.dynamic_block_base": Rule(Integer(0, 128), "0", "Splits parallel loops into shrinking blocks. 0: off."),
    "session.force_spinning_stop": switch(
        "Stops spinning when the last concurrent run returns.", already_so=("0", "1")
    ),
    **_spinning("intra_op"),
}
SESSION_CONFIG |= _all_need(_POOLS["intra_op"], _OF_INTRA_OP)
SESSION_CONFIG |= _all_need(_POOLS["inter_op"], _spinning("inter_op"))

# Other keys with these prefixes are permitted, because future releases can add keys that tune the thread pools.
PREFIXES = ("session.intra_op.", "session.inter_op.")
REST = "[a-z_]{1,40}"
_UNKNOWN = only_warns(
    "an ORT release that reads this key", lambda *_: False, otherwise="may have no effect in this session"
)
OF_PREFIX = Rule(FlagOrInteger(0, 64), "", "", needs=(_UNKNOWN,))


def rule_of_prefix(key: str) -> Rule | None:
    """Return the rule of a key with a prefix. A key that is similar to a known key is probably misspelt."""
    for prefix in PREFIXES:
        if re.fullmatch(re.escape(prefix) + REST, key):
            known = [name.removeprefix(prefix) for name in SESSION_CONFIG if name.startswith(prefix)]
            if not nearest(key.removeprefix(prefix), known):
                return OF_PREFIX
    return None


def _placement(part: str, example: str, meaning: str) -> Parts:
    """Return the kind of rules that place nodes, described by parts of this pattern, on devices."""
    rule = rf"(cpu|gpu(:[0-9]{{1,2}})?|npu)\({part}(,{part})*\)"
    # ORT rejects a part that appears twice, even in different rules.
    accepts = f"rules such as {example}, without duplicates. {meaning}"
    return Parts(f"{rule}(;{rule})*", accepts, 1024, r"[^(),;]+(?=[,)])")


_BY_NAME_ALONE = Need(
    "no session.layer_assignment_settings in the same configuration",
    lambda facts, _: "session.layer_assignment_settings" not in facts.session_config,
)
_PREPACKING = beside(_NO_PREPACKING, "0")

SESSION_CONFIG |= {
    # Kernels.
    "mlas.disable_kleidiai": switch("Disables KleidiAI kernels.", since=(1, 25), needs=(ARM64,)),
    "mlas.enable_gemm_fastmath_arm64_bfloat16": switch(
        "Lets MatMul of float32 compute in bfloat16, which is less precise.", needs=(ARM64_BF16,)
    ),
    # Tried on no other CPU.
    "mlas.nchwc_depthwise_sliding": _switch_on(
        "Uses the sliding-window kernel for depthwise convolution.", since=(1, 31), needs=(X86_64,)
    ),
    "mlas.qnbit.force_fp32": switch("Computes n-bit MatMulNBits in float32.", since=(1, 31), needs=(X86_64,)),
    "mlas.use_lut_gemm": switch("Uses lookup-table kernels for 2-bit MatMulNBits.", needs=(X86_64, _PREPACKING)),
    # Memory and loading.
    _NO_PREPACKING: switch("Skips the repacking of constant weights at load time."),
    "session.prepack.enable_parallel": switch(
        "Repacks constant weights on the intra-op threads.", since=(1, 31), needs=(INTRA_THREADS, _PREPACKING)
    ),
    "session.use_device_allocator_for_initializers": switch("Keeps initializers out of arenas.", needs=(has(*GPU),)),
    # Strictness.
    "session.disable_cpu_ep_fallback": switch("Raises an error if the CPU EP would run a node.", needs=(NO_CPU_EP,)),
    "session.disable_model_compile": switch("Raises an error if an EP compiles nodes.", needs=(has(*COMPILING),)),
    "session.strict_shape_type_inference": switch("Raises an error if a declared type or shape is not as inferred."),
    "session.strict_workspace_verification": switch(
        "Raises an error if a node needs more workspace memory than ORT reserved for it.", since=(1, 31)
    ),
    # Placement.
    "session.layer_assignment_settings": Rule(
        _placement(
            r"=?[\w./:-]+",
            "cpu(encoder,=decoder.0);gpu(decoder)",
            "'encoder' selects all layer annotations that begin with it, and '=decoder.0' selects only this annotation",
        ),
        "",
        "Places nodes by the layer annotations in the model's metadata.",
        since=(1, 25),
        needs=(DEVICES,),
    ),
    "session.name_based_layer_assignment": Rule(
        _placement(r"[\w./:-]+", "cpu(embed,norm);gpu(attention)", "'embed' selects all nodes whose names contain it"),
        "",
        "Places nodes by parts of their names.",
        since=(1, 28),
        needs=(DEVICES, _BY_NAME_ALONE),
    ),
    RECORD_ASSIGNMENT: switch("Records the nodes of each EP."),
}
