# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Reasons why options, keys and attributes are refused, for error messages and documents.

Safety does not depend on this package: the allowlist refuses every name that its tables do not permit. The
attributes, the session config keys, the run config keys, and the EPs with many options have a module each.
"""

from __future__ import annotations

from onnxruntime.backend.allowlist import providers
from onnxruntime.backend.allowlist.rules import Rule
from onnxruntime.backend.provider_names import CUDA, NV_TENSORRT_RTX, OPENVINO, OPENVINO_AUTO, QNN, TENSORRT, WEBGPU
from onnxruntime.backend.refusals import cuda, nv_tensorrt_rtx, openvino, others, qnn, tensorrt, webgpu
from onnxruntime.backend.refusals.attributes import RUN_ATTRIBUTES, SESSION_ATTRIBUTES
from onnxruntime.backend.refusals.others import EVERY_PROVIDER
from onnxruntime.backend.refusals.run_config import RUN_CONFIG
from onnxruntime.backend.refusals.session_config import SESSION_CONFIG, SESSION_PREFIXES
from onnxruntime.backend.refusals.verdicts import Refused

# EP name to kind ("built-in" or "plugin") to the refused options.
PROVIDERS: dict[str, dict[str, dict[str, Refused]]] = {
    CUDA: {"built-in": cuda.BUILT_IN, "plugin": cuda.PLUGIN},
    TENSORRT: {"built-in": tensorrt.BUILT_IN},
    NV_TENSORRT_RTX: {"plugin": nv_tensorrt_rtx.PLUGIN},
    OPENVINO: {"built-in": openvino.BUILT_IN, "plugin": openvino.PLUGIN},
    OPENVINO_AUTO: {"plugin": openvino.PLUGIN},
    QNN: {"built-in": qnn.BUILT_IN, "plugin": qnn.PLUGIN},
    WEBGPU: {"built-in": webgpu.BUILT_IN, "plugin": webgpu.PLUGIN},
    **{name: {"built-in": table} for name, table in others.BUILT_IN.items()},
}

_TABLES = {
    "session attributes": SESSION_ATTRIBUTES,
    "session_options": SESSION_ATTRIBUTES,
    "run attributes": RUN_ATTRIBUTES,
    "session_config": SESSION_CONFIG,
    "run_config": RUN_CONFIG,
}


def provider_tables() -> dict[str, dict[str, dict[str, Rule | Refused]]]:
    """Return all reviewed options by EP name and kind: the permitted ones, then the refused ones."""
    reviewed: dict = {}
    for name, kinds in providers.PROVIDERS.items():
        refused = PROVIDERS.get(name, {})
        reviewed[name] = {}
        for kind, permitted in kinds.items():
            reviewed[name][kind] = permitted | refused.get(kind, {})
    return reviewed


def find(where: str, provider: str, name: str, kind: str = "") -> Refused | None:
    """Return the verdict on a refused name, if there is one.

    :param where: ``"provider_options"``, or a key of ``_TABLES``.
    """
    if where == "provider_options":
        of_kind = PROVIDERS.get(provider, {}).get(kind, {})
        return EVERY_PROVIDER.get(name) or of_kind.get(name)
    verdict = _TABLES[where].get(name)
    if verdict is None and where == "session_config":
        for prefix, of_prefix in SESSION_PREFIXES.items():
            if name.startswith(prefix):
                return of_prefix
    return verdict
