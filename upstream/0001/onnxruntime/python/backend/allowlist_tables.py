# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The permitted settings: execution providers (EPs) with their options, session config and run config entries.

All others are refused. A setting is in a table only if it does not name a file or a library, does not accept a pointer,
does not act outside of the session, and does not let ORT return wrong outputs. ORT ignores some of the session config
entries without another setting, such as those of the inter-op threads without ``ORT_PARALLEL``.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnxruntime.backend.value_kinds import Choice, Flag, Integer, Kind, Pattern

Table = Mapping[str, Kind]  # by name

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
# From 1000000 on, idle threads keep all cores busy. -1: ORT counts iterations.
_SPIN_DURATION_US = Integer(-1, 10_000)

CUDA_OPTIONS: Table = {
    "device_id": Integer(0, 63),  # if the device does not exist, ORT raises an error
    # A lower limit stops each model, and a higher limit has no effect on any device.
    "gpu_mem_limit": Integer(2**20, 2**48),
    "arena_extend_strategy": Choice("kNextPowerOfTwo", "kSameAsRequested"),
    "cudnn_conv_algo_search": Choice("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "cudnn_conv_use_max_workspace": Flag(),
    "cudnn_conv1d_pad_to_nc1d": Flag(),
    "enable_cudnn": Flag(),  # off: operators that need cuDNN fail in a run
    "external_data_loader_reading_threads": Integer(0, 16),
    "fuse_conv_bias": Flag(),
    "prefer_nhwc": Flag(),
    "sdpa_kernel": Integer(0, 1023),  # bit mask of the attention kernels. 0: ORT chooses
    "tunable_op_enable": Flag(),
    "use_ep_level_unified_stream": Flag(),
    "use_tf32": Flag(),
}

# To permit another EP, add its table.
PROVIDERS: Mapping[str, Table] = {CPU: {}, CUDA: CUDA_OPTIONS}

SESSION_CONFIG: Table = {
    # Threads.
    "session.intra_op.allow_spinning": Flag(),
    "session.intra_op.spin_duration_us": _SPIN_DURATION_US,
    "session.inter_op.allow_spinning": Flag(),
    "session.inter_op.spin_duration_us": _SPIN_DURATION_US,
    # 1000000000 makes a run ten times slower, 2147483647 makes it fail.
    "session.dynamic_block_base": Integer(0, 128),
    "session.force_spinning_stop": Flag(),
    # Graph optimization.
    # 0 and values above the default would lift the cap, and a small model could fold gigabytes.
    "optimization.constant_folding_max_output_size_in_bytes": Integer(1, 2**30),
    "optimization.enable_cast_chain_elimination": Flag(),
    "optimization.enable_gelu_approximation": Flag(),
    "session.disable_aot_function_inlining": Flag(),
    "session.disable_double_qdq_remover": Flag(),
    "session.disable_quant_qdq": Flag(),
    "session.enable_quant_qdq_cleanup": Flag(),
    "session.function_expansion_byte_limit": Integer(1, 2**30),
    "session.function_expansion_node_limit": Integer(1, 1_000_000),
    "session.graph_optimizations_loop_level": Integer(0, 2),
    # Memory.
    "session.disable_prepacking": Flag(),
    # Strictness.
    # It requires provider_options without CPUExecutionProvider. Otherwise, ORT raises an error.
    "session.disable_cpu_ep_fallback": Flag(),
    "session.strict_shape_type_inference": Flag(),
    RECORD_ASSIGNMENT: Flag(),
}

RUN_CONFIG: Table = {
    # ORT raises an error in the run for a device without an arena.
    "memory.enable_memory_arena_shrinkage": Pattern(
        r"(cpu:0|gpu:[0-9]{1,2})(;(cpu:0|gpu:[0-9]{1,2})){0,7}", "devices such as 'cpu:0' or 'cpu:0;gpu:0'"
    ),
}

_REPLAY = "a replay of a captured graph uses the addresses of the captured run, so rep.run would return wrong outputs"
# Why a name that callers ask for is in none of the tables.
REASONS = {
    "do_copy_in_default_stream": "copies on another stream race with kernels",
    "enable_cuda_graph": _REPLAY,
    "gpu_graph_id": _REPLAY,
    "tunable_op_tuning_enable": "tuning has no time limit by default",
    "user_compute_stream": "it accepts a pointer",
}
