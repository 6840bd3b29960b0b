# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Which execution providers (EPs) a session gets, in which order, through which of ORT's doors, and the proof of it.

ORT has three ways to attach an EP from Python and each silently loses something for some EPs: naming a plugin EP in
``providers=`` gives a CPU session, ``add_provider`` drops options that bundled OpenVINO reads only from session config
entries, and bundled WebGPU reads nothing but those. :func:`open_session` is the one place that chooses.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist import Grant, sent

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
# ORT registers TensorRT's plugin operators only for EPs that come through providers=.
_NEEDS_PROVIDERS_ARGUMENT = "TensorrtExecutionProvider"
# The EPs that run on the device which ONNX calls CUDA.
_ON_CUDA = (CUDA, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")
_RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


class Applied(NamedTuple):
    """What ORT reports of the options that a caller named, and which of them it has no way to report."""

    reported: Mapping[str, Mapping[str, str]]
    unconfirmed: Mapping[str, tuple[str, ...]]


def _excluded() -> list[str]:
    return os.getenv("ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS", default="").split(",")


def stock_list() -> list[str]:
    """The EPs for a caller who names none: all available ones, less those that the environment excludes."""
    excluded = _excluded()
    return [name for name in onnxruntime.get_available_providers() if name not in excluded]


def _plugin_devices(name: str) -> list:
    """The devices of a plugin EP whose library the application has registered."""
    if not hasattr(onnxruntime, "get_ep_devices"):
        return []
    devices = onnxruntime.get_ep_devices()
    return [device for device in devices if device.ep_name == name and "library_path" in device.ep_metadata]


def flavour(name: str) -> str:
    """Tell how this process has an EP: ``"bundled"`` in ORT, or as a ``"plugin"`` that the application registered.

    :raises RuntimeError: when the environment excludes it.
    :raises LookupError: when there is none.
    """
    if name in _excluded():
        raise RuntimeError(f"provider_options names {name}, which ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS excludes")
    if _plugin_devices(name):
        return "plugin"
    available = onnxruntime.get_available_providers()
    if name in available:
        return "bundled"
    raise LookupError(f"it is not available in this process, which has {', '.join(available)}")


def device_index(device: str | None) -> int | None:
    """The index in a device such as ``'CUDA:1'`` (the syntax of :class:`onnx.backend.base.Device`)."""
    return None if device is None else _split(device)[1]


def _split(device: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"([A-Z0-9_]+)(?::([0-9]{1,2}))?", device, re.ASCII) if type(device) is str else None
    if match is None:
        return "", None
    return match[1], None if match[2] is None else int(match[2])


def supports_device(device: str) -> bool:
    """Tell whether this ORT was built for a device, or has a plugin EP for it.

    :param device: ``'CPU'``, ``'CUDA'`` (or ``'GPU'``), ``'CUDA:1'``, or another of the names in
        :func:`onnxruntime.get_device`, whole.
    """
    if device == onnxruntime.get_device():
        return True
    name, index = _split(device)
    if name == "CUDA":
        name = "GPU"
    if name == "GPU" and any(map(_plugin_devices, _ON_CUDA)):
        return True
    # OPENVINO_CPU and CPU-OPENVINO_CPU are what ORT calls its own device; only whole names of it count.
    return name in onnxruntime.get_device().split("-") and (index in (None, 0) or name == "GPU")


def merge_device(device: str | None, provider_options: object) -> object:
    """Let an index in ``device`` name the CUDA EP where the caller named no EP.

    :return: the ``provider_options`` to look up.
    """
    index = device_index(device)
    if index is None or provider_options is not None or _split(device)[0] == "CPU":
        return provider_options
    return {CUDA: {"device_id": index}}


def check_device(device: str | None, granted: Mapping[str, Mapping[str, Grant]]) -> None:
    """Check that the named EPs run on the device that was asked for.

    :raises RuntimeError: when they contradict each other.
    """
    if device is None:
        return
    name, index = _split(device)
    if name in ("CUDA", "GPU"):
        here = [ep for ep in granted if ep in _ON_CUDA]
        if not here:
            raise RuntimeError(f"device {device!r} contradicts provider_options, which names no EP of that device")
        for ep in here if index is not None else ():
            named = granted[ep].get("device_id")
            if named is None or named.value != index:
                was = "nothing" if named is None else named.text
                raise RuntimeError(f"device {device!r} contradicts provider_options['{ep}'], whose device_id is {was}")


def open_session(model: str | bytes, options: SessionOptions, granted: Mapping[str, Mapping[str, Grant]]):
    """Open a session with exactly the named EPs, in their order, then CPU, and without any fallback.

    :param model: path or serialized model.
    :param options: session options with their attributes and session config entries set.
    :param granted: EP name to its granted options.
    :return: the :class:`onnxruntime.InferenceSession`.
    :raises RuntimeError: when an EP cannot be attached, or the session came up without it.
    """
    if hasattr(InferenceSession, "get_provider_graph_assignment_info"):
        options.add_session_config_entry(_RECORD_ASSIGNMENT, "1")
    if _NEEDS_PROVIDERS_ARGUMENT in granted:
        session = InferenceSession(
            model, options, providers=[(name, sent(grants)) for name, grants in granted.items()], enable_fallback=0
        )
    else:
        for name, grants in granted.items():
            try:
                _attach(options, name, sent(grants))
            except Exception as error:
                raise RuntimeError(
                    f"{name} was named in provider_options and could not be attached: {error}"
                ) from error
        session = InferenceSession(model, options, enable_fallback=0)
    _verify_order(session, list(granted))
    return session


def _attach(options: SessionOptions, name: str, texts: dict[str, str]) -> None:
    devices = _plugin_devices(name)
    if devices:
        index = int(texts.pop("device_id", 0))
        if index >= len(devices):
            raise RuntimeError(f"device_id {index} is out of range: it has {len(devices)} device(s)")
        options.add_provider_for_devices([devices[index]], texts)
        return
    # Either alone loses options: add_provider those of OpenVINO that its factory parses again from these entries,
    # and the entries everything that other EPs read from the call. They must be there before the EP is added.
    for option, text in texts.items():
        options.add_session_config_entry(f"ep.{name.lower()}.{option}", text)
    options.add_provider(name, texts)


def _verify_order(session: InferenceSession, named: list[str]) -> None:
    got = session.get_providers()
    missing = [name for name in named if name not in got]
    if missing:
        raise RuntimeError(
            f"provider_options names {', '.join(missing)}, but ORT opened the session without it: it has "
            f"{', '.join(got)}. A library that the EP needs (such as CUDA or cuDNN) could not be loaded"
        )
    if [name for name in got if name in named] != named:
        raise RuntimeError(
            f"provider_options names {', '.join(named)} in this order, but ORT attached {', '.join(got)}"
        )


def read_back(session: InferenceSession, granted: Mapping[str, Mapping[str, Grant]]) -> Applied:
    """Compare what ORT reports with what was granted.

    :raises RuntimeError: when ORT reports another value than was sent.
    """
    everything = session.get_provider_options()
    reported, unconfirmed = {}, {}
    for name, grants in granted.items():
        texts = everything.get(name, {})
        shown, silent = {}, []
        for option, grant in grants.items():
            if not grant.rule.reported or option not in texts:
                silent.append(option)
            elif grant.rule.kind.read(texts[option]) != grant.value:
                raise RuntimeError(
                    f"provider_options['{name}']['{option}'] was sent as {grant.text!r}, but ORT reports "
                    f"{texts[option]!r}"
                )
            else:
                shown[option] = texts[option]
        if "device_id" in texts:
            shown.setdefault("device_id", texts["device_id"])
        reported[name] = MappingProxyType(shown)
        if silent:
            unconfirmed[name] = tuple(silent)
    return Applied(MappingProxyType(reported), MappingProxyType(unconfirmed))


def node_assignment(session: InferenceSession) -> Mapping[str, int] | None:
    """The number of nodes that each EP of a session took, or ``None`` where ORT was not asked to record it."""
    try:
        subgraphs = session.get_provider_graph_assignment_info()
    except Exception:  # ORT raises its own Fail where the record is off
        return None
    counts = dict.fromkeys(session.get_providers(), 0)
    for subgraph in subgraphs:
        counts[subgraph.ep_name] = counts.get(subgraph.ep_name, 0) + len(subgraph.get_nodes())
    return MappingProxyType(counts)


def warn_idle(session: InferenceSession, named: list[str]) -> None:
    """Warn of each named EP that took no node: ORT permits that, and silence would mislead."""
    counts = node_assignment(session)
    memories = " ".join(info.name for info in (*session.get_input_memory_infos(), *session.get_output_memory_infos()))
    for name in named:
        # ORT's record is partial for WebGPU in NHWC layout; an input or output in the EP's own memory is proof too.
        if (
            name == CPU
            or counts is None
            or counts.get(name)
            or name.removesuffix("ExecutionProvider").lower() in memories.lower()
        ):
            continue
        warnings.warn(
            f"{name} was named in provider_options and took no node of this model, which runs on "
            f"{', '.join(ep for ep, count in counts.items() if count)} instead. Check that the EP supports the model's "
            "operators and types, or set session_config={'session.disable_cpu_ep_fallback': '1'} to make this an error",
            RuntimeWarning,
            stacklevel=4,
        )
