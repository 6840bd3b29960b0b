# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Explains why ORT cannot use an EP, such as a missing driver or library."""

import ctypes
import os
import sys
from collections.abc import Iterable

import onnxruntime
from onnxruntime.backend.provider_names import ON_ANY_DEVICE, OPENVINO, QNN, THROUGH_CUDA
from onnxruntime.capi import build_and_package_info

# NVIDIA's libraries, which the packages of ORT do not contain.
_INSTALL_CUDA = (
    "Install CUDA and cuDNN, for example with pip install 'onnxruntime-gpu[cuda,cudnn]', and call "
    "onnxruntime.preload_dlls() before prepare"
)
_LOG = "The ORT log may contain details."
# The advice for an EP whose library loads. "" applies to all EPs that have no entry.
_MISSING = {
    "": f"The device, or a library that the EP needs, may be missing. {_LOG}",
    **dict.fromkeys(
        THROUGH_CUDA,
        f"The device, or a library that the EP needs such as CUDA or cuDNN, may be missing. {_INSTALL_CUDA}.",
    ),
    OPENVINO: "The device of device_type, or its driver, may be missing.",
    QNN: "Without a Qualcomm device, it computes on its simulator only, which backend_type='htp' selects.",
}


def advice(names: Iterable[str]) -> str:
    """Return why these EPs fail, and the next step. Without a missing driver or library, return the usual causes."""
    needing = [name for name in names if name not in ON_ANY_DEVICE]
    if not set(THROUGH_CUDA).isdisjoint(needing):
        driver = "libcuda.so.1"
        if sys.platform == "win32":
            driver = "nvcuda.dll"
        error = _load_error(driver)
        if error:
            return (
                "NVIDIA's driver is missing on this machine, or its GPU is not visible to this process "
                f"({error}). Install the driver first: packages such as onnxruntime-gpu do not contain it."
            )
    for name in needing:
        path = _library(name)
        if os.path.isfile(path):
            error = _load_error(path)
            if error:
                return _broken_library(name, error)

    causes = dict.fromkeys(_MISSING.get(name, _MISSING[""]) for name in needing)
    return " ".join(causes) or _LOG


def _broken_library(name: str, error: str) -> str:
    message = f"The system says: {error}."
    cuda = getattr(build_and_package_info, "cuda_version", None)
    if cuda:
        message += f" This wheel is built for CUDA {cuda}."
    if name in THROUGH_CUDA:
        message += f" {_INSTALL_CUDA}."
    return message


def _library(name: str) -> str:
    """Return the path of a built-in EP's library, as ``ProviderLibrary`` in ``provider_bridge_ort.cc`` does."""
    stem = f"onnxruntime_providers_{name.removesuffix('ExecutionProvider').lower()}"
    files = {"win32": f"{stem}.dll", "darwin": f"lib{stem}.dylib"}
    file = files.get(sys.platform, f"lib{stem}.so")
    folder = os.path.dirname(onnxruntime.__file__)
    return os.path.join(folder, "capi", file)


def _load_error(path: str) -> str:
    """Load a library again, and return the system loader's message, which ORT writes into its log only."""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        return str(error)
    return ""
