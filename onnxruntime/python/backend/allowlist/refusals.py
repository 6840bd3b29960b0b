# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Why options and keys are refused: what a caller who names one is told, and what the documents list.

No safety rests on this module: what the allowlist does not permit is refused, listed here or not. It is read only when
something was refused, by the command line, by the documents and by the check that no option of a release is unjudged.
"""

from __future__ import annotations

from typing import NamedTuple

from onnxruntime.backend.allowlist import providers
from onnxruntime.backend.allowlist.rules import Table
from onnxruntime.backend.provider_names import (
    CANN,
    COREML,
    CUDA,
    DML,
    MIGRAPHX,
    NV_TENSORRT_RTX,
    OPENVINO,
    QNN,
    TENSORRT,
    VITISAI,
    WEBGPU,
)

# Hazards: why an option or key is refused, in a few words.
RAW_POINTER = "raw pointer"
LOADS_LIBRARY = "loads a library"
WRITES_FILES = "writes files"
READS_FILES = "reads files"
UNSAFE_MEMORY = "memory that may be gone or is not the caller's"
NEEDS_REFUSED = "needs another refused option"
OUTSIDE_SESSION = "acts outside the caller's session"
UNBOUNDED = "unbounded use of resources"
WRONG_RESULTS = "wrong results"
MODEL_TRUST = "widens what a model may do"
DISCLOSES = "discloses data"
NO_EFFECT = "no effect"
OTHER_DOOR = "another keyword is the way in"
NOT_VERIFIED = "not verified"


class Refused(NamedTuple):
    """A refused option or key: its hazard in a few words, and the reason.

    :param hazard: one of this module's constants.
    :param reason: what happens when ORT is given it.
    :param evidence: how it is known.
    """

    hazard: str
    reason: str
    evidence: str = ""


def _refused(hazard: str, reason: str, *options: str, evidence: str = "") -> dict[str, Refused]:
    """One verdict for several options."""
    return dict.fromkeys(options, Refused(hazard, reason, evidence))


def _known_by(evidence: str, refused: dict[str, Refused]) -> dict[str, Refused]:
    """Say how the verdicts of a table are known, where one does not say it itself."""
    return {
        name: verdict if verdict.evidence else verdict._replace(evidence=evidence) for name, verdict in refused.items()
    }


# --- Attributes, session config entries and run config entries ---

_ARENA = "documented nowhere; the memory arena it shapes fails the session or its runs, or takes memory without end"
_ARENA_OPTIONS = (
    "arena.extend_strategy",
    "arena.initial_chunk_size_bytes",
    "arena.initial_growth_chunk_size_bytes",
    "arena.max_dead_bytes_per_chunk",
    "arena.max_mem",
    "arena.max_power_of_two_extend_bytes",
)

SESSION_ATTRIBUTES: dict[str, Refused] = {
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
    "register_custom_ops_library": Refused(
        LOADS_LIBRARY,
        "loads a shared library and runs its code; the environment variable ORT_ONNX_BACKEND_CONFIG may name it, as "
        '{"extensions": [...]}',
    ),
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

RUN_ATTRIBUTES: dict[str, Refused] = {
    "add_active_adapter": Refused(MODEL_TRUST, "computes with other weights, taken from an adapter"),
    "add_run_config_entry": Refused(OTHER_DOOR, "run config entries are named in run_config"),
    "get_run_config_entry": Refused(NO_EFFECT, "a method that only reads; see run_config of the prepared model"),
    "terminate": Refused(NO_EFFECT, "ends the run before it yields anything; it is for another thread"),
    # Only training builds have it; an inference build would drop it without a word.
    "training_mode": Refused(WRONG_RESULTS, "switches operators such as Dropout to training where the build has it"),
}

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

SESSION_CONFIG: dict[str, Refused] = {
    # Refused: what others of the process notice.
    "session.set_denormal_as_zero": Refused(
        OUTSIDE_SESSION,
        "the first session of a process that has it changes the arithmetic of the calling thread for good, numpy's and "
        "other sessions' included, and a later session computes half with it and half without",
        "1e-20 squared is 0 in numpy afterwards",
    ),
    "session.use_env_allocators": Refused(
        OUTSIDE_SESSION,
        "the session takes memory from an arena that the application's own sessions need: whoever keeps outputs makes "
        "those fail",
        "the application's run fails while a caller keeps 16 outputs",
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

# Refused by their beginning; an exact rule above wins. ORT hands options of a plugin EP around as session config
# entries named ep.<name in lower case>.<option>, so a key under ep. would set any of them past their own rules.
SESSION_FAMILIES: dict[str, Refused] = {
    "ep.": Refused(OTHER_DOOR, "options of an execution provider are named in provider_options"),
}

_QNN_UNRUN = "acts on a Qualcomm HTP device only, where it has not been run"

RUN_CONFIG: dict[str, Refused] = {
    "disable_synchronize_execution_providers": Refused(
        WRONG_RESULTS, "outputs of a GPU may be read before they are complete; any text but '0' turns it on", "sources"
    ),
    "qnn.htp_perf_mode": Refused(NOT_VERIFIED, _QNN_UNRUN, "strings"),
    "qnn.htp_perf_mode_post_run": Refused(NOT_VERIFIED, _QNN_UNRUN, "strings"),
    "qnn.lora_config": Refused(READS_FILES, "names a file of weights", "documented"),
    "qnn.rpc_control_latency": Refused(NOT_VERIFIED, _QNN_UNRUN, "strings"),
}


# --- Options of execution providers ---

EVERY_PROVIDER = _refused(
    LOADS_LIBRARY,
    "for an EP name that ORT does not know, ORT up to 1.24 loads the shared library it names",
    "shared_lib_path",
    "provider_factory_entry_point",
    evidence="run: ORT 1.24.4 loads it, 1.27.1 and 1.31.1 do not",
)
_NO_CALLER_MEMORY = "ORT reads the number as an address of the model's bytes"
_CAUSAL_LM = "rewrites the model to keep a hidden state from run to run, and fails for models it does not fit"
_ONE_CONTEXT = (
    "it belongs to the GPU context, of which a process has one: the first live session decides for all, and values of "
    "later sessions are ignored"
)
_UNRUN = "no build of the EP could be run, nor its parser"

_CUDA: dict[str, Refused] = {
    **_refused(
        RAW_POINTER,
        "ORT hands the number to the CUDA driver as the address of a stream",
        "user_compute_stream",
        "has_user_compute_stream",
    ),
    **_refused(
        RAW_POINTER,
        "ORT calls the number as a function",
        "gpu_external_alloc",
        "gpu_external_free",
        "gpu_external_empty_cache",
    ),
    "external_data_loader_use_gds": Refused(
        LOADS_LIBRARY,
        "1.31 does not know it; newer ORT loads libcufile and reads weights past the file cache",
        "source of a later ORT; parser run: unknown to 1.31.1",
    ),
    "external_data_loader_use_directstorage": Refused(
        READS_FILES,
        "1.31 does not know it; newer ORT reads weights through Windows DirectStorage",
        "source of a later ORT; parser run: unknown to 1.31.1",
    ),
}

_CUDA_PLUGIN: dict[str, Refused] = {
    **_refused(
        NOT_VERIFIED,
        "only the plugin CUDA EP knows it; that EP ignores options it does not know and only logs values it cannot "
        "read, and could not be run here",
        "min_num_runs_before_cuda_graph_capture",
        "prefer_nhwc_layout",
        "cudnn_conv_algo",
    ),
    **_refused(
        OUTSIDE_SESSION,
        "the plugin CUDA EP has one memory arena per device for the whole process: the first session decides",
        "arena.use_cuda_mempool",
        "arena.cuda_mempool_release_threshold",
        "arena.cuda_mempool_bytes_to_keep_on_shrink",
        "arena.extend_strategy",
        "arena.max_mem",
        "arena.initial_chunk_size_bytes",
        "arena.max_dead_bytes_per_chunk",
    ),
}

_TENSORRT: dict[str, Refused] = {
    "trt_build_heuristics_enable": Refused(
        NO_EFFECT,
        "does nothing since TensorRT 8.6, where trt_builder_optimization_level=2 has that effect",
        "source; parser run: accepted",
    ),
    **_refused(
        NOT_VERIFIED,
        "ORT only logs what it cannot read in it and then ignores it, and no engine could be built to see the rest",
        "trt_profile_min_shapes",
        "trt_profile_max_shapes",
        "trt_profile_opt_shapes",
    ),
    **_refused(LOADS_LIBRARY, "the libraries are loaded before the session is made", "trt_extra_plugin_lib_paths"),
    **_refused(
        LOADS_LIBRARY,
        "a library that decrypts engines is loaded when the session is made",
        "trt_engine_decryption_enable",
        "trt_engine_decryption_lib_path",
    ),
    "trt_preview_features": Refused(NEEDS_REFUSED, "it acts only on plugin libraries"),
    **_refused(
        WRITES_FILES,
        "engines and timings are written to a folder that is made for them, and engines found there are loaded",
        "trt_engine_cache_enable",
        "trt_engine_cache_path",
        "trt_engine_cache_prefix",
        "trt_timing_cache_enable",
        "trt_timing_cache_path",
    ),
    "trt_force_timing_cache": Refused(NEEDS_REFUSED, "it acts only on a timing cache read from a file"),
    **_refused(
        WRITES_FILES,
        "the compiled model is written to a file",
        "trt_dump_ep_context_model",
        "trt_ep_context_file_path",
        "trt_ep_context_embed_mode",
    ),
    "trt_dump_subgraphs": Refused(WRITES_FILES, "parts of the model are written to the current folder"),
    **_refused(
        READS_FILES,
        "a calibration table is read from a file",
        "trt_int8_calibration_table_name",
        "trt_int8_use_native_calibration_table",
    ),
    **_refused(
        READS_FILES,
        "the weights are read from a model file in a folder",
        "trt_weight_stripped_engine_enable",
        "trt_onnx_model_folder_path",
    ),
    "trt_detailed_build_log": Refused(DISCLOSES, "every step of building an engine goes to the log of the process"),
    **_refused(
        RAW_POINTER,
        "ORT hands the number to the CUDA driver as the address of a stream",
        "user_compute_stream",
        "has_user_compute_stream",
    ),
    **_refused(
        RAW_POINTER,
        _NO_CALLER_MEMORY,
        "trt_onnx_bytestream",
        "trt_onnx_bytestream_size",
        "trt_external_data_bytestream",
        "trt_external_data_bytestream_size",
        "trt_load_user_initializer",
    ),
}

_TENSORRT_RTX: dict[str, Refused] = {
    **_refused(
        NOT_VERIFIED,
        "its grammar differs between versions, and any text was accepted",
        "nv_profile_min_shapes",
        "nv_profile_max_shapes",
        "nv_profile_opt_shapes",
    ),
    "nv_multi_profile_enable": Refused(NEEDS_REFUSED, "it acts only on the nv_profile options"),
    "nv_use_external_data_initializer": Refused(
        NOT_VERIFIED, "decides how weights reach the compiler; the default, on, suits all models"
    ),
    **_refused(
        NOT_VERIFIED,
        "says where in a model's table of rotary embeddings another one begins: a wrong number gives wrong results",
        "nv_multi_rotary_cache_concat_offset",
        "multi_rotary_cache_concat_offset",
    ),
    "nv_target_sm": Refused(NEEDS_REFUSED, "it acts only when the compiled model is written to a file"),
    "nv_runtime_cache_path": Refused(WRITES_FILES, "the folder is made, written to, and what lies there is loaded"),
    "nv_dump_subgraphs": Refused(WRITES_FILES, "parts of the model are written to the current folder"),
    **_refused(
        WRITES_FILES,
        "the compiled model is written to a file",
        "ep.context_enable",
        "ep.context_file_path",
        "ep.context_embed_mode",
    ),
    **_refused(UNBOUNDED, _ARENA, *_ARENA_OPTIONS, evidence="strings; run: onnxruntime-ep-openvino 1.8.1 has the same"),
    **_refused(WRITES_FILES, "a trace is written to a file", "nv_enable_profiling", "nv_profiling_output_file"),
    "nv_weight_stripped_engine_enable_experimental": Refused(READS_FILES, "weights are read from a model file"),
    "nv_detailed_build_log": Refused(DISCLOSES, "every step of building an engine goes to the log of the process"),
    **_refused(
        RAW_POINTER,
        "ORT hands the number to a driver as an address",
        "user_compute_stream",
        "has_user_compute_stream",
        "user_aux_stream_array",
        "nv_length_aux_stream_array",
        "VkExternalComputeQueueDataParamsNV_data",
    ),
    **_refused(
        NO_EFFECT,
        "an option of the EP that older ORT had inside; the plugin does not know it",
        "nv_ep_context_file_path",
        "nv_ep_context_embed_mode",
        "nv_dump_ep_context_model",
        "nv_onnx_bytestream",
        "nv_onnx_bytestream_size",
        "nv_external_data_bytestream",
        "nv_external_data_bytestream_size",
        "nv_extra_plugin_lib_paths",
        evidence="strings: not in onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0",
    ),
    "nv_cuda_graph_enable": Refused(
        OTHER_DOOR,
        "the old name of enable_cuda_graph, which this EP does not know",
        "strings: not in onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0",
    ),
}

_MIGRAPHX: dict[str, Refused] = {
    **_refused(
        NO_EFFECT,
        "it is read, and the value in use stays the default",
        "migraphx_mem_limit",
        "migraphx_arena_extend_strategy",
    ),
    **_refused(
        READS_FILES,
        "a calibration table is read from a file; a file of another kind crashes the process",
        "migraphx_int8_calibration_table_name",
        "migraphx_int8_use_native_calibration_table",
    ),
    **_refused(
        WRITES_FILES,
        "compiled models are written to files, and those found there are loaded",
        "migraphx_model_cache_dir",
    ),
    **_refused(
        WRITES_FILES,
        "compiled models are written to files, and those found there are loaded",
        "migraphx_save_compiled_model",
        "migraphx_save_model_path",
        "migraphx_load_compiled_model",
        "migraphx_load_model_path",
        evidence="source of older releases; strings: not in onnxruntime-migraphx 1.27.1",
    ),
    **_refused(
        RAW_POINTER,
        "ORT calls the number as a function",
        "migraphx_external_alloc",
        "migraphx_external_free",
        "migraphx_external_empty_cache",
    ),
    **_refused(
        NOT_VERIFIED,
        "1.27.1 does not know it; only the source of a later ORT does",
        "migraphx_max_dynamic_batch",
        "migraphx_max_compiled_models",
        evidence="source; strings: not in onnxruntime-migraphx 1.27.1",
    ),
}


_CANN: dict[str, Refused] = {
    "dump_graphs": Refused(WRITES_FILES, "parts of the model are written to the current folder"),
    **_refused(
        NOT_VERIFIED,
        "any text is accepted when the session is made, and no NPU could be had to see what CANN makes of it",
        "precision_mode",
        "op_select_impl_mode",
        "optypelist_for_implmode",
    ),
    **_refused(
        NOT_VERIFIED,
        "1.24.4 does not know it; only the source of a later or other ORT does",
        "precision_mode_v2",
        "input_format",
        "dynamic_batch_size",
        "dynamic_image_size",
        "dynamic_dims",
        evidence="source; strings: not in onnxruntime-cann 1.24.4",
    ),
}

_OPENVINO_BUNDLED: dict[str, Refused] = {
    "enable_opencl_throttling": Refused(
        NOT_VERIFIED,
        "acts on a GPU only, where it is handed to OpenVINO under the name of a device that does not exist",
        "source; run: no effect on CPU",
    ),
    "enable_qdq_optimizer": Refused(
        OUTSIDE_SESSION,
        "acts on an NPU only, where it sets a property that all sessions of the process share",
        "source; run: no effect on CPU",
    ),
    "disable_dynamic_shapes": Refused(NO_EFFECT, "it is read and then overwritten with what suits the device"),
    "enable_causallm": Refused(WRONG_RESULTS, _CAUSAL_LM),
    "reshape_input": Refused(
        UNSAFE_MEMORY, "a shape larger than the input makes OpenVINO read foreign memory into the output, or crash"
    ),
    "layout": Refused(NOT_VERIFIED, "no layout that fits the model made a difference, others make the session fail"),
    "cache_dir": Refused(WRITES_FILES, "compiled models are written to that folder, and whatever lies there is loaded"),
    "load_config": Refused(
        WRITES_FILES, "hands any property to OpenVINO, CACHE_DIR among them, which writes files to a folder"
    ),
    "context": Refused(RAW_POINTER, "the number is used as the address of an OpenCL context"),
    "device_id": Refused(OTHER_DOOR, "an old name of device_type, which it overwrites"),
    "device_luid": Refused(NOT_VERIFIED, "chooses a GPU or NPU by a Windows identifier"),
}

_OPENVINO_PLUGIN: dict[str, Refused] = {
    "load_config": Refused(
        READS_FILES,
        "the plugin also takes the path of a file, and any property of a device, CACHE_DIR among them, which "
        "writes files; num_of_threads, num_streams and precision travel in one that the backend writes",
    ),
    "dump_subgraphs": Refused(WRITES_FILES, "any text is a folder that is made and that the model is written to"),
    "cache_dir": Refused(NO_EFFECT, "the plugin only logs that it ignores it, and inside load_config it writes files"),
    "reshape_input": Refused(
        NOT_VERIFIED, "the bundled EP of this name reads foreign memory for it; this one checks the size"
    ),
    "enable_causallm": Refused(WRONG_RESULTS, _CAUSAL_LM),
    "hint_enable_gqa": Refused(NOT_VERIFIED, "documented nowhere, and no effect was seen"),
    **_refused(
        NO_EFFECT,
        "the plugin only logs that it ignores it",
        "model_priority",
        "enable_opencl_throttling",
        "enable_qdq_optimizer",
    ),
    **_refused(
        OTHER_DOOR,
        "the plugin only logs that it ignores it: device_id says which of its devices computes",
        "device_type",
        "device_luid",
    ),
    **_refused(
        UNBOUNDED,
        _ARENA,
        *_ARENA_OPTIONS,
    ),
    "hardware_device_type": Refused(NO_EFFECT, "the plugin does not know it and does not say so"),
    **_refused(
        NO_EFFECT,
        "the plugin does not know it and does not say so",
        "disable_dynamic_shapes",
        "context",
        "layout",
        evidence="strings: not in onnxruntime-ep-openvino 1.8.1",
    ),
}

_QNN: dict[str, Refused] = {
    **_refused(
        LOADS_LIBRARY,
        "the library it names is loaded, and the session comes up on the CPU as if nothing had happened",
        "backend_path",
        "qnn_saver_path",
        "qnn_ir_backend_path",
        "op_packages",
    ),
    "enable_htp_shared_memory_allocator": Refused(LOADS_LIBRARY, "libcdsprpc is loaded from the search path"),
    "skip_qnn_version_check": Refused(NEEDS_REFUSED, "it only matters for libraries that backend_path names"),
    **_refused(WRITES_FILES, "a profile is written to a file", "profiling_level", "profiling_file_path"),
    **_refused(
        WRITES_FILES,
        "the model is written to the current folder, or to one that is named",
        "dump_json_qnn_graph",
        "json_qnn_graph_dir",
        "dump_qnn_ir_dlc",
        "dump_qnn_ir_dlc_dir",
    ),
    "soc_model": Refused(
        OUTSIDE_SESSION,
        "a session with it makes runs of earlier QNN sessions of the process fail and later ones compute in float16",
    ),
    **_refused(
        NEEDS_REFUSED,
        "the EP accepts it only beside soc_model",
        "enable_htp_fp16_precision",
        "htp_bf16_enable",
    ),
    "htp_arch": Refused(NOT_VERIFIED, "describes the device to the compiler as soc_model does; no effect was seen"),
    "enable_htp_spill_fill_buffer": Refused(
        NOT_VERIFIED, "anything but 1 is off without a word, and no effect was seen"
    ),
    "enable_vtcm_backup_buffer_sharing": Refused(OUTSIDE_SESSION, "all QNN sessions of the process share one backend"),
    "extended_udma": Refused(NOT_VERIFIED, "for newer devices; the simulator fails with it"),
    "disable_file_mapped_weights": Refused(NO_EFFECT, "for Windows on Arm only"),
}

_QNN_PLUGIN: dict[str, Refused] = {
    **_QNN,
    "op_affinity": Refused(READS_FILES, "the file it names is read, and an error quotes its first byte"),
    **_refused(
        WRITES_FILES,
        "the model or a trace is written to the current folder, or to one that is named",
        "enable_framework_op_trace",
        "framework_op_trace_dir",
        "dump_qnn_ep_input_graph",
        "dump_qnn_ep_input_graph_dir",
    ),
    "enable_htp_prepare_only": Refused(NEEDS_REFUSED, "it acts only when the compiled model is written to a file"),
    "htp_share_resource_optimization": Refused(OUTSIDE_SESSION, "sessions of the process share what is on the HTP"),
    "skip_backend_op_validation": Refused(UNSAFE_MEMORY, "the backend would run operators that it was not asked about"),
    **_refused(
        NO_EFFECT,
        "for Windows only",
        "enable_dx12_shared_memory_allocator",
        "num_graph_prepare_threads",
    ),
    **_refused(
        NOT_VERIFIED,
        "every run failed with it on the simulator",
        "enable_htp_graph_splitting",
        "htp_graph_splitting_num_prepare_threads",
    ),
    **_refused(
        NOT_VERIFIED,
        "documented nowhere, and no effect was seen",
        "htp_reused_io_limit_mb",
        "enable_htp_monolithic_lstm",
        "enable_htp_fp16_clamp_overflow",
        "enable_block_quant_weight_optimization",
        "enable_htp_prepare_and_load",
        "genie_log_level",
    ),
}

_QNN_BUNDLED: dict[str, Refused] = {
    **_refused(
        NOT_VERIFIED,
        "the EP inside ORT for Windows could not be run; the plugin EP takes it",
        "backend_type",
        "device_id",
        "htp_graph_finalization_optimization_mode",
        "htp_performance_mode",
        "offload_graph_io_quantization",
        "qnn_context_priority",
        "rpc_control_latency",
        "vtcm_mb",
    ),
    **_QNN,
}

_WEBGPU: dict[str, Refused] = {
    "forceCpuNodeNames": Refused(
        NO_EFFECT, "a name that no node has, or no longer has after ORT's rewriting, is skipped without a word"
    ),
    "multiRotaryCacheConcatOffset": Refused(
        NOT_VERIFIED,
        "says where in a model's table of rotary embeddings another one begins: a wrong number gives wrong results",
    ),
    "enablePIXCapture": Refused(NO_EFFECT, "a debugger's marks, which no released build has"),
    "deviceId": Refused(NEEDS_REFUSED, "any context but 0 is made of webgpuInstance and webgpuDevice"),
    **_refused(
        RAW_POINTER,
        "ORT uses the number as an address and crashes, or calls what lies there",
        "webgpuInstance",
        "webgpuDevice",
        "dawnProcTable",
    ),
    **_refused(
        OUTSIDE_SESSION,
        _ONE_CONTEXT,
        "storageBufferCacheMode",
        "uniformBufferCacheMode",
        "queryResolveBufferCacheMode",
        "defaultBufferCacheMode",
        "validationMode",
        "preserveDevice",
        "maxStorageBufferBindingSize",
        "powerPreference",
        "dawnBackendType",
    ),
}

_WEBGPU_PLUGIN: dict[str, Refused] = {
    **_WEBGPU,
    **_refused(OUTSIDE_SESSION, _ONE_CONTEXT, "enableRobustness", "maxNumPendingDispatches"),
    "kvCacheQuantizationBits": Refused(NOT_VERIFIED, "rounds the memory of one attention operator to 4 or 8 bits"),
    "sessionBufferPoolGenerations": Refused(NOT_VERIFIED, "says how long buffers of captured graphs are kept"),
}

_DML: dict[str, Refused] = {
    **_refused(NOT_VERIFIED, _UNRUN, "device_id", "performance_preference", "device_filter", "disable_metacommands"),
    **_refused(
        NO_EFFECT,
        "it is a session config entry, which the EP does not look for among its options",
        "ep.dml.disable_graph_fusion",
        "ep.dml.enable_graph_serialization",
        "ep.dml.enable_graph_capture",
        "ep.dml.enable_cpu_sync_spinning",
        "ep.dml.disable_memory_arena",
    ),
}

_COREML: dict[str, Refused] = {
    **_refused(
        NOT_VERIFIED,
        _UNRUN,
        "MLComputeUnits",
        "ModelFormat",
        "RequireStaticInputShapes",
        "EnableOnSubgraphs",
        "SpecializationStrategy",
        "AllowLowPrecisionAccumulationOnGPU",
    ),
    "ProfileComputePlan": Refused(DISCLOSES, "how each operator runs goes to the log of the process"),
    "ModelCacheDirectory": Refused(WRITES_FILES, "models are written to that folder, and those found there are loaded"),
    "flags": Refused(OTHER_DOOR, "the old way to say the others, which are not looked at beside it"),
}

_VITISAI: dict[str, Refused] = {
    "external_ep_library": Refused(LOADS_LIBRARY, "the library it names is loaded"),
    "session_options": Refused(RAW_POINTER, "the number is used as the address of the session's options"),
    **_refused(
        NOT_VERIFIED,
        "every option goes unchecked to a closed library, which reads and writes files for some",
        "config_file",
        "cache_dir",
        "cache_key",
        "cacheDir",
        "cacheKey",
        "xclbin",
        "target",
        "enable_cache_file_io_in_mem",
        "log_level",
        "encryptionKey",
        "ai_analyzer_visualization",
        "ai_analyzer_profiling",
        "opt_level",
        "ep_context_enable",
        "ep_context_embed_mode",
        "ep_context_file_path",
        "ort_session_config.*",
    ),
}


# EP name to the refused options of the EP inside ORT ("built-in") and of a plugin.
PROVIDERS: dict[str, dict[str, dict[str, Refused]]] = {
    CUDA: {
        "built-in": _known_by("parser run: onnxruntime-gpu 1.31.1 on stub CUDA libraries", _CUDA),
        "plugin": _known_by("source: CUDA plugin EP, April 2026", _CUDA_PLUGIN),
    },
    TENSORRT: {
        "built-in": _known_by("parser run: onnxruntime-gpu 1.31.1 on stub CUDA and TensorRT libraries", _TENSORRT),
    },
    NV_TENSORRT_RTX: {
        "plugin": _known_by("parser run: onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0 on stub libraries", _TENSORRT_RTX),
    },
    MIGRAPHX: {
        "built-in": _known_by("parser run: onnxruntime-migraphx 1.27.1 on stub HIP and MIGraphX libraries", _MIGRAPHX),
    },
    CANN: {"built-in": _known_by("parser run: onnxruntime-cann 1.24.4 on stub ACL libraries", _CANN)},
    OPENVINO: {
        "built-in": _known_by("run: onnxruntime-openvino 1.24.1 on a CPU", _OPENVINO_BUNDLED),
        "plugin": _known_by("run: onnxruntime-ep-openvino 1.8.1 on a CPU", _OPENVINO_PLUGIN),
    },
    f"{OPENVINO}.AUTO": {"plugin": _known_by("run: onnxruntime-ep-openvino 1.8.1 on a CPU", _OPENVINO_PLUGIN)},
    QNN: {
        "built-in": _known_by("strings: onnxruntime-qnn 1.24.4 for Windows", _QNN_BUNDLED),
        "plugin": _known_by("run: onnxruntime-qnn 2.7.0 on its HTP simulator", _QNN_PLUGIN),
    },
    WEBGPU: {
        "built-in": _known_by("run: onnxruntime-webgpu 1.27.0 on a software GPU", _WEBGPU),
        "plugin": _known_by("run: onnxruntime-ep-webgpu 0.4.0 on a software GPU", _WEBGPU_PLUGIN),
    },
    DML: {"built-in": _known_by("strings: onnxruntime-directml 1.24.4; source", _DML)},
    COREML: {"built-in": _known_by("strings: onnxruntime 1.31.1 for macOS; source", _COREML)},
    VITISAI: {"built-in": _known_by("source and AMD's documentation", _VITISAI)},
    "XnnpackExecutionProvider": {"built-in": _refused(NOT_VERIFIED, _UNRUN, "intra_op_num_threads", evidence="source")},
    "ACLExecutionProvider": {"built-in": _refused(NOT_VERIFIED, _UNRUN, "enable_fast_math", evidence="source")},
    "DnnlExecutionProvider": {"built-in": _refused(NOT_VERIFIED, _UNRUN, "num_of_threads", evidence="source")},
    "JsExecutionProvider": {
        "built-in": _refused(NO_EFFECT, "Python cannot attach the EP", "preferredLayout", evidence="source")
    },
    "WebNNExecutionProvider": {
        "built-in": _refused(NO_EFFECT, "Python cannot attach the EP", "deviceType", evidence="source")
    },
}


def provider_tables() -> dict[str, dict[str, Table]]:
    """EP name to kind to every option that was judged: permitted ones, then refused ones."""
    return {
        name: {kind: table | PROVIDERS.get(name, {}).get(kind, {}) for kind, table in kinds.items()}
        for name, kinds in providers.PROVIDERS.items()
    }


_TABLES = {
    "session attributes": SESSION_ATTRIBUTES,
    "session_options": SESSION_ATTRIBUTES,
    "run attributes": RUN_ATTRIBUTES,
    "session_config": SESSION_CONFIG,
    "run_config": RUN_CONFIG,
}


def find(where: str, provider: str, name: str, kind: str = "") -> Refused | None:
    """The verdict on a name that is refused, if there is one.

    :param where: ``"provider_options"``, ``"session_config"``, ``"run_config"``, ``"session attributes"`` or
        ``"run attributes"``.
    :param provider: the EP, for an option.
    :param name: the option, key or attribute.
    :param kind: ``"built-in"`` or ``"plugin"``, for an option.
    """
    if where == "provider_options":
        return EVERY_PROVIDER.get(name) or PROVIDERS.get(provider, {}).get(kind, {}).get(name)
    found = _TABLES[where].get(name)
    if found is None and where == "session_config":
        found = next((verdict for prefix, verdict in SESSION_FAMILIES.items() if name.startswith(prefix)), None)
    return found
