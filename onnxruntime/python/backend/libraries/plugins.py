# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Registers the libraries of plugin EPs, each once per process.

A library is code. Only the trusted environment can specify one: ``"plugins"`` in ``ORT_ONNX_BACKEND_CONFIG``, and
``python -m onnxruntime.backend --plugin``.
"""

import importlib
import os
import threading
from collections.abc import Iterable

import onnxruntime
from onnxruntime.backend.errors import FROM_ENVIRONMENT, show, warn
from onnxruntime.backend.libraries import extensions
from onnxruntime.backend.waiting import call_holding

NO_DEVICE = (
    "is registered, but found no device on this machine that it supports. ORT finds GPUs in the system's list of "
    "display devices (on Linux, /sys/class/drm), which containers and virtual machines may lack"
)
_EXPECTED = "expected a package, or EP=LIBRARY with an absolute path"

without_device: set[str] = set()  # the registered EPs that found no device
_registered: dict[str, tuple[str, str]] = {}  # by the text that specifies the plugin, its EP and its library
_lock = threading.RLock()


def _renew_lock() -> None:
    """Replace a lock that another thread held during a fork. The child has the registered libraries of its parent."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def check(names: Iterable[str]) -> dict[str, str]:
    """Return a sentence about each plugin that cannot be registered, without importing or loading anything."""
    sentences = {}
    eps = set()
    for name in dict.fromkeys(names):
        ep, equals, library = name.partition("=")
        problem = extensions.problem(library if equals else name)
        has_path = os.path.isabs(library)
        if not ep or os.path.isabs(ep) or has_path != bool(equals):
            problem = _EXPECTED
        elif equals and ep in eps:
            problem = f"another plugin has the name {ep}"
        eps.add(ep)
        if problem:
            sentences[name] = f"Plugin {show(name)} cannot be registered: {problem}"
    return sentences


def register(names: Iterable[str], origin: str = FROM_ENVIRONMENT) -> None:
    """Register plugins that this process has not registered, and warn about those that find no device.

    :param names: installed packages, such as ``onnxruntime_ep_openvino``, and ``EP=LIBRARY`` with an absolute path.
    :param origin: the end of an error, which names the place of the setting.
    """
    for name in names:
        if name in _registered:
            continue
        try:
            ep = call_holding(_lock, None, _register, name)
        except (Exception, SystemExit) as error:  # a package can raise anything
            problem = str(error) or type(error).__name__
            raise RuntimeError(f"Plugin {show(name)} cannot be registered: {problem}{origin}") from None
        if ep in without_device:
            warn(f"Plugin {show(name)} {NO_DEVICE}")


def _register(name: str) -> str:
    """Register a plugin, unless another text has specified it already, and return its EP."""
    ep, equals, library = name.partition("=")
    if not equals:
        ep, library = _of_package(name)
    if not ep or not os.path.isabs(library):
        raise ValueError(f"{_EXPECTED}, not {show(library)}")
    library = os.path.realpath(library)
    for other, plugin in _registered.items():
        if plugin[0] == ep and plugin[1] != library:
            raise ValueError(f"plugin {show(other)} has registered another library as {ep}. Specify one of them")
    if (ep, library) not in _registered.values():
        before = len(onnxruntime.get_ep_devices())
        onnxruntime.register_execution_provider_library(ep, library)
        if len(onnxruntime.get_ep_devices()) == before:
            without_device.add(ep)
    _registered[name] = ep, library
    return ep


def _of_package(name: str) -> tuple[str, str]:
    """Import a package, and return the name that its EP expects, and the EP's library."""
    extensions.check_name(name, "EP=LIBRARY")
    package = importlib.import_module(name)
    if not hasattr(package, "get_ep_name") or not hasattr(package, "get_library_path"):
        raise ValueError(
            "the package lacks get_ep_name() or get_library_path(). If its library contains an EP, specify "
            "EP=LIBRARY. If it contains custom operators, specify the package as an extension"
        )
    return package.get_ep_name(), os.fsdecode(package.get_library_path())
