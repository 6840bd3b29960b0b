# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The evidence for each permitted session config and run config key: the observed difference.

If the evidence gives no release, ORT 1.31.1 on x86-64 shows the difference. The tests of the allowlist's ort_options.py
repeat the observation of each key that acts on the CPU EP.
"""

from __future__ import annotations

CONFIG_KEYS = {
    "gpu_graph_id": "ORT parses it in every run, on the CPU EP too",
    "memory.enable_memory_arena_shrinkage": "memory of the process falls after the run",
    "mlas.disable_kleidiai": "emulated Arm CPU: outputs of a 4-bit MatMulNBits change",
    "mlas.enable_gemm_fastmath_arm64_bfloat16": "emulated Arm CPU: outputs of a MatMul change",
    "mlas.nchwc_depthwise_sliding": "run time of a 3x3 depthwise convolution differs by 15 %, outputs do not",
    "mlas.qnbit.force_fp32": "x86-64: outputs of a 4-bit MatMulNBits change. Emulated Arm CPU: they do not change",
    "mlas.use_lut_gemm": "x86-64: outputs change. Emulated Arm CPU: they do not change",
    "optimization.constant_folding_max_output_size_in_bytes": "'8' keeps ConstantOfShape in the graph",
    "optimization.disable_specified_optimizers": "each name tried on its own",
    "optimization.enable_cast_chain_elimination": "Cast, Cast, Relu becomes Relu",
    "optimization.enable_gelu_approximation": "Gelu becomes FastGelu",
    "optimization.minimal_build_optimizations": "'apply': Conv and Relu become FusedConv, without NCHWc",
    "session.disable_aot_function_inlining": "log of the inlining",
    "session.disable_cpu_ep_fallback": (
        "run with OpenVINO 1.24.1 as the only specified EP. If the CPU EP is also specified, ORT rejects the key"
    ),
    "session.disable_double_qdq_remover": "outputs change",
    "session.disable_model_compile": "OpenVINO 1.24.1: MODEL_REQUIRES_COMPILATION",
    "session.disable_prepacking": "log of the initializers' memory",
    "session.disable_qdq_constant_folding": "log: ConstantFolding leaves the node",
    "session.disable_quant_qdq": "MatMul stays in the graph. Without the key, QLinearMatMul replaces it",
    "session.dynamic_block_base": "log of the block base",
    "session.enable_dq_matmulnbits_fusion": (
        "log: DQMatMulNBitsFusion runs (on the CPU EP, it finds no nodes to fuse). Of the 1.24 releases, only 1.24.3 "
        "and later have the key. Therefore, the backend permits it from 1.25 on"
    ),
    "session.enable_quant_qdq_cleanup": "outputs change",
    "session.force_spinning_stop": "idle CPU seconds go to zero",
    "session.function_expansion_byte_limit": "with '1', ORT rejects a model with a function",
    "session.function_expansion_node_limit": "with '1', ORT rejects a model with a function",
    "session.gqa_value_layout": "ORT reads the key: with 'BNHS', it rejects every model in ORT format",
    "session.graph_optimizations_loop_level": "log of the loop level",
    "session.inter_op.allow_spinning": "idle CPU seconds go to zero",
    "session.inter_op.spin_backoff_max": "log: ORT reads it in parallel mode",
    "session.inter_op.spin_duration_us": "idle CPU seconds go to zero with 0",
    "session.intra_op.allow_spinning": "idle CPU seconds go to zero",
    "session.intra_op.spin_backoff_max": "log: ORT reads it",
    "session.intra_op.spin_duration_us": "idle CPU seconds go to zero with 0",
    "session.layer_assignment_settings": "log of the parsed rules",
    "session.name_based_layer_assignment": "log of the parsed rules",
    "session.prepack.enable_parallel": "log of the repacking",
    "session.qdq_matmulnbits_accuracy_level": "outputs change",
    "session.qdq_matmulnbits_block_size": "outputs change",
    "session.qdqisint8allowed": "log of the rewrite",
    "session.record_ep_graph_assignment_info": "get_provider_graph_assignment_info returns the nodes of each EP",
    "session.strict_shape_type_inference": "ORT rejects a model whose declared shape contradicts the inferred shape",
    "session.strict_workspace_verification": "ORT reads the key: with '1', it rejects every model in ORT format",
    "session.use_device_allocator_for_initializers": (
        "ORT 1.31.1 reads it. No difference on the CPU EP, whose arena always reserves the memory of initializers one "
        "by one"
    ),
    "session.x64quantprecision": "log: Avx2WeightS8ToU8Transformer runs",
}
