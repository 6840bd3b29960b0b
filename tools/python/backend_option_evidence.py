# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The evidence for each entry of the allowlist and of the refusals: how its effect, or the lack of an effect, is known.

No entry inherits evidence: write the name of a new option into the list of a test, or of a text, that contains it. If
the evidence of a key gives no release, ORT 1.31.1 on x86-64 shows the difference. The tests of
session_config.py and run_config.py repeat the observation of each permitted key that acts on the CPU EP.
"""

from __future__ import annotations

from collections.abc import Mapping

# The permitted session config and run config keys: the observed difference.
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

# Evidence to the refused session config and run config keys.
REFUSED_KEYS = {
    "1e-20 squared is 0 in numpy afterwards. In a second session, a part of the outputs is 0": """
        session.set_denormal_as_zero
    """,
    "the application's run fails while a caller keeps 16 outputs": "session.use_env_allocators",
    "a file appeared": "session.collect_node_memory_stats_to_file session.node_partition_config_file",
    "documented": """
        session.debug_layout_transformation session.use_external_initializer_file_buffers_directly
        optimization.enable_memory_probe_recompute_config ep.cuda.fpa_intb_profile_m
        ep.enable_weightless_ep_context_nodes ep.enable_weightless_mode ep.nnapi.partitioning_stop_ops
        qnn.lora_config
    """,
    "no effect was observed": """
        session.enable_profiling session.optimized_model_filepath session.enable_cpu_mem_arena
        session.enable_mem_pattern session.execution_mode session.graph_optimization_level
        session.inter_op_num_threads session.intra_op_num_threads session.log_id session.log_severity_level
        session.log_verbosity_level session.use_deterministic_compute session.use_per_session_threads
    """,
    "the content of the file reached the outputs": "session.model_external_initializers_file_folder_path",
    "ORT opened the file": "session.moe_expert_counter_state_file session.resource_cuda_partitioning_settings",
    "a file appeared outside of the model's folder": "session.optimized_model_external_initializers_file_name",
    "strings": """
        session.optimized_model_external_initializers_min_size_in_bytes session.enable_saved_runtime_optimizations
        test.ep_to_select ep.context_model_external_initializers_file_name ep.context_node_name_prefix
        ep.context_source_model_path ep.cuda.enable_gemm_auto_tune ep.cuda.fpa_intb_dequant_gemm_min_m
        ep.cuda.fpa_intb_gemm ep.cuda.fpa_intb_gemv_paired_k ep.cuda.fpa_intb_gemv_wave_aware
        ep.cuda.matmul_nbits_m_chunk_size ep.cuda.moe_packed_gpu_experts ep.cuda.qmoe_row_tile_size
        ep.cuda.runtime_fusion.causal_conv_with_state ep.cuda.runtime_fusion.unit_swish
        ep.cuda.qmoe_int_dequant_max_scratch_bytes ep.share_ep_contexts ep.stop_share_ep_contexts
        qnn.htp_perf_mode qnn.htp_perf_mode_post_run qnn.rpc_control_latency
    """,
    "ORT logged it": "session.save_external_prepacked_constant_initializers session.enable_moe_expert_statistics",
    "no effect alone": "session.save_model_format",
    "documented, absent from the wheels": "optimization.memory_optimizer_config",
    "the process aborted": "mlas.kleidiai.conv_igemm_max_work",
    "the process crashed": "mlas.nchwc_pointwise_conv_max_input_channel_batch",
    "42 of 1200 concurrent runs failed": "session.enable_moe_expert_counting",
    "69 million log lines in two minutes": "session.intra_op_thread_affinities",
    "the parser raised errors": "session.load_model_format",
    "no effect on CPU": "session.max_shape_override",
    "ORT raised an error": "session.moe_expert_counter_alpha session.moe_expert_counter_beta session.compile_only",
    "the session changed, and the process terminated": "session.use_memory_mapped_ort_model",
    "outputs changed and became NaN": """
        session.use_ort_model_bytes_directly session.use_ort_model_bytes_for_initializers
    """,
    "opset 99 loads with the value 0": "session.allow_released_opsets_only",
    "a trace of all keys that ORT reads does not contain this key": """
        session.fail_on_suboptimal_compiled_model ep.dynamic.qnn_htp_performance_mode ep.dynamic.workload_type
    """,
    "source after 1.31, strings: not in onnxruntime 1.32.0": """
        session.enable_partitioned_cuda_graph session.enable_static_workspace_preallocation
        session.moe_cpu_offload_experts session.moe_expert_swap_epsilon ep.cuda.gemm_tactic_cache_dir
        ep.cuda.gemm_tactic_cache_prefix ep.cuda.gemm_tactic_cache_tuning_results_prefix
    """,
    "run: ORT 1.32.0 checks the value in each session, and nothing changes on the CPU EP": """
        session.external_data_loader.pinned_memory_bytes session.moe.offload.cpu_threads
        session.moe.offload.device_expert_bytes session.moe.offload.device_working_bytes
        session.moe.offload.gpu_budget_bytes session.moe.offload.gpu_device_mem_limit
        session.moe.offload.host_expert_bytes session.moe.offload.host_working_bytes
        session.moe.offload.pinned_bytes session.moe.offload.reserve_device_bytes
        session.external_data_loader.chunk_bytes session.external_data_loader.min_size_bytes
        session.external_data_loader.threads session.moe.offload.async_max_tokens
        session.moe.offload.cpu_execution session.moe.offload.mode session.moe.offload.node_overrides
        session.moe.offload.placement session.moe.offload.prefill_wave_experts
        session.moe.offload.skip_zero_cold_doorbell session.moe.offload.min_expert_weight
        session.moe.offload.skip_tail_cold_only session.moe.offload.tail_substitution_min_rank
        session.moe.offload.tail_substitution_threshold session.kernel_dispatch_policy
    """,
    "run: ORT 1.32.0 accepts values, and opens no file on the CPU EP": """
        session.moe.offload.allow_file_backing session.moe.offload.popularity_file session.moe.offload.source_root
        session.moe.offload.budget_group session.moe.offload.derived_cache_dir
    """,
    "files appeared (OpenVINO plugin)": "ep.context_embed_mode ep.context_enable ep.context_file_path",
    "run: with inputs of 2e37 and scales of 1e-37, no output of QMoE is finite. Without the key, all are": """
        ep.cpu.qmoe_deferred_scale
    """,
    "parsed on the CPU EP too": "ep.cuda.gqa_workspace_max_total_sequence_length",
    "ORT raised an error (OpenVINO plugin)": "ep.enable_weightless",
    "source: the plugin EP of CUDA also reads this session config key": """
        cudnn_conv1d_pad_to_nc1d cudnn_conv_algo cudnn_conv_algo_search cudnn_conv_use_max_workspace
        enable_skip_layer_norm_strict_mode fuse_conv_bias prefer_nhwc prefer_nhwc_layout sdpa_kernel use_tf32
    """,
    "source": "disable_synchronize_execution_providers",
}

# Evidence to the options of each EP, by their title in the document: how the effect of a permitted option is known, ...
OPTIONS: dict[str, dict[str, str]] = {
    "CUDAExecutionProvider": {
        "parser run: onnxruntime-gpu 1.31.1 on stub CUDA libraries": """
            device_id gpu_mem_limit arena_extend_strategy cudnn_conv_algo_search
            cudnn_conv_use_max_workspace cudnn_conv1d_pad_to_nc1d do_copy_in_default_stream
            enable_cuda_graph enable_cudnn enable_skip_layer_norm_strict_mode
            external_data_loader_reading_threads fuse_conv_bias prefer_nhwc sdpa_kernel tunable_op_enable
            tunable_op_tuning_enable tunable_op_max_tuning_duration_ms use_ep_level_unified_stream use_tf32
        """
    },
    "TensorrtExecutionProvider": {
        "parser run: onnxruntime-gpu 1.31.1 on stub CUDA and TensorRT libraries": """
            device_id trt_max_partition_iterations trt_min_subgraph_size trt_max_workspace_size
            trt_fp16_enable trt_bf16_enable trt_int8_enable trt_dla_enable trt_dla_core
            trt_force_sequential_engine_build trt_context_memory_sharing_enable trt_layer_norm_fp32_fallback
            trt_sparsity_enable trt_builder_optimization_level trt_auxiliary_streams trt_tactic_sources
            trt_engine_hw_compatible trt_op_types_to_exclude trt_cuda_graph_enable
        """
    },
    "NvTensorRTRTXExecutionProvider, plugin": {
        "backend: selects the device": "device_id",
        "parser run: onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0 on stub libraries": """
            enable_cuda_graph nv_max_workspace_size nv_max_shared_mem_size nv_weight_streaming_budget
            nv_op_types_to_exclude nv_use_sync_gpu_allocator nv_persistent_context_memory
        """,
    },
    "MIGraphXExecutionProvider": {
        "parser run: onnxruntime-migraphx 1.27.1 on stub HIP and MIGraphX libraries": """
            device_id migraphx_fp16_enable migraphx_bf16_enable migraphx_fp8_enable migraphx_int8_enable
            migraphx_exhaustive_tune
        """
    },
    "CANNExecutionProvider": {
        "parser run: onnxruntime-cann 1.24.4 on stub ACL libraries": """
            device_id npu_mem_limit arena_extend_strategy enable_cann_graph enable_cann_subgraph
            dump_om_model
        """
    },
    "OpenVINOExecutionProvider": {
        "run: onnxruntime-openvino 1.24.1 on a CPU": "device_type precision num_of_threads num_streams",
        "source: sent to OpenVINO only if device_type has no CPU; run: no effect on CPU": "model_priority",
    },
    "OpenVINOExecutionProvider, plugin": {
        "backend: selects the device": "device_id",
        "run: onnxruntime-ep-openvino 1.8.1 on a CPU": "num_of_threads num_streams precision",
    },
    "QNNExecutionProvider, plugin": {
        "backend: selects the device": "device_id",
        "run: onnxruntime-qnn 2.7.0 on its HTP simulator": """
            backend_type htp_graph_finalization_optimization_mode htp_performance_mode
            offload_graph_io_quantization qnn_context_priority rpc_control_latency vtcm_mb
        """,
    },
    "WebGpuExecutionProvider": {
        "run: onnxruntime-webgpu 1.27.0 on a software GPU": "preferredLayout enableInt64 enableGraphCapture"
    },
    "WebGpuExecutionProvider, plugin": {
        "backend: selects the device": "device_id",
        "run: onnxruntime-ep-webgpu 0.4.0 on a software GPU": "preferredLayout enableInt64 enableGraphCapture",
    },
    "MLXExecutionProvider, plugin": {"backend: selects the device": "device_id"},
}
# ... and how the harm of a refused option is known. This is no evidence for a permitted option.
REFUSED_OPTIONS: dict[str, dict[str, str]] = {
    "Every EP": {
        "run: ORT 1.24.4 loads the library, 1.27.1 and 1.31.1 do not": "shared_lib_path provider_factory_entry_point"
    },
    "CUDAExecutionProvider": {
        "parser run: onnxruntime-gpu 1.31.1 on stub CUDA libraries": """
            user_compute_stream has_user_compute_stream gpu_external_alloc gpu_external_free
            gpu_external_empty_cache
        """,
        "source of a later ORT, parser run: unknown to 1.31.1": """
            external_data_loader_use_gds external_data_loader_use_directstorage
        """,
        "strings: onnxruntime 1.32.0": "external_data_loader_pinned_memory_bytes external_data_loader_chunk_bytes",
    },
    "CUDAExecutionProvider, plugin": {
        "source: CUDA plugin EP, April 2026": """
            min_num_runs_before_cuda_graph_capture prefer_nhwc_layout cudnn_conv_algo arena.use_cuda_mempool
            arena.cuda_mempool_release_threshold arena.cuda_mempool_bytes_to_keep_on_shrink
            arena.extend_strategy arena.initial_chunk_size_bytes arena.max_dead_bytes_per_chunk
            arena.max_mem
        """,
        "strings: onnxruntime 1.32.0": """
            external_data_loader_reading_threads external_data_loader_pinned_memory_bytes
            external_data_loader_chunk_bytes gpu_device_mem_limit arena.initial_growth_chunk_size_bytes
            arena.max_power_of_two_extend_bytes
        """,
    },
    "TensorrtExecutionProvider": {
        "parser run: onnxruntime-gpu 1.31.1 on stub CUDA and TensorRT libraries": """
            trt_profile_min_shapes trt_profile_max_shapes trt_profile_opt_shapes trt_extra_plugin_lib_paths
            trt_engine_decryption_enable trt_engine_decryption_lib_path trt_preview_features
            trt_engine_cache_enable trt_engine_cache_path trt_engine_cache_prefix trt_timing_cache_enable
            trt_timing_cache_path trt_force_timing_cache trt_dump_ep_context_model trt_ep_context_file_path
            trt_ep_context_embed_mode trt_dump_subgraphs trt_int8_calibration_table_name
            trt_int8_use_native_calibration_table trt_weight_stripped_engine_enable
            trt_onnx_model_folder_path trt_detailed_build_log user_compute_stream has_user_compute_stream
            trt_onnx_bytestream trt_onnx_bytestream_size trt_external_data_bytestream
            trt_external_data_bytestream_size trt_load_user_initializer
        """,
        "source, parser run: accepted": "trt_build_heuristics_enable",
    },
    "NvTensorRTRTXExecutionProvider, plugin": {
        "parser run: onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0 on stub libraries": """
            nv_profile_min_shapes nv_profile_max_shapes nv_profile_opt_shapes nv_multi_profile_enable
            nv_use_external_data_initializer nv_multi_rotary_cache_concat_offset
            multi_rotary_cache_concat_offset nv_target_sm nv_runtime_cache_path nv_dump_subgraphs
            ep.context_enable ep.context_file_path ep.context_embed_mode nv_enable_profiling
            nv_profiling_output_file nv_weight_stripped_engine_enable_experimental nv_detailed_build_log
            user_compute_stream user_aux_stream_array VkExternalComputeQueueDataParamsNV_data
            has_user_compute_stream nv_length_aux_stream_array
        """,
        "strings. Run with onnxruntime-ep-openvino 1.8.1, which has the same option": """
            arena.extend_strategy arena.initial_chunk_size_bytes arena.initial_growth_chunk_size_bytes
            arena.max_dead_bytes_per_chunk arena.max_mem arena.max_power_of_two_extend_bytes
        """,
        "strings: not in onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0": """
            nv_ep_context_file_path nv_ep_context_embed_mode nv_dump_ep_context_model nv_onnx_bytestream
            nv_onnx_bytestream_size nv_external_data_bytestream nv_external_data_bytestream_size
            nv_extra_plugin_lib_paths nv_cuda_graph_enable
        """,
    },
    "MIGraphXExecutionProvider": {
        "parser run: onnxruntime-migraphx 1.27.1 on stub HIP and MIGraphX libraries": """
            migraphx_mem_limit migraphx_arena_extend_strategy migraphx_int8_calibration_table_name
            migraphx_int8_use_native_calibration_table migraphx_model_cache_dir migraphx_external_alloc
            migraphx_external_free migraphx_external_empty_cache
        """,
        "source of older releases, strings: not in onnxruntime-migraphx 1.27.1": """
            migraphx_save_compiled_model migraphx_save_model_path migraphx_load_compiled_model
            migraphx_load_model_path
        """,
        "source, strings: not in onnxruntime-migraphx 1.27.1": """
            migraphx_max_dynamic_batch migraphx_max_compiled_models
        """,
    },
    "CANNExecutionProvider": {
        "parser run: onnxruntime-cann 1.24.4 on stub ACL libraries": """
            dump_graphs precision_mode op_select_impl_mode optypelist_for_implmode
        """,
        "source, strings: not in onnxruntime-cann 1.24.4": """
            precision_mode_v2 input_format dynamic_batch_size dynamic_image_size dynamic_dims
        """,
    },
    "OpenVINOExecutionProvider": {
        "run: onnxruntime-openvino 1.24.1 on a CPU": """
            disable_dynamic_shapes enable_causallm reshape_input layout cache_dir load_config context
            device_id device_luid
        """,
        "source, run: no effect on CPU": "enable_opencl_throttling enable_qdq_optimizer",
    },
    "OpenVINOExecutionProvider, plugin": {
        "run: onnxruntime-ep-openvino 1.8.1 on a CPU": """
            load_config dump_subgraphs cache_dir reshape_input enable_causallm hint_enable_gqa
            model_priority enable_opencl_throttling enable_qdq_optimizer device_type device_luid
            arena.extend_strategy arena.initial_chunk_size_bytes arena.initial_growth_chunk_size_bytes
            arena.max_dead_bytes_per_chunk arena.max_mem arena.max_power_of_two_extend_bytes
            hardware_device_type
        """,
        "strings: not in onnxruntime-ep-openvino 1.8.1": "disable_dynamic_shapes context layout",
    },
    "QNNExecutionProvider": {
        "strings: onnxruntime-qnn 1.24.4 for Windows": """
            backend_type device_id htp_graph_finalization_optimization_mode htp_performance_mode
            offload_graph_io_quantization qnn_context_priority rpc_control_latency vtcm_mb backend_path
            qnn_saver_path qnn_ir_backend_path op_packages enable_htp_shared_memory_allocator
            skip_qnn_version_check profiling_level profiling_file_path dump_json_qnn_graph
            json_qnn_graph_dir dump_qnn_ir_dlc dump_qnn_ir_dlc_dir soc_model enable_htp_fp16_precision
            htp_bf16_enable htp_arch enable_htp_spill_fill_buffer enable_vtcm_backup_buffer_sharing
            extended_udma disable_file_mapped_weights
        """
    },
    "QNNExecutionProvider, plugin": {
        "run: onnxruntime-qnn 2.7.0 on its HTP simulator": """
            backend_path qnn_saver_path qnn_ir_backend_path op_packages enable_htp_shared_memory_allocator
            skip_qnn_version_check profiling_level profiling_file_path dump_json_qnn_graph
            json_qnn_graph_dir dump_qnn_ir_dlc dump_qnn_ir_dlc_dir soc_model enable_htp_fp16_precision
            htp_bf16_enable htp_arch enable_htp_spill_fill_buffer enable_vtcm_backup_buffer_sharing
            extended_udma disable_file_mapped_weights op_affinity enable_framework_op_trace
            framework_op_trace_dir dump_qnn_ep_input_graph dump_qnn_ep_input_graph_dir
            enable_htp_prepare_only htp_share_resource_optimization skip_backend_op_validation
            enable_dx12_shared_memory_allocator num_graph_prepare_threads enable_htp_graph_splitting
            htp_graph_splitting_num_prepare_threads htp_reused_io_limit_mb enable_htp_monolithic_lstm
            enable_htp_fp16_clamp_overflow enable_block_quant_weight_optimization
            enable_htp_prepare_and_load genie_log_level
        """
    },
    "WebGpuExecutionProvider": {
        "run: onnxruntime-webgpu 1.27.0 on a software GPU": """
            forceCpuNodeNames multiRotaryCacheConcatOffset enablePIXCapture deviceId webgpuInstance
            webgpuDevice dawnProcTable storageBufferCacheMode uniformBufferCacheMode
            queryResolveBufferCacheMode defaultBufferCacheMode validationMode preserveDevice
            maxStorageBufferBindingSize powerPreference dawnBackendType
        """
    },
    "WebGpuExecutionProvider, plugin": {
        "run: onnxruntime-ep-webgpu 0.4.0 on a software GPU": """
            forceCpuNodeNames multiRotaryCacheConcatOffset enablePIXCapture deviceId webgpuInstance
            webgpuDevice dawnProcTable storageBufferCacheMode uniformBufferCacheMode
            queryResolveBufferCacheMode defaultBufferCacheMode validationMode preserveDevice
            maxStorageBufferBindingSize powerPreference dawnBackendType enableRobustness
            maxNumPendingDispatches kvCacheQuantizationBits sessionBufferPoolGenerations
        """
    },
    "DmlExecutionProvider": {
        "strings: onnxruntime-directml 1.24.4, source": """
            device_id performance_preference device_filter disable_metacommands ep.dml.disable_graph_fusion
            ep.dml.enable_graph_serialization ep.dml.enable_graph_capture ep.dml.enable_cpu_sync_spinning
            ep.dml.disable_memory_arena
        """
    },
    "CoreMLExecutionProvider": {
        "strings: onnxruntime 1.31.1 for macOS, source": """
            MLComputeUnits ModelFormat RequireStaticInputShapes EnableOnSubgraphs SpecializationStrategy
            AllowLowPrecisionAccumulationOnGPU ProfileComputePlan ModelCacheDirectory flags
        """
    },
    "VitisAIExecutionProvider": {
        "source and AMD's documentation": """
            external_ep_library session_options config_file cache_dir cache_key cacheDir cacheKey xclbin
            target enable_cache_file_io_in_mem log_level encryptionKey ai_analyzer_visualization
            ai_analyzer_profiling opt_level ep_context_enable ep_context_embed_mode ep_context_file_path
            ort_session_config.*
        """
    },
    "XnnpackExecutionProvider": {"source": "intra_op_num_threads"},
    "ACLExecutionProvider": {"source": "enable_fast_math"},
    "DnnlExecutionProvider": {"source": "num_of_threads"},
    "JsExecutionProvider": {"source": "preferredLayout"},
    "WebNNExecutionProvider": {"source": "deviceType"},
}
for _options in (OPTIONS, REFUSED_OPTIONS):
    _options["OpenVINOExecutionProvider.AUTO, plugin"] = _options["OpenVINOExecutionProvider, plugin"]


def _by_name(names: Mapping[str, str]) -> dict[str, str]:
    return {name: evidence for evidence, listed in names.items() for name in listed.split()}


def _by_title(keys: Mapping[str, str], options: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    titles = {title: _by_name(names) for title, names in options.items()}
    return {"Session config": dict(keys), "Run config": dict(keys), **titles}


# By the title of a section of the document, and by name.
OF_PERMITTED = _by_title(CONFIG_KEYS, OPTIONS)
OF_REFUSED = _by_title(_by_name(REFUSED_KEYS), REFUSED_OPTIONS)
# An attribute has the same evidence as all others: the class has a member of this name.
OF_CLASS = {
    "Session attributes": "stored: a member of SessionOptions",
    "Run attributes": "stored: a member of RunOptions",
}


def title_of(ep: str, kind: str) -> str:
    """Return the title of the section of an EP's options."""
    return f"{ep}, plugin" if kind == "plugin" else ep


def evidence_of(title: str, name: str, *, is_refused: bool) -> str:
    """Return the evidence for an entry of a section. Evidence of harm is none for a permitted entry.

    :raises KeyError: if an option or a key has none.
    """
    evidence = OF_REFUSED if is_refused else OF_PERMITTED
    return OF_CLASS.get(title) or evidence[title][name]
