# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Options of the NvTensorRTRTX EP.

The parser of onnxruntime-ep-nv-tensorrt-rtx-cu13 0.5.0 read them, on stubs of the libraries.
"""

from onnxruntime.backend.allowlist.common_options import (
    ARENA,
    ARENA_OPTIONS,
    OPERATORS,
    PLUGIN_DEVICE,
    SENT_OFF,
    byte_count,
)
from onnxruntime.backend.allowlist.rules import Rule, Table, switch
from onnxruntime.backend.allowlist.value_kinds import Fixed, Integer, Text

_INTERNAL_GRAPHS = Fixed(
    False,
    "TensorRT-RTX captures and replays graphs internally. The backend cannot own the buffers of a replay, and "
    "cannot compare the replay with a run without capture",
)
_BUDGET = Text(r"-1|[0-9]{1,15}[BKMG]?|(?:100|[0-9]{1,2})%", "-1, bytes, a number with B, K, M or G, or 0% to 100%")
PLUGIN = Table(
    {
        "device_id": PLUGIN_DEVICE,
        "enable_cuda_graph": Rule(
            _INTERNAL_GRAPHS, SENT_OFF, "Lets TensorRT-RTX capture CUDA graphs internally.", always_off=True
        ),
        "nv_max_workspace_size": byte_count("Bytes of workspace for building an engine."),
        "nv_max_shared_mem_size": Rule(Integer(0, 2**20), "0", "Maximum bytes of shared memory for a kernel."),
        "nv_weight_streaming_budget": Rule(_BUDGET, "0", "Amount of the weights that stays on the GPU."),
        "nv_op_types_to_exclude": Rule(OPERATORS, "none", "Operator types that the EP does not run."),
        "nv_use_sync_gpu_allocator": switch("Allocates with cudaMalloc, which CUDA graphs do not support."),
        "nv_persistent_context_memory": switch("Keeps working memory between runs."),
    },
    {
        "not verified": {
            "nv_profile_min_shapes nv_profile_max_shapes nv_profile_opt_shapes": (
                "its syntax differs between versions, and any text was accepted"
            ),
            "nv_use_external_data_initializer": (
                "selects how weights reach the compiler. The default, on, suits all models"
            ),
            "nv_multi_rotary_cache_concat_offset multi_rotary_cache_concat_offset": (
                "a tensor of the model can contain two tables of rotary embeddings. The option specifies where the "
                "second table begins. A wrong number gives wrong results"
            ),
        },
        "requires another refused option": {
            "nv_multi_profile_enable": "it acts only on the nv_profile options",
            "nv_target_sm": "it acts only when the compiled model is written to a file",
            "has_user_compute_stream": "acts only together with user_compute_stream",
            "nv_length_aux_stream_array": "acts only together with user_aux_stream_array",
        },
        "writes files": {
            "nv_runtime_cache_path": "creates the folder, writes to it, and loads the files in it",
            "nv_dump_subgraphs": "writes parts of the model to the current folder",
            "ep.context_enable ep.context_file_path ep.context_embed_mode": "writes the compiled model to a file",
            "nv_enable_profiling nv_profiling_output_file": "writes a trace to a file",
        },
        "unbounded use of resources": {ARENA_OPTIONS: ARENA},
        "reads files": {"nv_weight_stripped_engine_enable_experimental": "reads weights from a model file"},
        "discloses data": {"nv_detailed_build_log": "logs every step of building an engine"},
        "raw pointer": {
            "user_compute_stream user_aux_stream_array VkExternalComputeQueueDataParamsNV_data": (
                "ORT passes the number to a driver as an address"
            )
        },
        "no effect": {
            "nv_ep_context_file_path nv_ep_context_embed_mode nv_dump_ep_context_model nv_onnx_bytestream "
            "nv_onnx_bytestream_size nv_external_data_bytestream nv_external_data_bytestream_size "
            "nv_extra_plugin_lib_paths": "an option of the built-in EP of older ORT. The plugin does not know it"
        },
        "set by another argument": {"nv_cuda_graph_enable": "this EP does not know this old name of enable_cuda_graph"},
    },
    reported=False,
)
