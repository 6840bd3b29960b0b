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
from collections.abc import Iterable, Mapping

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.errors import refuse, reject
from onnxruntime.backend.provider_names import ON_ANY_DEVICE, ON_CUDA_DEVICE, OPENVINO, QNN
from onnxruntime.backend.session import model_versions
from onnxruntime.capi import build_and_package_info

# NVIDIA's libraries, which the packages of ORT do not contain.
_INSTALL_CUDA = (
    "Install CUDA and cuDNN, for example with pip install 'onnxruntime-gpu[cuda,cudnn]', and call "
    "onnxruntime.preload_dlls() before prepare"
)
# The advice for an EP whose library loads; "" applies to all EPs that have no entry.
_MISSING = {
    "": "The device, or a library that the EP needs, may be missing. The ORT log may contain details.",
    **dict.fromkeys(
        ON_CUDA_DEVICE,
        f"The device, or a library that the EP needs such as CUDA or cuDNN, may be missing. {_INSTALL_CUDA}.",
    ),
    OPENVINO: "The device of device_type, or its driver, may be missing.",
    QNN: "Without a Qualcomm device, it computes on its simulator only, which backend_type='htp' selects.",
}


def missing(names: Iterable[str]) -> str:
    """Return why these EPs fail, and the next step: the driver or a library is missing, or else the usual causes."""
    needing = [name for name in names if name not in ON_ANY_DEVICE]
    if not set(ON_CUDA_DEVICE).isdisjoint(needing) and (driver := missing_driver()):
        return driver
    for name in needing:
        if message := missing_library(name):
            return f"{message} {_INSTALL_CUDA}." if name in ON_CUDA_DEVICE else message
    return " ".join(dict.fromkeys(_MISSING.get(name, _MISSING[""]) for name in needing)) or _MISSING[""]


def missing_driver() -> str:
    """Return the system loader's message about the library of NVIDIA's driver, or ``""`` if it loads."""
    file = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    error = _load_error(file)
    advice = "Install the driver first: packages such as onnxruntime-gpu do not contain it."
    problem = "NVIDIA's driver is missing on this machine, or its GPU is not visible to this process"
    return f"{problem} ({error}). {advice}" if error else ""


def _load_error(path: str) -> str:
    try:
        ctypes.CDLL(path)
    except OSError as error:
        return str(error)
    return ""


def missing_library(name: str) -> str:
    """Return the system loader's message about a built-in EP's library, or ``""`` if it loads or is not ORT's.

    ORT writes the message into its log and not into the exception
    (``onnxruntime/core/session/provider_bridge_ort.cc``, ``ProviderLibrary::Get``). This function loads the library
    again in the same way.
    """
    stem = f"onnxruntime_providers_{name.removesuffix('ExecutionProvider').lower()}"
    file = {"win32": f"{stem}.dll", "darwin": f"lib{stem}.dylib"}.get(sys.platform, f"lib{stem}.so")
    path = os.path.join(os.path.dirname(onnxruntime.__file__), "capi", file)
    error = _load_error(path) if os.path.isfile(path) else ""
    built_for = getattr(build_and_package_info, "cuda_version", None)
    wheel = f" This wheel is built for CUDA {built_for}." if built_for else ""
    return f"The system says: {error}.{wheel}" if error else ""


def advice_on_shapes(session: InferenceSession) -> str:
    """Return the advice for an EP that requires fixed shapes; ``""`` if no input has a free dimension."""
    dimensions = [size for node in session.get_inputs() for size in node.shape if type(size) is not int]
    if not dimensions:
        return ""
    sizes = ", ".join(f"{name!a}: ..." for name in dict.fromkeys(dimensions) if name)
    if not sizes:
        return "Give the model fixed shapes, which the EP requires"
    return f"It requires fixed shapes. Set free_dimension_overrides={{{sizes}}}"


def refuse_rejected_entry(error: Exception, entries: Iterable[str]) -> None:
    """Refuse a session config entry that, according to ORT's error, is not supported for this model."""
    for key in entries:
        if re.search(rf"{re.escape(key)}'? is not supported", str(error)):
            refuse(f"ORT rejects it for this model. ORT error: {error}", "session_config", "", key)


def reject_absent_device(name: str, texts: Mapping[str, str], error: Exception) -> None:
    """Reject OpenVINO's ``device_type`` if ORT attaches the EP for its CPU device, so that its libraries are present.

    ORT writes the device that is absent into its log and not into the exception.
    """
    if name == OPENVINO and texts.get("device_type", "CPU") != "CPU":
        try:
            SessionOptions().add_provider(name, {"device_type": "CPU"})
        except Exception:  # ORT raises classes without a common base
            return
        problem = f"the device {texts['device_type']!r} is not available on this machine, or its driver is missing"
        reject(f"{problem}. ORT error: {error}", "provider_options", name, "device_type")


def refuse_missing_thread_pools(error: Exception) -> None:
    """Reject ``use_per_session_threads=False`` if, according to ORT's error, the process has no global thread pools."""
    if "EnvCreatedWithGlobalThreadPools" in str(error):
        reject(
            "the process has no global thread pools. Call onnxruntime.set_global_thread_pool_sizes before the first "
            "session, or leave out use_per_session_threads=False",
            "use_per_session_threads",
        )


def explain(error: Exception) -> str | None:
    """Return a clearer message for an error that ORT raised while it created a session; ``None`` if there is none."""
    if "graph capture feature" in str(error):
        return (
            "This model cannot be captured. Graph capture requires a model without If, Loop or Scan, whose nodes all "
            "run on the EP that captures, except those that compute shapes. Prepare the model without graph capture. "
            f"ORT error: {error}"
        )
    if match := re.search(r"OrtEp for '(.*)' has invalid ort_version_supported=(\d+)", str(error)):
        name, release = match.groups()
        ort = onnxruntime.__version__
        return f"The plugin EP {name} requires ONNX Runtime 1.{release}, not {ort}. Install a newer ORT or an older EP"
    if re.search(r"[Cc]annot get shape|[Dd]ynamic shape", str(error)):  # of the QNN EP
        advice = "Set the sizes of free dimensions with free_dimension_overrides={name: size}"
        return f"An execution provider requires fixed shapes. {advice}. ORT error: {error}"
    return model_versions.explain(error)
