# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Spies in place of ORT's classes. They record the settings that they receive."""

from __future__ import annotations

import copy
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend import backend
from onnxruntime.backend.allowlist.providers import PROVIDERS
from onnxruntime.backend.runs import settings


class Reached(BaseException):
    """A session would be created now. The class derives from no class that the backend handles."""


class Recorder:
    """Options of ORT that record the settings."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "record", {"attributes": {}, "entries": {}, "providers": {}})

    def __setattr__(self, name: str, value: object) -> None:
        self.record["attributes"][name] = value
        super().__setattr__(name, value)


class Options(Recorder, onnxruntime.SessionOptions):
    def add_session_config_entry(self, key: str, value: str) -> None:
        self.record["entries"][key] = value
        super().add_session_config_entry(key, value)

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        self.record["providers"][name] = options

    def add_provider_for_devices(self, devices: list, options: dict[str, str]) -> None:
        self.record["providers"][devices[0].ep_name] = options


class Session:
    def __init__(self, model: object, sess_options: Options, providers: list | None = None, **_: object) -> None:
        named = (provider for provider in providers or () if type(provider) is tuple)
        sess_options.record["providers"].update(named)
        record = copy.deepcopy(sess_options.record)
        # For graph capture, ORT writes the final graph to a new folder.
        if path := record["attributes"].pop("optimized_model_filepath", ""):
            weights = "session.optimized_model_external_initializers_"
            added = (record["entries"].pop(f"{weights}{key}") for key in ("file_name", "min_size_in_bytes"))
            expected = (Path(tempfile.gettempdir()), "weights", "16")
            unittest.TestCase().assertEqual((Path(path).parent.parent, *added), expected)
            disabled = "optimization.disable_specified_optimizers"
            if record["entries"][disabled] == "NchwcTransformer":
                del record["entries"][disabled]
        raise Reached(record)


class RunOptions(Recorder, onnxruntime.RunOptions):
    last: dict[str, dict[str, object]]  # the record of the newest object

    def __init__(self) -> None:
        super().__init__()
        RunOptions.last = self.record

    def add_run_config_entry(self, key: str, value: str) -> None:
        self.record["entries"][key] = value
        super().add_run_config_entry(key, value)


def spied(plugins: bool):
    """Return the spies for a build with every EP. With ``plugins``, each EP that can be a plugin is one."""
    kinded = {name for name, provider in PROVIDERS.items() if "plugin" in provider} if plugins else set()
    cpu = SimpleNamespace(type=onnxruntime.OrtHardwareDeviceType.CPU)
    devices = [SimpleNamespace(ep_name=name, ep_metadata={"library_path": "x"}, device=cpu) for name in kinded]
    return (
        mock.patch.object(backend, "SessionOptions", Options),
        mock.patch.object(backend, "InferenceSession", Session),
        mock.patch.object(settings, "RunOptions", RunOptions),
        mock.patch.object(onnxruntime, "get_available_providers", lambda: [*PROVIDERS]),
        mock.patch.object(onnxruntime, "get_ep_devices", lambda: devices, create=True),
    )
