# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Explains why a session cannot be created: a missing library or device, or a model that ORT or an EP rejects."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Mapping

from onnx import ModelProto, helper

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.errors import refuse, reject, show
from onnxruntime.backend.provider_names import ON_ANY_DEVICE, OPENVINO, QNN, THROUGH_CUDA
from onnxruntime.capi import build_and_package_info

# NVIDIA's libraries, which the packages of ORT do not contain.
_INSTALL_CUDA = (
    "Install CUDA and cuDNN, for example with pip install 'onnxruntime-gpu[cuda,cudnn]', and call "
    "onnxruntime.preload_dlls() before prepare"
)
_LOG = "The ORT log may contain details."
# The advice for an EP whose library loads; "" applies to all EPs that have no entry.
_MISSING = {
    "": "The device, or a library that the EP needs, may be missing. " + _LOG,
    **dict.fromkeys(
        THROUGH_CUDA,
        f"The device, or a library that the EP needs such as CUDA or cuDNN, may be missing. {_INSTALL_CUDA}.",
    ),
    OPENVINO: "The device of device_type, or its driver, may be missing.",
    QNN: "Without a Qualcomm device, it computes on its simulator only, which backend_type='htp' selects.",
}
# The environment variables that ORT 1.32 reads in each session, with the config key that its error names instead.
SESSION_VARIABLES = {
    "ORT_MOE_PACKED_GPU_EXPERTS": "ep.cuda.moe_packed_gpu_experts",
    "ORT_QMOE_MIN_EXPERT_WEIGHT": "session.moe.offload.min_expert_weight",
    "ORT_QMOE_SKIP_TAIL_COLD_ONLY": "session.moe.offload.skip_tail_cold_only",
    "ORT_QMOE_SKIP_ZERO_COLD_DOORBELL": "session.moe.offload.skip_zero_cold_doorbell",
    "ORT_QMOE_TAIL_SUBSTITUTION_MIN_RANK": "session.moe.offload.tail_substitution_min_rank",
    "ORT_QMOE_TAIL_SUBSTITUTION_THRESHOLD": "session.moe.offload.tail_substitution_threshold",
}
_ANYWAY = "To run it anyway, set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0"
# Clearer messages for errors that ORT raises while it creates a session: regular expression to message.
EXPLANATIONS = {
    "graph capture feature": (
        "This model cannot be captured. Graph capture requires a model without If, Loop or Scan, whose nodes all run "
        "on the EP that captures, except those that compute shapes. Prepare the model without graph capture. "
        "ORT error: {error}"
    ),
    r"OrtEp for '(.*)' has invalid ort_version_supported=(\d+)": (
        "The plugin EP {0} requires ONNX Runtime 1.{1}, not {ort}. Install a newer ORT or an older EP"
    ),
    "[Cc]annot get shape|[Dd]ynamic shape": (  # of the QNN EP
        "An execution provider requires fixed shapes. Set the sizes of free dimensions with "
        "free_dimension_overrides={{name: size}}. ORT error: {error}"
    ),
    r"Unsupported model IR version: (\d+), max supported IR version: (\d+)": (
        "The model has IR version {0}, but ONNX Runtime {ort} supports IR versions up to {1}. If the model does not "
        "use features of newer versions, set model.ir_version = {1}"
    ),
    r"Opset (\d+) is under development .* support for domain (\S+) is till opset (\d+)": (
        "The model imports {1} opset {0}, but ONNX Runtime {ort} supports opsets up to {2} of this domain. " + _ANYWAY
    ),
}


def explain(error: Exception) -> str | None:
    """Return a clearer message for an error that ORT raised while it created a session; ``None`` if there is none."""
    for pattern, message in EXPLANATIONS.items():
        if match := re.search(pattern, str(error)):
            return message.format(*match.groups(), ort=onnxruntime.__version__, error=error)
    for variable, key in SESSION_VARIABLES.items():
        if variable in os.environ and key in str(error):
            given = f"{variable}={show(os.environ[variable])}"
            return f"The cause may be the environment variable {given}. Correct or unset it. ORT error: {error}"
    return None


def unreleased(model: ModelProto) -> str:
    """Return a sentence about an opset of ONNX's own domains that the installed onnx has not released, or ``""``."""
    for opset in model.opset_import[:]:
        domain = opset.domain or "ai.onnx"
        if _is_onnx(domain) and (domain, opset.version) not in helper.OP_SET_ID_VERSION_MAP:
            imported = f"{domain} opset {opset.version}"
            return f"The model imports {imported}, which is not released according to the installed onnx. {_ANYWAY}"
    return ""


def missing_operator(error: Exception) -> str:
    """Return a sentence about an operator of another domain that ORT lacks according to its error, or ``""``."""
    match = re.search(r"(\S+):(\S+)\(-?\d+\) is not a registered function/op", str(error))
    if not match or _is_onnx(match[1]):
        return ""
    return f"ONNX Runtime {onnxruntime.__version__} lacks the operator {match[2]} of domain {match[1]}"


def _is_onnx(domain: str) -> bool:
    # All domains with this prefix are ONNX's own, except for the domain of onnxruntime-extensions.
    return f"{domain}.".startswith("ai.onnx.") and domain != "ai.onnx.contrib"


def missing(names: Iterable[str]) -> str:
    """Return why these EPs fail, and the next step: the driver or a library is missing, or else the usual causes."""
    needing = [name for name in names if name not in ON_ANY_DEVICE]
    driver = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    if not set(THROUGH_CUDA).isdisjoint(needing) and (error := _load_error(driver)):
        return (
            f"NVIDIA's driver is missing on this machine, or its GPU is not visible to this process ({error}). Install "
            "the driver first: packages such as onnxruntime-gpu do not contain it."
        )
    for name in needing:
        path = _library(name)
        if os.path.isfile(path) and (error := _load_error(path)):
            built_for = getattr(build_and_package_info, "cuda_version", None)
            wheel = f" This wheel is built for CUDA {built_for}." if built_for else ""
            return f"The system says: {error}.{wheel}{f' {_INSTALL_CUDA}.' if name in THROUGH_CUDA else ''}"
    return " ".join(dict.fromkeys(_MISSING.get(name, _MISSING[""]) for name in needing)) or _LOG


def _library(name: str) -> str:
    """Return the path of a built-in EP's library, as ``ProviderLibrary`` in ``provider_bridge_ort.cc`` does."""
    stem = f"onnxruntime_providers_{name.removesuffix('ExecutionProvider').lower()}"
    file = {"win32": f"{stem}.dll", "darwin": f"lib{stem}.dylib"}.get(sys.platform, f"lib{stem}.so")
    return os.path.join(os.path.dirname(onnxruntime.__file__), "capi", file)


def _load_error(path: str) -> str:
    """Load a library again, and return the system loader's message, which ORT writes into its log only."""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        return str(error)
    return ""


def advice_on_shapes(session: InferenceSession) -> str:
    """Return the advice for an EP that requires fixed shapes; ``""`` if no input has a free dimension."""
    dimensions = [size for node in session.get_inputs() for size in node.shape if type(size) is not int]
    sizes = ", ".join(f"{name!a}: ..." for name in dict.fromkeys(dimensions) if name)
    if sizes:
        return f"It requires fixed shapes. Set free_dimension_overrides={{{sizes}}}"
    return "Give the model fixed shapes, which the EP requires" if dimensions else ""


def reject_setting(error: Exception, entries: Iterable[str]) -> None:
    """Raise the error for a setting that, according to ORT's error, this model or process does not support."""
    for key in entries:
        if re.search(rf"{re.escape(key)}'? is not supported", str(error)):
            refuse(f"ORT rejects it for this model. ORT error: {error}", "session_config", "", key)
    if "EnvCreatedWithGlobalThreadPools" in str(error):
        reject(
            "the process has no global thread pools. Call onnxruntime.set_global_thread_pool_sizes before the first "
            "session, or leave out use_per_session_threads=False",
            "use_per_session_threads",
        )


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
