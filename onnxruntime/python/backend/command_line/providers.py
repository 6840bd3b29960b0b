# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The EPs of this process: their short names and kinds, and the registration of plugin EPs."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re

import onnxruntime
from onnxruntime.backend.allowlist.refusals.suggestions import provider_named
from onnxruntime.backend.command_line.output import MistakeError
from onnxruntime.backend.errors import warn
from onnxruntime.backend.provider_names import CUDA
from onnxruntime.backend.session import presence


def full_name(text: str) -> str:
    """Return the EP with a short name such as ``cuda``; the text itself if there is none."""
    return provider_named(text, kinds()) or text


def kinds() -> dict[str, str]:
    """Return the EPs of this process, each with its kind: ``"built-in"`` or ``"plugin"``."""
    devices = onnxruntime.get_ep_devices()
    names = [*onnxruntime.get_available_providers(), *(device.ep_name for device in devices)]
    return {name: presence.kind_of(name) for name in dict.fromkeys(names)}


def preload() -> None:
    """Load the CUDA libraries of NVIDIA's packages, as ``onnxruntime.preload_dlls`` does, if the build has CUDA."""
    if CUDA in onnxruntime.get_available_providers():
        # If a library is missing, the EP's own error is more specific than the function's output.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            onnxruntime.preload_dlls()


def register(plugin: str) -> str:
    """Register a plugin EP from a package or ``EP=LIBRARY``. If it finds no device, warn and return its name."""
    name, _, library = plugin.partition("=")
    try:
        if not library:
            name, library = _of_package(name)
        before = len(onnxruntime.get_ep_devices())
        onnxruntime.register_execution_provider_library(name, os.path.abspath(library))
    except Exception as error:  # ORT raises classes without a common base
        raise MistakeError(f"--plugin {plugin}: {error}") from None
    if len(onnxruntime.get_ep_devices()) > before:
        return ""
    warn(f"--plugin {plugin}: the library is registered, but the EP found no device on this machine that it supports")
    return name


def _of_package(name: str) -> tuple[str, str]:
    """Return the name that an EP expects for itself, and its library."""
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        hint = "" if os.sep in name else f" such as {re.sub('[-.]+', '_', name)}"
        raise MistakeError(f"invalid package name. Expected a Python package{hint}, or EP=LIBRARY")
    package = importlib.import_module(name)
    if hasattr(package, "get_ep_name") and hasattr(package, "get_library_path"):
        return package.get_ep_name(), package.get_library_path()
    if hasattr(package, "get_library_path"):
        raise MistakeError(f"the package contains custom operators, and no EP. Use: run --extension {name}")
    raise MistakeError("the package has no get_ep_name() and get_library_path(). Expected --plugin EP=LIBRARY")
