# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Processes in which ORT reports other EPs than it has, for tests that need no hardware."""

import contextlib
from types import SimpleNamespace
from unittest import mock

import onnxruntime
import onnxruntime.backend
from helpers.execution_providers import CPU
from helpers.models import two_nodes
from onnxruntime.backend import backend, parts, request
from onnxruntime.backend.allowlist import conditions
from onnxruntime.backend.allowlist.facts import RELEASE, Process
from onnxruntime.backend.allowlist.look_up import Allowlist, permit_of
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.applied import settings
from onnxruntime.backend.session import creation, presence

AZURE = "AzureExecutionProvider"  # it takes no node that an ordinary model has
CUDA = "CUDAExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
QNN = "QNNExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
UNKNOWN = "UnheardOfExecutionProvider"
IDLE = (AZURE,) if AZURE in onnxruntime.get_available_providers() else ()  # as in builds for the CPU


def prepare(options: object, device: str | None = None, **keywords):
    return onnxruntime.backend.prepare(two_nodes(), device, provider_options=options, **keywords)


def device_of(name: str, plugin: bool = True, hardware: str = "CPU") -> SimpleNamespace:
    return SimpleNamespace(
        ep_name=name,
        ep_metadata={"library_path": "lib.so"} if plugin else {"version": onnxruntime.__version__},
        device=SimpleNamespace(type=getattr(onnxruntime.OrtHardwareDeviceType, hardware)),
    )


@contextlib.contextmanager
def process_with(bundled: tuple[str, ...] = (), plugins: tuple[str, ...] = (), build: str = "CPU", devices=()):
    """A process in which ORT reports these EPs. A plugin EP that is listed twice has two devices.

    No session has parts, which have tests of their own.
    """
    here = [*(device_of(name) for name in plugins), *devices]
    available = [*bundled, CPU, *dict.fromkeys(plugins)]
    with (
        mock.patch.object(conditions, "has_global_lock", return_value=True),
        mock.patch.object(parts, "for_permit", return_value=[]),
        mock.patch.object(onnxruntime, "get_available_providers", lambda: available),
        mock.patch.object(onnxruntime, "get_ep_devices", lambda: here),
        mock.patch.object(backend, "get_available_providers", lambda: available),
        mock.patch.object(backend, "get_device", lambda: build),
        mock.patch.object(settings, "get_device", lambda: build),
    ):
        yield here


def permit(options: dict | None, device: str | None = None, release: tuple[int, int] = RELEASE) -> Permit:
    asked = request.read_call({"provider_options": options}, device=device)
    permitted = permit_of(asked, Allowlist(Process(release, kinds=presence.kinds())))
    presence.check_available(permitted)
    return permitted


class Opened(SimpleNamespace):
    """A session that supports weak references, unlike its base class."""


def opened(options: dict, got: list[str] | None = None) -> tuple[mock.Mock, dict]:
    """Create a session that has the EPs ``got``, and return the options and arguments that ORT received."""
    noted, keywords = mock.Mock(), {}

    def session(_model, *, sess_options, **given):
        keywords.update(given)
        providers = [*options, CPU] if got is None else got
        return Opened(
            get_providers=lambda: providers,
            _providers=providers,
            get_provider_options=lambda: {name: {} for name in providers},
            _sess=SimpleNamespace(is_webgpu_graph_capture_enabled=lambda: False),
        )

    creation.create(b"", permit(options), noted, [], session_class=session)
    return noted, keywords
