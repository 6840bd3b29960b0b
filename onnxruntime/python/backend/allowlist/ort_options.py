# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted attributes and config keys of ``SessionOptions`` and ``RunOptions``. All others are refused.

The field ``since`` is the first release whose CPU wheels contain a key (x86-64: 1.24.1 to 1.32.0, Arm: to 1.31.1).
The tests of this module observe the effect of each key. docs/options-evidence.md lists the effects.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist import value_kinds
from onnxruntime.backend.allowlist.rules import Circumstances, Family, Need, Rule
from onnxruntime.backend.allowlist.value_kinds import Choice, Fixed, Flag, Integer, Member, Names, Text, Threads
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, COMPILING, CPU, GPU, NPU, ON_CUDA_DEVICE


def _parallel(facts: Circumstances) -> bool:
    """Return whether operators run in parallel. With one inter-op thread, ORT creates a sequential session."""
    threads = facts.attributes.get("inter_op_num_threads")
    return facts.attributes.get("execution_mode") == ExecutionMode.ORT_PARALLEL and threads != 1


# A condition without which a setting has no effect.
_only_warns = partial(Need, only_warns=True)
_PARALLEL = _only_warns("execution_mode=ORT_PARALLEL", lambda facts, _: _parallel(facts))
_SEVERAL = _only_warns(
    "inter_op_num_threads other than 1 to be ORT_PARALLEL",
    lambda facts, text: "PARALLEL" not in text or _parallel(facts),
)
_OWN_POOLS = _only_warns(
    "per-session thread pools (use_per_session_threads)",
    lambda facts, _: facts.attributes.get("use_per_session_threads", True),
    shared=True,
)


def _threads(facts: Circumstances) -> int:
    """Return the most threads that ORT starts for the pools of a session. For a number of 0, it counts the cores."""
    pools = ("intra_op", "inter_op") if _parallel(facts) else ("intra_op",)
    return sum(facts.attributes.get(f"{pool}_num_threads") or os.cpu_count() or 1 for pool in pools)


_THREADS = Need(
    "threads that this process can start",
    lambda facts, text: value_kinds.threads_start(max(int(text), _threads(facts))),
    without="ORT waits indefinitely",
)
_PATTERN = _only_warns(
    "execution_mode=ORT_SEQUENTIAL to be on", lambda facts, text: text == "0" or not _parallel(facts)
)
# ORT writes this text into its log lines. It must not look like another field of a log line, or start a new line.
_WORD = "[A-Za-z0-9_.@/+-]+"
_LOG_ID = Text(f"({_WORD}( {_WORD})*)?", "words of ASCII letters, digits and _ . @ / + -, separated by single spaces")
# Not 0 and 1: with them, a session of two nodes writes 136 and 65 lines into the application's log. The application can
# set them with onnxruntime.set_default_logger_severity.
_SEVERITY = Integer(among=(-1, 2, 3, 4))
_VERBOSITY = Rule(
    Integer(among=(0,)),
    "0",
    "Verbosity of log lines. Values other than 0 act only in debug builds at log severity 0, which is refused.",
)
_LEVEL = Member(*GraphOptimizationLevel.__members__.values())
_MODE = Member(*ExecutionMode.__members__.values())
# Not MEMORY_EFFICIENT: with it, builds without training cannot create a session.
_ORDER = Member(ExecutionOrder.DEFAULT, ExecutionOrder.PRIORITY_BASED)

# Programs for ORT's own backend set ORT's defaults, too.
_NO_TRACE = Fixed(False, "ORT writes a trace of every run to a file")
_NO_END = Fixed(
    False, "the run stops before it returns outputs. To stop a run, pass timeout or cancellation to rep.run"
)

_false = partial(Rule, Flag(), "False")
_true = partial(Rule, Flag(), "True")

SESSION_ATTRIBUTES = {
    "enable_cpu_mem_arena": _true("Whether the CPU EP allocates from an arena."),
    "enable_mem_pattern": _true("Whether ORT plans memory ahead from the shapes of the first run.", needs=(_PATTERN,)),
    "enable_mem_reuse": _true("Whether a run reuses buffers."),
    "enable_profiling": Rule(_NO_TRACE, "False", "Whether ORT writes a trace of every run."),
    "execution_mode": Rule(_MODE, "ORT_SEQUENTIAL", "Whether operators run in parallel.", needs=(_SEVERAL,)),
    "execution_order": Rule(_ORDER, "DEFAULT", "Order in which ready nodes run."),
    "graph_optimization_level": Rule(_LEVEL, "ORT_ENABLE_ALL", "How much ORT rewrites the graph."),
    "inter_op_num_threads": Rule(
        Threads(),
        "0",
        "Threads that run operators in parallel. 0: ORT decides.",
        needs=(_THREADS, _OWN_POOLS, _PARALLEL),
        already_so=("0", "1"),
    ),
    "intra_op_num_threads": Rule(Threads(), "0", "Threads per operator. 0: ORT decides.", needs=(_THREADS, _OWN_POOLS)),
    "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines. -1: the default of the process."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the session's log lines."),
    "use_deterministic_compute": _false("Whether ORT prefers deterministic kernels."),
    "use_per_session_threads": _true("Whether the session has its own thread pools."),
}

RUN_ATTRIBUTES = {
    "log_severity_level": Rule(_SEVERITY, "-1", "Minimum severity of log lines of the run. -1: the session's."),
    "log_verbosity_level": _VERBOSITY,
    "logid": Rule(_LOG_ID, "", "Prefix of the run's log lines."),
    "only_execute_path_to_fetches": _false("Whether ORT runs only the nodes that the outputs need."),
    "terminate": Rule(_NO_END, "False", "Whether the run stops before it returns outputs."),
}

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


def _has(*eps: str) -> Need:
    """Return the need of one of these EPs in the session."""
    what = f"one of the EPs {', '.join(ep.replace('ExecutionProvider', '') for ep in eps)} in the session"
    return Need(what, lambda facts, _: facts.has(*eps))


def _beside(key: str, *refused: str, what: str) -> Need:
    """Return the need that another entry does not have one of these values. Otherwise, the entry has no effect."""
    return _only_warns(what, lambda facts, _: facts.beside.get(key) not in refused)


def _read_by(*operators: str) -> Need:
    """Return the need of one of the operators that read a key, or that ORT rewrites into such operators.

    ORT records the operators after ORT_ENABLE_BASIC. Its passes can remove operators whose keys they have read.
    """
    return _only_warns(f"a model with {' or '.join(operators)}", lambda *_: True, operators=operators)


_NBITS = _read_by("MatMulNBits", "DequantizeLinear")
_X86_64 = Need("an x86-64 CPU", lambda facts, _: facts.machine.lower() in ("x86_64", "amd64"))

# Switches that are off and on by default. If the session lacks the part of ORT that a switch controls, it is off.
_switch = partial(Rule, Flag(), "0", already_so=("0",))
_switch_on = partial(Rule, Flag(), "1", already_so=("0",))


# The names that optimization.disable_specified_optimizers acts on (the pass leaves the log, or its nodes stay in the
# graph), by the release that added them. It does not act on MemcpyTransformer, CastFloat16Transformer,
# RemoveDuplicateCastTransformer and EnsureUniqueDQForNodeUnit.
_OPTIMIZERS_SINCE = {
    (1, 24): """
        AttentionFusion BiasDropoutFusion BiasGeluFusion BiasSoftmaxFusion CastChainElimination CastElimination
        ClipQuantRewrite CommonSubexpressionElimination ConstantFolding ConstantSharing ConvActivationFusion
        ConvAddActivationFusion ConvAddFusion ConvBNFusion ConvMulFusion DivMulFusion DoubleQDQPairsRemover
        DynamicQuantizeMatMulFusion EliminateDropout EliminateIdentity EliminateSlice EmbedLayerNormFusion
        ExpandElimination FastGeluFusion FreeDimensionOverrideTransformer FuseFp16InitializerToFp32NodeTransformer
        FuseReluClip GatherSliceToSplitFusion GatherToSliceFusion GeluApproximation GeluFusionL1 GeluFusionL2
        GemmActivationFusion GemmSumFusion GemmTransposeFusion GroupQueryAttentionFusion LayerNormFusionL1
        LayerNormFusionL2 Level1_RuleBasedTransformer Level2_RuleBasedTransformer MatMulActivationFusion MatMulAddFusion
        MatMulIntegerToFloatFusion MatMulNBitsFusion MatMulScaleFusion MatMul_BatchNormalization_Fusion
        MatmulTransposeFusion NchwcTransformer NhwcTransformer NoopElimination Pad_Fusion PreShapeNodeElimination
        QDQFinalCleanupTransformer QDQPropagationTransformer QDQS8ToU8Transformer QDQSelectorActionTransformer
        QuickGeluFusion ReluQuantRewrite ReshapeFusion SimplifiedLayerNormFusion SkipLayerNormFusion TransposeOptimizer
        TransposeOptimizer_CPUExecutionProvider WeightBiasQuantization WhereDummyDq
    """,
    (1, 25): """
        Avx2WeightS8ToU8Transformer BiasSkipLayerNormFusion DQMatMulNBitsFusion NotWhereFusion
        SliceConcatToSpaceToDepthFusion
    """,
    (1, 28): "GroupQueryAttentionPreNormFusion",
    (1, 32): "SwiGluFusion",
}
OPTIMIZERS = {name: since for since, names in _OPTIMIZERS_SINCE.items() for name in names.split()}
_LISTED = ". ".join(
    "ORT {}.{} and later: {}".format(*since, ", ".join(names.split())) for since, names in _OPTIMIZERS_SINCE.items()
)
_KNOWN_OPTIMIZERS = Need(
    "optimizers of this ORT release",
    lambda facts, text: all(OPTIMIZERS[name] <= facts.release for name in text.split(";") if name),
)
_OVERRIDES_PASS = "FreeDimensionOverrideTransformer"
_OVERRIDES_APPLIED = Need(
    f"no free_dimension_overrides if the value contains {_OVERRIDES_PASS}",
    lambda facts, text: not facts.sizes or _OVERRIDES_PASS not in text.split(";"),
    without="ORT ignores the overrides",
)


def _optimizes(level: GraphOptimizationLevel) -> Need:
    """Return the need of a graph optimization level at which the pass that reads a key runs."""
    least, what = int(level), f"graph_optimization_level={level.name} or more"
    return _only_warns(what, lambda facts, _: int(facts.attributes.get("graph_optimization_level", least)) >= least)


def _enabled(*optimizers: str) -> Need:
    """Return the need that ``optimization.disable_specified_optimizers`` contains none of these optimizers."""
    what = f"{' and '.join(optimizers)} to be enabled"
    return _only_warns(what, lambda facts, _: {*optimizers}.isdisjoint(facts.beside.get(_DISABLED, "").split(";")))


_BASIC = _optimizes(GraphOptimizationLevel.ORT_ENABLE_BASIC)
_EXTENDED = _optimizes(GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
_FULL = _beside(_MINIMAL, "apply", what=f"{_MINIMAL} other than 'apply'")
_QDQ_FUSION = _beside(_NO_QDQ_FUSION, "1", what=f"{_NO_QDQ_FUSION}=0")
_FUSED = "DequantizeLinear and MatMul become MatMulNBits"
_QDQ_FUSES = (_QDQ_FUSION, _enabled("QDQSelectorActionTransformer"), _NBITS)
_QDQ_KEPT = _beside(_NO_QDQ_FUSION, None, "0", what=f"{_NO_QDQ_FUSION}=1")

# At every level: an entry that turns work off is met anyway by a level that does not do this work.
SESSION_CONFIG: dict[str, Rule] = {
    FOLDING_CAP: Rule(
        # 0 and values above the default would lift the cap, and a small model could fold gigabytes.
        Integer(1, 2**30),
        "1073741824",
        f"Maximum size of a folded constant. With free_dimension_overrides, the backend sets {MOST_FOLDED} by default.",
        since=(1, 27),
    ),
    _DISABLED: Rule(
        Names(lambda: OPTIMIZERS, f"names from these lists, joined by ';'. {_LISTED}", empty=True),
        "",
        "Disables these graph optimizers. ORT itself silently ignores unknown names.",
        needs=(_KNOWN_OPTIMIZERS, _OVERRIDES_APPLIED),
    ),
    # ORT's third value, 'save', is for saving a model.
    _MINIMAL: Rule(Choice("", "apply"), "", "Restricts optimization to the passes of a minimal build."),
    "session.disable_aot_function_inlining": _switch("Inlines model-local functions late instead of ahead of time."),
    "session.disable_double_qdq_remover": _switch("Keeps the inner pair of Q-DQ-Q-DQ chains."),
    "session.disable_qdq_constant_folding": _switch(
        f"Keeps DequantizeLinear of a constant if {_NO_QDQ_FUSION} is 1, too.", since=(1, 26), needs=(_QDQ_KEPT,)
    ),
    _NO_QDQ_FUSION: _switch("Skips the fusion of QDQ groups."),
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
        needs=(_read_by("GroupQueryAttention"),),
        already_so=("BNSH",),
    ),
}


def _all_need(needs: tuple[Need, ...], rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return rules with these needs in addition to their own."""
    return {key: rule._replace(needs=rule.needs + needs) for key, rule in rules.items()}


_OF_BASIC_PASSES = {
    "optimization.enable_cast_chain_elimination": _switch(
        "Removes chains of Cast nodes, and the rounding that they cause.",
        needs=(_enabled("CastChainElimination", "Level1_RuleBasedTransformer"),),
    ),
    "session.enable_dq_matmulnbits_fusion": _switch(
        "Adds a pass that fuses DequantizeLinear and MatMul into MatMulNBits for EPs that keep QDQ groups.",
        since=(1, 25),
        needs=(_QDQ_FUSION, _enabled("DQMatMulNBitsFusion")),
    ),
    "session.graph_optimizations_loop_level": Rule(
        Integer(among=(0, 1, 2)), "1", "Whether ORT repeats optimization passes.", already_so=("0", "1")
    ),
}
_OF_EXTENDED_PASSES = {
    "optimization.enable_gelu_approximation": _switch(
        "Replaces Gelu by its tanh approximation.",
        needs=(_enabled("GeluApproximation"), _FULL, _read_by("Gelu", "BiasGelu", "Erf")),
    ),
    "session.enable_quant_qdq_cleanup": _switch(
        "Removes remaining Q-DQ pairs, and the rounding that they cause.",
        needs=(_enabled("QDQFinalCleanupTransformer"), _read_by("QuantizeLinear")),
    ),
    "session.qdq_matmulnbits_accuracy_level": Rule(
        Integer(0, 4), "4", f"Accuracy level if {_FUSED}.", needs=_QDQ_FUSES, already_so=("4",)
    ),
    "session.qdq_matmulnbits_block_size": Rule(
        Integer(among=(-1, 0, 16, 32, 64, 128, 256)),
        "0",
        f"Block size if a per-tensor or per-channel {_FUSED}. -1: ORT chooses. 0: 32.",
        since=(1, 25),
        needs=_QDQ_FUSES,
        already_so=("0",),
    ),
    "session.qdqisint8allowed": Rule(
        Flag(),
        "0, or 1 on Arm",
        "Keeps signed int8 QDQ instead of rewriting it to uint8.",
        needs=(_QDQ_FUSION, _enabled("QDQS8ToU8Transformer"), _FULL),
        already_so=("1",),
    ),
    "session.x64quantprecision": _switch(
        "Rewrites int8 weights to uint8. An x86-64 CPU without VNNI multiplies uint8 weights without saturation.",
        since=(1, 25),  # 1.24 reads it on CPUs without VNNI only (on an emulated CPU)
        needs=(_X86_64, _enabled("Avx2WeightS8ToU8Transformer"), _FULL),
    ),
}
SESSION_CONFIG |= _all_need((_BASIC,), _OF_BASIC_PASSES) | _all_need((_EXTENDED,), _OF_EXTENDED_PASSES)

_INTRA_THREADS = _only_warns(
    "two or more intra-op threads", lambda facts, _: facts.attributes.get("intra_op_num_threads") != 1
)
_POOLS = {"intra_op": (_INTRA_THREADS, _OWN_POOLS), "inter_op": (_PARALLEL, _OWN_POOLS)}


def _spinning(pool: str) -> dict[str, Rule]:
    """Return the keys about idle threads of a pool."""
    threads, allowed = f"{pool.replace('_', '-')} threads", f"session.{pool}.allow_spinning"
    rule = partial(Rule, since=(1, 26), needs=(_beside(allowed, "0", what=f"{allowed}=1"),))
    return {
        allowed: _switch_on(f"Lets idle {threads} spin before they block."),
        f"session.{pool}.spin_backoff_max": rule(
            Integer(1, 64), "1", f"Maximum back-off of {threads}.", already_so=("1",)
        ),
        f"session.{pool}.spin_duration_us": rule(
            Integer(-1, 10_000),  # from 1000000 on, idle threads keep all cores busy
            "-1",
            f"Microseconds that idle {threads} spin. -1: ORT counts iterations.",
            already_so=("-1", "0"),
        ),
    }


_OF_INTRA_OP = {
    # 1000000000 makes a run ten times slower, 2147483647 makes it fail.
    "session.dynamic_block_base": Rule(
        Integer(0, 128), "0", "Splits parallel loops into shrinking blocks. 0: off.", already_so=("0",)
    ),
    "session.force_spinning_stop": _switch(
        "Stops spinning when the last concurrent run returns.", already_so=("0", "1")
    ),
    **_spinning("intra_op"),
}
SESSION_CONFIG |= _all_need(_POOLS["intra_op"], _OF_INTRA_OP)
SESSION_CONFIG |= _all_need(_POOLS["inter_op"], _spinning("inter_op"))
# Other keys with these prefixes. No effect of theirs is known, so each causes a warning.
SESSION_FAMILIES = tuple(
    Family(f"session.{pool}.", "[a-z_]{1,40}", 16, Rule(Integer(0, 64, flags=True), "", "", needs=needs))
    for pool, needs in _POOLS.items()
)


def _each_device(text: str, **has: bool) -> bool:
    """Return whether each device in a text such as 'cpu:0;gpu:0' is one that the session ``has``."""
    return all(has[part[:3]] for part in text.split(";"))


def _placement(part: str, example: str, meaning: str) -> Text:
    """Return the kind of rules that place nodes, described by parts of this pattern, on devices."""
    rule = rf"(cpu|gpu(:[0-9]{{1,2}})?|npu)\({part}(,{part})*\)"
    # ORT rejects a part that appears twice, even in different rules.
    accepts = f"rules such as {example}, without duplicates. {meaning}"
    return Text(f"{rule}(;{rule})*", accepts, max_bytes=1024, once=r"[^(),;]+(?=[,)])")


def _has_bf16() -> bool:
    """Return whether Linux lists bfloat16 among the features of an Arm CPU."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return any("bf16" in line.split() for line in file if line.startswith("Features"))
    except OSError:
        return False


_ARM64 = Need("a 64-bit Arm CPU", lambda facts, _: facts.machine.lower() in ("aarch64", "arm64"))
_ARM64_BF16 = Need(
    "Linux on a 64-bit Arm CPU with bfloat16",
    lambda facts, text: facts.system == "Linux" and _ARM64.met(facts, text) and _has_bf16(),
)
_NO_CPU_EP = Need(
    "provider_options with an execution provider and without CPUExecutionProvider",
    lambda facts, text: text == "0" or (bool(facts.providers) and CPU not in facts.providers),
)
_BY_NAME_ALONE = Need(
    "no session.layer_assignment_settings in the same configuration",
    lambda facts, _: "session.layer_assignment_settings" not in facts.beside,
)
_DEVICES = Need(
    # Otherwise, ORT logs an error and continues.
    "a session with an execution provider for every device in the value",
    lambda facts, text: _each_device(text, cpu=True, gpu=facts.has(*GPU), npu=facts.has(*NPU)),
)
_PREPACKING = _beside(_NO_PREPACKING, "1", what=f"{_NO_PREPACKING}=0")

SESSION_CONFIG |= {
    # Kernels.
    "mlas.disable_kleidiai": _switch("Disables KleidiAI kernels.", since=(1, 25), needs=(_ARM64,)),
    "mlas.enable_gemm_fastmath_arm64_bfloat16": _switch(
        "Lets MatMul of float32 compute in bfloat16, which is less precise.", needs=(_ARM64_BF16,)
    ),
    # Tried on no other CPU.
    "mlas.nchwc_depthwise_sliding": _switch_on(
        "Uses the sliding-window kernel for depthwise convolution.",
        since=(1, 31),
        needs=(_X86_64, _read_by("Conv", "FusedConv")),
    ),
    "mlas.qnbit.force_fp32": _switch("Computes n-bit MatMulNBits in float32.", since=(1, 31), needs=(_X86_64, _NBITS)),
    "mlas.use_lut_gemm": _switch(
        "Uses lookup-table kernels for 2-bit MatMulNBits.", needs=(_X86_64, _PREPACKING, _NBITS)
    ),
    # Memory and loading.
    _NO_PREPACKING: _switch("Skips the repacking of constant weights at load time."),
    "session.prepack.enable_parallel": _switch(
        "Repacks constant weights on the intra-op threads.", since=(1, 31), needs=(_INTRA_THREADS, _PREPACKING)
    ),
    "session.use_device_allocator_for_initializers": _switch("Keeps initializers out of arenas.", needs=(_has(*GPU),)),
    # Strictness.
    "session.disable_cpu_ep_fallback": _switch("Raises an error if the CPU EP would run a node.", needs=(_NO_CPU_EP,)),
    "session.disable_model_compile": _switch("Raises an error if an EP compiles nodes.", needs=(_has(*COMPILING),)),
    "session.strict_shape_type_inference": _switch("Raises an error if a declared type or shape is not as inferred."),
    "session.strict_workspace_verification": _switch(
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
        needs=(_DEVICES,),
    ),
    "session.name_based_layer_assignment": Rule(
        _placement(r"[\w./:-]+", "cpu(embed,norm);gpu(attention)", "'embed' selects all nodes whose names contain it"),
        "",
        "Places nodes by parts of their names.",
        since=(1, 28),
        needs=(_DEVICES, _BY_NAME_ALONE),
    ),
    RECORD_ASSIGNMENT: _switch("Records the nodes of each EP."),
}


def _captures(facts: Circumstances) -> bool:
    """Return whether an EP captures graphs, which ``gpu_graph_id`` distinguishes."""
    return any(value_kinds.is_on(facts.options.get(ep, {}).get(name, "")) for ep, name in CAPTURE_SWITCHES.items())


_CAPTURING = _only_warns(
    f"an execution provider that captures graphs ({', '.join(CAPTURE_SWITCHES.values())})",
    lambda facts, text: text == "-1" or _captures(facts),
)
_ARENAS = Need(
    "a memory arena for each device in the value (cpu: enable_cpu_mem_arena; gpu: a GPU EP)",
    lambda facts, text: _each_device(
        text, cpu=facts.attributes.get("enable_cpu_mem_arena", True), gpu=facts.has(*ON_CUDA_DEVICE)
    ),
)
_NO_GRAPHS = Need(
    "a value of cpu:0 if the session captures graphs",
    lambda facts, text: text == "cpu:0" or not _captures(facts),
    without="a replay uses memory that the arena has released",
)

RUN_CONFIG: dict[str, Rule] = {
    "gpu_graph_id": Rule(Integer(-1, 1023), "not set", "Captured graph of the run. -1: none.", needs=(_CAPTURING,)),
    "memory.enable_memory_arena_shrinkage": Rule(
        Text(r"(cpu:0|gpu:[0-9]{1,2})(;(cpu:0|gpu:[0-9]{1,2})){0,7}", "devices such as cpu:0 or cpu:0;gpu:0"),
        "not set",
        "Releases unused arena memory after the run.",
        needs=(_ARENAS, _NO_GRAPHS),
    ),
}

# Keyword argument to the settings that it contains by name.
BY_KEYWORD = {"session_config": SESSION_CONFIG, "run_config": RUN_CONFIG, "session_options": SESSION_ATTRIBUTES}

# The sizes of one named dimension. free_dimensions.py bounds their product for each input.
FREE_DIMENSION = Rule(Integer(1, MOST_FOLDED), "open", "The size of a named dimension.")
