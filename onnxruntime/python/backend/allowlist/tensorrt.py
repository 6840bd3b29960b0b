# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options of the TensorRT EP. The parser of onnxruntime-gpu 1.31.1 read them, on stubs of the libraries."""

from functools import partial

from onnxruntime.backend.allowlist.common_options import DEVICE, OPERATORS, byte_count
from onnxruntime.backend.allowlist.rules import Need, Rule, Table
from onnxruntime.backend.allowlist.value_kinds import Flag, Integer, Names
from onnxruntime.backend.provider_names import TENSORRT

# Unlike CUDA's parser, TensorRT's parser accepts neither 1 nor 0.
_trt_switch = partial(Rule, Flag("False", "True"), "0")
_DLA = Need("trt_dla_enable=1", lambda facts, _: facts.option(TENSORRT, "trt_dla_enable") == "True")
_TACTICS = [sign + name for sign in "+-" for name in ("CUBLAS", "CUBLAS_LT", "CUDNN", "EDGE_MASK_CONVOLUTIONS")]

BUILT_IN = Table(
    {
        "device_id": DEVICE,
        "trt_max_partition_iterations": Rule(Integer(1, 10000), "1000", "Maximum number of partitioning iterations."),
        "trt_min_subgraph_size": Rule(Integer(1, 1000000), "1", "Minimum number of nodes of a subgraph for TensorRT."),
        "trt_max_workspace_size": byte_count("Bytes of workspace for building an engine. 0: TensorRT chooses."),
        "trt_fp16_enable": _trt_switch("Lets TensorRT compute in float16."),
        "trt_bf16_enable": _trt_switch("Lets TensorRT compute in bfloat16."),
        "trt_int8_enable": _trt_switch("Lets TensorRT compute in int8, for models that contain scales."),
        "trt_dla_enable": _trt_switch("Computes on a DLA core if the device has one."),
        "trt_dla_core": Rule(Integer(0, 7), "0", "Index of the DLA core.", needs=(_DLA,)),
        "trt_force_sequential_engine_build": _trt_switch("Builds engines one at a time."),
        "trt_context_memory_sharing_enable": _trt_switch("Lets subgraphs share their working memory."),
        "trt_layer_norm_fp32_fallback": _trt_switch("Computes layer normalization in float32."),
        "trt_sparsity_enable": _trt_switch("Lets TensorRT use kernels for sparse weights."),
        "trt_builder_optimization_level": Rule(Integer(0, 5), "3", "Effort of TensorRT's search for fast kernels."),
        "trt_auxiliary_streams": Rule(
            Integer(-1, 8), "-1", "Maximum auxiliary streams of each CUDA stream. -1: TensorRT chooses."
        ),
        "trt_tactic_sources": Rule(
            Names(lambda: _TACTICS, f"names from this list, joined by ',': {', '.join(_TACTICS)}", ","),
            "none",
            "Kernel libraries that TensorRT uses (+) or does not use (-).",
        ),
        "trt_engine_hw_compatible": _trt_switch("Builds engines for all GPUs from Ampere on."),
        "trt_op_types_to_exclude": Rule(OPERATORS, "none", "Operator types that TensorRT does not run."),
        "trt_cuda_graph_enable": _trt_switch(
            "Captures TensorRT's work as one CUDA graph and replays it in later runs."
        ),
    },
    {
        "no effect": {
            "trt_build_heuristics_enable": (
                "ORT ignores it with TensorRT 8.6 and newer. For its former effect, set "
                "trt_builder_optimization_level=2"
            )
        },
        "set by another argument": {
            "precision_mode": "a name of Triton. Pass trt_fp16_enable, trt_bf16_enable or trt_int8_enable"
        },
        "not verified": {
            "trt_profile_min_shapes trt_profile_max_shapes trt_profile_opt_shapes": (
                "if ORT cannot parse the value, it logs this and ignores the value. The effect was not verified, "
                "because no engine could be built"
            ),
            "trt_load_user_initializer": (
                "selects how weights reach TensorRT. Its effect was not verified, because no engine could be built"
            ),
        },
        "loads a library": {
            "trt_extra_plugin_lib_paths": "the libraries are loaded before the session is created",
            "trt_engine_decryption_enable trt_engine_decryption_lib_path": (
                "a library that decrypts engines is loaded when the session is created"
            ),
        },
        "requires another refused option": {
            "trt_preview_features": "it acts only on plugin libraries",
            "trt_force_timing_cache": "it acts only on a timing cache read from a file",
            "has_user_compute_stream": "acts only together with user_compute_stream",
            "trt_onnx_bytestream_size": "acts only together with trt_onnx_bytestream",
            "trt_external_data_bytestream_size": "acts only together with trt_external_data_bytestream",
        },
        "writes files": {
            "trt_engine_cache_enable trt_engine_cache_path trt_engine_cache_prefix trt_timing_cache_enable "
            "trt_timing_cache_path": "creates a folder, writes engines and timings to it, and loads engines from it",
            "trt_dump_ep_context_model trt_ep_context_file_path trt_ep_context_embed_mode": (
                "writes the compiled model to a file"
            ),
            "trt_dump_subgraphs": "writes parts of the model to the current folder",
        },
        "reads files": {
            "trt_int8_calibration_table_name trt_int8_use_native_calibration_table": (
                "reads a calibration table from a file"
            ),
            "trt_weight_stripped_engine_enable trt_onnx_model_folder_path": (
                "reads the weights from a model file in a folder"
            ),
        },
        "discloses data": {"trt_detailed_build_log": "logs every step of building an engine"},
        "raw pointer": {
            "user_compute_stream": "ORT passes the number to the CUDA driver as the address of a stream",
            "trt_onnx_bytestream": "ORT reads the number as an address of the model's bytes",
            "trt_external_data_bytestream": "ORT reads the number as an address of the model's weights",
        },
    },
)
