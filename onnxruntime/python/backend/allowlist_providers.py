# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The allowlist of provider options: every execution provider (EP), every option, permitted with its values or refused.

A plugin EP repeats the options it was given when it is asked, unknown ones too, so its report proves less than that of
an EP inside ORT; the effects named here were seen for real wherever the evidence says "run".
"""

from __future__ import annotations

from onnx.defs import get_all_schemas

from onnxruntime.backend.allowlist_rules import (
    DISCLOSES,
    LOADS_LIBRARY,
    NEEDS_REFUSED,
    NO_EFFECT,
    NOT_VERIFIED,
    OTHER_DOOR,
    OUTSIDE_SESSION,
    RAW_POINTER,
    READS_FILES,
    UNBOUNDED,
    UNSAFE_MEMORY,
    WRITES_FILES,
    WRONG_RESULTS,
    Circumstances,
    Need,
    Permitted,
    Refused,
    Rule,
)
from onnxruntime.backend.value_kinds import Choice, Flag, Integer, Names, Text


def _refused(hazard: str, reason: str, *options: str) -> dict[str, Rule]:
    """One verdict for several options."""
    return dict.fromkeys(options, Refused(hazard, reason))


def _known_by(evidence: str, rules: dict[str, Rule]) -> dict[str, Rule]:
    """Say how the rules of a table are known, where a rule does not say it itself."""
    # It is the last field of a rule; _replace would take three times as long, at every import.
    return {option: rule if rule.evidence else type(rule)(*rule[:-1], evidence) for option, rule in rules.items()}


_DEVICE_INDEX = Integer(0, 63)
# A limit below this stops every model; one above it is no limit on any device there is.
_ARENA_BYTES = Integer(2**20, 2**48)
_ARENA_GROWTH = Choice("kNextPowerOfTwo", "kSameAsRequested")
# An operator type that does not exist excludes nothing, and ORT would not say so.
_OPERATORS = Names(
    lambda: {schema.name for schema in get_all_schemas()}, ",", accepts="operator types of ONNX, such as 'Conv',"
)
_PLUGIN_DEVICE = Permitted(
    _DEVICE_INDEX,
    "0",
    "Which of the plugin's devices, counted as get_ep_devices() lists them. The backend picks it; the EP is not told.",
    reported=False,
    evidence="run",
)

# --- Every EP ---------------------------------------------------------------------------------------------------------

EVERY_PROVIDER: dict[str, Rule] = _known_by(
    "run: ORT 1.24.4 loads it, 1.27.1 and 1.31.1 do not",
    _refused(
        LOADS_LIBRARY,
        "for an EP name that ORT does not know, ORT up to 1.24 loads the shared library it names",
        "shared_lib_path",
        "provider_factory_entry_point",
    ),
)

# --- CUDA -------------------------------------------------------------------------------------------------------------


def _tuning_bounded(here: Circumstances, text: str) -> bool:
    bounded = here.beside.get("tunable_op_enable") == "1" and "tunable_op_max_tuning_duration_ms" in here.beside
    return text == "0" or bounded


_CUDA: dict[str, Rule] = {
    "device_id": Permitted(_DEVICE_INDEX, "0", "Which CUDA device; ORT checks it against the device count."),
    "gpu_mem_limit": Permitted(
        _ARENA_BYTES, "18446744073709551615", "Most bytes that the EP's memory arena may hold; a run beyond it fails."
    ),
    "arena_extend_strategy": Permitted(_ARENA_GROWTH, "kNextPowerOfTwo", "How much the memory arena grows at a time."),
    "cudnn_conv_algo_search": Permitted(
        Choice("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
        "EXHAUSTIVE",
        "How cuDNN picks convolution algorithms; another algorithm may change the last bits.",
    ),
    "cudnn_conv_use_max_workspace": Permitted(Flag(), "1", "Lets cuDNN search with the largest workspace."),
    "cudnn_conv1d_pad_to_nc1d": Permitted(Flag(), "0", "Pads a 1-D convolution to [N, C, 1, D], not [N, C, D, 1]."),
    "do_copy_in_default_stream": Permitted(
        Flag(only_on="copies on a stream of their own race with the kernels that use the data, as ORT documents"),
        "1",
        "Copies between host and device on the stream that computes.",
    ),
    "enable_cuda_graph": Permitted(
        Flag(), "0", "Captures a run into a CUDA graph and replays it on later runs; graph_capture.py says how."
    ),
    "enable_cudnn": Permitted(
        Flag(),
        "1",
        "Off: cuDNN is neither loaded nor used, and operators that need it fail when run.",
        since=(1, 31),
    ),
    "enable_skip_layer_norm_strict_mode": Permitted(
        Flag(), "0", "Uses a slower, more exact SkipLayerNormalization kernel.", reported=False
    ),
    "external_data_loader_reading_threads": Permitted(
        Integer(0, 16),
        "4",
        "Threads that read external weights into pinned memory; 0 switches that off. ORT itself takes up to 64.",
        since=(1, 31),
    ),
    "fuse_conv_bias": Permitted(Flag(), "0", "Fuses convolution and bias through cuDNN's graph interface."),
    "prefer_nhwc": Permitted(Flag(), "0", "Prefers kernels in NHWC layout."),
    "sdpa_kernel": Permitted(
        Integer(0, 1023), "0", "Bit mask of the attention kernels that may be used; 0 leaves the choice to ORT."
    ),
    "tunable_op_enable": Permitted(Flag(), "0", "Uses TunableOp kernels."),
    "tunable_op_tuning_enable": Permitted(
        Flag(),
        "0",
        "Measures TunableOp kernels inside runs and keeps the fastest: timing and last bits depend on earlier runs.",
        needs=(Need("tunable_op_enable=1 and tunable_op_max_tuning_duration_ms, which bounds it", _tuning_bounded),),
    ),
    "tunable_op_max_tuning_duration_ms": Permitted(
        Integer(1, 1000),
        "0",
        "Most milliseconds spent on tuning one operator; ORT's own default is no bound.",
        needs=(Need("tunable_op_tuning_enable=1", lambda here, _: here.beside.get("tunable_op_tuning_enable") == "1"),),
    ),
    "use_ep_level_unified_stream": Permitted(Flag(), "0", "All runs of the session share one CUDA stream."),
    "use_tf32": Permitted(Flag(), "1", "Lets float matmul and convolution use TF32."),
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

_CUDA_PLUGIN: dict[str, Rule] = {
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

# --- TensorRT ---------------------------------------------------------------------------------------------------------

_TENSORRT_FLAG = Flag("False", "True")  # its parser, unlike that of CUDA, takes neither 1 nor 0
_NO_CALLER_MEMORY = "ORT reads the number as an address of the model's bytes"

_TENSORRT: dict[str, Rule] = {
    "device_id": Permitted(_DEVICE_INDEX, "0", "Which CUDA device; an absent one is an error of CUDA."),
    "trt_max_partition_iterations": Permitted(Integer(1, 10000), "1000", "Most rounds of dividing the model."),
    "trt_min_subgraph_size": Permitted(Integer(1, 1000000), "1", "Fewest nodes for which TensorRT takes a subgraph."),
    "trt_max_workspace_size": Permitted(
        Integer(0, 2**40), "0", "Bytes of workspace while an engine is built; 0 leaves it to TensorRT."
    ),
    "trt_fp16_enable": Permitted(_TENSORRT_FLAG, "0", "Lets TensorRT compute in float16."),
    "trt_bf16_enable": Permitted(_TENSORRT_FLAG, "0", "Lets TensorRT compute in bfloat16."),
    "trt_int8_enable": Permitted(_TENSORRT_FLAG, "0", "Lets TensorRT compute in int8, for models that carry scales."),
    "trt_dla_enable": Permitted(_TENSORRT_FLAG, "0", "Computes on a DLA core, where the device has one."),
    "trt_dla_core": Permitted(
        Integer(0, 7),
        "0",
        "Which DLA core.",
        needs=(Need("trt_dla_enable", lambda here, _: here.beside.get("trt_dla_enable") == "True"),),
    ),
    "trt_force_sequential_engine_build": Permitted(_TENSORRT_FLAG, "0", "Builds engines one after the other."),
    "trt_context_memory_sharing_enable": Permitted(_TENSORRT_FLAG, "0", "Subgraphs share their working memory."),
    "trt_layer_norm_fp32_fallback": Permitted(_TENSORRT_FLAG, "0", "Computes layer normalization in float32."),
    "trt_sparsity_enable": Permitted(_TENSORRT_FLAG, "0", "Lets TensorRT use kernels for sparse weights."),
    "trt_builder_optimization_level": Permitted(Integer(0, 5), "3", "How hard TensorRT looks for fast kernels."),
    "trt_auxiliary_streams": Permitted(
        Integer(-1, 8), "-1", "Most extra CUDA streams per inference stream; -1 leaves it to TensorRT, 0 saves memory."
    ),
    "trt_tactic_sources": Permitted(
        Names(
            {sign + name for sign in "+-" for name in ("CUBLAS", "CUBLAS_LT", "CUDNN", "EDGE_MASK_CONVOLUTIONS")}, ","
        ),
        "none",
        "Kernel libraries that TensorRT may (+) or may not (-) use.",
    ),
    "trt_engine_hw_compatible": Permitted(_TENSORRT_FLAG, "0", "Builds engines for every GPU from Ampere on."),
    "trt_op_types_to_exclude": Permitted(_OPERATORS, "none", "Operator types that TensorRT leaves to other EPs."),
    "trt_cuda_graph_enable": Permitted(
        Flag(
            "False",
            "True",
            only_off="ORT would replay the captured graph on memory that an ordinary run has freed, and TensorRT keeps "
            "one graph, which gpu_graph_id neither chooses nor switches off",
        ),
        "0",
        "Captures TensorRT's work into a CUDA graph and replays it on later runs.",
    ),
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

# The plugin for RTX devices. The options at the end are those of the EP that older ORT had inside.
_TENSORRT_RTX: dict[str, Rule] = {
    "device_id": _PLUGIN_DEVICE,
    "enable_cuda_graph": Permitted(
        Flag(),
        "1",
        "Lets TensorRT capture CUDA graphs inside itself; ORT neither captures nor replays, so runs are ordinary ones.",
    ),
    "nv_max_workspace_size": Permitted(Integer(0, 2**40), "0", "Bytes of workspace while an engine is built."),
    "nv_max_shared_mem_size": Permitted(Integer(0, 2**20), "0", "Bytes of shared memory that a kernel may use."),
    "nv_weight_streaming_budget": Permitted(
        Text(r"-1|[0-9]{1,15}[BKMG]?|(?:100|[0-9]{1,2})%", "-1, bytes, a number with B, K, M or G, or 0% to 100%"),
        "0",
        "How much of the weights stays on the GPU.",
    ),
    "nv_op_types_to_exclude": Permitted(_OPERATORS, "none", "Operator types that the EP leaves to others."),
    "nv_use_sync_gpu_allocator": Permitted(Flag(), "0", "Allocates with cudaMalloc, which rules out CUDA graphs."),
    "nv_persistent_context_memory": Permitted(Flag(), "0", "Keeps working memory from run to run."),
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
        "nv_ep_context_file_path",
        "nv_ep_context_embed_mode",
        "nv_dump_ep_context_model",
    ),
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
        RAW_POINTER,
        _NO_CALLER_MEMORY,
        "nv_onnx_bytestream",
        "nv_onnx_bytestream_size",
        "nv_external_data_bytestream",
        "nv_external_data_bytestream_size",
    ),
    "nv_extra_plugin_lib_paths": Refused(LOADS_LIBRARY, "the libraries are loaded"),
    "nv_cuda_graph_enable": Refused(OTHER_DOOR, "the old name of enable_cuda_graph, which this EP does not know"),
}

# --- AMD --------------------------------------------------------------------------------------------------------------


def _not_beside(other: str) -> tuple[Need, ...]:
    # Together they switch each other off, without an error.
    return (Need(f"{other} off", lambda here, text: text == "0" or here.beside.get(other) != "1"),)


_MIGRAPHX: dict[str, Rule] = {
    "device_id": Permitted(_DEVICE_INDEX, "0", "Which GPU; ORT checks it against the device count."),
    "migraphx_fp16_enable": Permitted(Flag(), "0", "Computes in float16.", needs=_not_beside("migraphx_bf16_enable")),
    "migraphx_bf16_enable": Permitted(Flag(), "0", "Computes in bfloat16.", needs=_not_beside("migraphx_fp16_enable")),
    "migraphx_fp8_enable": Permitted(Flag(), "0", "Computes in float8.", needs=_not_beside("migraphx_int8_enable")),
    "migraphx_int8_enable": Permitted(Flag(), "0", "Computes in int8.", needs=_not_beside("migraphx_fp8_enable")),
    "migraphx_exhaustive_tune": Permitted(Flag(), "0", "Tries every kernel when the model is compiled: slow."),
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
        "migraphx_save_compiled_model",
        "migraphx_save_model_path",
        "migraphx_load_compiled_model",
        "migraphx_load_model_path",
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
    ),
}

_ROCM: dict[str, Rule] = {
    **_refused(
        NOT_VERIFIED,
        "the EP left ORT after 1.22, which is older than the ORT this backend supports",
        "device_id",
        "gpu_mem_limit",
        "arena_extend_strategy",
        "miopen_conv_exhaustive_search",
        "miopen_conv_use_max_workspace",
        "do_copy_in_default_stream",
        "enable_hip_graph",
        "tunable_op_enable",
        "tunable_op_tuning_enable",
        "tunable_op_max_tuning_duration_ms",
    ),
    **_refused(
        RAW_POINTER,
        "ORT uses the number as an address",
        "user_compute_stream",
        "has_user_compute_stream",
        "gpu_external_alloc",
        "gpu_external_free",
        "gpu_external_empty_cache",
    ),
}

# --- CANN -------------------------------------------------------------------------------------------------------------

_CANN: dict[str, Rule] = {
    "device_id": Permitted(_DEVICE_INDEX, "0", "Which NPU; ORT checks it against the device count."),
    "npu_mem_limit": Permitted(
        _ARENA_BYTES, "18446744073709551615", "Most bytes that the EP's memory arena may hold; a run beyond it fails."
    ),
    "arena_extend_strategy": Permitted(_ARENA_GROWTH, "kNextPowerOfTwo", "How much the memory arena grows at a time."),
    "enable_cann_graph": Permitted(Flag(), "1", "Compiles subgraphs as a whole; see dump_om_model."),
    "enable_cann_subgraph": Permitted(Flag(), "0", "Lets CANN divide the model."),
    "dump_om_model": Permitted(
        Flag(only_off="the compiled model is written to the current folder"),
        "1",
        "Writes compiled models to the current folder. Sent as off where the caller does not say it.",
    ),
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
    ),
}

# --- OpenVINO ---------------------------------------------------------------------------------------------------------


def _openvino_device(here: Circumstances) -> str:
    return here.beside.get("device_type", "CPU")


_OPENVINO_DEVICE = r"(?:CPU|GPU(?:\.[0-9])?|NPU)"
_CAUSAL_LM = "rewrites the model to keep a hidden state from run to run, and fails for models it does not fit"

_OPENVINO_BUNDLED: dict[str, Rule] = {
    "device_type": Permitted(
        Text(
            rf"{_OPENVINO_DEVICE}|(?:AUTO|HETERO|MULTI):{_OPENVINO_DEVICE}(?:,{_OPENVINO_DEVICE})*",
            "CPU, GPU, GPU.0 to GPU.9, NPU, or AUTO:, HETERO: or MULTI: before a list such as GPU,CPU",
            max_bytes=64,
        ),
        "CPU",
        "Which OpenVINO device computes; an absent one is an error. With AUTO:, HETERO: and MULTI: a CPU that has "
        "bfloat16 computes in it unless precision says FP32 or ACCURACY.",
        reported=False,
    ),
    "precision": Permitted(
        Choice("FP32", "FP16", "ACCURACY"),
        "FP32 on CPU, FP16 on GPU and NPU",
        "In which precision the device computes; ACCURACY keeps the model's.",
        needs=(
            Need(
                "device_type='GPU' for FP16",
                lambda here, text: text != "FP16" or _openvino_device(here) == "GPU",
            ),
        ),
        reported=False,
    ),
    "num_of_threads": Permitted(
        Integer(1, 256),
        "0, OpenVINO decides",
        "CPU threads that compute, and how many runs may be under way at once.",
        needs=(Need("a device_type that names the CPU", lambda here, _: "CPU" in _openvino_device(here)),),
        reported=False,
    ),
    "num_streams": Permitted(
        Integer(1, 64),
        "1",
        "Parallel streams: the CPU threads are divided among them, and each run uses one.",
        needs=(Need("device_type CPU or GPU", lambda here, _: _openvino_device(here).startswith(("CPU", "GPU"))),),
        reported=False,
    ),
    "model_priority": Permitted(
        Choice("LOW", "MEDIUM", "HIGH", "DEFAULT"),
        "DEFAULT",
        "Which sessions a busy GPU or NPU serves first.",
        needs=(
            Need(
                "a device_type without the CPU, to which it is not sent",
                lambda here, _: "CPU" not in _openvino_device(here),
            ),
        ),
        reported=False,
        evidence="source: sent to OpenVINO only where device_type has no CPU; run: no effect on CPU",
    ),
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


def _openvino_plugin(section: str) -> dict[str, Rule]:
    """The options of the OpenVINO plugin: it takes everything inside ``load_config``, by device.

    :param section: the part of ``load_config`` that the plugin's device reads; it ignores the others unchecked.
    """
    within, hardware = ("load_config", section), "CPU" if section == "CPU" else ""
    return {
        "device_id": _PLUGIN_DEVICE,
        "num_of_threads": Permitted(
            Integer(1, 256),
            "OpenVINO decides",
            "CPU threads that compute.",
            within=(*within, "INFERENCE_NUM_THREADS"),
            hardware=hardware,
            reported=False,
        ),
        "num_streams": Permitted(
            Integer(1, 64),
            "OpenVINO decides",
            "Parallel streams: the CPU threads are divided among them, and each run uses one.",
            within=(*within, "NUM_STREAMS"),
            hardware=hardware,
            reported=False,
        ),
        "precision": Permitted(
            # Not FP16: on a CPU without it OpenVINO computes in bfloat16 or float32 and does not say so.
            Choice(spelled={"FP32": "f32", "ACCURACY": "dynamic"}),
            "bfloat16 on a CPU that has it, else FP32",
            "In which precision a CPU computes; ACCURACY keeps the model's.",
            within=(*within, "INFERENCE_PRECISION_HINT"),
            hardware=hardware,
            reported=False,
        ),
        "load_config": Refused(
            READS_FILES,
            "the plugin also takes the path of a file, and any property of a device, CACHE_DIR among them, which "
            "writes files; num_of_threads, num_streams and precision travel in one that the backend writes",
        ),
        "dump_subgraphs": Refused(WRITES_FILES, "any text is a folder that is made and that the model is written to"),
        "cache_dir": Refused(
            NO_EFFECT, "the plugin only logs that it ignores it, and inside load_config it writes files"
        ),
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
            "documented nowhere; the memory arena it shapes fails the session or its runs, or takes memory without end",
            "arena.extend_strategy",
            "arena.initial_chunk_size_bytes",
            "arena.initial_growth_chunk_size_bytes",
            "arena.max_dead_bytes_per_chunk",
            "arena.max_mem",
            "arena.max_power_of_two_extend_bytes",
        ),
        "hardware_device_type": Refused(NO_EFFECT, "the plugin does not know it and does not say so"),
        **_known_by(
            "strings: not in onnxruntime-ep-openvino 1.8.1",
            _refused(
                NO_EFFECT,
                "the plugin does not know it and does not say so",
                "disable_dynamic_shapes",
                "context",
                "layout",
            ),
        ),
    }


# --- QNN --------------------------------------------------------------------------------------------------------------

# What the plugin and the EP inside ORT for Windows have in common, beside what is permitted for the plugin.
_QNN: dict[str, Rule] = {
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

_QNN_PLUGIN: dict[str, Rule] = {
    "device_id": _PLUGIN_DEVICE,
    "backend_type": Permitted(
        # Not gpu and cpu: their session takes no node and only logs why, and the library of cpu is not in the package.
        # Not saver, ir and genie: the first two write files and compute wrong numbers or nothing.
        Choice("htp"),
        "by device; none on a CPU, where it must be named",
        "Which of Qualcomm's backends computes. On x86 htp is a simulator.",
    ),
    "htp_graph_finalization_optimization_mode": Permitted(
        Integer(0, 3), "0", "How hard the HTP compiler works. The simulator shows no difference."
    ),
    "htp_performance_mode": Permitted(
        Choice(
            "default",
            "burst",
            "sustained_high_performance",
            "high_performance",
            "balanced",
            "low_balanced",
            "high_power_saver",
            "power_saver",
            "low_power_saver",
            "extreme_power_saver",
        ),
        "default",
        "Clock and power of the HTP. The simulator takes it and has no clock to change.",
    ),
    "offload_graph_io_quantization": Permitted(
        Flag(), "1", "Leaves quantizing the inputs and dequantizing the outputs to another EP."
    ),
    "qnn_context_priority": Permitted(
        # The EP knows higher ones too: they would put a caller before all others.
        Choice("low", "normal"),
        "normal",
        "Priority of the session's work on the HTP.",
    ),
    "rpc_control_latency": Permitted(
        Integer(0, 1000), "0", "Microseconds of latency asked of the device. The simulator takes it without effect."
    ),
    "vtcm_mb": Permitted(Integer(1, 16), "the device's own", "Mebibytes of on-chip memory for a graph."),
    **_known_by("run: onnxruntime-qnn 2.7.0 on its HTP simulator", _QNN),
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

_QNN_BUNDLED: dict[str, Rule] = {
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

# --- WebGPU -----------------------------------------------------------------------------------------------------------

_ONE_CONTEXT = (
    "it belongs to the GPU context, of which a process has one: the first live session decides for all, and values of "
    "later sessions are ignored"
)


def _webgpu(reported: bool, no_capture: str = "") -> dict[str, Rule]:
    """The options that both WebGPU EPs know; the bundled one reports none, and has not the means to capture."""
    return {
        "preferredLayout": Permitted(
            Choice("NHWC", "NCHW"), "NHWC", "Layout that operators with one are rewritten to.", reported=reported
        ),
        "enableInt64": Permitted(Flag(), "0", "Keeps int64 operators on the GPU.", since=(1, 25), reported=reported),
        "enableGraphCapture": Permitted(
            Flag(only_off=no_capture),
            "0",
            "Captures the GPU commands of a run and replays them on later runs.",
            reported=reported,
        ),
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


_WEBGPU_BUNDLED = _webgpu(
    reported=False,
    no_capture="ORT would replay the captured graph on memory that an ordinary run has freed, and return zeros; its "
    "bundled WebGPU EP, up to 1.29, has no way to allocate the device memory that captured runs need",
)

_WEBGPU_PLUGIN: dict[str, Rule] = {
    "device_id": _PLUGIN_DEVICE,
    **_webgpu(reported=True),
    **_refused(OUTSIDE_SESSION, _ONE_CONTEXT, "enableRobustness", "maxNumPendingDispatches"),
    "kvCacheQuantizationBits": Refused(NOT_VERIFIED, "rounds the memory of one attention operator to 4 or 8 bits"),
    "sessionBufferPoolGenerations": Refused(NOT_VERIFIED, "says how long buffers of captured graphs are kept"),
}

# --- EPs of which no build could be run, nor its parser ---------------------------------------------------------------

_UNRUN = "no build of the EP could be run, nor its parser"

_DML: dict[str, Rule] = {
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

_COREML: dict[str, Rule] = {
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

_VITIS: dict[str, Rule] = {
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

# --- All of them ------------------------------------------------------------------------------------------------------

# What the EP is told where the caller does not say it, because its own default does what the allowlist refuses.
ALWAYS: dict[tuple[str, str], dict[str, object]] = {("CANNExecutionProvider", "bundled"): {"dump_om_model": False}}

# EP name to the options of the EP inside ORT ("bundled") and of a plugin, where there is such an EP and it was judged.
PROVIDERS: dict[str, dict[str, dict[str, Rule]]] = {
    "CPUExecutionProvider": {"bundled": {}},
    "CUDAExecutionProvider": {
        "bundled": _known_by("parser run: onnxruntime-gpu 1.31.1 on stub CUDA libraries", _CUDA),
        "plugin": _known_by("source: CUDA plugin EP, April 2026", _CUDA_PLUGIN),
    },
    "TensorrtExecutionProvider": {
        "bundled": _known_by("parser run: onnxruntime-gpu 1.31.1 on stub CUDA and TensorRT libraries", _TENSORRT),
    },
    "NvTensorRTRTXExecutionProvider": {
        "plugin": _known_by("parser run: onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0 on stub libraries", _TENSORRT_RTX),
    },
    "MIGraphXExecutionProvider": {
        "bundled": _known_by("parser run: onnxruntime-migraphx 1.27.1 on stub HIP and MIGraphX libraries", _MIGRAPHX),
    },
    "ROCMExecutionProvider": {
        "bundled": _known_by("parser run: onnxruntime-rocm 1.22.2 on stub HIP libraries", _ROCM),
    },
    "CANNExecutionProvider": {
        "bundled": _known_by("parser run: onnxruntime-cann 1.24.4 on stub ACL libraries", _CANN),
    },
    "OpenVINOExecutionProvider": {
        "bundled": _known_by("run: onnxruntime-openvino 1.24.1 on a CPU", _OPENVINO_BUNDLED),
        "plugin": _known_by("run: onnxruntime-ep-openvino 1.8.1 on a CPU", _openvino_plugin("CPU")),
    },
    "OpenVINOExecutionProvider.AUTO": {
        "plugin": _known_by("run: onnxruntime-ep-openvino 1.8.1 on a CPU", _openvino_plugin("AUTO")),
    },
    "QNNExecutionProvider": {
        "bundled": _known_by("strings: onnxruntime-qnn 1.24.4 for Windows", _QNN_BUNDLED),
        "plugin": _known_by("run: onnxruntime-qnn 2.7.0 on its HTP simulator", _QNN_PLUGIN),
    },
    "WebGpuExecutionProvider": {
        "bundled": _known_by("run: onnxruntime-webgpu 1.27.0 on a software GPU", _WEBGPU_BUNDLED),
        "plugin": _known_by("run: onnxruntime-ep-webgpu 0.4.0 on a software GPU", _WEBGPU_PLUGIN),
    },
    "DmlExecutionProvider": {"bundled": _known_by("strings: onnxruntime-directml 1.24.4; source", _DML)},
    "CoreMLExecutionProvider": {"bundled": _known_by("strings: onnxruntime 1.31.1 for macOS; source", _COREML)},
    "VitisAIExecutionProvider": {"bundled": _known_by("source and AMD's documentation", _VITIS)},
    "XnnpackExecutionProvider": {
        "bundled": _known_by("source", _refused(NOT_VERIFIED, _UNRUN, "intra_op_num_threads"))
    },
    "ACLExecutionProvider": {"bundled": _known_by("source", _refused(NOT_VERIFIED, _UNRUN, "enable_fast_math"))},
    "DnnlExecutionProvider": {"bundled": _known_by("source", _refused(NOT_VERIFIED, _UNRUN, "num_of_threads"))},
    "JsExecutionProvider": {
        "bundled": _known_by("source", _refused(NO_EFFECT, "Python cannot attach the EP", "preferredLayout"))
    },
    "WebNNExecutionProvider": {
        "bundled": _known_by("source", _refused(NO_EFFECT, "Python cannot attach the EP", "deviceType"))
    },
    # These read no option.
    "ArmNNExecutionProvider": {"bundled": {}},
    "AzureExecutionProvider": {"bundled": {}},
    "NnapiExecutionProvider": {"bundled": {}},
    "RknpuExecutionProvider": {"bundled": {}},
    "VSINPUExecutionProvider": {"bundled": {}},
}
