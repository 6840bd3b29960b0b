# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Determines the execution providers (EPs) that this process has, and whether each is built-in or a plugin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

import onnxruntime
from onnxruntime.backend import packages
from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.allowlist.rules import Texts
from onnxruntime.backend.errors import Place, reject, show, warn
from onnxruntime.backend.libraries import plugins
from onnxruntime.backend.provider_names import CPU, CUDA, CUDA_DEVICE, ON_CUDA_DEVICE
from onnxruntime.backend.request import of_environment, split_device
from onnxruntime.capi import _pybind_state

_EXCLUDE = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"
EXCLUDED = f"the environment variable {_EXCLUDE} excludes the execution providers of this device"
_NO_LIBRARY_PATH = ("1.24.0", "1.24.1", "1.24.2", "1.24.3")


def excluded() -> list[str]:
    """Return the EPs that the environment excludes."""
    names = os.environ.get(_EXCLUDE, "").split(",")
    return [name.strip() for name in names if name.strip()]


def process(available: Sequence[str]) -> Process:
    """Describe this process."""
    return Process(providers=stock_list(available), kinds=kinds())


def stock_list(available: Sequence[str]) -> tuple[str, ...]:
    """Return the EPs for a caller who specifies none: all built-in EPs except those that the environment excludes.

    Warn about an excluded name that no EP has, and about the CPU EP. ORT lists plugin EPs after the CPU EP, the last
    built-in EP. It would ignore them, or attach them in this order, so that they get no node.
    """
    without = excluded()
    for name in without:
        if name == CPU:
            warn(f"Environment variable {_EXCLUDE} cannot exclude {CPU}, which every session has")
        elif not (name in PROVIDERS or name in available or name in onnxruntime.get_all_providers()):
            similar = suggestions.similar_provider(name)
            warn(f"Environment variable {_EXCLUDE} excludes an unknown execution provider, {show(name)}{similar}")
    built_in = available[: available.index(CPU) + 1]
    return tuple(name for name in built_in if name not in without)


def plugin_devices(name: str | None = None) -> list:
    """Return the devices of a plugin EP, by default of all, whose library the application has registered.

    The metadata of a plugin EP's device contains the library's path. Before ORT 1.24.4 it does not, but the metadata of
    a built-in EP's device contains ORT's release.
    """
    devices = [device for device in onnxruntime.get_ep_devices() if name in (None, device.ep_name)]
    release = onnxruntime.__version__
    if release in _NO_LIBRARY_PATH:
        return [device for device in devices if device.ep_metadata.get("version") != release]
    return [device for device in devices if "library_path" in device.ep_metadata]


def kinds() -> dict[str, str]:
    """Return the EPs of this process, each with ``"built-in"`` or ``"plugin"``."""
    kind_of_ep = dict.fromkeys(onnxruntime.get_available_providers(), "built-in")
    for device in plugin_devices():
        kind_of_ep[device.ep_name] = "plugin"
    return kind_of_ep


def register_plugins_for(device: object) -> None:
    """Register the plugin EPs of the environment if one of them can add this device."""
    name, _ = split_device(device)
    if name in CUDA_DEVICE:
        with suppress(RuntimeError):  # prepare raises it
            plugins.register(of_environment().get("plugins", ()))


def check_devices(specified: Iterable[str], present: Texts) -> None:
    """Reject a specified plugin EP whose registered library found no device. No built-in EP of its name replaces it."""
    for name in specified:
        if present.get(name) == "plugin":
            continue
        # A built-in EP of its name can be present.
        if plugins.lacks_device(name) or (name not in present and _is_registered(name)):
            reject(Place("provider_options", name), f"the library of this plugin EP {plugins.NO_DEVICE}")


def _is_registered(name: str) -> bool:
    """Return whether a library with an EP of this name is registered."""
    with suppress(Exception):  # no registered library has an EP of this name, or ORT 1.24, which lacks the function
        if re.fullmatch(r"[\w.]{1,100}", name, re.ASCII):
            query = _pybind_state.get_hardware_device_ep_incompatibility_details
            query(name, onnxruntime.get_ep_devices()[0].device)
            return True
    return False


def reject_device(device: object, supported: list[str]) -> NoReturn:
    """Raise the error for a device that is not one of the devices that this ORT supports."""
    shown = show(device)
    near = suggestions.device(device, supported)
    problem = f"{shown} is not supported. {near}This ORT build supports: {', '.join(supported)}"
    is_cuda = shown.upper().startswith(("'CUDA", "'GPU"))
    if is_cuda and CUDA not in kinds():
        problem += f". {packages.advice(CUDA)}"
    reject(Place("device"), problem, shown)


def check_available(permit: Permit) -> None:
    """Check that this process has the specified EPs, and that the environment does not exclude them."""
    if not permit.explicit:
        return
    for name in permit.providers:
        place = Place("provider_options", name)
        if name != CPU and name in excluded():
            reject(place, f"the environment variable {_EXCLUDE} excludes it")
        if name not in permit.kinds:
            available = ", ".join(onnxruntime.get_available_providers())
            problem = f"the execution provider is not available in this process. Available: {available}"
            reject(place, f"{problem}. {packages.advice(name)}")


def supports_device(device: str, built_for: str) -> bool:
    """Return whether this ORT was built for a device, or has a registered plugin EP for it.

    As in ORT's own backend, a part of :func:`onnxruntime.get_device`, as in ``'CPU-OPENVINO_CPU'``, is a device, too.
    """
    if not issubclass(type(device), str):  # isinstance asks the object
        return False
    name, index = split_device(device)
    if name in CUDA_DEVICE:
        for ep in ON_CUDA_DEVICE:
            if len(plugin_devices(ep)) > (index or 0):
                return True
        name = "GPU"
    elif index:
        return False
    if not name:
        name = str.__str__(device)  # such as a member of an enum of str
    return name == built_for or f"-{name}" in built_for or f"{name}-" in built_for
