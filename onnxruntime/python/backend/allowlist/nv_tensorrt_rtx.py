# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of the plugin EP of TensorRT-RTX. All other options are refused."""

from __future__ import annotations

from onnxruntime.backend.allowlist.common_options import OPERATORS, PLUGIN_DEVICE, SENT_OFF, byte_count
from onnxruntime.backend.allowlist.rules import Rule, switch
from onnxruntime.backend.allowlist.special_kinds import Fixed
from onnxruntime.backend.allowlist.value_kinds import Integer, Text

_INTERNAL_GRAPHS = Fixed(
    False,
    "TensorRT-RTX captures and replays graphs internally. The backend cannot own the buffers of a replay, and "
    "cannot compare the replay with a run without capture",
)
_BUDGET = Text(r"-1|[0-9]{1,15}[BKMG]?|(?:100|[0-9]{1,2})%", "-1, bytes, a number with B, K, M or G, or 0% to 100%")
OPTIONS = {
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
}
