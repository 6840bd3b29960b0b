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
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.backend.allowlist_rules import NOTHING, Grant, Permit, sent
from onnxruntime.backend.messages import NotPermittedError, late, refuse, warn
from onnxruntime.backend.provider_names import CPU, ON_ANY_DEVICE, ON_CUDA_DEVICE, OPENVINO, QNN, TENSORRT
from onnxruntime.backend.request import split_device
from onnxruntime.capi import _pybind_state

_EXCLUDE = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"
_NO_LIBRARY_PATH = ("1.24.0", "1.24.1", "1.24.2", "1.24.3")
# What may be wrong where an EP cannot be had; "" stands for all others.
_NO_CUDA = "The device, or a library that the EP needs such as CUDA or cuDNN, may be missing; ORT's log may tell."
_MISSING = {
    "": "The device, or a library that the EP needs, may be missing; ORT's log may tell.",
    **dict.fromkeys(ON_CUDA_DEVICE, _NO_CUDA),
    OPENVINO: "The device that device_type names, or its driver, may be missing.",
    QNN: "Where there is no Qualcomm device it computes on its simulator only, which backend_type='htp' asks for.",
}
_RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


class Applied:
    """What became of a permit in the open session, as ORT reports it, limited to what was named."""

    #: EP to option to text.
    provider_options: Mapping[str, Mapping[str, str]] = NOTHING
    #: Key to text.
    session_config: Mapping[str, str] = NOTHING
    #: Attribute of SessionOptions to value.
    session_options: Mapping[str, object] = NOTHING
    #: By EP, the options that it has no way to report; by keyword argument, the keys that have nothing to act on.
    unconfirmed: Mapping[str, tuple[str, ...]] = NOTHING
    #: What was warned of.
    warnings: tuple[str, ...] = ()
    #: The libraries of custom operators that were registered.
    extensions: tuple[str, ...] = ()

    def and_more(self, extensions: tuple[str, ...], warnings: tuple[str, ...]) -> Applied:
        """The same with these libraries, and with these warnings before its own."""
        more = Applied()
        vars(more).update(vars(self), extensions=extensions, warnings=(*warnings, *self.warnings))
        return more


NOTHING_APPLIED = Applied()


def _excluded() -> list[str]:
    names = os.environ.get(_EXCLUDE)
    return [name.strip() for name in names.split(",")] if names else []


def stock_list() -> list[str]:
    """The EPs for a caller who names none: all available ones, less those that the environment excludes.

    A plugin EP of a name that ORT does not know itself is not among them. ORT would attach it behind the CPU EP.
    """
    excluded = _excluded()
    known = _all_providers()
    available = onnxruntime.get_available_providers()
    if not excluded and known.issuperset(available):  # as it nearly always is
        return available
    return [name for name in available if name not in excluded and (name in known or not plugin_devices(name))]


@cache
def _all_providers() -> frozenset[str]:
    return frozenset(onnxruntime.get_all_providers())


def plugin_devices(name: str) -> list:
    """The devices of a plugin EP whose library the application has registered."""
    if not hasattr(onnxruntime, "get_ep_devices"):
        return []
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name and _is_plugins(device)]


def _is_plugins(device: onnxruntime.OrtEpDevice) -> bool:
    """Tell a plugin EP's device from one of an EP inside ORT: its metadata says where the library is.

    Not before ORT 1.24.4; there the EPs inside ORT say ORT's release of themselves.
    """
    metadata = device.ep_metadata
    if "library_path" in metadata or onnxruntime.__version__ not in _NO_LIBRARY_PATH:
        return "library_path" in metadata
    return metadata.get("version") != onnxruntime.__version__


def flavour(name: str) -> str:
    """Tell how this process has an EP: ``"bundled"`` in ORT, as a ``"plugin"`` that the application registered, or not
    at all: ``""``.
    """
    if name == CPU:  # in every build
        return "bundled"
    if plugin_devices(name):
        return "plugin"
    return "bundled" if name in onnxruntime.get_available_providers() else ""


def check_available(permit: Permit) -> None:
    """Check that this process has the EPs that were named.

    :raises NotPermittedError: when it has one not, or the environment excludes it.
    """
    if not permit.named:
        return
    excluded = _excluded()
    for name in permit.providers:
        if name in excluded:
            refuse(f"the environment variable {_EXCLUDE} excludes it", "provider_options", name)
        if not permit.flavours[name]:
            reason = (
                f"it is not available in this process, which has {', '.join(onnxruntime.get_available_providers())}. "
                "A plugin EP is available once its library is registered and has found a device that it supports"
            )
            refuse(reason, "provider_options", name)


def supports_device(device: str) -> bool:
    """Tell whether this ORT was built for a device, or has a plugin EP for it.

    :param device: ``'CPU'``, ``'CUDA'`` (or ``'GPU'``), ``'CUDA:1'``, or a part of :func:`onnxruntime.get_device` that
        stands before or behind a hyphen of it, as in ``'CPU-OPENVINO_CPU'``: ORT's own backend answers so, and
        conformance runs ask for ``'OPENVINO'``.
    """
    if type(device) is not str:
        return False
    built_for = onnxruntime.get_device()
    if device == built_for:
        return True
    name, index = split_device(device)
    if name in ("CUDA", "GPU"):
        if any(len(plugin_devices(ep)) > (index or 0) for ep in ON_CUDA_DEVICE):
            return True
        name, index = "GPU", None
    if index is not None and index > 0:
        return False
    name = name or device
    return name == built_for or f"-{name}" in built_for or f"{name}-" in built_for


def open_session(model: str | bytes, options: SessionOptions, permit: Permit) -> InferenceSession:
    """Open a session as a permit says.

    With exactly the EPs that were named, in their order, then CPU, and without any fallback; where none was named, with
    all that are available, as ORT's own backend does.

    :param model: path or serialized model.
    :param options: session options with their attributes and free dimension overrides set.
    :param permit: what may be given to ORT.
    :raises RuntimeError: when an EP cannot be attached, or the session came up without it or without the device that
        was asked for.
    """
    for key, text in permit.session_config.items():
        options.add_session_config_entry(key, text)
    if ON_ANY_DEVICE.issuperset(permit.providers):
        session = _open(model, options, permit)
    else:
        from onnxruntime.backend import graph_capture, session_lock  # long to import  # noqa: PLC0415

        with session_lock.while_opening(permit.providers):
            session = _open(model, options, permit)
            session_lock.of(session)
        graph_capture.require(session)
    if permit.device not in ("", "CPU"):
        got = session.get_providers()
        # ORT falls back to the CPU without a word.
        if ON_ANY_DEVICE.issuperset(got) and supports_device(permit.device):
            raise RuntimeError(
                f"device {permit.device!r} was asked for, but ORT opened the session with {', '.join(got)} alone. "
                f"{_missing(permit.providers)}"
            )
    return session


def _missing(names: Iterable[str]) -> str:
    """What is wrong where these EPs cannot be had, as the system says, or else what may be."""
    needing = [name for name in names if name not in ON_ANY_DEVICE]
    missing_library = late("missing_library")
    said = [missing_library.explain(name) for name in needing] if missing_library else []
    return next(filter(None, said), "") or (
        " ".join(dict.fromkeys(_MISSING.get(name, _MISSING[""]) for name in needing)) or _MISSING[""]
    )


def _open(model: str | bytes, options: SessionOptions, permit: Permit) -> InferenceSession:
    if permit.named:
        return _open_named(model, options, permit)
    providers = list(permit.providers)
    if ON_ANY_DEVICE.issuperset(providers):
        for name in providers:  # the quicker door, where there is nothing to fall back to
            options.add_provider(name, {})
        return InferenceSession(model, options, enable_fallback=0)
    if TENSORRT in providers and not _tensorrt_loads():
        providers.remove(TENSORRT)
    session = InferenceSession(model, options, providers=providers)
    # A run that fails must fail, not run elsewhere: the API's first use is testing.
    session.disable_fallback()
    return session


@cache
def _tensorrt_loads() -> bool:
    """Tell whether TensorRT's libraries are here.

    ORT has its EP wherever it was built with it, and InferenceSession then prints an error of five lines before it goes
    on without, which says nothing to a caller who never asked for it.
    """
    load = getattr(_pybind_state, "register_tensorrt_plugins_as_custom_ops", None)
    try:
        if load is not None:
            load(SessionOptions(), {})
    except RuntimeError:
        return False
    return True


def _open_named(model: str | bytes, options: SessionOptions, permit: Permit) -> InferenceSession:
    # Have ORT record which nodes each EP takes, unless the caller decided on that. To ask the options whether they hold
    # an entry is no way to find out: the exception that says no takes a fifth of the time of opening a small session.
    if _RECORD_ASSIGNMENT not in permit.session_config and hasattr(
        InferenceSession, "get_provider_graph_assignment_info"
    ):
        options.add_session_config_entry(_RECORD_ASSIGNMENT, "1")
    named = list(permit.providers)
    arguments = {"providers": _attach(options, permit), "enable_fallback": 0}
    try:
        if ON_ANY_DEVICE.issuperset(named):
            session = InferenceSession(model, options, **arguments)
        else:
            from onnxruntime.backend import captured_graph  # EPs that need no device capture nothing  # noqa: PLC0415

            session = captured_graph.open_session(model, options, permit.providers, **arguments)
    except NotPermittedError:
        raise
    except (RuntimeError, ValueError) as error:
        # ORT's own exceptions, which say what is wrong with a model, are neither: this is an EP's.
        raise RuntimeError(
            f"provider_options names {', '.join(named) or 'no EP'}, with which ORT opened no session. "
            f"{_missing(named)} ORT says: {error}"
        ) from error
    if session.get_providers()[: len(named)] != named:
        _verify_order(session, named)
    return session


def explain(error: Exception) -> str | None:
    """Say what to do when ORT refused to open a session because of graph capture; ``None`` for other errors."""
    if "graph capture feature" not in str(error):
        return None
    return (
        "graph capture was asked for, and this model cannot be captured: every node must run on the EP that captures, "
        "but for those that compute shapes, and there may be no If, Loop or Scan. Prepare the model without it. ORT "
        f"says: {error}"
    )


def _attach(options: SessionOptions, permit: Permit) -> list[tuple[str, dict]] | None:
    """Lead each EP through the door that loses nothing of it.

    :return: what to pass as ``providers=``; ORT then ignores every EP that is attached to the session options.
    """
    granted = permit.providers
    plugins = [name for name in granted if permit.flavours[name] == "plugin"]
    # ORT registers TensorRT's plugin operators only for EPs that come in by this argument. CUDA and CPU can as well.
    if TENSORRT in granted and TENSORRT not in plugins:
        if plugins:
            refuse(
                f"it is named beside {', '.join(plugins)}, and ORT ignores plugin EPs where TensorRT is attached: name "
                "only one of them",
                "provider_options",
                TENSORRT,
            )
        return [(name, sent(grants)) for name, grants in granted.items()]
    for name, grants in granted.items():
        texts = sent(grants)
        chosen = _choose_device(name, plugin_devices(name), grants, texts) if name in plugins else None
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
                f"provider_options names {name}, which could not be attached. {_missing([name])} ORT says: {error}"
            ) from error
    return None


def _choose_device(name: str, devices: list, grants: Mapping[str, Grant], texts: dict[str, str]) -> object:
    """Choose a plugin EP's device: the one that ``device_id`` means, else the first. The WebGPU EP refuses two.

    :param grants: the EP's options.
    :param texts: what is sent of them, which loses ``device_id``: the EP would ignore or refuse it.
    """
    index = int(texts.pop("device_id", 0))
    if index >= len(devices):
        reason = f"the EP has {len(devices)} device(s), counted from 0"
        refuse(reason, "provider_options", name, "device_id", value=index)
    hardware = devices[index].device.type.name
    for option, grant in grants.items():
        if grant.rule.hardware not in ("", hardware):
            reason = f"it acts on a {grant.rule.hardware}, but device {index} of the EP is a {hardware}"
            refuse(f"{reason}, where it would be ignored", "provider_options", name, option)
    return devices[index]


def _verify_order(session: InferenceSession, named: list[str]) -> None:
    got = session.get_providers()
    missing = [name for name in named if name not in got]
    if missing:
        raise RuntimeError(
            f"provider_options names {', '.join(missing)}, but ORT opened the session with {', '.join(got)} alone. "
            f"{_missing(missing)}"
        )
    if [name for name in got if name in named] != named:
        raise RuntimeError(
            f"provider_options names {', '.join(named)} in this order, but ORT attached {', '.join(got)}"
        )


def read_back(session: InferenceSession, permit: Permit) -> Applied:
    """Compare what ORT reports with what was permitted, and warn of what has no effect.

    :raises RuntimeError: when ORT reports another value than was sent.
    """
    if not (permit.named or permit.session_config or permit.attributes or permit.idle):
        return NOTHING_APPLIED
    applied = Applied()
    unconfirmed: dict[str, tuple[str, ...]] = {}
    warnings: list[str] = []
    without_effect = permit.idle
    if permit.attributes:
        options = session.get_session_options()
        has = {name: getattr(options, name) for name in permit.attributes}
        applied.session_options = MappingProxyType(has)
        changed = {  # by ORT, for an EP that cannot have it
            name: f"{name} was set to {value}, and the session has {has[name]}"
            for name, value in permit.attributes.items()
            if has[name] != value
        }
        without_effect = {**permit.idle, "session_options": changed | permit.idle["session_options"]}
    if permit.session_config:
        held = session.get_session_options().get_session_config_entry
        for key, text in permit.session_config.items():
            if held(key) != text:
                raise RuntimeError(f"session_config[{key!r}] was sent as {text!r}, but ORT holds {held(key)!r}")
        applied.session_config = MappingProxyType(permit.session_config)
    if permit.named:
        everything = session.get_provider_options()
        reported = {}
        for name, grants in permit.providers.items():
            reported[name], silent = _reported(name, grants, everything.get(name, NOTHING))
            if silent:
                unconfirmed[name] = silent
        applied.provider_options = MappingProxyType(reported)
        named = list(permit.providers)
        if named not in ([], [CPU]):  # counting takes time with the model's size
            warnings += _without_nodes(session, named)
    for keyword, idle in without_effect.items():
        if idle:
            unconfirmed[keyword] = tuple(idle)
            warnings += idle.values()
    if unconfirmed:
        applied.unconfirmed = MappingProxyType(unconfirmed)
    if warnings:
        applied.warnings = tuple(warnings)
        for text in warnings:
            warn(text)
    return applied


def _reported(
    name: str, grants: Mapping[str, Grant], texts: Mapping[str, str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What ORT reports of the options that were named for an EP, and those that it does not report."""
    if not grants and "device_id" not in texts:
        return NOTHING, ()
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
    return MappingProxyType(shown), silent


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


def _without_nodes(session: InferenceSession, named: list[str]) -> Iterator[str]:
    """A warning for each named EP that took no node: ORT permits that, and silence would mislead."""
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
        yield f"{name} was named in provider_options and took no node of this model, which runs on {others}. {advice}"
