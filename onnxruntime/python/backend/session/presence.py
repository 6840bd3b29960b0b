# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Determines the execution providers (EPs) that this process has, and whether each is built-in or a plugin."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import onnxruntime
from onnxruntime.backend import packages
from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.tables import PROVIDERS
from onnxruntime.backend.environment import variable
from onnxruntime.backend.errors import Place, reject, show, warn
from onnxruntime.backend.libraries import plugins
from onnxruntime.backend.provider_names import CPU, CUDA, CUDA_DEVICE, ON_CUDA_DEVICE
from onnxruntime.backend.request import split_device

_EXCLUDE = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"
EXCLUDED = f"the environment variable {_EXCLUDE} excludes the execution providers of this device"
_NO_LIBRARY_PATH = ("1.24.0", "1.24.1", "1.24.2", "1.24.3")


def excluded() -> list[str]:
    """Return the EPs that the environment excludes."""
    names = os.environ.get(_EXCLUDE, "").split(",")
    return [name.strip() for name in names if name.strip()]


def process(available: Sequence[str]) -> Process:
    """Describe this process."""
    return Process(providers=default_providers(available), kinds=kinds())


def default_providers(available: Sequence[str]) -> tuple[str, ...]:
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


def reject_device(device: object, supported: list[str]) -> NoReturn:
    """Raise the error for a device that is not one of the devices that this ORT supports."""
    shown = show(device)
    problem = (
        f"{shown} is not supported. This ORT build supports: {', '.join(supported)}. To choose execution providers, "
        "pass provider_options, as in provider_options={'CPUExecutionProvider': {}}"
    )
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
        # A built-in EP of the same name does not replace it.
        if permit.kinds.get(name) != "plugin" and name in plugins.without_device:
            reject(place, f"the library of this plugin EP {plugins.NO_DEVICE}")
        if name not in permit.kinds:
            available = ", ".join(onnxruntime.get_available_providers())
            problem = f"the execution provider is not available in this process. Available: {available}"
            reject(place, f"{problem}. {packages.advice(name)}")


def supports_device(device: str, built_for: str) -> bool:
    """Return whether this ORT was built for a device, or has a plugin EP for it.

    As in ORT's own backend, a part of :func:`onnxruntime.get_device`, as in ``'CPU-OPENVINO_CPU'``, is a device, too.
    """
    if not issubclass(type(device), str):  # isinstance asks the object
        return False
    name, index = split_device(device)
    on_cuda = name in CUDA_DEVICE
    if index and not on_cuda:
        return False
    name = "GPU" if on_cuda else name or str.__str__(device)  # such as a member of an enum of str
    if name == built_for or f"-{name}" in built_for or f"{name}-" in built_for:
        return True
    return on_cuda and _has_plugin_device(index or 0)


def _has_plugin_device(index: int) -> bool:
    """Register the plugins of the environment, and return whether an EP on CUDA has a device of this index."""
    with suppress(RuntimeError):  # prepare raises it
        plugins.register(variable.read().get("plugins", ()))
    return any(len(plugin_devices(ep)) > index for ep in ON_CUDA_DEVICE)
