# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Explains why a session cannot be created. Examples are a missing library or device, and a model that ORT rejects."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import count

from onnx import ModelProto, helper

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.errors import Place, reject
from onnxruntime.backend.provider_names import ON_ANY_DEVICE, OPENVINO, QNN, THROUGH_CUDA
from onnxruntime.backend.runs import tensors
from onnxruntime.capi import build_and_package_info

# NVIDIA's libraries, which the packages of ORT do not contain.
_INSTALL_CUDA = (
    "Install CUDA and cuDNN, for example with pip install 'onnxruntime-gpu[cuda,cudnn]', and call "
    "onnxruntime.preload_dlls() before prepare"
)
_LOG = "The ORT log may contain details."
# The advice for an EP whose library loads; "" applies to all EPs that have no entry.
_MISSING = {
    "": f"The device, or a library that the EP needs, may be missing. {_LOG}",
    **dict.fromkeys(
        THROUGH_CUDA,
        f"The device, or a library that the EP needs such as CUDA or cuDNN, may be missing. {_INSTALL_CUDA}.",
    ),
    OPENVINO: "The device of device_type, or its driver, may be missing.",
    QNN: "Without a Qualcomm device, it computes on its simulator only, which backend_type='htp' selects.",
}
_ANYWAY = "To run it anyway, set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0"
# Clearer messages for errors that ORT raises while it creates a session: regular expression to message.
EXPLANATIONS = {
    r"OrtEp for '(.*)' has invalid ort_version_supported=(\d+)": (
        "The plugin EP {0} requires ONNX Runtime 1.{1}, not {ort}. Install a newer ORT or an older EP"
    ),
    "[Cc]annot get shape|[Dd]ynamic shape": (  # of the QNN EP
        "An execution provider requires fixed shapes. Set the sizes of free dimensions with "
        "free_dimension_overrides={{name: size}}. ORT error: {error}"
    ),
    r"(?s)((\[OpenVINO-EP\]|Exception from src/inference/).*)": (  # of the built-in EP, and of OpenVINO itself
        "OpenVINO cannot compile this model. Use provider_options={{'CPUExecutionProvider': {{}}}} for this model. "
        "OpenVINO's error: {0}"
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
        match = re.search(pattern, str(error))
        if match:
            return message.format(
                *match.groups(),
                ort=onnxruntime.__version__,
                error=error,
            )
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
    files = {
        "win32": f"{stem}.dll",
        "darwin": f"lib{stem}.dylib",
    }
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


def advice_on_shapes(session: InferenceSession) -> str:
    """Return how to fix the free dimensions of the inputs, ``""`` if there are none."""
    sizes = {}
    for node in session.get_inputs():
        for dimension in node.shape:
            if type(dimension) is not int:
                name = tensors.dimension_name(dimension)
                sizes[name] = f"{name!a}: ..."
    if "" in sizes:
        return "Give the model fixed shapes. Some of its free dimensions have no name"
    if sizes:
        listed = ", ".join(sizes.values())
        return f"Set free_dimension_overrides={{{listed}}}"
    return ""


def reject_setting(error: Exception, entries: Iterable[str]) -> None:
    """Raise the error for a setting that, according to ORT's error, this model or process does not support."""
    for key in entries:
        if re.search(rf"{re.escape(key)}'? is not supported", str(error)):
            reject(Place("session_config", key=key), f"ORT rejects it for this model. ORT error: {error}")
    if "EnvCreatedWithGlobalThreadPools" in str(error):
        reject(
            Place("use_per_session_threads"),
            "the process has no global thread pools. Call onnxruntime.set_global_thread_pool_sizes before the first "
            "session, or leave out use_per_session_threads=False",
        )


def reject_options(
    name: str,
    texts: Mapping[str, str],
    error: Exception,
) -> None:
    """Reject the options because of which ORT cannot attach a built-in EP, if ORT can attach the EP without options.

    Each EP parses its options itself, and knows the devices. Not each error contains the option.
    """
    if not texts or not _attaches(name, {}):
        return
    for option, text in texts.items():
        if not _attaches(name, {option: text}):
            break
    else:
        reject(Place("provider_options", name), f"the EP rejects this combination of options. ORT error: {error}")
    problem = f"the EP rejects the value {text!r}"
    if option == "device_type":
        problem = f"the device {text!r} is not available on this machine, or its driver is missing"
    if option == "device_id":
        number = next(index for index in count() if not _attaches(name, {option: str(index)}))
        problem = f"the device {text} is not available on this machine, which has {number} devices of this EP"
    reject(Place("provider_options", name, option), f"{problem}. ORT error: {error}")


def _attaches(name: str, texts: Mapping[str, str]) -> bool:
    """Return whether ORT attaches a built-in EP with these options to the options of a session."""
    try:
        SessionOptions().add_provider(name, texts)
    except Exception:  # ORT raises classes without a common base
        return False
    return True
