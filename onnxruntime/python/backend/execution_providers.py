# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Which execution providers (EPs) a session gets, in which order, through which of ORT's doors, and the proof of it.

ORT has three doors through which an EP comes in from Python, and each silently loses something of some EP: naming a
plugin EP in ``providers=`` gives a CPU session, ``add_provider`` drops options that bundled OpenVINO reads only from
session config entries, and bundled WebGPU reads nothing but those. :func:`_attach` is the one place that chooses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend import allowlist
from onnxruntime.backend.allowlist import Circumstances, Grant, sent
from onnxruntime.backend.messages import warn

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
# The EPs of GPU builds, which run on the device that ONNX calls CUDA and ORT calls GPU.
_ON_GPU = (CUDA, TENSORRT, "NvTensorRTRTXExecutionProvider", "MIGraphXExecutionProvider", "ROCMExecutionProvider")
# The EPs that are there whatever the device, so that their presence says nothing of it.
ON_ANY_DEVICE = frozenset({CPU, "AzureExecutionProvider"})
_EXCLUDE = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"
_MISSING = "The device, or a library that the EP needs (such as CUDA or cuDNN), may be missing; ORT's log may tell"
_RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


def _excluded() -> list[str]:
    return os.getenv(_EXCLUDE, default="").split(",")


def stock_list() -> list[str]:
    """The EPs for a caller who names none: all available ones, less those that the environment excludes.

    A plugin EP of a name that ORT does not know itself is not among them. ORT would attach it behind the CPU EP.
    """
    excluded = _excluded()
    known = _all_providers()
    return [
        name
        for name in onnxruntime.get_available_providers()
        if name not in excluded and (name in known or not plugin_devices(name))
    ]


@cache
def _all_providers() -> frozenset[str]:
    return frozenset(onnxruntime.get_all_providers())


def plugin_devices(name: str) -> list:
    """The devices of a plugin EP whose library the application has registered."""
    if not hasattr(onnxruntime, "get_ep_devices"):
        return []
    # A bundled EP can have devices too; only those of a plugin say where its library is.
    devices = onnxruntime.get_ep_devices()
    return [device for device in devices if device.ep_name == name and "library_path" in device.ep_metadata]


def flavour(name: str) -> str:
    """Tell how this process has an EP: ``"bundled"`` in ORT, or as a ``"plugin"`` that the application registered.

    :raises RuntimeError: when the environment excludes it.
    :raises LookupError: when there is none.
    """
    if name in _excluded():
        raise RuntimeError(f"{name} was named, and the environment variable {_EXCLUDE} excludes it")
    if plugin_devices(name):
        return "plugin"
    available = onnxruntime.get_available_providers()
    if name in available:
        return "bundled"
    raise LookupError(
        f"it is not available in this process, which has {', '.join(available)}. A plugin EP is available once its "
        "library is registered and has found a device that it supports"
    )


def _split(device: str | None) -> tuple[str, int | None]:
    """Divide a device such as ``'CUDA:1'``, the syntax of :class:`onnx.backend.base.Device`."""
    return _parse(device) if type(device) is str else ("", None)


@lru_cache
def _parse(device: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"([A-Z0-9_]+)(?::([0-9]{1,2}))?", device, re.ASCII)
    if match is None:
        return "", None
    return match[1], None if match[2] is None else int(match[2])


def supports_device(device: str) -> bool:
    """Tell whether this ORT was built for a device, or has a plugin EP for it.

    :param device: ``'CPU'``, ``'CUDA'`` (or ``'GPU'``), ``'CUDA:1'``, or another of the names in
        :func:`onnxruntime.get_device`, whole.
    """
    if type(device) is str and device == onnxruntime.get_device():
        return True
    name, index = _split(device)
    # CPU-OPENVINO_CPU is how ORT names the devices of a build; only whole names count.
    built_for = onnxruntime.get_device().split("-")
    if name in ("CUDA", "GPU"):
        return "GPU" in built_for or any(len(plugin_devices(ep)) > (index or 0) for ep in _ON_GPU)
    return name in built_for and not index


def merge_device(device: str | None, provider_options: object) -> object:
    """Let ``'CUDA:1'`` name the CUDA EP where the caller named no EP.

    :return: the ``provider_options`` to look up.
    """
    if device is None or provider_options is not None:
        return provider_options
    name, index = _split(device)
    return {CUDA: {"device_id": index}} if name in ("CUDA", "GPU") and index is not None else None


def settle_device(
    device: str | None, granted: dict[str, dict[str, Grant]], circumstances: Circumstances
) -> dict[str, dict[str, Grant]]:
    """Give the index in ``device`` to the named EPs that run there.

    :return: what was granted, with that index as ``device_id``.
    :raises RuntimeError: when the device and the named EPs contradict each other.
    """
    name, index = _split(device)
    on_gpu = [ep for ep in granted if ep in _ON_GPU]
    if name not in ("CUDA", "GPU"):
        return granted
    if not on_gpu:
        raise RuntimeError(f"device {device!r} contradicts provider_options, which names no EP of that device")
    if index is None:
        return granted
    granted = dict(granted)
    for ep in on_gpu:
        asked = allowlist.provider_options({ep: {"device_id": index}}, flavour, circumstances)[ep]
        if granted[ep].get("device_id", asked["device_id"]).value != index:
            raise RuntimeError(
                f"device {device!r} contradicts provider_options['{ep}'], whose device_id is "
                f"{granted[ep]['device_id'].text}"
            )
        granted[ep] = {**granted[ep], **asked}
    return granted


def check_device(device: str | None, session: InferenceSession) -> None:
    """Check that a session can be on the device that was asked for: ORT falls back to the CPU without a word.

    :raises RuntimeError: when the device is not the CPU and the session has only EPs that need no device.
    """
    if _split(device)[0] not in ("", "CPU") and ON_ANY_DEVICE.issuperset(session.get_providers()):
        got = ", ".join(session.get_providers())
        raise RuntimeError(f"device {device!r} was asked for, but ORT opened the session with {got} alone. {_MISSING}")


def open_session(
    model: str | bytes,
    options: SessionOptions,
    granted: Mapping[str, Mapping[str, Grant]],
    entries: Mapping[str, str] = MappingProxyType({}),
) -> InferenceSession:
    """Open a session with exactly the named EPs, in their order, then CPU, and without any fallback.

    :param model: path or serialized model.
    :param options: session options with their attributes and session config entries set.
    :param granted: EP name to its granted options.
    :param entries: the session config entries that the caller named.
    :return: the session.
    :raises RuntimeError: when an EP cannot be attached, or the session came up without it.
    """
    # Have ORT record which nodes each EP takes, unless the caller decided on that. To ask the options whether they hold
    # an entry is no way to find out: the exception that says no takes a fifth of the time of opening a small session.
    if _RECORD_ASSIGNMENT not in entries and hasattr(InferenceSession, "get_provider_graph_assignment_info"):
        options.add_session_config_entry(_RECORD_ASSIGNMENT, "1")
    named = ", ".join(granted) or "no EP"
    providers = _attach(options, granted)
    try:
        session = InferenceSession(model, options, providers=providers, enable_fallback=0)
    except (RuntimeError, ValueError) as error:
        # ORT's own exceptions, which say what is wrong with a model, are neither: this is an EP's.
        raise RuntimeError(f"provider_options names {named}, with which ORT opened no session: {error}") from error
    _verify_order(session, list(granted))
    return session


def _attach(options: SessionOptions, granted: Mapping[str, Mapping[str, Grant]]) -> list[tuple[str, dict]] | None:
    """Lead each EP through the door that loses nothing of it.

    :return: what to pass as ``providers=``; ORT then ignores every EP that is attached to the session options.
    """
    devices = {name: plugin_devices(name) for name in granted}
    # ORT registers TensorRT's plugin operators only for EPs that come in by this argument. CUDA and CPU can as well.
    if TENSORRT in granted and not devices[TENSORRT]:
        others = [name for name in granted if devices[name]]
        if others:
            raise RuntimeError(
                f"provider_options names {TENSORRT} and {', '.join(others)}, which cannot be in one session: ORT "
                "ignores plugin EPs where TensorRT is attached. Name only one of them"
            )
        return [(name, sent(grants)) for name, grants in granted.items()]
    for name, grants in granted.items():
        texts = sent(grants)
        chosen = _choose_device(name, devices[name], grants, texts)
        try:
            if chosen:
                options.add_provider_for_devices([chosen], texts)
            else:
                # Either alone loses options: add_provider those of OpenVINO that its factory parses again from the
                # entries, and the entries everything that other EPs read from the call. They must be there first.
                for option, text in texts.items():
                    options.add_session_config_entry(f"ep.{name.lower()}.{option}", text)
                options.add_provider(name, texts)
        except Exception as error:
            raise RuntimeError(
                f"provider_options names {name}, which could not be attached. {_MISSING}. ORT says: {error}"
            ) from error
    return None


def _choose_device(name: str, devices: list, grants: Mapping[str, Grant], texts: dict[str, str]) -> object | None:
    """Choose a plugin EP's device: the one that ``device_id`` means, else the first. The WebGPU EP refuses two.

    :param grants: the EP's options.
    :param texts: what is sent of them, which loses ``device_id``: the EP would ignore or refuse it.
    :return: the device; ``None`` where the EP is no plugin.
    """
    if not devices:
        return None
    index = int(texts.pop("device_id", 0))
    if index >= len(devices):
        raise RuntimeError(f"provider_options['{name}']['device_id'] is {index}, but it has {len(devices)} device(s)")
    hardware = devices[index].device.type.name
    for option, grant in grants.items():
        if grant.rule.hardware not in ("", hardware):
            raise RuntimeError(
                f"provider_options['{name}']['{option}'] acts on a {grant.rule.hardware}, but device {index} of the EP "
                f"is a {hardware}, where it would be ignored"
            )
    return devices[index]


def _verify_order(session: InferenceSession, named: list[str]) -> None:
    got = session.get_providers()
    missing = [name for name in named if name not in got]
    if missing:
        raise RuntimeError(
            f"provider_options names {', '.join(missing)}, but ORT opened the session with {', '.join(got)} alone. "
            f"{_MISSING}"
        )
    if [name for name in got if name in named] != named:
        raise RuntimeError(
            f"provider_options names {', '.join(named)} in this order, but ORT attached {', '.join(got)}"
        )


def read_back(
    session: InferenceSession, granted: Mapping[str, Mapping[str, Grant]]
) -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, tuple[str, ...]]]:
    """Compare what ORT reports with what was granted.

    :return: by EP, what ORT reports of the options that were granted, and which of them it has no way to report.
    :raises RuntimeError: when ORT reports another value than was sent.
    """
    everything = session.get_provider_options()
    reported, unconfirmed = {}, {}
    for name, grants in granted.items():
        texts = everything.get(name, {})
        for option, text in sent(grants).items():
            if option in texts and not _same(texts[option], text, grants.get(option)):
                raise RuntimeError(
                    f"provider_options['{name}']['{option}'] was sent as {text!r}, but ORT reports {texts[option]!r}"
                )
        # An option that travels inside another one is named by no EP: ORT repeats the text that carried it, no more.
        shown = {option: texts[option] for option, grant in grants.items() if grant.rule.reported and option in texts}
        silent = tuple(option for option in grants if option not in shown)
        if "device_id" in texts:
            shown.setdefault("device_id", texts["device_id"])
        reported[name] = MappingProxyType(shown)
        if silent:
            unconfirmed[name] = silent
    return MappingProxyType(reported), MappingProxyType(unconfirmed)


def _same(reported: str, text: str, grant: Grant | None) -> bool:
    """Tell whether ORT reports what was sent, in whichever spelling; without a grant, text that carries options."""
    if grant is None or not grant.rule.reported:
        return reported == text
    try:
        return grant.rule.kind.read(reported) == grant.value
    except ValueError:
        return False


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
    if named in ([], [CPU]):  # counting takes time with the model's size
        return
    counts = node_assignment(session)
    if counts is None:
        return
    # ORT's record is partial for WebGPU in NHWC layout; an input or output in the EP's own memory is proof too.
    infos = (*session.get_input_memory_infos(), *session.get_output_memory_infos())
    memories = " ".join(info.name for info in infos).lower()
    for name in named:
        if name == CPU or counts.get(name) or name.removesuffix("ExecutionProvider").lower() in memories:
            continue
        advice = "Check that it supports the model's operators and types"
        if counts.get(CPU) and CPU not in named:
            advice += ", or set session_config={'session.disable_cpu_ep_fallback': '1'} to make this an error"
        others = ", ".join(ep for ep, count in counts.items() if count) or "no EP"
        warn(f"{name} was named in provider_options and took no node of this model, which runs on {others}. {advice}")
