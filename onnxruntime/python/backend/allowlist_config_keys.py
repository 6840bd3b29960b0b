# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of everything that is not an EP option: SessionOptions and RunOptions attributes, session config keys
and run config keys, each permitted with its values or refused with its hazard.

``since`` is the first release whose CPU wheels hold the key (read from the wheels of 1.24.1 to 1.31.1, x86-64 and Arm).
``evidence`` names what was seen to differ; without a release it was seen with 1.31.1 on x86-64.
"""

from __future__ import annotations

from onnxruntime import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from onnxruntime.backend.allowlist_rules import (
    DISCLOSES,
    LOADS_LIBRARY,
    MODEL_TRUST,
    NEEDS_REFUSED,
    NO_EFFECT,
    NOT_VERIFIED,
    OTHER_DOOR,
    OUTSIDE_SESSION,
    READS_FILES,
    UNBOUNDED,
    UNSAFE_MEMORY,
    WRITES_FILES,
    WRONG_RESULTS,
    Circumstances,
    Family,
    Need,
    Permitted,
    Refused,
    Rule,
)
from onnxruntime.backend.value_kinds import Choice, Flag, FreeText, Integer, Member, Names, Text

_GPU_EPS = (
    "CUDAExecutionProvider",
    "TensorrtExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "ROCMExecutionProvider",
    "MIGraphXExecutionProvider",
    "DmlExecutionProvider",
    "WebGpuExecutionProvider",
)
_NPU_EPS = ("QNNExecutionProvider", "VitisAIExecutionProvider")
_COMPILING_EPS = (
    "OpenVINOExecutionProvider",
    "TensorrtExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "MIGraphXExecutionProvider",
    "CoreMLExecutionProvider",
    *_NPU_EPS,
)


def _has(*names: str) -> Need:
    """One of these EPs in the session."""
    return Need(
        f"one of the execution providers {', '.join(names)} in the session",
        lambda at, _: bool({*names} & {*at.providers}),
    )


def _devices_exist(at: Circumstances, text: str) -> bool:
    """Every device that a placement rule names has an EP: ORT logs an error for a rule without one, and goes on."""
    has = {"cpu": True, "gpu": bool({*_GPU_EPS} & {*at.providers}), "npu": bool({*_NPU_EPS} & {*at.providers})}
    return all(has[rule[:3]] for rule in text.split(";"))


def _arenas_exist(at: Circumstances, text: str) -> bool:
    """Every device named in 'cpu:0;gpu:0' has an arena: ORT takes that text without a GPU and does nothing for it."""
    gpu = bool({*_GPU_EPS[:5]} & {*at.providers})
    return all(at.cpu_arena if device.startswith("cpu") else gpu for device in text.split(";"))


# Names that optimization.disable_specified_optimizers was seen to act on (the pass left the log, or its nodes stayed in
# the graph), with the release that brought them. A pass that it has no power over (MemcpyTransformer,
# CastFloat16Transformer, RemoveDuplicateCastTransformer, EnsureUniqueDQForNodeUnit) is not among them.
_OPTIMIZERS = {
    "AttentionFusion": (1, 24),
    "Avx2WeightS8ToU8Transformer": (1, 25),
    "BiasDropoutFusion": (1, 24),
    "BiasGeluFusion": (1, 24),
    "BiasSkipLayerNormFusion": (1, 25),
    "BiasSoftmaxFusion": (1, 24),
    "CastChainElimination": (1, 24),
    "CastElimination": (1, 24),
    "ClipQuantRewrite": (1, 24),
    "CommonSubexpressionElimination": (1, 24),
    "ConstantFolding": (1, 24),
    "ConstantSharing": (1, 24),
    "ConvActivationFusion": (1, 24),
    "ConvAddActivationFusion": (1, 24),
    "ConvAddFusion": (1, 24),
    "ConvBNFusion": (1, 24),
    "ConvMulFusion": (1, 24),
    "DQMatMulNBitsFusion": (1, 25),
    "DivMulFusion": (1, 24),
    "DoubleQDQPairsRemover": (1, 24),
    "DynamicQuantizeMatMulFusion": (1, 24),
    "EliminateDropout": (1, 24),
    "EliminateIdentity": (1, 24),
    "EliminateSlice": (1, 24),
    "EmbedLayerNormFusion": (1, 24),
    "ExpandElimination": (1, 24),
    "FastGeluFusion": (1, 24),
    "FreeDimensionOverrideTransformer": (1, 24),
    "FuseFp16InitializerToFp32NodeTransformer": (1, 24),
    "FuseReluClip": (1, 24),
    "GatherSliceToSplitFusion": (1, 24),
    "GatherToSliceFusion": (1, 24),
    "GeluApproximation": (1, 24),
    "GeluFusionL1": (1, 24),
    "GeluFusionL2": (1, 24),
    "GemmActivationFusion": (1, 24),
    "GemmSumFusion": (1, 24),
    "GemmTransposeFusion": (1, 24),
    "GroupQueryAttentionFusion": (1, 24),
    "GroupQueryAttentionPreNormFusion": (1, 28),
    "LayerNormFusionL1": (1, 24),
    "LayerNormFusionL2": (1, 24),
    "Level1_RuleBasedTransformer": (1, 24),
    "Level2_RuleBasedTransformer": (1, 24),
    "MatMulActivationFusion": (1, 24),
    "MatMulAddFusion": (1, 24),
    "MatMulIntegerToFloatFusion": (1, 24),
    "MatMulNBitsFusion": (1, 24),
    # On the CPU in 1.27 only; later releases keep these two for other EPs.
    "MatMulNBitsMlpFusion": (1, 27),
    "MatMulNBitsQkvFusion": (1, 27),
    "MatMulScaleFusion": (1, 24),
    "MatMul_BatchNormalization_Fusion": (1, 24),
    "MatmulTransposeFusion": (1, 24),
    "NchwcTransformer": (1, 24),
    "NhwcTransformer": (1, 24),
    "NoopElimination": (1, 24),
    "NotWhereFusion": (1, 25),
    "Pad_Fusion": (1, 24),
    "PreShapeNodeElimination": (1, 24),
    "QDQFinalCleanupTransformer": (1, 24),
    "QDQPropagationTransformer": (1, 24),
    "QDQS8ToU8Transformer": (1, 24),
    "QDQSelectorActionTransformer": (1, 24),
    "QuickGeluFusion": (1, 24),
    "ReluQuantRewrite": (1, 24),
    "ReshapeFusion": (1, 24),
    "SimplifiedLayerNormFusion": (1, 24),
    "SkipLayerNormFusion": (1, 24),
    "SliceConcatToSpaceToDepthFusion": (1, 25),
    "TransposeOptimizer": (1, 24),
    "TransposeOptimizer_CPUExecutionProvider": (1, 24),
    "WeightBiasQuantization": (1, 24),
    "WhereDummyDq": (1, 24),
}

_PARALLEL = Need("execution_mode=ORT_PARALLEL", lambda at, _: at.parallel)
_X86_64 = Need("an x86-64 CPU", lambda at, _: at.machine.lower() in ("x86_64", "amd64"))
_ARM64 = Need("a 64-bit Arm CPU", lambda at, _: at.machine.lower() in ("aarch64", "arm64"))
_ARENAS = Need(
    "a memory arena of every device it names (enable_cpu_mem_arena for cpu, a GPU EP for gpu)", _arenas_exist
)
_DEVICES = Need("an execution provider in the session for every device it names", _devices_exist)
_NO_CPU_EP = Need(
    "provider_options that name an execution provider, and not CPUExecutionProvider",
    lambda at, text: text == "0" or (bool(at.providers) and "CPUExecutionProvider" not in at.providers),
)
_KNOWN_OPTIMIZERS = Need(
    "optimizer names that this ORT release has (came later than 1.24: "
    + ", ".join(f"{name} {major}.{minor}" for name, (major, minor) in _OPTIMIZERS.items() if (major, minor) > (1, 24))
    + ")",
    lambda at, text: all(_OPTIMIZERS[name] <= at.release for name in text.split(";")),
)

# --- Attributes of onnxruntime.SessionOptions, as keyword arguments of prepare and run ---

SESSION_ATTRIBUTES: dict[str, Rule] = {
    "enable_cpu_mem_arena": Permitted(Flag(), "True", "Whether the CPU EP allocates from an arena."),
    "enable_mem_pattern": Permitted(Flag(), "True", "Whether memory is laid out ahead from the first run's shapes."),
    "enable_mem_reuse": Permitted(Flag(), "True", "Whether buffers are used again within a run."),
    "execution_mode": Permitted(
        Member(ExecutionMode, ExecutionMode.__members__), "ORT_SEQUENTIAL", "Whether operators run in parallel."
    ),
    "execution_order": Permitted(
        Member(ExecutionOrder, ExecutionOrder.__members__), "DEFAULT", "The order in which ready nodes run."
    ),
    "graph_optimization_level": Permitted(
        Member(GraphOptimizationLevel, GraphOptimizationLevel.__members__),
        "ORT_ENABLE_ALL",
        "How far the graph is rewritten.",
    ),
    "inter_op_num_threads": Permitted(Integer(0, 1024), "0", "Threads that run operators in parallel; 0: ORT decides."),
    "intra_op_num_threads": Permitted(Integer(0, 1024), "0", "Threads within an operator; 0: ORT decides."),
    "log_severity_level": Permitted(Integer(-1, 4), "-1", "Least severity that is logged; -1: the process default."),
    "log_verbosity_level": Permitted(Integer(0, 1024), "0", "How much a debug build logs at severity 0."),
    "logid": Permitted(FreeText(max_bytes=256), "", "Prefix of the session's log lines."),
    "use_deterministic_compute": Permitted(Flag(), "False", "Whether deterministic kernels are preferred."),
    "use_per_session_threads": Permitted(Flag(), "True", "Whether the session has thread pools of its own."),
    "add_external_initializers": Refused(
        UNSAFE_MEMORY, "the session goes on using the memory of the arrays it is given"
    ),
    "add_external_initializers_from_files_in_memory": Refused(
        UNSAFE_MEMORY, "the session takes weights out of the caller's buffers at offsets that the model names"
    ),
    "add_free_dimension_override_by_denotation": Refused(
        NO_EFFECT, "ORT ignores a denotation that the model lacks; free_dimension_overrides takes names"
    ),
    "add_free_dimension_override_by_name": Refused(OTHER_DOOR, "sizes are named in free_dimension_overrides"),
    "add_initializer": Refused(UNSAFE_MEMORY, "the session goes on using the memory of the value it is given"),
    "add_provider": Refused(OTHER_DOOR, "execution providers are named in provider_options"),
    "add_provider_for_devices": Refused(OTHER_DOOR, "execution providers are named in provider_options"),
    "add_session_config_entry": Refused(OTHER_DOOR, "session config entries are named in session_config"),
    "clear_ep_context_data_read_func": Refused(NEEDS_REFUSED, "takes back what set_ep_context_data_read_func sets"),
    "enable_profiling": Refused(WRITES_FILES, "writes a trace of every run"),
    "get_session_config_entry": Refused(
        NO_EFFECT, "a method that only reads; see session_config of the prepared model"
    ),
    "has_providers": Refused(NO_EFFECT, "a method that only reads; see providers of the prepared model"),
    "optimized_model_filepath": Refused(WRITES_FILES, "saves the optimized model under any name"),
    "profile_file_prefix": Refused(WRITES_FILES, "names the file that enable_profiling writes"),
    "register_custom_ops_library": Refused(LOADS_LIBRARY, "loads a shared library and runs its code"),
    "set_ep_context_data_read_func": Refused(
        MODEL_TRUST, "lets a callback supply compiled code for the model's EP nodes"
    ),
    "set_load_cancellation_flag": Refused(NO_EFFECT, "stops the very load that is asked for; it is for another thread"),
    "set_provider_selection_policy": Refused(
        OTHER_DOOR, "lets ORT choose devices that nobody named; execution providers are named in provider_options"
    ),
    "set_provider_selection_policy_delegate": Refused(
        OTHER_DOOR, "lets a callback choose devices; execution providers are named in provider_options"
    ),
}

# --- Attributes of onnxruntime.RunOptions, as keyword arguments of run ---

RUN_ATTRIBUTES: dict[str, Rule] = {
    "log_severity_level": Permitted(Integer(0, 4), "-1", "Least severity that is logged during the run."),
    "log_verbosity_level": Permitted(Integer(0, 1024), "0", "How much a debug build logs at severity 0."),
    "logid": Permitted(FreeText(max_bytes=256), "", "Prefix of the run's log lines."),
    "only_execute_path_to_fetches": Permitted(Flag(), "False", "Whether only nodes that lead to an output run."),
    "add_active_adapter": Refused(MODEL_TRUST, "computes with other weights, taken from an adapter"),
    "add_run_config_entry": Refused(OTHER_DOOR, "run config entries are named in run_config"),
    "get_run_config_entry": Refused(NO_EFFECT, "a method that only reads; see run_config of the prepared model"),
    "terminate": Refused(NO_EFFECT, "ends the run before it yields anything; it is for another thread"),
    # Only training builds have it; an inference build would drop it without a word.
    "training_mode": Refused(WRONG_RESULTS, "switches operators such as Dropout to training where the build has it"),
}

# --- Session config entries ---

# Reasons that several keys share.
_SAVED_MODEL = "belongs to saving an optimized model, which optimized_model_filepath would ask for"
_MODEL_BYTES = "from Python the initializers dangle even while the model's bytes live: outputs change, then NaN"
_C_API_ONLY = "ORT's C API maps it to a SessionOptions field; Python's SessionOptions only stores it"
_EP_CONTEXT = "an execution provider writes its compiled model to a file of any name"
_WEIGHTLESS = "makes an execution provider fetch weights from where the model says"
_EXPERTS = "counting experts makes overlapping runs on a session fail, and Python cannot read the counters"
_CUDA_UNRUN = "a switch of CUDA kernels that has not been run on a GPU"
_CUDA_OPTION = "an option of the CUDA execution provider: name it in provider_options"
_CUDA_CACHE = "names files of a tactic cache in releases after 1.31"
_LATER = "ORT up to 1.31 ignores it; later releases act on it"
_TRAINING = "only training builds read it, and they open it as a path"
# InferenceSession.set_ep_dynamic_options is where these act; the backend has no way to it, and prepare's result stays
# as it was proven when the session was opened.
_DYNAMIC = "only InferenceSession.set_ep_dynamic_options reads it; as a session config entry it is ignored"

SESSION_CONFIG: dict[str, Rule] = {
    # Graph optimization.
    "optimization.constant_folding_max_output_size_in_bytes": Permitted(
        # 0 and anything above the default would lift the cap that keeps a small model from folding gigabytes.
        Integer(1, 2**30),
        "1073741824",
        "Largest output that a folded constant may have.",
        since=(1, 27),
        evidence="'8' keeps ConstantOfShape in the graph",
    ),
    "optimization.disable_specified_optimizers": Permitted(
        Names(_OPTIMIZERS),
        "",
        "Skips the named graph optimizers; ORT would skip unknown names in silence.",
        needs=(_KNOWN_OPTIMIZERS,),
        evidence="each name tried on its own",
    ),
    "optimization.enable_cast_chain_elimination": Permitted(
        Flag(), "0", "Removes chains of Cast, with the rounding they did.", evidence="Cast, Cast, Relu becomes Relu"
    ),
    "optimization.enable_gelu_approximation": Permitted(
        Flag(), "0", "Replaces Gelu by its tanh approximation.", evidence="Gelu becomes FastGelu"
    ),
    "optimization.minimal_build_optimizations": Permitted(
        Choice("", "apply"),
        "",
        "Restricts optimization to what a minimal build has.",
        # ORT's third value, 'save', belongs to saving a model.
        evidence="'apply': Conv and Relu become FusedConv, without NCHWc",
    ),
    "session.disable_aot_function_inlining": Permitted(
        Flag(), "0", "Inlines model-local functions late instead of ahead of time.", evidence="log of the inlining"
    ),
    "session.disable_double_qdq_remover": Permitted(
        Flag(), "0", "Keeps the inner pair of Q-DQ-Q-DQ chains.", evidence="outputs change"
    ),
    "session.disable_qdq_constant_folding": Permitted(
        Flag(),
        "0",
        "Keeps DequantizeLinear of a constant when session.disable_quant_qdq is 1 as well.",
        since=(1, 26),
        evidence="log: ConstantFolding leaves the node",
    ),
    "session.disable_quant_qdq": Permitted(
        Flag(), "0", "Skips the fusion of QDQ groups.", evidence="MatMul stays where QLinearMatMul was"
    ),
    "session.enable_dq_matmulnbits_fusion": Permitted(
        Flag(),
        "0",
        "Adds a pass that turns DequantizeLinear and MatMul into MatMulNBits for EPs that keep QDQ groups.",
        since=(1, 25),
        evidence="log: DQMatMulNBitsFusion runs (the CPU EP left it nothing to fuse); in wheels from 1.24.3 on",
    ),
    "session.enable_quant_qdq_cleanup": Permitted(
        Flag(), "0", "Removes Q-DQ pairs that are left over, with the rounding they did.", evidence="outputs change"
    ),
    "session.function_expansion_byte_limit": Permitted(
        Integer(1, 2**30),
        "1073741824",
        "Caps the bytes that function inlining may create; only lower than the default.",
        since=(1, 31),
        evidence="'1' refuses a model with a function",
    ),
    "session.function_expansion_node_limit": Permitted(
        Integer(1, 1_000_000),
        "1000000",
        "Caps the nodes that function inlining may create; only lower than the default.",
        since=(1, 31),
        evidence="'1' refuses a model with a function",
    ),
    "session.gqa_value_layout": Permitted(
        Choice("BNSH", "BNHS"),
        "BNSH",
        "Layout of GroupQueryAttention's value cache, and so the shape of that input and output.",
        since=(1, 30),
        evidence="'BNHS' refuses an ORT-format model",
    ),
    "session.graph_optimizations_loop_level": Permitted(
        Integer(among=(0, 1, 2)), "1", "Whether optimization passes are repeated.", evidence="log of the loop level"
    ),
    "session.qdq_matmulnbits_accuracy_level": Permitted(
        Integer(0, 4), "4", "Accuracy level where DQ and MatMul become MatMulNBits.", evidence="outputs change"
    ),
    "session.qdq_matmulnbits_block_size": Permitted(
        Integer(among=(-1, 0, 16, 32, 64, 128, 256)),
        "0",
        "Block size where a per-tensor or per-channel DQ and MatMul become MatMulNBits; -1: ORT chooses, 0: 32.",
        since=(1, 25),
        evidence="outputs change",
    ),
    "session.qdqisint8allowed": Permitted(
        Flag(), "0, on Arm 1", "Keeps signed int8 QDQ instead of rewriting it to uint8.", evidence="log of the rewrite"
    ),
    "session.x64quantprecision": Permitted(
        Flag(),
        "0",
        "Rewrites int8 weights to uint8, which x86-64 CPUs without VNNI multiply without saturating.",
        # 1.24 heeds it on CPUs without VNNI only (seen on an emulated one), and ignores it on others.
        since=(1, 25),
        needs=(_X86_64,),
        evidence="log: Avx2WeightS8ToU8Transformer runs",
    ),
    # Kernels.
    "mlas.disable_kleidiai": Permitted(
        Flag(),
        "0",
        "Switches off KleidiAI kernels.",
        since=(1, 25),
        needs=(_ARM64,),
        evidence="emulated Arm CPU: outputs of a 4-bit MatMulNBits change",
    ),
    "mlas.enable_gemm_fastmath_arm64_bfloat16": Permitted(
        Flag(),
        "0",
        "Lets float matmul compute in bfloat16, with its precision.",
        needs=(_ARM64,),
        evidence="emulated Arm CPU: outputs of a MatMul change",
    ),
    "mlas.nchwc_depthwise_sliding": Permitted(
        Flag(),
        "1",
        "Chooses the sliding-window kernel for depthwise convolution.",
        since=(1, 31),
        evidence="run time of a 3x3 depthwise convolution differs by 15 %, outputs do not",
    ),
    "mlas.qnbit.force_fp32": Permitted(
        Flag(),
        "0",
        "Computes n-bit MatMulNBits in float32.",
        since=(1, 31),
        needs=(_X86_64,),
        evidence="outputs of a 4-bit one change; not on an emulated Arm CPU",
    ),
    "mlas.use_lut_gemm": Permitted(
        Flag(),
        "0",
        "Uses lookup-table kernels for 2-bit MatMulNBits.",
        needs=(_X86_64,),
        evidence="outputs change; not on an emulated Arm CPU",
    ),
    # Threads.
    "session.dynamic_block_base": Permitted(
        # 1000000000 made a run ten times slower, 2147483647 made it fail.
        Integer(0, 128),
        "0",
        "Splits parallel loops in shrinking blocks; 0: off.",
        evidence="log of the block base",
    ),
    "session.force_spinning_stop": Permitted(
        Flag(), "0", "Stops spinning when the last concurrent run returns.", evidence="idle CPU seconds go to zero"
    ),
    "session.inter_op.allow_spinning": Permitted(
        Flag(),
        "1",
        "Lets idle inter-op threads spin before they block.",
        needs=(_PARALLEL,),
        evidence="idle CPU seconds go to zero",
    ),
    "session.inter_op.spin_backoff_max": Permitted(
        Integer(1, 64),
        "1",
        "Cap of the back-off in the inter-op spin loop.",
        since=(1, 26),
        needs=(_PARALLEL,),
        evidence="log: ORT reads it in parallel mode",
    ),
    "session.inter_op.spin_duration_us": Permitted(
        # From 1000000 on, idle threads keep all cores busy.
        Integer(-1, 10_000),
        "-1",
        "Microseconds that idle inter-op threads spin; -1: counted in iterations.",
        since=(1, 26),
        needs=(_PARALLEL,),
        evidence="idle CPU seconds go to zero with 0",
    ),
    "session.intra_op.allow_spinning": Permitted(
        Flag(), "1", "Lets idle intra-op threads spin before they block.", evidence="idle CPU seconds go to zero"
    ),
    "session.intra_op.spin_backoff_max": Permitted(
        Integer(1, 64),
        "1",
        "Cap of the back-off in the intra-op spin loop.",
        since=(1, 26),
        evidence="log: ORT reads it",
    ),
    "session.intra_op.spin_duration_us": Permitted(
        Integer(-1, 10_000),
        "-1",
        "Microseconds that idle intra-op threads spin; -1: counted in iterations.",
        since=(1, 26),
        evidence="idle CPU seconds go to zero with 0",
    ),
    "session.prepack.enable_parallel": Permitted(
        Flag(), "0", "Repacks constant weights on the intra-op threads.", since=(1, 31), evidence="log of the repacking"
    ),
    "session.set_denormal_as_zero": Permitted(
        Flag(),
        "0",
        "Flushes denormal numbers to zero: in the session's thread pools, and, if it is the first session of the "
        "process, in the calling thread, where it stays on for good (other sessions and numpy included); a later "
        "session leaves the calling thread as it is.",
        needs=(_X86_64,),
        evidence="1e-20 squared is 0 in a process's first session, not in a later one, nor on an emulated Arm CPU",
    ),
    # Memory and loading.
    "session.disable_prepacking": Permitted(
        Flag(), "0", "Skips the repacking of constant weights at load time.", evidence="log of the initializers' memory"
    ),
    "session.use_device_allocator_for_initializers": Permitted(
        Flag(),
        "0",
        "Allocates initializers outside the device's arena.",
        needs=(_has(*_GPU_EPS),),
        evidence="looked up by 1.31.1; no difference on the CPU EP, where the arena reserves them one by one anyway",
    ),
    "session.use_env_allocators": Permitted(
        Flag(), "0", "Uses allocators that the application registered for the process.", evidence="log of the choice"
    ),
    # Strictness.
    "session.disable_cpu_ep_fallback": Permitted(
        Flag(),
        "0",
        "Fails when a node would be left to the CPU EP.",
        needs=(_NO_CPU_EP,),
        evidence="OpenVINO 1.24.1 alone; ORT rejects it beside the CPU EP",
    ),
    "session.disable_model_compile": Permitted(
        Flag(),
        "0",
        "Fails when an EP would have to compile.",
        needs=(_has(*_COMPILING_EPS),),
        evidence="OpenVINO 1.24.1: MODEL_REQUIRES_COMPILATION",
    ),
    "session.strict_shape_type_inference": Permitted(
        Flag(), "0", "Fails when a declared shape or type contradicts inference.", evidence="refuses such a model"
    ),
    "session.strict_workspace_verification": Permitted(
        Flag(),
        "0",
        "Fails when workspace estimates do not match.",
        since=(1, 31),
        evidence="'1' refuses an ORT-format model",
    ),
    # Placement.
    "session.layer_assignment_settings": Permitted(
        Text(
            r"(cpu|gpu(:[0-9]{1,2})?|npu)\(=?[\w./:-]+(,=?[\w./:-]+)*\)(;(cpu|gpu(:[0-9]{1,2})?|npu)\(=?[\w./:-]+(,=?[\w./:-]+)*\))*",
            "rules such as cpu(encoder,=decoder.0);gpu(decoder) over layer annotations of the model",
            max_bytes=1024,
        ),
        "",
        "Places nodes by the layer annotations in the model's metadata.",
        since=(1, 25),
        needs=(_DEVICES,),
        evidence="log of the parsed rules",
    ),
    "session.name_based_layer_assignment": Permitted(
        Text(
            r"(cpu|gpu(:[0-9]{1,2})?|npu)\([\w./:-]+(,[\w./:-]+)*\)(;(cpu|gpu(:[0-9]{1,2})?|npu)\([\w./:-]+(,[\w./:-]+)*\))*",
            "rules such as cpu(embed,norm);gpu(attention) over parts of node names",
            max_bytes=1024,
        ),
        "",
        "Places nodes by parts of their names.",
        since=(1, 28),
        needs=(_DEVICES,),
        evidence="log of the parsed rules",
    ),
    "session.record_ep_graph_assignment_info": Permitted(
        Flag(), "0", "Records which nodes each EP took.", evidence="get_provider_graph_assignment_info answers"
    ),
    # Refused: files.
    "session.collect_node_memory_stats_to_file": Refused(
        WRITES_FILES, "rewrites a file of any name after each run", "file seen"
    ),
    "session.debug_layout_transformation": Refused(
        WRITES_FILES, "dumps models into the working directory where an EP changes the layout", "documented"
    ),
    "session.enable_profiling": Refused(WRITES_FILES, _C_API_ONLY, "no effect seen"),
    "session.model_external_initializers_file_folder_path": Refused(
        READS_FILES, "a model given as bytes then returns the content of any file", "content seen"
    ),
    "session.moe_expert_counter_state_file": Refused(READS_FILES, "opens a file of any name", "open seen"),
    "session.node_partition_config_file": Refused(
        WRITES_FILES, "creates or overwrites a file of any name when it cannot be read", "file seen"
    ),
    "session.optimized_model_external_initializers_file_name": Refused(
        WRITES_FILES, _SAVED_MODEL, "file seen outside the model's folder"
    ),
    "session.optimized_model_external_initializers_min_size_in_bytes": Refused(WRITES_FILES, _SAVED_MODEL, "strings"),
    "session.optimized_model_filepath": Refused(WRITES_FILES, _C_API_ONLY, "no effect seen"),
    "session.resource_cuda_partitioning_settings": Refused(
        READS_FILES, "opens the file named after the comma, on the CPU EP too", "open seen"
    ),
    "session.save_external_prepacked_constant_initializers": Refused(WRITES_FILES, _SAVED_MODEL, "log seen"),
    "session.save_model_format": Refused(WRITES_FILES, _SAVED_MODEL, "no effect alone"),
    "optimization.memory_optimizer_config": Refused(READS_FILES, _TRAINING, "documented; absent from the wheels"),
    # Refused: memory, trust, other people's resources.
    "mlas.kleidiai.conv_igemm_max_work": Refused(
        NOT_VERIFIED,
        "acts on Arm only, where nothing was measured; text that is no number aborts the process",
        "abort seen",
    ),
    "mlas.nchwc_pointwise_conv_max_input_channel_batch": Refused(
        UNSAFE_MEMORY, "numbers near 2**64 crash the run, and text that is no number aborts the process", "crash seen"
    ),
    "session.enable_moe_expert_counting": Refused(OUTSIDE_SESSION, _EXPERTS, "42 of 1200 concurrent runs failed"),
    "session.enable_moe_expert_statistics": Refused(DISCLOSES, "logs which experts each input chose", "log seen"),
    "session.enable_saved_runtime_optimizations": Refused(
        MODEL_TRUST, "applies graph rewrites that an ORT-format model carries", "strings"
    ),
    "session.intra_op_thread_affinities": Refused(
        UNBOUNDED,
        "a wide range logs a line for every CPU that is missing, and threads leave the CPUs they were given",
        "69 million log lines in two minutes",
    ),
    "session.load_model_format": Refused(
        MODEL_TRUST, "chooses the parser for the model's bytes instead of what they are", "parser errors seen"
    ),
    "session.max_shape_override": Refused(UNBOUNDED, "drives how much device memory is estimated", "no effect on CPU"),
    "session.moe_expert_counter_alpha": Refused(
        NEEDS_REFUSED, "needs session.enable_moe_expert_counting", "error seen"
    ),
    "session.moe_expert_counter_beta": Refused(NEEDS_REFUSED, "needs session.enable_moe_expert_counting", "error seen"),
    "session.use_external_initializer_file_buffers_directly": Refused(
        UNSAFE_MEMORY, "borrows the application's buffers, which must outlive the session", "documented"
    ),
    "session.use_memory_mapped_ort_model": Refused(
        UNSAFE_MEMORY,
        "a change of the model's file changes a live session, and its truncation kills the process",
        "seen",
    ),
    "session.use_ort_model_bytes_directly": Refused(UNSAFE_MEMORY, _MODEL_BYTES, "seen"),
    "session.use_ort_model_bytes_for_initializers": Refused(UNSAFE_MEMORY, _MODEL_BYTES, "seen"),
    # Refused: nothing on this path reads it.
    "optimization.enable_memory_probe_recompute_config": Refused(
        NO_EFFECT, "only training builds read it", "documented"
    ),
    "session.allow_released_opsets_only": Refused(
        NO_EFFECT, "never read on the way from Python", "opset 99 fails either way"
    ),
    "session.compile_only": Refused(NO_EFFECT, "internal; the session that comes of it cannot run", "error seen"),
    "session.fail_on_suboptimal_compiled_model": Refused(
        NO_EFFECT, "never read on the way from Python", "absent from a trace of look-ups"
    ),
    "test.ep_to_select": Refused(NO_EFFECT, "a test hook that is never read on the way from Python", "strings"),
    # Refused: Python has SessionOptions attributes for these.
    "session.enable_cpu_mem_arena": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass enable_cpu_mem_arena", "no effect seen"),
    "session.enable_mem_pattern": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass enable_mem_pattern", "no effect seen"),
    "session.execution_mode": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass execution_mode", "no effect seen"),
    "session.graph_optimization_level": Refused(
        OTHER_DOOR, f"{_C_API_ONLY}: pass graph_optimization_level", "no effect seen"
    ),
    "session.inter_op_num_threads": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass inter_op_num_threads", "no effect seen"),
    "session.intra_op_num_threads": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass intra_op_num_threads", "no effect seen"),
    "session.log_id": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass logid", "no effect seen"),
    "session.log_severity_level": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass log_severity_level", "no effect seen"),
    "session.log_verbosity_level": Refused(OTHER_DOOR, f"{_C_API_ONLY}: pass log_verbosity_level", "no effect seen"),
    "session.use_deterministic_compute": Refused(
        OTHER_DOOR, f"{_C_API_ONLY}: pass use_deterministic_compute", "no effect seen"
    ),
    "session.use_per_session_threads": Refused(
        OTHER_DOOR, f"{_C_API_ONLY}: pass use_per_session_threads", "no effect seen"
    ),
    # Refused: not in 1.31 yet.
    "session.enable_partitioned_cuda_graph": Refused(NO_EFFECT, _LATER, "sources after 1.31"),
    "session.enable_static_workspace_preallocation": Refused(NO_EFFECT, _LATER, "sources after 1.31"),
    "session.moe_cpu_offload_experts": Refused(NO_EFFECT, _LATER, "sources after 1.31"),
    "session.moe_expert_swap_epsilon": Refused(NO_EFFECT, _LATER, "sources after 1.31"),
    # Refused under ep., for reasons of their own.
    "ep.context_embed_mode": Refused(WRITES_FILES, _EP_CONTEXT, "files seen (OpenVINO plugin)"),
    "ep.context_enable": Refused(WRITES_FILES, _EP_CONTEXT, "files seen (OpenVINO plugin)"),
    "ep.context_file_path": Refused(WRITES_FILES, _EP_CONTEXT, "files seen (OpenVINO plugin)"),
    "ep.context_model_external_initializers_file_name": Refused(WRITES_FILES, _EP_CONTEXT, "strings"),
    "ep.context_node_name_prefix": Refused(NEEDS_REFUSED, "needs ep.context_enable", "strings"),
    "ep.context_source_model_path": Refused(READS_FILES, "names a model that an execution provider reads", "strings"),
    "ep.cuda.enable_gemm_auto_tune": Refused(NOT_VERIFIED, _CUDA_UNRUN, "strings"),
    "ep.cuda.fpa_intb_gemm": Refused(NOT_VERIFIED, _CUDA_UNRUN, "strings"),
    "ep.cuda.fpa_intb_gemv_paired_k": Refused(NOT_VERIFIED, _CUDA_UNRUN, "strings"),
    "ep.cuda.fpa_intb_gemv_wave_aware": Refused(NOT_VERIFIED, _CUDA_UNRUN, "strings"),
    "ep.cuda.fpa_intb_profile_m": Refused(
        UNBOUNDED, "sizes the scratch memory of profiling, gigabytes at 2048", "documented"
    ),
    "ep.cuda.gemm_tactic_cache_dir": Refused(WRITES_FILES, _CUDA_CACHE, "sources after 1.31"),
    "ep.cuda.gemm_tactic_cache_prefix": Refused(WRITES_FILES, _CUDA_CACHE, "sources after 1.31"),
    "ep.cuda.gemm_tactic_cache_tuning_results_prefix": Refused(WRITES_FILES, _CUDA_CACHE, "sources after 1.31"),
    "ep.cuda.gqa_workspace_max_total_sequence_length": Refused(
        UNBOUNDED, "drives how much device memory is estimated", "parsed on the CPU EP too"
    ),
    "ep.cuda.matmul_nbits_m_chunk_size": Refused(NOT_VERIFIED, _CUDA_UNRUN, "strings"),
    "ep.cuda.qmoe_int_dequant_max_scratch_bytes": Refused(UNBOUNDED, "lifts a cap on device memory", "strings"),
    "ep.cuda.qmoe_row_tile_size": Refused(NOT_VERIFIED, _CUDA_UNRUN, "strings"),
    "ep.dynamic.qnn_htp_performance_mode": Refused(NO_EFFECT, _DYNAMIC, "absent from a trace of look-ups"),
    "ep.dynamic.workload_type": Refused(NO_EFFECT, _DYNAMIC, "absent from a trace of look-ups"),
    "ep.enable_weightless": Refused(MODEL_TRUST, _WEIGHTLESS, "error seen (OpenVINO plugin)"),
    "ep.enable_weightless_ep_context_nodes": Refused(MODEL_TRUST, _WEIGHTLESS, "documented"),
    "ep.enable_weightless_mode": Refused(MODEL_TRUST, _WEIGHTLESS, "documented"),
    "ep.nnapi.partitioning_stop_ops": Refused(
        NO_EFFECT, "only Android's NNAPI execution provider reads it", "documented"
    ),
    "ep.share_ep_contexts": Refused(
        OUTSIDE_SESSION, "shares an execution provider's state with other sessions", "strings"
    ),
    "ep.stop_share_ep_contexts": Refused(
        OUTSIDE_SESSION, "ends what ep.share_ep_contexts began, in other sessions too", "strings"
    ),
    # Options of the CUDA EP that its plugin also reads as session config entries, without any prefix.
    "cudnn_conv1d_pad_to_nc1d": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "cudnn_conv_algo": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "cudnn_conv_algo_search": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "cudnn_conv_use_max_workspace": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "enable_skip_layer_norm_strict_mode": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "fuse_conv_bias": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "prefer_nhwc": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "prefer_nhwc_layout": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "sdpa_kernel": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
    "use_tf32": Refused(OTHER_DOOR, _CUDA_OPTION, "sources"),
}

SESSION_FAMILIES: tuple[Family, ...] = (
    Family("session.intra_op.", "[a-z_]{1,40}", Integer(0, 64, flags=True), 16),
    Family("session.inter_op.", "[a-z_]{1,40}", Integer(0, 64, flags=True), 16, (_PARALLEL,)),
)

# Refused by their beginning; an exact rule above wins. ORT hands options of a plugin EP around as session config
# entries named ep.<name in lower case>.<option>, so a key under ep. would set any of them past their own rules.
REFUSED_SESSION_FAMILIES: dict[str, Refused] = {
    "ep.": Refused(OTHER_DOOR, "options of an execution provider are named in provider_options"),
}

# --- Run config entries ---

_QNN_UNRUN = "acts on a Qualcomm HTP device only, where it has not been run"

RUN_CONFIG: dict[str, Rule] = {
    "gpu_graph_id": Permitted(
        Integer(-1, 1023),
        "not set",
        "Which captured graph a run uses; -1: none, for this run.",
        evidence="ORT parses it in every run, on the CPU EP too",
    ),
    "memory.enable_memory_arena_shrinkage": Permitted(
        Text(r"(cpu:0|gpu:[0-9]{1,2})(;(cpu:0|gpu:[0-9]{1,2})){0,7}", "devices such as cpu:0 or cpu:0;gpu:0"),
        "not set",
        "Gives unused arena memory back after the run.",
        needs=(_ARENAS,),
        evidence="memory of the process falls after the run",
    ),
    "disable_synchronize_execution_providers": Refused(
        WRONG_RESULTS, "outputs of a GPU may be read before they are complete; any text but '0' turns it on", "sources"
    ),
    "qnn.htp_perf_mode": Refused(NOT_VERIFIED, _QNN_UNRUN, "strings"),
    "qnn.htp_perf_mode_post_run": Refused(NOT_VERIFIED, _QNN_UNRUN, "strings"),
    "qnn.lora_config": Refused(READS_FILES, "names a file of weights", "documented"),
    "qnn.rpc_control_latency": Refused(NOT_VERIFIED, _QNN_UNRUN, "strings"),
}
