# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of the MIGraphX and CANN EPs. All other options are refused."""

from __future__ import annotations

from onnxruntime.backend.allowlist import cuda
from onnxruntime.backend.allowlist.common_options import DEVICE, SENT_OFF
from onnxruntime.backend.allowlist.rules import Need, Rule, switch, switch_on
from onnxruntime.backend.allowlist.special_kinds import Fixed
from onnxruntime.backend.provider_names import MIGRAPHX as MIGRAPHX_EP


def _not_beside(other: str) -> tuple[Need, ...]:
    # Together, they disable each other without an error.
    return (Need(f"{other}=0", lambda facts, text: text == "0" or facts.option(MIGRAPHX_EP, other) != "1"),)


MIGRAPHX = {
    "device_id": DEVICE,
    "migraphx_fp16_enable": switch("Computes in float16.", needs=_not_beside("migraphx_bf16_enable")),
    "migraphx_bf16_enable": switch("Computes in bfloat16.", needs=_not_beside("migraphx_fp16_enable")),
    "migraphx_fp8_enable": switch("Computes in float8.", needs=_not_beside("migraphx_int8_enable")),
    "migraphx_int8_enable": switch("Computes in int8.", needs=_not_beside("migraphx_fp8_enable")),
    "migraphx_exhaustive_tune": switch("Tries all kernels when it compiles the model, which is slow."),
}

_NO_FILE = Fixed(False, "CANN would write the compiled model to the current folder")
CANN = {
    "device_id": DEVICE,
    "npu_mem_limit": cuda.OPTIONS["gpu_mem_limit"],
    "arena_extend_strategy": cuda.OPTIONS["arena_extend_strategy"],
    "enable_cann_graph": switch_on("Compiles each subgraph as a unit."),
    "enable_cann_subgraph": switch("Lets CANN partition the model."),
    "dump_om_model": Rule(_NO_FILE, SENT_OFF, "Writes compiled models to the current folder.", always_off=True),
}
