# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Permitted options of each execution provider (EP), with the values that each accepts. All other options are refused.

ORT repeats all options of a plugin EP, even unknown ones. Its report proves nothing, so the tables of plugin EPs are
``_unreported``. docs/options-evidence.md lists how the effect of each option is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnxruntime.backend import provider_names as eps
from onnxruntime.backend.allowlist import cuda, nv_tensorrt_rtx, openvino, others, qnn, tensorrt, webgpu
from onnxruntime.backend.allowlist.common_options import PLUGIN_DEVICE
from onnxruntime.backend.allowlist.rules import Rule


def _unreported(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return the rules of an EP that reports no option, or reports each option."""
    return {name: rule._replace(reported=False) for name, rule in rules.items()}


# A plugin without a table. The application trusts it, because it has registered it.
ANY_PLUGIN = _unreported({"device_id": PLUGIN_DEVICE})
_WITHOUT_OPTION = "Dml CoreML VitisAI Xnnpack ACL Dnnl Js WebNN ArmNN Azure Nnapi Rknpu VSINPU"
# EP name to kind to options, for each EP that has been reviewed.
PROVIDERS: dict[str, dict[str, dict[str, Rule]]] = {
    eps.CPU: {"built-in": {}},
    eps.CUDA: {"built-in": cuda.OPTIONS, "plugin": {}},
    eps.TENSORRT: {"built-in": tensorrt.OPTIONS},
    eps.NV_TENSORRT_RTX: {"plugin": _unreported(nv_tensorrt_rtx.OPTIONS)},
    eps.MIGRAPHX: {"built-in": others.MIGRAPHX},
    eps.CANN: {"built-in": others.CANN},
    eps.OPENVINO: {"built-in": _unreported(openvino.BUILT_IN), "plugin": _unreported(openvino.PLUGIN)},
    eps.OPENVINO_AUTO: {"plugin": _unreported(openvino.PLUGIN)},
    eps.QNN: {"built-in": {}, "plugin": _unreported(qnn.OPTIONS)},
    eps.WEBGPU: {"built-in": _unreported(webgpu.BUILT_IN), "plugin": _unreported(webgpu.PLUGIN)},
    **{f"{name}ExecutionProvider": {"built-in": {}} for name in _WITHOUT_OPTION.split()},
    "MLXExecutionProvider": {"plugin": ANY_PLUGIN},  # strings: onnxruntime-ep-mlx 0.31.0 reads no options
}


def options_of(ep: str, kind: str) -> Mapping[str, Rule]:
    """Return the permitted options of an EP."""
    without_table: Mapping[str, Rule] = ANY_PLUGIN if kind == "plugin" else {}
    return PROVIDERS.get(ep, {}).get(kind, without_table)
