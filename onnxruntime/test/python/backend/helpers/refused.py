# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Every refused name, and the refused values of each permitted name: frozen lists, by the place of the name.

No program writes this file, and no table of the product is its source. Whoever permits a name, or widens its values,
edits a list here, in an edit that exists for no other purpose. A reviewer asks what shows that there is no harm.
"""

# By place and kind of harm.

REFUSED = {
    "session attributes": {
        "extends the trust in the model": "set_ep_context_data_read_func",
        "loads a library": "register_custom_ops_library",
        "no effect": "add_free_dimension_override_by_denotation get_session_config_entry has_providers",
        "no useful effect": "set_load_cancellation_flag",
        "requires another refused option": "clear_ep_context_data_read_func",
        "set by another argument": """
            add_free_dimension_override_by_name add_provider add_provider_for_devices
            add_session_config_entry set_provider_selection_policy set_provider_selection_policy_delegate
        """,
        "unsafe memory access": """
            add_external_initializers add_external_initializers_from_files_in_memory add_initializer
        """,
        "writes files": "optimized_model_filepath profile_file_prefix",
    },
    "run attributes": {
        "extends the trust in the model": "add_active_adapter",
        "no effect": "get_run_config_entry",
        "set by another argument": "add_run_config_entry",
        "wrong results": "training_mode",
    },
    "session_config": {
        "acts outside the caller's session": """
            ep.share_ep_contexts ep.stop_share_ep_contexts session.enable_moe_expert_counting
            session.moe.offload.budget_group session.set_denormal_as_zero session.use_env_allocators
        """,
        "discloses data": "session.enable_moe_expert_statistics",
        "extends the trust in the model": """
            ep.enable_weightless ep.enable_weightless_ep_context_nodes ep.enable_weightless_mode
            session.enable_saved_runtime_optimizations session.load_model_format
        """,
        "no effect": """
            ep.dynamic.qnn_htp_performance_mode ep.dynamic.workload_type ep.nnapi.partitioning_stop_ops
            optimization.enable_memory_probe_recompute_config session.enable_partitioned_cuda_graph
            session.enable_profiling session.enable_static_workspace_preallocation
            session.fail_on_suboptimal_compiled_model session.moe_cpu_offload_experts
            session.moe_expert_swap_epsilon session.optimized_model_filepath test.ep_to_select
        """,
        "no useful effect": "session.compile_only",
        "not verified": """
            cudnn_conv_algo ep.cuda.enable_gemm_auto_tune ep.cuda.fpa_intb_dequant_gemm_min_m
            ep.cuda.fpa_intb_gemm ep.cuda.fpa_intb_gemv_paired_k ep.cuda.fpa_intb_gemv_wave_aware
            ep.cuda.matmul_nbits_m_chunk_size ep.cuda.moe_packed_gpu_experts ep.cuda.qmoe_row_tile_size
            ep.cuda.runtime_fusion.causal_conv_with_state ep.cuda.runtime_fusion.unit_swish
            mlas.kleidiai.conv_igemm_max_work prefer_nhwc_layout session.external_data_loader.chunk_bytes
            session.external_data_loader.min_size_bytes session.external_data_loader.threads
            session.kernel_dispatch_policy session.moe.offload.async_max_tokens
            session.moe.offload.cpu_execution session.moe.offload.mode session.moe.offload.node_overrides
            session.moe.offload.placement session.moe.offload.prefill_wave_experts
            session.moe.offload.skip_zero_cold_doorbell
        """,
        "reads files": """
            ep.context_source_model_path optimization.memory_optimizer_config
            session.model_external_initializers_file_folder_path session.moe.offload.allow_file_backing
            session.moe.offload.popularity_file session.moe.offload.source_root
            session.moe_expert_counter_state_file session.resource_cuda_partitioning_settings
        """,
        "requires another refused option": """
            ep.context_node_name_prefix session.moe_expert_counter_alpha session.moe_expert_counter_beta
        """,
        "set by another argument": """
            cudnn_conv1d_pad_to_nc1d cudnn_conv_algo_search cudnn_conv_use_max_workspace
            enable_skip_layer_norm_strict_mode fuse_conv_bias prefer_nhwc sdpa_kernel
            session.allow_released_opsets_only session.enable_cpu_mem_arena session.enable_mem_pattern
            session.execution_mode session.graph_optimization_level session.inter_op_num_threads
            session.intra_op_num_threads session.log_id session.log_severity_level
            session.log_verbosity_level session.use_deterministic_compute session.use_per_session_threads
            use_tf32
        """,
        "unbounded use of resources": """
            ep.cuda.fpa_intb_profile_m ep.cuda.gqa_workspace_max_total_sequence_length
            ep.cuda.qmoe_int_dequant_max_scratch_bytes session.external_data_loader.pinned_memory_bytes
            session.intra_op_thread_affinities session.max_shape_override session.moe.offload.cpu_threads
            session.moe.offload.device_expert_bytes session.moe.offload.device_working_bytes
            session.moe.offload.gpu_budget_bytes session.moe.offload.gpu_device_mem_limit
            session.moe.offload.host_expert_bytes session.moe.offload.host_working_bytes
            session.moe.offload.pinned_bytes session.moe.offload.reserve_device_bytes
        """,
        "unsafe memory access": """
            mlas.nchwc_pointwise_conv_max_input_channel_batch
            session.use_external_initializer_file_buffers_directly session.use_memory_mapped_ort_model
            session.use_ort_model_bytes_directly session.use_ort_model_bytes_for_initializers
        """,
        "writes files": """
            ep.context_embed_mode ep.context_enable ep.context_file_path
            ep.context_model_external_initializers_file_name ep.cuda.gemm_tactic_cache_dir
            ep.cuda.gemm_tactic_cache_prefix ep.cuda.gemm_tactic_cache_tuning_results_prefix
            session.collect_node_memory_stats_to_file session.debug_layout_transformation
            session.moe.offload.derived_cache_dir session.node_partition_config_file
            session.optimized_model_external_initializers_file_name
            session.optimized_model_external_initializers_min_size_in_bytes
            session.save_external_prepacked_constant_initializers session.save_model_format
        """,
        "wrong results": """
            ep.cpu.qmoe_deferred_scale session.moe.offload.min_expert_weight
            session.moe.offload.skip_tail_cold_only session.moe.offload.tail_substitution_min_rank
            session.moe.offload.tail_substitution_threshold
        """,
    },
    "session_config prefixes": {
        "no effect": "moe.cpu_offload.",
        "not verified": "session.moe.offload.",
        "set by another argument": "ep.",
    },
    "run_config": {
        "not verified": "qnn.htp_perf_mode qnn.htp_perf_mode_post_run qnn.rpc_control_latency",
        "reads files": "qnn.lora_config",
        "wrong results": "disable_synchronize_execution_providers",
    },
    "every EP": {"loads a library": "provider_factory_entry_point shared_lib_path"},
    "CUDAExecutionProvider, built-in": {
        "loads a library": "external_data_loader_use_gds",
        "raw pointer": "gpu_external_alloc gpu_external_empty_cache gpu_external_free user_compute_stream",
        "reads files": "external_data_loader_use_directstorage",
        "requires another refused option": "has_user_compute_stream",
        "unbounded use of resources": "external_data_loader_chunk_bytes external_data_loader_pinned_memory_bytes",
    },
    "CUDAExecutionProvider, plugin": {
        "acts outside the caller's session": """
            arena.cuda_mempool_bytes_to_keep_on_shrink arena.cuda_mempool_release_threshold
            arena.extend_strategy arena.initial_chunk_size_bytes arena.initial_growth_chunk_size_bytes
            arena.max_dead_bytes_per_chunk arena.max_mem arena.max_power_of_two_extend_bytes
            arena.use_cuda_mempool
        """,
        "not verified": """
            cudnn_conv_algo external_data_loader_chunk_bytes external_data_loader_pinned_memory_bytes
            external_data_loader_reading_threads gpu_device_mem_limit min_num_runs_before_cuda_graph_capture
            prefer_nhwc_layout
        """,
    },
    "TensorrtExecutionProvider, built-in": {
        "discloses data": "trt_detailed_build_log",
        "loads a library": "trt_engine_decryption_enable trt_engine_decryption_lib_path trt_extra_plugin_lib_paths",
        "no effect": "trt_build_heuristics_enable",
        "not verified": """
            trt_load_user_initializer trt_profile_max_shapes trt_profile_min_shapes trt_profile_opt_shapes
        """,
        "raw pointer": "trt_external_data_bytestream trt_onnx_bytestream user_compute_stream",
        "reads files": """
            trt_int8_calibration_table_name trt_int8_use_native_calibration_table trt_onnx_model_folder_path
            trt_weight_stripped_engine_enable
        """,
        "requires another refused option": """
            has_user_compute_stream trt_external_data_bytestream_size trt_force_timing_cache
            trt_onnx_bytestream_size trt_preview_features
        """,
        "set by another argument": "precision_mode",
        "writes files": """
            trt_dump_ep_context_model trt_dump_subgraphs trt_engine_cache_enable trt_engine_cache_path
            trt_engine_cache_prefix trt_ep_context_embed_mode trt_ep_context_file_path
            trt_timing_cache_enable trt_timing_cache_path
        """,
    },
    "NvTensorRTRTXExecutionProvider, plugin": {
        "discloses data": "nv_detailed_build_log",
        "no effect": """
            nv_dump_ep_context_model nv_ep_context_embed_mode nv_ep_context_file_path
            nv_external_data_bytestream nv_external_data_bytestream_size nv_extra_plugin_lib_paths
            nv_onnx_bytestream nv_onnx_bytestream_size
        """,
        "not verified": """
            multi_rotary_cache_concat_offset nv_multi_rotary_cache_concat_offset nv_profile_max_shapes
            nv_profile_min_shapes nv_profile_opt_shapes nv_use_external_data_initializer
        """,
        "raw pointer": "user_aux_stream_array user_compute_stream VkExternalComputeQueueDataParamsNV_data",
        "reads files": "nv_weight_stripped_engine_enable_experimental",
        "requires another refused option": """
            has_user_compute_stream nv_length_aux_stream_array nv_multi_profile_enable nv_target_sm
        """,
        "set by another argument": "nv_cuda_graph_enable",
        "unbounded use of resources": """
            arena.extend_strategy arena.initial_chunk_size_bytes arena.initial_growth_chunk_size_bytes
            arena.max_dead_bytes_per_chunk arena.max_mem arena.max_power_of_two_extend_bytes
        """,
        "writes files": """
            ep.context_embed_mode ep.context_enable ep.context_file_path nv_dump_subgraphs
            nv_enable_profiling nv_profiling_output_file nv_runtime_cache_path
        """,
    },
    "MIGraphXExecutionProvider, built-in": {
        "no effect": "migraphx_arena_extend_strategy migraphx_mem_limit",
        "not verified": "migraphx_max_compiled_models migraphx_max_dynamic_batch",
        "raw pointer": "migraphx_external_alloc migraphx_external_empty_cache migraphx_external_free",
        "reads files": "migraphx_int8_calibration_table_name migraphx_int8_use_native_calibration_table",
        "writes files": """
            migraphx_load_compiled_model migraphx_load_model_path migraphx_model_cache_dir
            migraphx_save_compiled_model migraphx_save_model_path
        """,
    },
    "CANNExecutionProvider, built-in": {
        "not verified": """
            dynamic_batch_size dynamic_dims dynamic_image_size input_format op_select_impl_mode
            optypelist_for_implmode precision_mode precision_mode_v2
        """,
        "writes files": "dump_graphs",
    },
    "OpenVINOExecutionProvider, built-in": {
        "acts outside the caller's session": "enable_qdq_optimizer",
        "no effect": "disable_dynamic_shapes",
        "not verified": "device_luid enable_opencl_throttling layout",
        "raw pointer": "context",
        "set by another argument": "device_id",
        "unsafe memory access": "reshape_input",
        "writes files": "cache_dir load_config",
        "wrong results": "enable_causallm",
    },
    "OpenVINOExecutionProvider, plugin": {
        "no effect": """
            cache_dir context disable_dynamic_shapes enable_opencl_throttling enable_qdq_optimizer
            hardware_device_type layout model_priority
        """,
        "not verified": "hint_enable_gqa reshape_input",
        "reads files": "load_config",
        "set by another argument": "device_luid device_type",
        "unbounded use of resources": """
            arena.extend_strategy arena.initial_chunk_size_bytes arena.initial_growth_chunk_size_bytes
            arena.max_dead_bytes_per_chunk arena.max_mem arena.max_power_of_two_extend_bytes
        """,
        "writes files": "dump_subgraphs",
        "wrong results": "enable_causallm",
    },
    "QNNExecutionProvider, built-in": {
        "acts outside the caller's session": "enable_vtcm_backup_buffer_sharing soc_model",
        "loads a library": """
            backend_path enable_htp_shared_memory_allocator op_packages qnn_ir_backend_path qnn_saver_path
        """,
        "not verified": """
            backend_type device_id disable_file_mapped_weights enable_htp_spill_fill_buffer extended_udma
            htp_arch htp_graph_finalization_optimization_mode htp_performance_mode
            offload_graph_io_quantization qnn_context_priority rpc_control_latency vtcm_mb
        """,
        "requires another refused option": "enable_htp_fp16_precision htp_bf16_enable skip_qnn_version_check",
        "writes files": """
            dump_json_qnn_graph dump_qnn_ir_dlc dump_qnn_ir_dlc_dir json_qnn_graph_dir profiling_file_path
            profiling_level
        """,
    },
    "QNNExecutionProvider, plugin": {
        "acts outside the caller's session": """
            enable_vtcm_backup_buffer_sharing htp_share_resource_optimization soc_model
        """,
        "loads a library": """
            backend_path enable_htp_shared_memory_allocator op_packages qnn_ir_backend_path qnn_saver_path
        """,
        "not verified": """
            disable_file_mapped_weights enable_block_quant_weight_optimization
            enable_dx12_shared_memory_allocator enable_htp_fp16_clamp_overflow enable_htp_graph_splitting
            enable_htp_monolithic_lstm enable_htp_prepare_and_load enable_htp_spill_fill_buffer
            extended_udma genie_log_level htp_arch htp_graph_splitting_num_prepare_threads
            htp_reused_io_limit_mb num_graph_prepare_threads
        """,
        "reads files": "op_affinity",
        "requires another refused option": """
            enable_htp_fp16_precision enable_htp_prepare_only htp_bf16_enable skip_qnn_version_check
        """,
        "unsafe memory access": "skip_backend_op_validation",
        "writes files": """
            dump_json_qnn_graph dump_qnn_ep_input_graph dump_qnn_ep_input_graph_dir dump_qnn_ir_dlc
            dump_qnn_ir_dlc_dir enable_framework_op_trace framework_op_trace_dir json_qnn_graph_dir
            profiling_file_path profiling_level
        """,
    },
    "WebGpuExecutionProvider, built-in": {
        "acts outside the caller's session": """
            dawnBackendType defaultBufferCacheMode maxStorageBufferBindingSize powerPreference
            preserveDevice queryResolveBufferCacheMode storageBufferCacheMode uniformBufferCacheMode
            validationMode
        """,
        "no effect": "enablePIXCapture forceCpuNodeNames",
        "not verified": "multiRotaryCacheConcatOffset",
        "raw pointer": "dawnProcTable webgpuDevice webgpuInstance",
        "requires another refused option": "deviceId",
    },
    "WebGpuExecutionProvider, plugin": {
        "acts outside the caller's session": """
            dawnBackendType defaultBufferCacheMode enableRobustness maxNumPendingDispatches
            maxStorageBufferBindingSize powerPreference preserveDevice queryResolveBufferCacheMode
            storageBufferCacheMode uniformBufferCacheMode validationMode
        """,
        "no effect": "enablePIXCapture forceCpuNodeNames",
        "not verified": "kvCacheQuantizationBits multiRotaryCacheConcatOffset sessionBufferPoolGenerations",
        "raw pointer": "dawnProcTable webgpuDevice webgpuInstance",
        "requires another refused option": "deviceId",
    },
    "DmlExecutionProvider, built-in": {
        "no effect": """
            ep.dml.disable_graph_fusion ep.dml.disable_memory_arena ep.dml.enable_cpu_sync_spinning
            ep.dml.enable_graph_capture ep.dml.enable_graph_serialization
        """,
        "not verified": "device_filter device_id disable_metacommands performance_preference",
    },
    "CoreMLExecutionProvider, built-in": {
        "discloses data": "ProfileComputePlan",
        "not verified": """
            AllowLowPrecisionAccumulationOnGPU EnableOnSubgraphs MLComputeUnits ModelFormat
            RequireStaticInputShapes SpecializationStrategy
        """,
        "set by another argument": "flags",
        "writes files": "ModelCacheDirectory",
    },
    "VitisAIExecutionProvider, built-in": {
        "loads a library": "external_ep_library",
        "not verified": """
            ai_analyzer_profiling ai_analyzer_visualization cache_dir cache_key cacheDir cacheKey
            config_file enable_cache_file_io_in_mem encryptionKey ep_context_embed_mode ep_context_enable
            ep_context_file_path log_level opt_level ort_session_config.* target xclbin
        """,
        "raw pointer": "session_options",
    },
    "XnnpackExecutionProvider, built-in": {"not verified": "intra_op_num_threads"},
    "ACLExecutionProvider, built-in": {"not verified": "enable_fast_math"},
    "DnnlExecutionProvider, built-in": {"not verified": "num_of_threads"},
    "JsExecutionProvider, built-in": {"no effect": "preferredLayout"},
    "WebNNExecutionProvider, built-in": {"no effect": "deviceType"},
}
REFUSED["OpenVINOExecutionProvider.AUTO, plugin"] = REFUSED["OpenVINOExecutionProvider, plugin"]

# The refused value of each flag that has one permitted value, and of other names whose value has a reason.
REFUSED_VALUES = {
    "session attributes": {"enable_profiling": True},
    "run attributes": {"terminate": True},
    "CUDAExecutionProvider, built-in": {"do_copy_in_default_stream": False},
    "NvTensorRTRTXExecutionProvider, plugin": {"enable_cuda_graph": True},
    "CANNExecutionProvider, built-in": {"dump_om_model": True},
    "OpenVINOExecutionProvider, built-in": {"num_of_threads": 1},
    "OpenVINOExecutionProvider, plugin": {"num_of_threads": 1},
    "OpenVINOExecutionProvider.AUTO, plugin": {"num_of_threads": 1},
    "WebGpuExecutionProvider, built-in": {"enableGraphCapture": True},
}

# The first refused integer below and above the permitted ones. On two CPUs, the bound on threads is 16.
_DEVICE = (-1, 64)
BOUNDS = {
    "session attributes": {"inter_op_num_threads": (-1, 17), "intra_op_num_threads": (-1, 17)},
    "session_config": {
        "optimization.constant_folding_max_output_size_in_bytes": (0, 1_073_741_825),
        "session.dynamic_block_base": (-1, 129),
        "session.function_expansion_byte_limit": (0, 1_073_741_825),
        "session.function_expansion_node_limit": (0, 1_000_001),
        "session.graph_optimizations_loop_level": (-1, 3),
        "session.inter_op.spin_backoff_max": (0, 65),
        "session.inter_op.spin_duration_us": (-2, 10_001),
        "session.intra_op.spin_backoff_max": (0, 65),
        "session.intra_op.spin_duration_us": (-2, 10_001),
        "session.qdq_matmulnbits_accuracy_level": (-1, 5),
    },
    "session_config prefixes": {"session.inter_op.": (-1, 65), "session.intra_op.": (-1, 65)},
    "run_config": {"gpu_graph_id": (-2, 1024)},
    "free_dimension_overrides": {"N": (0, 16_777_217)},
    "CUDAExecutionProvider, built-in": {
        "device_id": _DEVICE,
        "external_data_loader_reading_threads": (-1, 17),
        "gpu_mem_limit": (1_048_575, 281_474_976_710_657),
        "sdpa_kernel": (-1, 1024),
        "tunable_op_max_tuning_duration_ms": (0, 1001),
    },
    "TensorrtExecutionProvider, built-in": {
        "device_id": _DEVICE,
        "trt_auxiliary_streams": (-2, 9),
        "trt_builder_optimization_level": (-1, 6),
        "trt_dla_core": (-1, 8),
        "trt_max_partition_iterations": (0, 10_001),
        "trt_max_workspace_size": (-1, 1_099_511_627_777),
        "trt_min_subgraph_size": (0, 1_000_001),
    },
    "NvTensorRTRTXExecutionProvider, plugin": {
        "device_id": _DEVICE,
        "nv_max_shared_mem_size": (-1, 1_048_577),
        "nv_max_workspace_size": (-1, 1_099_511_627_777),
    },
    "MIGraphXExecutionProvider, built-in": {"device_id": _DEVICE},
    "CANNExecutionProvider, built-in": {"device_id": _DEVICE, "npu_mem_limit": (1_048_575, 281_474_976_710_657)},
    "OpenVINOExecutionProvider, built-in": {"num_of_threads": (0, 17), "num_streams": (0, 17)},
    "OpenVINOExecutionProvider, plugin": {"device_id": _DEVICE, "num_of_threads": (0, 17), "num_streams": (0, 17)},
    "QNNExecutionProvider, plugin": {
        "device_id": _DEVICE,
        "htp_graph_finalization_optimization_mode": (-1, 4),
        "rpc_control_latency": (-1, 1001),
        "vtcm_mb": (0, 17),
    },
    "WebGpuExecutionProvider, plugin": {"device_id": _DEVICE},
    "MLXExecutionProvider, plugin": {"device_id": _DEVICE},
}
BOUNDS["OpenVINOExecutionProvider.AUTO, plugin"] = BOUNDS["OpenVINOExecutionProvider, plugin"]

# The values that must not be among the permitted ones of each other name.
_GROWTH = ("kNextPowerOfTwo ", "kAlways", 0, 1)
_OPERATORS = ("", "NoSuchOperator", "conv", "Conv, MatMul", "Conv;MatMul", "*")
_LOG_ID = ("a\nb", "a]", "[a", "a:b", "a  b", " a", "a ", "\x1b[31m", "\u00e9", "x" * 257)
_PLACEMENTS = ("cpu(a,a)", "cpu(a);gpu(a)", "tpu(a)", "cpu(a b)", "cpu(a\nb)", "cpu(%s)", "gpu:100(a)", "x" * 1025)
CHOICES = {
    "session attributes": {
        "execution_mode": (2, 77, "parallel"),
        "execution_order": ("MEMORY_EFFICIENT", 2),
        "graph_optimization_level": (4, 98, "ALL"),
        "log_severity_level": (-2, 0, 1, 5),
        "log_verbosity_level": (-1, 1),
        "logid": _LOG_ID,
    },
    "run attributes": {"log_severity_level": (-2, 0, 1, 5), "log_verbosity_level": (-1, 1), "logid": _LOG_ID},
    "session_config": {
        "optimization.disable_specified_optimizers": (
            "MemcpyTransformer",
            "CastFloat16Transformer",
            "EnsureUniqueDQForNodeUnit",
            "RemoveDuplicateCastTransformer",
            "NoSuchPass",
            "ConstantFolding;",
        ),
        "optimization.minimal_build_optimizations": ("save",),
        "session.gqa_value_layout": ("BSNH", "bnsh"),
        "session.layer_assignment_settings": _PLACEMENTS,
        "session.name_based_layer_assignment": (*_PLACEMENTS, "cpu(=a)"),
        "session.qdq_matmulnbits_block_size": (-2, 1, 8, 48, 512),
    },
    "run_config": {"memory.enable_memory_arena_shrinkage": ("", "cpu", "cpu:1", "gpu:100", "disk:0", "cpu:0;")},
    "CUDAExecutionProvider, built-in": {
        "arena_extend_strategy": _GROWTH,
        "cudnn_conv_algo_search": ("exhaustive", "", 0, 3),
    },
    "TensorrtExecutionProvider, built-in": {
        "trt_op_types_to_exclude": _OPERATORS,
        "trt_tactic_sources": ("", "CUDNN", "-CUDNN,", "-JIT_CONVOLUTIONS", "+PLUGIN"),
    },
    "NvTensorRTRTXExecutionProvider, plugin": {
        "nv_op_types_to_exclude": _OPERATORS,
        "nv_weight_streaming_budget": ("", "-2", "101%", "1e9", "5X", "9" * 16),
    },
    "CANNExecutionProvider, built-in": {"arena_extend_strategy": _GROWTH},
    "OpenVINOExecutionProvider, built-in": {
        "device_type": ("AUTO", "AUTO:CPU,CPU", "AUTO:GPU,GPU.0", "GPU.10", "BATCH:CPU", "CPU,GPU", "CPU_FP32"),
        "model_priority": ("high", "CRITICAL"),
        "precision": ("BF16", "INT8", "fp32"),
    },
    "OpenVINOExecutionProvider, plugin": {"precision": ("FP16", "BF16", "f32")},
    "QNNExecutionProvider, plugin": {
        "backend_type": ("cpu", "gpu", "saver", "ir", "genie"),
        "htp_performance_mode": ("extreme", "BURST"),
        "qnn_context_priority": ("high", "normal_high", "high_plus", "critical", "critical_plus"),
    },
    "WebGpuExecutionProvider, built-in": {"preferredLayout": ("nchw", "NCDHW")},
    "WebGpuExecutionProvider, plugin": {"preferredLayout": ("nchw", "NCDHW")},
}
CHOICES["OpenVINOExecutionProvider.AUTO, plugin"] = CHOICES["OpenVINOExecutionProvider, plugin"]
