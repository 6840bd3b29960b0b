# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of configuration keys: session config entries and run config entries, with the values that each takes.
What is not here is refused.

``since`` is the first release whose CPU wheels hold the key (read from the wheels of 1.24.1 to 1.31.1, x86-64 and Arm).
``evidence`` names what was seen to differ; without a release it was seen with 1.31.1 on x86-64.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from onnxruntime import GraphOptimizationLevel
from onnxruntime.backend.allowlist.attributes import OWN_THREADS, PARALLEL
from onnxruntime.backend.allowlist.circumstances import Circumstances
from onnxruntime.backend.allowlist.rules import Family, Need, Rule, Table
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer, Names, Text
from onnxruntime.backend.provider_names import CAPTURE_SWITCHES, COMPILING, CPU, GPU, NPU, ON_CUDA_DEVICE


def _has(*eps: str) -> Need:
    """One of these EPs in the session."""
    what = f"one of the execution providers {', '.join(eps)} in the session"
    return Need(what, lambda at, _: bool({*eps} & {*at.providers}))


_X86_64 = Need("an x86-64 CPU", lambda at, _: at.machine.lower() in ("x86_64", "amd64"))

# What is off by default, and what is on.
_switch = partial(Rule, Flag(), "0")
_switch_on = partial(Rule, Flag(), "1")

SESSION_CONFIG: dict[str, Rule] = {}

# --- Session config entries: graph optimization -----------------------------------------------------------------------

# Names that optimization.disable_specified_optimizers was seen to act on (the pass left the log, or its nodes stayed in
# the graph), with the release that brought them. A pass that it has no power over (MemcpyTransformer,
# CastFloat16Transformer, RemoveDuplicateCastTransformer, EnsureUniqueDQForNodeUnit) is not among them.
_OPTIMIZERS = {
    name: since
    for since, names in {
        (1, 24): """
            AttentionFusion BiasDropoutFusion BiasGeluFusion BiasSoftmaxFusion CastChainElimination CastElimination
            ClipQuantRewrite CommonSubexpressionElimination ConstantFolding ConstantSharing ConvActivationFusion
            ConvAddActivationFusion ConvAddFusion ConvBNFusion ConvMulFusion DivMulFusion DoubleQDQPairsRemover
            DynamicQuantizeMatMulFusion EliminateDropout EliminateIdentity EliminateSlice EmbedLayerNormFusion
            ExpandElimination FastGeluFusion FreeDimensionOverrideTransformer
            FuseFp16InitializerToFp32NodeTransformer FuseReluClip GatherSliceToSplitFusion GatherToSliceFusion
            GeluApproximation GeluFusionL1 GeluFusionL2 GemmActivationFusion GemmSumFusion GemmTransposeFusion
            GroupQueryAttentionFusion LayerNormFusionL1 LayerNormFusionL2 Level1_RuleBasedTransformer
            Level2_RuleBasedTransformer MatMulActivationFusion MatMulAddFusion MatMulIntegerToFloatFusion
            MatMulNBitsFusion MatMulScaleFusion MatMul_BatchNormalization_Fusion MatmulTransposeFusion
            NchwcTransformer NhwcTransformer NoopElimination Pad_Fusion PreShapeNodeElimination
            QDQFinalCleanupTransformer QDQPropagationTransformer QDQS8ToU8Transformer QDQSelectorActionTransformer
            QuickGeluFusion ReluQuantRewrite ReshapeFusion SimplifiedLayerNormFusion SkipLayerNormFusion
            TransposeOptimizer TransposeOptimizer_CPUExecutionProvider WeightBiasQuantization WhereDummyDq
        """,
        (1, 25): """
            Avx2WeightS8ToU8Transformer BiasSkipLayerNormFusion DQMatMulNBitsFusion NotWhereFusion
            SliceConcatToSpaceToDepthFusion
        """,
        (1, 27): "MatMulNBitsMlpFusion MatMulNBitsQkvFusion",
        (1, 28): "GroupQueryAttentionPreNormFusion",
    }.items()
    for name in names.split()
}
# Later releases run these for other EPs than the CPU's only, where disabling them was not tried.
_ONLY_IN_1_27 = {"MatMulNBitsMlpFusion", "MatMulNBitsQkvFusion"}
_KNOWN_OPTIMIZERS = Need(
    "optimizer names that this ORT release has (came later than 1.24: "
    + ", ".join(sorted("{} {}.{}".format(name, *since) for name, since in _OPTIMIZERS.items() if since > (1, 24)))
    + f"; {' and '.join(sorted(_ONLY_IN_1_27))} in 1.27 only)",
    lambda at, text: all(
        _OPTIMIZERS[name] <= at.release and (name not in _ONLY_IN_1_27 or at.release == (1, 27))
        for name in filter(None, text.split(";"))
    ),
)


def _optimizes(level: GraphOptimizationLevel) -> Need:
    """A graph optimization level at which the pass that reads a key runs: each key was tried at each."""
    least = int(level)
    return Need(
        f"graph_optimization_level={level.name} or more",
        lambda at, _: int(at.attributes.get("graph_optimization_level", least)) >= least,
        idle=True,
    )


_BASIC = _optimizes(GraphOptimizationLevel.ORT_ENABLE_BASIC)
_EXTENDED = _optimizes(GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
_QDQ_KEPT = Need(
    "session.disable_quant_qdq=1", lambda at, text: at.beside.get("session.disable_quant_qdq") == "1", idle=True
)

# At every level, where `needs` does not say otherwise.
SESSION_CONFIG |= {
    "session.disable_aot_function_inlining": _switch(
        "Inlines model-local functions late instead of ahead of time.", evidence="log of the inlining"
    ),
    "session.disable_qdq_constant_folding": _switch(
        "Keeps DequantizeLinear of a constant when session.disable_quant_qdq is 1 as well.",
        since=(1, 26),
        needs=(_BASIC, _QDQ_KEPT),
        evidence="log: ConstantFolding leaves the node",
    ),
    "session.function_expansion_byte_limit": Rule(
        Integer(1, 2**30),
        "1073741824",
        "Caps the bytes that function inlining may create; only lower than the default.",
        since=(1, 31),
        evidence="'1' refuses a model with a function",
    ),
    "session.function_expansion_node_limit": Rule(
        Integer(1, 1_000_000),
        "1000000",
        "Caps the nodes that function inlining may create; only lower than the default.",
        since=(1, 31),
        evidence="'1' refuses a model with a function",
    ),
    "session.gqa_value_layout": Rule(
        Choice("BNSH", "BNHS"),
        "BNSH",
        "Layout of GroupQueryAttention's value cache, and so the shape of that input and output.",
        since=(1, 30),
        evidence="'BNHS' refuses an ORT-format model",
    ),
}

# By passes that run from ORT_ENABLE_BASIC on.
SESSION_CONFIG |= Table(needs=(_BASIC,)) | {
    "optimization.constant_folding_max_output_size_in_bytes": Rule(
        # 0 and anything above the default would lift the cap that keeps a small model from folding gigabytes.
        Integer(1, 2**30),
        "1073741824",
        "Largest output that a folded constant may have.",
        since=(1, 27),
        evidence="'8' keeps ConstantOfShape in the graph",
    ),
    "optimization.disable_specified_optimizers": Rule(
        Names(_OPTIMIZERS, empty=True),
        "",
        "Skips the named graph optimizers; ORT would skip unknown names in silence.",
        needs=(_KNOWN_OPTIMIZERS,),
        evidence="each name tried on its own",
    ),
    "optimization.enable_cast_chain_elimination": _switch(
        "Removes chains of Cast, with the rounding they did.", evidence="Cast, Cast, Relu becomes Relu"
    ),
    "session.disable_double_qdq_remover": _switch(
        "Keeps the inner pair of Q-DQ-Q-DQ chains.", evidence="outputs change"
    ),
    "session.enable_dq_matmulnbits_fusion": _switch(
        "Adds a pass that turns DequantizeLinear and MatMul into MatMulNBits for EPs that keep QDQ groups.",
        since=(1, 25),
        evidence="log: DQMatMulNBitsFusion runs (the CPU EP left it nothing to fuse); in wheels from 1.24.3 on",
    ),
    "session.graph_optimizations_loop_level": Rule(
        Integer(among=(0, 1, 2)), "1", "Whether optimization passes are repeated.", evidence="log of the loop level"
    ),
}

# By passes that run from ORT_ENABLE_EXTENDED on.
SESSION_CONFIG |= Table(needs=(_EXTENDED,)) | {
    "optimization.enable_gelu_approximation": _switch(
        "Replaces Gelu by its tanh approximation.", evidence="Gelu becomes FastGelu"
    ),
    "optimization.minimal_build_optimizations": Rule(
        Choice("", "apply"),  # ORT's third value, 'save', belongs to saving a model
        "",
        "Restricts optimization to what a minimal build has.",
        evidence="'apply': Conv and Relu become FusedConv, without NCHWc",
    ),
    "session.disable_quant_qdq": _switch(
        "Skips the fusion of QDQ groups.", evidence="MatMul stays where QLinearMatMul was"
    ),
    "session.enable_quant_qdq_cleanup": _switch(
        "Removes Q-DQ pairs that are left over, with the rounding they did.", evidence="outputs change"
    ),
    "session.qdq_matmulnbits_accuracy_level": Rule(
        Integer(0, 4), "4", "Accuracy level where DQ and MatMul become MatMulNBits.", evidence="outputs change"
    ),
    "session.qdq_matmulnbits_block_size": Rule(
        Integer(among=(-1, 0, 16, 32, 64, 128, 256)),
        "0",
        "Block size where a per-tensor or per-channel DQ and MatMul become MatMulNBits; -1: ORT chooses, 0: 32.",
        since=(1, 25),
        evidence="outputs change",
    ),
    "session.qdqisint8allowed": Rule(
        Flag(), "0, on Arm 1", "Keeps signed int8 QDQ instead of rewriting it to uint8.", evidence="log of the rewrite"
    ),
    "session.x64quantprecision": _switch(
        "Rewrites int8 weights to uint8, which x86-64 CPUs without VNNI multiply without saturating.",
        # 1.24 heeds it on CPUs without VNNI only (seen on an emulated one), and ignores it on others.
        since=(1, 25),
        needs=(_X86_64,),
        evidence="log: Avx2WeightS8ToU8Transformer runs",
    ),
}

# --- Session config entries: threads ----------------------------------------------------------------------------------

_INTRA_THREADS = Need(
    "more than one intra-op thread", lambda at, _: at.attributes.get("intra_op_num_threads") != 1, idle=True
)
_spin_backoff = partial(Rule, Integer(1, 64), "1", since=(1, 26))
# From 1000000 on, idle threads keep all cores busy.
_spin_duration = partial(Rule, Integer(-1, 10_000), "-1", since=(1, 26))

# Within an operator.
SESSION_CONFIG |= Table(needs=(_INTRA_THREADS, OWN_THREADS)) | {
    "session.dynamic_block_base": Rule(
        # 1000000000 made a run ten times slower, 2147483647 made it fail.
        Integer(0, 128),
        "0",
        "Splits parallel loops in shrinking blocks; 0: off.",
        evidence="log of the block base",
    ),
    "session.force_spinning_stop": _switch(
        "Stops spinning when the last concurrent run returns.", evidence="idle CPU seconds go to zero"
    ),
    "session.intra_op.allow_spinning": _switch_on(
        "Lets idle intra-op threads spin before they block.", evidence="idle CPU seconds go to zero"
    ),
    "session.intra_op.spin_backoff_max": _spin_backoff(
        "Cap of the back-off in the intra-op spin loop.", evidence="log: ORT reads it"
    ),
    "session.intra_op.spin_duration_us": _spin_duration(
        "Microseconds that idle intra-op threads spin; -1: counted in iterations.",
        evidence="idle CPU seconds go to zero with 0",
    ),
}

# Between operators.
SESSION_CONFIG |= Table(needs=(PARALLEL, OWN_THREADS)) | {
    "session.inter_op.allow_spinning": _switch_on(
        "Lets idle inter-op threads spin before they block.", evidence="idle CPU seconds go to zero"
    ),
    "session.inter_op.spin_backoff_max": _spin_backoff(
        "Cap of the back-off in the inter-op spin loop.", evidence="log: ORT reads it in parallel mode"
    ),
    "session.inter_op.spin_duration_us": _spin_duration(
        "Microseconds that idle inter-op threads spin; -1: counted in iterations.",
        evidence="idle CPU seconds go to zero with 0",
    ),
}

# Other keys of these beginnings, which nobody saw to act; each comes with a warning.
SESSION_FAMILIES: tuple[Family, ...] = tuple(
    Family(Integer(0, 64, flags=True), "", "", prefix=prefix, rest="[a-z_]{1,40}", most=16, needs=needs)
    for prefix, needs in (
        ("session.intra_op.", (_INTRA_THREADS, OWN_THREADS)),
        ("session.inter_op.", (PARALLEL, OWN_THREADS)),
    )
)

# --- Session config entries: kernels, memory, strictness, placement ---------------------------------------------------


def _devices_exist(at: Circumstances, text: str) -> bool:
    """Every device that a placement rule names has an EP: ORT logs an error for a rule without one, and goes on."""
    has = {"cpu": True, "gpu": bool({*GPU} & {*at.providers}), "npu": bool({*NPU} & {*at.providers})}
    return all(has[rule[:3]] for rule in text.split(";"))


def _placement(part: str, accepts: str) -> Text:
    """Rules that place what is named by parts of this pattern on a device."""
    rule = rf"(cpu|gpu(:[0-9]{{1,2}})?|npu)\({part}(,{part})*\)"
    return Text(f"{rule}(;{rule})*", accepts, max_bytes=1024)


def _has_bf16() -> bool:
    """Whether Linux names bfloat16 among the features of an Arm CPU."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return any("bf16" in line.split() for line in file if line.startswith("Features"))
    except OSError:
        return False


_ARM64 = Need("a 64-bit Arm CPU", lambda at, _: at.machine.lower() in ("aarch64", "arm64"))
_ARM64_BF16 = Need(
    "Linux on a 64-bit Arm CPU with bfloat16",
    lambda at, text: at.system == "Linux" and _ARM64.met(at, text) and _has_bf16(),
)
_NO_CPU_EP = Need(
    "provider_options that name an execution provider, and not CPUExecutionProvider",
    lambda at, text: text == "0" or (bool(at.providers) and CPU not in at.providers),
)
_BY_NAME_ALONE = Need(
    "session.layer_assignment_settings not to be named beside it",
    lambda at, _: "session.layer_assignment_settings" not in at.beside,
)
_DEVICES = Need("an execution provider in the session for every device it names", _devices_exist)

SESSION_CONFIG |= {
    # Kernels.
    "mlas.disable_kleidiai": _switch(
        "Switches off KleidiAI kernels.",
        since=(1, 25),
        needs=(_ARM64,),
        evidence="emulated Arm CPU: outputs of a 4-bit MatMulNBits change",
    ),
    "mlas.enable_gemm_fastmath_arm64_bfloat16": _switch(
        "Lets float matmul compute in bfloat16, with its precision.",
        needs=(_ARM64_BF16,),
        evidence="emulated Arm CPU: outputs of a MatMul change",
    ),
    "mlas.nchwc_depthwise_sliding": _switch_on(
        "Chooses the sliding-window kernel for depthwise convolution.",
        since=(1, 31),
        needs=(_X86_64,),  # tried on no other
        evidence="run time of a 3x3 depthwise convolution differs by 15 %, outputs do not",
    ),
    "mlas.qnbit.force_fp32": _switch(
        "Computes n-bit MatMulNBits in float32.",
        since=(1, 31),
        needs=(_X86_64,),
        evidence="outputs of a 4-bit one change; not on an emulated Arm CPU",
    ),
    "mlas.use_lut_gemm": _switch(
        "Uses lookup-table kernels for 2-bit MatMulNBits.",
        needs=(_X86_64,),
        evidence="outputs change; not on an emulated Arm CPU",
    ),
    # Memory and loading.
    "session.disable_prepacking": _switch(
        "Skips the repacking of constant weights at load time.", evidence="log of the initializers' memory"
    ),
    "session.prepack.enable_parallel": _switch(
        "Repacks constant weights on the intra-op threads.",
        since=(1, 31),
        needs=(_INTRA_THREADS,),
        evidence="log of the repacking",
    ),
    "session.use_device_allocator_for_initializers": _switch(
        "Allocates initializers outside the device's arena.",
        needs=(_has(*GPU),),
        evidence="looked up by 1.31.1; no difference on the CPU EP, where the arena reserves them one by one anyway",
    ),
    # Strictness.
    "session.disable_cpu_ep_fallback": _switch(
        "Fails when a node would be left to the CPU EP.",
        needs=(_NO_CPU_EP,),
        evidence="OpenVINO 1.24.1 alone; ORT rejects it beside the CPU EP",
    ),
    "session.disable_model_compile": _switch(
        "Fails when an EP would have to compile.",
        needs=(_has(*COMPILING),),
        evidence="OpenVINO 1.24.1: MODEL_REQUIRES_COMPILATION",
    ),
    "session.strict_shape_type_inference": _switch(
        "Fails when a declared shape or type contradicts inference.", evidence="refuses such a model"
    ),
    "session.strict_workspace_verification": _switch(
        "Fails when workspace estimates do not match.", since=(1, 31), evidence="'1' refuses an ORT-format model"
    ),
    # Placement.
    "session.layer_assignment_settings": Rule(
        _placement(
            r"=?[\w./:-]+", "rules such as cpu(encoder,=decoder.0);gpu(decoder) over layer annotations of the model"
        ),
        "",
        "Places nodes by the layer annotations in the model's metadata.",
        since=(1, 25),
        needs=(_DEVICES,),
        evidence="log of the parsed rules",
    ),
    "session.name_based_layer_assignment": Rule(
        _placement(r"[\w./:-]+", "rules such as cpu(embed,norm);gpu(attention) over parts of node names"),
        "",
        "Places nodes by parts of their names.",
        since=(1, 28),
        needs=(_DEVICES, _BY_NAME_ALONE),
        evidence="log of the parsed rules",
    ),
    "session.record_ep_graph_assignment_info": _switch(
        "Records which nodes each EP took.", evidence="get_provider_graph_assignment_info answers"
    ),
}

# --- Run config entries -----------------------------------------------------------------------------------------------


def _captures(options: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether one of the EPs with these options captures graphs that gpu_graph_id tells apart."""
    return any(options.get(ep, {}).get(name, "0").lower() in ("1", "true") for ep, name in CAPTURE_SWITCHES.items())


def _arenas_exist(at: Circumstances, text: str) -> bool:
    """Every device named in 'cpu:0;gpu:0' has an arena: ORT takes that text without a GPU and does nothing for it."""
    gpu = bool({*ON_CUDA_DEVICE} & {*at.providers})
    return all(
        at.attributes.get("enable_cpu_mem_arena", True) if device.startswith("cpu") else gpu
        for device in text.split(";")
    )


_CAPTURING = Need(
    f"an execution provider that captures graphs ({', '.join(CAPTURE_SWITCHES.values())})",
    lambda at, text: text == "-1" or _captures(at.options),
    idle=True,
)
_ARENAS = Need(
    "a memory arena of every device it names (enable_cpu_mem_arena for cpu, a GPU EP for gpu)", _arenas_exist
)
_NO_GRAPHS = Need(
    "cpu:0 alone where the session captures graphs",
    lambda at, text: text == "cpu:0" or not _captures(at.options),
    without="a replay uses memory that was given back",
)

RUN_CONFIG: dict[str, Rule] = {
    "gpu_graph_id": Rule(
        Integer(-1, 1023),
        "not set",
        "Which captured graph a run uses; -1: none, for this run.",
        needs=(_CAPTURING,),
        evidence="ORT parses it in every run, on the CPU EP too",
    ),
    "memory.enable_memory_arena_shrinkage": Rule(
        Text(r"(cpu:0|gpu:[0-9]{1,2})(;(cpu:0|gpu:[0-9]{1,2})){0,7}", "devices such as cpu:0 or cpu:0;gpu:0"),
        "not set",
        "Gives unused arena memory back after the run.",
        needs=(_ARENAS, _NO_GRAPHS),
        evidence="memory of the process falls after the run",
    ),
}

# --- Free dimension overrides -----------------------------------------------------------------------------------------

# What each named dimension may become; free_dimensions.py bounds what they make of an input together.
FREE_DIMENSION = Rule(
    Integer(1, 2**24), "open", "The size of a named dimension.", evidence="the shapes of the open session's inputs"
)
