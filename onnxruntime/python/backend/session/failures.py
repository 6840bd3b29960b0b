# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Explains why a session could not be created: a missing library or device, or a model that cannot be captured."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable

import onnxruntime
from onnxruntime.backend.errors import refuse
from onnxruntime.backend.provider_names import ON_ANY_DEVICE, ON_CUDA_DEVICE, OPENVINO, QNN
from onnxruntime.backend.session import model_versions
from onnxruntime.capi import build_and_package_info

_NO_CUDA = "The device, or a library that the EP needs such as CUDA or cuDNN, may be missing; ORT's log may tell."
# The advice for an EP whose library loads; "" stands for all EPs that have no entry.
_MISSING = {
    "": "The device, or a library that the EP needs, may be missing; ORT's log may tell.",
    **dict.fromkeys(ON_CUDA_DEVICE, _NO_CUDA),
    OPENVINO: "The device that device_type names, or its driver, may be missing.",
    QNN: "Where there is no Qualcomm device it computes on its simulator only, which backend_type='htp' asks for.",
}


def missing(names: Iterable[str]) -> str:
    """Return what is missing for these EPs: the system loader's message, or else the usual causes."""
    needing = [name for name in names if name not in ON_ANY_DEVICE]
    said = next(filter(None, map(missing_library, needing)), "")
    return said or " ".join(dict.fromkeys(_MISSING.get(name, _MISSING[""]) for name in needing)) or _MISSING[""]


def missing_library(name: str) -> str:
    """Return the system loader's message about a built-in EP's library; ``""`` if it loads or is not ORT's.

    ORT writes the message into its log and not into the exception
    (``onnxruntime/core/session/provider_bridge_ort.cc``, ``ProviderLibrary::Get``). This function loads the library
    again in the same way.
    """
    stem = f"onnxruntime_providers_{name.removesuffix('ExecutionProvider').lower()}"
    file = {"win32": f"{stem}.dll", "darwin": f"lib{stem}.dylib"}.get(sys.platform, f"lib{stem}.so")
    path = os.path.join(os.path.dirname(onnxruntime.__file__), "capi", file)
    if not os.path.isfile(path):
        return ""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        built_for = getattr(build_and_package_info, "cuda_version", None)
        return f"The system says: {error}." + (f" This wheel is built for CUDA {built_for}." if built_for else "")
    return ""


def refuse_rejected_entry(error: Exception, entries: Iterable[str]) -> None:
    """Refuse a session config entry that, according to ORT's error, is not supported for this model."""
    for key in entries:
        if re.search(rf"{re.escape(key)}'? is not supported", str(error)):
            refuse(f"ORT rejects it for this model. ORT error: {error}", "session_config", "", key)


def explain(error: Exception) -> str | None:
    """Return a clearer message for an error that ORT raised while it created a session; ``None`` if there is none."""
    if "graph capture feature" in str(error):
        return (
            "graph capture was asked for, and this model cannot be captured: every node must run on the EP that "
            "captures, but for those that compute shapes, and there may be no If, Loop or Scan. Prepare the model "
            f"without it. ORT says: {error}"
        )
    return model_versions.explain(error)
