# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Explains the errors that ORT raises while it creates a session."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn

import onnxruntime
from onnxruntime import SessionOptions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.errors import ENVIRONMENT, Place, reject, reworded
from onnxruntime.backend.explanations import missing_providers, model_file
from onnxruntime.capi.onnxruntime_pybind11_state import EPFail, Fail, InvalidArgument, InvalidProtobuf, RuntimeException

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
    'External data path: "(.*?)" escapes model directory': (  # of ORT before 1.25, also for a symbolic link
        "The data file {0!a} is outside of the folder of the model, or a symbolic link to such a file. Copy the file "
        "itself into this folder. ONNX Runtime 1.25 and newer accept symbolic links. ORT error: {error}"
    ),
    r"Unsupported model IR version: (\d+), max supported IR version: (\d+)": (
        "The model has IR version {0}, but ONNX Runtime {ort} supports IR versions up to {1}. If the model does not "
        "use features of newer versions, set model.ir_version = {1}"
    ),
    r"Opset (\d+) is under development .* support for domain (\S+) is till opset (\d+)": (
        "The model imports {1} opset {0}, but ONNX Runtime {ort} supports opsets up to {2} of this domain. "
        + model_file.ANYWAY
    ),
}


def explain(error: Exception, permit: Permit, model: str | bytes) -> None:
    """Raise a clearer error of the class of an error that ORT raised while it created a session, if there is one.

    If settings of the operator can be at fault, raise a ``RuntimeError``, which is not about the inputs of a client.
    """
    reject_setting(error, permit)
    of_operator = permit.trusted and isinstance(error, (EPFail, Fail, InvalidArgument, RuntimeException))
    reason = _explanation(str(error))
    if not reason:
        problem = model_file.problem(model, isinstance(error, InvalidProtobuf))
        if problem:
            reason = f"{problem}. ORT error: {error}"
        elif of_operator:
            reason = f'{error} ("trusted" in {ENVIRONMENT} can be the cause)'
        else:
            return
    raise reworded(RuntimeError if of_operator else type(error), reason) from None


def _explanation(error: str) -> str:
    for pattern, message in EXPLANATIONS.items():
        match = re.search(pattern, error)
        if match:
            return message.format(*match.groups(), ort=onnxruntime.__version__, error=error)
    return ""


def explain_providers(error: Exception, specified: Collection[str], options: Iterable[tuple[str, dict]]) -> None:
    """Raise a clearer error if ORT could not create a session because of the specified EPs or their options."""
    # ORT's own exceptions are neither class, and describe a fault of the model, or from 1.32 on of a plugin EP.
    of_plugin = "PluginExecutionProviderFactory::CreateProvider" in str(error)
    if not of_plugin and not isinstance(error, (RuntimeError, ValueError)):
        return
    for name, texts in options:
        _reject_options(name, texts, error)
    names = ", ".join(specified) or "the CPU EP"
    advice = missing_providers.advice(specified)
    raise RuntimeError(f"ORT could not create a session with {names}. {advice} ORT error: {error}") from None


def explain_attaching(error: Exception, name: str, texts: Mapping[str, str], of_caller: bool) -> NoReturn:
    """Raise a clearer error after ORT could not attach an EP. ``of_caller``: whether a caller can be at fault."""
    if of_caller:
        _reject_options(name, texts, error)
    advice = missing_providers.advice([name])
    raise RuntimeError(f"{name} could not be attached. {advice} ORT error: {error}") from None


def reject_setting(error: Exception, permit: Permit) -> None:
    """Raise the error for a setting that, according to ORT's error, this model or process does not support."""
    for key, setting in permit.session_config.items():
        if re.search(rf"{re.escape(key)}'? is not supported", str(error)):
            reject(setting.place, f"ORT rejects it for this model. ORT error: {error}")
    pools = permit.attributes.get("use_per_session_threads")
    if pools is not None and "EnvCreatedWithGlobalThreadPools" in str(error):
        reject(
            pools.place,
            "the process has no global thread pools. Call onnxruntime.set_global_thread_pool_sizes before the first "
            "session, or leave out use_per_session_threads=False",
        )


def _reject_options(name: str, texts: Mapping[str, str], error: Exception) -> None:
    """Reject the options of a built-in EP if ORT can attach the EP without options: the EP parses them itself."""
    if not texts:
        return
    try:
        SessionOptions().add_provider(name, {})
    except Exception:  # ORT raises classes without a common base
        return
    option = next(iter(texts)) if len(texts) == 1 else None
    problem = f"the EP rejects the options {dict(texts)}, or does not have the device. ORT error: {error}"
    reject(Place("provider_options", name, option), problem)
