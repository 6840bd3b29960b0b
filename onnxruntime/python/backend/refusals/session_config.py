# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused session config keys."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    DISCLOSES,
    MODEL_TRUST,
    NEEDS_REFUSED,
    NO_EFFECT,
    NO_USE,
    NOT_VERIFIED,
    OTHER_ARGUMENT,
    OUTSIDE_SESSION,
    READS_FILES,
    UNBOUNDED,
    UNSAFE_MEMORY,
    WRITES_FILES,
    WRONG_RESULTS,
    Refused,
    refused,
)

# Reasons that several keys share.
_SAVED_MODEL = "applies only if an optimized model is saved, which requires optimized_model_filepath"
_MODEL_BYTES = "in Python, the initializers point to released memory, and outputs change and become NaN"
_C_API_ONLY = "ORT's C API maps it to a SessionOptions field, but Python's SessionOptions only stores it"
_C_API_WRITES = "Python's SessionOptions only stores it. ORT's C API maps it to a field that makes ORT write files"
_EP_CONTEXT = "an execution provider writes its compiled model to a file of any name"
_WEIGHTLESS = "makes an execution provider read weights from a location that the model specifies"
_EXPERTS = "counting experts makes concurrent runs of a session fail, and Python cannot read the counters"
_CUDA_UNRUN = "an option for CUDA kernels that was not tested on a GPU"
_CUDA_OPTION = "an option of the CUDA execution provider. Pass it in provider_options"
_CUDA_PLUGIN_OPTION = "only the plugin EP of CUDA knows it, and that EP was not run"
_CUDA_CACHE = "specifies files of a tactic cache in source code of ORT that no release up to 1.32 contains"
_UNRELEASED = "no release up to 1.32 reads it. Only newer source code of ORT contains it"
_LOADER = "configures how a GPU EP loads external data. No such EP was run"
_OFFLOAD = "configures how a GPU EP offloads experts of a model. No such EP was run"
_TRAINING = "only training builds read it, and they open it as a path"
# These keys act in InferenceSession.set_ep_dynamic_options, which the backend does not call: a prepared model stays as
# it was verified.
_DYNAMIC = "only InferenceSession.set_ep_dynamic_options reads it. As a session config entry, it is ignored"

SESSION_CONFIG: dict[str, Refused] = {
    # Refused: they affect other code of the process.
    "session.set_denormal_as_zero": Refused(
        OUTSIDE_SESSION,
        "if the first session of a process has this key, the key permanently changes the arithmetic of the calling "
        "thread, including numpy and other sessions. In a later session, the key changes only the threads of the "
        "session's pool, and outputs differ between runs",
    ),
    "session.use_env_allocators": Refused(
        OUTSIDE_SESSION,
        "the session shares an arena with the application's own sessions, which fail if a caller keeps outputs",
    ),
    # Refused: they read or write files.
    "session.collect_node_memory_stats_to_file": Refused(WRITES_FILES, "overwrites a file of any name after each run"),
    "session.debug_layout_transformation": Refused(
        WRITES_FILES, "writes models to the current folder if an EP changes the layout"
    ),
    "session.enable_profiling": Refused(NO_EFFECT, _C_API_WRITES),
    "session.model_external_initializers_file_folder_path": Refused(
        READS_FILES, "a model passed as bytes can then return the content of any file"
    ),
    "session.moe_expert_counter_state_file": Refused(READS_FILES, "opens a file of any name"),
    "session.node_partition_config_file": Refused(
        WRITES_FILES,
        "creates a file of any name. ORT overwrites an existing file if the process can write it and cannot read it",
    ),
    "session.optimized_model_external_initializers_file_name": Refused(WRITES_FILES, _SAVED_MODEL),
    "session.optimized_model_external_initializers_min_size_in_bytes": Refused(WRITES_FILES, _SAVED_MODEL),
    "session.optimized_model_filepath": Refused(NO_EFFECT, _C_API_WRITES),
    "session.resource_cuda_partitioning_settings": Refused(
        READS_FILES, "the value can contain a file name after a comma. ORT opens this file, even on the CPU EP"
    ),
    "session.save_external_prepacked_constant_initializers": Refused(WRITES_FILES, _SAVED_MODEL),
    "session.save_model_format": Refused(WRITES_FILES, _SAVED_MODEL),
    "optimization.memory_optimizer_config": Refused(READS_FILES, _TRAINING),
    # Refused: unsafe memory access, trust in the model, resources of others.
    "mlas.kleidiai.conv_igemm_max_work": Refused(
        NOT_VERIFIED, "acts on Arm only, where it was not measured. Text that is not a number aborts the process"
    ),
    "mlas.nchwc_pointwise_conv_max_input_channel_batch": Refused(
        UNSAFE_MEMORY, "numbers near 2**64 crash the run, and text that is not a number aborts the process"
    ),
    "session.enable_moe_expert_counting": Refused(OUTSIDE_SESSION, _EXPERTS),
    "session.enable_moe_expert_statistics": Refused(DISCLOSES, "logs the experts that each input selects"),
    "session.enable_saved_runtime_optimizations": Refused(
        MODEL_TRUST, "applies graph rewrites that an ORT-format model contains"
    ),
    "session.intra_op_thread_affinities": Refused(
        UNBOUNDED,
        "ORT logs a line for each CPU of the value that does not exist. Threads can also run on CPUs that the process "
        "may not use",
    ),
    "session.load_model_format": Refused(
        MODEL_TRUST, "selects the parser of the model's bytes regardless of their content"
    ),
    "session.max_shape_override": Refused(UNBOUNDED, "ORT estimates from it how much device memory it reserves"),
    "session.moe_expert_counter_alpha": Refused(NEEDS_REFUSED, "requires session.enable_moe_expert_counting"),
    "session.moe_expert_counter_beta": Refused(NEEDS_REFUSED, "requires session.enable_moe_expert_counting"),
    "session.use_external_initializer_file_buffers_directly": Refused(
        UNSAFE_MEMORY, "uses the application's buffers, which must outlive the session"
    ),
    "session.use_memory_mapped_ort_model": Refused(
        UNSAFE_MEMORY,
        "a change of the model's file changes an existing session, and its truncation terminates the process",
    ),
    "session.use_ort_model_bytes_directly": Refused(UNSAFE_MEMORY, _MODEL_BYTES),
    "session.use_ort_model_bytes_for_initializers": Refused(UNSAFE_MEMORY, _MODEL_BYTES),
    # Refused: ORT's Python API does not read them.
    "optimization.enable_memory_probe_recompute_config": Refused(NO_EFFECT, "only training builds read it"),
    "session.compile_only": Refused(NO_USE, "internal. A session with this key cannot run"),
    "session.fail_on_suboptimal_compiled_model": Refused(NO_EFFECT, "never read in sessions that Python creates"),
    "test.ep_to_select": Refused(NO_EFFECT, "a test hook that is never read in sessions that Python creates"),
    # Refused: the backend sets it, or Python has SessionOptions attributes for these.
    "session.allow_released_opsets_only": Refused(
        OTHER_ARGUMENT,
        "OnnxRuntimeBackend.allowReleasedOpsetsOnly sets it, which the environment variable "
        "ALLOW_RELEASED_ONNX_OPSET_ONLY=0 makes false. ORT before 1.32 ignores the key",
    ),
    "session.enable_cpu_mem_arena": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass enable_cpu_mem_arena"),
    "session.enable_mem_pattern": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass enable_mem_pattern"),
    "session.execution_mode": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass execution_mode"),
    "session.graph_optimization_level": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass graph_optimization_level"),
    "session.inter_op_num_threads": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass inter_op_num_threads"),
    "session.intra_op_num_threads": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass intra_op_num_threads"),
    "session.log_id": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass logid"),
    "session.log_severity_level": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass log_severity_level"),
    "session.log_verbosity_level": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass log_verbosity_level"),
    "session.use_deterministic_compute": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass use_deterministic_compute"),
    "session.use_per_session_threads": Refused(OTHER_ARGUMENT, f"{_C_API_ONLY}. Pass use_per_session_threads"),
    # Refused: ORT 1.32 does not know them.
    **refused(
        NO_EFFECT,
        _UNRELEASED,
        "session.enable_partitioned_cuda_graph",
        "session.enable_static_workspace_preallocation",
        "session.moe_cpu_offload_experts",
        "session.moe_expert_swap_epsilon",
    ),
    # Refused: experts of a model that a GPU EP offloads, and how it loads external data.
    **refused(
        UNBOUNDED,
        "ORT accepts memory sizes and numbers of threads without a useful limit",
        "session.external_data_loader.pinned_memory_bytes",
        "session.moe.offload.cpu_threads",
        "session.moe.offload.device_expert_bytes",
        "session.moe.offload.device_working_bytes",
        "session.moe.offload.gpu_budget_bytes",
        "session.moe.offload.gpu_device_mem_limit",
        "session.moe.offload.host_expert_bytes",
        "session.moe.offload.host_working_bytes",
        "session.moe.offload.pinned_bytes",
        "session.moe.offload.reserve_device_bytes",
    ),
    **refused(
        NOT_VERIFIED,
        _LOADER,
        "session.external_data_loader.chunk_bytes",
        "session.external_data_loader.min_size_bytes",
        "session.external_data_loader.threads",
    ),
    **refused(
        NOT_VERIFIED,
        _OFFLOAD,
        "session.moe.offload.async_max_tokens",
        "session.moe.offload.cpu_execution",
        "session.moe.offload.mode",
        "session.moe.offload.node_overrides",
        "session.moe.offload.placement",
        "session.moe.offload.prefill_wave_experts",
        "session.moe.offload.skip_zero_cold_doorbell",
    ),
    **refused(
        WRONG_RESULTS,
        "by its name, experts of the model are left out or replaced by others",
        "session.moe.offload.min_expert_weight",
        "session.moe.offload.skip_tail_cold_only",
        "session.moe.offload.tail_substitution_min_rank",
        "session.moe.offload.tail_substitution_threshold",
    ),
    **refused(
        READS_FILES,
        "by its name, ORT reads weights of experts, or how often they are used, from files",
        "session.moe.offload.allow_file_backing",
        "session.moe.offload.popularity_file",
        "session.moe.offload.source_root",
    ),
    "session.moe.offload.budget_group": Refused(
        OUTSIDE_SESSION, "by its name, sessions with the same text share one budget of memory"
    ),
    "session.moe.offload.derived_cache_dir": Refused(
        WRITES_FILES, "by its name, ORT keeps converted weights in this folder"
    ),
    "session.kernel_dispatch_policy": Refused(
        NOT_VERIFIED, "selects kernels of the CUDA execution provider only, where it was not run"
    ),
    # Refused with the prefix ep., each for its own reason.
    "ep.context_embed_mode": Refused(WRITES_FILES, _EP_CONTEXT),
    "ep.context_enable": Refused(WRITES_FILES, _EP_CONTEXT),
    "ep.context_file_path": Refused(WRITES_FILES, _EP_CONTEXT),
    "ep.context_model_external_initializers_file_name": Refused(WRITES_FILES, _EP_CONTEXT),
    "ep.context_node_name_prefix": Refused(NEEDS_REFUSED, "requires ep.context_enable"),
    "ep.context_source_model_path": Refused(READS_FILES, "specifies a model that an execution provider reads"),
    "ep.cpu.qmoe_deferred_scale": Refused(
        WRONG_RESULTS, "applies the scales of packed weights after the sums. Sums of large values then overflow"
    ),
    **refused(
        NOT_VERIFIED,
        _CUDA_UNRUN,
        "ep.cuda.enable_gemm_auto_tune",
        "ep.cuda.fpa_intb_dequant_gemm_min_m",
        "ep.cuda.fpa_intb_gemm",
        "ep.cuda.fpa_intb_gemv_paired_k",
        "ep.cuda.fpa_intb_gemv_wave_aware",
        "ep.cuda.matmul_nbits_m_chunk_size",
        "ep.cuda.moe_packed_gpu_experts",
        "ep.cuda.qmoe_row_tile_size",
        "ep.cuda.runtime_fusion.causal_conv_with_state",
        "ep.cuda.runtime_fusion.unit_swish",
    ),
    "ep.cuda.fpa_intb_profile_m": Refused(
        UNBOUNDED, "determines the scratch memory of profiling. The value 2048 requires gigabytes"
    ),
    **refused(
        WRITES_FILES,
        _CUDA_CACHE,
        "ep.cuda.gemm_tactic_cache_dir",
        "ep.cuda.gemm_tactic_cache_prefix",
        "ep.cuda.gemm_tactic_cache_tuning_results_prefix",
    ),
    "ep.cuda.gqa_workspace_max_total_sequence_length": Refused(
        UNBOUNDED, "ORT estimates from it how much device memory it reserves"
    ),
    "ep.cuda.qmoe_int_dequant_max_scratch_bytes": Refused(UNBOUNDED, "raises a limit on device memory"),
    "ep.dynamic.qnn_htp_performance_mode": Refused(NO_EFFECT, _DYNAMIC),
    "ep.dynamic.workload_type": Refused(NO_EFFECT, _DYNAMIC),
    "ep.enable_weightless": Refused(MODEL_TRUST, _WEIGHTLESS),
    "ep.enable_weightless_ep_context_nodes": Refused(MODEL_TRUST, _WEIGHTLESS),
    "ep.enable_weightless_mode": Refused(MODEL_TRUST, _WEIGHTLESS),
    "ep.nnapi.partitioning_stop_ops": Refused(NO_EFFECT, "only Android's NNAPI execution provider reads it"),
    "ep.share_ep_contexts": Refused(OUTSIDE_SESSION, "shares an execution provider's state with other sessions"),
    "ep.stop_share_ep_contexts": Refused(
        OUTSIDE_SESSION, "stops the sharing that ep.share_ep_contexts started, in other sessions too"
    ),
    "cudnn_conv1d_pad_to_nc1d": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
    "cudnn_conv_algo": Refused(NOT_VERIFIED, _CUDA_PLUGIN_OPTION),
    "cudnn_conv_algo_search": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
    "cudnn_conv_use_max_workspace": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
    "enable_skip_layer_norm_strict_mode": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
    "fuse_conv_bias": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
    "prefer_nhwc": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
    "prefer_nhwc_layout": Refused(NOT_VERIFIED, _CUDA_PLUGIN_OPTION),
    "sdpa_kernel": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
    "use_tf32": Refused(OTHER_ARGUMENT, _CUDA_OPTION),
}

# Refused by their prefix. An exact entry above always wins. ORT passes the options of a plugin EP as session config
# entries ep.<name in lower case>.<option>, so a key under ep. could set an option that its EP's table refuses.
SESSION_PREFIXES: dict[str, Refused] = {
    "ep.": Refused(
        OTHER_ARGUMENT,
        "if it is an option of an execution provider, pass it in provider_options. Other keys of this prefix were not "
        "reviewed",
    ),
    "moe.cpu_offload.": Refused(NO_EFFECT, "ORT 1.32 rejects each key of this prefix, and older releases ignore it"),
    "session.moe.offload.": Refused(NOT_VERIFIED, _OFFLOAD),
}
