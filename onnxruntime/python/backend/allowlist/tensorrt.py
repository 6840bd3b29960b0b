# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of the TensorRT EP. All other options are refused."""

from __future__ import annotations

from functools import partial

from onnxruntime.backend.allowlist.common_options import DEVICE, OPERATORS, byte_count
from onnxruntime.backend.allowlist.rules import Need, Rule
from onnxruntime.backend.allowlist.special_kinds import Names, WordFlag
from onnxruntime.backend.allowlist.value_kinds import Integer
from onnxruntime.backend.provider_names import TENSORRT

# Unlike CUDA's parser, TensorRT's parser accepts neither 1 nor 0.
_trt_switch = partial(Rule, WordFlag(), "0")
_DLA = Need("trt_dla_enable=1", lambda facts, _: facts.option(TENSORRT, "trt_dla_enable") == "True")
_TACTICS = [sign + name for sign in "+-" for name in ("CUBLAS", "CUBLAS_LT", "CUDNN", "EDGE_MASK_CONVOLUTIONS")]

OPTIONS = {
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
    "trt_cuda_graph_enable": _trt_switch("Captures TensorRT's work as one CUDA graph and replays it in later runs."),
}
