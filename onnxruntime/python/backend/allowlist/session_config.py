# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Session config entries.

The field ``since`` is the first release whose CPU wheels contain a key (x86-64: 1.24.1 to 1.32.0, Arm: to 1.31.1).
The tests of this module observe the effect of each key.
"""

import re
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
from onnxruntime.backend.allowlist.rules import Need, Rule, Table, switch, switch_on
from onnxruntime.backend.allowlist.value_kinds import Choice, Flag, Integer, Names, Text
from onnxruntime.backend.errors import nearest
from onnxruntime.backend.provider_names import COMPILING, ON_GPU

_DISABLED = "optimization.disable_specified_optimizers"
_MINIMAL = "optimization.minimal_build_optimizations"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
FOLDING_CAP = "optimization.constant_folding_max_output_size_in_bytes"
# ORT folds a value that depends on sizes alone when it creates a session, such as a mask of N x N. This is the most
# that it may fold together with sizes, in bytes of each value.
MOST_FOLDED = 2**24
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

# Conditions.

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
_BY_NAME_ALONE = Need(
    "no session.layer_assignment_settings in the same configuration",
    lambda facts, _: "session.layer_assignment_settings" not in facts.session_config,
)


def _enabled(*optimizers: str) -> Need:
    """Return the need that ``optimization.disable_specified_optimizers`` contains none of these optimizers."""
    what = f"{' and '.join(optimizers)} to be enabled"
    return only_warns(
        what, lambda facts, _: {*optimizers}.isdisjoint(facts.session_config.get(_DISABLED, "").split(";"))
    )


# An entry that turns work off needs no level: it is met anyway by a level that does not do this work.
_BASIC = optimizes(GraphOptimizationLevel.ORT_ENABLE_BASIC)
_EXTENDED = optimizes(GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
_FULL = only_warns(f"{_MINIMAL} other than 'apply'", lambda facts, _: facts.session_config.get(_MINIMAL) != "apply")
_QDQ_FUSION = beside("session.disable_quant_qdq", "0")
_QDQ_FUSES = (_QDQ_FUSION, _enabled("QDQSelectorActionTransformer"), _EXTENDED)
_PREPACKING = beside("session.disable_prepacking", "0")
_INTRA_OP = (INTRA_THREADS, OWN_POOLS)
_INTER_OP = (PARALLEL, OWN_POOLS)

# Kinds of rules.

# If the session lacks the part of ORT that a switch controls, it is off.
_switch_on = partial(switch_on, already_so=("0",))
_FUSED = "DequantizeLinear and MatMul become MatMulNBits"


def _allow_spinning(pool: str, needs: tuple[Need, ...]) -> Rule:
    threads = f"{pool.replace('_', '-')} threads"
    return _switch_on(
        f"Lets idle {threads} spin before they block. If they are more than the usable CPUs, the backend sends 0.",
        needs=(may_spin(pool), *needs),
    )


def _spin_backoff_max(pool: str, needs: tuple[Need, ...]) -> Rule:
    spinning = beside(f"session.{pool}.allow_spinning", "1", default="1")
    effect = f"Maximum back-off of {pool.replace('_', '-')} threads."
    return Rule(Integer(1, 64), "1", effect, since=(1, 26), needs=(spinning, *needs))


def _spin_duration_us(pool: str, needs: tuple[Need, ...]) -> Rule:
    spinning = beside(f"session.{pool}.allow_spinning", "1", default="1")
    return Rule(
        Integer(-1, 10_000),  # from 1000000 on, idle threads keep all cores busy
        "-1",
        f"Microseconds that idle {pool.replace('_', '-')} threads spin. -1: ORT counts iterations.",
        since=(1, 26),
        needs=(spinning, *needs),
        already_so=("-1", "0"),
    )


def _placement(part: str, example: str, meaning: str) -> Text:
    """Return the kind of rules that place nodes, described by parts of this pattern, on devices."""
    rule = rf"(cpu|gpu(:[0-9]{{1,2}})?|npu)\({part}(,{part})*\)"
    # ORT rejects a part that appears twice, even in different rules.
    accepts = f"rules such as {example}, without duplicates. {meaning}"
    return Text(f"{rule}(;{rule})*", accepts, 1024, distinct=r"[^(),;]+(?=[,)])")


# Other keys with these prefixes are permitted, because future releases can add keys that tune the thread pools.
PREFIXES = ("session.intra_op.", "session.inter_op.")
REST = "[a-z_]{1,40}"
_UNKNOWN = only_warns(
    "an ORT release that reads this key", lambda *_: False, otherwise="may have no effect in this session"
)
OF_PREFIX = Rule(Integer(0, 64, or_flag=True), "", "", needs=(_UNKNOWN,))


def _rule_of_prefix(key: str) -> Rule | None:
    """Return the rule of a key with a prefix. A key that is similar to a known key is probably misspelt."""
    for prefix in PREFIXES:
        if re.fullmatch(re.escape(prefix) + REST, key):
            known = [name.removeprefix(prefix) for name in SESSION_CONFIG if name.startswith(prefix)]
            if not nearest(key.removeprefix(prefix), known):
                return OF_PREFIX
    return None


_C_API = "ORT's C API maps it to a SessionOptions field, but Python's SessionOptions only stores it. Pass"

SESSION_CONFIG = Table(
    {
        # Graph optimization.
        FOLDING_CAP: Rule(
            # 0 and values above the default would lift the cap, and a small model could fold gigabytes.
            Integer(1, 2**30),
            "1073741824",
            f"Maximum size of a folded constant. With free_dimension_overrides, the backend sets {MOST_FOLDED} by "
            "default.",
            since=(1, 27),
            needs=(_CAPS_SIZES, folds_text(lambda text: text == "1073741824", "a lower value")),
        ),
        _DISABLED: Rule(
            Names(lambda: OPTIMIZERS, f"names from these lists, joined by ';'. {_LISTED}", empty=True),
            "",
            "Disables these graph optimizers. ORT itself silently ignores unknown names.",
            needs=(
                _KNOWN_OPTIMIZERS,
                _OVERRIDES_APPLIED,
                folds_text(lambda text: "ConstantFolding" not in text.split(";"), "ConstantFolding"),
            ),
        ),
        # ORT's third value, 'save', is for saving a model.
        _MINIMAL: Rule(Choice("", "apply"), "", "Restricts optimization to the passes of a minimal build."),
        "optimization.enable_cast_chain_elimination": switch(
            "Removes chains of Cast nodes, and the rounding that they cause.",
            needs=(_enabled("CastChainElimination", "Level1_RuleBasedTransformer"), _BASIC),
        ),
        "optimization.enable_gelu_approximation": switch(
            "Replaces Gelu by its tanh approximation.", needs=(_enabled("GeluApproximation"), _FULL, _EXTENDED)
        ),
        "session.disable_aot_function_inlining": switch("Inlines model-local functions late instead of ahead of time."),
        "session.disable_double_qdq_remover": switch("Keeps the inner pair of Q-DQ-Q-DQ chains."),
        "session.disable_qdq_constant_folding": switch(
            "Keeps DequantizeLinear of a constant if session.disable_quant_qdq is 1, too.",
            since=(1, 26),
            needs=(beside("session.disable_quant_qdq", "1"),),
        ),
        "session.disable_quant_qdq": switch("Skips the fusion of QDQ groups."),
        "session.enable_dq_matmulnbits_fusion": switch(
            "Adds a pass that fuses DequantizeLinear and MatMul into MatMulNBits for EPs that keep QDQ groups.",
            since=(1, 25),
            needs=(_QDQ_FUSION, _enabled("DQMatMulNBitsFusion"), _BASIC),
        ),
        "session.enable_quant_qdq_cleanup": switch(
            "Removes remaining Q-DQ pairs, and the rounding that they cause.",
            needs=(_enabled("QDQFinalCleanupTransformer"), _EXTENDED),
        ),
        "session.function_expansion_byte_limit": Rule(
            Integer(1, 2**30), "1073741824", "Limits the bytes that function inlining can create.", since=(1, 31)
        ),
        "session.function_expansion_node_limit": Rule(
            Integer(1, 1_000_000), "1000000", "Limits the nodes that function inlining can create.", since=(1, 31)
        ),
        "session.gqa_value_layout": Rule(
            Choice("BNSH", "BNHS"),
            "BNSH",
            "Layout of the value cache of GroupQueryAttention. The cache's input and output have shapes of this "
            "layout.",
            since=(1, 30),
        ),
        "session.graph_optimizations_loop_level": Rule(
            Integer(0, 2), "1", "Whether ORT repeats optimization passes.", needs=(_BASIC,), already_so=("0", "1")
        ),
        "session.qdq_matmulnbits_accuracy_level": Rule(
            Integer(0, 4), "4", f"Accuracy level if {_FUSED}.", needs=_QDQ_FUSES
        ),
        "session.qdq_matmulnbits_block_size": Rule(
            Choice(-1, 0, 16, 32, 64, 128, 256),
            "0",
            f"Block size if a per-tensor or per-channel {_FUSED}. -1: ORT chooses. 0: 32.",
            since=(1, 25),
            needs=_QDQ_FUSES,
        ),
        "session.qdqisint8allowed": Rule(
            Flag(),
            "0, or 1 on Arm",
            "Keeps signed int8 QDQ instead of rewriting it to uint8.",
            needs=(_QDQ_FUSION, _enabled("QDQS8ToU8Transformer"), _FULL, _EXTENDED),
            already_so=("1",),
        ),
        "session.x64quantprecision": switch(
            "Rewrites int8 weights to uint8. An x86-64 CPU without VNNI multiplies uint8 weights without saturation.",
            since=(1, 25),  # 1.24 reads it on CPUs without VNNI only (on an emulated CPU)
            needs=(X86_64, _enabled("Avx2WeightS8ToU8Transformer"), _FULL, _EXTENDED),
        ),
        # Threads.
        # 1000000000 makes a run ten times slower, 2147483647 makes it fail.
        "session.dynamic_block_base": Rule(
            Integer(0, 128), "0", "Splits parallel loops into shrinking blocks. 0: off.", needs=_INTRA_OP
        ),
        "session.force_spinning_stop": switch(
            "Stops spinning when the last concurrent run returns.", needs=_INTRA_OP, already_so=("0", "1")
        ),
        "session.intra_op.allow_spinning": _allow_spinning("intra_op", _INTRA_OP),
        "session.intra_op.spin_backoff_max": _spin_backoff_max("intra_op", _INTRA_OP),
        "session.intra_op.spin_duration_us": _spin_duration_us("intra_op", _INTRA_OP),
        "session.inter_op.allow_spinning": _allow_spinning("inter_op", _INTER_OP),
        "session.inter_op.spin_backoff_max": _spin_backoff_max("inter_op", _INTER_OP),
        "session.inter_op.spin_duration_us": _spin_duration_us("inter_op", _INTER_OP),
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
        "session.disable_prepacking": switch("Skips the repacking of constant weights at load time."),
        "session.prepack.enable_parallel": switch(
            "Repacks constant weights on the intra-op threads.", since=(1, 31), needs=(INTRA_THREADS, _PREPACKING)
        ),
        "session.use_device_allocator_for_initializers": switch(
            "Keeps initializers out of arenas.", needs=(has(*ON_GPU),)
        ),
        # Strictness.
        "session.disable_cpu_ep_fallback": switch(
            "Raises an error if the CPU EP would run a node.", needs=(NO_CPU_EP,)
        ),
        "session.disable_model_compile": switch("Raises an error if an EP compiles nodes.", needs=(has(*COMPILING),)),
        "session.strict_shape_type_inference": switch(
            "Raises an error if a declared type or shape is not as inferred."
        ),
        "session.strict_workspace_verification": switch(
            "Raises an error if a node needs more workspace memory than ORT reserved for it.", since=(1, 31)
        ),
        # Placement.
        "session.layer_assignment_settings": Rule(
            _placement(
                r"=?[\w./:-]+",
                "cpu(encoder,=decoder.0);gpu(decoder)",
                "'encoder' selects all layer annotations that begin with it, and '=decoder.0' selects only this "
                "annotation",
            ),
            "",
            "Places nodes by the layer annotations in the model's metadata.",
            since=(1, 25),
            needs=(DEVICES,),
        ),
        "session.name_based_layer_assignment": Rule(
            _placement(
                r"[\w./:-]+", "cpu(embed,norm);gpu(attention)", "'embed' selects all nodes whose names contain it"
            ),
            "",
            "Places nodes by parts of their names.",
            since=(1, 28),
            needs=(DEVICES, _BY_NAME_ALONE),
        ),
        RECORD_ASSIGNMENT: switch("Records the nodes of each EP."),
    },
    {
        "acts outside the caller's session": {
            "session.set_denormal_as_zero": (
                "if the first session of a process has this key, the key permanently changes the arithmetic of the "
                "calling thread, including numpy and other sessions. In a later session, the key changes only the "
                "threads of the session's pool, and outputs differ between runs"
            ),
            "session.use_env_allocators": (
                "the session shares an arena with the application's own sessions, which fail if a caller keeps outputs"
            ),
            "session.enable_moe_expert_counting": (
                "counting experts makes concurrent runs of a session fail, and Python cannot read the counters"
            ),
            "session.moe.offload.budget_group": "by its name, sessions with the same text share one budget of memory",
            "ep.share_ep_contexts": "shares an execution provider's state with other sessions",
            "ep.stop_share_ep_contexts": "stops the sharing that ep.share_ep_contexts started, in other sessions too",
        },
        "writes files": {
            "session.collect_node_memory_stats_to_file": "overwrites a file of any name after each run",
            "session.debug_layout_transformation": "writes models to the current folder if an EP changes the layout",
            "session.node_partition_config_file": (
                "creates a file of any name. ORT overwrites an existing file if the process can write it and cannot "
                "read it"
            ),
            "session.optimized_model_external_initializers_file_name "
            "session.optimized_model_external_initializers_min_size_in_bytes "
            "session.save_external_prepacked_constant_initializers session.save_model_format": (
                "applies only if an optimized model is saved, which requires optimized_model_filepath"
            ),
            "session.moe.offload.derived_cache_dir": "by its name, ORT keeps converted weights in this folder",
            "ep.context_embed_mode ep.context_enable ep.context_file_path "
            "ep.context_model_external_initializers_file_name": (
                "an execution provider writes its compiled model to a file of any name"
            ),
            "ep.cuda.gemm_tactic_cache_dir ep.cuda.gemm_tactic_cache_prefix "
            "ep.cuda.gemm_tactic_cache_tuning_results_prefix": (
                "specifies files of a tactic cache in source code of ORT that no release up to 1.32 contains"
            ),
        },
        "no effect": {
            "session.enable_profiling session.optimized_model_filepath": (
                "Python's SessionOptions only stores it. ORT's C API maps it to a field that makes ORT write files"
            ),
            "optimization.enable_memory_probe_recompute_config": "only training builds read it",
            "session.fail_on_suboptimal_compiled_model": "never read in sessions that Python creates",
            "test.ep_to_select": "a test hook that is never read in sessions that Python creates",
            "session.enable_partitioned_cuda_graph session.enable_static_workspace_preallocation "
            "session.moe_cpu_offload_experts session.moe_expert_swap_epsilon": (
                "no release up to 1.32 reads it. Only newer source code of ORT contains it"
            ),
            # The backend does not call this method: a prepared model stays as it was verified.
            "ep.dynamic.qnn_htp_performance_mode ep.dynamic.workload_type": (
                "only InferenceSession.set_ep_dynamic_options reads it. As a session config entry, it is ignored"
            ),
            "moe.cpu_offload.": "ORT 1.32 rejects each key of this prefix, and older releases ignore it",
            "ep.nnapi.partitioning_stop_ops": "only Android's NNAPI execution provider reads it",
        },
        "reads files": {
            "session.model_external_initializers_file_folder_path": (
                "a model passed as bytes can then return the content of any file"
            ),
            "session.moe_expert_counter_state_file": "opens a file of any name",
            "session.resource_cuda_partitioning_settings": (
                "the value can contain a file name after a comma. ORT opens this file, even on the CPU EP"
            ),
            "optimization.memory_optimizer_config": "only training builds read it, and they open it as a path",
            "session.moe.offload.allow_file_backing session.moe.offload.popularity_file "
            "session.moe.offload.source_root": (
                "by its name, ORT reads weights of experts, or how often they are used, from files"
            ),
            "ep.context_source_model_path": "specifies a model that an execution provider reads",
        },
        "not verified": {
            "mlas.kleidiai.conv_igemm_max_work": (
                "acts on Arm only, where it was not measured. Text that is not a number aborts the process"
            ),
            "session.external_data_loader.chunk_bytes session.external_data_loader.min_size_bytes "
            "session.external_data_loader.threads": "configures how a GPU EP loads external data. No such EP was run",
            "session.moe.offload.async_max_tokens session.moe.offload.cpu_execution session.moe.offload.mode "
            "session.moe.offload.node_overrides session.moe.offload.placement "
            "session.moe.offload.prefill_wave_experts session.moe.offload.skip_zero_cold_doorbell "
            "session.moe.offload.": ("configures how a GPU EP offloads experts of a model. No such EP was run"),
            "session.kernel_dispatch_policy": (
                "selects kernels of the CUDA execution provider only, where it was not run"
            ),
            "ep.cuda.enable_gemm_auto_tune ep.cuda.fpa_intb_dequant_gemm_min_m ep.cuda.fpa_intb_gemm "
            "ep.cuda.fpa_intb_gemv_paired_k ep.cuda.fpa_intb_gemv_wave_aware "
            "ep.cuda.matmul_nbits_m_chunk_size ep.cuda.moe_packed_gpu_experts ep.cuda.qmoe_row_tile_size "
            "ep.cuda.runtime_fusion.causal_conv_with_state ep.cuda.runtime_fusion.unit_swish": (
                "an option for CUDA kernels that was not tested on a GPU"
            ),
            "cudnn_conv_algo prefer_nhwc_layout": "only the plugin EP of CUDA knows it, and that EP was not run",
        },
        "unsafe memory access": {
            "mlas.nchwc_pointwise_conv_max_input_channel_batch": (
                "numbers near 2**64 crash the run, and text that is not a number aborts the process"
            ),
            "session.use_external_initializer_file_buffers_directly": (
                "uses the application's buffers, which must outlive the session"
            ),
            "session.use_memory_mapped_ort_model": (
                "a change of the model's file changes an existing session, and its truncation terminates the process"
            ),
            "session.use_ort_model_bytes_directly session.use_ort_model_bytes_for_initializers": (
                "in Python, the initializers point to released memory, and outputs change and become NaN"
            ),
        },
        "discloses data": {"session.enable_moe_expert_statistics": "logs the experts that each input selects"},
        "extends the trust in the model": {
            "session.enable_saved_runtime_optimizations": "applies graph rewrites that an ORT-format model contains",
            "session.load_model_format": "selects the parser of the model's bytes regardless of their content",
            "ep.enable_weightless ep.enable_weightless_ep_context_nodes ep.enable_weightless_mode": (
                "makes an execution provider read weights from a location that the model specifies"
            ),
        },
        "unbounded use of resources": {
            "session.intra_op_thread_affinities": (
                "ORT logs a line for each CPU of the value that does not exist. Threads can also run on CPUs that the"
                " process may not use"
            ),
            "session.max_shape_override ep.cuda.gqa_workspace_max_total_sequence_length": (
                "ORT estimates from it how much device memory it reserves"
            ),
            "session.external_data_loader.pinned_memory_bytes session.moe.offload.cpu_threads "
            "session.moe.offload.device_expert_bytes session.moe.offload.device_working_bytes "
            "session.moe.offload.gpu_budget_bytes session.moe.offload.gpu_device_mem_limit "
            "session.moe.offload.host_expert_bytes session.moe.offload.host_working_bytes "
            "session.moe.offload.pinned_bytes session.moe.offload.reserve_device_bytes": (
                "ORT accepts memory sizes and numbers of threads without a useful limit"
            ),
            "ep.cuda.fpa_intb_profile_m": (
                "determines the scratch memory of profiling. The value 2048 requires gigabytes"
            ),
            "ep.cuda.qmoe_int_dequant_max_scratch_bytes": "raises a limit on device memory",
        },
        "requires another refused option": {
            "session.moe_expert_counter_alpha session.moe_expert_counter_beta": (
                "requires session.enable_moe_expert_counting"
            ),
            "ep.context_node_name_prefix": "requires ep.context_enable",
        },
        "no useful effect": {"session.compile_only": "internal. A session with this key cannot run"},
        "set by another argument": {
            # ORT passes the options of a plugin EP as session config entries ep.<name in lower case>.<option>. So a key
            # of this prefix could set an option that the table of its EP refuses.
            "ep.": (
                "if it is an option of an execution provider, pass it in provider_options. Other keys of this prefix "
                "were not reviewed"
            ),
            "session.allow_released_opsets_only": (
                "OnnxRuntimeBackend.allowReleasedOpsetsOnly sets it, which the environment variable "
                "ALLOW_RELEASED_ONNX_OPSET_ONLY=0 makes false. ORT before 1.32 ignores the key"
            ),
            "session.enable_cpu_mem_arena": f"{_C_API} enable_cpu_mem_arena",
            "session.enable_mem_pattern": f"{_C_API} enable_mem_pattern",
            "session.execution_mode": f"{_C_API} execution_mode",
            "session.graph_optimization_level": f"{_C_API} graph_optimization_level",
            "session.inter_op_num_threads": f"{_C_API} inter_op_num_threads",
            "session.intra_op_num_threads": f"{_C_API} intra_op_num_threads",
            "session.log_id": f"{_C_API} logid",
            "session.log_severity_level": f"{_C_API} log_severity_level",
            "session.log_verbosity_level": f"{_C_API} log_verbosity_level",
            "session.use_deterministic_compute": f"{_C_API} use_deterministic_compute",
            "session.use_per_session_threads": f"{_C_API} use_per_session_threads",
            "cudnn_conv1d_pad_to_nc1d cudnn_conv_algo_search cudnn_conv_use_max_workspace "
            "enable_skip_layer_norm_strict_mode fuse_conv_bias prefer_nhwc sdpa_kernel use_tf32": (
                "an option of the CUDA execution provider. Pass it in provider_options"
            ),
        },
        "wrong results": {
            "session.moe.offload.min_expert_weight session.moe.offload.skip_tail_cold_only "
            "session.moe.offload.tail_substitution_min_rank session.moe.offload.tail_substitution_threshold": (
                "by its name, experts of the model are left out or replaced by others"
            ),
            "ep.cpu.qmoe_deferred_scale": (
                "applies the scales of packed weights after the sums. Sums of large values then overflow"
            ),
        },
    },
    others=_rule_of_prefix,
)
